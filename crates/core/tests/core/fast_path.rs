//! Reads that memory answers: the fields alone are those of the whole answer, and as hard to get.

use kallisto_core::json::member;
use kallisto_core::{AuditBatch, Denial, EngineKind, Error, Operation, Request, Response};

use super::support::{Site, TOKEN, ask_as, request_of};

/// What a read of the fields alone says.
fn fields(site: &Site, token: &str, path: &str) -> Option<Result<Response, Error>> {
    let request = request_of(token, 0, Operation::Read, path, "");
    let reads = site.core.fast_reads().unwrap();
    match reads.bearer(request.token, request.remote, request.now)? {
        Ok(bearer) => bearer.read_fields(&request, &mut AuditBatch::default()),
        Err(refusal) => Some(Err(refusal)),
    }
}

fn data(answer: Option<Result<Response, Error>>) -> String {
    match answer {
        Some(Ok(Response::Logical(reply))) => String::from_utf8(reply.data).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fields_alone_are_those_of_the_whole_answer_in_memory_or_not() {
    // In a table with no room every secret is read from the store.
    for hot_bytes_max in [1 << 20, 0] {
        let site = Site::open(hot_bytes_max);
        site.put("a", "one");
        let whole = site.get("a").unwrap();
        let expected = member(whole.as_bytes(), "data").unwrap();
        let alone = data(fields(&site, TOKEN, "secret/data/a"));
        assert_eq!(alone.as_bytes(), expected);
        assert_eq!(alone, r#"{"v":"one"}"#);
        // Whoever is gone shows nothing.
        site.ask(Operation::Delete, "secret/data/a", "").unwrap();
        match fields(&site, TOKEN, "secret/data/a") {
            Some(Ok(Response::Missing(gone))) => {
                assert_eq!(member(&gone.data, "data"), Some(b"null".as_slice()));
            }
            other => panic!("{other:?}"),
        }
        let none = fields(&site, TOKEN, "secret/data/none");
        assert!(matches!(none, Some(Err(Error::NotFound))), "{none:?}");
    }
}

#[test]
fn fields_alone_take_the_right_to_the_whole() {
    let site = Site::open(1 << 20);
    site.put("mine/a", "one");
    site.put("theirs/a", "two");
    let policy = r#"{"policy":"path \"secret/data/mine/*\" { capabilities = [\"read\"] }"}"#;
    site.ask(Operation::Update, "sys/policies/acl/mine", policy).unwrap();
    let make = r#"{"policies":["mine"],"id":"limited"}"#;
    site.ask(Operation::Update, "auth/token/create", make).unwrap();
    assert_eq!(data(fields(&site, "limited", "secret/data/mine/a")), r#"{"v":"one"}"#);
    for (token, path, denial) in [
        ("limited", "secret/data/theirs/a", Denial::Policy),
        ("nobody", "secret/data/mine/a", Denial::BadToken),
    ] {
        match fields(&site, token, path) {
            Some(Err(Error::Denied(why))) => assert_eq!(why, denial, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    // What is no read of a secret goes the long way.
    assert!(fields(&site, TOKEN, "sys/health").is_none());
    assert!(fields(&site, TOKEN, "auth/token/lookup-self").is_none());
    let mut help = request_of(TOKEN, 0, Operation::Read, "secret/data/mine/a", "");
    help.query = vec![("help".to_owned(), "true".to_owned())];
    assert!(site.core.read_fast(&help, &mut AuditBatch::default()).is_none());
    pollster::block_on(site.core.seal()).unwrap();
    assert!(site.core.fast_reads().is_none());
}

#[test]
fn a_bearer_reads_from_every_mount_whichever_came_first() {
    let site = Site::open(1 << 20);
    site.put("a", "two");
    site.ask(Operation::Update, "sys/mounts/old", r#"{"type":"kv"}"#).unwrap();
    site.ask(Operation::Update, "old/a", r#"{"v":"one"}"#).unwrap();
    let reads = site.core.fast_reads().unwrap();
    let asked = |path| request_of(TOKEN, 0, Operation::Read, path, "");
    let Request { token, remote, now, .. } = asked("");
    for first in ["secret/", "old/", "none/"] {
        let bearer = reads.bearer(token, remote, now).unwrap().unwrap();
        let kind = match first {
            "secret/" => Some(EngineKind::KV_V2),
            "old/" => Some(EngineKind::KV_V1),
            _ => None,
        };
        assert_eq!(bearer.engine_at(first), kind);
        for _ in 0..2 {
            let read = |path| bearer.read_fields(&asked(path), &mut AuditBatch::default());
            assert_eq!(data(read("secret/data/a")), r#"{"v":"two"}"#);
            assert_eq!(data(read("old/a")), r#"{"v":"one"}"#);
            assert!(read("older/a").is_none(), "at which nothing is mounted");
            assert!(matches!(read("old/none"), Some(Err(Error::NotFound))));
        }
    }
}

fn read_fast(site: &Site, token: &str, path: &str) -> Option<Result<Response, Error>> {
    let request = request_of(token, 0, Operation::Read, path, "");
    site.core.read_fast(&request, &mut AuditBatch::default())
}

#[test]
fn what_is_counted_or_may_lead_into_a_namespace_goes_the_long_way() {
    let site = Site::open(1 << 20);
    site.put("a", "one");
    let few = r#"{"id":"few","policies":["root"],"num_uses":3}"#;
    site.ask(Operation::Update, "auth/token/create", few).unwrap();
    assert!(read_fast(&site, "few", "secret/data/a").is_none(), "a read is a use");
    assert!(read_fast(&site, TOKEN, "secret/data/a").is_some());
    site.ask(Operation::Update, "sys/quotas/rate-limit/q", r#"{"rate":1000}"#).unwrap();
    assert!(site.core.fast_reads().is_none() && read_fast(&site, TOKEN, "secret/data/a").is_none());
    site.ask(Operation::Delete, "sys/quotas/rate-limit/q", "").unwrap();
    assert!(site.core.fast_reads().is_some());
    site.ask(Operation::Update, "sys/namespaces/team", "{}").unwrap();
    assert!(site.core.fast_reads().is_none());
}

#[test]
fn who_is_nobody_reads_what_is_open_and_is_refused_the_rest_at_once() {
    let site = Site::open(1 << 20);
    site.put("a", "one");
    site.ask(Operation::Update, "sys/mounts/pki", r#"{"type":"pki"}"#).unwrap();
    let root = r#"{"common_name":"ca.example","key_type":"ec"}"#;
    let path = "pki/root/generate/internal";
    // A certificate is good from a while before it is made.
    ask_as(&site.core, TOKEN, 1_000_000, Operation::Update, path, root).unwrap();
    let whole = site.ask(Operation::Read, "pki/ca/pem", "").unwrap();
    let fast = read_fast(&site, "nobody", "pki/ca/pem");
    assert_eq!(
        fast.map(|answer| format!("{answer:?}")),
        Some(format!("{:?}", Ok::<_, Error>(whole)))
    );
    let refused = read_fast(&site, "nobody", "secret/data/a");
    assert!(matches!(refused, Some(Err(Error::Denied(Denial::BadToken)))), "{refused:?}");
    let device = r#"{"type":"file","options":{"file_path":"discard"}}"#;
    site.ask(Operation::Update, "sys/audit/d", device).unwrap();
    assert!(read_fast(&site, "nobody", "secret/data/a").is_none(), "it is written down first");
    let mut gathered = AuditBatch::default();
    let request = request_of(TOKEN, 0, Operation::Read, "secret/data/a", "");
    assert!(matches!(site.core.read_fast(&request, &mut gathered), Some(Ok(_))));
    assert_eq!(gathered.len(), 1, "its records are written with those of others");
    assert!(pollster::block_on(site.core.write_gathered(gathered)));
}
