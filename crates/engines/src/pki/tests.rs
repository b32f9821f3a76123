//! What a mount answers, from a root to its revocation list.

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Response};
use kallisto_auth::Operation::{Delete, List, Patch, Read, Update};
use kallisto_pki::certificate::Parsed;
use kallisto_pki::pem::{self, Label};
use kallisto_pki::{PublicKey, Serial, crl};

use super::ENGINE;
use crate::testing::Mount;

const NOW: i64 = 1_795_413_611;

fn der_of(text: &str) -> Vec<u8> {
    let blocks = pem::read(text).unwrap();
    blocks.into_iter().find(|(label, _)| !label.is_private()).unwrap().1
}

fn parsed(answer: &Map, field: &str) -> Parsed {
    Parsed::from_der(&der_of(&Mount::text(answer, field))).unwrap()
}

/// A mount with a root and a role for anything.
fn with_root() -> (Mount, Parsed) {
    let mount = Mount::new(&ENGINE);
    let body = r#"{"common_name":"Root","key_type":"ec","ttl":"2h","issuer_name":"root"}"#;
    let root = mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let body = r#"{"allow_any_name":true,"key_type":"ec","ttl":"1h"}"#;
    mount.ask(NOW, Update, "roles/any", body).unwrap();
    (mount, parsed(&root, "certificate"))
}

fn issue(mount: &Mount, role: &str, body: &str) -> Result<Map, Error> {
    mount.ask(NOW, Update, &format!("issue/{role}"), body)
}

fn complete(mount: &Mount, at: i64) -> crl::Parsed {
    let (code, der) = mount.raw(at, Read, "crl", b"").unwrap();
    assert_eq!(code, 200);
    crl::Parsed::from_der(&der).unwrap()
}

#[test]
fn a_certificate_is_issued_read_listed_revoked_and_on_the_list() {
    let (mount, root) = with_root();
    let issued = issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
    let certificate = parsed(&issued, "certificate");
    assert!(certificate.is_signed_by(&root.public));
    assert!(certificate.names_as_issuer(&root));
    assert_eq!(certificate.not_after, NOW + 3600);
    assert_eq!(certificate.not_before, NOW - 30);
    let serial = Mount::text(&issued, "serial_number");
    let read = mount.ask(NOW, Read, &format!("cert/{serial}"), "").unwrap();
    assert_eq!(parsed(&read, "certificate"), certificate);
    assert_eq!(Mount::text(&read, "revocation_time"), "0");
    let listed = mount.ask(NOW, List, "certs", "").unwrap();
    assert!(Mount::text(&listed, "keys").contains(&serial));
    let before = complete(&mount, NOW);
    assert!(before.revoked.is_empty() && before.is_signed_by(&root.public));
    let body = format!(r#"{{"serial_number":"{serial}"}}"#);
    let revoked = mount.ask(NOW + 5, Update, "revoke", &body).unwrap();
    assert_eq!(Mount::text(&revoked, "revocation_time"), (NOW + 5).to_string());
    let again = mount.ask(NOW + 9, Update, "revoke", &body).unwrap();
    assert_eq!(again, revoked);
    let after = complete(&mount, NOW + 9);
    assert!(after.is_signed_by(&root.public));
    assert_eq!(after.revoked.len(), 1);
    assert_eq!(after.revoked[0].serial, Serial::parse(&serial).unwrap());
    assert!(after.number > before.number);
    let read = mount.ask(NOW, Read, &format!("cert/{serial}"), "").unwrap();
    assert_eq!(Mount::text(&read, "revocation_time"), (NOW + 5).to_string());
}
