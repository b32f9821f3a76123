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
    let mount = TestMount::new(&ENGINE);
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
    let always = r#"{"leaf_not_after_behavior":"always_enforce_err"}"#;
    let shown = mount.ask(NOW, Patch, "issuer/default", always).unwrap();
    assert_eq!(TestMount::text(&shown, "leaf_not_after_behavior"), "always_enforce_err");
    assert!(refusal(sign(r#","ttl":"2h""#)).contains("beyond the expiration of the CA"));
    let truncates = r#"{"leaf_not_after_behavior":"truncate"}"#;
    mount.ask(NOW, Patch, "issuer/default", truncates).unwrap();
    assert_eq!(ends(r#","ttl":"2h""#), NOW + 3600);
}

/// A lease would end, and its certificate would not: nobody knows it any more.
#[test]
fn what_is_not_kept_has_no_lease() {
    let (mount, _) = with_root();
    let body = r#"{"allow_any_name":true,"key_type":"ec","no_store":true,"generate_lease":true}"#;
    let shown = mount.ask(NOW, Update, "roles/both", body).unwrap();
    assert_eq!(TestMount::text(&shown, "generate_lease"), "false");
    issue(&mount, "both", r#"{"common_name":"a"}"#).unwrap();
    assert!(mount.leased().is_empty());
    let kept = r#"{"no_store":false,"generate_lease":true}"#;
    let shown = mount.ask(NOW, Patch, "roles/both", kept).unwrap();
    assert_eq!(TestMount::text(&shown, "generate_lease"), "true");
}

/// Terraform sends 2048 whatever the type is, and finds a difference if it is shown another number.
#[test]
fn bits_that_say_nothing_of_a_type_of_keys_are_shown_as_they_were_given() {
    let (mount, _) = with_root();
    for kind in ["ed25519", "any"] {
        let body = format!(r#"{{"allow_any_name":true,"key_type":"{kind}","key_bits":2048}}"#);
        mount.ask(NOW, Update, "roles/bits", &body).unwrap();
        let shown = mount.ask(NOW, Read, "roles/bits", "").unwrap();
        assert_eq!(TestMount::text(&shown, "key_bits"), "2048", "{kind}");
        let asked = r#"{"common_name":"a","key_type":"ed25519"}"#;
        let issued = issue(&mount, "bits", asked).unwrap();
        assert_eq!(TestMount::text(&issued, "private_key_type"), "ed25519", "{kind}");
    }
    // Of another type they are the usual ones again.
    let shown = mount.ask(NOW, Patch, "roles/bits", r#"{"key_type":"ec"}"#).unwrap();
    assert_eq!(TestMount::text(&shown, "key_bits"), "256");
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

/// A request for a certificate whose subject has more than a name, in quoted PEM.
fn request_of(subject: CertificateSubject, alt_names: Vec<San>) -> String {
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let wish = Wish { subject: subject.to_der().unwrap(), alt_names, says_ca: false };
    let algorithm = SignatureAlgorithm::choose(key.kind(), SignatureWish::default());
    quoted(&pem::write(Label::Request, &wish.sign(&key, algorithm).unwrap()))
}

#[test]
fn a_ca_that_is_signed_has_the_serial_number_of_its_request_unless_another_is_given() {
    let (mount, _) = with_root();
    let subject = CertificateSubject {
        common_name: "Below".to_owned(),
        serial_number: "SN-1".to_owned(),
        ..CertificateSubject::default()
    };
    let csr = request_of(subject, Vec::new());
    for (more, expected) in [("", "SN-1"), (r#","serial_number":"SN-2""#, "SN-2")] {
        let body = format!(r#"{{"csr":{csr},"common_name":"Other","ttl":"10m"{more}}}"#);
        let signed = mount.ask(NOW, Update, "root/sign-intermediate", &body).unwrap();
        let subject = CertificateSubject::from_der(&parsed(&signed, "certificate").subject);
        let subject = subject.unwrap();
        assert_eq!(
            (subject.common_name.as_str(), subject.serial_number.as_str()),
            ("Other", expected)
        );
    }
}

/// What the subject of a request says is held to the role as what its body says, and is not left out without a word.
#[test]
fn numbers_and_user_ids_of_a_request_meet_the_limits_of_the_role() {
    let (mount, _) = with_root();
    let body = r#"{"allow_any_name":true,"key_type":"any","allowed_serial_numbers":"SN-*","allowed_user_ids":"u*"}"#;
    mount.ask(NOW, Update, "roles/devices", body).unwrap();
    let sign = |role: &str, number: &str, user: &str, more: &str| {
        let users = [user.to_owned()].into_iter().filter(|user| !user.is_empty());
        let subject = CertificateSubject {
            common_name: "a.example.com".to_owned(),
            serial_number: number.to_owned(),
            user_ids: users.collect(),
            ..CertificateSubject::default()
        };
        let body = format!(r#"{{"csr":{}{more}}}"#, request_of(subject, Vec::new()));
        mount.ask(NOW, Update, &format!("sign/{role}"), &body)
    };
    let refused = |role, number, user, more| refusal(sign(role, number, user, more));
    assert_eq!(refused("any", "SN-1", "", ""), "serial_number SN-1 not allowed by this role");
    assert_eq!(refused("any", "", "u1", ""), "user_id u1 is not allowed by this role");
    assert_eq!(refused("devices", "X-1", "", ""), "serial_number X-1 not allowed by this role");
    assert_eq!(refused("devices", "SN-1", "root", ""), "user_id root is not allowed by this role");
    let subject = |answer: Result<Map, Error>| {
        let certificate = parsed(&answer.unwrap(), "certificate");
        let subject = CertificateSubject::from_der(&certificate.subject).unwrap();
        (subject.serial_number, subject.user_ids.join(","))
    };
    let pair = |number: &str, users: &str| (number.to_owned(), users.to_owned());
    assert_eq!(subject(sign("devices", "SN-1", "u1", "")), pair("SN-1", "u1"));
    // What the body says goes before it.
    let more = r#","serial_number":"SN-2","user_ids":"u2""#;
    assert_eq!(subject(sign("devices", "X-1", "root", more)), pair("SN-2", "u2"));
}

fn warnings(answer: Response) -> Vec<String> {
    match answer {
        Response::Logical(logical) => logical.warnings,
        Response::Empty => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Who asks for names that the certificate does not get is told so.
#[test]
fn what_a_role_takes_from_elsewhere_is_warned_of_where_the_body_says_otherwise() {
    let (mount, _) = with_root();
    let role = r#"{"allow_any_name":true,"key_type":"ec","ttl":"1h""#;
    for (name, more) in [
        ("body", r#","use_csr_common_name":false,"use_csr_sans":false}"#),
        ("leased", r#","generate_lease":true}"#),
    ] {
        mount.ask(NOW, Update, &format!("roles/{name}"), &format!("{role}{more}")).unwrap();
    }
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "a.example.com", &["a.example.com"], false));
    let told = |path: &str, more: &str| {
        let body = format!(r#"{{"csr":{csr}{more}}}"#);
        warnings(mount.answer(NOW, Update, path, body.as_bytes()).unwrap())
    };
    let common_name = "the common_name field was provided but the role is set with \
                       \"use_csr_common_name\" set to true";
    let sans = |field: &str| {
        format!(
            "the {field} field was provided but the role is set with \"use_csr_sans\" set to true"
        )
    };
    let both = r#","common_name":"b.example.com","alt_names":"b.example.com","ip_sans":"10.0.0.1""#;
    let all = [common_name.to_owned(), sans("alt_names"), sans("ip_sans")];
    for path in ["sign/any", "sign/leased"] {
        assert_eq!(told(path, both), all, "{path}");
        assert_eq!(told(path, ""), [""; 0]);
        // The same as the request for a certificate says, as some clients have to say it.
        assert_eq!(
            told(path, r#","common_name":"a.example.com","alt_names":"","uri_sans":[]"#),
            [""; 0]
        );
    }
    assert_eq!(told("sign/body", both), [""; 0]);
    let keys = ["parameters key_type and key_bits ignored as role had specific values"];
    for (more, warned) in [
        ("", &[][..]),
        (r#","key_type":"ec""#, &[]),
        (r#","key_type":"ec","key_bits":256"#, &[]),
        (r#","key_type":"rsa""#, &keys),
        (r#","key_bits":384"#, &keys),
    ] {
        assert_eq!(
            told("issue/any", &format!(r#","common_name":"a.example.com"{more}"#)),
            warned,
            "{more}"
        );
    }
}

/// Either half may be said before the other.
#[test]
fn who_gives_up_leases_for_certificates_that_are_not_kept_is_told_so() {
    let (mount, _) = with_root();
    let ask = |operation, body: &str| {
        let told = warnings(mount.answer(NOW, operation, "roles/r", body.as_bytes()).unwrap());
        told.into_iter().any(|told| told.contains("no_store=true takes priority"))
    };
    let begin = r#"{"allow_any_name":true,"key_type":"ec","generate_lease":true}"#;
    assert!(!ask(Update, begin));
    assert!(ask(Patch, r#"{"no_store":true}"#));
    assert!(!ask(Patch, r#"{"no_store":true}"#), "there are no leases any more");
    assert!(ask(Patch, r#"{"generate_lease":true}"#));
}

/// Version 0.2.0 stored `Web` as `web`, and scripts still say `Web`.
#[test]
fn who_means_a_role_of_other_letters_is_warned() {
    let (mount, _) = with_root();
    let ask = |operation, name: &str| {
        let body = br#"{"allow_any_name":true,"key_type":"ec"}"#;
        warnings(mount.answer(NOW, operation, &format!("roles/{name}"), body).unwrap())
    };
    let warning = |name: &str, twin: &str| {
        vec![format!(
            "Names of roles are case-sensitive: {name} is not the role {twin}, which exists"
        )]
    };
    assert_eq!(ask(Update, "web"), [""; 0]);
    assert_eq!(ask(Delete, "Web"), warning("Web", "web"));
    assert_eq!(ask(Update, "Web"), warning("Web", "web"));
    assert_eq!(ask(Delete, "WEB"), warning("WEB", "Web"));
    // What is there is deleted, and what is not is nobody's.
    assert_eq!(ask(Delete, "Web"), [""; 0]);
    assert_eq!(ask(Delete, "other"), [""; 0]);
    assert_eq!(ask(Update, "web"), [""; 0]);
}

/// A role is what its name says letter by letter, as in a policy: `pki/issue/WEB` would else be `web` under the rule for `pki/issue/*`.
#[test]
fn a_name_of_a_role_in_other_letters_is_another_role() {
    let (mount, _) = with_root();
    mount.ask(NOW, Update, "roles/Web", r#"{"allow_any_name":true,"key_type":"ec"}"#).unwrap();
    let listed = mount.ask(NOW, List, "roles", "").unwrap();
    assert_eq!(TestMount::text(&listed, "keys"), r#"["Web","any"]"#);
    let body = r#"{"common_name":"a.example.com"}"#;
    assert!(issue(&mount, "Web", body).is_ok());
    for other in ["web", "WEB", "Any"] {
        assert_eq!(refusal(issue(&mount, other, body)), format!("unknown role: {other}"));
        let read = mount.ask(NOW, Read, &format!("roles/{other}"), "");
        assert_eq!(read, Err(Error::NotFound));
        let patched = mount.ask(NOW, Patch, &format!("roles/{other}"), r#"{"ttl":"1h"}"#);
        assert_eq!(patched, Err(Error::NotFound));
    }
    mount.ask(NOW, Delete, "roles/WEB", "").unwrap();
    assert!(issue(&mount, "Web", body).is_ok());
}

/// What is said for all issuers, how long before, holds as far as the one that signs was there.
#[test]
fn no_duration_begins_before_the_issuer_does() {
    let (mount, root) = with_root();
    let begins = |answer: Result<Map, Error>| parsed(&answer.unwrap(), "certificate").not_before;
    for (name, more) in [
        ("early", r#""not_before_duration":"87600h""#),
        ("fixed", r#""not_before":"2020-01-01T00:00:00Z""#),
    ] {
        let body = format!(r#"{{"allow_any_name":true,"key_type":"any",{more}}}"#);
        mount.ask(NOW, Update, &format!("roles/{name}"), &body).unwrap();
        let body = r#"{"common_name":"a","key_type":"ec"}"#;
        assert_eq!(begins(issue(&mount, name, body)), root.not_before, "{name}");
    }
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "a.example.com", &[], false));
    for path in ["sign-verbatim", "root/sign-intermediate"] {
        let sign = |before: &str| {
            let body = format!(r#"{{"csr":{csr},"ttl":"1h","not_before_duration":"{before}"}}"#);
            begins(mount.ask(NOW + 600, Update, path, &body))
        };
        assert_eq!(sign("87600h"), root.not_before, "{path}");
        assert_eq!(sign("60s"), NOW + 540, "{path}");
    }
}

/// An address has one spelling: in other ones it is held to the same networks, and stands in certificates as what it is.
#[test]
fn an_address_of_ipv4_in_the_form_of_ipv6_is_one_of_ipv4() {
    let (mount, _) = with_root();
    for (role, networks) in [("four", "10.0.0.0/8"), ("six", "::/0")] {
        let body = format!(
            r#"{{"allow_any_name":true,"key_type":"any","allowed_ip_sans_cidr":"{networks}"}}"#
        );
        mount.ask(NOW, Update, &format!("roles/{role}"), &body).unwrap();
    }
    let mapped: std::net::IpAddr = "::ffff:10.1.1.1".parse().unwrap();
    let subject =
        CertificateSubject { common_name: "a".to_owned(), ..CertificateSubject::default() };
    let csr = request_of(subject, vec![San::Ip(mapped)]);
    for (path, body) in [
        ("issue", r#"{"common_name":"a","key_type":"ec","ip_sans":"::ffff:10.1.1.1"}"#.to_owned()),
        ("sign", format!(r#"{{"csr":{csr}}}"#)),
    ] {
        let signed = mount.ask(NOW, Update, &format!("{path}/four"), &body).unwrap();
        let names = parsed(&signed, "certificate").alt_names;
        assert!(names.contains(&San::Ip(mapped.to_canonical())), "{names:?}");
        let why = refusal(mount.ask(NOW, Update, &format!("{path}/six"), &body));
        assert_eq!(why, "the IP address \"10.1.1.1\" is not allowed in this role");
    }
}

#[test]
fn a_ca_has_the_key_usages_that_are_asked_for_besides_its_own() {
    use kallisto_pki::KeyUsages;
    let (mount, root) = with_root();
    let own = KeyUsages::KeyCertSign | KeyUsages::CRLSign;
    assert_eq!(root.usages, Some(own));
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let csr = quoted(&request(&key, "Below", &[], true));
    let make = |path: &str, usages: &str| {
        let body = format!(
            r#"{{"csr":{csr},"common_name":"R","key_type":"ec","ttl":"10m","key_usage":{usages}}}"#
        );
        mount.ask(NOW, Update, path, &body)
    };
    for path in ["root/generate/internal", "root/sign-intermediate"] {
        for (usages, more) in [
            (r#""""#, own),
            (r#"["CertSign","CRLSign"]"#, own),
            (
                r#""DigitalSignature,KeyAgreement""#,
                own | KeyUsages::DigitalSignature | KeyUsages::KeyAgreement,
            ),
        ] {
            let made = parsed(&make(path, usages).unwrap(), "certificate");
            assert_eq!(made.usages, Some(more), "{path} {usages}");
        }
        let why = refusal(make(path, r#""Signing""#));
        assert!(why.starts_with("unrecognized key usage"), "{why}");
    }
}

/// A list of policies with what they say is one text in JSON, as the commands of others send it, or a list of texts or objects.
#[test]
fn policies_of_a_role_may_have_a_practice_statement_and_a_notice() {
    let (mount, _) = with_root();
    let object =
        r#"{"oid":"1.3.6.1.4.1.7.8 ","cps":"https://example.com/cps","notice":"Read, then trust"}"#;
    let list = format!(r#"["1.2.3",{object}]"#);
    let texts = format!(r#"["1.2.3",{}]"#, quoted(object));
    let mut shown = Vec::new();
    for given in [&list, &texts, &quoted(&list)] {
        let body = format!(
            r#"{{"allow_any_name":true,"key_type":"ec","ttl":"1h","policy_identifiers":{given}}}"#
        );
        let role = mount.ask(NOW, Update, "roles/policies", &body).unwrap();
        shown.push(role["policy_identifiers"].clone());
        let issued = issue(&mount, "policies", r#"{"common_name":"a"}"#).unwrap();
        let der = parsed(&issued, "certificate").der;
        let id: &[u8] = &[0x2b, 6, 1, 4, 1, 7, 8];
        for part in [id, b"https://example.com/cps", b"Read, then trust"] {
            assert!(der.windows(part.len()).any(|window| window == part), "{given} {part:?}");
        }
    }
    assert!(shown.iter().all(|one| *one == shown[0]), "{shown:?}");
    let mount = mount.restarted();
    issue(&mount, "policies", r#"{"common_name":"a"}"#).unwrap();
    let role = mount.ask(NOW, Patch, "roles/policies", r#"{"ttl":"30m"}"#).unwrap();
    assert_eq!(role["policy_identifiers"], shown[0]);
    for wrong in
        [r#""x""#, r#"["{"]"#, r#""[""#, r#"[{"cps":"a"}]"#, r#"[{"oid":"1.2.3","cps":"a b"}]"#]
    {
        refusal(mount.ask(
            NOW,
            Update,
            "roles/wrong",
            &format!(r#"{{"policy_identifiers":{wrong}}}"#),
        ));
    }
}

/// RFC 7396, section 1: a null removes what there is.
#[test]
fn a_null_in_a_patch_of_an_issuer_resets_a_setting() {
    let (mount, _) = with_root();
    let patched = |body: &str| mount.ask(NOW, Patch, "issuer/default", body).unwrap();
    patched(r#"{"issuer_name":""}"#);
    let unset = mount.ask(NOW, Read, "issuer/default", "").unwrap();
    let set = patched(
        r#"{"issuer_name":"named","leaf_not_after_behavior":"truncate","usage":"read-only",
            "manual_chain":"self","enable_aia_url_templating":true,
            "issuing_certificates":"http://a.example/{{issuer_id}}","ocsp_servers":"http://o.example",
            "crl_distribution_points":"http://c.example","delta_crl_distribution_points":"http://d.example"}"#,
    );
    for name in [
        "issuer_name",
        "leaf_not_after_behavior",
        "usage",
        "manual_chain",
        "issuing_certificates",
        "ocsp_servers",
        "crl_distribution_points",
        "delta_crl_distribution_points",
        "enable_aia_url_templating",
    ] {
        assert!(set.get(name) != unset.get(name), "{name}");
        let one = Json::Object(Map::from([(name.to_owned(), Json::Null)])).to_text();
        let after = patched(std::str::from_utf8(&one).unwrap());
        // An empty list is shown as null beside others that are not.
        let is_reset = after.get(name) == unset.get(name) || after.get(name) == Some(&Json::Null);
        assert!(is_reset, "{name}");
    }
    assert!(mount.ask(NOW, Read, "issuer/default", "").unwrap() == unset);
}

/// A certificate says more than the request for it does.
#[test]
fn no_certificate_is_made_that_is_too_long_to_be_revoked() {
    use kallisto_pki::request::REQUEST_BYTES_MAX;
    let (mount, _) = with_root();
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let asking = |count: usize| {
        let names: Vec<String> =
            (0..count).map(|at| format!("{at:04}.{}.example.com", "a".repeat(60))).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        request(&key, "a.example.com", &names, false)
    };
    let sign = |csr: &str| {
        mount.ask(NOW, Update, "sign-verbatim", &format!(r#"{{"csr":{}}}"#, quoted(csr)))
    };
    let few = 700;
    let (short, next) = (der_of(&asking(few)).len(), der_of(&asking(few + 100)).len());
    // Signatures differ in length by a few bytes, so that a hundred names say what one takes
    // only when it is rounded: rounded down, the request itself is too long now and then.
    let of_a_name = (next - short + 50) / 100;
    let most = few + (REQUEST_BYTES_MAX - short - 8) / of_a_name;
    let why = refusal(sign(&asking(most)));
    assert!(why.contains("a certificate of more than 65536 bytes"), "{why}");
    let signed = sign(&asking(few)).unwrap();
    let body = format!(r#"{{"serial_number":"{}"}}"#, TestMount::text(&signed, "serial_number"));
    mount.ask(NOW, Update, "revoke", &body).unwrap();
}
