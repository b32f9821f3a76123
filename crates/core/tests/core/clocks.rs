//! Servers whose clocks differ: what one has done holds at another that is behind.

use kallisto_core::{Operation, Response};

use crate::support::{Site, TOKEN, ask_as};

/// A clock that is right, and one that is behind.
const NOW: i64 = 1000;
const BEHIND: i64 = 990;

fn shows(site: &Site, secs: i64, path: &str) -> bool {
    match ask_as(&site.core, TOKEN, secs, Operation::Read, path, "").unwrap() {
        Response::Logical(_) => true,
        Response::Missing(_) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_deleted_is_gone_by_a_clock_that_is_behind() {
    let site = Site::open(1 << 20);
    let write = |secs, operation, path, body| {
        ask_as(&site.core, TOKEN, secs, operation, path, body).unwrap();
    };
    write(BEHIND, Operation::Update, "secret/data/a", r#"{"data":{"v":"1"}}"#);
    write(NOW, Operation::Delete, "secret/data/a", "");
    assert!(!shows(&site, NOW, "secret/data/a"));
    assert!(!shows(&site, BEHIND, "secret/data/a"));
    write(NOW, Operation::Update, "secret/undelete/a", r#"{"versions":[1]}"#);
    assert!(shows(&site, BEHIND, "secret/data/a"));
}

#[test]
fn what_deletes_itself_does_so_by_the_clock_of_who_is_asked() {
    let site = Site::open(1 << 20);
    let settings = r#"{"delete_version_after":"5s"}"#;
    for (path, body) in [("secret/metadata/a", settings), ("secret/data/a", r#"{"data":{}}"#)] {
        ask_as(&site.core, TOKEN, BEHIND, Operation::Update, path, body).unwrap();
    }
    assert!(shows(&site, BEHIND + 4, "secret/data/a"));
    assert!(!shows(&site, NOW, "secret/data/a"));
}
