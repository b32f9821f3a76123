//! The versions that served a storage.

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_core::{Core, Operation, Response, ServerInfo};
use kallisto_store::Store;

use crate::support::{Site, ask, whole_core};

fn history(core: &Core) -> String {
    match ask(core, Operation::List, "sys/version-history", "").unwrap() {
        Response::Logical(reply) => String::from_utf8(reply.data).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_version_is_written_down_when_it_first_serves() {
    let site = Site::open(1 << 20);
    // The number of the API is the same after an upgrade.
    let release = ServerInfo::default().release;
    let first = r#":{"build_date":"2026-11-01T00:00:00Z","commit_date":"2026-11-01T00:00:00Z","previous_version":null,"timestamp_installed":"1970-01-01T00:00:00Z"}"#;
    let first = format!(r#""{release}"{first}"#);
    assert_eq!(history(&site.core), format!(r#"{{"key_info":{{{first}}},"keys":["{release}"]}}"#));
    site.ask(Operation::Update, "sys/seal", "").unwrap();

    let info = ServerInfo { release: "99.1.0".to_owned(), ..ServerInfo::default() };
    let core = whole_core(Arc::clone(&site.store) as Arc<dyn Store>, info);
    let body = format!(r#"{{"key":"{}"}}"#, site.keys[0]);
    ask(&core, Operation::Update, "sys/unseal", &body).unwrap();
    for secs in [60, 120] {
        let now = Timestamp::from_second(secs).unwrap();
        pollster::block_on(core.run_due_jobs(now)).unwrap();
    }
    let both = history(&core);
    let keys = format!(r#""keys":["{release}","99.1.0"]}}"#);
    assert!(both.contains(&first) && both.ends_with(&keys), "{both}");
    let second =
        format!(r#""previous_version":"{release}","timestamp_installed":"1970-01-01T00:01:00Z""#);
    assert!(both.contains(&second), "{both}");
}
