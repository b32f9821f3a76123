//! Accounts: what is theirs, their keys, their bindings, their end.

use super::*;

#[test]
fn what_an_account_made_is_reached_by_it_alone() {
    let ca = Ca::new();
    let (one, other) = (Client::new(&ca, "acme"), Client::new(&ca, "acme"));
    let order = one.order(&[("dns", "a.example.test")]);
    let authorization = order.urls("authorizations")[0].clone();
    let challenge = one.challenges(&authorization)["http-01"].0.clone();
    for url in [order.location(), order.get("finalize"), authorization, challenge] {
        let found =
            other.post_to(&url, if url.ends_with("finalize") { r#"{"csr":"AAAA"}"# } else { "" });
        assert_eq!(found.code, 404, "{url}: {}", found.text);
    }
    assert_eq!(other.post_to(&one.kid, "").problem(), ("unauthorized".to_owned(), 401));
    assert_eq!(other.post("orders", "").urls("orders"), Vec::<String>::new());
    assert_eq!(one.post("orders", "").urls("orders"), [order.location()]);
    // The same key in another directory is another account.
    let mut elsewhere = Client::stranger(&ca, "roles/web/acme");
    elsewhere.kid.clone_from(&one.kid);
    assert_eq!(elsewhere.order(&[("dns", "a.example.test")]).problem().0, "accountDoesNotExist");
}

#[test]
fn a_key_gives_way_to_another_that_no_account_has() {
    let ca = Ca::new();
    let mut client = Client::new(&ca, "acme");
    client.keys.push(new_key());
    let url = client.url("key-change");
    let change = |client: &Client<'_>, old: usize, account: &str, url_inside: &str| {
        let inner = Json::object([
            ("alg", "ES256".into()),
            ("jwk", jwk(&client.keys[1])),
            ("url", url_inside.into()),
        ]);
        let payload =
            Json::object([("account", account.into()), ("oldKey", jwk(&client.keys[old]))]);
        let payload = String::from_utf8(payload.to_text()).unwrap();
        String::from_utf8(sign(&client.keys[1], inner, &payload)).unwrap()
    };
    for (what, payload) in [
        ("another old key", change(&client, 1, &client.kid, &url)),
        ("another account", change(&client, 0, "http://x.test", &url)),
        ("another url", change(&client, 0, &client.kid, "http://x.test")),
        ("no JWS", "{}".to_owned()),
    ] {
        assert_eq!(client.post_to(&url, &payload).problem().0, "malformed", "{what}");
    }
    let payload = change(&client, 0, &client.kid, &url);
    assert_eq!(client.post_to(&url, &payload).code, 200);
    assert_eq!(client.order(&[("dns", "a.example.test")]).problem().0, "malformed", "the old key");
    client.keys.swap(0, 1);
    assert_eq!(client.order(&[("dns", "a.example.test")]).code, 201, "the new key");
    // A key that an account has is no other's.
    let mut second = Client::new(&ca, "acme");
    second.keys.push(
        EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            client.keys[0].to_pkcs8v1().unwrap().as_ref(),
        )
        .unwrap(),
    );
    let payload = change(&second, 0, &second.kid, &url);
    let taken = second.post_to(&url, &payload);
    assert_eq!((taken.code, taken.location()), (409, client.kid.clone()), "{}", taken.text);
}

