//! What a role and a CA refuse.

use super::*;

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
    let ends = |more: &str| parsed(&sign(more).unwrap(), "certificate").not_after;
    assert_eq!(ends(r#","ttl":"2h""#), NOW + 7200, "with a warning, as OpenBao has it");
    let enforced = r#","ttl":"2h","enforce_leaf_not_after_behavior":true"#;
    assert!(refusal(sign(enforced)).contains("beyond the expiration of the CA"));
    let truncates = r#"{"leaf_not_after_behavior":"truncate"}"#;
    mount.ask(NOW, Patch, "issuer/default", truncates).unwrap();
    assert_eq!(ends(r#","ttl":"2h""#), NOW + 3600);
}

#[test]
fn the_beginning_is_bound() {
    let (mount, root) = with_root();
    let time = |at: i64| super::super::given::write_time(at);
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
