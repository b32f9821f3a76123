//! Reading what a file device wrote: filters, pages, and following it.

use std::path::PathBuf;

use super::*;
use kallisto_core::{NextPiece, Stream};

/// A core with a device that writes a file below a folder of its own.
struct Filed {
    core: Core,
    folder: PathBuf,
    clock: AtomicI64,
}

impl Drop for Filed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

const RECORDS: &str = "sys/kallisto/audit/file/records";

impl Filed {
    fn open(name: &str) -> Self {
        let folder = format!("kallisto-records-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let settings =
            AuditSettings { directories: vec![folder.clone()], ..AuditSettings::default() };
        let core =
            Core::new(Arc::new(MemoryStore::new()), ServerInfo::default()).with_audit(settings);
        let made = core.initialize_dev(Some(TOKEN.to_owned().into()), Timestamp::UNIX_EPOCH);
        pollster::block_on(made).unwrap();
        let site = Self { core, folder, clock: AtomicI64::new(1) };
        let file = site.folder.join("audit.log");
        let body = format!(r#"{{"type":"file","options":{{"file_path":"{}"}}}}"#, file.display());
        site.ask(TOKEN, Operation::Update, "sys/audit/file", &body, &[]).unwrap();
        site
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

/// The paths of the answers that a stream has to say now, and whether it ended.
fn drain(stream: &mut Stream) -> (Vec<String>, bool) {
    let mut paths = Vec::new();
    loop {
        let now = Timestamp::from_second(1_000).unwrap();
        let (bytes, is_over) = match stream.source.next(now) {
            NextPiece::Bytes(bytes) => (bytes, false),
            NextPiece::Wait => return (paths, false),
            NextPiece::End(bytes) => (bytes, true),
            NextPiece::Cut => panic!("it was cut"),
        };
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let record = json::parse_object(line).unwrap();
            if at(&record, "type") == "response" {
                paths.push(at(&record, "request.path"));
            }
        }
        if is_over {
            return (paths, true);
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
    assert_eq!(drain(&mut from_now), (vec![], false));
    assert_eq!(drain(&mut from_start), (vec!["secret/data/before".to_owned()], false));
    site.write("secret/data/after");
    pollster::block_on(from_now.source.changed());
    for stream in [&mut from_now, &mut from_start] {
        assert_eq!(drain(stream), (vec!["secret/data/after".to_owned()], false));
        assert_eq!(drain(stream), (vec![], false), "once");
    }
    let both = [("follow", "true"), ("next", "5")];
    assert!(site.ask(TOKEN, Operation::Read, RECORDS, "", &both).is_err());
    site.ask(TOKEN, Operation::Delete, "sys/audit/file", "", &[]).unwrap();
    // The device ends on a thread of its own; the bell rings when it has.
    while !drain(&mut from_now).1 {
        pollster::block_on(from_now.source.changed());
    }
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
    assert!(!drain(&mut stream).1);
    put(r#""read""#);
    assert!(drain(&mut stream).1, "it ends");
}
