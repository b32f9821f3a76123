//! What those are answered who ask only for what changed since a date.

use std::time::Duration;

use kallisto_api::Response;
use kallisto_auth::Operation::{Delete, Patch, Read, Update};
use kallisto_engine::ConditionalReads;

use super::super::ENGINE;
use super::{NOW, issue, with_root};
use crate::testing::TestMount;

/// How far behind servers may be in these tests, and for how long a change counts as not settled then.
const STALENESS: i64 = 10;
const SETTLES: i64 = 60 + STALENESS;

fn tuned(tells_date: bool) -> Option<ConditionalReads> {
    let staleness_max = Duration::from_secs(STALENESS.cast_unsigned());
    Some(ConditionalReads { tells_date, staleness_max })
}

fn date(at: i64) -> String {
    let at = jiff::Timestamp::from_second(at).unwrap();
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap()
}

/// The code of an answer, and its date.
fn read(mount: &TestMount, at: i64, path: &str, since: i64) -> (u16, Option<String>) {
    mount.ask_since(&[&date(since)]);
    let answer = mount.answer(at, Read, path, b"").unwrap();
    mount.ask_since(&[]);
    match answer {
        Response::Text { code, .. } => (code, None),
        Response::Logical(_) => (200, None),
        Response::Foreign { code, headers, body, content_type } => {
            assert_eq!(body.is_empty(), code == 304, "{path}");
            assert_eq!(content_type.is_empty(), code == 304, "{path}");
            let [(name, date)] = &headers[..] else { return (code, None) };
            assert_eq!(*name, "last-modified");
            (code, Some(date.clone()))
        }
        other => panic!("{path}: {other:?}"),
    }
}

/// Reads that say the date of what they read.
const RAW: [&str; 16] = [
    "ca",
    "ca/pem",
    "ca_chain",
    "cert/ca/raw",
    "cert/ca_chain/raw/pem",
    "issuer/root/der",
    "issuer/root/pem",
    "crl",
    "crl/pem",
    "crl/delta",
    "crl/delta/pem",
    "cert/crl/raw",
    "issuer/root/crl/der",
    "issuer/root/crl/pem",
    "issuer/root/crl/delta/der",
    "issuer/root/crl/delta/pem",
];
/// Reads in an envelope, which bears no date.
const ENVELOPED: [&str; 7] = [
    "issuer/root/json",
    "issuer/root/crl",
    "issuer/root/crl/delta",
    "cert/ca",
    "cert/ca_chain",
    "cert/crl",
    "cert/delta-crl",
];

#[test]
fn what_has_not_changed_since_a_date_is_not_sent_again_where_a_mount_is_tuned_for_it() {
    let (mount, _) = with_root();
    let (settled, later) = (NOW + SETTLES, NOW + 10 * SETTLES);
    for path in RAW.iter().chain(&ENVELOPED) {
        assert_eq!(read(&mount, later, path, later), (200, None), "{path} is not tuned");
    }
    for tells_date in [false, true] {
        mount.tune(tuned(tells_date));
        let told = tells_date.then(|| date(settled));
        for path in RAW {
            assert_eq!(read(&mount, later, path, settled - 1), (200, told.clone()), "{path}");
            for since in [settled, later, later + 1_000_000_000] {
                assert_eq!(read(&mount, later, path, since), (304, told.clone()), "{path}");
            }
        }
        for path in ENVELOPED {
            assert_eq!(read(&mount, later, path, settled - 1), (200, None), "{path}");
            assert_eq!(read(&mount, later, path, settled), (304, told.clone()), "{path}");
        }
    }
    // A date that is none, or two of them, are no question.
    let bad = ["", "yesterday", "Sat, 29 Nov 1994 08:49:37", "-1", "Mon, 01 Jan 2100 00:00:00 GMT"];
    for dates in bad.iter().map(|bad| vec![*bad]).chain([vec![&*date(later); 2]]) {
        mount.ask_since(&dates);
        let (code, _) = mount.raw(later, Read, "ca", b"").unwrap();
        assert_eq!(code, 200, "{dates:?}");
    }
    mount.ask_since(&[]);
}

