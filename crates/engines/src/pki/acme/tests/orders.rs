//! From an order to its certificate.

use super::*;

#[test]
fn an_order_goes_from_a_name_to_a_certificate_by_each_challenge() {
    let ca = Ca::new();
    let client = Client::new(&ca, "acme");
    for kind in ["http-01", "dns-01", "tls-alpn-01"] {
        let order = client.order(&[("dns", "a.example.test")]);
        let (url, token) = client.challenges(&order.urls("authorizations")[0])[kind].clone();
        let answer = client.post_to(&url, "{}");
        assert_eq!(answer.get("status"), "processing");
        assert!(answer.headers["link"].contains("rel=\"up\""), "{:?}", answer.headers);
        let (id, probe) = ca.mount.probes().pop().unwrap();
        let shown = format!("{token}.{}", thumbprint(&client.keys[0]));
        let hash = digest(&SHA256, shown.as_bytes());
        let found = match (kind, &probe.what) {
            ("http-01", ProbeKind::Http { path }) => {
                assert_eq!(*path, format!("/.well-known/acme-challenge/{token}"));
                ProbeAnswer::Body(shown.into_bytes())
            }
            ("dns-01", ProbeKind::Texts) => ProbeAnswer::Texts(vec![
                b"something else".to_vec(),
                base64(hash.as_ref()).into_bytes(),
            ]),
            ("tls-alpn-01", ProbeKind::TlsAlpn { server_name }) => {
                assert_eq!(server_name, "a.example.test");
                // The certificate itself is the matter of the walk, whose client makes one.
                ca.mount.find_by_probe(&id, Ok(ProbeAnswer::Certificate(vec![0x30, 0])));
                let error = client.post_to(&url, "").body();
                let text = String::from_utf8(error.get("error").unwrap().to_text()).unwrap();
                assert!(text.contains("incorrectResponse"), "{text}");
                continue;
            }
            other => panic!("{other:?}"),
        };
        ca.mount.find_by_probe(&id, Ok(found));
        assert_eq!(client.post_to(&order.location(), "").get("status"), "ready");
        let done = client.post_to(&order.get("finalize"), &csr(&[dns("a.example.test")], ""));
        assert_eq!(done.get("status"), "valid", "{}", done.text);
    }
}

#[test]
fn the_job_finds_what_a_probe_found_though_nobody_asks() {
    let ca = Ca::new();
    let client = Client::new(&ca, "acme");
    let order = client.order(&[("dns", "a.example.test")]);
    let (url, token) = client.challenges(&order.urls("authorizations")[0])["http-01"].clone();
    client.post_to(&url, "{}");
    let (id, _) = ca.mount.probes().pop().unwrap();
    let shown = format!("{token}.{}", thumbprint(&client.keys[0]));
    ca.mount.find_by_probe(&id, Ok(ProbeAnswer::Body(shown.into_bytes())));
    assert_eq!(ca.mount.names_in("acme/probe/"), 1);
    ca.job("acme_challenges");
    assert_eq!(ca.mount.names_in("acme/probe/"), 0);
    assert_eq!(client.post_to(&order.location(), "").get("status"), "ready");
}

#[test]
fn a_wrong_answer_is_final_within_half_a_minute_and_nothing_of_it_is_told() {
    const CANARY: &str = "the-page-inside-of-the-firewall";
    let mut ca = Ca::new();
    let (directory, keys, kid) = {
        let client = Client::new(&ca, "acme");
        (client.directory, client.keys, client.kid)
    };
    let order = {
        let client = Client { ca: &ca, directory, keys, kid };
        let order = client.order(&[("dns", "a.example.test")]);
        let url = client.challenges(&order.urls("authorizations")[0])["http-01"].0.clone();
        client.post_to(&url, "{}");
        (client.keys, client.kid, order, url)
    };
    let (keys, kid, order, url) = order;
    let mut keys = keys;
    for second in 0..=30 {
        ca.at = NOW + second;
        for (id, _) in ca.mount.probes() {
            ca.mount.find_by_probe(&id, Ok(ProbeAnswer::Body(CANARY.as_bytes().to_vec())));
        }
        ca.job("acme_challenges");
        let client = Client { ca: &ca, directory, keys, kid: kid.clone() };
        let challenge = client.post_to(&url, "");
        assert!(!challenge.text.contains("the-page"), "{}", challenge.text);
        assert!(!challenge.text.contains("null"), "{}", challenge.text);
        let whole = client.post_to(&order.location(), "");
        keys = client.keys;
        if challenge.get("status") == "invalid" {
            assert_eq!(whole.get("status"), "invalid");
            assert!(challenge.text.contains("incorrectResponse"), "{}", challenge.text);
            assert_eq!(ca.mount.names_in("acme/probe/"), 0);
            return;
        }
        assert_eq!(whole.get("status"), "pending");
    }
    panic!("it is still looked at");
}

