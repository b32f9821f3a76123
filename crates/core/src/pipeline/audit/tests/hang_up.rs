//! Requests whose client hangs up before they are answered.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

/// The type, the path and the error of each record.
fn told(records: &[Map]) -> Vec<[&str; 3]> {
    let told = |record| {
        [text(record, &["type"]), text(record, &["request", "path"]), text(record, &["error"])]
    };
    records.iter().map(told).collect()
}

#[test]
fn a_request_whose_client_hangs_up_has_both_records() {
    let site = Site::open(ServerInfo::default());
    let (records, ()) = site.recorded(|| {
        let put = request(Some(ROOT), Update, "sys/policies/acl/a", r#"{"policy":""}"#);
        {
            let mut handling = pin!(site.core.handle(&put));
            // The device is not done, so neither is the request.
            let _busy = site.memory.kept.lock().unwrap();
            let polled = handling.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending));
        }
        // Its records are behind those of the other.
        site.root(Read, "sys/auth", "").unwrap();
    });
    let (put, read) = ("sys/policies/acl/a", "sys/auth");
    let expected = [
        ["request", put, ""],
        ["response", put, "the request ended before its answer"],
        ["request", read, ""],
        ["response", read, ""],
    ];
    assert_eq!(told(&records), expected);
}
