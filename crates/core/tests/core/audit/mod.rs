//! Auditing through the pipeline: what is written, when nothing may pass, and what never shows.

mod gathered;
mod records;

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kallisto_audit::{ChainHead, Destinations, DeviceSpec, LineGroup, Sink, Verifier};
use kallisto_core::json::{self, Json, Map};
use kallisto_core::{
    AuditSettings, Core, DeclaredDevice, Error, HeaderSource, Headers, Operation, Request,
    Response, ServerInfo,
};
use kallisto_store::MemoryStore;

use crate::support::{TOKEN, request_of, whole_core};

/// Destinations in memory, which fail when they are told to.
#[derive(Clone, Default)]
struct Memory {
    kept: Arc<Mutex<Vec<u8>>>,
    fails: Arc<AtomicBool>,
    /// How many more groups are taken before all fail; used when it is not zero.
    takes: Arc<AtomicUsize>,
}

struct MemorySink(Memory);

impl Destinations for Memory {
    fn sink(&self, _: &DeviceSpec) -> Box<dyn Sink> {
        Box::new(MemorySink(self.clone()))
    }
}

impl Sink for MemorySink {
    fn open(&mut self) -> io::Result<Option<ChainHead>> {
        Ok(None)
    }

    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        if self.0.fails.load(Ordering::SeqCst) {
            return Err(ErrorKind::StorageFull.into());
        }
        self.0.kept.lock().unwrap().extend_from_slice(group.bytes);
        if self.0.takes.load(Ordering::SeqCst) > 0 {
            let left = self.0.takes.fetch_sub(1, Ordering::SeqCst) - 1;
            self.0.fails.store(left == 0, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Memory {
    /// The records so far, which have to be a sound chain.
    fn records(&self) -> Vec<Map> {
        let kept = self.kept.lock().unwrap();
        Verifier::default().take_file(&mut &kept[..]).unwrap();
        let lines = kept.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let records = lines.map(|line| json::parse_object(line).unwrap());
        // Those are the device's own.
        records.filter(|record| at(record, "type") != "checkpoint").collect()
    }

    fn text(&self) -> String {
        String::from_utf8(self.kept.lock().unwrap().clone()).unwrap()
    }
}

struct Site {
    core: Core,
    store: Arc<MemoryStore>,
    key: String,
    memory: Memory,
    /// The time of the next request, in seconds.
    clock: AtomicI64,
}

fn core_over(store: &Arc<MemoryStore>, memory: &Memory, declared: Vec<DeclaredDevice>) -> Core {
    let destinations = Box::new(memory.clone());
    let settings = AuditSettings {
        directories: vec!["/var/log".into()],
        declared,
        destinations,
        ..AuditSettings::default()
    };
    whole_core(Arc::clone(store) as Arc<_>, ServerInfo::default()).with_audit(settings)
}

impl Site {
    fn open(declared: Vec<DeclaredDevice>) -> Self {
        let (store, memory) = (Arc::new(MemoryStore::new()), Memory::default());
        let core = core_over(&store, &memory, declared);
        let root = Some(TOKEN.to_owned().into());
        let made = core.initialize_dev(root, Timestamp::UNIX_EPOCH);
        let key = kallisto_core::Initialized::hex(&pollster::block_on(made).unwrap().keys);
        Self { core, store, key: key[0].clone(), memory, clock: AtomicI64::new(1) }
    }

    /// With a device at `mem/`.
    fn audited() -> Self {
        let site = Self::open(Vec::new());
        site.ask(Operation::Update, "sys/audit/mem", DEVICE).unwrap();
        site
    }

    fn ask(&self, operation: Operation, path: &str, body: &str) -> Result<Response, Error> {
        self.ask_as(TOKEN, operation, path, body)
    }

    fn ask_as(
        &self,
        token: &str,
        operation: Operation,
        path: &str,
        body: &str,
    ) -> Result<Response, Error> {
        let second = self.clock.fetch_add(1, Ordering::SeqCst);
        pollster::block_on(self.core.handle(&request(token, operation, path, body, second)))
    }

    /// Makes the device work again, as an operator's SIGHUP does.
    fn heal(&self) {
        self.memory.fails.store(false, Ordering::SeqCst);
        self.memory.takes.store(0, Ordering::SeqCst);
        loop {
            self.core.reopen_audit();
            if self.ask(Operation::Read, "sys/mounts", "").is_ok() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// A request from some address, with a header that must not show.
fn request<'a>(
    token: &'a str,
    operation: Operation,
    path: &'a str,
    body: &'a str,
    second: i64,
) -> Request<'a> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Request {
        query: kallisto_core::parse_query(query).unwrap(),
        remote: Some("192.0.2.7:4711".parse().unwrap()),
        headers: Headers::of(&Planted),
        ..request_of(token, second, operation, path, body)
    }
}

/// A header whose value must not show.
struct Planted;

impl HeaderSource for Planted {
    fn values(&self, name: &str) -> Vec<String> {
        if name == "x-planted" { vec!["canary-header".to_owned()] } else { Vec::new() }
    }
}

const DEVICE: &str = r#"{"type":"file","options":{"file_path":"discard"}}"#;
const PUT: &str = r#"{"data":{"p":"hidden","n":1,"l":["x"]}}"#;

/// What stands at a path of names, as text.
fn at(record: &Map, path: &str) -> String {
    let mut value = Json::Object(record.clone());
    for name in path.split('.') {
        let inner = value.as_object().and_then(|map| map.get(name)).cloned();
        let Some(inner) = inner else { return String::new() };
        value = inner;
    }
    value.as_str().map_or_else(|| String::from_utf8(value.to_text()).unwrap(), str::to_owned)
}

#[test]
fn a_policy_that_grants_is_told_with_its_namespace() {
    let site = Site::audited();
    for name in ["team", "other"] {
        site.ask(Operation::Update, &format!("sys/namespaces/{name}"), "{}").unwrap();
    }
    let begun = site.memory.records().len();
    let path = |name: &str| format!("{name}/auth/token/create");
    let token = |name: &str| {
        let answer = site.ask(Operation::Update, &path(name), r#"{"policies":"default"}"#);
        let Ok(Response::Logical(logical)) = answer else { panic!("{answer:?}") };
        at(&json::parse_object(&logical.auth).unwrap(), "client_token")
    };
    for name in ["team", "other"] {
        let lookup = format!("{name}/auth/token/lookup-self");
        site.ask_as(&token(name), Operation::Read, &lookup, "").unwrap();
    }
    let records = &site.memory.records()[begun..];
    let of = |name: &str, path: &str| {
        let namespace = format!("{name}/");
        let fits = |record: &&Map| {
            at(record, "request.namespace.path") == namespace && at(record, "request.path") == path
        };
        records.iter().find(fits).unwrap()
    };
    let granting = |record: &Map| at(record, "auth.policy_results.granting_policies");
    // Root asks from above: its policy is the root namespace's.
    let above = of("team", "auth/token/create");
    assert_eq!(granting(above), r#"[{"name":"root","namespace_id":"root","type":"acl"}]"#);
    let inside = of("team", "auth/token/lookup-self");
    let id = at(inside, "request.namespace.id");
    assert_eq!(
        granting(inside),
        format!(
            r#"[{{"name":"default","namespace_id":"{id}","namespace_path":"team/","type":"acl"}}]"#
        )
    );
    // Nor is a client of one namespace that of another.
    let other = of("other", "auth/token/lookup-self");
    assert_ne!(at(inside, "request.client_id"), at(other, "request.client_id"));
}

#[test]
fn a_request_and_its_response_are_written_with_one_id() {
    let site = Site::audited();
    let begun = site.memory.records().len();
    site.ask(Operation::Update, "secret/data/a", PUT).unwrap();
    site.ask(Operation::Read, "secret/data/a?version=1", "").unwrap();
    site.ask(Operation::List, "secret/metadata/", "").unwrap();
    let _ = site.ask_as("hvs.nobody", Operation::Read, "secret/data/a", "");
    let records = &site.memory.records()[begun..];
    let shape: Vec<String> = records
        .iter()
        .map(|record| {
            ["type", "request.operation", "request.path"].map(|f| at(record, f)).join(" ")
        })
        .collect();
    assert_eq!(
        shape,
        [
            "request create secret/data/a",
            "response create secret/data/a",
            "request read secret/data/a",
            "response read secret/data/a",
            "request list secret/metadata/",
            "response list secret/metadata/",
            "request read secret/data/a",
            "response read secret/data/a",
        ]
    );
    for pair in records.chunks(2) {
        assert_eq!(at(&pair[0], "request.id"), at(&pair[1], "request.id"));
        assert_eq!(at(&pair[0], "request.id").len(), 36);
    }
    let put = &records[0];
    assert_eq!(at(put, "auth.policy_results.allowed"), "true");
    assert_eq!(at(put, "auth.display_name"), "root");
    assert_eq!(at(put, "request.mount_point"), "secret/");
    assert_eq!(at(put, "request.remote_address"), "192.0.2.7");
    assert_eq!(at(put, "request.data.data.n"), "1");
    assert!(at(put, "request.data.data.p").starts_with("hmac-sha256:"));
    // Equal values have equal masks, in whatever record.
    assert_eq!(at(put, "request.data.data.p"), at(&records[3], "response.data.data.p"));
    assert_eq!(at(&records[6], "error"), "permission denied");
    assert_eq!(at(&records[7], "error"), "1 error occurred:\n\t* permission denied\n\n");
}

#[test]
fn what_one_request_does_at_many_paths_is_written_path_by_path() {
    let site = Site::audited();
    site.ask(Operation::Update, "secret/data/in/a", PUT).unwrap();
    let done = |path: &str, body: &str| -> Vec<String> {
        let begun = site.memory.records().len();
        let _ = site.ask(Operation::Update, path, body);
        let records = site.memory.records().split_off(begun);
        let last = records.last().unwrap();
        let Some(Json::Array(touched)) =
            last.get("response").and_then(Json::as_object).and_then(|map| map.get("touched"))
        else {
            return Vec::new();
        };
        let one = |touched: &Json| {
            let touched = touched.as_object().unwrap();
            format!("{} {}", at(touched, "operation"), at(touched, "path"))
        };
        touched.iter().map(one).collect()
    };
    let read = r#"{"paths":["secret/data/in/a","secret/data/none"]}"#;
    assert_eq!(
        done("sys/kallisto/kv/read", read),
        ["read secret/data/in/a", "read secret/data/none"]
    );
    let write = r#"{"writes":[{"path":"secret/data/in/b","data":{"p":"hidden"}}]}"#;
    assert_eq!(done("sys/kallisto/kv/write", write), ["update secret/data/in/b"]);
    let copied = done("sys/kallisto/kv/copy", r#"{"from":"secret/in/a","to":"secret/out/a"}"#);
    assert_eq!(
        copied,
        [
            "read secret/data/in/a",
            "read secret/metadata/in/a",
            "update secret/metadata/out/a",
            "update secret/data/out/a",
        ]
    );
    let removed = done("sys/kallisto/kv/delete", r#"{"path":"secret/in/"}"#);
    assert_eq!(removed, ["delete secret/data/in/a", "delete secret/data/in/b"]);
    assert_eq!(done("sys/kallisto/kv/delete", r#"{"path":"secret/nothing/"}"#), [""; 0]);
}

#[test]
fn enabling_is_written_by_the_device_itself_and_disabling_ends_it() {
    let site = Site::audited();
    let paths: Vec<String> =
        site.memory.records().iter().map(|record| at(record, "request.path")).collect();
    assert_eq!(paths, ["sys/audit/test", "sys/audit/mem"]);
    assert_eq!(at(&site.memory.records()[1], "type"), "response");
    site.ask(Operation::Delete, "sys/audit/mem", "").unwrap();
    let count = site.memory.records().len();
    site.ask(Operation::Read, "sys/mounts", "").unwrap();
    assert_eq!(site.memory.records().len(), count);
    site.ask(Operation::Delete, "sys/audit/mem", "").unwrap();
}

#[test]
fn options_that_a_device_does_not_know_are_named() {
    let site = Site::audited();
    let device = r#"{"type":"file","options":{"file_path":"stdout","fromat":"compact"}}"#;
    let Response::Logical(answer) = site.ask(Operation::Update, "sys/audit/out", device).unwrap()
    else {
        panic!("an answer with warnings")
    };
    assert_eq!(answer.warnings, ["unknown option \"fromat\": did you mean \"format\"?"]);
}

#[test]
fn nothing_passes_that_no_device_takes() {
    let site = Site::audited();
    site.ask(Operation::Update, "secret/data/a", PUT).unwrap();
    site.memory.fails.store(true, Ordering::SeqCst);
    for (operation, path, body) in [
        (Operation::Read, "secret/data/a", ""),
        (Operation::Update, "secret/data/b", PUT),
        (Operation::Read, "sys/mounts", ""),
        (Operation::Read, "sys/audit", ""),
        (Operation::Delete, "sys/audit/mem", ""),
        (Operation::Update, "auth/token/create", "{}"),
        (Operation::Read, "nowhere/a", ""),
    ] {
        let answer = site.ask(operation, path, body);
        assert!(matches!(answer, Err(Error::Unaudited)), "{path}: {answer:?}");
    }
    // What has to work when nothing else does.
    for path in ["sys/health", "sys/seal-status", "sys/leader"] {
        assert!(site.ask(Operation::Read, path, "").is_ok(), "{path}");
    }
    site.heal();
    assert!(matches!(site.ask(Operation::Read, "secret/data/b", ""), Err(Error::NotFound)));
    assert!(site.ask(Operation::Read, "secret/data/a", "").is_ok());
}

#[test]
fn a_write_whose_response_is_not_written_is_committed_and_answered_by_an_error() {
    let site = Site::audited();
    site.memory.takes.store(1, Ordering::SeqCst);
    let answer = site.ask(Operation::Update, "secret/data/a", PUT);
    assert!(matches!(answer, Err(Error::Unaudited)), "{answer:?}");
    site.heal();
    assert!(site.ask(Operation::Read, "secret/data/a", "").is_ok(), "it was committed");
}

#[test]
fn a_token_whose_making_was_not_written_ends() {
    let site = Site::audited();
    site.memory.takes.store(1, Ordering::SeqCst);
    let body = r#"{"id":"unheard","policies":["default"]}"#;
    let answer = site.ask(Operation::Update, "auth/token/create", body);
    assert!(matches!(answer, Err(Error::Unaudited)), "{answer:?}");
    site.heal();
    let asked = site.ask_as("unheard", Operation::Read, "auth/token/lookup-self", "");
    assert!(matches!(asked, Err(Error::Denied(_))), "{asked:?}");
    // A renewal that is not written ends nothing.
    let body = r#"{"id":"known","policies":["default"],"ttl":"1h"}"#;
    site.ask(Operation::Update, "auth/token/create", body).unwrap();
    site.memory.takes.store(1, Ordering::SeqCst);
    let renewed = site.ask_as("known", Operation::Update, "auth/token/renew-self", "{}");
    assert!(matches!(renewed, Err(Error::Unaudited)), "{renewed:?}");
    site.heal();
    site.ask_as("known", Operation::Read, "auth/token/lookup-self", "").unwrap();
}

#[test]
fn devices_and_headers_come_back_after_a_seal() {
    let site = Site::audited();
    let header = "sys/config/auditing/request-headers/X-Planted";
    site.ask(Operation::Update, header, r#"{"hmac":true}"#).unwrap();
    let mask = masked(&site, "abc");
    site.memory.fails.store(true, Ordering::SeqCst);
    // Sealing works whatever the devices do.
    site.ask(Operation::Update, "sys/seal", "").unwrap();
    assert!(site.core.is_sealed());
    site.memory.fails.store(false, Ordering::SeqCst);
    let body = format!(r#"{{"key":"{}"}}"#, site.key);
    site.ask(Operation::Update, "sys/unseal", &body).unwrap();
    assert_eq!(masked(&site, "abc"), mask, "the salt is the same");
    site.memory.kept.lock().unwrap().clear();
    site.ask(Operation::Read, "sys/mounts", "").unwrap();
    let last = site.memory.text();
    assert!(last.contains(r#""headers":{"x-planted":["hmac-sha256:"#), "{last}");
}

fn masked(site: &Site, value: &str) -> String {
    let body = format!(r#"{{"input":"{value}"}}"#);
    match site.ask(Operation::Update, "sys/audit-hash/mem", &body).unwrap() {
        Response::Merged(reply) => String::from_utf8(reply.data).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn declared_devices_are_there_from_the_first_request_and_stay() {
    let declared = DeclaredDevice {
        path: "log".to_owned(),
        kind: "file".to_owned(),
        description: "declared".to_owned(),
        options: [("file_path".to_owned(), "discard".to_owned())].into(),
    };
    let site = Site::open(vec![declared]);
    site.ask(Operation::Read, "sys/audit", "").unwrap();
    assert!(site.memory.text().contains("\"path\":\"sys/audit\""));
    let refused = site.ask(Operation::Delete, "sys/audit/log", "").unwrap_err();
    assert!(refused.to_string().contains("declared"), "{refused}");
    // A configuration without it takes it away at the next unseal.
    site.ask(Operation::Update, "sys/seal", "").unwrap();
    let core = core_over(&site.store, &site.memory, Vec::new());
    let site = Site { core, ..site };
    let body = format!(r#"{{"key":"{}"}}"#, site.key);
    site.ask(Operation::Update, "sys/unseal", &body).unwrap();
    let Response::Merged(reply) = site.ask(Operation::Read, "sys/audit", "").unwrap() else {
        panic!("a list is merged")
    };
    assert_eq!(reply.data, b"{}");
}

#[test]
fn what_makes_no_device_is_refused_by_name() {
    let site = Site::audited();
    for (path, body, why) in [
        ("sys/audit/mem", DEVICE, "path already in use"),
        ("sys/audit/mem/below", DEVICE, "path already in use"),
        ("sys/audit/b", r#"{"type":"bogus"}"#, "unknown backend type"),
        ("sys/audit/b", r#"{"type":"file"}"#, "file_path is required"),
        (
            "sys/audit/b",
            r#"{"type":"file","options":{"file_path":"/etc/passwd"}}"#,
            "outside of the directories",
        ),
        (
            "sys/audit/b",
            r#"{"type":"file","options":{"file_path":"/var/log/../../etc/passwd"}}"#,
            "without . and ..",
        ),
    ] {
        let error = site.ask(Operation::Update, path, body).unwrap_err();
        assert!(error.to_string().contains(why), "{body}: {error}");
    }
    site.memory.fails.store(true, Ordering::SeqCst);
    let other = Site::open(Vec::new());
    other.memory.fails.store(true, Ordering::SeqCst);
    let error = other.ask(Operation::Update, "sys/audit/b", DEVICE).unwrap_err();
    assert!(error.to_string().contains("audit backend failed test message: "), "{error}");
    other.ask(Operation::Read, "sys/mounts", "").unwrap();
}

/// A value in the encodings it might turn up in.
fn encodings(value: &str) -> Vec<String> {
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let unicode: String = value.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let base64 = data_encoding::BASE64.encode(value.as_bytes());
    // Without its end, which depends on what follows.
    let base64 = base64.trim_end_matches('=').to_owned();
    let reversed = value.chars().rev().collect();
    vec![value.to_owned(), hex.to_uppercase(), hex, percent, unicode, base64, reversed]
}

/// Secrets planted as values in every field, in several forms; names, paths, policies and metadata
/// of tokens are in the clear by contract.
#[test]
fn planted_secrets_never_show() {
    let site = Site::audited();
    let header = "sys/config/auditing/request-headers/x-planted";
    site.ask(Operation::Update, header, r#"{"hmac":true}"#).unwrap();
    let mut planted: Vec<String> = vec!["canary-header".to_owned()];
    let mut errors = String::new();
    let mut plant =
        |form: &dyn Fn(&str) -> String, operation: Operation, path: &str, count: usize| {
            for at in 0..count {
                let value = format!("canary{}x{at}\u{e9}\"\\\n", planted.len());
                let mut quoted = Vec::new();
                json::write_string(&value, &mut quoted);
                let quoted = String::from_utf8(quoted).unwrap();
                if let Err(error) = site.ask(operation, path, &form(&quoted)) {
                    errors.push_str(&format!("{error} {error:?}"));
                }
                planted.push(value);
            }
        };
    use Operation::{Delete, Read, Update};
    let in_data =
        |v: &str| format!(r#"{{"data":{{"a":{v},"b":[{v},{{"c":{v}}}]}},"options":{{"x":{v}}}}}"#);
    plant(&in_data, Update, "secret/data/a", 300);
    plant(&|_| String::new(), Read, "secret/data/a", 5);
    let custom = |v: &str| format!(r#"{{"custom_metadata":{{"k":{v}}}}}"#);
    plant(&custom, Update, "secret/metadata/a", 100);
    let create = |v: &str| format!(r#"{{"id":{v},"policies":["default"],"ttl":{v},"type":{v}}}"#);
    plant(&create, Update, "auth/token/create", 100);
    let lookup = |v: &str| format!(r#"{{"token":{v},"accessor":{v}}}"#);
    for path in ["lookup", "lookup-accessor", "renew", "revoke", "revoke-accessor"] {
        plant(&lookup, Update, &format!("auth/token/{path}"), 40);
    }
    let mount = |v: &str| {
        format!(
            r#"{{"type":{v},"description":{v},"config":{{"listing_visibility":{v}}},"options":{{"version":{v}}}}}"#
        )
    };
    plant(&mount, Update, "sys/mounts/m", 60);
    plant(&mount, Update, "sys/mounts/secret/tune", 60);
    let policy = |v: &str| format!(r#"{{"policy":{v}}}"#);
    plant(&policy, Update, "sys/policies/acl/p", 60);
    let device = |v: &str| {
        format!(r#"{{"type":{v},"description":{v},"options":{{"file_path":{v},"address":{v}}}}}"#)
    };
    plant(&device, Update, "sys/audit/other", 40);
    let input = |v: &str| format!(r#"{{"input":{v}}}"#);
    plant(&input, Update, "sys/audit-hash/mem", 20);
    let unseal = |v: &str| format!(r#"{{"key":{v},"nonce":{v}}}"#);
    for path in ["sys/unseal", "sys/rekey/update", "sys/generate-root/update", "sys/decode-token"] {
        plant(&unseal, Update, path, 20);
    }
    // No JSON at all, and JSON of another kind.
    plant(&|v| format!("{{{v}"), Update, "secret/data/broken", 40);
    plant(&|v| format!("[{v}]"), Update, "secret/data/list", 40);
    plant(&|v| v.to_owned(), Delete, "secret/data/a", 10);
    for at in 0..60 {
        let value = format!("canaryquery{at}");
        let _ = site.ask(Read, &format!("secret/data/a?version={value}&x={value}"), "");
        let _ = site.ask_as(&format!("hvs.canarytoken{at}"), Read, "secret/data/a", "");
        planted.extend([value, format!("canarytoken{at}")]);
    }
    assert!(planted.len() >= 1000, "{} secrets were planted", planted.len());
    assert!(site.memory.records().len() > 2000);
    let records = site.memory.text();
    // Every planted value starts with the same word, so one look finds them all.
    for form in encodings("canary") {
        assert!(!records.contains(&form), "a planted value shows in a record as {form}");
    }
    // A refusal may name what it refuses, but never the text of a token or the value of a secret.
    for at in 0..60 {
        assert!(!errors.contains(&format!("canarytoken{at}")));
    }
}

#[test]
fn exempt_names_and_headers_in_the_clear_are_an_operators_choice() {
    let site = Site::audited();
    let tune = r#"{"audit_non_hmac_request_keys":["p"],"audit_non_hmac_response_keys":["l"]}"#;
    site.ask(Operation::Update, "sys/mounts/secret/tune", tune).unwrap();
    let header = "sys/config/auditing/request-headers/x-planted";
    site.ask(Operation::Update, header, r#"{"hmac":false}"#).unwrap();
    let begun = site.memory.records().len();
    site.ask(Operation::Update, "secret/data/a", PUT).unwrap();
    site.ask(Operation::Read, "secret/data/a", "").unwrap();
    let records = &site.memory.records()[begun..];
    assert_eq!(at(&records[0], "request.data.data.p"), "hidden");
    assert!(at(&records[3], "response.data.data.p").starts_with("hmac-sha256:"));
    assert_eq!(at(&records[3], "response.data.data.l"), r#"["x"]"#);
    assert_eq!(at(&records[0], "request.headers.x-planted"), r#"["canary-header"]"#);
    let token = "sys/config/auditing/request-headers/X-Vault-Token";
    assert!(site.ask(Operation::Update, token, "{}").is_err());
}