#[test]
fn every_failure_of_a_probe_has_a_type_of_its_own() {
    let ca = Ca::new();
    let client = Client::new(&ca, "acme");
    for (failure, kind) in [
        (ProbeFailure::NoName, "dns"),
        (ProbeFailure::Refused, "connection"),
        (ProbeFailure::NoConnection, "connection"),
        (ProbeFailure::TooLate, "connection"),
        (ProbeFailure::Status(404), "incorrectResponse"),
        (ProbeFailure::TooLong, "incorrectResponse"),
        (ProbeFailure::TooManyRedirects, "connection"),
        (ProbeFailure::BadRedirect, "connection"),
        (ProbeFailure::NoHttp, "connection"),
        (ProbeFailure::NoTls, "tls"),
    ] {
        let order = client.order(&[("dns", "a.example.test")]);
        let url = client.challenges(&order.urls("authorizations")[0])["http-01"].0.clone();
        client.post_to(&url, "{}");
        let (id, _) = ca.mount.probes().pop().unwrap();
        ca.mount.find_by_probe(&id, Err(failure));
        let text = client.post_to(&url, "").text;
        assert!(text.contains(&format!("acme:error:{kind}\"")), "{failure:?}: {text}");
    }
}

#[test]
fn names_of_a_csr_meet_the_limits_of_the_role_and_of_the_order() {
    let ca = Ca::new();
    let client = Client::new(&ca, "roles/web/acme");
    let name = "a.example.test";
    for (names, common_name, is_good) in [
        (vec![dns(name)], "", true),
        (vec![dns(name)], name, true),
        (vec![], name, true),
        (vec![dns("A.EXAMPLE.TEST")], "", true),
        (vec![dns("b.example.test")], "", false),
        (vec![dns(name), dns("b.example.test")], "", false),
        (vec![dns(name)], "b.example.test", false),
        (vec![dns(name)], "evil.com", false),
        (vec![dns(name), San::Email("a@example.test".to_owned())], "", false),
        (vec![dns(name), San::Uri("https://a.example.test".to_owned())], "", false),
        (vec![dns(name), San::Ip("10.0.0.1".parse().unwrap())], "", false),
    ] {
        let order = client.order(&[("dns", name)]);
        client.show_all(&order);
        let done = client.post_to(&order.get("finalize"), &csr(&names, common_name));
        match is_good {
            true => {
                assert_eq!(done.get("status"), "valid", "{names:?} {common_name}: {}", done.text)
            }
            false => assert_eq!(done.problem().0, "badCSR", "{names:?} {common_name}"),
        }
    }
    // What the role does not allow any more is not issued for an order made before.
    let order = client.order(&[("dns", name)]);
    client.show_all(&order);
    ca.ask("roles/web", r#"{"allowed_domains":"example.com","key_type":"any"}"#);
    let done = client.post_to(&order.get("finalize"), &csr(&[dns(name)], ""));
    assert_eq!(done.problem(), ("rejectedIdentifier".to_owned(), 400));
}

#[test]
fn an_order_has_one_certificate_and_no_ca_and_not_the_key_of_the_account() {
    let ca = Ca::new();
    let client = Client::new(&ca, "acme");
    let names = [dns("a.example.test")];
    let order = client.order(&[("dns", "a.example.test")]);
    let finalize = order.get("finalize");
    assert_eq!(client.post_to(&finalize, &csr(&names, "")).problem().0, "orderNotReady");
    client.show_all(&order);
    let key = PrivateKey::make(PkiKeyKind::P256).unwrap();
    let ca_csr = csr_of(&key, &names, "", true);
    assert_eq!(client.post_to(&finalize, &ca_csr).problem().0, "badCSR");
    let own = client.keys[0].to_pkcs8v1().unwrap();
    let own = PrivateKey::from_pkcs8(own.as_ref()).unwrap();
    let own_csr = csr_of(&own, &names, "", false);
    assert_eq!(client.post_to(&finalize, &own_csr).problem().0, "badCSR");
    assert_eq!(client.post_to(&finalize, r#"{"csr":"AAAA"}"#).problem().0, "badCSR");
    assert_eq!(client.post_to(&finalize, r#"{"csr":"!"}"#).problem().0, "malformed");
    assert_eq!(client.post_to(&finalize, &csr(&names, "")).code, 200);
    assert_eq!(
        client.post_to(&finalize, &csr(&names, "")).problem(),
        ("orderNotReady".into(), 403)
    );
}

/// RFC 8555, 7.1.4: of other names it must not be said that they are none.
#[test]
fn an_authorization_says_of_a_wildcard_alone_that_it_is_one() {
    let ca = Ca::new();
    let client = Client::new(&ca, "acme");
    for (name, says) in [("*.example.test", "true"), ("a.example.test", "")] {
        let order = client.order(&[("dns", name)]);
        let shown = client.post_to(&order.urls("authorizations")[0], "");
        assert_eq!(shown.get("wildcard"), says, "{}", shown.text);
    }
}
