//! What an ID token has to say (OpenID Connect Core 1.0, section 3.1.3.7), and what UserInfo may add to it.
//!
//! The signature was found good before. Everything here judges claims, and tells what is wrong without a value.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use kallisto_api::{Json, Map};

use super::super::claims;
use super::super::role::JwtRole;

/// Longest subject, in bytes.
const SUBJECT_BYTES_MAX: usize = 255;
/// What only the ID token says, whatever UserInfo has under these names.
const OF_THE_TOKEN: [&str; 14] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "jti",
    "nonce",
    "azp",
    "auth_time",
    "acr",
    "amr",
    "at_hash",
    "c_hash",
];

/// What an ID token is held to.
pub(in super::super) struct IdTokenChecks<'a> {
    pub(in super::super) issuer: &'a str,
    pub(in super::super) client_id: &'a str,
    /// `None` where none was asked for.
    pub(in super::super) nonce: Option<&'a str>,
    /// The access token that came with it; empty for none.
    pub(in super::super) access_token: &'a str,
    /// The algorithm of its signature.
    pub(in super::super) algorithm: &'a str,
    pub(in super::super) role: &'a JwtRole,
    pub(in super::super) now: Timestamp,
}

/// Judges the claims of an ID token.
///
/// # Errors
/// What is wrong.
pub(in super::super) fn check(claims: &Map, wanted: &IdTokenChecks<'_>) -> Result<(), String> {
    let text = |name: &str| claims.get(name).and_then(Json::as_str);
    if text("iss") != Some(wanted.issuer) {
        return Err("invalid issuer (iss) claim".to_owned());
    }
    match text("sub") {
        Some(subject) if (1..=SUBJECT_BYTES_MAX).contains(&subject.len()) => {}
        _ => return Err("invalid subject (sub) claim".to_owned()),
    }
    check_audience(claims, wanted)?;
    for name in ["exp", "iat"] {
        if claims::time(claims, name)?.is_none() {
            return Err(format!("claim {name:?} is missing"));
        }
    }
    claims::check_times(claims, wanted.role, wanted.now.as_second())?;
    if let Some(nonce) = wanted.nonce {
        let said = text("nonce").unwrap_or_default();
        if verify_slices_are_equal(said.as_bytes(), nonce.as_bytes()).is_err() {
            return Err("invalid nonce claim".to_owned());
        }
    }
    check_age(claims, wanted)?;
    check_hash_of_access_token(claims, wanted)
}

/// The token must be for this client, and where it is for others too, or says so, to be used by it.
fn check_audience(claims: &Map, wanted: &IdTokenChecks<'_>) -> Result<(), String> {
    let audiences = claims::audiences(claims)?;
    if !audiences.contains(&wanted.client_id) {
        return Err("invalid audience (aud) claim: it is not for this client".to_owned());
    }
    let bound = &wanted.role.bound_audiences;
    if !bound.is_empty() && !bound.iter().any(|bound| audiences.contains(&bound.as_str())) {
        return Err("aud claim does not match any bound audience".to_owned());
    }
    match claims.get("azp") {
        None | Some(Json::Null) if audiences.len() == 1 => Ok(()),
        Some(Json::String(party)) if party == wanted.client_id => Ok(()),
        _ => Err("invalid authorized party (azp) claim".to_owned()),
    }
}

/// Who it is must have been shown to the provider lately enough.
fn check_age(claims: &Map, wanted: &IdTokenChecks<'_>) -> Result<(), String> {
    let most = wanted.role.max_age_secs;
    if most == 0 {
        return Ok(());
    }
    let shown = claims::time(claims, "auth_time")?;
    let shown = shown.ok_or("claim \"auth_time\" is missing, and the role has a max_age")?;
    let skew = claims::skew_secs(wanted.role);
    if wanted.now.as_second() - shown > most.saturating_add(skew) {
        return Err("the authentication at the provider is older than max_age".to_owned());
    }
    Ok(())
}

/// An access token that the ID token knows must be the one that came with it (section 3.1.3.8).
fn check_hash_of_access_token(claims: &Map, wanted: &IdTokenChecks<'_>) -> Result<(), String> {
    let Some(said) = claims.get("at_hash").filter(|said| **said != Json::Null) else {
        return Ok(());
    };
    if wanted.access_token.is_empty() {
        return Ok(());
    }
    let hash = digest(hash_of(wanted.algorithm), wanted.access_token.as_bytes());
    let half = BASE64URL_NOPAD.encode(&hash.as_ref()[..hash.as_ref().len() / 2]);
    if said.as_str() == Some(half.as_str()) {
        return Ok(());
    }
    Err("invalid hash of the access token (at_hash) claim".to_owned())
}

/// The hash of a signature's algorithm; that of Ed25519 is SHA-512.
fn hash_of(algorithm: &str) -> &'static Algorithm {
    match algorithm.get(algorithm.len().saturating_sub(3)..) {
        Some("256") => &SHA256,
        Some("384") => &SHA384,
        _ => &SHA512,
    }
}

