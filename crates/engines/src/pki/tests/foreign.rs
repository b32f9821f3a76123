//! CAs, certificates and requests that somebody else made.

use super::super::attacks::foreign_root_named;
use super::*;

/// DER of at most 127 bytes, with its tag and length.
fn tagged(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    assert!(value.len() < 0x80);
    [&[tag, u8::try_from(value.len()).unwrap()], &value[..]].concat()
}

/// An organizational unit of a name.
fn unit(text: &str) -> Vec<u8> {
    tagged(0x30, &[&[6, 3, 0x55, 4, 11], &tagged(0x13, &[text.as_bytes()])])
}

/// A mount with a CA that came from elsewhere, and a role for anything.
fn with_foreign_root(name: &[u8], serial: Serial) -> (TestMount, ParsedCertificate) {
    let (key, root) = foreign_root_named(name, serial, None);
    let mount = TestMount::new(&ENGINE);
    let key = key.to_pem(PrivateKeyForm::Traditional).unwrap();
    let bundle = format!("{}\n{}", pem::write(Label::Certificate, &root), key.as_str());
    let body = format!(r#"{{"pem_bundle":{}}}"#, quoted(&bundle));
    mount.ask(NOW, Update, "issuers/import/bundle", &body).unwrap();
    let body = r#"{"allow_any_name":true,"key_type":"ec","ttl":"5m"}"#;
    mount.ask(NOW, Update, "roles/any", body).unwrap();
    (mount, ParsedCertificate::from_der(&root).unwrap())
}

/// CAs of Vault built with Go before 1.15 have parts of a name whose values are not sorted. Go, rustls and NSS compare names byte for byte.
#[test]
fn what_a_ca_signs_names_it_byte_for_byte() {
    let name = tagged(0x30, &[&tagged(0x31, &[&unit("Web"), &unit("Ops")])]);
    let (mount, root) = with_foreign_root(&name, Serial::from_bytes(&[7]).unwrap());
    let names_it = |der: &[u8]| der.windows(name.len()).any(|part| part == name);
    let issued = issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
    let leaf = parsed(&issued, "certificate");
    assert!(leaf.names_as_issuer(&root) && names_it(&leaf.der));
    revoke(&mount, NOW, &leaf.serial.to_string());
    let (_, list) = mount.raw(NOW, Read, "crl", b"").unwrap();
    assert_eq!(complete(&mount, NOW).revoked.len(), 1);
    assert!(names_it(&list));
    let request = ocsp_request(&root, &leaf.serial);
    let (code, answer) = mount.raw(NOW, Update, "ocsp", &request).unwrap();
    assert_eq!((code, ocsp_state(&answer, &leaf.serial)), (200, 0xa1), "revoked");
    assert!(names_it(&answer));
}

#[test]
fn a_root_with_the_serial_number_0_is_taken_in_and_found() {
    let name = tagged(0x30, &[&tagged(0x31, &[&unit("Root")])]);
    let (mount, root) = with_foreign_root(&name, Serial::from_bytes(&[0]).unwrap());
    let listed = mount.ask(NOW, List, "issuers", "").unwrap();
    assert!(TestMount::text(&listed, "key_info").contains(r#""serial_number":"00""#));
    let read = mount.ask(NOW, Read, "cert/00", "").unwrap();
    assert_eq!(parsed(&read, "certificate"), root);
    issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
    let mount = mount.restarted();
    issue(&mount, "any", r#"{"common_name":"a.example.com"}"#).unwrap();
}

/// OpenBao takes names with dots, and `default` in any case.
#[test]
fn issuers_and_keys_have_the_names_that_others_let_them_have() {
    let (mount, _) = with_root();
    for kind in ["issuer", "key"] {
        let path = format!("{kind}/default");
        let name = |path: &str, name: &str| {
            let body = format!(r#"{{"{kind}_name":"{name}"}}"#);
            mount.ask(NOW, Update, path, &body)
        };
        let answer = name(&path, "root-2026.1_a").unwrap();
        assert_eq!(TestMount::text(&answer, &format!("{kind}_name")), "root-2026.1_a");
        let by_name = mount.ask(NOW, Read, &format!("{kind}/root-2026.1_a"), "").unwrap();
        assert_eq!(mount.ask(NOW, Read, &format!("{kind}/Default"), "").unwrap(), by_name);
        for wrong in ["default", "DEFAULT", ".a", "a.", "a/b", "a b", "é", "*"] {
            assert!(name(&path, wrong).is_err(), "{kind} {wrong}");
        }
    }
    mount.raw(NOW, Read, "issuer/root-2026.1_a/pem", b"").unwrap();
    let body = r#"{"common_name":"a.example.com"}"#;
    mount.ask(NOW, Update, "issuer/root-2026.1_a/issue/any", body).unwrap();
    let body = r#"{"common_name":"R","key_type":"ec","issuer_name":"r.2","key_name":"k.2"}"#;
    mount.ask(NOW, Update, "root/generate/internal", body).unwrap();
    mount.ask(NOW, Update, "config/issuers", r#"{"default":"r.2"}"#).unwrap();
    let why = refusal(mount.ask(NOW, Update, "config/issuers", r#"{"default":"Default"}"#));
    assert!(why.starts_with("Invalid issuer specification"), "{why}");
}

#[test]
fn a_certificate_is_revoked_by_a_file_that_has_its_chain() {
    let (mount, root) = with_root();
    let body = r#"{"allow_any_name":true,"key_type":"ec","ttl":"1h","no_store":true}"#;
    mount.ask(NOW, Update, "roles/unstored", body).unwrap();
    for format in ["pem", "pem_bundle"] {
        let body = format!(r#"{{"common_name":"a.example.com","format":"{format}"}}"#);
        let issued = issue(&mount, "unstored", &body).unwrap();
        let (leaf, root) =
            (TestMount::text(&issued, "certificate"), pem::write(Label::Certificate, &root.der));
        let body = format!(r#"{{"certificate":{}}}"#, quoted(&format!("{leaf}\n{root}\n")));
        mount.ask(NOW, Update, "revoke", &body).unwrap();
        let serial = TestMount::text(&issued, "serial_number");
        let revoked = mount.ask(NOW, List, "certs/revoked", "").unwrap();
        assert!(TestMount::text(&revoked, "keys").contains(&serial), "{format}");
    }
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let key = key.to_pem(PrivateKeyForm::Pkcs8).unwrap();
    for text in ["", "a.pem", key.as_str()] {
        let body = format!(r#"{{"certificate":{}}}"#, quoted(text));
        assert!(mount.ask(NOW, Update, "revoke", &body).is_err());
    }
}

/// OpenSSL finds who signed by the ids of keys. A CA that is signed by another one as well keeps the id by which its leaves name it.
#[test]
fn a_ca_that_is_signed_by_another_one_keeps_the_id_of_its_key() {
    let (mount, _) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "Below", &[], true));
    let sign = |skid: &str| {
        let body = format!(r#"{{"csr":{csr},"ttl":"10m","skid":"{skid}"}}"#);
        mount.ask(NOW, Update, "root/sign-intermediate", &body)
    };
    let id = |skid: &str| parsed(&sign(skid).unwrap(), "certificate").key_id.unwrap();
    assert_eq!(id(""), key.public().key_id());
    for text in ["00ab01", "00:AB:01", "00-ab-01", "00 AB 01"] {
        assert_eq!(id(text), [0, 0xab, 1], "{text}");
    }
    for wrong in ["0", "xy", &"00".repeat(65)] {
        let why = refusal(sign(wrong));
        assert!(why.starts_with("cannot parse requested SKID value as hex"), "{why}");
    }
}

/// The common name of a CA is no host, whatever signs stand in it.
#[test]
fn the_common_name_of_a_ca_is_free_text() {
    let (mount, _) = with_root();
    for name in
        ["Ops @ Example *", "R&D <ca@example.com>", "a@", "*", "10.0.0.1", "Zertifizierung ü"]
    {
        let body = format!(r#"{{"common_name":{},"key_type":"ec","ttl":"1h"}}"#, quoted(name));
        let root = mount.ask(NOW, Update, "root/generate/internal", &body).unwrap();
        let csr = mount.ask(NOW, Update, "intermediate/generate/internal", &body).unwrap();
        let csr = quoted(&TestMount::text(&csr, "csr"));
        let body = format!(r#"{{"csr":{csr},"ttl":"10m"}}"#);
        let signed = mount.ask(NOW, Update, "root/sign-intermediate", &body).unwrap();
        for answer in [root, signed] {
            let certificate = parsed(&answer, "certificate");
            let subject = CertificateSubject::from_der(&certificate.subject).unwrap();
            assert_eq!((subject.common_name.as_str(), &certificate.alt_names[..]), (name, &[][..]));
        }
    }
    let body = r#"{"common_name":"a\tb","key_type":"ec","ttl":"1h"}"#;
    assert!(mount.ask(NOW, Update, "root/generate/internal", body).is_err());
}

/// A role that does not take names of requests does not care which they are.
#[test]
fn names_of_a_request_that_no_rule_is_about_stand_in_the_way_only_where_they_are_taken() {
    let (mount, _) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    // The alternative name is an object identifier.
    let san = tagged(0x30, &[&[0x88, 3, 0x2a, 3, 4]]);
    let extension = tagged(0x30, &[&[6, 3, 0x55, 0x1d, 0x11], &tagged(4, &[&san])]);
    let asked = tagged(0x31, &[&tagged(0x30, &[&extension])]);
    let id = [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
    let attributes = tagged(0xa0, &[&tagged(0x30, &[&id, &asked])]);
    let info = [&[2, 1, 0, 0x30, 0][..], key.spki(), &attributes].concat();
    let info = [&[0x30, 0x81, u8::try_from(info.len()).unwrap()][..], &info].concat();
    let algorithm = SignatureAlgorithm::choose(key.kind(), SignatureWish::default());
    let signature = key.sign(algorithm, &info).unwrap();
    let parts = [info, algorithm.to_der().unwrap(), tagged(3, &[&[0], &signature])].concat();
    let der = [&[0x30, 0x81, u8::try_from(parts.len()).unwrap()][..], &parts].concat();
    let csr = quoted(&pem::write(Label::Request, &der));
    let body = format!(r#"{{"csr":{csr},"common_name":"a.example.com","ttl":"10m"}}"#);
    for path in ["sign/any", "sign-verbatim"] {
        let why = refusal(mount.ask(NOW, Update, path, &body));
        assert!(why.contains("is not supported"), "{path}: {why}");
    }
    let role = r#"{"allow_any_name":true,"key_type":"ec","use_csr_sans":false}"#;
    mount.ask(NOW, Update, "roles/own", role).unwrap();
    let signed = mount.ask(NOW, Update, "sign/own", &body).unwrap();
    let names = parsed(&signed, "certificate").alt_names;
    assert_eq!(names, [San::Dns("a.example.com".to_owned())]);
}

#[test]
fn the_issuer_that_an_import_brings_is_named() {
    let (mount, root) = with_root();
    let root = pem::write(Label::Certificate, &root.der);
    let (key, other) = foreign_root_named(
        &tagged(0x30, &[&tagged(0x31, &[&unit("A")])]),
        Serial::from_bytes(&[9]).unwrap(),
        None,
    );
    let other = pem::write(Label::Certificate, &other);
    let csr = request(&key, "Below", &[], true);
    let body = format!(r#"{{"csr":{},"ttl":"10m"}}"#, quoted(&csr));
    let below = mount.ask(NOW, Update, "root/sign-intermediate", &body).unwrap();
    let below = TestMount::text(&below, "certificate");
    let import = |mount: &TestMount, path: &str, texts: &[&str], name: &str| {
        let field = if path.ends_with("set-signed") { "certificate" } else { "pem_bundle" };
        let body = format!(r#"{{"{field}":{},"issuer_name":"{name}"}}"#, quoted(&texts.join("\n")));
        mount.ask(NOW, Update, path, &body)
    };
    let to = TestMount::new(&ENGINE);
    import(&to, "issuers/import/cert", &[&root], "upper").unwrap();
    let read = to.ask(NOW, Read, "issuer/upper", "").unwrap();
    assert_eq!(TestMount::text(&read, "certificate"), root);
    // What is known keeps its name.
    import(&to, "issuers/import/cert", &[&root], "other").unwrap();
    assert!(to.ask(NOW, Read, "issuer/other", "").is_err());
    let why = refusal(import(&to, "issuers/import/cert", &[&other], "upper"));
    assert_eq!(why, "issuer name already in use");
    let why = refusal(import(&to, "issuers/import/cert", &[&other, &below], "lower"));
    assert!(why.starts_with("issuer_name is the name of one issuer"), "{why}");
    // Of a chain the one that has its key here.
    let to = TestMount::new(&ENGINE);
    let text = key.to_pem(PrivateKeyForm::Pkcs8).unwrap();
    let body = format!(r#"{{"pem_bundle":{}}}"#, quoted(&text));
    to.ask(NOW, Update, "keys/import", &body).unwrap();
    import(&to, "intermediate/set-signed", &[&below, &root], "lower.1").unwrap();
    let read = to.ask(NOW, Read, "issuer/lower.1", "").unwrap();
    assert_eq!(TestMount::text(&read, "certificate"), below);
}

/// A request that openssl made: for a CA with name constraints, with key usages, extended ones, a feature of TLS and a template of Windows.
const ASKING: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBqjCCAVACAQAwGDEWMBQGA1UEAwwNdi5leGFtcGxlLmNvbTBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABEO2JhWvefnJpM8zPdo4bE8CVC5hoVKvT7J6rgRaKyXl
Fy00GU1K5TDVcujoZ98yK2J5YhJQ0pVIzuNr87ymhhiggdUwgdIGCSqGSIb3DQEJ
DjGBxDCBwTAMBgNVHRMEBTADAQH/MA4GA1UdDwEB/wQEAwIChDAfBgNVHSUEGDAW
BggrBgEFBQcDAgYKKwYBBAGCNxQCAjAYBgNVHREEETAPgg12LmV4YW1wbGUuY29t
MB0GA1UdDgQWBBTjLinOQazcGPzuyf56xOL2k96uMDARBggrBgEFBQcBGAQFMAMC
AQUwGAYJKwYBBAGCNxQCAQH/BAgeBgBXAGUAYjAaBgNVHR4EEzARoA8wDYILZXhh
bXBsZS5jb20wCgYIKoZIzj0EAwIDSAAwRQIhAKKcRYwDCzsQlZR7diWmZouhkg3G
EDdf8G0RwsQp7e5uAiBrP1HFhn8H9SqdrrGODSOelG6GB7zqL+ZptwP0d2Eddw==
-----END CERTIFICATE REQUEST-----";

/// As OpenBao and Vault do. What would make a CA of it is left out.
#[test]
fn what_is_signed_verbatim_has_what_the_request_asks_for() {
    use kallisto_pki::KeyUsages::{DigitalSignature, KeyAgreement};
    const EXT_USAGES: &[u8] = b"\x06\x03\x55\x1d\x25\x04\x18\x30\x16\x06\x08+\x06\x01\x05\x05\x07\x03\x02\x06\x0a+\x06\x01\x04\x01\x82\x37\x14\x02\x02";
    const FEATURE: &[u8] = b"\x06\x08+\x06\x01\x05\x05\x07\x01\x18\x04\x05\x30\x03\x02\x01\x05";
    const TEMPLATE: &[u8] =
        b"\x06\x09+\x06\x01\x04\x01\x82\x37\x14\x02\x01\x01\xff\x04\x08\x1e\x06\0W\0e\0b";
    const CONSTRAINTS: &[u8] = b"\x06\x03\x55\x1d\x1e";
    const KEY_ID: &[u8] = b"\x06\x03\x55\x1d\x0e";
    const SERVER: &[u8] = b"\x06\x08+\x06\x01\x05\x05\x07\x03\x01";
    let (mount, _) = with_root();
    let sign = |path: &str, more: &str| {
        let body = format!(r#"{{"csr":{}{more}}}"#, quoted(ASKING));
        let certificate = parsed(&mount.ask(NOW, Update, path, &body).unwrap(), "certificate");
        assert!(!certificate.is_ca && !certificate.may_sign_certificates(), "{path}");
        let count = |part: &[u8]| {
            certificate.der.windows(part.len()).filter(|bytes| *bytes == part).count()
        };
        assert_eq!((count(CONSTRAINTS), count(KEY_ID)), (0, 1), "{path}");
        let found = [EXT_USAGES, FEATURE, TEMPLATE, SERVER].map(count);
        (certificate.usages.unwrap(), found)
    };
    for path in ["sign-verbatim", "sign-verbatim/any"] {
        assert_eq!(sign(path, ""), (DigitalSignature.into(), [1, 1, 1, 0]), "{path}");
    }
    // What the body says itself counts.
    let own = r#","key_usage":"KeyAgreement","ext_key_usage":"ServerAuth""#;
    assert_eq!(sign("sign-verbatim", own), (KeyAgreement.into(), [0, 1, 1, 1]));
    // A role says what its certificates have.
    let by_role = sign("sign/any", "").1;
    assert_eq!(by_role[..3], [0, 0, 0]);
}

/// A request that openssl made: with the types of Netscape for CAs, what CAs say of policies, a name of the issuer, and a feature of TLS.
const ASKING_TO_BE_A_CA: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBdjCCARsCAQAwGDEWMBQGA1UEAwwNdi5leGFtcGxlLmNvbTBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABBxDwoOPb3BQTehzX0Hmvd7EeRIIBusTIOk+JKsUVPa1
BlCw3Xz88ALiFxuys7POF1WDjD9bTO/aYbGvAirp70qggaAwgZ0GCSqGSIb3DQEJ
DjGBjzCBjDAYBgNVHREEETAPgg12LmV4YW1wbGUuY29tMBEGCWCGSAGG+EIBAQQE
AwIABTAMBgNVHSQEBTADgAEAMAoGA1UdNgQDAgEAMBUGA1UdIQQOMAwwCgYDKgME
BgMqAwUwGQYDVR0SBBIwEIIOY2EuZXhhbXBsZS5jb20wEQYIKwYBBQUHARgEBTAD
AgEFMAoGCCqGSM49BAMCA0kAMEYCIQDNI3nB54Jr/9GLsOZDAOjDY5qfubH9XWgU
6GeLtxCbCgIhAO6O3CZqS9LihgyQ6dgdvikiCxp8V2uFXtGwXc5B/Kb1
-----END CERTIFICATE REQUEST-----";

#[test]
fn what_is_signed_verbatim_has_nothing_that_is_for_cas() {
    const FEATURE: &[u8] = b"\x06\x08+\x06\x01\x05\x05\x07\x01\x18";
    const NETSCAPE: &[u8] = b"\x06\x09\x60\x86\x48\x01\x86\xf8\x42\x01\x01";
    // The policies' mappings, their constraints, no "any policy", and the issuer's other names.
    const OF_CAS: [&[u8]; 4] = [
        b"\x06\x03\x55\x1d\x21",
        b"\x06\x03\x55\x1d\x24",
        b"\x06\x03\x55\x1d\x36",
        b"\x06\x03\x55\x1d\x12",
    ];
    let (mount, _) = with_root();
    // Without usages nothing else says that it is no CA.
    for more in ["", r#","key_usage":"""#] {
        let body = format!(r#"{{"csr":{}{more}}}"#, quoted(ASKING_TO_BE_A_CA));
        let signed = mount.ask(NOW, Update, "sign-verbatim", &body).unwrap();
        let der = parsed(&signed, "certificate").der;
        let has = |part: &[u8]| der.windows(part.len()).any(|bytes| bytes == part);
        assert!(has(FEATURE), "{more}");
        assert!(!has(NETSCAPE) && !OF_CAS.into_iter().any(has), "{more}");
    }
}

/// A request for a CA that openssl made, for certificates of servers of one domain: with constraints of names, a path length of 0, key usages besides
/// those of a CA, an extended one, a policy, a feature of TLS, the id of its key, and where its issuer has a revocation list.
const CONSTRAINED_CA: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBpjCCAU0CAQAwGTEXMBUGA1UEAwwOQ29uc3RyYWluZWQgQ0EwWTATBgcqhkjO
PQIBBggqhkjOPQMBBwNCAATjMVb8A5qjNnhND/MAM/ryAolZkDLPlyplFTYrYJKL
q9+D3mogcxg6WiTaAEooKh9g/q1nydMFSjdPNzEqtfpRoIHRMIHOBgkqhkiG9w0B
CQ4xgcAwgb0wEgYDVR0TAQH/BAgwBgEB/wIBADAOBgNVHQ8BAf8EBAMCAYYwEwYD
VR0lBAwwCgYIKwYBBQUHAwEwHwYDVR0eBBgwFqAUMBKCEG9ubHkuZXhhbXBsZS5j
b20wEAYDVR0gBAkwBzAFBgMqAwQwEQYIKwYBBQUHARgEBTADAgEFMB0GA1UdDgQW
BBQC05REDZzGZfk2cqZIdNFQrh+H7zAdBgNVHR8EFjAUMBKgEKAOhgxodHRwOi8v
eC55L2MwCgYIKoZIzj0EAwIDRwAwRAIgZo+xIqeP6DLgCiOrdciiNavnPJe0pqGm
oRdvb7vyHHwCIAYRG9I/Cj7RZQbCnJluZI4jTdeMSt+CJNzLLDO9bZHc
-----END CERTIFICATE REQUEST-----";

/// The CA would sign for anybody, if what was asked for it were left out.
#[test]
fn a_ca_has_what_its_request_asks_for_where_that_counts() {
    use kallisto_pki::KeyUsages::{CRLSign, DigitalSignature, KeyCertSign};
    use kallisto_pki::certificate::NameConstraint;
    const NAMES: &[u8] = b"\x06\x03\x55\x1d\x1e\x01\x01\xff";
    const SERVERS: &[u8] =
        b"\x06\x03\x55\x1d\x25\x04\x0c\x30\x0a\x06\x08+\x06\x01\x05\x05\x07\x03\x01";
    const POLICY: &[u8] = b"\x06\x03\x2a\x03\x04";
    const FEATURE: &[u8] = b"\x06\x08+\x06\x01\x05\x05\x07\x01\x18";
    const KEY_ID: &[u8] = b"\x06\x03\x55\x1d\x0e";
    const LISTS: &[u8] = b"\x06\x03\x55\x1d\x1f";
    let (mount, _) = with_root();
    let sign = |more: &str| {
        let body = format!(r#"{{"csr":{},"ttl":"10m"{more}}}"#, quoted(CONSTRAINED_CA));
        let answer = mount.answer(NOW, Update, "root/sign-intermediate", body.as_bytes());
        let Response::Logical(logical) = answer.unwrap() else { panic!("no answer") };
        let data = kallisto_api::json::parse_object(&logical.data).unwrap();
        let signed = parsed(&data, "certificate");
        let has = |part: &&[u8]| signed.der.windows(part.len()).any(|bytes| bytes == *part);
        let has = [NAMES, SERVERS, POLICY, FEATURE, KEY_ID, LISTS].iter().map(has).collect();
        let left_out = logical.warnings.into_iter().filter(|one| one.contains("was left out"));
        (signed, has, left_out.collect())
    };
    let of = |domain: &str| vec![NameConstraint::Dns(domain.to_owned())];
    let (signed, has, left_out): (_, Vec<bool>, Vec<String>) = sign(r#","use_csr_values":true"#);
    assert_eq!(has, [true, true, true, true, true, false]);
    assert_eq!(signed.name_limits.unwrap().permitted, of("only.example.com"));
    assert_eq!(signed.usages.unwrap(), DigitalSignature | KeyCertSign | CRLSign);
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(left_out[0].contains("2.5.29.19") && left_out[1].contains("2.5.29.31"));
    // Where whoever asks for the signature says it, the request is not asked.
    let own = r#","use_csr_values":true,"permitted_dns_domains":"other.com","max_path_length":0,
        "ext_key_usage":"ClientAuth""#;
    let (signed, has, left_out): (_, Vec<bool>, Vec<String>) = sign(own);
    assert_eq!(has, [true, false, true, true, true, false]);
    assert_eq!(signed.name_limits.unwrap().permitted, of("other.com"));
    assert_eq!(left_out.len(), 3, "{left_out:?}");
    let (signed, has, left_out): (_, Vec<bool>, Vec<String>) = sign(r#","common_name":"a""#);
    assert_eq!(has, [false, false, false, false, true, false]);
    assert_eq!(signed.usages.unwrap(), KeyCertSign | CRLSign);
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// A request of a key of RSA of 1024 bits, which openssl made.
const SMALL: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBTzCBuQIBADAQMQ4wDAYDVQQDDAVzbWFsbDCBnzANBgkqhkiG9w0BAQEFAAOB
jQAwgYkCgYEAuJLQHgP7wRvi1pn0EB85DVD753O4I8Q44s2DQKUCSSEycs2+GX+V
RWBbjDpVlQnkadwju1Wq+muBYMERP5UJwgmGDzgUFt47v+bgpmuEmhrISstXMi7K
gExkbKGAl6sJvDzaBisWazISn81ejScBVat5m0hYtcfkQHuuMu3s72kCAwEAAaAA
MA0GCSqGSIb3DQEBCwUAA4GBAFCJqdW1caWresxpdWopYMC8WwzP3m65hqniJy+h
H3QyFJOpKgM58uzqH3Fe14zuPnYjoYC2tl8s5nKBx/h/eOWGRHsX7vF2BwcyHrmX
ScZF5+3X9PY/ZHFpaec3x2QMJEUDk5QYSwAXVNZtZaZq9xXVUh81n60cdgSfZDZc
wP85
-----END CERTIFICATE REQUEST-----";

#[test]
fn a_request_of_a_key_that_is_too_small_is_refused_for_that() {
    let (mount, _) = with_root();
    for path in ["sign-verbatim", "sign/any", "root/sign-intermediate"] {
        let body = format!(r#"{{"csr":{},"common_name":"a"}}"#, quoted(SMALL));
        let why = refusal(mount.ask(NOW, Update, path, &body));
        assert_eq!(why, "RSA keys < 2048 bits are unsafe and not supported: got 1024", "{path}");
    }
}

/// A CA that openssl made, and its key with a passphrase.
const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBgzCCASmgAwIBAgIUWHZJQhJymQmMLBpSvpEw7T3kMRIwCgYIKoZIzj0EAwIw
DjEMMAoGA1UEAwwDRW5jMCAXDTI2MTEzMDE4MzMxMloYDzIxMjYxMTA2MTgzMzEy
WjAOMQwwCgYDVQQDDANFbmMwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATjMVb8
A5qjNnhND/MAM/ryAolZkDLPlyplFTYrYJKLq9+D3mogcxg6WiTaAEooKh9g/q1n
ydMFSjdPNzEqtfpRo2MwYTAdBgNVHQ4EFgQUAtOURA2cxmX5NnKmSHTRUK4fh+8w
HwYDVR0jBBgwFoAUAtOURA2cxmX5NnKmSHTRUK4fh+8wDwYDVR0TAQH/BAUwAwEB
/zAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZIzj0EAwIDSAAwRQIgXfirwt6aGGQson69
tybFcgWoNZbyUOkrZS6Z1nrx1OwCIQCZC0KdDEYXoxk3FJK062GNmwTghBRsbhWi
nhHvRKyi+Q==
-----END CERTIFICATE-----";
const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhh4/RFZDqXMwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEDqeqGRTPyik3C4Pnshcp7kEgZA9
mcRvzy1qnOmnWj1SA6kCPTOzN4PSd6mvthtXuCM/IVH416R6RZi0CkvInS/nS94O
0et989UF7Mgzrv9Gju0cynozPsAzSlWviay9FX/Kr8sA3mR/kGwKpjUqrP9QfxJX
kSQV8gRN+LL3m/w+EcOXhbrrFMtg9sa4rRLquXRdRIjReaH4aCSanTTffThIyd4=
-----END ENCRYPTED PRIVATE KEY-----";

/// Whoever imports a CA with its key has no CA that signs, if the key is left out.
#[test]
fn what_cannot_be_read_of_a_bundle_is_refused_and_named() {
    for path in ["config/ca", "issuers/import/bundle", "keys/import", "intermediate/set-signed"] {
        let mount = TestMount::new(&ENGINE);
        let import = |text: &str| {
            let text = quoted(text);
            let body = format!(r#"{{"pem_bundle":{text},"certificate":{text}}}"#);
            mount.ask(NOW, Update, path, &body)
        };
        let why = refusal(import(&format!("{CA}\n{ENCRYPTED}\n")));
        assert!(why.contains("ENCRYPTED PRIVATE KEY"), "{path}: {why}");
        let why = refusal(import(&format!("{CA}\n{}\n", ENCRYPTED.replace("ENCRYPTED", "DSA"))));
        assert!(why.contains("DSA PRIVATE KEY"), "{path}: {why}");
        let other = ENCRYPTED.replace("ENCRYPTED PRIVATE KEY", "PKCS7");
        assert!(refusal(import(&format!("{other}\n{CA}\n"))).contains("PKCS7"), "{path}");
        assert_eq!(mount.names_in("issuer/") + mount.names_in("key/"), 0, "{path}");
        if path != "keys/import" {
            let curve =
                "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----";
            import(&format!("{curve}\n{CA}\n")).unwrap();
            assert_eq!(mount.names_in("issuer/"), 1, "{path}");
        }
    }
}
