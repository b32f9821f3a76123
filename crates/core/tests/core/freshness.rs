//! A server that was not told for too long what the cluster committed answers nothing from its view, but to those who ask for it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_core::{
    CONSISTENCY_HEADER, Core, Denial, Error, HeaderSource, Headers, InitSpec, Json, KvVersion,
    NextPiece, Operation, Patience, Request, Response, STALE, ServerInfo, Stale,
};

use kallisto_store::Replicated;

use crate::aged::AgedStore;
use crate::support::{TOKEN, request_of, whole_core};

const MAX: Duration = Duration::from_secs(10);
const NANO: Duration = Duration::from_nanos(1);

/// A client that takes answers of any age.
pub(crate) struct AskingForStale;

impl HeaderSource for AskingForStale {
    fn values(&self, name: &str) -> Vec<String> {
        if name == CONSISTENCY_HEADER { vec![STALE.to_owned()] } else { Vec::new() }
    }
}

/// A core with a secret, a policy and two tokens.
fn site() -> (Arc<AgedStore>, Core) {
    let (store, core, _) = site_with_key();
    (store, core)
}

/// The same, and what unseals it.
fn site_with_key() -> (Arc<AgedStore>, Core, String) {
    let store = Arc::<AgedStore>::default();
    let info = ServerInfo { max_staleness: MAX, ..ServerInfo::default() };
    let core = whole_core(Arc::clone(&store) as _, info);
    let root_token = Some(TOKEN.to_owned().into());
    let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv: Some(KvVersion::V2) };
    let made = pollster::block_on(core.initialize(&spec, Timestamp::UNIX_EPOCH)).unwrap();
    let keys = kallisto_core::Initialized::hex(&made.keys);
    let update = |path: &str, body: &str| {
        let request = request_of(TOKEN, 0, Operation::Update, path, body);
        pollster::block_on(core.handle(&request)).unwrap()
    };
    let key = format!(r#"{{"key":"{}"}}"#, keys[0]);
    update("sys/unseal", &key);
    update("secret/data/a", r#"{"data":{"v":"one"}}"#);
    for (name, stale_reads) in [("lax", ""), ("firm", "stale_reads = \\\"deny\\\"")] {
        let rule = r#"path \"secret/*\" { capabilities = [\"read\"] }"#;
        let body = format!(r#"{{"policy":"{stale_reads}\n{rule}"}}"#);
        update(&format!("sys/policies/acl/{name}"), &body);
        let both = if name == "firm" { r#""lax","firm""# } else { r#""lax""# };
        let body = format!(r#"{{"id":"{name}","policies":[{both}]}}"#);
        update("auth/token/create", &body);
    }
    (store, core, key)
}

fn ask(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    pollster::block_on(core.handle(request))
}

fn read<'a>(token: &'a str, path: &'a str) -> Request<'a> {
    request_of(token, 0, Operation::Read, path, "")
}

fn is_stale(answer: &Result<Response, Error>) -> bool {
    matches!(answer, Err(Error::Stale(_)))
}

#[test]
fn a_view_answers_up_to_its_bound_and_not_a_moment_longer() {
    let (store, core) = site();
    let secret = read(TOKEN, "secret/data/a");
    for age in [Duration::ZERO, MAX] {
        store.age(age);
        assert!(ask(&core, &secret).is_ok() && core.fast_reads().is_some() && core.is_fresh());
        assert_eq!(core.age(), Some(age));
    }
    store.age(MAX + NANO);
    let refusal = Error::Stale(Stale { age_secs: Some(10), max_secs: 10, reached: None });
    assert_eq!(ask(&core, &secret).unwrap_err(), refusal);
    assert!(core.fast_reads().is_none(), "the short way leaves it to the long one");
    store.age(MAX);
    assert!(ask(&core, &secret).is_ok(), "the leader was heard again");
    store.know_nothing();
    assert_eq!(core.age(), None);
    let refusal = Error::Stale(Stale { age_secs: None, max_secs: 10, reached: None });
    assert_eq!(ask(&core, &secret).unwrap_err(), refusal);
}

/// After a restart it has to apply what it committed before; on a busy machine that takes longer than to unseal.
#[test]
fn who_unseals_a_server_without_others_is_answered_by_the_next_request() {
    let (store, core, key) = site_with_key();
    ask(&core, &request_of(TOKEN, 0, Operation::Update, "sys/seal", "{}")).unwrap();
    store.start_alone();
    ask(&core, &request_of(TOKEN, 0, Operation::Update, "sys/unseal", &key)).unwrap();
    assert!(core.is_fresh());
    assert!(ask(&core, &read(TOKEN, "secret/data/a")).is_ok());
}

#[test]
fn nothing_is_answered_from_an_old_view_and_what_needs_none_is() {
    let (store, core) = site();
    store.age(2 * MAX);
    let update = |path, body| request_of(TOKEN, 0, Operation::Update, path, body);
    for request in [
        read(TOKEN, "secret/data/a"),
        read("nobody's", "secret/data/a"),
        request_of(TOKEN, 0, Operation::List, "secret/metadata", ""),
        read(TOKEN, "auth/token/lookup-self"),
        read(TOKEN, "sys/mounts"),
        read(TOKEN, "sys/metrics"),
        read(TOKEN, "sys/internal/ui/mounts"),
        Request { token: None, ..read(TOKEN, "sys/internal/ui/mounts") },
        update("auth/token/lookup", r#"{"token":"lax"}"#),
        update("sys/capabilities-self", r#"{"paths":["secret/data/a"]}"#),
        update("sys/kallisto/kv/read", r#"{"paths":["secret/a"]}"#),
        update("sys/wrapping/unwrap", r#"{"token":"none"}"#),
        update("secret/data/a", r#"{"data":{"v":"two"}}"#),
        update("auth/approle/login", r#"{"role_id":"r"}"#),
        update("sys/seal", ""),
        request_of(TOKEN, 0, Operation::Delete, "secret/data/a", ""),
    ] {
        let answer = ask(&core, &request);
        assert!(is_stale(&answer), "{}: {answer:?}", request.path.as_str());
    }
    for path in ["sys/seal-status", "sys/leader", "sys/init", "sys/health"] {
        assert!(ask(&core, &Request { token: None, ..read(TOKEN, path) }).is_ok(), "{path}");
    }
    assert!(core.open_metrics(&read(TOKEN, "sys/metrics")).is_ok());
    store.follow();
    let write = update("secret/data/a", r#"{"data":{"v":"two"}}"#);
    assert_eq!(ask(&core, &write).unwrap_err(), Error::NotLeader, "the leader decides");
}

#[test]
fn stale_reads_are_for_those_who_ask_for_them_and_whose_policies_let_them() {
    let (store, core) = site();
    let stale =
        |token, path| Request { headers: Headers::of(&AskingForStale), ..read(token, path) };
    for token in [TOKEN, "lax", "firm"] {
        assert!(ask(&core, &stale(token, "secret/data/a")).is_ok(), "it is none yet");
    }
    store.age(2 * MAX);
    for token in [TOKEN, "lax"] {
        assert!(ask(&core, &stale(token, "secret/data/a")).is_ok(), "{token}");
        assert!(is_stale(&ask(&core, &read(token, "secret/data/a"))), "{token} did not ask for it");
    }
    for path in ["secret/data/a", "auth/token/lookup-self", "sys/internal/ui/resultant-acl"] {
        let refusal = ask(&core, &stale("firm", path));
        assert_eq!(refusal.unwrap_err(), Error::Denied(Denial::Policy), "{path}");
    }
    let unknown = ask(&core, &stale("nobody's", "secret/data/a"));
    assert_eq!(unknown.unwrap_err(), Error::Denied(Denial::BadToken));
    let write = Request {
        operation: Operation::Update,
        body: br#"{"data":{"v":"two"}}"#,
        ..stale(TOKEN, "secret/data/a")
    };
    assert!(is_stale(&ask(&core, &write)), "what is decided is decided on what holds");
    let seal = Request { operation: Operation::Update, ..stale(TOKEN, "sys/seal") };
    assert!(ask(&core, &seal).is_ok());
    assert!(core.is_sealed());
}

#[test]
fn health_says_so_with_a_code_of_its_own() {
    let (store, core) = site();
    let health = |query: &[(&str, &str)]| {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let query = query.iter().map(own).collect();
        match ask(&core, &Request { token: None, query, ..read("", "sys/health") }) {
            Ok(Response::Bare { code, body: Json::Object(body) }) => (code, body),
            other => panic!("{other:?}"),
        }
    };
    let healthy = |code, is_healthy: bool| {
        let (found, body) = health(&[]);
        assert_eq!((found, &body["ha_connection_healthy"]), (code, &is_healthy.into()));
    };
    healthy(200, true);
    store.follow();
    healthy(429, true);
    store.age(2 * MAX);
    healthy(474, false);
    assert_eq!(
        health(&[("standbyok", "true")]).0,
        474,
        "who takes standbys takes what they answer"
    );
    assert_eq!(health(&[("haunhealthycode", "299")]).0, 299);
    let figures = match core.open_metrics(&read("", "sys/metrics")).unwrap() {
        Response::Bare { body, .. } => String::from_utf8(body.to_text()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert!(figures.contains("kallisto.raft.staleness_seconds"), "{figures}");
}

#[test]
fn without_a_majority_the_state_of_the_cluster_is_told_and_health_says_no() {
    let (store, core) = site();
    store.lose_leader();
    for (age, health) in [(Duration::ZERO, 429), (2 * MAX, 474)] {
        store.age(age);
        let Ok(Response::Logical(state)) = ask(&core, &read(TOKEN, "sys/kallisto/cluster")) else {
            panic!("no state")
        };
        let state = kallisto_core::json::parse_object(&state.data).unwrap();
        assert_eq!(
            (&state["healthy"], &state["failure_tolerance"]),
            (&false.into(), &0_u64.into())
        );
        let Json::Array(members) = &state["members"] else { panic!("no members") };
        let said = |at: usize, name: &str| members[at].as_object().unwrap()[name].clone();
        assert_eq!([0, 1, 2].map(|at| said(at, "healthy")), [true, false, false].map(Json::from));
        assert!((0..3).all(|at| said(at, "role") != "leader".into()));
        match ask(&core, &Request { token: None, ..read("", "sys/health") }) {
            Ok(Response::Bare { code, .. }) => assert_eq!(code, health),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_removed_server_seals_itself_and_stays_sealed() {
    let (store, core) = site();
    store.told_removed();
    let tick = pollster::block_on(core.run_due_jobs(Timestamp::UNIX_EPOCH));
    assert!(tick.is_ok() && core.is_sealed());
    let body = format!(r#"{{"key":"{}"}}"#, "01".repeat(33));
    let share = request_of(TOKEN, 0, Operation::Update, "sys/unseal", &body);
    match ask(&core, &share) {
        Err(Error::Invalid(why)) => assert!(why.contains("removed from its cluster"), "{why}"),
        other => panic!("{other:?}"),
    }
    for (path, expected) in [("sys/health", 530), ("sys/seal-status", 200)] {
        match ask(&core, &Request { token: None, ..read("", path) }) {
            Ok(Response::Bare { code, body: Json::Object(body) }) => {
                assert_eq!((code, &body["removed_from_cluster"]), (expected, &true.into()));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(ask(&core, &read(TOKEN, "secret/data/a")).is_err());
}

/// Unsealing takes seconds, and members are asked meanwhile.
#[test]
fn a_server_that_hears_while_it_unseals_that_it_was_removed_stays_sealed() {
    let (store, core, key) = site_with_key();
    ask(&core, &request_of(TOKEN, 0, Operation::Update, "sys/seal", "{}")).unwrap();
    store.know_nothing();
    store.be_let_go_when_asked();
    match ask(&core, &request_of(TOKEN, 0, Operation::Update, "sys/unseal", &key)) {
        Err(Error::Invalid(why)) => assert!(why.contains("removed from its cluster"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(core.is_sealed());
    assert_eq!(ask(&core, &read(TOKEN, "secret/data/a")).err(), Some(Error::Sealed));
}

#[test]
fn those_who_are_refused_anyway_do_not_wait() {
    let (store, core) = site();
    let secret = read("lax", "secret/data/a");
    assert_eq!(core.patience(&secret), Patience::Known);
    assert_eq!(core.patience(&read("nobody's", "secret/data/a")), Patience::Stranger);
    assert_eq!(core.patience(&Request { token: None, ..secret.clone() }), Patience::None);
    let write = request_of("lax", 0, Operation::Update, "secret/data/a", "{}");
    assert_eq!(core.patience(&write), Patience::Known);
    let rule = r#"{"rate":1,"interval":"1m","path":"secret/"}"#;
    let quota = request_of(TOKEN, 0, Operation::Update, "sys/quotas/rate-limit/one", rule);
    ask(&core, &quota).unwrap();
    let remote = Some("127.0.0.1:4711".parse().unwrap());
    let limited = Request { remote, ..secret };
    for _ in 0..3 {
        assert_eq!(core.patience(&limited), Patience::Known, "asking is not counted");
    }
    assert!(ask(&core, &limited).is_ok());
    assert_eq!(core.patience(&limited), Patience::None, "nothing is left");
    store.follow();
    assert_eq!(core.patience(&write), Patience::None, "the leader answers it");
}

#[test]
fn a_stream_ends_when_the_view_is_too_old() {
    let (store, core) = site();
    let path = ("path".to_owned(), "secret/".to_owned());
    let watch = Request { query: vec![path], ..read(TOKEN, "sys/kallisto/kv/watch") };
    let Ok(Response::Stream(mut stream)) = ask(&core, &watch) else { panic!("no stream") };
    let now = Timestamp::UNIX_EPOCH;
    assert!(matches!(stream.source.next(now), NextPiece::Bytes(_)), "it greets");
    assert_eq!(stream.source.next(now), NextPiece::Wait);
    store.age(2 * MAX);
    match stream.source.next(now) {
        NextPiece::End(bytes) => assert!(bytes.starts_with(b"event: end\n")),
        other => panic!("{other:?}"),
    }
}

/// They come and go by themselves.
#[test]
fn members_on_a_database_are_not_changed_and_the_lead_stays_where_it_is() {
    let (store, core) = site();
    store.share_records();
    for verb in ["remove-peer", "demote", "promote"] {
        let path = format!("sys/storage/raft/{verb}");
        let body = r#"{"server_id":"node-1"}"#;
        let refused = ask(&core, &request_of(TOKEN, 0, Operation::Update, &path, body));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{verb}: {refused:?}");
    }
    assert_eq!(store.transfers(), 0);
    let body = r#"{"leader_api_addr":"https://two.example:8200"}"#;
    let path = "sys/storage/raft/join";
    let joined = ask(&core, &request_of(TOKEN, 0, Operation::Update, path, body));
    assert!(joined.is_err(), "{joined:?}");
}
