//! Reading what a file device wrote: filters, pages, and following it.

use std::path::PathBuf;

use crate::support::whole_core;

use super::*;
use crate::aged::AgedStore;
use crate::freshness::AskingForStale;
use kallisto_core::{InitSpec, Initialized, KvVersion, NextPiece, Stream};
use kallisto_store::Store;

/// A core with a device that writes a file below a folder of its own.
struct Filed {
    core: Core,
    folder: PathBuf,
    clock: AtomicI64,
    /// What opens it.
    share: String,
}

impl Drop for Filed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const RECORDS: &str = "sys/kallisto/audit/file/records";

impl Filed {
    fn open(name: &str) -> Self {
        Self::open_over(name, Arc::new(MemoryStore::new()))
    }

    fn open_over(name: &str, store: Arc<dyn Store>) -> Self {
        let folder = format!("kallisto-records-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let settings =
            AuditSettings { directories: vec![folder.clone()], ..AuditSettings::default() };
        let core = whole_core(store, ServerInfo::default()).with_audit(settings);
        let root_token = Some(TOKEN.to_owned().into());
        let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv: Some(KvVersion::V2) };
        let made = pollster::block_on(core.initialize(&spec, Timestamp::UNIX_EPOCH)).unwrap();
        let share = Initialized::hex(&made.keys).remove(0);
        let site = Self { core, folder, clock: AtomicI64::new(1), share };
        site.unseal();
        let file = site.folder.join("audit.log");
        let body = format!(r#"{{"type":"file","options":{{"file_path":"{}"}}}}"#, file.display());
        site.ask(TOKEN, Operation::Update, "sys/audit/file", &body, &[]).unwrap();
        site
    }

    fn unseal(&self) {
        let body = format!(r#"{{"key":"{}"}}"#, self.share);
        self.ask(TOKEN, Operation::Update, "sys/unseal", &body, &[]).unwrap();
    }

    fn ask(
        &self,
        token: &str,
        operation: Operation,
        path: &str,
        body: &str,
        query: &[(&str, &str)],
    ) -> Result<Response, Error> {
        let second = self.clock.fetch_add(1, Ordering::SeqCst);
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let query = query.iter().map(own).collect();
        let request = Request { query, ..request(token, operation, path, body, second) };
        pollster::block_on(self.core.handle(&request))
    }

    fn write(&self, path: &str) {
        self.ask(TOKEN, Operation::Update, path, r#"{"data":{"k":"planted-value"}}"#, &[]).unwrap();
    }

    /// The paths of the records of answers that fit, the newest first.
    fn found(&self, query: &[(&str, &str)]) -> Vec<String> {
        let answer = self.ask(TOKEN, Operation::Read, RECORDS, "", query).unwrap();
        let Response::Logical(answer) = answer else { panic!("no data") };
        let data = json::parse_object(&answer.data).unwrap();
        let Some(Json::Array(records)) = data.get("records") else { panic!("no records") };
        let records = records.iter().filter_map(Json::as_object);
        let answers = records.filter(|record| at(record, "type") == "response");
        answers.map(|record| at(record, "request.path")).collect()
    }

    fn follow(&self, token: &str, query: &[(&str, &str)]) -> Result<Stream, Error> {
        let query = [&[("follow", "true")], query].concat();
        match self.ask(token, Operation::Read, RECORDS, "", &query)? {
            Response::Stream(stream) => Ok(stream),
            other => panic!("{other:?}"),
        }
    }
}

/// The paths of the answers that a stream says up to one at `last`, or to its end.
fn until(stream: &mut Stream, last: Option<&str>) -> Vec<String> {
    let mut paths = Vec::new();
    loop {
        let now = Timestamp::from_second(1_000).unwrap();
        let (bytes, is_over) = match stream.source.next(now) {
            NextPiece::Bytes(bytes) => (bytes, false),
            NextPiece::Wait => {
                pollster::block_on(stream.source.changed());
                continue;
            }
            NextPiece::End(bytes) => (bytes, true),
            NextPiece::Cut => panic!("it was cut"),
        };
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let record = json::parse_object(line).unwrap();
            if at(&record, "type") == "response" {
                paths.push(at(&record, "request.path"));
            }
        }
        if paths.last().is_some_and(|path| Some(&**path) == last) {
            return paths;
        }
        if is_over {
            assert_eq!(last, None, "it ended: {paths:?}");
            return paths;
        }
    }
}

#[test]
fn records_are_found_by_path_outcome_address_and_the_mask_of_a_value() {
    let site = Filed::open("found");
    for path in ["secret/data/a", "secret/data/b"] {
        site.write(path);
    }
    let _ = site.ask("nobody", Operation::Read, "secret/data/a", "", &[]).unwrap_err();
    assert_eq!(
        site.found(&[("path", "secret/data/*"), ("outcome", "ok")]),
        ["secret/data/b", "secret/data/a"]
    );
    assert_eq!(site.found(&[("path", "secret/data/*"), ("outcome", "denied")]), ["secret/data/a"]);
    let hashed = r#"{"input":"planted-value"}"#;
    let answer = site.ask(TOKEN, Operation::Update, "sys/audit-hash/file", hashed, &[]).unwrap();
    let Response::Merged(answer) = answer else { panic!("no data") };
    let mask = at(&json::parse_object(&answer.data).unwrap(), "hash");
    let by_mask = site.found(&[("contains", &mask), ("path", "secret/data/*")]);
    assert_eq!(by_mask, ["secret/data/b", "secret/data/a"]);
    assert_eq!(site.found(&[("address", "192.0.2.1"), ("path", "secret/*")]), [""; 0]);
}

#[test]
fn followed_records_come_once_as_they_are_written_and_from_a_number_on() {
    let site = Filed::open("follow");
    site.write("secret/data/before");
    let mut from_now = site.follow(TOKEN, &[("path", "secret/*")]).unwrap();
    let mut from_start =
        site.follow(TOKEN, &[("path", "secret/*"), ("from_seq", "1"), ("raw", "true")]).unwrap();
    let before = "secret/data/before";
    assert_eq!(until(&mut from_start, Some(before)), [before]);
    // Once each, and what was written before comes to nobody who begins at the end.
    for path in ["secret/data/after", "secret/data/later"] {
        site.write(path);
        for stream in [&mut from_now, &mut from_start] {
            assert_eq!(until(stream, Some(path)), [path]);
        }
    }
    let both = [("follow", "true"), ("next", "5")];
    assert!(site.ask(TOKEN, Operation::Read, RECORDS, "", &both).is_err());
    site.ask(TOKEN, Operation::Delete, "sys/audit/file", "", &[]).unwrap();
    // The device ends on a thread of its own; the bell rings when it has.
    assert_eq!(until(&mut from_now, None), [""; 0]);
}

#[test]
fn a_worker_reads_no_file_for_a_stream() {
    let site = Filed::open("beside");
    site.write("secret/data/a");
    let mut stream = site.follow(TOKEN, &[("from_seq", "1"), ("path", "secret/*")]).unwrap();
    let now = Timestamp::from_second(1_000).unwrap();
    // However often it is asked, without waiting in between: nothing is read here.
    assert_eq!(stream.source.next(now), NextPiece::Wait);
    assert!(!until(&mut stream, Some("secret/data/a")).is_empty());
}

#[test]
fn a_stream_of_records_ends_on_a_server_that_is_cut_off_and_with_its_view() {
    let store = Arc::<AgedStore>::default();
    let site = Filed::open_over("stale", Arc::clone(&store) as Arc<dyn Store>);
    let mut stream = site.follow(TOKEN, &[]).unwrap();
    site.write("secret/data/a");
    assert!(!until(&mut stream, Some("secret/data/a")).is_empty());
    store.age(std::time::Duration::from_secs(3600));
    assert_eq!(until(&mut stream, None), [""; 0]);
    // Nor does one begin, for those who take single answers of any age.
    let query = vec![("follow".to_owned(), "true".to_owned())];
    let headers = Headers::of(&AskingForStale);
    let asked = request(TOKEN, Operation::Read, RECORDS, "", 2_000);
    let refused = pollster::block_on(site.core.handle(&Request { query, headers, ..asked }));
    assert!(matches!(refused, Err(Error::Stale(_))), "{refused:?}");
    store.age(std::time::Duration::ZERO);
    // Another unsealing is another view, of which this stream knows nothing.
    let mut stream = site.follow(TOKEN, &[]).unwrap();
    pollster::block_on(site.core.seal()).unwrap();
    site.unseal();
    assert_eq!(until(&mut stream, None), [""; 0]);
}

#[test]
fn a_stream_of_records_ends_with_the_right_to_it() {
    let site = Filed::open("right");
    let policy = |caps: &str| {
        let policy = format!(r#"path "{RECORDS}" {{ capabilities = [{caps}] }}"#);
        String::from_utf8(Json::object([("policy", policy.into())]).to_text().to_vec()).unwrap()
    };
    let put = |caps: &str| {
        let path = "sys/policies/acl/auditor";
        site.ask(TOKEN, Operation::Update, path, &policy(caps), &[]).unwrap();
    };
    put(r#""read""#);
    let body = r#"{"id":"auditor","policies":["auditor"]}"#;
    site.ask(TOKEN, Operation::Update, "auth/token/create", body, &[]).unwrap();
    assert!(matches!(site.follow("auditor", &[]), Err(Error::Denied(_))), "it needs sudo");
    put(r#""read", "sudo""#);
    let mut stream = site.follow("auditor", &[]).unwrap();
    put(r#""read""#);
    assert_eq!(until(&mut stream, None), [""; 0], "it ends");
}

/// A rule on parameters is judged of a stream as of the request that opened it.
#[test]
fn a_rule_on_parameters_lets_a_stream_go_on_or_refuses_it() {
    let site = Filed::open("parameters");
    for (name, rule, opens) in [
        ("allowed", r#"allowed_parameters = { "follow" = ["true"], "path" = [] }"#, true),
        ("required", r#"required_parameters = ["path"]"#, true),
        ("other", r#"allowed_parameters = { "limit" = [] }"#, false),
        ("denied", r#"denied_parameters = { "follow" = [] }"#, false),
        ("missing", r#"required_parameters = ["limit"]"#, false),
    ] {
        let rule = format!("path \"{RECORDS}\" {{ capabilities = [\"read\", \"sudo\"] {rule} }}");
        let body = Json::object([("policy", rule.into())]).to_text();
        let policy = format!("sys/policies/acl/{name}");
        let body = String::from_utf8(body.to_vec()).unwrap();
        site.ask(TOKEN, Operation::Update, &policy, &body, &[]).unwrap();
        let body = format!(r#"{{"id":"{name}","policies":["{name}"]}}"#);
        site.ask(TOKEN, Operation::Update, "auth/token/create", &body, &[]).unwrap();
        match site.follow(name, &[("path", "secret/*")]) {
            Ok(mut stream) => {
                assert!(opens, "{name}");
                site.write("secret/data/a");
                assert_eq!(until(&mut stream, Some("secret/data/a")), ["secret/data/a"]);
            }
            Err(refusal) => {
                assert!(!opens && matches!(refusal, Error::Denied(_)), "{name}: {refusal:?}");
            }
        }
    }
}

/// The records of a page, and where to go on.
fn page(site: &Filed, query: &[(&str, &str)]) -> (usize, Option<String>) {
    let answer = site.ask(TOKEN, Operation::Read, RECORDS, "", query).unwrap();
    let Response::Logical(answer) = answer else { panic!("no data") };
    let data = json::parse_object(&answer.data).unwrap();
    let Some(Json::Array(records)) = data.get("records") else { panic!("no records") };
    (records.len(), data["next"].as_str().map(str::to_owned))
}

#[test]
fn a_page_has_as_many_records_as_are_asked_for_and_the_last_one_leads_nowhere() {
    let site = Filed::open("pages");
    (0..3).for_each(|at| site.write(&format!("secret/data/{at}")));
    let fits = ("path", "secret/data/*");
    assert_eq!(page(&site, &[fits, ("limit", "2")]).0, 2);
    assert_eq!(page(&site, &[fits, ("limit", "0")]).0, 6, "none is not asked for");
    // From the end of the file to its beginning, a record at a time. What is asked meanwhile comes behind where this began.
    let (mut count, mut next) = page(&site, &[("limit", "1")]);
    while let Some(at) = next {
        assert_ne!(at, "0", "nothing is before the beginning");
        let (one, before) = page(&site, &[("limit", "1"), ("next", &at)]);
        next = before;
        assert_eq!(one, 1);
        count += one;
    }
    assert!(count > 6, "{count}");
}

#[test]
fn a_page_goes_on_from_the_beginning_of_a_line_alone() {
    let site = Filed::open("next");
    site.write("secret/data/a");
    let (_, next) = page(&site, &[("limit", "1")]);
    let at: u64 = next.unwrap().parse().unwrap();
    for wrong in [at + 1, at - 1, at + (1 << 40)] {
        let query = [("next", &*wrong.to_string())];
        let refused = site.ask(TOKEN, Operation::Read, RECORDS, "", &query).unwrap_err();
        assert!(matches!(&refused, Error::Invalid(why) if why.contains("'next'")), "{refused:?}");
    }
    assert!(page(&site, &[("limit", "1"), ("next", &at.to_string())]).0 == 1);
}

#[test]
fn a_file_is_written_by_one_device() {
    let site = Filed::open("shared");
    let enable = |name: &str, file: &str| {
        let file = site.folder.join(file);
        let body = format!(r#"{{"type":"file","options":{{"file_path":"{}"}}}}"#, file.display());
        site.ask(TOKEN, Operation::Update, &format!("sys/audit/{name}"), &body, &[]).map(|_| ())
    };
    let shared = "the audit device at file/ writes this file already";
    assert_eq!(enable("second", "audit.log"), Err(Error::invalid(shared)));
    assert_eq!(enable("second", "second.log"), Ok(()));
}

#[test]
fn followed_records_are_not_wrapped_and_a_stream_says_nothing_when_it_is_left() {
    let site = Filed::open("left");
    let query = vec![("follow".to_owned(), "true".to_owned())];
    let asked = request(TOKEN, Operation::Read, RECORDS, "", 100);
    let wrapped = Request { query, wrap_ttl_secs: 60, ..asked };
    let refused = pollster::block_on(site.core.handle(&wrapped)).unwrap_err();
    assert!(matches!(&refused, Error::Invalid(why) if why.contains("wrapped")), "{refused:?}");
    let mut stream = site.follow(TOKEN, &[]).unwrap();
    assert_eq!((stream.source.heartbeat(), stream.source.farewell()), (&b"\n"[..], None));
}

#[test]
fn a_block_without_a_record_that_fits_is_passed_in_silence() {
    let site = Filed::open("silent");
    site.write("secret/data/a");
    let query = [("from_seq", "1"), ("path", "secret/data/z")];
    let mut stream = site.follow(TOKEN, &query).unwrap();
    let now = Timestamp::from_second(1_000).unwrap();
    assert_eq!(stream.source.next(now), NextPiece::Wait);
    pollster::block_on(stream.source.changed());
    assert_eq!(stream.source.next(now), NextPiece::Wait, "the first block has nothing to tell");
    site.write("secret/data/z");
    assert_eq!(until(&mut stream, Some("secret/data/z")), ["secret/data/z"]);
}
