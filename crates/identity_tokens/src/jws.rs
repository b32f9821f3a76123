//! Tokens in compact form (RFC 7515): making them, and judging one that a client brings.

use data_encoding::BASE64URL_NOPAD;
use kallisto_api::Error;
use kallisto_api::json::{self, Json, Map};

use crate::algorithm::SigningAlgorithm;
use crate::record;
use crate::signing_key::{JsonWebKey, TokenSigningKey};

/// Longest token that is judged, in bytes.
pub const TOKEN_BYTES_MAX: usize = 256 << 10;
/// How far clocks may differ, in seconds.
const LEEWAY_SECS: i64 = 60;

/// Signs an object.
///
/// # Errors
/// As [`TokenSigningKey::sign`].
pub fn sign(key: &TokenSigningKey, payload: &Map) -> Result<String, Error> {
    let header = Json::object([
        ("alg", key.public().algorithm().name().into()),
        ("kid", key.public().kid().into()),
    ]);
    let mut token = BASE64URL_NOPAD.encode(&header.to_text());
    token.push('.');
    let mut text = Vec::new();
    Json::Object(payload.clone()).write(&mut text);
    BASE64URL_NOPAD.encode_append(&text, &mut token);
    let signature = key.sign(token.as_bytes())?;
    token.push('.');
    BASE64URL_NOPAD.encode_append(&signature, &mut token);
    Ok(token)
}

/// What a token has to say to be good.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedClaims<'a> {
    /// Who made it.
    pub issuer: &'a str,
    /// Whom it is for; `None` for anybody.
    pub audience: Option<&'a str>,
    /// The time.
    pub now: i64,
}

/// The subject of a token that one of `keys` signed and that says what is expected.
///
/// # Errors
/// What is wrong with it, in the words that clients of the API know.
pub fn judge<'k>(
    token: &str,
    keys: impl IntoIterator<Item = &'k JsonWebKey>,
    expected: ExpectedClaims<'_>,
) -> Result<String, String> {
    let (signed, payload) = parse(token)?;
    let mut keys = keys.into_iter().filter(|key| {
        key.algorithm() == signed.algorithm && signed.kid.as_deref() == Some(key.kid())
    });
    if !keys.any(|key| key.verifies(signed.input.as_bytes(), &signed.signature)) {
        return Err("unable to validate the token signature".to_owned());
    }
    let claims = json::parse_object(&payload).map_err(|_| {
        "error validating claims: the payload of the token is no object of JSON".to_owned()
    })?;
    check(&claims, expected).map_err(|why| {
        format!("error validating claims: go-jose/go-jose/jwt: validation failed, {why}")
    })?;
    Ok(record::text(&claims, "sub").unwrap_or_default())
}

struct SignedToken<'a> {
    algorithm: SigningAlgorithm,
    kid: Option<String>,
    /// What the signature is of.
    input: &'a str,
    signature: Vec<u8>,
}

fn parse(token: &str) -> Result<(SignedToken<'_>, Vec<u8>), String> {
    let malformed = |why: &str| format!("error parsing token: go-jose/go-jose: {why}");
    if token.len() > TOKEN_BYTES_MAX {
        return Err(malformed("the token is too long"));
    }
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else {
        return Err(malformed("compact JWS format must have three parts"));
    };
    let decode = |part: &str| {
        let bytes = BASE64URL_NOPAD.decode(part.as_bytes());
        bytes.map_err(|_| malformed("a part of the token is not base64url"))
    };
    let (head, body, signature) = (decode(header)?, decode(payload)?, decode(signature)?);
    let head = json::parse_object(&head)
        .map_err(|_| malformed("the header of the token is no object of JSON"))?;
    if head.contains_key("crit") {
        return Err(malformed("the header of the token has critical parameters"));
    }
    let name = record::text(&head, "alg").unwrap_or_default();
    let algorithm = SigningAlgorithm::named(&name)
        .ok_or_else(|| malformed("unexpected signature algorithm"))?;
    let input = &token[..header.len() + 1 + payload.len()];
    Ok((SignedToken { algorithm, kid: record::text(&head, "kid"), input, signature }, body))
}

