//! What a mount answers, from a root to its revocation list.

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
use crate::testing::Mount;

pub(super) const NOW: i64 = 1_795_413_611;

pub(super) fn der_of(text: &str) -> Vec<u8> {
    let blocks = pem::read(text).unwrap();
    blocks.into_iter().find(|(label, _)| !label.is_private()).unwrap().1
}

pub(super) fn parsed(answer: &Map, field: &str) -> ParsedCertificate {
    ParsedCertificate::from_der(&der_of(&Mount::text(answer, field))).unwrap()
}

/// A mount with a root and a role for anything.
pub(super) fn with_root() -> (Mount, ParsedCertificate) {
    let mount = Mount::new(&ENGINE);
    let body = r#"{"common_name":"Root","key_type":"ec","ttl":"2h","issuer_name":"root"}"#;
    let root = mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let body = r#"{"allow_any_name":true,"key_type":"ec","ttl":"1h"}"#;
    mount.ask(NOW, Update, "roles/any", body).unwrap();
    (mount, parsed(&root, "certificate"))
}

pub(super) fn issue(mount: &Mount, role: &str, body: &str) -> Result<Map, Error> {
    mount.ask(NOW, Update, &format!("issue/{role}"), body)
}

pub(super) fn complete(mount: &Mount, at: i64) -> crl::ParsedList {
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
fn limits_of_a_role_hold_for_what_a_request_brings() {
    let (mount, _) = with_root();
    let body = r#"{"allowed_domains":"example.com","allow_subdomains":true,"key_type":"ec",
        "allowed_ip_sans_cidr":"10.0.0.0/8"}"#;
    mount.ask(NOW, Update, "roles/web", body).unwrap();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    for (name, alt_names, why) in [
        ("a.evil", &[][..], "common name a.evil not allowed by this role"),
        (
            "a.example.com",
            &["a.evil"][..],
            "subject alternate name a.evil not allowed by this role",
        ),
        (
            "a.example.com",
            &["11.1.1.1"][..],
            "the IP address \"11.1.1.1\" is not allowed in this role",
        ),
    ] {
        let body = format!(r#"{{"csr":{}}}"#, quoted(&request(&key, name, alt_names, false)));
        assert_eq!(refusal(mount.ask(NOW, Update, "sign/web", &body)), why);
        let ips: Vec<&str> =
            alt_names.iter().copied().filter(|name| name.starts_with("11")).collect();
        let dns: Vec<&str> = alt_names.iter().copied().filter(|name| !ips.contains(name)).collect();
        let body = format!(
            r#"{{"common_name":"{name}","alt_names":"{}","ip_sans":"{}"}}"#,
            dns.join(","),
            ips.join(",")
        );
        assert_eq!(refusal(mount.ask(NOW, Update, "issue/web", &body)), why);
    }
    let body = request(&key, "A.example.COM", &["b.example.com", "10.1.1.1"], false);
    let signed = mount.ask(NOW, Update, "sign/web", &format!(r#"{{"csr":{}}}"#, quoted(&body)));
    let names = parsed(&signed.unwrap(), "certificate").alt_names;
    let dns = |name: &str| San::Dns(name.to_owned());
    let ip = San::Ip("10.1.1.1".parse().unwrap());
    assert_eq!(names, [dns("b.example.com"), dns("a.example.com"), ip]);
}

#[test]
fn what_a_template_stands_for_is_literal() {
    let (mount, _) = with_root();
    let body = r#"{"allowed_domains":"{{identity.entity.name}}.example.com,{{identity.entity.name}}@example.com",
        "allowed_domains_template":true,"allow_bare_domains":true,"allow_glob_domains":true,
        "allowed_uri_sans":"spiffe://x/{{identity.entity.name}}","allowed_uri_sans_template":true,
        "key_type":"ec"}"#;
    mount.ask(NOW, Update, "roles/t", body).unwrap();
    let asks = |name: &str, uri: &str| {
        let uri = if uri.is_empty() { String::new() } else { format!(r#","uri_sans":"{uri}""#) };
        issue(&mount, "t", &format!(r#"{{"common_name":{}{uri}}}"#, quoted(name)))
    };
    // Nobody stands for anything.
    assert!(asks(".example.com", "").is_err() && asks("bob.example.com", "").is_err());
    mount.say_identity("identity.entity.name", "bob");
    assert!(asks("bob.example.com", "").is_ok() && asks("bob@example.com", "").is_ok());
    assert!(asks("bob.example.com", "spiffe://x/bob").is_ok());
    assert!(
        asks("eve.example.com", "").is_err() && asks("bob.example.com", "spiffe://x/eve").is_err()
    );
    for hostile in ["*", "b*", "a,b", "a b", "{{x}}", "a/b", "\u{202e}bob", "b\u{0}", "", "*."] {
        mount.say_identity("identity.entity.name", hostile);
        for name in ["bob.example.com", "a.example.com", "evil.com", "*.example.com", "a"] {
            assert!(asks(name, "").is_err(), "{hostile:?} {name}");
        }
        assert!(asks("a.example.com", "spiffe://x/anything").is_err(), "{hostile:?}");
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
        assert_eq!(Mount::text(&status, "state"), "Finished");
        let number = |name: &str| Mount::text(&status, name).parse::<u64>().unwrap();
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
    for text in ["", ":", "0", "zz", "00", &"11".repeat(21)] {
        assert_eq!(Serial::parse(text), None, "{text}");
    }
}

#[test]
fn nothing_makes_a_ca_of_what_is_signed_verbatim() {
    let (mount, root) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P384).unwrap();
    let csr = quoted(&request(&key, "x.example.com", &["x.example.com"], true));
    for path in ["sign-verbatim", "sign-verbatim/any", "sign/any"] {
        let signed = mount.ask(NOW, Update, path, &format!(r#"{{"csr":{csr}}}"#)).unwrap();
        let certificate = parsed(&signed, "certificate");
        assert!(!certificate.is_ca && certificate.path_length.is_none(), "{path}");
        assert!(!certificate.may_sign_certificates(), "{path}");
        assert!(certificate.is_signed_by(&root.public), "{path}");
        assert_eq!(certificate.public.spki(), key.spki(), "{path}");
    }
}

#[test]
fn a_ca_below_another_one_has_less_of_everything() {
    let mount = Mount::new(&ENGINE);
    let body = r#"{"common_name":"Root","key_type":"ec","ttl":"1h","max_path_length":2}"#;
    mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "Below", &[], true));
    let sign = |more: &str| {
        mount.ask(NOW, Update, "root/sign-intermediate", &format!(r#"{{"csr":{csr}{more}}}"#))
    };
    let length = |answer: Map| parsed(&answer, "certificate").path_length;
    assert_eq!(length(sign(r#","ttl":"10m""#).unwrap()), Some(1));
    assert_eq!(length(sign(r#","ttl":"10m","max_path_length":0"#).unwrap()), Some(0));
    for more in [2, 9] {
        let why = refusal(sign(&format!(r#","ttl":"10m","max_path_length":{more}"#)));
        assert!(why.contains("more than the issuer allows"), "{why}");
    }
    assert!(refusal(sign(r#","ttl":"2h""#)).contains("beyond the expiration of the CA"));
    let longer = sign(r#","ttl":"2h","enforce_leaf_not_after_behavior":false"#).unwrap();
    assert_eq!(parsed(&longer, "certificate").not_after, NOW + 7200);
}

#[test]
fn the_beginning_is_bound() {
    let (mount, root) = with_root();
    let time = |at: i64| super::given::write_time(at);
    for (bound, at, is_allowed) in [
        ("permit", NOW - 86_400, false),
        ("permit", NOW - 20, true),
        ("permit", NOW + 60, true),
        ("duration", NOW - 31, false),
        ("duration", NOW - 30, true),
        ("duration", NOW + 60, true),
        ("forbid", NOW - 20, false),
        ("forbid", NOW + 60, false),
    ] {
        let body =
            format!(r#"{{"allow_any_name":true,"key_type":"ec","not_before_bound":"{bound}"}}"#);
        mount.ask(NOW, Update, "roles/b", &body).unwrap();
        let body = format!(r#"{{"common_name":"a","not_before":"{}"}}"#, time(at));
        let answer = issue(&mount, "b", &body);
        assert_eq!(answer.is_ok(), is_allowed, "{bound} {}: {answer:?}", at - NOW);
        if let Ok(answer) = answer {
            assert_eq!(parsed(&answer, "certificate").not_before, at);
        }
    }
    assert_eq!(root.not_before, NOW - 30);
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

pub(super) fn revoke(mount: &Mount, at: i64, serial: &str) {
    mount.ask(at, Update, "revoke", &format!(r#"{{"serial_number":"{serial}"}}"#)).unwrap();
}

pub(super) fn issued_serial(mount: &Mount, body: &str) -> String {
    Mount::text(&issue(mount, "any", body).unwrap(), "serial_number")
}

#[test]
fn no_valid_revocation_leaves_whatever_the_clock_says() {
    let (mount, _) = with_root();
    let serial = issued_serial(&mount, r#"{"common_name":"a"}"#);
    revoke(&mount, NOW, &serial);
    let all = r#"{"tidy_cert_store":true,"tidy_revoked_certs":true,"safety_buffer":"1s"}"#;
    const YEAR: i64 = 365 * 86_400;
    for at in [NOW - YEAR, NOW, NOW + 3600, NOW + 3601] {
        mount.ask(at, Update, "tidy", all).unwrap();
        mount.run_job(at, "lists").unwrap();
        mount.run_job(at, "tidy").unwrap();
        assert_eq!(mount.names_in("revoked/"), 1, "{}", at - NOW);
    }
    mount.ask(NOW + YEAR, Update, "tidy", all).unwrap();
    assert_eq!(mount.names_in("revoked/"), 0);
}

/// The CertID of a request is answered for; what is left of it is `kallisto_pki`'s matter.
pub(super) fn ocsp_request(issuer: &ParsedCertificate, serial: &Serial) -> Vec<u8> {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
    let tlv =
        |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
    let algorithm = tlv(0x30, &[tlv(6, &[0x2b, 0x0e, 3, 2, 0x1a]), vec![5, 0]].concat());
    let (name, key) = (sha1(&issuer.subject), sha1(issuer.public.bits()));
    let id = [algorithm, tlv(4, &name), tlv(4, &key), tlv(2, serial.as_bytes())].concat();
    tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &tlv(0x30, &id)))))
}

pub(super) fn ocsp_state(answer: &[u8], serial: &Serial) -> u8 {
    let bytes = serial.as_bytes();
    let at = answer.windows(bytes.len()).position(|part| part == bytes).unwrap();
    answer[at + bytes.len()]
}

#[test]
fn what_was_never_issued_is_unknown() {
    const GOOD: u8 = 0x80;
    const REVOKED: u8 = 0xa1;
    const UNKNOWN: u8 = 0x82;
    let (mount, root) = with_root();
    let ask = |serial: &Serial| {
        let (code, answer) = mount.raw(NOW, Update, "ocsp", &ocsp_request(&root, serial)).unwrap();
        assert_eq!(code, 200);
        ocsp_state(&answer, serial)
    };
    let issued = Serial::parse(&issued_serial(&mount, r#"{"common_name":"a"}"#)).unwrap();
    let never = Serial::of_random([0x77; 20]);
    assert_eq!((ask(&issued), ask(&never)), (GOOD, UNKNOWN));
    revoke(&mount, NOW, &issued.to_string());
    assert_eq!(ask(&issued), REVOKED);
    // A CA that issues what is not stored cannot know.
    let body = r#"{"allow_any_name":true,"key_type":"ec","no_store":true}"#;
    mount.ask(NOW, Update, "roles/ns", body).unwrap();
    issue(&mount, "ns", r#"{"common_name":"n"}"#).unwrap();
    assert_eq!((ask(&issued), ask(&never)), (REVOKED, GOOD));
    for malformed in [&b""[..], b"\x30\x00", b"rubbish", &[0x30; 400]] {
        let answer = mount.raw(NOW, Update, "ocsp", malformed).unwrap();
        assert_eq!(answer, (400, kallisto_pki::ocsp::MALFORMED.to_vec()));
    }
    mount.ask(NOW, Update, "config/crl", r#"{"ocsp_disable":true}"#).unwrap();
    let answer = mount.raw(NOW, Update, "ocsp", &ocsp_request(&root, &issued)).unwrap();
    assert_eq!(answer, (401, kallisto_pki::ocsp::UNAUTHORIZED.to_vec()));
}

/// Answers are kept for those who ask again, and a revocation is told at once all the same.
#[test]
fn an_answer_is_given_again_while_it_is_true() {
    const GOOD: u8 = 0x80;
    const REVOKED: u8 = 0xa1;
    let (mount, root) = with_root();
    let serial = Serial::parse(&issued_serial(&mount, r#"{"common_name":"a"}"#)).unwrap();
    let request = ocsp_request(&root, &serial);
    let ask = |at: i64| mount.raw(at, Update, "ocsp", &request).unwrap().1;
    // A signature over P-256 is another one each time it is made.
    let first = ask(NOW);
    assert_eq!(ask(NOW + 59), first);
    assert_ne!(ask(NOW + 60), first);
    assert_ne!(ask(NOW - 1), first);
    // An answer that holds for a short time is given again for half of it.
    mount.ask(NOW, Update, "config/crl", r#"{"ocsp_expiry":"10s"}"#).unwrap();
    let short = ask(NOW + 200);
    assert_eq!(ask(NOW + 204), short);
    assert_ne!(ask(NOW + 205), short);
    // What is known comes first.
    let before = ask(NOW + 300);
    assert_eq!(ocsp_state(&before, &serial), GOOD);
    revoke(&mount, NOW + 300, &serial.to_string());
    let after = ask(NOW + 300);
    assert_eq!(ocsp_state(&after, &serial), REVOKED);
    assert_eq!(ask(NOW + 301), after);
    // What was never issued is signed anew each time.
    let never = ocsp_request(&root, &Serial::of_random([0x77; 20]));
    let asked = |request: &[u8]| mount.raw(NOW, Update, "ocsp", request).unwrap().1;
    assert_ne!(asked(&never), asked(&never));
    // Nobody answers when nobody may sign any more.
    mount.ask(NOW, Update, "issuer/root", r#"{"usage":"read-only,issuing-certificates"}"#).unwrap();
    assert_eq!(ask(NOW + 301), kallisto_pki::ocsp::UNAUTHORIZED);
}

/// Complete lists and deltas together are what is revoked, over restarts, in any order of what happens.
#[test]
fn complete_and_delta_lists_are_what_is_revoked() {
    let (mut mount, root) = with_root();
    let body = r#"{"auto_rebuild":true,"enable_delta":true,"delta_rebuild_interval":"10s"}"#;
    mount.ask(NOW, Update, "config/crl", body).unwrap();
    let mut revoked = std::collections::BTreeSet::new();
    let (mut complete_number, mut delta_number) = (0, 0);
    let mut at = NOW;
    // A fixed history that looks random.
    for step in 0..120u32 {
        at += 3;
        match step * 7 % 10 {
            0..=4 => {
                let serial = issued_serial(&mount, r#"{"common_name":"a","ttl":"1h"}"#);
                revoke(&mount, at, &serial);
                revoked.insert(Serial::parse(&serial).unwrap());
            }
            5 => mount = mount.restarted(),
            6 => drop(mount.ask(at, Read, "crl/rotate", "").unwrap()),
            7 => drop(mount.ask(at, Read, "crl/rotate-delta", "").unwrap()),
            _ => mount.run_job(at, "lists").unwrap(),
        }
        let complete = complete(&mount, at);
        let (_, der) = mount.raw(at, Read, "crl/delta", b"").unwrap();
        let delta = crl::ParsedList::from_der(&der).unwrap();
        assert!(complete.is_signed_by(&root.public) && delta.is_signed_by(&root.public));
        let (number, delta_is) = (complete.number.unwrap(), delta.number.unwrap());
        assert!(number >= complete_number && delta_is >= delta_number, "numbers rise");
        (complete_number, delta_number) = (number, delta_is);
        assert_eq!(delta.base, Some(number), "a delta names the complete list");
        assert!(delta_is >= number);
        let listed: std::collections::BTreeSet<Serial> =
            complete.revoked.iter().chain(&delta.revoked).map(|one| one.serial).collect();
        assert!(listed.is_subset(&revoked));
        assert_eq!(listed.len(), complete.revoked.len() + delta.revoked.len(), "none is on both");
        // When a delta is due, nothing is missing after it.
        mount.run_job(at + 10, "lists").unwrap();
        let (_, der) = mount.raw(at + 10, Read, "crl/delta", b"").unwrap();
        let delta = crl::ParsedList::from_der(&der).unwrap();
        let complete = self::complete(&mount, at + 10);
        let listed: std::collections::BTreeSet<Serial> =
            complete.revoked.iter().chain(&delta.revoked).map(|one| one.serial).collect();
        assert_eq!(listed, revoked, "step {step}");
        delta_number = delta_number.max(delta.number.unwrap());
        complete_number = complete_number.max(complete.number.unwrap());
        at += 10;
    }
    assert!(revoked.len() > 40);
}

/// `bao pki health-check` reads the lists of every issuer, also of the root that came along with an intermediate.
#[test]
fn an_issuer_that_nobody_here_signs_for_has_no_list_and_says_so() {
    let (_, root) = with_root();
    let mount = Mount::new(&ENGINE);
    let body = r#"{"common_name":"Here","key_type":"ec","issuer_name":"here"}"#;
    mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    let bundle = Json::from(pem::write(Label::Certificate, &root.der).as_str()).to_text();
    let body = format!(r#"{{"pem_bundle":{}}}"#, String::from_utf8(bundle).unwrap());
    let imported = mount.ask(NOW, Update, "issuers/import/cert", &body).unwrap();
    let Json::Array(ids) = &imported["imported_issuers"] else { panic!("a list of issuers") };
    let id = ids[0].as_str().unwrap();
    for inside in ["crl", "crl/der", "crl/pem", "crl/delta", "crl/delta/der", "crl/delta/pem"] {
        assert!(mount.answer(NOW, Read, &format!("issuer/here/{inside}"), b"").is_ok(), "{inside}");
        let refused = mount.answer(NOW, Read, &format!("issuer/{id}/{inside}"), b"");
        let why = format!("unable to find CRL for issuer: id:{id}/ref:{id}");
        assert!(matches!(refused, Err(Error::Invalid(said)) if said == why), "{inside}");
    }
}

/// `bao pki health-check` reads the delta of every mount, and stops at bytes that are no list.
#[test]
fn where_deltas_are_off_the_delta_is_signed_and_empty() {
    let (mount, root) = with_root();
    let revoke = |at: i64| {
        let issued = issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
        let serial = Mount::text(&issued, "serial_number");
        mount.ask(at, Update, "revoke", &format!(r#"{{"serial_number":"{serial}"}}"#)).unwrap();
    };
    let check = |at: i64| {
        let complete = complete(&mount, at);
        let paths = ["crl/delta", "issuer/root/crl/delta/der", "cert/delta-crl/raw"];
        let ders = paths.map(|path| mount.raw(at, Read, path, b"").unwrap().1);
        assert!(ders.iter().all(|der| *der == ders[0]), "one list by every name");
        let delta = crl::ParsedList::from_der(&ders[0]).unwrap();
        assert!(delta.is_signed_by(&root.public) && delta.revoked.is_empty());
        assert_eq!(delta.base, complete.number);
        assert_eq!(delta.number, complete.number, "lists of one time have one number");
        complete.revoked.len()
    };
    assert_eq!(check(NOW), 0);
    revoke(NOW + 1);
    assert_eq!(check(NOW + 2), 1);
    // What a delta said while there were deltas is on the next complete list.
    let body = r#"{"auto_rebuild":true,"enable_delta":true,"delta_rebuild_interval":"10s"}"#;
    mount.ask(NOW + 3, Update, "config/crl", body).unwrap();
    revoke(NOW + 4);
    mount.ask(NOW + 5, Read, "crl/rotate-delta", "").unwrap();
    let (_, der) = mount.raw(NOW + 5, Read, "crl/delta", b"").unwrap();
    assert_eq!(crl::ParsedList::from_der(&der).unwrap().revoked.len(), 1);
    mount.ask(NOW + 6, Update, "config/crl", r#"{"enable_delta":false}"#).unwrap();
    assert_eq!(check(NOW + 7), 2);
}

#[test]
fn a_crash_between_a_revocation_and_its_list_is_made_good() {
    let (mount, _) = with_root();
    let serial = issued_serial(&mount, r#"{"common_name":"a"}"#);
    revoke(&mount, NOW, &serial);
    // As if the server had stopped before it decided on a list: the record of the lists is as it was before.
    let lists = mount.names().into_iter().find(|name| name.starts_with("crl/")).unwrap();
    let before = super::revoked::Lists::default().with_complete(NOW);
    mount.put(&lists, &before.encode());
    let mount = mount.restarted();
    assert!(complete(&mount, NOW + 1).revoked.is_empty());
    mount.run_job(NOW + 1, "lists").unwrap();
    assert_eq!(complete(&mount, NOW + 1).revoked.len(), 1);
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
    let left = |mount: &Mount| mount.names_in("cert/");
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
    assert_eq!(Mount::text(&status, "state"), "Cancelled");
    mount.run_job(later + 60, "tidy").unwrap();
    assert_eq!(left(&mount), first - 10);
    let body =
        r#"{"enabled":true,"tidy_cert_store":true,"safety_buffer":"1s","interval_duration":"1m"}"#;
    mount.ask(later + 60, Update, "config/auto-tidy", body).unwrap();
    mount.run_job(later + 61, "tidy").unwrap();
    assert_eq!(left(&mount), 1, "the root is left");
    assert_eq!(
        Mount::text(&mount.ask(later, Read, "tidy-status", "").unwrap(), "state"),
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
            let mount = Mount::new(&ENGINE);
            let body = format!(
                r#"{{"common_name":"R","key_type":"{kind}","key_bits":{bits},"format":"{format}","use_pss":true,
                    "private_key_format":"{key_format}"}}"#
            );
            let root = mount.ask(NOW, Update, "root/generate/exported", &body).unwrap();
            let text = Mount::text(&root, "certificate");
            let der = match format {
                "der" => data_encoding::BASE64.decode(text.as_bytes()).unwrap(),
                _ => der_of(&text),
            };
            let certificate = ParsedCertificate::from_der(&der).unwrap();
            assert!(certificate.is_self_signed(), "{kind} {bits}");
            let key = Mount::text(&root, "private_key");
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
            assert_eq!(Mount::text(&root, "private_key_type"), kind);
            assert!(complete(&mount, NOW).is_signed_by(&certificate.public));
        }
    }
}

#[test]
fn a_ca_moves_from_mount_to_mount_with_its_key() {
    let mount = Mount::new(&ENGINE);
    let body = r#"{"common_name":"Root","key_type":"ec","format":"pem_bundle","ttl":"2h"}"#;
    let root = mount.ask(NOW, Update, "root/generate/exported", body).unwrap();
    let bundle = Mount::text(&root, "certificate");
    let other = Mount::new(&ENGINE);
    let body = format!(r#"{{"pem_bundle":{}}}"#, quoted(&bundle));
    let imported = other.ask(NOW, Update, "issuers/import/bundle", &body).unwrap();
    assert!(Mount::text(&imported, "imported_keys").contains('-'));
    let again = other.ask(NOW, Update, "config/ca", &body).unwrap();
    assert_eq!(Mount::text(&again, "imported_issuers"), "null");
    other.ask(NOW, Update, "roles/any", r#"{"allow_any_name":true,"key_type":"ec"}"#).unwrap();
    let issued = issue(&other, "any", r#"{"common_name":"a","ttl":"1h"}"#).unwrap();
    let public = parsed(&root, "certificate").public;
    assert!(parsed(&issued, "certificate").is_signed_by(&public));
    // Revoked where it was not issued, by what it is.
    let text = quoted(&Mount::text(&issued, "certificate"));
    mount.ask(NOW, Update, "revoke", &format!(r#"{{"certificate":{text}}}"#)).unwrap();
    assert_eq!(complete(&mount, NOW).revoked.len(), 1);
    // By whoever has the key.
    let key = quoted(&Mount::text(&issued, "private_key"));
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
    pem::write(Label::Certificate, &der_of(&Mount::text(root, "certificate")))
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

/// What a revocation writes, and what is made of it, does not depend on how much is revoked.
#[test]
fn revoking_writes_the_same_whatever_is_revoked() {
    const MANY: u32 = 50_000;
    let (mount, root) = with_root();
    let scope = super::ids::ListScope::of(&root.subject, root.public.spki());
    let serials: Vec<String> =
        (0..4).map(|_| issued_serial(&mount, r#"{"common_name":"a"}"#)).collect();
    let written = |serial: &str| {
        let before = mount.written();
        revoke(&mount, NOW, serial);
        let after = mount.written();
        (after.0 - before.0, after.1 - before.1)
    };
    let first = written(&serials[0]);
    assert_eq!(first.0, 2, "what is revoked, and that there is another list");
    for number in 0..MANY {
        let mut bytes = [0x11; 20];
        bytes[16..].copy_from_slice(&number.to_be_bytes());
        let serial = Serial::of_random(bytes);
        let revoked = super::revoked::RevokedCertificate {
            reason: 0,
            serial,
            at_ns: NOW * 1_000_000_000,
            // One in ten is over when the list of an hour later is made.
            not_after: if number % 10 == 0 { NOW + 60 } else { NOW + 7200 },
            after: 1,
        };
        let record = super::revoked::RevocationRecord { scope, revoked };
        mount.put(&super::revoked::revoked_record(&serial), &record.encode());
    }
    let many = written(&serials[1]);
    // The numbers of lists have a digit more or less.
    assert!(many.0 == first.0 && many.1.abs_diff(first.1) <= 4, "{first:?} {many:?}");
    assert_eq!(complete(&mount, NOW).revoked.len(), MANY as usize + 2);
    // Made once: who asks again gets the same, until there is another and it is worth making.
    let (_, once) = mount.raw(NOW, Read, "crl", b"").unwrap();
    revoke(&mount, NOW, &serials[2]);
    assert_eq!(mount.raw(NOW, Read, "crl", b"").unwrap().1, once);
    assert_eq!(complete(&mount, NOW + 1).revoked.len(), MANY as usize + 3);
    let mount = mount.restarted();
    assert_eq!(complete(&mount, NOW + 1).revoked.len(), MANY as usize + 3);
    // What has ended was on a list after its end, and is on none after that.
    for at in [NOW + 3600, NOW + 3700] {
        mount.ask(at, Read, "crl/rotate", "").unwrap();
    }
    let left = complete(&mount, NOW + 3700).revoked.len();
    assert!(left < MANY as usize && left > (MANY / 10 * 8) as usize, "{left}");
    let body = r#"{"tidy_revoked_certs":true,"safety_buffer":"1s"}"#;
    mount.ask(NOW + 3700, Update, "tidy", body).unwrap();
    for _ in 0..10 {
        mount.run_job(NOW + 3700, "tidy").unwrap();
    }
    assert_eq!(mount.names_in("revoked/"), MANY as usize / 10 * 9, "those issued here have ended");
}
