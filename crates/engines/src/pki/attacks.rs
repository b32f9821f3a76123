//! What whoever may ask for little asks for to have more, and what breaks what was promised.

use kallisto_api::json::Map;
use kallisto_api::{Error, Response};
use kallisto_auth::Operation::{Delete, List, Patch, Read, Update};
use kallisto_pki::certificate::ParsedCertificate;
use kallisto_pki::{PkiKeyKind, PrivateKey, PrivateKeyForm, Serial, crl};

use super::ENGINE;
use super::tests::{
    NOW, complete, der_of, issue, issued_serial, ocsp_request, ocsp_state, parsed, quoted, refusal,
    request, revoke, with_root,
};
use crate::testing::TestMount;

/// There are validators that take a certificate for a CA's by its key usage alone, where it has no basic constraints.
#[test]
fn no_leaf_may_sign_certificates_by_its_key_usage() {
    let (mount, _) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "x.example.com", &[], true));
    for usage in ["CertSign", "KeyUsageCertSign", "digitalsignature,keyCertSign"] {
        let body = format!(r#"{{"csr":{csr},"key_usage":"{usage}"}}"#);
        let why = refusal(mount.ask(NOW, Update, "sign-verbatim", &body));
        assert!(why.contains("only a CA may sign certificates"), "{why}");
        let body = format!(r#"{{"allow_any_name":true,"key_usage":"{usage}"}}"#);
        let why = refusal(mount.ask(NOW, Update, "roles/ca", &body));
        assert!(why.contains("only a CA may sign certificates"), "{why}");
    }
    let why = refusal(mount.ask(NOW, Patch, "roles/any", r#"{"key_usage":["CertSign"]}"#));
    assert!(why.contains("only a CA may sign certificates"), "{why}");
}

/// What a key of a type cannot do is not said of it (RFC 4055, 8410, 8813).
#[test]
fn key_usages_are_those_that_the_key_can_do() {
    use kallisto_pki::KeyUsages::{
        CRLSign, DataEncipherment, DigitalSignature, EncipherOnly, KeyAgreement, KeyEncipherment,
    };
    let (mount, _) = with_root();
    let body = r#"{"allow_any_name":true,"key_type":"any","key_usage":["DigitalSignature","KeyAgreement",
        "KeyEncipherment","DataEncipherment","EncipherOnly","CRLSign"]}"#;
    mount.ask(NOW, Update, "roles/u", body).unwrap();
    for (kind, usages) in [
        ("rsa", DigitalSignature | KeyEncipherment | DataEncipherment | CRLSign),
        ("ec", DigitalSignature | KeyAgreement | EncipherOnly | CRLSign),
        ("ed25519", DigitalSignature | CRLSign),
    ] {
        let body = format!(r#"{{"common_name":"a.example.com","key_type":"{kind}"}}"#);
        let found = parsed(&issue(&mount, "u", &body).unwrap(), "certificate");
        assert_eq!(found.usages, Some(usages), "{kind}");
    }
    // None of what was asked for is not all there is.
    let body = r#"{"allow_any_name":true,"key_type":"ec","key_usage":"KeyEncipherment"}"#;
    mount.ask(NOW, Update, "roles/none", body).unwrap();
    let why = refusal(issue(&mount, "none", r#"{"common_name":"a.example.com"}"#));
    assert!(why.contains("a key of type ec has none of the key usages"), "{why}");
}

/// A request without a common name leaves room for that of the body, which is judged as any other.
#[test]
fn the_common_name_of_the_body_stands_where_the_request_has_none() {
    let (mount, _) = with_root();
    let body = r#"{"allowed_domains":"example.com","allow_subdomains":true,"key_type":"ec"}"#;
    mount.ask(NOW, Update, "roles/web", body).unwrap();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "", &["b.example.com"], false));
    let sign = |name: &str| {
        let body = format!(r#"{{"csr":{csr},"common_name":"{name}"}}"#);
        mount.ask(NOW, Update, "sign/web", &body)
    };
    let signed = parsed(&sign("a.example.com").unwrap(), "certificate");
    assert_eq!(signed.alt_names.len(), 2);
    assert_eq!(refusal(sign("a.evil")), "common name a.evil not allowed by this role");
    let full = quoted(&request(&key, "c.example.com", &[], false));
    let body = format!(r#"{{"csr":{full},"common_name":"a.evil"}}"#);
    let signed = parsed(&mount.ask(NOW, Update, "sign/web", &body).unwrap(), "certificate");
    assert_eq!(signed.alt_names.len(), 1, "the request's own counts");
}

fn serial_of(last: u8) -> Serial {
    Serial::from_bytes(&[0x55, 0x66, 0x77, last]).unwrap()
}

/// A root of another key, as somebody else made it, with a serial number of ours to choose.
fn foreign_root(name: &str, serial: u8, path_length: Option<u8>) -> (PrivateKey, Vec<u8>) {
    foreign_root_of(name, serial_of(serial), path_length)
}

fn foreign_root_of(name: &str, serial: Serial, path_length: Option<u8>) -> (PrivateKey, Vec<u8>) {
    let subject =
        kallisto_pki::CertificateSubject { common_name: name.to_owned(), ..Default::default() };
    foreign_root_named(&subject.to_der().unwrap(), serial, path_length)
}

/// The same, of a Name in DER.
pub(super) fn foreign_root_named(
    subject: &[u8],
    serial: Serial,
    path_length: Option<u8>,
) -> (PrivateKey, Vec<u8>) {
    use kallisto_pki::certificate::{
        AltNames, CertificateContents, CertificatePurpose, CertificateSigner, Urls,
    };
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let public = kallisto_pki::PublicKey::from_spki(key.spki()).unwrap();
    let contents = CertificateContents {
        serial,
        not_before: NOW - 30,
        not_after: NOW + 600,
        subject: subject.to_vec(),
        public: public.clone(),
        purpose: CertificatePurpose::Ca {
            path_length,
            constraints: Default::default(),
            key_id: None,
        },
        usages: super::generate::ca_usages(),
        ext_usages: Vec::new(),
        alt_names: AltNames::Names(Vec::new()),
        urls: Urls::default(),
        policies: Vec::new(),
        extra: Vec::new(),
    };
    let algorithm = kallisto_pki::SignatureAlgorithm::choose(key.kind(), Default::default());
    let key_id = public.key_id();
    let signer = CertificateSigner { name: subject, key_id: &key_id, key: &key, algorithm };
    let der = contents.sign(&signer).unwrap();
    (key, der)
}

fn pem_of(der: &[u8]) -> String {
    quoted(&kallisto_pki::pem::write(kallisto_pki::pem::Label::Certificate, der))
}

/// What is signed again is below who signs it, as any CA is; and since it is not stored, nobody says that it was never issued.
#[test]
fn a_ca_that_signed_itself_is_signed_within_the_path_length() {
    let mount = TestMount::new(&ENGINE);
    let body = r#"{"common_name":"Root","key_type":"ec","ttl":"1h","max_path_length":1}"#;
    let root = mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let root = parsed(&root, "certificate");
    let sign = |der: &[u8]| {
        let body = format!(r#"{{"certificate":{}}}"#, pem_of(der));
        mount.ask(NOW, Update, "root/sign-self-issued", &body)
    };
    let (key, der) = foreign_root("Other", 9, Some(0));
    let state = || {
        let (_, answer) =
            mount.raw(NOW, Update, "ocsp", &ocsp_request(&root, &serial_of(9))).unwrap();
        ocsp_state(&answer, &serial_of(9))
    };
    assert_eq!(state(), 0x82, "unknown: it was never issued");
    for (length, is_allowed) in [(Some(0), true), (Some(1), false), (None, true)] {
        let (_, der) = foreign_root("Other", 7, length);
        assert_eq!(sign(&der).is_ok(), is_allowed, "{length:?}");
    }
    let signed = parsed(&sign(&der).unwrap(), "certificate");
    assert!(signed.is_signed_by(&root.public) && signed.public.spki() == key.spki());
    assert_eq!(signed.issuer, root.subject);
    assert_eq!(signed.authority_key_id.as_deref(), Some(&root.subject_key_id()[..]));
    assert_eq!(state(), 0x80, "it may have been");
    // Nor may it have the number of a certificate that the root signed: revoking that one would revoke it too.
    let body = r#"{"allow_any_name":true,"key_type":"ec","ttl":"30m"}"#;
    mount.ask(NOW, Update, "roles/any", body).unwrap();
    let serial = Serial::parse(&issued_serial(&mount, r#"{"common_name":"a"}"#)).unwrap();
    let (_, taken) = foreign_root_of("Other", serial, Some(0));
    let why = refusal(sign(&taken));
    assert!(why.contains("another certificate with the serial number"), "{why}");
    let last = TestMount::new(&ENGINE);
    let body = r#"{"common_name":"Last","key_type":"ec","ttl":"1h","max_path_length":0}"#;
    last.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let body = format!(r#"{{"certificate":{}}}"#, pem_of(&der));
    let why = refusal(last.ask(NOW, Update, "root/sign-self-issued", &body));
    assert!(why.contains("path length of 0"), "{why}");
}

/// Two CAs from elsewhere may have signed certificates of one number.
#[test]
fn a_serial_number_of_another_ca_is_not_taken_for_revoked() {
    let mount = TestMount::new(&ENGINE);
    let mut leaves = Vec::new();
    for name in ["One", "Two"] {
        let (key, der) = foreign_root(name, 1, None);
        let pem = kallisto_pki::pem::write(kallisto_pki::pem::Label::Certificate, &der);
        let key_pem = key.to_pem(PrivateKeyForm::Pkcs8).unwrap();
        let bundle = quoted(&format!("{pem}\n{}", key_pem.as_str()));
        let body = format!(r#"{{"pem_bundle":{bundle}}}"#);
        mount.ask(NOW, Update, "issuers/import/bundle", &body).unwrap();
        leaves.push(leaf_of(&key, &ParsedCertificate::from_der(&der).unwrap(), 5));
    }
    let revoke = |der: &[u8]| {
        mount.ask(NOW, Update, "revoke", &format!(r#"{{"certificate":{}}}"#, pem_of(der)))
    };
    revoke(&leaves[0]).unwrap();
    assert!(refusal(revoke(&leaves[1])).contains("another certificate of this serial number"));
    // Even when the first is no longer stored.
    let serial = super::revoked::certificate_record(&serial_of(5));
    mount.delete(&serial);
    assert!(refusal(revoke(&leaves[1])).contains("another certificate of this serial number"));
}

fn leaf_of(key: &PrivateKey, issuer: &ParsedCertificate, serial: u8) -> Vec<u8> {
    use kallisto_pki::certificate::{
        AltNames, CertificateContents, CertificatePurpose, CertificateSigner, Urls,
    };
    let own = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let contents = CertificateContents {
        serial: serial_of(serial),
        not_before: NOW - 30,
        not_after: NOW + 600,
        subject: issuer.subject.clone(),
        public: kallisto_pki::PublicKey::from_spki(own.spki()).unwrap(),
        purpose: CertificatePurpose::Leaf { says_so: true },
        usages: Default::default(),
        ext_usages: Vec::new(),
        alt_names: AltNames::Names(Vec::new()),
        urls: Urls::default(),
        policies: Vec::new(),
        extra: Vec::new(),
    };
    let algorithm = kallisto_pki::SignatureAlgorithm::choose(key.kind(), Default::default());
    let key_id = issuer.subject_key_id();
    let signer = CertificateSigner { name: &issuer.subject, key_id: &key_id, key, algorithm };
    contents.sign(&signer).unwrap()
}

/// The records of a change come in any order: the name goes to who has it at the end.
#[test]
fn a_name_that_moves_is_found_after_every_rotation() {
    let (mount, _) = with_root();
    for _ in 0..24 {
        let body = r#"{"common_name":"Next","key_type":"ec","ttl":"1h"}"#;
        let made = mount.ask(NOW, Update, "root/rotate/internal", body).unwrap();
        assert_eq!(TestMount::text(&made, "issuer_name"), "next");
        let read = mount.ask(NOW, Read, "issuer/next", "").unwrap();
        assert_eq!(TestMount::text(&read, "issuer_id"), TestMount::text(&made, "issuer_id"));
    }
    let mount = mount.restarted();
    assert!(mount.ask(NOW, Read, "issuer/next", "").is_ok());
}

/// A client that leaves while a list is made stops nobody else from having a new one.
#[test]
fn who_leaves_while_a_list_is_made_does_not_freeze_it() {
    let (mount, _) = with_root();
    for _ in 0..1_100 {
        revoke(&mount, NOW, &issued_serial(&mount, r#"{"common_name":"a.example.com"}"#));
    }
    assert_eq!(complete(&mount, NOW).revoked.len(), 1_100);
    revoke(&mount, NOW, &issued_serial(&mount, r#"{"common_name":"b.example.com"}"#));
    // Later than a list of so many rests.
    let later = NOW + 60;
    mount.leave_while_waiting(later, Read, "crl");
    assert_eq!(complete(&mount, later).revoked.len(), 1_101);
}

/// The longest times that can be set leave lists and answers possible; times that no certificate can name are refused.
#[test]
fn no_setting_makes_lists_and_answers_impossible() {
    let (mount, root) = with_root();
    let body = r#"{"expiry":"2562047h","ocsp_expiry":"2562047h"}"#;
    mount.ask(NOW, Update, "config/crl", body).unwrap();
    complete(&mount, NOW);
    let serial = root.serial;
    assert_eq!(mount.raw(NOW, Update, "ocsp", &ocsp_request(&root, &serial)).unwrap().0, 200);
    let body = r#"{"crl_number":1,"next_update":"9000000h"}"#;
    refusal(mount.ask(NOW, Update, "issuer/default/sign-revocation-list", body));
    let body = r#"{"allow_any_name":true,"key_type":"ec","not_before_duration":"2000000h"}"#;
    mount.ask(NOW, Update, "roles/early", body).unwrap();
    let early = issue(&mount, "early", r#"{"common_name":"a"}"#).unwrap();
    assert_eq!(parsed(&early, "certificate").not_before, root.not_before);
}

/// Lists that others keep are signed as they are: what an entry says of itself stays.
#[test]
fn lists_are_signed_again_with_all_that_their_entries_say() {
    let (mount, root) = with_root();
    let sign = |number: u64, entries: &str| {
        let body = format!(r#"{{"crl_number":{number},"revoked_certs":[{entries}]}}"#);
        mount.ask(NOW, Update, "issuer/root/sign-revocation-list", &body).unwrap()
    };
    let reason = r#"{"serial_number":"0a","revocation_time":"2026-11-01T00:00:00Z",
        "extensions":[{"id":"2.5.29.21","value":"CgEB"}]}"#;
    let one = TestMount::text(&sign(1, reason), "crl");
    let later = r#"{"serial_number":"0b","revocation_time":"2026-11-02T00:00:00Z"}"#;
    let two = TestMount::text(&sign(2, later), "crl");
    let body = format!(r#"{{"crl_number":3,"crls":[{},{}]}}"#, quoted(&one), quoted(&two));
    let both = mount.ask(NOW, Update, "issuer/root/resign-crls", &body).unwrap();
    let der = der_of(&TestMount::text(&both, "crl"));
    let list = crl::ParsedList::from_der(&der).unwrap();
    assert!(list.is_signed_by(&root.public));
    assert_eq!((list.revoked.len(), list.number), (2, Some(3)));
    let reason = [0x06, 3, 0x55, 0x1d, 0x15, 4, 3, 0x0a, 1, 1];
    assert!(der.windows(reason.len()).any(|window| window == reason), "the reason is gone");
    let (other, _) = with_root();
    let why = refusal(other.ask(NOW, Update, "issuer/root/resign-crls", &body));
    assert!(
        why.contains("was not signed by the issuer") || other_has_the_same_key(&other, &root),
        "{why}"
    );
    for entries in [
        r#"{"serial_number":"0a","revocation_time":"2026-11-01T00:00:00Z","extensions":[{"id":"2.5.29.21","value":"CgEB"},
            {"id":"2.5.29.21","value":"CgEB"}]}"#,
        r#"{"serial_number":"0a","revocation_time":"2026-11-01T00:00:00Z","extensions":[{"id":"2.5.29.21","value":"zz"}]}"#,
    ] {
        let body = format!(r#"{{"crl_number":1,"revoked_certs":[{entries}]}}"#);
        refusal(mount.ask(NOW, Update, "issuer/root/sign-revocation-list", &body));
    }
}

fn other_has_the_same_key(mount: &TestMount, root: &ParsedCertificate) -> bool {
    let read = mount.ask(NOW, Read, "issuer/root", "").unwrap();
    parsed(&read, "certificate").public == root.public
}

/// Constraints of names are names, as those compare that check them.
#[test]
fn constraints_of_names_are_names() {
    let mount = TestMount::new(&ENGINE);
    let make = |more: &str| {
        let body = format!(r#"{{"common_name":"Root","key_type":"ec","ttl":"1h",{more}}}"#);
        mount.ask(NOW, Update, "root/generate/internal", &body)
    };
    for fine in [
        r#""permitted_dns_domains":["example.com",".Example.org","bücher.example"]"#,
        r#""excluded_email_addresses":["a@example.com","example.com",".example.com"]"#,
        r#""permitted_uri_domains":["host.example.com",".example.com"]"#,
        r#""permitted_ip_ranges":["10.0.0.0/8","2001:db8::/32","0.0.0.0/0","::/0"]"#,
    ] {
        make(fine).unwrap();
    }
    let made = make(r#""permitted_dns_domains":"BÜCHER.example""#).unwrap();
    let der = der_of(&TestMount::text(&made, "certificate"));
    let spelled = b"xn--bcher-kva.example";
    assert!(der.windows(spelled.len()).any(|window| window == spelled));
    for wrong in [
        r#""excluded_dns_domains":"*.evil.example""#,
        r#""excluded_dns_domains":"a b""#,
        r#""excluded_dns_domains":"https://evil.example""#,
        r#""excluded_email_addresses":"a@b@c""#,
        r#""permitted_uri_domains":"https://example.com""#,
        r#""permitted_ip_ranges":"10.0.0.1""#,
    ] {
        refusal(make(wrong));
    }
}

/// Issuers that ended are tidied as one change of issuers: nothing names them afterwards.
#[test]
fn issuers_that_ended_are_tidied_but_for_the_default() {
    let (mount, _) = with_root();
    let body = r#"{"common_name":"Short","key_type":"ec","ttl":"1m","issuer_name":"short"}"#;
    mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let body = r#"{"tidy_expired_issuers":true,"issuer_safety_buffer":"1h"}"#;
    for (at, is_there) in [(NOW + 3600, true), (NOW + 3700, false)] {
        mount.ask(at, Update, "tidy", body).unwrap();
        assert_eq!(mount.ask(at, Read, "issuer/short", "").is_ok(), is_there, "{}", at - NOW);
    }
    let status = mount.ask(NOW + 3700, Read, "tidy-status", "").unwrap();
    assert_eq!(TestMount::text(&status, "issuer_deleted_count"), "1");
    mount.ask(NOW + 90_000, Update, "tidy", body).unwrap();
    assert!(mount.ask(NOW, Read, "issuer/root", "").is_ok(), "the default stays");
    let mount = mount.restarted();
    assert!(mount.ask(NOW, Read, "issuer/short", "").is_err());
}

/// A key that is deleted by force leaves its issuers without one, and they say so.
#[test]
fn a_key_deleted_by_force_leaves_its_issuers_mute() {
    let (mount, _) = with_root();
    let key = TestMount::text(&mount.ask(NOW, Read, "issuer/root", "").unwrap(), "key_id");
    refusal(mount.ask(NOW, Delete, &format!("key/{key}"), ""));
    mount.answer_with(NOW, Delete, &format!("key/{key}"), &[("force", "true")], b"").unwrap();
    let why = refusal(issue(&mount, "any", r#"{"common_name":"a"}"#));
    assert!(why.contains("has no key to sign with"), "{why}");
    let answer = mount.answer(NOW, Read, "crl", b"").unwrap();
    assert!(matches!(answer, Response::Text { code: 200 | 204, .. }), "{answer:?}");
    let mount = mount.restarted();
    let read = mount.ask(NOW, Read, "issuer/root", "").unwrap();
    assert_eq!(TestMount::text(&read, "key_id"), "");
}

fn is_invalid(answer: &Result<Map, Error>) -> bool {
    matches!(answer, Err(Error::Invalid(_) | Error::NotFound))
}

/// Bytes of others end in a refusal, whatever they are.
#[test]
fn changed_bytes_are_refused_or_read_and_never_fatal() {
    let (mount, root) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = der_of(&request(&key, "x.example.com", &["x.example.com", "10.1.1.1"], true));
    let (code, list) = mount.raw(NOW, Read, "crl", b"").unwrap();
    assert_eq!(code, 200);
    let asked = ocsp_request(&root, &root.serial);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |most: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % most as u64).unwrap()
    };
    use kallisto_pki::pem::{Label, write};
    for turn in 0..4_000 {
        let mut changed = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            for _ in 0..=draw(3) {
                if bytes.len() < 2 {
                    break;
                }
                let at = draw(bytes.len());
                match draw(4) {
                    0 => bytes[at] = u8::try_from(draw(256)).unwrap(),
                    1 => bytes[at] ^= 1 << draw(8),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            bytes
        };
        let (path, body) = match turn % 4 {
            0 => (
                "sign-verbatim",
                format!(r#"{{"csr":{}}}"#, quoted(&write(Label::Request, &changed(&csr)))),
            ),
            1 => (
                "issuers/import/bundle",
                format!(r#"{{"pem_bundle":{}}}"#, pem_of(&changed(&root.der))),
            ),
            2 => (
                "issuer/root/resign-crls",
                format!(
                    r#"{{"crl_number":1,"crls":[{}]}}"#,
                    quoted(&write(Label::Crl, &changed(&list)))
                ),
            ),
            _ => {
                let (code, _) = mount.raw(NOW, Update, "ocsp", &changed(&asked)).unwrap();
                assert!(matches!(code, 200 | 400), "{code}");
                continue;
            }
        };
        let answer = mount.ask(NOW, Update, path, &body);
        assert!(answer.is_ok() || is_invalid(&answer), "{path}: {answer:?} {body}");
    }
}

/// The routes that mint.
const MINTING: &[&str] = &[
    "issue/any",
    "issuer/root/issue/any",
    "sign/any",
    "issuer/root/sign/any",
    "sign-verbatim",
    "sign-verbatim/any",
    "issuer/root/sign-verbatim",
    "issuer/root/sign-verbatim/any",
    "root/generate/exported",
    "issuers/generate/root/exported",
    "root/rotate/exported",
    "intermediate/generate/exported",
    "issuers/generate/intermediate/exported",
    "intermediate/cross-sign",
    "keys/generate/exported",
    "root/sign-intermediate",
    "issuer/root/sign-intermediate",
    "root/sign-self-issued",
    "issuer/root/sign-self-issued",
    "issuer/root/sign-revocation-list",
    "issuer/root/resign-crls",
];

/// Whoever may but read has nothing made for them.
#[test]
fn nothing_is_minted_by_who_may_only_read() {
    let (mount, _) = with_root();
    let before = mount.written();
    for path in MINTING {
        for operation in [Read, List, Delete, Patch] {
            let answer = mount.answer(NOW, operation, path, b"{}");
            let is_refused =
                matches!(answer, Err(Error::UnsupportedOperation | Error::UnsupportedPath));
            assert!(is_refused, "{operation:?} {path}: {answer:?}");
        }
        let answer = mount.answer(NOW, Update, path, b"{}");
        let is_known = !matches!(answer, Err(Error::UnsupportedOperation | Error::UnsupportedPath));
        assert!(is_known, "{path}: {answer:?}");
    }
    assert!(mount.written() > before, "some of them make something of nothing");
    for path in ["root/sign-self-issued", "issuer/root/resign-crls"] {
        let route = ENGINE.routes.dispatch(Update, path).unwrap().route;
        assert!(route.rights.need_sudo(Update), "{path}");
    }
}

/// The thousandth issuer is taken in as the first: what is written does not grow with what is there.
#[test]
fn an_issuer_costs_what_it_costs() {
    let mount = TestMount::new(&ENGINE);
    let mut costs = Vec::new();
    for number in 0..1_000 {
        let (_, der) = foreign_root(&format!("Root {number:04}"), 1, None);
        let before = mount.written();
        let body = format!(r#"{{"pem_bundle":{}}}"#, pem_of(&der));
        mount.ask(NOW, Update, "issuers/import/cert", &body).unwrap();
        let after = mount.written();
        costs.push((after.0 - before.0, after.1 - before.1));
        // A list of a CA without a key is nobody's to sign.
        mount.run_job(NOW, "lists").unwrap();
        assert_eq!(mount.written(), after);
    }
    // The first one has its certificate stored under a number that all the others share.
    assert!(costs[1..].iter().all(|cost| cost.0 == costs[1].0), "{costs:?}");
    let bytes = |at: usize| costs[at].1;
    assert!(bytes(999) <= bytes(1) + 64, "{} and {}", bytes(1), bytes(999));
}

/// What ends with its certificate has nothing left to revoke: no write for each of 50,000 leases that end together.
#[test]
fn a_lease_that_ends_with_its_certificate_writes_nothing() {
    let (mount, _) = with_root();
    let shown = mount.ask(NOW, Read, "roles/any", "").unwrap();
    assert_eq!(TestMount::text(&shown, "generate_lease"), "false");
    let early = issued_serial(&mount, r#"{"common_name":"a.example.com","ttl":"10m"}"#);
    let serials: Vec<String> = (0..100)
        .map(|_| issued_serial(&mount, r#"{"common_name":"a.example.com","ttl":"10m"}"#))
        .collect();
    let before = mount.written();
    for serial in &serials {
        let serial = Serial::parse(serial).unwrap();
        mount.end_lease(NOW + 600, "issue/any", serial.as_bytes()).unwrap();
    }
    assert_eq!(mount.written(), before);
    mount.end_lease(NOW + 60, "issue/any", Serial::parse(&early).unwrap().as_bytes()).unwrap();
    assert_eq!(complete(&mount, NOW + 60).revoked.len(), 1);
}

/// What is read is read of what is there, on whichever server: reading writes nothing.
#[test]
fn reading_writes_nothing() {
    let (mount, root) = with_root();
    let serial = issued_serial(&mount, r#"{"common_name":"a.example.com"}"#);
    revoke(&mount, NOW, &serial);
    let cert = format!("cert/{serial}");
    let key = TestMount::text(&mount.ask(NOW, Read, "issuer/root", "").unwrap(), "key_id");
    let key = format!("key/{key}");
    let before = mount.written();
    let names = mount.names();
    for path in [
        "ca",
        "ca/pem",
        "ca_chain",
        "crl",
        "crl/pem",
        "crl/delta",
        "issuer/root",
        "issuer/root/json",
        "issuer/root/pem",
        "issuer/root/der",
        "issuer/root/crl",
        "issuer/root/crl/der",
        &cert,
        &key,
        "cert/ca",
        "cert/crl",
        "roles/any",
        "config/issuers",
        "config/keys",
        "config/urls",
        "config/cluster",
        "config/crl",
        "config/auto-tidy",
        "tidy-status",
    ] {
        let answer = mount.answer(NOW + 1, Read, path, b"");
        assert!(answer.is_ok(), "{path}: {answer:?}");
    }
    for path in ["certs", "certs/detailed", "certs/revoked", "issuers", "keys", "roles"] {
        assert!(mount.answer(NOW + 1, List, path, b"").is_ok(), "{path}");
    }
    assert_eq!(
        mount.raw(NOW + 1, Update, "ocsp", &ocsp_request(&root, &root.serial)).unwrap().0,
        200
    );
    assert_eq!((mount.written(), mount.names()), (before, names));
}