fn check(claims: &Map, expected: ExpectedClaims<'_>) -> Result<(), &'static str> {
    if record::text(claims, "iss").as_deref() != Some(expected.issuer) {
        return Err("invalid issuer claim (iss)");
    }
    if let Some(audience) = expected.audience {
        let is_for = match claims.get("aud") {
            Some(Json::String(one)) => one == audience,
            Some(Json::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience)),
            _ => false,
        };
        if !is_for {
            return Err("invalid audience claim (aud)");
        }
    }
    let time = |name: &str| record::number::<i64>(claims, name);
    match time("exp") {
        Some(end) if end.saturating_add(LEEWAY_SECS) > expected.now => {}
        _ => return Err("token is expired (exp)"),
    }
    if time("iat").is_some_and(|made| made > expected.now.saturating_add(LEEWAY_SECS)) {
        return Err("token issued in the future (iat)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Claims;

    const NOW: i64 = 1_800_000_000;

    fn claims() -> Claims {
        Claims {
            issuer: "http://here/v1/identity/oidc".to_owned(),
            subject: "e-1".to_owned(),
            audience: "app".to_owned(),
            namespace: "root".to_owned(),
            issued_at: NOW,
            expires_at: NOW + 3600,
            ..Claims::default()
        }
    }

    fn expected(audience: Option<&str>) -> ExpectedClaims<'_> {
        ExpectedClaims { issuer: "http://here/v1/identity/oidc", audience, now: NOW }
    }

    #[test]
    fn a_token_is_good_for_its_key_issuer_audience_and_time() {
        let key = TokenSigningKey::make(SigningAlgorithm::Es256).unwrap();
        let other = TokenSigningKey::make(SigningAlgorithm::Es256).unwrap();
        let token = claims().sign(&key, []).unwrap();
        let judge = |keys: &[&JsonWebKey], expected| judge(&token, keys.iter().copied(), expected);
        let keys = [other.public(), key.public()];
        assert_eq!(judge(&keys, expected(Some("app"))).unwrap(), "e-1");
        assert_eq!(judge(&keys, expected(None)).unwrap(), "e-1");
        let refused = |keys: &[&JsonWebKey], expected| judge(keys, expected).unwrap_err();
        assert!(refused(&keys, expected(Some("other"))).ends_with("invalid audience claim (aud)"));
        assert_eq!(refused(&keys[..1], expected(None)), "unable to validate the token signature");
        let late = ExpectedClaims { now: NOW + 3600 + LEEWAY_SECS, ..expected(None) };
        assert!(refused(&keys, late).ends_with("token is expired (exp)"));
        let early = ExpectedClaims { now: NOW - LEEWAY_SECS - 1, ..expected(None) };
        assert!(refused(&keys, early).ends_with("token issued in the future (iat)"));
        let elsewhere = ExpectedClaims { issuer: "http://there", ..expected(None) };
        assert!(refused(&keys, elsewhere).ends_with("invalid issuer claim (iss)"));
    }

    #[test]
    fn a_forged_header_or_payload_is_no_token() {
        let key = TokenSigningKey::make(SigningAlgorithm::Rs256).unwrap();
        let token = claims().sign(&key, []).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let encode = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        let kid = key.public().kid();
        let forged = Json::Object(Claims { subject: "root".to_owned(), ..claims() }.with([]));
        let forged = BASE64URL_NOPAD.encode(&forged.to_text());
        for token in [
            "rubbish".to_owned(),
            String::new(),
            "..".to_owned(),
            format!("{}.{forged}.{}", parts[0], parts[2]),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{}.{}.", encode(&format!(r#"{{"alg":"none","kid":"{kid}"}}"#)), parts[1]),
            format!(
                "{}.{}.{}",
                encode(&format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#)),
                parts[1],
                parts[2]
            ),
            format!("{}.{}.{}", encode(r#"{"alg":"RS256"}"#), parts[1], parts[2]),
            format!("{token}.{}", parts[2]),
            token.replace('.', "=."),
            format!("{} ", token),
        ] {
            assert!(judge(&token, [key.public()], expected(None)).is_err(), "{token}");
        }
        assert!(judge(&token, [key.public()], expected(None)).is_ok());
    }

    #[test]
    fn claims_name_one_audience_or_several_and_clocks_differ_a_little() {
        let checked = |aud: &str, issued_at: i64| {
            let text = format!(r#"{{"iss":"i","aud":{aud},"exp":{},"iat":{issued_at}}}"#, NOW + 10);
            let claims = json::parse_object(text.as_bytes()).unwrap();
            check(&claims, ExpectedClaims { issuer: "i", audience: Some("app"), now: NOW })
        };
        assert_eq!(checked(r#"["other","app"]"#, NOW), Ok(()));
        assert_eq!(checked(r#"["other"]"#, NOW), Err("invalid audience claim (aud)"));
        assert_eq!(checked("7", NOW), Err("invalid audience claim (aud)"));
        assert_eq!(checked(r#""app""#, NOW + LEEWAY_SECS), Ok(()));
        let early = Err("token issued in the future (iat)");
        assert_eq!(checked(r#""app""#, NOW + LEEWAY_SECS + 1), early);
    }

    #[test]
    fn a_token_is_as_long_as_it_may() {
        let refused = |bytes: usize| judge(&"x".repeat(bytes), [], expected(None)).unwrap_err();
        assert!(refused(TOKEN_BYTES_MAX).ends_with("compact JWS format must have three parts"));
        assert!(refused(TOKEN_BYTES_MAX + 1).ends_with("the token is too long"));
    }
}
