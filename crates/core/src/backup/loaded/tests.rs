//! A snapshot is loaded next to a server, and secrets are read and recovered from it.

use jiff::{SignedDuration, Timestamp};
use kallisto_auth::Operation::{self, Delete, List, Read, Recover, Update};
use kallisto_backup::{FileWriter, TAG};
use kallisto_engine::{Admits, Route};
use kallisto_store::{BackupHead, BackupWriter, Chunks, Visit};

use super::begin;
use crate::api::error::{Denial, Error};
use crate::api::request::{HeaderSource, Headers, Request};
use crate::api::response::Response;
use crate::platform::server_info::RouteAccess;
use crate::routes::tests::{ROOT, ask, open_core, request, rows, sample};
use crate::state::Core;

/// A backup of a server.
fn backup_of(core: &Core) -> Vec<u8> {
    let context = core.context.load_full().unwrap();
    let mut records = Vec::new();
    core.store
        .scan(&[], &mut |key, record| {
            records.push((Box::from(key), record.clone()));
            Visit::Continue
        })
        .unwrap();
    let head = BackupHead { store_id: [1; 16], index: 7, term: 1 };
    let mut chunks = BackupWriter::new(head, records.into_iter());
    let mut out = Vec::new();
    let mut file = FileWriter::begin(br#"{"Index":7}"#, &mut out);
    while let Some(chunk) = chunks.next_chunk().unwrap() {
        file.put_chunk(&chunk, &mut out);
    }
    let key = context.root.tag_key(TAG).unwrap();
    file.end(|sums| key.sign(sums), &mut out);
    out
}

/// Loads a file; its id.
fn load(core: &Core, file: &[u8]) -> Result<String, Error> {
    let context = core.context.load_full().unwrap();
    let Response::Upload(mut upload) = begin(core, &context, Timestamp::UNIX_EPOCH)? else {
        panic!("no upload")
    };
    drop(context);
    let answer = pollster::block_on(async {
        for piece in file.chunks(1000) {
            upload.take(piece).await?;
        }
        upload.finish().await
    })?;
    let Response::Logical(logical) = answer else { panic!("{answer:?}") };
    let text = String::from_utf8(logical.data).unwrap();
    assert!(text.contains(r#""status":"ready""#) && text.contains(r#""index":7"#), "{text}");
    let (_, id) = text.split_once(r#""snapshot_id":""#).unwrap();
    Ok(id.split_once('"').unwrap().0.to_owned())
}

struct Named(Vec<(&'static str, String)>);

impl HeaderSource for Named {
    fn values(&self, name: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(named, _)| *named == name);
        found.map(|(_, value)| value.clone()).collect()
    }
}

fn text(answer: Result<Response, Error>) -> String {
    match answer {
        Ok(Response::Logical(logical) | Response::Missing(logical)) => {
            String::from_utf8(logical.data).unwrap()
        }
        answer => panic!("{answer:?}"),
    }
}

/// A read or a list from a snapshot.
fn read(core: &Core, operation: Operation, path: &str, id: &str) -> Result<Response, Error> {
    let query = vec![("read_snapshot_id".to_owned(), id.to_owned())];
    let request = Request { query, ..request(Some(ROOT), operation, path, "") };
    pollster::block_on(core.handle(&request))
}

/// A recovery.
fn recover(
    core: &Core,
    token: &str,
    path: &str,
    headers: Vec<(&'static str, String)>,
) -> Result<Response, Error> {
    let named = Named(headers);
    let body = r#"{"data":{"not":"written"}}"#;
    let request =
        Request { headers: Headers::of(&named), ..request(Some(token), Recover, path, body) };
    pollster::block_on(core.handle(&request))
}

fn by_id(id: &str) -> Vec<(&'static str, String)> {
    vec![("x-vault-recover-snapshot-id", id.to_owned())]
}

fn put(core: &Core, path: &str, data: &str) {
    ask(core, Some(ROOT), Update, path, data).unwrap();
}

fn filled() -> Core {
    let core = open_core(RouteAccess::Token);
    for number in 1..=3 {
        put(&core, "secret/data/f/a", &format!(r#"{{"data":{{"n":{number}}}}}"#));
    }
    put(&core, "secret/data/f/deep/b", r#"{"data":{"b":true}}"#);
    put(&core, "one/app", r#"{"x":"then"}"#);
    core
}

#[test]
fn a_folder_comes_back_with_every_version_and_the_rest_stays() {
    let core = filled();
    let file = backup_of(&core);
    let metadata = text(ask(&core, Some(ROOT), Read, "secret/metadata/f/a", ""));
    for path in ["secret/metadata/f/a", "secret/metadata/f/deep/b", "one/app"] {
        ask(&core, Some(ROOT), Delete, path, "").unwrap();
    }
    put(&core, "secret/data/f/new", r#"{"data":{}}"#);
    let id = load(&core, &file).unwrap();
    assert!(text(read(&core, Read, "secret/data/f/a", &id)).starts_with(r#"{"data":{"n":3}"#));
    assert_eq!(text(read(&core, List, "secret/metadata/f", &id)), r#"{"keys":["a","deep/"]}"#);
    assert_eq!(text(read(&core, Read, "one/app", &id)), r#"{"x":"then"}"#);
    assert!(matches!(read(&core, Read, "secret/data/f/new", &id), Err(Error::NotFound)));
    assert!(ask(&core, Some(ROOT), Read, "one/app", "").is_err());

    let folder = |more: &str| {
        let body = format!(r#"{{"snapshot_id":"{id}","path":"secret/f/"{more}}}"#);
        ask(&core, Some(ROOT), Update, "sys/kallisto/kv/recover", &body)
    };
    let before = core.store.position();
    let told = text(folder(r#","dry_run":true"#));
    assert!(told.contains(r#""count":2,"dry_run":true"#), "{told}");
    assert_eq!(told.matches(r#""outcome":"created""#).count(), 2, "{told}");
    assert!(
        matches!(folder(r#","count":3"#), Err(Error::Invalid(why)) if why.contains("2 secrets"))
    );
    assert_eq!(core.store.position(), before);
    let told = text(folder(""));
    assert_eq!(told.matches(r#""outcome":"created""#).count(), 2, "{told}");
    assert_eq!(core.store.position().0, before.0 + 1, "it is one batch");
    assert_eq!(text(ask(&core, Some(ROOT), Read, "secret/metadata/f/a", "")), metadata);
    assert!(ask(&core, Some(ROOT), Read, "secret/data/f/new", "").is_ok());
    assert_eq!(text(folder("")).matches("unchanged").count(), 2);
    assert_eq!(core.store.position().0, before.0 + 1);
    text(recover(&core, ROOT, "one/app", by_id(&id)));
    assert_eq!(text(ask(&core, Some(ROOT), Read, "one/app", "")), r#"{"x":"then"}"#);
}

#[test]
fn a_secret_is_recovered_to_another_place_and_one_without_versions_only_where_it_differs() {
    let core = filled();
    let id = load(&core, &backup_of(&core)).unwrap();
    let there = |from: &str, to: &str| {
        let body = format!(r#"{{"snapshot_id":"{id}","from":"{from}","path":"{to}"}}"#);
        text(ask(&core, Some(ROOT), Update, "sys/kallisto/kv/recover", &body))
    };
    let told = there("secret/f/deep/b", "secret/elsewhere");
    assert!(told.contains(r#""from":"secret/f/deep/b""#), "{told}");
    let copy = text(ask(&core, Some(ROOT), Read, "secret/data/elsewhere", ""));
    assert!(copy.starts_with(r#"{"data":{"b":true}"#), "{copy}");
    let told = there("one/app", "one/other");
    assert!(told.contains(r#""outcome":"created""#), "{told}");
    assert_eq!(text(ask(&core, Some(ROOT), Read, "one/other", "")), r#"{"x":"then"}"#);
    // The path itself where no other is named, in both spellings.
    for from in ["", "one/app"] {
        let before = core.store.position();
        let told = there(from, "one/app");
        assert!(told.contains(r#""outcome":"unchanged""#), "{told}");
        assert_eq!(core.store.position(), before);
    }
    for (from, to, why) in [
        ("one/app", "secret/app", "is of another kind"),
        ("secret/f/", "secret/g", "'path' must end in / too"),
        ("secret/f/a", "secret/g/", "'from' must end in / too"),
    ] {
        let body = format!(r#"{{"snapshot_id":"{id}","from":"{from}","path":"{to}"}}"#);
        let refused = ask(&core, Some(ROOT), Update, "sys/kallisto/kv/recover", &body);
        let Err(Error::Invalid(told)) = refused else { panic!("{from} {to}: {refused:?}") };
        assert!(told.contains(why), "{told}");
    }
    put(&core, "one/app", r#"{"x":"now"}"#);
    let told = there("", "one/app");
    assert!(told.contains(r#""outcome":"replaced""#), "{told}");
    assert_eq!(text(ask(&core, Some(ROOT), Read, "one/app", "")), r#"{"x":"then"}"#);
}

#[test]
fn a_write_that_names_a_snapshot_recovers_and_takes_the_right_to() {
    let core = filled();
    let file = backup_of(&core);
    put(&core, "secret/data/f/a", r#"{"data":{"n":"spoilt"}}"#);
    let id = load(&core, &file).unwrap();
    for (name, capabilities) in
        [("writer", r#"["create","update","read"]"#), ("mender", r#"["recover"]"#)]
    {
        let rule = format!(
            r#"path \"secret/data/*\" {{ capabilities = {} }}"#,
            capabilities.replace('"', r#"\""#)
        );
        put(&core, &format!("sys/policies/acl/{name}"), &format!(r#"{{"policy":"{rule}"}}"#));
        put(&core, "auth/token/create", &format!(r#"{{"id":"{name}","policies":["{name}"]}}"#));
    }
    let refused = recover(&core, "writer", "secret/data/f/a", by_id(&id));
    assert!(matches!(refused, Err(Error::Denied(Denial::Policy))), "{refused:?}");
    let told = text(recover(&core, "mender", "secret/data/f/a", by_id(&id)));
    assert!(told.contains(r#""new_version":5"#), "{told}");
    assert!(text(ask(&core, Some(ROOT), Read, "secret/data/f/a", "")).contains(r#""n":3"#));
    // Another path in the snapshot takes the right to read there.
    let mut from = by_id(&id);
    from.push(("x-vault-recover-source-path", "secret/data/f/a".to_owned()));
    let refused = recover(&core, "mender", "secret/data/copy", from.clone());
    assert!(matches!(refused, Err(Error::Denied(Denial::Policy))), "{refused:?}");
    let answer = recover(&core, ROOT, "secret/data/copy", from);
    let Ok(Response::Logical(logical)) = &answer else { panic!("{answer:?}") };
    // The audit record names both.
    let touched: Vec<_> =
        logical.touched.iter().map(|touched| (touched.operation, touched.path.as_str())).collect();
    assert_eq!(touched, [(Read, "secret/data/f/a"), (Update, "secret/data/copy")]);
    let told = text(answer);
    assert!(
        told.contains(r#""outcome":"created""#) && told.contains(r#""path":"secret/copy""#),
        "{told}"
    );
    // What cannot recover writes nothing else.
    for (path, says) in [
        ("secret/config", "at data/:path"),
        ("sys/policies/acl/x", "nothing can be read or recovered"),
        ("secret/data/none", ""),
    ] {
        let before = core.store.position();
        let answer = recover(&core, ROOT, path, by_id(&id));
        match answer {
            Err(Error::Invalid(why)) => assert!(why.contains(says), "{path}: {why}"),
            Err(Error::NotFound) => assert!(says.is_empty(), "{path}"),
            answer => panic!("{path}: {answer:?}"),
        }
        assert_eq!(core.store.position(), before);
    }
    let unknown = recover(&core, ROOT, "secret/data/f/a", by_id("nosuch"));
    assert!(matches!(unknown, Err(Error::Invalid(why)) if why.contains("no snapshot nosuch")));
}

#[test]
fn nothing_but_a_secret_is_recovered_at_any_route() {
    let core = filled();
    let id = load(&core, &backup_of(&core)).unwrap();
    let named = Named(by_id(&id));
    let answer = |token, path: &str, headers| {
        let request = Request { headers, ..request(token, Recover, path, "{}") };
        pollster::block_on(core.handle(&request))
    };
    let refused = |(base, row): (&str, &Route), token| {
        let path = sample(base, row);
        let answer = answer(token, &path, Headers::of(&named));
        let is_kv = base == "secret/" || base == "one/";
        match (&answer, row.admits) {
            (Err(Error::Invalid(_)), _) => {}
            (Err(Error::NotFound), _) if is_kv => {}
            (Err(Error::Denied(_)), admits) if token.is_none() && admits != Admits::Anyone => {}
            _ => panic!("{path} {token:?}: {answer:?}"),
        }
    };
    let before = core.store.position();
    for row in rows() {
        refused(row, None);
        refused(row, Some(ROOT));
    }
    assert_eq!(core.store.position(), before);
    let query =
        vec![("read_snapshot_id".to_owned(), id.clone()), ("wait".to_owned(), "1s".to_owned())];
    let waits = Request { query, ..request(Some(ROOT), Read, "secret/data/f/a", "") };
    let waits = pollster::block_on(core.handle(&waits));
    assert!(
        matches!(&waits, Err(Error::Invalid(why)) if why.contains("does not change")),
        "{waits:?}"
    );
    for path in ["sys/health", "sys/internal/ui/mounts", "sys/capabilities-self", "pki/ca"] {
        let answer = read(&core, Read, path, &id);
        assert!(matches!(answer, Err(Error::Invalid(_))), "{path}: {answer:?}");
    }
    // Nor is anything without a snapshot.
    let unnamed = answer(Some(ROOT), "secret/data/f/a", Headers::default());
    assert!(matches!(unnamed, Err(Error::Invalid(_))), "{unnamed:?}");
    pollster::block_on(core.seal()).unwrap();
    for path in ["sys/unseal", "sys/init", "sys/health", "sys/seal-status"] {
        let refused = answer(None, path, Headers::of(&named));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{path}: {refused:?}");
    }
    let sealed = answer(Some(ROOT), "secret/data/f/a", Headers::of(&named));
    assert!(matches!(sealed, Err(Error::Sealed)), "{sealed:?}");
}

#[test]
fn there_is_room_for_one_until_its_end_or_a_seal() {
    let core = filled();
    let file = backup_of(&core);
    let id = load(&core, &file).unwrap();
    assert!(matches!(load(&core, &file), Err(Error::Invalid(why)) if why.contains(&id)));
    let after = |secs| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(secs);
    assert!(core.loaded.find(&id, after(super::LOADED_SECS - 1)).is_ok());
    assert!(core.loaded.find(&id, after(super::LOADED_SECS)).is_err());
    super::end_due(&core, after(super::LOADED_SECS - 1));
    assert!(core.loaded.any().is_some());
    super::end_due(&core, after(super::LOADED_SECS));
    assert!(core.loaded.any().is_none());
    let id = load(&core, &file).unwrap();
    assert!(super::unload(&core, &id).is_ok());
    assert!(matches!(super::unload(&core, &id), Err(Error::NotFound)));
    load(&core, &file).unwrap();
    pollster::block_on(core.seal()).unwrap();
    assert!(core.loaded.any().is_none());
}

#[test]
fn what_is_not_whole_or_of_another_cluster_is_refused_and_leaves_the_place_free() {
    let core = filled();
    let file = backup_of(&core);
    let refused = |file: &[u8], says: &str| match load(&core, file) {
        Err(Error::Invalid(why)) => assert!(why.contains(says), "{why}"),
        answer => panic!("{answer:?}"),
    };
    refused(&backup_of(&filled()), "of another cluster");
    refused(&file[..file.len() - 40], "cut short");
    let mut flipped = file.clone();
    let at = flipped.len() / 2;
    flipped[at] ^= 1;
    refused(&flipped, "not loaded");
    refused(b"no snapshot at all", "not loaded");
    load(&core, &file).unwrap();
}
