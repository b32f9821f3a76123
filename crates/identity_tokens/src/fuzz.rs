//! The bodies of the fuzz targets: what clients hand the provider, as any bytes.

use std::sync::LazyLock;

use kallisto_api::json::{self, Json, Map};
use kallisto_api::parse_query;

use crate::authorize::{self, AuthorizeRequest, BrowserUser, Registered};
use crate::claims::{Claims, RESERVED};
use crate::client::{ClientType, OauthClient};
use crate::grant::{CodeGrant, Exchange, GrantId, GrantState, hash};
use crate::settings::{Assignment, OidcProvider};
use crate::subject::{SubjectAlias, SubjectGroup, SubjectMetadata, TokenSubject};
use crate::{ClaimsTemplate, jws, oauth, redirect};

/// A subject all of whose texts are `text`.
fn subject(text: &str) -> TokenSubject {
    let metadata = SubjectMetadata::from([
        ("k".to_owned(), text.to_owned()),
        (text.to_owned(), "v".to_owned()),
    ]);
    let group =
        SubjectGroup { id: text.to_owned(), name: text.to_owned(), metadata: metadata.clone() };
    let alias = SubjectAlias {
        accessor: "a".to_owned(),
        id: text.to_owned(),
        name: text.to_owned(),
        metadata: metadata.clone(),
        custom_metadata: metadata.clone(),
    };
    TokenSubject {
        id: "entity".to_owned(),
        name: text.to_owned(),
        metadata,
        groups: vec![group],
        aliases: vec![alias],
    }
}

/// Any text as a template, and any other as what its values say: the claims that the server sets are the server's, the claims that there
/// are besides are those that the template names, and the whole is JSON that reads back as it was.
///
/// # Panics
/// If a promise is broken.
pub fn template(bytes: &[u8]) {
    let (template, value) = match bytes.iter().position(|byte| *byte == 0xff) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &b"\", \"sub\": \"root\", \"x\": \""[..]),
    };
    let Ok(text) = std::str::from_utf8(template) else { return };
    let value = String::from_utf8_lossy(value);
    let Ok(template) = ClaimsTemplate::parse(text) else { return };
    let filled = template.fill(&subject(&value), 1000);
    assert!(filled.keys().map(String::as_str).eq(template.names()), "no value names a claim");
    let claims = Claims { subject: "entity".to_owned(), ..Claims::default() };
    let all = claims.with([filled.clone()]);
    assert_eq!(all["sub"], "entity".into());
    assert_eq!(all["iss"], "".into());
    assert!(!all.contains_key("nonce"));
    let named = all.keys().filter(|name| !RESERVED.contains(&name.as_str()));
    assert!(named.eq(template.names()));
    if let Ok(again) = json::parse(&Json::Object(all.clone()).to_text()) {
        assert_eq!(again, Json::Object(all));
    }
}

static CLIENT: LazyLock<OauthClient> = LazyLock::new(|| OauthClient {
    client_id: "app".to_owned(),
    kind: ClientType::Public,
    redirect_uris: vec!["http://127.0.0.1:8250/cb".to_owned(), "https://app.example/cb".to_owned()],
    assignments: vec!["allow_all".to_owned()],
    ..OauthClient::new("app")
});

/// Any form as a request of a browser and as one of a client, any text as a header, a code and a token: nothing is granted without the
/// registered redirect URI and a challenge, and nothing is given without the verifier.
///
/// # Panics
/// If a promise is broken.
pub fn requests(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for part in text.split(['\n', '&', '=']) {
        if let Some(found) = oauth::basic(part) {
            assert!(part.len() > found.client_id.len());
        }
        if let Some(id) = GrantId::of_code(part) {
            assert_eq!(id.name().len(), 8 + 1 + 32);
        }
        let expected = jws::ExpectedClaims { issuer: "", audience: None, now: 0 };
        assert!(jws::judge(part, [], expected).is_err());
        let _ = redirect::check(part);
    }
    let Some(pairs) = parse_query(text) else { return };
    let fields: Map = pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
    let request = AuthorizeRequest::read(&fields);
    let ann = subject("ann");
    let user = BrowserUser { subject: Some(&ann), is_disabled: false, proven_at: Some(0) };
    let provider = OidcProvider::of_default();
    let registered = Registered {
        client: (request.client_id == "app").then_some(&*CLIENT),
        provider: Some(&provider),
        assignments: &[Assignment::default()],
    };
    let Ok(allowed) = authorize::decide(&request, registered, &user, 10) else { return };
    assert!(redirect::is_allowed(&request.redirect_uri, &CLIENT.redirect_uris));
    let challenge = allowed.challenge.expect("a public client is bound to a challenge");
    let verifier = fields.get("code_verifier").and_then(Json::as_str).unwrap_or_default();
    let mut grant = CodeGrant {
        state: GrantState::Open,
        code_hash: hash("code"),
        made_at: 10,
        access_ttl_secs: 60,
        provider: "default".to_owned(),
        client_id: "app".to_owned(),
        entity_id: ann.id.clone(),
        redirect_uri: request.redirect_uri.clone(),
        scopes: allowed.scopes,
        challenge: Some(challenge.clone()),
        nonce: allowed.nonce,
        auth_time: allowed.auth_time,
    };
    assert_eq!(CodeGrant::decode(&grant.encode()).as_ref(), Some(&grant));
    let exchange = Exchange {
        provider: "default",
        client_id: "app",
        is_public: true,
        redirect_uri: &request.redirect_uri,
        verifier,
        access_hash: hash("token"),
        now: 11,
    };
    assert_eq!(grant.take(&exchange).is_ok(), challenge.is_of(verifier));
    assert!(grant.take(&exchange).is_err(), "a code is good once");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What templates and requests are made of, for the smoke test here; the fuzz crate has its own.
    const WORDS: &[&str] = &[
        "{",
        "}",
        "{{",
        "}}",
        "\"",
        ":",
        ",",
        "[",
        "]",
        "\"sub\"",
        "\"s\\u0075b\"",
        "\"x\":",
        "\\u0000",
        "identity.entity.name",
        "identity.entity.metadata",
        "identity.entity.aliases.a.name",
        "time.now",
        "client_id=app",
        "&",
        "redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcb",
        "scope=openid",
        "response_type=code",
        "code_challenge=",
        "code_verifier=",
        "code_challenge_method=S256",
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    ];

    #[test]
    fn no_input_breaks_a_promise() {
        let mut random = fastrand::Rng::with_seed(17);
        for _ in 0..20_000 {
            let words = (0..random.usize(1..24)).map(|_| WORDS[random.usize(..WORDS.len())]);
            let text: String = words.collect();
            template(text.as_bytes());
            requests(text.as_bytes());
        }
        let granted = "client_id=app&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcb&scope=openid&response_type=code\
            &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&code_verifier=";
        requests(granted.as_bytes());
        requests(format!("{granted}dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").as_bytes());
    }

    #[test]
    fn templates_that_nest_and_escape_never_set_the_subject() {
        for text in [
            r#"{"a": {{identity.entity.name}} }"#,
            r#"{"a": {"sub": {{identity.entity.name}} } }"#,
            r#"{"a": [{{identity.entity.metadata}}, {{identity.entity.groups.names}}]}"#,
            r#"{"a": "\u00000\u0000", "b": {{identity.entity.name}} }"#,
        ] {
            assert!(ClaimsTemplate::parse(text).is_ok(), "{text}");
            template(text.as_bytes());
        }
    }
}
