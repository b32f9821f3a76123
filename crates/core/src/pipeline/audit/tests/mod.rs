//! The route table asked as a whole, with a device that works and with one that does not: what leaves without a record.

mod bearer;
mod follows;
mod hang_up;
mod member_states;
mod states;
mod unheard;

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kallisto_audit::{ChainHead, Destinations, DeviceSpec, LineGroup, Sink, Verifier};
use kallisto_auth::Operation::{self, Read, Update};
use kallisto_store::{MemoryStore, Store};

use self::follows::Follows;
use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::audit::AuditSettings;
use crate::caller::spelling;
use crate::platform::server_info::{RouteAccess, ServerInfo};
use crate::routes::tests::{OPERATIONS, ROOT, mounted, request, rows, sample};
use crate::seal::Initialized;
use crate::state::Core;

/// Every operation at which nothing is ever written down, and no device is asked.
const UNAUDITED: [(&str, Operation); 6] = [
    ("sys/health", Read),
    ("sys/init", Read),
    ("sys/init", Update),
    ("sys/seal-status", Read),
    ("sys/unseal", Update),
    ("sys/leader", Read),
];
/// A secret in every request: as a token, and in the fields that hold secrets.
const CANARY: &str = "canary";
const BODY: &str = r#"{"token":"canary-1","key":"canary-2","password":"canary-3","secret_id":"canary-4","jwt":"canary-5","plaintext":"canary-6"}"#;

/// A destination in memory, which fails when it is told to.
#[derive(Clone, Default)]
struct Memory {
    kept: Arc<Mutex<Vec<u8>>>,
    fails: Arc<AtomicBool>,
    /// How many more groups are taken before all fail; used when it is not zero.
    takes: Arc<AtomicUsize>,
}

impl Destinations for Memory {
    fn sink(&self, _: &DeviceSpec) -> Box<dyn Sink> {
        Box::new(self.clone())
    }
}