/// Adds what UserInfo says to the claims of an ID token.
///
/// # Errors
/// When it is of somebody else (section 5.3.2), which it must say.
pub(in super::super) fn merge(claims: &mut Map, user_info: Map) -> Result<(), String> {
    let subject = user_info.get("sub").and_then(Json::as_str);
    if subject.is_none() || subject != claims.get("sub").and_then(Json::as_str) {
        return Err("the UserInfo of the provider is of another subject".to_owned());
    }
    let said = user_info.into_iter().filter(|(name, _)| !OF_THE_TOKEN.contains(&name.as_str()));
    claims.extend(said);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::FieldsRecord;
    use kallisto_api::Fields;
    use kallisto_api::json::parse_object;

    const NOW: i64 = 1_000_000;

    fn object(text: &str) -> Map {
        parse_object(text.as_bytes()).unwrap()
    }

    fn judge(role: &str, claims: &str) -> Result<(), String> {
        let role = object(&format!(
            r#"{{"user_claim":"sub","allowed_redirect_uris":"http://localhost/x"{role}}}"#
        ));
        let role = JwtRole::written(None, Fields::new(&role)).unwrap();
        let mut all = object(
            r#"{"iss":"https://idp","sub":"ann","aud":"me","exp":1000300,"iat":999990,"nonce":"n"}"#,
        );
        for (name, value) in object(claims) {
            match value {
                Json::Null => drop(all.remove(&name)),
                value => drop(all.insert(name, value)),
            }
        }
        check(
            &all,
            &IdTokenChecks {
                issuer: "https://idp",
                client_id: "me",
                nonce: Some("n"),
                access_token: "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y",
                algorithm: "RS256",
                role: &role,
                now: Timestamp::from_second(NOW).unwrap(),
            },
        )
    }

    #[test]
    fn an_id_token_is_for_this_client_and_this_login_alone() {
        for (claims, good) in [
            ("{}", true),
            (r#"{"iss":"https://idp/"}"#, false),
            (r#"{"iss":"https://other"}"#, false),
            (r#"{"iss":["https://idp"]}"#, false),
            (r#"{"iss":null}"#, false),
            (r#"{"sub":null}"#, false),
            (r#"{"sub":""}"#, false),
            (r#"{"sub":7}"#, false),
            (r#"{"aud":null}"#, false),
            (r#"{"aud":"you"}"#, false),
            (r#"{"aud":["me"]}"#, true),
            (r#"{"aud":["you"]}"#, false),
            (r#"{"aud":["me","you"]}"#, false),
            (r#"{"aud":["me","you"],"azp":"me"}"#, true),
            (r#"{"aud":["me","you"],"azp":"you"}"#, false),
            (r#"{"aud":["me",{}],"azp":"me"}"#, false),
            (r#"{"aud":{"me":"me"}}"#, false),
            (r#"{"azp":"me"}"#, true),
            (r#"{"azp":"you"}"#, false),
            (r#"{"azp":["me"]}"#, false),
            (r#"{"exp":null}"#, false),
            (r#"{"exp":999900}"#, false),
            (r#"{"exp":"1000300"}"#, false),
            (r#"{"iat":null}"#, false),
            (r#"{"iat":1000200}"#, false),
            (r#"{"nbf":1000200}"#, false),
            (r#"{"nonce":null}"#, false),
            (r#"{"nonce":""}"#, false),
            (r#"{"nonce":"N"}"#, false),
            (r#"{"nonce":["n"]}"#, false),
            // OpenID Connect Core 1.0, appendix A.3.
            (r#"{"at_hash":"77QmUPtjPfzWtF2AnpK9RQ"}"#, true),
            (r#"{"at_hash":"77QmUPtjPfzWtF2AnpK9RR"}"#, false),
            (r#"{"at_hash":7}"#, false),
        ] {
            assert_eq!(judge("", claims).is_ok(), good, "{claims}");
        }
    }

    #[test]
    fn a_role_narrows_audiences_and_ages() {
        for (role, claims, good) in [
            (r#","bound_audiences":"me""#, "{}", true),
            (r#","bound_audiences":"you""#, "{}", false),
            (r#","bound_audiences":"you""#, r#"{"aud":"you"}"#, false),
            (r#","bound_audiences":"you""#, r#"{"aud":["me","you"],"azp":"me"}"#, true),
            (r#","max_age":60"#, "{}", false),
            (r#","max_age":60"#, r#"{"auth_time":999880}"#, true),
            (r#","max_age":60"#, r#"{"auth_time":999879}"#, false),
            (r#","max_age":60"#, r#"{"auth_time":"999990"}"#, false),
        ] {
            assert_eq!(judge(role, claims).is_ok(), good, "{role} {claims}");
        }
    }

    #[test]
    fn user_info_adds_to_an_id_token_and_overrules_nothing_that_proves_it() {
        let mut claims = object(r#"{"iss":"i","sub":"ann","aud":"me","team":"red"}"#);
        let said =
            object(r#"{"sub":"ann","aud":"you","iss":"j","nonce":"x","team":"blue","g":["a"]}"#);
        merge(&mut claims, said).unwrap();
        let expected = object(r#"{"iss":"i","sub":"ann","aud":"me","team":"blue","g":["a"]}"#);
        assert_eq!(claims, expected);
        for other in [r#"{"sub":"bob"}"#, "{}", r#"{"sub":["ann"]}"#] {
            assert!(merge(&mut claims, object(other)).is_err(), "{other}");
        }
    }
}
