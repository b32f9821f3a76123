//! What a request wishes, beside what its role or its operator says: until when, and what for.

use kallisto_pki::ObjectIdentifier;

use super::*;
use crate::pki::given::write_time;

/// A role says until when its certificates are good at the most, and nobody who asks for one says otherwise, by whatever field.
#[test]
fn the_end_that_a_role_sets_is_not_for_its_callers_to_lift() {
    let (mount, _) = with_root();
    let role = |more: &str| {
        let body = format!(r#"{{"allow_any_name":true,"key_type":"ec","ttl":"1h",{more}}}"#);
        mount.ask(NOW, Update, "roles/ends", &body).unwrap();
    };
    let (soon, later) = (write_time(NOW + 600), write_time(NOW + 1200));
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "a", &[], false));
    let ask = |path: &str, more: &str| {
        mount.ask(NOW, Update, path, &format!(r#"{{"common_name":"a","csr":{csr}{more}}}"#))
    };
    let paths = ["issue/ends", "sign/ends", "issuer/root/issue/ends", "issuer/root/sign/ends"];

    // At the latest: whether a request, the role or the mount says when.
    role(&format!(r#""not_after_bound":"{soon}""#));
    let asked = [String::new(), r#","ttl":"20m""#.to_owned(), format!(r#","not_after":"{later}""#)];
    for path in paths.iter().chain(&["sign-verbatim/ends"]) {
        for more in &asked {
            let why = refusal(ask(path, more));
            assert!(why.contains("not_after later than"), "{path} {more}: {why}");
        }
        let signed = ask(path, r#","ttl":"5m""#).unwrap();
        assert_eq!(parsed(&signed, "certificate").not_after, NOW + 300, "{path}");
    }

    // For good.
    role(&format!(r#""not_after":"{soon}""#));
    for path in paths {
        assert!(
            refusal(ask(path, r#","ttl":"20m""#)).contains("either ttl or not_after"),
            "{path}"
        );
        for more in [String::new(), format!(r#","not_after":"{later}""#)] {
            let signed = ask(path, &more).unwrap();
            assert_eq!(parsed(&signed, "certificate").not_after, NOW + 600, "{path} {more}");
        }
    }
}

/// Who restricts a CA to certificates of servers has a CA that is.
#[test]
fn a_ca_has_the_extended_key_usages_that_were_asked_for() {
    let (mount, _) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "Below", &[], true));
    let usages = r#""ext_key_usage":"ServerAuth","ext_key_usage_oids":"1.3.6.1.5.5.7.3.8""#;
    let below = format!(r#"{{"csr":{csr},"ttl":"10m",{usages}}}"#);
    let above = format!(r#"{{"common_name":"Other","key_type":"ec","ttl":"1h",{usages}}}"#);
    for (path, body) in [("root/sign-intermediate", below), ("root/generate/internal", above)] {
        let der =
            der_of(&Mount::text(&mount.ask(NOW, Update, path, &body).unwrap(), "certificate"));
        let has = |oid: &str| {
            let oid = ObjectIdentifier::new_unwrap(oid);
            der.windows(oid.as_bytes().len()).any(|bytes| bytes == oid.as_bytes())
        };
        assert!(has("1.3.6.1.5.5.7.3.1") && has("1.3.6.1.5.5.7.3.8"), "{path}");
        ParsedCertificate::from_der(&der).unwrap();
    }
    let wrong = format!(r#"{{"csr":{csr},"ttl":"10m","ext_key_usage":"Anything at all"}}"#);
    assert!(mount.ask(NOW, Update, "root/sign-intermediate", &wrong).is_err());
}