/// A server that is behind answers as before the change for a while, and who asked it in that time must not be told later that nothing changed.
#[test]
fn whoever_may_have_what_was_there_before_a_change_is_sent_what_is_there_now() {
    let (mount, _) = with_root();
    mount.tune(tuned(true));
    for changed in [NOW + 1000, NOW + 1001, NOW + 3000] {
        let issued = issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
        let body =
            format!(r#"{{"serial_number":"{}"}}"#, TestMount::text(&issued, "serial_number"));
        mount.ask(changed, Update, "revoke", &body).unwrap();
        for asked in 0..SETTLES {
            for path in ["crl", "issuer/root/crl/pem"] {
                let now = changed + asked;
                assert_eq!(read(&mount, now, path, now), (200, None), "{asked}");
                let later = changed + 100_000;
                assert_eq!(read(&mount, later, path, now).0, 200, "{asked}");
            }
        }
        let settled = changed + SETTLES;
        assert_eq!(read(&mount, settled, "crl", settled), (304, Some(date(settled))));
        // Certificates are as they were.
        assert_eq!(read(&mount, settled, "ca", NOW + SETTLES).0, 304);
    }
}

#[test]
fn each_change_of_issuers_has_a_later_date_than_the_one_before_it_whatever_the_clock_says() {
    let (mount, _) = with_root();
    mount.tune(tuned(true));
    let far = NOW + 1_000_000;
    let mut last = NOW;
    let next = r#"{"common_name":"Next","key_type":"ec","issuer_name":"next"}"#;
    for (at, operation, path, body) in [
        (NOW, Update, "root/generate/internal", next),
        (NOW, Update, "root/replace", r#"{"default":"next"}"#),
        // The clock was set back.
        (NOW - 500, Patch, "issuer/next", r#"{"issuer_name":"another"}"#),
        (NOW + 500, Delete, "issuer/root", ""),
        (NOW + 500, Update, "config/issuers", r#"{"default":"another"}"#),
    ] {
        mount.ask(at, operation, path, body).unwrap();
        let changed = at.max(last + 1);
        for path in ["ca/pem", "crl"] {
            let told = (304, Some(date(changed + SETTLES)));
            assert_eq!(read(&mount, far, path, far), told, "{path} at {at}");
            assert_eq!(read(&mount, far, path, changed + SETTLES - 1).0, 200, "{path} at {at}");
        }
        last = changed;
    }
    let mount = mount.restarted();
    assert_eq!(read(&mount, far, "ca", far), (304, Some(date(last + SETTLES))));
}

/// A server of version 0.2 counts the change and writes no date.
#[test]
fn a_change_by_an_older_server_has_no_date() {
    let (mount, _) = with_root();
    mount.tune(tuned(true));
    let far = NOW + 1_000_000;
    assert_eq!(read(&mount, far, "ca", far).0, 304);
    mount.put("config/generation", &9_u64.to_be_bytes());
    for path in ["ca", "crl", "issuer/root/json"] {
        assert_eq!(read(&mount, far, path, far), (200, None), "{path}");
    }
    mount.ask(NOW, Patch, "issuer/root", r#"{"issuer_name":"first"}"#).unwrap();
    assert_eq!(read(&mount, far, "ca", far).0, 304);
}

#[test]
fn where_there_is_nothing_the_answer_says_so_whatever_the_date() {
    let mount = TestMount::new(&ENGINE);
    mount.tune(tuned(true));
    for path in ["ca", "ca/pem", "ca_chain", "crl", "crl/pem", "crl/delta"] {
        assert_eq!(read(&mount, NOW, path, NOW + 1_000_000).0, 204, "{path}");
    }
    mount.ask_since(&[&date(NOW + 1_000_000)]);
    assert!(mount.answer(NOW, Read, "issuer/nobody/pem", b"").is_err());
}
