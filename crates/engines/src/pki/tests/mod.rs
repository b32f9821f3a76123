//! What a mount answers, from a root to its revocation list.

mod chains;
mod foreign;
mod limits;
mod lists;
mod metadata;
mod modified;
mod numbers;
mod warnings;
mod wishes;

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Response};
use kallisto_auth::Operation::{Delete, List, Patch, Read, Update};
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::pem::{self, Label};
use kallisto_pki::request::Wish;
use kallisto_pki::{
    CertificateSubject, PkiKeyKind, PrivateKey, PrivateKeyForm, San, Serial, SignatureAlgorithm,
    SignatureWish, crl,
};

use super::ENGINE;
use crate::testing::TestMount;

pub(super) const NOW: i64 = 1_795_413_611;

pub(super) fn der_of(text: &str) -> Vec<u8> {
    let blocks = pem::read(text).unwrap();
    blocks.into_iter().find(|(label, _)| !label.is_private()).unwrap().1.to_vec()
}

pub(super) fn parsed(answer: &Map, field: &str) -> ParsedCertificate {
    ParsedCertificate::from_der(&der_of(&TestMount::text(answer, field))).unwrap()
}

/// A mount with a root and a role for anything.
pub(super) fn with_root() -> (TestMount, ParsedCertificate) {
    let mount = TestMount::new(&ENGINE);
    let body = r#"{"common_name":"Root","key_type":"ec","ttl":"2h","issuer_name":"root"}"#;
    let root = mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let body = r#"{"allow_any_name":true,"key_type":"ec","ttl":"1h"}"#;
    mount.ask(NOW, Update, "roles/any", body).unwrap();
    (mount, parsed(&root, "certificate"))
}

pub(super) fn issue(mount: &TestMount, role: &str, body: &str) -> Result<Map, Error> {
    mount.ask(NOW, Update, &format!("issue/{role}"), body)
}

