//! What a provider and a browser may say that is not so, each refused each time.

use data_encoding::BASE64URL_NOPAD;
use kallisto_core::json::Json;

use super::provider::{Lie, Provider, SECRET, http, jwk, sign_by, sign_by_text};
use super::{HERE, auth_url, browse, hand_on, log_in, server};
use crate::support::Directory;

const fn claims(claims: &'static str) -> Lie {
    Lie { claims, ..NOTHING }
}

const fn header(header: &'static str) -> Lie {
    Lie { header, ..NOTHING }
}

const NOTHING: Lie = Lie {
    claims: "",
    header: "",
    sign: None,
    answer: None,
    tokens: "",
    user_info: None,
    keys: None,
    has_no_page: false,
    says_url: false,
};

/// Every lie, with what it is.
fn lies() -> Vec<(&'static str, Lie)> {
    let mut lies = vec![
        ("another issuer", claims(r#"{"iss":"https://evil.example"}"#)),
        ("no issuer", claims(r#"{"iss":null}"#)),
        ("an issuer in a list", claims(r#"{"iss":["https://evil.example"]}"#)),
        ("another audience", claims(r#"{"aud":"other"}"#)),
        ("no audience", claims(r#"{"aud":null}"#)),
        ("a list of others", claims(r#"{"aud":["other","more"]}"#)),
        ("an audience that is an object", claims(r#"{"aud":{"client":1}}"#)),
        ("two audiences and nobody authorized", claims(r#"{"aud":["client","other"]}"#)),
        ("another party authorized", claims(r#"{"azp":"other"}"#)),
        ("two audiences and another party", claims(r#"{"aud":["client","other"],"azp":"other"}"#)),
        ("expired", claims(r#"{"exp":1000,"iat":900}"#)),
        ("no end", claims(r#"{"exp":null}"#)),
        ("an end that is text", claims(r#"{"exp":"99999999999"}"#)),
        ("no beginning", claims(r#"{"iat":null}"#)),
        ("issued in the future", claims(r#"{"iat":99999999999}"#)),
        ("not yet valid", claims(r#"{"nbf":99999999999}"#)),
        ("no nonce", claims(r#"{"nonce":null}"#)),
        ("another nonce", claims(r#"{"nonce":"x"}"#)),
        ("an empty nonce", claims(r#"{"nonce":""}"#)),
        ("no subject", claims(r#"{"sub":null}"#)),
        ("an empty subject", claims(r#"{"sub":""}"#)),
        ("a subject that is a number", claims(r#"{"sub":7}"#)),
        ("another access token", claims(r#"{"at_hash":"AAAAAAAAAAAAAAAAAAAAAA"}"#)),
        ("an algorithm of another curve", header(r#"{"alg":"ES384"}"#)),
        ("an algorithm of another kind", header(r#"{"alg":"RS256"}"#)),
        ("no algorithm", header(r#"{"alg":null}"#)),
        ("an unknown key", header(r#"{"kid":"key-2"}"#)),
        ("a key that is a path", header(r#"{"kid":"../../../../etc/passwd"}"#)),
        ("a key that is a query", header(r#"{"kid":"key-1' OR '1'='1"}"#)),
        ("something critical", header(r#"{"crit":["exp"],"exp":1}"#)),
        (
            "UserInfo of somebody else",
            Lie { user_info: Some((200, r#"{"sub":"eve"}"#)), ..NOTHING },
        ),
        ("UserInfo of nobody", Lie { user_info: Some((200, r#"{"team":"red"}"#)), ..NOTHING }),
        ("UserInfo that is no object", Lie { user_info: Some((200, "[]")), ..NOTHING }),
        (
            "UserInfo without what is bound",
            Lie { user_info: Some((200, r#"{"sub":"ann","groups":[]}"#)), ..NOTHING },
        ),
        (
            "UserInfo that says something else of what is bound",
            Lie { user_info: Some((200, r#"{"sub":"ann","team":"blue","groups":[]}"#)), ..NOTHING },
        ),
        (
            "groups that are elsewhere",
            Lie {
                user_info: Some((
                    200,
                    r#"{"sub":"ann","team":"red","_claim_names":{"groups":"src1"}}"#,
                )),
                ..NOTHING
            },
        ),
        ("no UserInfo", Lie { user_info: Some((500, "")), ..NOTHING }),
        ("no ID token", Lie { tokens: r#"{"id_token":null}"#, ..NOTHING }),
        ("an ID token that is none", Lie { tokens: r#"{"id_token":"a.b.c"}"#, ..NOTHING }),
        ("an access token of another kind", Lie { tokens: r#"{"token_type":"mac"}"#, ..NOTHING }),
    ];
    lies.extend(forgeries());
    lies.extend(answers());
    lies
}

/// Tokens that its key did not sign.
fn forgeries() -> Vec<(&'static str, Lie)> {
    let forged = |sign| Lie { sign: Some(sign), ..NOTHING };
    vec![
        (
            "signed by another key",
            forged(|keys, header, claims| sign_by(&keys.other, header, claims)),
        ),
        (
            "unsigned",
            forged(|keys, header, claims| {
                header.insert("alg".into(), "none".into());
                let text = sign_by(&keys.own, header, claims);
                format!("{}.", text.rsplit_once('.').unwrap().0)
            }),
        ),
        (
            "unsigned, with a signature",
            forged(|keys, header, claims| {
                header.insert("alg".into(), "nOnE".into());
                sign_by(&keys.own, header, claims)
            }),
        ),
        (
            "signed by the secret of the client",
            forged(|_, header, claims| {
                header.insert("alg".into(), "HS256".into());
                sign_by_text(SECRET, header, claims)
            }),
        ),
        (
            "signed by the public key as if it were a secret",
            forged(|keys, header, claims| {
                header.insert("alg".into(), "HS256".into());
                sign_by_text(&jwk(&keys.own, "key-1"), header, claims)
            }),
        ),
        (
            "with the key to verify it by in its head",
            forged(|keys, header, claims| {
                let key = jwk(&keys.other, "key-1");
                header.insert("jwk".into(), kallisto_core::json::parse(key.as_bytes()).unwrap());
                sign_by(&keys.other, header, claims)
            }),
        ),
        (
            "with an address of keys in its head",
            forged(|keys, header, claims| {
                for name in ["jku", "x5u"] {
                    let address = format!("http://{}/keys", keys.trap);
                    header.insert(name.into(), address.into());
                }
                header.insert("kid".into(), Json::from(format!("http://{}/", keys.trap)));
                sign_by(&keys.other, header, claims)
            }),
        ),
        (
            "changed after it was signed",
            forged(|keys, header, claims| {
                let text = sign_by(&keys.own, header, claims);
                let parts: Vec<&str> = text.split('.').collect();
                claims.insert("sub".into(), "root".into());
                let changed = BASE64URL_NOPAD.encode(&Json::Object(claims.clone()).to_text());
                format!("{}.{changed}.{}", parts[0], parts[2])
            }),
        ),
        (
            "with a signature of nothing",
            forged(|keys, header, claims| {
                let text = sign_by(&keys.own, header, claims);
                let zeros = BASE64URL_NOPAD.encode(&[0; 64]);
                format!("{}.{zeros}", text.rsplit_once('.').unwrap().0)
            }),
        ),
        (
            "longer than any",
            forged(|keys, header, claims| {
                claims.insert("padding".into(), "x".repeat(1 << 20).into());
                sign_by(&keys.own, header, claims)
            }),
        ),
        (
            "keys that are secrets",
            Lie {
                keys: Some(r#"{"keys":[{"kty":"oct","kid":"key-9","k":"AAAA","alg":"HS256"}]}"#),
                header: r#"{"kid":"key-9","alg":"HS256"}"#,
                ..NOTHING
            },
        ),
    ]
}

/// Answers that are none.
fn answers() -> Vec<(&'static str, Lie)> {
    let with = |answer| Lie { answer: Some(answer), ..NOTHING };
    vec![
        ("a refusal", with(|_| http(400, r#"{"error":"invalid_grant"}"#))),
        (
            "a refusal with a script",
            with(|_| http(400, r#"{"error":"<script>alert(1)</script>"}"#)),
        ),
        ("a failure", with(|_| http(500, "canary: a stack trace"))),
        ("a page", with(|_| http(200, "<html>log in</html>"))),
        ("nothing", with(|_| http(200, ""))),
        ("a list", with(|_| http(200, "[]"))),
        ("no end", with(|_| http(200, &"x".repeat(2 << 20)))),
        ("no HTTP", with(|_| "canary".to_owned())),
        (
            "somewhere else",
            with(|keys| {
                format!(
                    "HTTP/1.1 307 Elsewhere\r\nLocation: http://{}/token\r\nContent-Length: 0\r\n\
                     Connection: close\r\n\r\n",
                    keys.trap
                )
            }),
        ),
    ]
}

#[test]
fn every_lie_of_a_provider_is_refused_and_the_truth_is_not() {
    let directory = Directory::new("oidc-lies");
    let provider = Provider::start();
    let (server, _) = server(&directory, &provider);
    let lies = lies();
    assert!(lies.len() > 55, "{}", lies.len());
    for (what, lie) in lies {
        provider.lie(lie);
        let refused = log_in(&server, &provider);
        assert!(refused.status == 400 || refused.status == 503, "{what}: {refused:?}");
        assert_eq!(refused.at("auth.client_token"), "", "{what}: {refused:?}");
        let body = &refused.body;
        for secret in ["canary", "code-", "access", "<script", "http://127"] {
            let is_named = secret == "access" && body.contains("access token");
            assert!(!body.contains(secret) || is_named, "{what} tells {secret}: {body}");
        }
        provider.lie(NOTHING);
        let good = log_in(&server, &provider).good();
        assert_eq!(good.at("auth.metadata.team"), "red", "{what}: {good:?}");
    }
    assert!(!provider.was_trapped(), "somebody went where a token or a redirect said");
    server.stop();
}

#[test]
fn what_a_browser_brings_is_good_once_for_its_client_and_its_provider() {
    let directory = Directory::new("oidc-browser");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let begin = || provider.log_in(&auth_url(&server, "r", HERE, "n").at("data.auth_url"));
    let expired = "Vault login failed. Expired or missing OAuth state.";
    let refuse = |code: &str, state: &str, nonce: &str, why: &str| {
        let refused = hand_on(&server, code, state, nonce);
        assert_eq!((refused.status, refused.at("errors.0").as_str()), (400, why), "{refused:?}");
    };
    let (code, state) = begin();
    let before = provider.exchanges();
    for other in ["", "x", &state[1..], &state[..state.len() - 1], &format!("{state}x")] {
        refuse(&code, other, "n", expired);
    }
    // Each byte of what is signed counts.
    for at in (3..state.len()).step_by(7) {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        refuse(&code, std::str::from_utf8(&bytes).unwrap(), "n", expired);
    }
    refuse(&code, &state, "", "invalid client_nonce");
    refuse(&code, &state, "other", "invalid client_nonce");
    refuse("", &state, "n", "Vault login failed. OAuth code parameter not provided");
    let other_issuer = format!("{state}&iss=https%3A%2F%2Fevil.example");
    let refused = hand_on(&server, &code, &other_issuer, "n");
    assert!(refused.body.contains("(iss)"), "{refused:?}");
    let says_no = format!("{state}&error=access_denied&error_description=%3Cscript%3E");
    let refused = hand_on(&server, "", &says_no, "n");
    assert_eq!(refused.at("errors.0"), "Vault login failed. The provider answered access_denied");
    assert_eq!(provider.exchanges(), before, "nobody asked the provider for any of these");
    // None of it used the login up.
    let own_issuer = format!("{state}&iss={}", provider.issuer());
    hand_on(&server, &code, &own_issuer, "n").good();
    refuse(&code, &state, "n", expired);
    // A code of another login, and another mount's state.
    let ((one, _), (_, other)) = (begin(), begin());
    let refused = hand_on(&server, &one, &other, "n");
    assert!(refused.body.contains("invalid_grant"), "{refused:?}");
    let mut root = server.client(&keys.root);
    root.put("sys/auth/second", r#"{"type":"oidc"}"#);
    root.put("auth/second/config", &provider.config(""));
    root.put("auth/second/role/r", super::ROLE);
    let (code, state) = begin();
    let path = format!("auth/second/oidc/callback?code={code}&state={state}&client_nonce=n");
    assert_eq!(server.anyone().get(&path).at("errors.0"), expired);
    // Another client of the provider is another client.
    root.put("auth/oidc/config", &provider.config("").replace("\"client\"", "\"other\""));
    refuse(&code, &state, "n", expired);
    server.stop();
}

#[test]
fn a_provider_that_is_none_is_not_configured() {
    let directory = Directory::new("oidc-config");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let mut root = server.client(&keys.root);
    let shown = root.get("auth/oidc/config").good();
    assert_eq!(shown.at("data.status"), "valid");
    assert!(!shown.body.contains("canary"), "{shown:?}");
    let trailing =
        provider.config("").replace(provider.issuer(), &format!("{}/", provider.issuer()));
    root.put("auth/oidc/config", &trailing);
    log_in(&server, &provider).good();
    for (url, why) in [
        (format!("{}/x", provider.issuer()), "status 404"),
        (provider.issuer().replace("127.0.0.1", "localhost"), "another issuer"),
        ("http://127.0.0.1:1".to_owned(), "not reached"),
        ("http://169.254.169.254".to_owned(), "not reached"),
    ] {
        let body = provider.config("").replace(provider.issuer(), &url);
        let refused = root.send("PUT", "auth/oidc/config", &body);
        assert_eq!(refused.status, 400, "{refused:?}");
        let told = refused.at("errors.0");
        assert!(told.starts_with("error checking oidc discovery URL: "), "{told}");
        assert!(told.contains(why) && !told.contains("169.254"), "{told}");
    }
    // What was there before is there still.
    log_in(&server, &provider).good();
    // RS256 is what is taken where nobody says: this provider signs with another.
    root.put("auth/oidc/config", &provider.config("").replace("\"ES256\"", ""));
    let refused = log_in(&server, &provider);
    assert!(refused.body.contains("jwt_supported_algs"), "{refused:?}");
    server.stop();
}

#[test]
fn no_page_has_anything_of_what_came_with_its_request() {
    let directory = Directory::new("oidc-pages");
    let provider = Provider::start();
    let (server, keys) = server(&directory, &provider);
    let redirect = format!("http://{}/v1/auth/oidc/oidc/callback", server.address);
    let role = format!(
        r#"{{"user_claim":"sub","allowed_redirect_uris":"{redirect}","callback_mode":"direct"}}"#
    );
    server.client(&keys.root).put("auth/oidc/role/d", &role);
    let state = auth_url(&server, "d", &redirect, "n").at("data.state");
    for payload in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "javascript:alert(1)",
        "</title><svg/onload=alert(1)>",
        "{{7*7}}",
    ] {
        let mut escaped = Vec::new();
        for byte in payload.bytes() {
            escaped.extend_from_slice(format!("%{byte:02x}").as_bytes());
        }
        let escaped = String::from_utf8(escaped).unwrap();
        for query in [
            format!("state={state}&error={escaped}&error_description={escaped}"),
            format!("state={state}&code={escaped}"),
            format!("state={escaped}&code={escaped}"),
            format!("state={state}&code=x&iss={escaped}"),
        ] {
            for (method, target, body) in [
                ("GET", format!("/v1/auth/oidc/oidc/callback?{query}"), String::new()),
                ("POST", "/v1/auth/oidc/oidc/callback".to_owned(), query.clone()),
                ("POST", "/v1/auth/oidc/oidc/callback".to_owned(), format!("confirm={escaped}")),
            ] {
                let (status, head, page) = browse(server.address, method, &target, &body);
                assert!((200..500).contains(&status), "{status} {page}");
                assert!(!page.contains(payload) && !page.contains(&state), "{query}: {page}");
                assert!(head.contains("content-type: text/html"), "{head}");
                for wanted in [
                    "content-security-policy: default-src 'none'; form-action 'self'; \
                     frame-ancestors 'none'; base-uri 'none'",
                    "x-content-type-options: nosniff",
                    "referrer-policy: no-referrer",
                    "cache-control: no-store",
                ] {
                    assert!(head.contains(wanted), "{wanted}: {head}");
                }
            }
        }
    }
    server.stop();
}