impl Sink for Memory {
    fn open(&mut self) -> io::Result<Option<ChainHead>> {
        Ok(None)
    }

    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(ErrorKind::StorageFull.into());
        }
        self.kept.lock().unwrap().extend_from_slice(group.bytes);
        if self.takes.load(Ordering::SeqCst) > 0 {
            let left = self.takes.fetch_sub(1, Ordering::SeqCst) - 1;
            self.fails.store(left == 0, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// A server with one device at `mem/`.
struct Site {
    core: Core,
    memory: Memory,
    /// The unseal key's only share.
    share: String,
}

impl Site {
    fn open(info: ServerInfo) -> Self {
        Self::over(Arc::new(MemoryStore::new()), info)
    }

    fn over(store: Arc<dyn Store>, info: ServerInfo) -> Self {
        Self::with_device(store, info, r#"{"type":"file","options":{"file_path":"discard"}}"#)
    }

    fn compact(info: ServerInfo) -> Self {
        let options = r#"{"file_path":"discard","format":"compact"}"#;
        let device = format!(r#"{{"type":"file","options":{options}}}"#);
        Self::with_device(Arc::new(MemoryStore::new()), info, &device)
    }

    fn with_device(store: Arc<dyn Store>, info: ServerInfo, device: &str) -> Self {
        let memory = Memory::default();
        let destinations = Box::new(memory.clone());
        let settings = AuditSettings { destinations, ..AuditSettings::default() };
        let core = Core::new(store, info).with_audit(settings);
        let made = core.initialize_dev(Some(ROOT.to_owned().into()), Timestamp::UNIX_EPOCH);
        let share = Initialized::hex(&pollster::block_on(made).unwrap().keys).remove(0);
        let site = Self { core: mounted(core), memory, share };
        site.ask(&request(Some(ROOT), Update, "sys/audit/mem", device)).unwrap();
        site
    }

    fn dead(info: ServerInfo) -> Self {
        let site = Self::open(info);
        site.memory.fails.store(true, Ordering::SeqCst);
        site
    }

    fn ask(&self, request: &Request<'_>) -> Result<Response, Error> {
        pollster::block_on(self.core.handle(request))
    }

    fn root(&self, operation: Operation, path: &str, body: &str) -> Result<Response, Error> {
        self.ask(&request(Some(ROOT), operation, path, body))
    }

    /// The records of what `ask` does, and its answer.
    fn recorded<T>(&self, ask: impl FnOnce() -> T) -> (Vec<Map>, T) {
        let begun = self.memory.kept.lock().unwrap().len();
        let answer = ask();
        let kept = self.memory.kept.lock().unwrap();
        Verifier::default().take_file(&mut &kept[begun..]).unwrap();
        let shown = String::from_utf8_lossy(&kept[begun..]);
        assert!(!shown.contains(CANARY), "a secret shows: {shown}");
        let lines = kept[begun..].split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let records = lines.map(|line| json::parse_object(line).unwrap());
        // Those are the device's own.
        (records.filter(|record| text(record, &["type"]) != "checkpoint").collect(), answer)
    }

    /// Whether root may still ask: some routes seal the server, end the token that asks or the device.
    fn is_whole(&self) -> bool {
        let devices = self.core.audit.devices.list().len();
        let is_dead = self.memory.fails.swap(false, Ordering::SeqCst);
        let mut lookup = Err(Error::Unaudited);
        while matches!(lookup, Err(Error::Unaudited)) {
            self.core.reopen_audit();
            std::thread::yield_now();
            lookup = self.root(Read, "auth/token/lookup-self", "");
        }
        self.memory.fails.store(is_dead, Ordering::SeqCst);
        lookup.is_ok() && devices == 1
    }
}

fn settings(rekey: RouteAccess) -> ServerInfo {
    ServerInfo { unauthenticated_rekey: rekey, ..ServerInfo::default() }
}

fn text<'m>(record: &'m Map, path: &[&str]) -> &'m str {
    let (last, folders) = path.split_last().unwrap();
    let folder = folders.iter().try_fold(record, |map, name| map.get(*name)?.as_object());
    folder.and_then(|map| map.get(*last)).and_then(Json::as_str).unwrap_or_default()
}

#[track_caller]
fn assert_pair(records: &[Map], path: &str) {
    let kinds: Vec<&str> = records.iter().map(|record| text(record, &["type"])).collect();
    assert_eq!(kinds, ["request", "response"], "{path}");
    for record in records {
        assert_eq!(text(record, &["request", "path"]), path);
    }
    let id = |at: usize| text(&records[at], &["request", "id"]);
    assert_eq!(id(0), id(1), "{path}");
}

/// Every row with every operation, taken or not, by somebody without a token, with a token that is none, and as root.
fn every_request(mut each: impl FnMut(&str, Operation, Option<&str>)) {
    for (base, route) in rows() {
        let path = sample(base, route);
        for operation in OPERATIONS {
            for token in [None, Some("hvs.canary-token"), Some(ROOT)] {
                each(&path, operation, token);
            }
        }
    }
}

#[test]
fn every_operation_of_every_route_has_two_records() {
    for rekey in [RouteAccess::Token, RouteAccess::Open] {
        let mut site = Site::open(settings(rekey));
        every_request(|path, operation, token| {
            let request = request(token, operation, path, BODY);
            let (records, _) = site.recorded(|| site.ask(&request));
            if UNAUDITED.contains(&(path, operation)) {
                assert!(records.is_empty(), "{operation:?} {path}");
            } else {
                let spelled = spelling::canonical(operation, path).unwrap();
                assert_pair(&records, &spelled);
            }
            if token == Some(ROOT) && !site.is_whole() {
                site = Site::open(settings(rekey));
            }
        });
    }
}

#[test]
fn every_operation_of_every_route_is_in_compact_records() {
    let mut site = Site::compact(settings(RouteAccess::Token));
    let mut kinds_seen = std::collections::BTreeSet::new();
    every_request(|path, operation, token| {
        let request = request(token, operation, path, BODY);
        let (records, answer) = site.recorded(|| site.ask(&request));
        let kinds: Vec<&str> = records.iter().map(|record| text(record, &["type"])).collect();
        if UNAUDITED.contains(&(path, operation)) {
            assert!(records.is_empty(), "{operation:?} {path}");
        } else {
            let is_whole = matches!(kinds.as_slice(), ["exchange"] | ["request", "response"]);
            assert!(is_whole, "{operation:?} {path}: {kinds:?}");
            let spelled = spelling::canonical(operation, path).unwrap();
            let id = text(&records[0], &["request", "id"]);
            for record in &records {
                assert_eq!(text(record, &["request", "path"]), spelled);
                assert_eq!(text(record, &["request", "id"]), id, "{path}");
                let kind = text(record, &["auth", "token_type"]);
                assert!(kind.is_empty(), "{path}: what the accessor leads to is not repeated");
            }
            let error = text(records.last().unwrap(), &["error"]);
            let failed = matches!(&answer, Err(error) if !matches!(error, Error::NotFound));
            assert_eq!(failed, !error.is_empty(), "{operation:?} {path}: {answer:?} {error}");
            kinds_seen.insert(kinds.len());
        }
        if token == Some(ROOT) && !site.is_whole() {
            site = Site::compact(settings(RouteAccess::Token));
        }
    });
    assert_eq!(kinds_seen.len(), 2, "one record and two");
}

#[test]
fn a_secret_that_memory_answers_is_one_compact_record() {
    let site = Site::compact(settings(RouteAccess::Token));
    let value = r#"{"data":{"p":"canary"}}"#;
    let (records, _) = site.recorded(|| site.root(Update, "secret/data/a", value).unwrap());
    let mask = |text: &str| site.core.audit.devices.named("mem").unwrap().hash(text);
    assert_eq!(records.len(), 2);
    assert_eq!(text(&records[0], &["request", "data", "data", "p"]), mask("canary"));
    let (records, _) = site.recorded(|| site.root(Read, "secret/data/a", "").unwrap());
    let [record] = records.as_slice() else { panic!("{} records", records.len()) };
    assert_eq!(text(record, &["type"]), "exchange");
    assert_eq!(text(record, &["auth", "client_token"]), mask(ROOT));
    assert_eq!(text(record, &["response", "data", "data", "p"]), mask("canary"));
    assert!(text(record, &["request", "mount_accessor"]).starts_with("kv_"));
    assert_eq!(shown_metadata(record), ["version"], "the path and this lead to the rest");
}

/// The names of what a record says of the version of a secret that was answered.
fn shown_metadata(record: &Map) -> Vec<&str> {
    let metadata = ["response", "data", "metadata"];
    let shown = metadata.iter().try_fold(record, |map, name| map.get(*name)?.as_object());
    shown.map(|all| all.keys().map(AsRef::as_ref).collect()).unwrap_or_default()
}

#[test]
fn a_version_that_is_named_or_gone_is_told_as_much_as_is_needed() {
    let site = Site::compact(settings(RouteAccess::Token));
    site.root(Update, "secret/data/a", r#"{"data":{"metadata":"canary","version":"v"}}"#).unwrap();
    site.root(Update, "secret/data/a", r#"{"data":{"p":"canary"}}"#).unwrap();
    let read = |query: &str| {
        let query = vec![("version".to_owned(), query.to_owned())];
        let asked = Request { query, ..request(Some(ROOT), Read, "secret/data/a", "") };
        site.recorded(|| site.ask(&asked)).0.pop().unwrap()
    };
    let first = read("1");
    assert_eq!(shown_metadata(&first), ["version"]);
    assert!(text(&first, &["response", "data", "data", "metadata"]).starts_with("hmac-sha256:"));
    let asked = |operation, path: &str, query: &str| {
        let query = vec![(query.to_owned(), "1".to_owned())];
        let request = Request { query, ..request(Some(ROOT), operation, path, "") };
        let context = site.core.context.load_full().unwrap();
        let mount = super::answer::mount_at(&context, &request).unwrap();
        super::answer::reads_version(&mount, &request)
    };
    assert!(asked(Read, "secret/data/a", "version"));
    assert!(!asked(Read, "secret/data/a", "read_snapshot_id"), "it goes with the snapshot");
    assert!(!asked(Read, "secret/metadata/a", "version"));
    assert!(!asked(Update, "secret/data/a", "version"));
    site.root(Update, "secret/delete/a", r#"{"versions":[1]}"#).unwrap();
    assert!(shown_metadata(&read("1")).len() > 3, "why there is no data is in the record");
    let tune = r#"{"audit_non_hmac_response_keys":["created_time"]}"#;
    site.root(Update, "sys/mounts/secret/tune", tune).unwrap();
    assert!(shown_metadata(&read("2")).len() > 3, "a mount that shows some of it shows it here");
}

#[test]
fn nothing_is_answered_or_changed_that_no_device_takes() {
    for rekey in [RouteAccess::Token, RouteAccess::Open] {
        let mut site = Site::dead(settings(rekey));
        every_request(|path, operation, token| {
            let before = site.core.store.position();
            let answer = site.ask(&request(token, operation, path, BODY));
            let is_seal = (path, operation) == ("sys/seal", Update);
            if UNAUDITED.contains(&(path, operation)) {
                assert!(!matches!(answer, Err(Error::Unaudited)), "{operation:?} {path}");
            } else if !is_seal {
                let refused = matches!(answer, Err(Error::Unaudited));
                assert!(refused, "{operation:?} {path}: {answer:?}");
            }
            assert_eq!(
                site.core.store.position(),
                before,
                "{operation:?} {path} changed something"
            );
            if is_seal && site.core.is_sealed() {
                assert_eq!(token, Some(ROOT), "sealing works whatever the devices do, for who may");
                site = Site::dead(settings(rekey));
            }
        });
        assert!(site.is_whole());
    }
}

#[test]
fn help_is_asked_between_two_records_wherever_it_is_open() {
    let (live, dead) =
        (Site::open(settings(RouteAccess::Token)), Site::dead(settings(RouteAccess::Token)));
    for (base, route) in rows() {
        let path = sample(base, route);
        for token in [None, Some(ROOT)] {
            let query = vec![("help".to_owned(), "1".to_owned())];
            let request = Request { query, ..request(token, Read, &path, "") };
            let (records, _) = live.recorded(|| live.ask(&request));
            assert_pair(&records, &path);
            assert!(matches!(dead.ask(&request), Err(Error::Unaudited)), "{path}");
        }
    }
}

fn wrapped(site: &Site) -> String {
    site.root(Update, "secret/data/a", r#"{"data":{"p":"canary"}}"#).unwrap();
    let read = request(Some(ROOT), Read, "secret/data/a", "");
    let (records, answer) = site.recorded(|| site.ask(&Request { wrap_ttl_secs: 60, ..read }));
    assert_pair(&records, "secret/data/a");
    let Response::Logical(answer) = answer.unwrap() else { panic!("a wrapped answer") };
    let wrap_info = json::parse_object(&answer.wrap_info).unwrap();
    let token = text(&wrap_info, &["token"]).to_owned();
    let mask = site.core.audit.devices.named("mem").unwrap().hash(&token);
    assert_eq!(text(&records[1], &["response", "wrap_info", "token"]), mask);
    token
}

/// The token shown as the one that asks, and alone in the body.
fn asks_with<'a>(token: &'a str, body: &'a str, path: &'a str) -> [Request<'a>; 2] {
    [request(Some(token), Update, path, "{}"), request(None, Update, path, body)]
}

#[test]
fn a_wrapping_token_that_opens_itself_is_written_down_masked() {
    let site = Site::open(settings(RouteAccess::Token));
    let mask = |text: &str| site.core.audit.devices.named("mem").unwrap().hash(text);
    let token = wrapped(&site);
    let body = format!(r#"{{"token":"{token}"}}"#);
    for (at, lookup) in asks_with(&token, &body, "sys/wrapping/lookup").iter().enumerate() {
        let (records, answer) = site.recorded(|| site.ask(lookup));
        answer.unwrap();
        assert_pair(&records, "sys/wrapping/lookup");
        let place: &[&str] = [&["request", "client_token"][..], &["request", "data", "token"]][at];
        for record in &records {
            assert_eq!(text(record, place), mask(&token));
            assert_eq!(text(record, &["error"]), "");
        }
    }
    let unwrap = &asks_with(&token, &body, "sys/wrapping/unwrap")[0];
    let (records, answer) = site.recorded(|| site.ask(unwrap));
    answer.unwrap();
    assert_pair(&records, "sys/wrapping/unwrap");
    assert_eq!(text(&records[0], &["request", "client_token"]), mask(&token));
    assert_eq!(text(&records[1], &["response", "data", "data", "p"]), mask("canary"));
    let (records, again) = site.recorded(|| site.ask(unwrap));
    assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    assert_pair(&records, "sys/wrapping/unwrap");
    let kept = String::from_utf8(site.memory.kept.lock().unwrap().clone()).unwrap();
    assert!(!kept.contains(&token) && !kept.contains(CANARY));
}

#[test]
fn a_wrapping_token_is_neither_opened_nor_consumed_while_no_device_works() {
    let site = Site::open(settings(RouteAccess::Token));
    let token = wrapped(&site);
    let body = format!(r#"{{"token":"{token}"}}"#);
    site.memory.fails.store(true, Ordering::SeqCst);
    for path in ["sys/wrapping/lookup", "sys/wrapping/unwrap", "sys/wrapping/rewrap"] {
        for request in asks_with(&token, &body, path) {
            let answer = site.ask(&request);
            assert!(matches!(answer, Err(Error::Unaudited)), "{path}: {answer:?}");
        }
    }
    site.memory.fails.store(false, Ordering::SeqCst);
    assert!(site.is_whole());
    site.ask(&asks_with(&token, &body, "sys/wrapping/unwrap")[0]).unwrap();
}

#[test]
fn limited_tokens_and_their_refusals_have_two_records() {
    let site = Site::open(settings(RouteAccess::Token));
    let make = r#"{"id":"twice","policies":["root"],"num_uses":2}"#;
    site.root(Update, "auth/token/create", make).unwrap();
    for is_good in [true, true, false] {
        let look = request(Some("twice"), Read, "sys/mounts", "");
        let (records, answer) = site.recorded(|| site.ask(&look));
        assert_eq!(answer.is_ok(), is_good);
        assert_pair(&records, "sys/mounts");
    }
}

#[test]
fn what_a_namespace_refuses_has_two_records() {
    let site = Site::open(settings(RouteAccess::Token));
    site.root(Update, "sys/namespaces/team", "").unwrap();
    for (namespace, path, shown) in [
        ("none", "secret/data/a", "none/secret/data/a"),
        ("none/", "auth/userpass/login/a", "none/auth/userpass/login/a"),
        ("team", "sys/seal", "team/sys/seal"),
        ("team", "sys/health", "team/sys/health"),
        ("", "team/sys/audit", "team/sys/audit"),
        ("a//b", "secret/data/a", "secret/data/a"),
    ] {
        let asked = Request { namespace, ..request(Some(ROOT), Read, path, "") };
        site.memory.fails.store(false, Ordering::SeqCst);
        assert!(site.is_whole());
        let (records, answer) = site.recorded(|| site.ask(&asked));
        assert!(answer.is_err(), "{shown}: {answer:?}");
        assert_pair(&records, shown);
        site.memory.fails.store(true, Ordering::SeqCst);
        let answer = site.ask(&asked);
        assert!(matches!(answer, Err(Error::Unaudited)), "{shown}: {answer:?}");
    }
}

#[test]
fn a_rate_limits_refusals_are_written_down_where_that_is_asked_for() {
    let site = Site::open(settings(RouteAccess::Token));
    let limit = r#"{"rate":1,"interval":3600}"#;
    site.root(Update, "sys/quotas/rate-limit/all", limit).unwrap();
    let remote = Some("192.0.2.7:4711".parse().unwrap());
    let read = Request { remote, ..request(Some(ROOT), Read, "secret/data/a", "") };
    let _ = site.ask(&read);
    let nowhere = Request { namespace: "none", ..read.clone() };
    for asked in [&read, &nowhere] {
        let (records, answer) = site.recorded(|| site.ask(asked));
        assert!(matches!(answer, Err(Error::OverQuota(_))), "{answer:?}");
        assert!(records.is_empty());
    }
    let later = Timestamp::from_second(7200).unwrap();
    let config = r#"{"enable_rate_limit_audit_logging":true}"#;
    let config = request(Some(ROOT), Update, "sys/quotas/config", config);
    site.ask(&Request { now: later, ..config }).unwrap();
    let _ = site.ask(&Request { now: later, ..read.clone() });
    for asked in [read, nowhere] {
        let asked = Request { now: later, ..asked };
        let (records, answer) = site.recorded(|| site.ask(&asked));
        assert!(matches!(answer, Err(Error::OverQuota(_))), "{answer:?}");
        assert_eq!(records.len(), 2);
        site.memory.fails.store(true, Ordering::SeqCst);
        let answer = site.ask(&asked);
        assert!(matches!(answer, Err(Error::Unaudited)), "{answer:?}");
        site.memory.fails.store(false, Ordering::SeqCst);
        assert!(site.is_whole());
    }
}

#[test]
fn what_the_leader_answers_is_written_down_there_and_what_nobody_answers_here() {
    let store = Arc::new(Follows::default());
    let site = Site::over(Arc::clone(&store) as Arc<_>, settings(RouteAccess::Token));
    store.follows.store(true, Ordering::SeqCst);
    let write = request(Some(ROOT), Update, "secret/data/a", r#"{"data":{}}"#);
    let (records, answer) = site.recorded(|| site.ask(&write));
    assert!(matches!(answer, Err(Error::NotLeader)), "{answer:?}");
    assert!(records.is_empty(), "the listener relays it, and the leader writes it down");
    let refuse = || pollster::block_on(site.core.refuse_unserved(&write, Error::NotLeader));
    let (records, refusal) = site.recorded(refuse);
    assert!(matches!(refusal, Error::NotLeader));
    assert_pair(&records, "secret/data/a");
    let unwrap = request(Some("none"), Update, "sys/wrapping/unwrap", "");
    let (records, answer) = site.recorded(|| site.ask(&unwrap));
    assert!(records.is_empty() && matches!(answer, Err(Error::NotLeader)), "{answer:?}");
    site.memory.fails.store(true, Ordering::SeqCst);
    assert!(matches!(refuse(), Error::Unaudited));
}