pub(super) fn complete(mount: &TestMount, at: i64) -> crl::ParsedList {
    let (code, der) = mount.raw(at, Read, "crl", b"").unwrap();
    assert_eq!(code, 200);
    crl::ParsedList::from_der(&der).unwrap()
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
    let serial = TestMount::text(&issued, "serial_number");
    let read = mount.ask(NOW, Read, &format!("cert/{serial}"), "").unwrap();
    assert_eq!(parsed(&read, "certificate"), certificate);
    assert_eq!(TestMount::text(&read, "revocation_time"), "0");
    let listed = mount.ask(NOW, List, "certs", "").unwrap();
    assert!(TestMount::text(&listed, "keys").contains(&serial));
    let before = complete(&mount, NOW);
    assert!(before.revoked.is_empty() && before.is_signed_by(&root.public));
    let body = format!(r#"{{"serial_number":"{serial}"}}"#);
    let revoked = mount.ask(NOW + 5, Update, "revoke", &body).unwrap();
    assert_eq!(TestMount::text(&revoked, "revocation_time"), (NOW + 5).to_string());
    let again = mount.ask(NOW + 9, Update, "revoke", &body).unwrap();
    assert_eq!(again, revoked);
    let after = complete(&mount, NOW + 9);
    assert!(after.is_signed_by(&root.public));
    assert_eq!(after.revoked.len(), 1);
    assert_eq!(after.revoked[0].serial, Serial::parse(&serial).unwrap());
    assert!(after.number > before.number);
    let read = mount.ask(NOW, Read, &format!("cert/{serial}"), "").unwrap();
    assert_eq!(TestMount::text(&read, "revocation_time"), (NOW + 5).to_string());
}

/// A request for a certificate, in PEM.
pub(super) fn request(
    key: &PrivateKey,
    common_name: &str,
    alt_names: &[&str],
    says_ca: bool,
) -> String {
    let subject =
        CertificateSubject { common_name: common_name.to_owned(), ..CertificateSubject::default() };
    let names = alt_names.iter().map(|name| match name.parse() {
        Ok(ip) => San::Ip(ip),
        Err(_) => San::Dns((*name).to_owned()),
    });
    let wish = Wish { subject: subject.to_der().unwrap(), alt_names: names.collect(), says_ca };
    let algorithm = SignatureAlgorithm::choose(key.kind(), SignatureWish::default());
    pem::write(Label::Request, &wish.sign(key, algorithm).unwrap())
}

pub(super) fn quoted(text: &str) -> String {
    String::from_utf8(Json::from(text).to_text()).unwrap()
}

pub(super) fn refusal(answer: Result<Map, Error>) -> String {
    match answer.unwrap_err() {
        Error::Invalid(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rubbish_in_the_store_stops_no_tidying() {
    let (mount, _) = with_root();
    for _ in 0..5 {
        issue(&mount, "any", r#"{"common_name":"a","ttl":"1m"}"#).unwrap();
    }
    for name in ["cert/00-rubbish", "cert/11-22", "cert/zz"] {
        mount.put(name, b"rubbish");
    }
    let tidied = |at, body: &str| {
        mount.ask(at, Update, "tidy", body).unwrap();
        for _ in 0..10 {
            mount.run_job(at, "tidy").unwrap();
        }
        let status = mount.ask(at, Read, "tidy-status", "").unwrap();
        assert_eq!(TestMount::text(&status, "state"), "Finished");
        let number = |name: &str| TestMount::text(&status, name).parse::<u64>().unwrap();
        (number("cert_store_deleted_count"), number("invalid_cert_count"))
    };
    let later = NOW + 60 + 10;
    assert_eq!(tidied(later, r#"{"tidy_cert_store":true,"safety_buffer":"20s"}"#), (0, 3));
    assert_eq!(tidied(later, r#"{"tidy_cert_store":true,"safety_buffer":"5s"}"#), (5, 3));
    assert_eq!(tidied(later, r#"{"tidy_invalid_certs":true}"#), (3, 3));
    // The root is left.
    assert_eq!(mount.names_in("cert/"), 1);
}

#[test]
fn serial_numbers_have_159_random_bits() {
    let mut random = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut ones = [0u32; 160];
    const COUNT: u32 = 1_000_000;
    let mut bytes = vec![0; COUNT as usize * 20];
    aws_lc_rs::rand::fill(&mut bytes).unwrap();
    for chunk in bytes.chunks_exact(20) {
        let serial = Serial::of_random(chunk.try_into().unwrap());
        assert_eq!(serial.as_bytes().len(), 20);
        assert!(serial.as_bytes()[0] < 0x80, "positive");
        for (bit, ones) in ones.iter_mut().enumerate() {
            *ones += u32::from(serial.as_bytes()[bit / 8] >> (7 - bit % 8) & 1);
        }
        assert!(seen.insert(serial), "a serial number came twice");
        random.push(serial.as_bytes()[1]);
    }
    // Each bit but the first is set in half of them: 8 standard deviations are 4,000. The second byte is never changed; the first is made 0x40 where
    // it is 0, one in 128.
    for (bit, ones) in ones.iter().enumerate().skip(8) {
        assert!(ones.abs_diff(COUNT / 2) < 4_000, "bit {bit}: {ones}");
    }
    assert_eq!(ones[0], 0);
    // Parsing takes what is told.
    let serial = Serial::of_random([0xab; 20]);
    for text in [serial.to_string(), serial.dashed(), serial.to_string().to_uppercase()] {
        assert_eq!(Serial::parse(&text), Some(serial));
    }
    for text in ["", ":", "0", "zz", &"11".repeat(21)] {
        assert_eq!(Serial::parse(text), None, "{text}");
    }
}

#[test]
fn a_key_in_use_stays() {
    let (mount, _) = with_root();
    let listed = mount.ask(NOW, List, "keys", "").unwrap();
    let Json::Array(keys) = &listed["keys"] else { panic!("keys") };
    let id = keys[0].as_str().unwrap();
    let issuers = mount.ask(NOW, List, "issuers", "").unwrap();
    let Json::Array(issuers) = &issuers["keys"] else { panic!("keys") };
    let why = refusal(mount.ask(NOW, Delete, &format!("key/{id}"), ""));
    assert!(why.contains(issuers[0].as_str().unwrap()), "{why}");
    mount.ask(NOW, Delete, "issuer/root", "").unwrap();
    mount.ask(NOW, Delete, &format!("key/{id}"), "").unwrap();
    assert_eq!(mount.ask(NOW, List, "keys", ""), Err(Error::NotFound));
    // What the CA issued is still there, and said to be of nobody who signs here.
    assert_eq!(mount.raw(NOW, Read, "crl", b"").unwrap(), (204, Vec::new()));
}

pub(super) fn revoke(mount: &TestMount, at: i64, serial: &str) {
    mount.ask(at, Update, "revoke", &format!(r#"{{"serial_number":"{serial}"}}"#)).unwrap();
}

pub(super) fn issued_serial(mount: &TestMount, body: &str) -> String {
    TestMount::text(&issue(mount, "any", body).unwrap(), "serial_number")
}

/// The CertID of a request is answered for; what is left of it is `kallisto_pki`'s matter.
pub(super) fn ocsp_request(issuer: &ParsedCertificate, serial: &Serial) -> Vec<u8> {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
    let tlv =
        |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
    let algorithm = tlv(0x30, &[tlv(6, &[0x2b, 0x0e, 3, 2, 0x1a]), vec![5, 0]].concat());
    let (name, key) = (sha1(&issuer.subject_as_written), sha1(issuer.public.bits()));
    let id = [algorithm, tlv(4, &name), tlv(4, &key), tlv(2, serial.as_bytes())].concat();
    tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &id)))))
}

/// The same, with a nonce: such a request is answered anew each time.
pub(super) fn ocsp_request_once(issuer: &ParsedCertificate, serial: &Serial) -> Vec<u8> {
    let tlv =
        |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let bare = ocsp_request(issuer, serial);
    let nonce = tlv(4, &tlv(4, b"once"));
    let id = tlv(6, &[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 2]);
    let extensions = tlv(0xa2, &tlv(0x30, &tlv(0x30, &[id, nonce].concat())));
    tlv(0x30, &tlv(0x30, &[&bare[4..], &extensions].concat()))
}

pub(super) fn ocsp_state(answer: &[u8], serial: &Serial) -> u8 {
    let bytes = serial.as_bytes();
    let at = answer.windows(bytes.len()).position(|part| part == bytes).unwrap();
    answer[at + bytes.len()]
}

#[test]
fn tidying_goes_on_where_it_was_and_can_be_cancelled() {
    let (mount, _) = with_root();
    for _ in 0..95 {
        issue(&mount, "any", r#"{"common_name":"a","ttl":"1m"}"#).unwrap();
    }
    let later = NOW + 3600;
    let body =
        r#"{"tidy_cert_store":true,"safety_buffer":"1s","page_size":10,"pause_duration":"5s"}"#;
    mount.ask(later, Update, "tidy", body).unwrap();
    let left = |mount: &TestMount| mount.names_in("cert/");
    let first = left(&mount);
    assert!((86..=96).contains(&first), "{first}: one page");
    mount.run_job(later + 1, "tidy").unwrap();
    assert_eq!(left(&mount), first, "the pause holds");
    let mount = mount.restarted();
    mount.run_job(later + 5, "tidy").unwrap();
    assert_eq!(left(&mount), first - 10);
    let again = mount.answer(later + 6, Update, "tidy", body.as_bytes()).unwrap();
    let Response::Accepted(logical) = again else { panic!("{again:?}") };
    assert_eq!(logical.warnings, ["Tidy operation already in progress."]);
    let status = mount.ask(later + 7, Update, "tidy-cancel", "").unwrap();
    assert_eq!(TestMount::text(&status, "state"), "Cancelled");
    mount.run_job(later + 60, "tidy").unwrap();
    assert_eq!(left(&mount), first - 10);
    let body =
        r#"{"enabled":true,"tidy_cert_store":true,"safety_buffer":"1s","interval_duration":"1m"}"#;
    mount.ask(later + 60, Update, "config/auto-tidy", body).unwrap();
    mount.run_job(later + 61, "tidy").unwrap();
    assert_eq!(left(&mount), 1, "the root is left");
    assert_eq!(
        TestMount::text(&mount.ask(later, Read, "tidy-status", "").unwrap(), "state"),
        "Finished"
    );
    let why = refusal(mount.ask(later, Update, "config/auto-tidy", r#"{"tidy_cert_store":false}"#));
    assert!(why.starts_with("Auto-tidy enabled but no tidy operations were requested"), "{why}");
}

#[test]
fn every_kind_of_key_signs_and_is_told_in_every_format() {
    for (kind, bits) in [("rsa", 2048), ("ec", 256), ("ec", 384), ("ec", 521), ("ed25519", 0)] {
        for (format, key_format) in
            [("pem", "der"), ("der", "pem"), ("pem_bundle", "pkcs8"), ("der", "pkcs8")]
        {
            let mount = TestMount::new(&ENGINE);
            let body = format!(
                r#"{{"common_name":"R","key_type":"{kind}","key_bits":{bits},"format":"{format}","use_pss":true,
                    "private_key_format":"{key_format}"}}"#
            );
            let root = mount.ask(NOW, Update, "root/generate/exported", &body).unwrap();
            let text = TestMount::text(&root, "certificate");
            let der = match format {
                "der" => data_encoding::BASE64.decode(text.as_bytes()).unwrap(),
                _ => der_of(&text),
            };
            let certificate = ParsedCertificate::from_der(&der).unwrap();
            assert!(certificate.is_self_signed(), "{kind} {bits}");
            let key = TestMount::text(&root, "private_key");
            let key = match (format, key_format) {
                ("der", "pkcs8") => {
                    let der = data_encoding::BASE64.decode(key.as_bytes()).unwrap();
                    PrivateKey::from_pkcs8(&der).unwrap()
                }
                _ => {
                    let (label, der) = pem::read(&key).unwrap().remove(0);
                    assert_eq!(
                        label == Label::PrivateKey,
                        key_format == "pkcs8" || kind == "ed25519"
                    );
                    PrivateKey::from_pem(label, &der).unwrap()
                }
            };
            assert_eq!(key.spki(), certificate.public.spki());
            assert_eq!(TestMount::text(&root, "private_key_type"), kind);
            assert!(complete(&mount, NOW).is_signed_by(&certificate.public));
        }
    }
}

#[test]
fn a_ca_moves_from_mount_to_mount_with_its_key() {
    let mount = TestMount::new(&ENGINE);
    let body = r#"{"common_name":"Root","key_type":"ec","format":"pem_bundle","ttl":"2h"}"#;
    let root = mount.ask(NOW, Update, "root/generate/exported", body).unwrap();
    let bundle = TestMount::text(&root, "certificate");
    let other = TestMount::new(&ENGINE);
    let body = format!(r#"{{"pem_bundle":{}}}"#, quoted(&bundle));
    let imported = other.ask(NOW, Update, "issuers/import/bundle", &body).unwrap();
    assert!(TestMount::text(&imported, "imported_keys").contains('-'));
    let again = other.ask(NOW, Update, "config/ca", &body).unwrap();
    assert_eq!(TestMount::text(&again, "imported_issuers"), "null");
    other.ask(NOW, Update, "roles/any", r#"{"allow_any_name":true,"key_type":"ec"}"#).unwrap();
    let issued = issue(&other, "any", r#"{"common_name":"a","ttl":"1h"}"#).unwrap();
    let public = parsed(&root, "certificate").public;
    assert!(parsed(&issued, "certificate").is_signed_by(&public));
    // Revoked where it was not issued, by what it is.
    let text = quoted(&TestMount::text(&issued, "certificate"));
    mount.ask(NOW, Update, "revoke", &format!(r#"{{"certificate":{text}}}"#)).unwrap();
    assert_eq!(complete(&mount, NOW).revoked.len(), 1);
    // By whoever has the key.
    let key = quoted(&TestMount::text(&issued, "private_key"));
    let wrong =
        quoted(&PrivateKey::make(PkiKeyKind::P256).unwrap().to_pem(PrivateKeyForm::Pkcs8).unwrap());
    let by_key = |key: &str| {
        other.ask(
            NOW,
            Update,
            "revoke-with-key",
            &format!(r#"{{"certificate":{text},"private_key":{key}}}"#),
        )
    };
    let why = "provided private key does not match certificate's public key";
    assert_eq!(refusal(by_key(&wrong)), why);
    by_key(&key).unwrap();
    assert_eq!(complete(&other, NOW).revoked.len(), 1);
    // A CA is on no list of its own.
    let text = quoted(&der_text(&root));
    let why = refusal(mount.ask(NOW, Update, "revoke", &format!(r#"{{"certificate":{text}}}"#)));
    assert!(why.contains("to its own CRL is not allowed"), "{why}");
}

fn der_text(root: &Map) -> String {
    pem::write(Label::Certificate, &der_of(&TestMount::text(root, "certificate")))
}

#[test]
fn roles_are_patched_field_by_field() {
    let (mount, _) = with_root();
    let before = mount.ask(NOW, Read, "roles/any", "").unwrap();
    let after = mount.ask(NOW, Patch, "roles/any", r#"{"ttl":"30m","key_type":"rsa"}"#).unwrap();
    let mut expected = before;
    expected.insert("ttl".to_owned(), 1800i64.into());
    expected.insert("key_type".to_owned(), "rsa".into());
    expected.insert("key_bits".to_owned(), 2048i64.into());
    assert_eq!(after, expected);
    assert_eq!(mount.ask(NOW, Patch, "roles/none", "{}"), Err(Error::NotFound));
}

/// As OpenBao tells it: an object has the chain under its name too.
#[test]
fn the_chain_is_told_under_its_name() {
    let (mount, _) = with_root();
    let told = mount.ask(NOW, Read, "cert/ca_chain", "").unwrap();
    assert_eq!(TestMount::text(&told, "ca_chain"), TestMount::text(&told, "certificate"));
    assert!(!mount.ask(NOW, Read, "cert/ca", "").unwrap().contains_key("ca_chain"));
}

#[test]
fn what_was_revoked_names_its_issuer_when_that_is_gone() {
    for by_tidying in [false, true] {
        let (mount, _) = with_root();
        let body = r#"{"common_name":"Other","key_type":"ec","ttl":"9h","issuer_name":"other"}"#;
        mount.ask(NOW, Update, "issuers/generate/root/internal", body).unwrap();
        mount.ask(NOW, Update, "config/issuers", r#"{"default":"other"}"#).unwrap();
        let issued = mount.ask(NOW, Update, "issuer/root/issue/any", r#"{"common_name":"a"}"#);
        let serial = TestMount::text(&issued.unwrap(), "serial_number");
        mount.ask(NOW, Update, "revoke", &format!(r#"{{"serial_number":"{serial}"}}"#)).unwrap();
        let told = |mount: &TestMount| {
            let told = mount.ask(NOW, Read, &format!("cert/{serial}"), "").unwrap();
            TestMount::text(&told, "issuer_id")
        };
        let before = told(&mount);
        if by_tidying {
            let body = r#"{"tidy_expired_issuers":true,"issuer_safety_buffer":"1s"}"#;
            mount.ask(NOW + 3 * 3600, Update, "tidy", body).unwrap();
            mount.run_job(NOW + 3 * 3600, "tidy").unwrap();
        } else {
            mount.ask(NOW, Delete, "issuer/root", "").unwrap();
        }
        assert_eq!(mount.names_in("issuer/"), 1, "the other one");
        assert_eq!(told(&mount), before);
        assert_eq!(told(&mount.restarted()), before);
    }
}

/// A new one has the name taken by leaving it out; what is there and empty is a mistake.
#[test]
fn an_issuer_is_not_given_an_empty_name() {
    let (mount, _) = with_root();
    let name =
        || TestMount::text(&mount.ask(NOW, Read, "issuer/default", "").unwrap(), "issuer_name");
    let empty = r#"{"issuer_name":""}"#;
    let why = refusal(mount.ask(NOW, Update, "issuer/root", empty));
    assert_eq!((why.as_str(), name().as_str()), ("expected non-empty issuer name", "root"));
    mount.ask(NOW, Patch, "issuer/root", empty).unwrap();
    assert_eq!(name(), "");
}
