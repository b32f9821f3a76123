//! What is kept with certificates for whoever asked for them.

use kallisto_api::Error;
use kallisto_api::json::Map;
use kallisto_auth::Operation::{List, Patch, Read, Update};

use super::{NOW, issue, with_root};
use crate::testing::TestMount;

const TICKET: &str = "eyJ0aWNrZXQiOiJPUFMtMSJ9";

fn with_ticket() -> String {
    format!(r#"{{"common_name":"a.example.com","cert_metadata":"{TICKET}"}}"#)
}

fn read(mount: &TestMount, serial: &str) -> Result<Map, Error> {
    mount.ask(NOW, Read, &format!("cert-metadata/{serial}"), "")
}

#[test]
fn metadata_is_kept_with_the_number_of_a_certificate_and_told() {
    let (mount, _) = with_root();
    let issued = issue(&mount, "any", &with_ticket()).unwrap();
    let serial = TestMount::text(&issued, "serial_number");
    assert!(!issued.contains_key("cert_metadata"));
    let found = read(&mount, &serial).unwrap();
    assert_eq!(TestMount::text(&found, "cert_metadata"), TICKET);
    assert_eq!(TestMount::text(&found, "role"), "any");
    assert_eq!(TestMount::text(&found, "serial_number"), serial);
    assert_eq!(TestMount::text(&found, "expiration"), "2026-11-23T07:00:11Z");
    let issuers = mount.ask(NOW, List, "issuers", "").unwrap();
    assert!(TestMount::text(&issuers, "keys").contains(&TestMount::text(&found, "issuer_id")));
    let spelled = serial.replace(':', "-").to_uppercase();
    assert_eq!(read(&mount, &spelled).unwrap(), found);
    let bare = issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
    let bare = read(&mount, &TestMount::text(&bare, "serial_number"));
    assert!(matches!(bare, Err(Error::NotFound)));
    assert!(matches!(read(&mount, "zz"), Err(Error::NotFound)));
}

#[test]
fn a_role_that_keeps_no_certificates_may_keep_metadata_and_the_other_way_round() {
    let (mount, _) = with_root();
    mount.ask(NOW, Patch, "roles/any", r#"{"no_store":true}"#).unwrap();
    let issued = issue(&mount, "any", &with_ticket()).unwrap();
    let serial = TestMount::text(&issued, "serial_number");
    assert!(read(&mount, &serial).is_ok());
    assert!(mount.ask(NOW, Read, &format!("cert/{serial}"), "").is_err());
    mount.ask(NOW, Patch, "roles/any", r#"{"no_store_metadata":true}"#).unwrap();
    assert!(matches!(issue(&mount, "any", &with_ticket()), Err(Error::Invalid(_))));
    assert!(issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).is_ok());
}

#[test]
fn metadata_is_base_64_and_bounded() {
    let (mount, _) = with_root();
    let long = "AAAA".repeat((16 << 10) / 3 + 2);
    for bad in ["%%", "abc", &long] {
        let body = format!(r#"{{"common_name":"a.example.com","cert_metadata":"{bad}"}}"#);
        assert!(matches!(issue(&mount, "any", &body), Err(Error::Invalid(_))), "{}", bad.len());
    }
}

#[test]
fn metadata_of_what_has_ended_is_tidied_where_tidying_is_asked_for_it() {
    let (mount, _) = with_root();
    let old = issue(&mount, "any", &with_ticket()).unwrap();
    let old = TestMount::text(&old, "serial_number");
    let body = r#"{"common_name":"a.example.com","cert_metadata":"AAAA","ttl":"1m"}"#;
    let brief = TestMount::text(&issue(&mount, "any", body).unwrap(), "serial_number");
    let later = NOW + 3000;
    let tidy = |what: &str| {
        let body = format!(r#"{{"{what}":true,"safety_buffer":"1s"}}"#);
        mount.answer(later, Update, "tidy", body.as_bytes()).unwrap();
    };
    tidy("tidy_cert_store");
    assert!(read(&mount, &brief).is_ok());
    tidy("tidy_cert_metadata");
    assert!(matches!(read(&mount, &brief), Err(Error::NotFound)));
    assert!(read(&mount, &old).is_ok());
}
