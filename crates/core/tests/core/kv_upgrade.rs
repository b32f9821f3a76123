//! A mount of version 1 becomes one of version 2 in place, with everything in it.

use jiff::Timestamp;
use kallisto_core::{Error, Operation, Response};

use crate::support::{Site, data_text};

const SECRETS: usize = 300;
/// How often a mount is asked whether its upgrade has ended.
const ASKS_MAX: usize = 60_000;

fn site() -> Site {
    let site = Site::open(1 << 20);
    site.ask(Operation::Update, "sys/mounts/old", r#"{"type":"kv"}"#).unwrap();
    for at in 0..SECRETS {
        let body = format!(r#"{{"at":"{at}","ttl":"1h"}}"#);
        site.ask(Operation::Update, &format!("old/team/{at}"), &body).unwrap();
    }
    site
}

fn tune(site: &Site, version: &str) -> Result<Response, Error> {
    let body = format!(r#"{{"options":{{"version":"{version}"}}}}"#);
    site.ask(Operation::Update, "sys/mounts/old/tune", &body)
}

/// Asks until the mount serves again; every answer before says why it does not.
fn wait(site: &Site) {
    for _ in 0..ASKS_MAX {
        match site.ask(Operation::Read, "old/data/team/0", "") {
            Ok(_) => return,
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.starts_with("Upgrading from non-versioned to versioned data."),
                    "{text}"
                );
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the upgrade did not end");
}

fn assert_upgraded(site: &Site) {
    for at in 0..SECRETS {
        let reply =
            data_text(site.ask(Operation::Read, &format!("old/data/team/{at}"), "").unwrap());
        assert!(reply.starts_with(&format!(r#"{{"data":{{"at":"{at}","ttl":"1h"}},"#)), "{reply}");
        assert!(reply.contains(r#""version":1"#), "{reply}");
    }
    let names = data_text(site.ask(Operation::List, "old/metadata/team", "").unwrap());
    assert_eq!(names.matches('"').count(), 2 * (SECRETS + 1), "{names}");
    // No path of version 2: what is there is said in a warning.
    let old = site.ask(Operation::Read, "old/team/0", "");
    assert!(matches!(old, Ok(Response::Missing(_))), "{old:?}");
    let tuned = data_text(site.ask(Operation::Read, "sys/mounts/old/tune", "").unwrap());
    assert!(tuned.contains(r#""options":{"version":"2"}"#), "{tuned}");
}

#[test]
fn every_secret_becomes_its_own_first_version() {
    let site = site();
    let Response::Logical(reply) = tune(&site, "2").unwrap() else { panic!("no warning") };
    assert!(reply.warnings[0].starts_with("Upgrading mount from version 1 to version 2."));
    wait(&site);
    assert_upgraded(&site);
    site.ask(Operation::Update, "old/data/team/0", r#"{"data":{"at":"new"}}"#).unwrap();
    let reply = data_text(site.ask(Operation::Read, "old/data/team/0", "").unwrap());
    assert!(reply.contains(r#""version":2"#), "{reply}");
    pollster::block_on(site.core.seal()).unwrap();
    site.unseal();
    let reply = data_text(site.ask(Operation::Read, "old/data/team/0", "").unwrap());
    assert!(reply.starts_with(r#"{"data":{"at":"new"}"#), "{reply}");
}

#[test]
fn an_upgrade_that_was_cut_short_is_taken_up_at_the_next_unseal() {
    let site = site();
    tune(&site, "2").unwrap();
    pollster::block_on(site.core.seal()).unwrap();
    site.unseal();
    pollster::block_on(site.core.run_due_jobs(Timestamp::UNIX_EPOCH)).unwrap();
    wait(&site);
    assert_upgraded(&site);
}

#[test]
fn a_version_that_there_is_not_or_was_is_refused() {
    let site = site();
    assert_eq!(tune(&site, "3").unwrap_err().to_string(), "invalid version provided: 3");
    assert!(matches!(tune(&site, "1"), Ok(Response::Empty)));
    tune(&site, "2").unwrap();
    let text = tune(&site, "1").unwrap_err().to_string();
    assert_eq!(text, "cannot downgrade mount from version 2");
    wait(&site);
    assert!(matches!(tune(&site, "2"), Ok(Response::Empty)));
}