#[test]
fn a_deactivated_account_is_no_account_any_more_and_its_key_makes_no_other() {
    let ca = Ca::new();
    let client = Client::new(&ca, "acme");
    let ended = client.post_to(&client.kid, r#"{"status":"deactivated"}"#);
    assert_eq!(ended.get("status"), "deactivated");
    assert_eq!(client.order(&[("dns", "a.example.test")]).problem(), ("unauthorized".into(), 401));
    assert_eq!(client.post_to(&client.kid, "").problem(), ("unauthorized".into(), 401));
    let again = Client { kid: String::new(), ..client };
    assert_eq!(again.post("new-account", "{}").problem(), ("unauthorized".into(), 401));
}

/// A long RSA key signs for a while, in which an operator's tidying or the account's own end may come.
#[test]
fn an_account_that_ends_while_its_certificate_is_signed_gets_none() {
    for is_deleted in [false, true] {
        let ca = Ca::with_key(r#""key_type":"rsa","key_bits":3072"#);
        let client = Client::new(&ca, "acme");
        let order = client.order(&[("dns", "a.example.test")]);
        client.show_all(&order);
        let name = format!("acme/account/{}", client.kid.rsplit('/').next().unwrap());
        let mut record = ca.mount.record(&name).unwrap();
        let before = Json::Object(record.clone()).to_text();
        record.insert("status".to_owned(), "deactivated".into());
        let (ended, kept) = (Json::Object(record).to_text(), name.clone());
        let certificates = ca.mount.names_in("cert/");
        ca.mount.meanwhile(move |mount| match is_deleted {
            true => mount.delete(&kept),
            false => mount.put(&kept, &ended),
        });
        let done = client.post_to(&order.get("finalize"), &csr(&[dns("a.example.test")], ""));
        assert_eq!(done.problem(), ("unauthorized".into(), 401), "{}", done.text);
        assert_eq!(ca.mount.names_in("cert/"), certificates);
        // Were it there again, its order could still be finalized.
        ca.mount.put(&name, &before);
        assert_eq!(client.post_to(&order.location(), "").get("status"), "ready");
    }
}

/// The payload of a request for an account with a binding.
fn bound(client: &Client<'_>, id: &str, key: &str, algorithm: &str) -> String {
    let protected = Json::object([
        ("alg", algorithm.into()),
        ("kid", id.into()),
        ("url", client.url("new-account").into()),
    ]);
    let (protected, payload) =
        (base64(&protected.to_text()), base64(&jwk(&client.keys[0]).to_text()));
    let secret = BASE64URL_NOPAD.decode(key.as_bytes()).unwrap();
    let secret = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &secret);
    let tag = aws_lc_rs::hmac::sign(&secret, format!("{protected}.{payload}").as_bytes());
    let binding = Json::object([
        ("protected", protected.into()),
        ("payload", payload.into()),
        ("signature", base64(tag.as_ref()).into()),
    ]);
    let payload = Json::object([("externalAccountBinding", binding)]);
    String::from_utf8(payload.to_text()).unwrap()
}

#[test]
fn of_64_accounts_with_one_binding_one_is_made() {
    let ca = Ca::new();
    ca.ask("config/acme", r#"{"eab_policy":"new-account-required"}"#);
    assert!(ca.answer("acme/directory", b"").text.contains("\"externalAccountRequired\":true"));
    let stranger = Client::stranger(&ca, "acme");
    let found = stranger.post("new-account", "{}").problem();
    assert_eq!(found, ("externalAccountRequired".to_owned(), 401));
    let eab = ca.ask("acme/new-eab", "{}");
    let (id, key) = (TestMount::text(&eab, "id"), TestMount::text(&eab, "key"));
    assert!(key.starts_with("vault-eab-0-"), "{key}");
    assert_eq!(TestMount::text(&eab, "acme_directory"), "acme/directory");
    let listed = ca.mount.ask(NOW, List, "eab", "").unwrap();
    assert!(!String::from_utf8(Json::Object(listed).to_text()).unwrap().contains(&key));
    // Of another key, for another directory, by another algorithm.
    let wrong = format!("vault-eab-0-{}", base64(&[7; 32]));
    for (directory, key, algorithm, kind, code) in [
        ("acme", &wrong, "HS256", "unauthorized", 401),
        ("acme", &key, "HS512", "badSignatureAlgorithm", 400),
        ("acme", &key, "none", "badSignatureAlgorithm", 400),
        ("roles/web/acme", &key, "HS256", "unauthorized", 401),
    ] {
        let client = Client::stranger(&ca, directory);
        let found = client.post("new-account", &bound(&client, &id, key, algorithm)).problem();
        assert_eq!(found, (kind.to_owned(), code), "{directory} {algorithm}");
    }
    let codes = (0..64).map(|_| {
        let client = Client::stranger(&ca, "acme");
        client.post("new-account", &bound(&client, &id, &key, "HS256")).code
    });
    let codes: Vec<u16> = codes.collect();
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 401).count(), 63, "{codes:?}");
    let eab = ca.ask("acme/new-eab", "{}");
    let id = TestMount::text(&eab, "id");
    ca.mount.ask(NOW, Delete, &format!("eab/{id}"), "").unwrap();
    let client = Client::stranger(&ca, "acme");
    let found =
        client.post("new-account", &bound(&client, &id, &TestMount::text(&eab, "key"), "HS256"));
    assert_eq!(found.problem().0, "unauthorized");
}

/// What a client writes as null it does not say.
#[test]
fn members_that_are_null_are_not_there() {
    let ca = Ca::new();
    let mut client = Client::stranger(&ca, "acme");
    let payload = r#"{"contact":null,"onlyReturnExisting":null,"externalAccountBinding":null,"termsOfServiceAgreed":true}"#;
    let made = client.post("new-account", payload);
    assert_eq!(made.code, 201, "{}", made.text);
    client.kid = made.location();
    let payload = r#"{"identifiers":[{"type":"dns","value":"a.example.test"}],"notBefore":null,"notAfter":null}"#;
    assert_eq!(client.post("new-order", payload).code, 201);
    let nothing = client.post("new-order", r#"{"identifiers":null}"#);
    assert_eq!(nothing.problem(), ("malformed".to_owned(), 400));
    assert_eq!(
        client.post_to(&client.kid, r#"{"status":null,"contact":null}"#).get("status"),
        "valid"
    );
}
