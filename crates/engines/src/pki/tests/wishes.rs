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
            der_of(&TestMount::text(&mount.ask(NOW, Update, path, &body).unwrap(), "certificate"));
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

/// Two CAs, of which the one that is not the default is named.
#[test]
fn the_issuer_that_a_body_names_signs_where_the_path_names_none() {
    let (mount, root) = with_root();
    let body = r#"{"common_name":"Other","key_type":"ec","ttl":"2h","issuer_name":"other"}"#;
    let made = mount.ask(NOW, Update, "issuers/generate/root/internal", body).unwrap();
    let other = parsed(&made, "certificate");
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "Below", &[], true));
    let signed_itself = r#"{"common_name":"Own","key_type":"ec","ttl":"30m"}"#;
    let own = mount.ask(NOW, Update, "issuers/generate/root/internal", signed_itself).unwrap();
    let own = quoted(&TestMount::text(&own, "certificate"));
    for (path, asked) in [
        ("sign-verbatim", format!(r#""csr":{csr},"ttl":"10m""#)),
        ("root/sign-intermediate", format!(r#""csr":{csr},"ttl":"10m""#)),
        ("root/sign-self-issued", format!(r#""certificate":{own}"#)),
    ] {
        let sign = |path: &str, reference: &str| {
            mount.ask(NOW, Update, path, &format!(r#"{{{asked}{reference}}}"#))
        };
        let signer = |path: &str, reference: &str| {
            let signed = parsed(&sign(path, reference).unwrap(), "certificate");
            let is_by = |ca: &ParsedCertificate| signed.is_signed_by(&ca.public);
            (is_by(&root), is_by(&other))
        };
        let (by_root, by_other) = ((true, false), (false, true));
        assert_eq!(signer(path, ""), by_root, "{path}");
        for reference in ["default", "DEFAULT", "root"] {
            let reference = format!(r#","issuer_ref":"{reference}""#);
            assert_eq!(signer(path, &reference), by_root, "{path} {reference}");
        }
        assert_eq!(signer(path, r#","issuer_ref":"other""#), by_other, "{path}");
        for wrong in ["", "nobody"] {
            let reference = format!(r#","issuer_ref":"{wrong}""#);
            assert!(sign(path, &reference).is_err(), "{path} {wrong:?}");
        }
        // A path that names one is not overruled, nor is a role that it names.
        let by_path = format!("issuer/other/{}", path.trim_start_matches("root/"));
        assert_eq!(signer(&by_path, r#","issuer_ref":"root""#), by_other, "{by_path}");
    }
    let asked = format!(r#"{{"csr":{csr},"common_name":"a","ttl":"10m","issuer_ref":"other"}}"#);
    for path in ["sign-verbatim/any", "sign/any", "issue/any"] {
        let signed = parsed(&mount.ask(NOW, Update, path, &asked).unwrap(), "certificate");
        assert!(signed.is_signed_by(&root.public), "{path}");
    }
}

/// As OpenBao does: the path says whether there is a role, and who names one in the body is told that it does not count.
#[test]
fn the_role_that_a_body_names_is_said_to_have_no_effect() {
    let (mount, _) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "a", &[], false));
    for path in ["sign-verbatim", "issuer/root/sign-verbatim", "sign-verbatim/any"] {
        let body = format!(r#"{{"csr":{csr},"ttl":"10m","role":"nobody"}}"#);
        let answer = mount.answer(NOW, Update, path, body.as_bytes()).unwrap();
        let Response::Logical(logical) = answer else { panic!("{answer:?}") };
        assert!(logical.warnings.len() == 1 && logical.warnings[0].ends_with("[role]"), "{path}");
    }
}

/// Fields that stand in the path of other rows were in the lists of rows whose path has none, and without effect there.
#[test]
fn no_field_is_a_parameter_of_a_path_that_the_row_does_not_have() {
    use kallisto_engine::pattern::parameters;
    let rows = || crate::pki::ROUTES.groups.iter().copied().flatten().map(|row| &row.route);
    let of_paths: Vec<&str> = rows().flat_map(|route| parameters(route.pattern)).collect();
    for route in rows() {
        let own: Vec<&str> = parameters(route.pattern).collect();
        for field in route.fields {
            let is_own = own.contains(&field.name) || !of_paths.contains(&field.name);
            assert!(is_own, "{} {}", route.pattern, field.name);
        }
    }
}
