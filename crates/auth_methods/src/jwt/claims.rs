//! What a JWT claims, judged by what a role wants (RFC 7519, section 4).

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::config::ProviderKind;
use super::role::{ClaimMatch, JwtRole};
use kallisto_api::fields::scalar_text;
use kallisto_api::json::{Json, Map};

/// What a role gives besides, when a JWT says only one of its times, in seconds.
const LEEWAY_SECS: i64 = 150;
/// How far the clocks of issuer and server may be apart, in seconds.
const SKEW_SECS: i64 = 60;
/// Most groups taken from one JWT.
const GROUPS_MAX: usize = 256;

/// Judges the claims of a JWT whose signature was found good.
///
/// # Errors
/// What is wrong, without a value.
pub(super) fn check(
    claims: &Map,
    role: &JwtRole,
    is_issuer: impl FnOnce(Option<&str>) -> bool,
    now: Timestamp,
) -> Result<(), String> {
    check_times(claims, role, now.as_second())?;
    if !is_issuer(claims.get("iss").and_then(Json::as_str)) {
        return Err("invalid issuer (iss) claim".to_owned());
    }
    check_audience(claims, role)?;
    check_bounds(claims, role)
}

/// Judges what a role binds of a subject and of claims, whatever carried them.
///
/// # Errors
/// What is wrong, without a value.
pub(super) fn check_bounds(claims: &Map, role: &JwtRole) -> Result<(), String> {
    if let Some(subject) = &role.bound_subject
        && claims.get("sub").and_then(Json::as_str) != Some(subject)
    {
        return Err("invalid subject (sub) claim".to_owned());
    }
    for (name, wanted) in &role.bound_claims {
        let claimed = find(claims, name).ok_or_else(|| format!("claim {name:?} is missing"))?;
        if !matches(claimed, wanted, role.bound_claims_match) {
            return Err(format!("claim {name:?} does not match any associated bound claim values"));
        }
    }
    Ok(())
}

/// The times of a JWT; at least one must be there, and the others are guessed from it.
pub(super) fn check_times(claims: &Map, role: &JwtRole, now: i64) -> Result<(), String> {
    let (issued, begins, ends) = (time(claims, "iat")?, time(claims, "nbf")?, time(claims, "exp")?);
    let Some(known) = issued.or(begins).or(ends) else {
        return Err(
            "no issued at (iat), not before (nbf), or expiration time (exp) claims in token"
                .to_owned(),
        );
    };
    let ends = ends.unwrap_or_else(|| {
        let from = issued.unwrap_or(known).max(begins.unwrap_or(known));
        from + leeway(role.expiration_leeway_secs, LEEWAY_SECS)
    });
    let begins = begins.unwrap_or_else(|| {
        issued.unwrap_or_else(|| ends - leeway(role.not_before_leeway_secs, LEEWAY_SECS))
    });
    let skew = skew_secs(role);
    if now - skew >= ends {
        return Err("token is expired".to_owned());
    }
    if now + skew < begins || issued.is_some_and(|issued| now + skew < issued) {
        return Err("token not yet valid".to_owned());
    }
    Ok(())
}

/// A claim that is a time, in seconds since 1970.
pub(super) fn time(claims: &Map, name: &str) -> Result<Option<i64>, String> {
    match claims.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Number(text)) => match text.parse::<f64>() {
            Ok(secs) if secs.is_finite() && secs > 0.0 && secs < 1e15 => Ok(Some(secs as i64)),
            _ => Err(format!("claim {name:?} is no time")),
        },
        Some(_) => Err(format!("claim {name:?} is no time")),
    }
}

fn leeway(given: i64, built_in: i64) -> i64 {
    if given == 0 { built_in } else { given.max(0) }
}

/// How far the clocks of issuer and server may be apart, in seconds.
pub(super) fn skew_secs(role: &JwtRole) -> i64 {
    leeway(role.clock_skew_leeway_secs, SKEW_SECS)
}

/// The audiences that are claimed: none, one or a list.
pub(super) fn audiences(claims: &Map) -> Result<Vec<&str>, String> {
    let refuse = || "the audience (aud) claim is no text".to_owned();
    match claims.get("aud") {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::String(one)) => Ok(vec![one]),
        Some(Json::Array(many)) => many.iter().map(|one| one.as_str().ok_or_else(refuse)).collect(),
        Some(_) => Err(refuse()),
    }
}

/// An audience that is claimed must be one the role knows, and one that the role wants must be claimed.
fn check_audience(claims: &Map, role: &JwtRole) -> Result<(), String> {
    let claimed = audiences(claims)?;
    match (claimed.is_empty(), role.bound_audiences.is_empty()) {
        (true, true) => Ok(()),
        (false, true) => {
            Err("audience claim found in JWT but no audiences bound to the role".to_owned())
        }
        _ if role.bound_audiences.iter().any(|bound| claimed.contains(&bound.as_str())) => Ok(()),
        _ => Err("aud claim does not match any bound audience".to_owned()),
    }
}

/// A claim by its name, or by a JSON pointer (RFC 6901) when the name begins with a slash.
pub(super) fn find<'c>(claims: &'c Map, name: &str) -> Option<&'c Json> {
    let Some(pointer) = name.strip_prefix('/') else { return claims.get(name) };
    let mut parts = pointer.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
    let mut at = claims.get(&parts.next()?)?;
    for part in parts {
        at = match at {
            Json::Object(map) => map.get(&part)?,
            Json::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

fn matches(claimed: &Json, wanted: &[Json], how: ClaimMatch) -> bool {
    let one = |value: &Json| wanted.iter().any(|wanted| how.holds(wanted, value));
    match claimed {
        Json::Array(items) => items.iter().any(one),
        other => one(other),
    }
}

/// A claim as text; booleans by their JSON names.
pub(super) fn claim_text(value: &Json) -> Option<String> {
    match value {
        Json::Bool(value) => Some(value.to_string()),
        other => scalar_text(other),
    }
}

/// The metadata that a role takes from claims.
///
/// # Errors
/// A claim that is mapped and is no text.
pub(super) fn metadata(claims: &Map, mappings: &BTreeMap<String, String>) -> Result<Map, String> {
    let mut metadata = Map::new();
    for (claim, name) in mappings {
        // Some providers write null for what somebody has not.
        let Some(value) = find(claims, claim).filter(|value| **value != Json::Null) else {
            continue;
        };
        let text = claim_text(value).ok_or_else(|| format!("claim {claim:?} is no text"))?;
        metadata.insert(name.clone(), text.into());
    }
    Ok(metadata)
}

/// The groups that a role takes from a claim.
///
/// # Errors
/// A claim that is not there, or no list of texts.
pub(super) fn groups(claims: &Map, claim: &str, kind: ProviderKind) -> Result<Vec<String>, String> {
    let refuse = |what: &str| format!("groups claim {claim:?} {what}");
    let too_many = || refuse(&format!("has more than {GROUPS_MAX} groups"));
    match find(claims, claim) {
        // OpenID Connect Core 1.0, section 5.6.2: it is elsewhere. Azure does so with more than 200 groups.
        None if is_elsewhere(claims, claim) => Err(refuse(
            "is not in the token: the provider says in _claim_names that it is elsewhere, as Azure does \
             when there are too many groups; have it send fewer, such as those assigned to the \
             application",
        )),
        None => Err(refuse("not found in token")),
        Some(Json::String(many)) if kind == ProviderKind::SecureAuth => {
            let groups = many.split(',').map(str::trim).filter(|group| !group.is_empty());
            let groups: Vec<String> = groups.take(GROUPS_MAX + 1).map(str::to_owned).collect();
            if groups.len() <= GROUPS_MAX { Ok(groups) } else { Err(too_many()) }
        }
        Some(Json::String(one)) => Ok(vec![one.clone()]),
        Some(Json::Array(many)) if many.len() > GROUPS_MAX => Err(too_many()),
        Some(Json::Array(many)) => {
            let text = |item: &Json| item.as_str().map(str::to_owned);
            many.iter()
                .map(text)
                .collect::<Option<_>>()
                .ok_or_else(|| refuse("is no list of texts"))
        }
        Some(_) => Err(refuse("is no list of texts")),
    }
}

fn is_elsewhere(claims: &Map, claim: &str) -> bool {
    let name = claim.strip_prefix('/').unwrap_or(claim);
    let elsewhere = |names: &str| matches!(claims.get(names), Some(Json::Object(named)) if named.contains_key(name));
    elsewhere("_claim_names") || matches!(claims.get("hasgroups"), Some(Json::Bool(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::FieldsRecord;
    use kallisto_api::fields::Fields;
    use kallisto_api::json::parse_object;

    fn judge(role: &str, claims: &str, now: i64) -> Result<(), String> {
        let role = parse_object(role.as_bytes()).unwrap();
        let found = JwtRole::written(None, Fields::new(&role)).unwrap();
        let claims = parse_object(claims.as_bytes()).unwrap();
        let is_issuer = |said: Option<&str>| said == Some("me");
        check(&claims, &found, is_issuer, Timestamp::from_second(now).unwrap())
    }

    const ROLE: &str = r#"{"role_type":"jwt","user_claim":"sub","bound_audiences":"a,b"}"#;

    #[test]
    fn times_are_judged_with_their_leeways() {
        let with = |times: &str| format!(r#"{{"iss":"me","aud":"a",{times}}}"#);
        for (times, now, good) in [
            (r#""exp":1000"#, 1059, true),
            (r#""exp":1000"#, 1060, false),
            (r#""exp":1000"#, 789, false),
            (r#""nbf":1000"#, 940, true),
            (r#""nbf":1000"#, 939, false),
            (r#""nbf":1000"#, 1209, true),
            (r#""nbf":1000"#, 1210, false),
            (r#""iat":1000,"exp":2000"#, 939, false),
            (r#""iat":1000,"exp":2000.9"#, 2059, true),
            (r#""sub":"x""#, 1000, false),
            (r#""exp":"1000""#, 900, false),
            (r#""exp":1e400"#, 900, false),
        ] {
            assert_eq!(judge(ROLE, &with(times), now).is_ok(), good, "{times} {now}");
        }
        let strict = r#"{"role_type":"jwt","user_claim":"sub","bound_audiences":"a","clock_skew_leeway":-1}"#;
        assert!(judge(strict, &with(r#""exp":1000"#), 999).is_ok());
        assert!(judge(strict, &with(r#""exp":1000"#), 1000).is_err());
    }

    /// The audience as a text and as a list, wanted and not.
    #[test]
    fn audience_issuer_and_subject_must_match() {
        let base = r#""exp":1000"#;
        for (role, claims, good) in [
            (ROLE, r#""iss":"me","aud":"b""#, true),
            (ROLE, r#""iss":"me","aud":["x","b"]"#, true),
            (ROLE, r#""iss":"me","aud":["x"]"#, false),
            (ROLE, r#""iss":"me","aud":{"a":"a"}"#, false),
            (ROLE, r#""iss":"me""#, false),
            (ROLE, r#""iss":"you","aud":"a""#, false),
            (ROLE, r#""iss":["me"],"aud":"a""#, false),
            (ROLE, r#""aud":"a""#, false),
            (
                r#"{"role_type":"jwt","user_claim":"u","bound_subject":"s"}"#,
                r#""iss":"me","sub":"s""#,
                true,
            ),
            (
                r#"{"role_type":"jwt","user_claim":"u","bound_subject":"s"}"#,
                r#""iss":"me","sub":"t""#,
                false,
            ),
            (
                r#"{"role_type":"jwt","user_claim":"u","bound_subject":"s"}"#,
                r#""iss":"me","sub":"s","aud":"a""#,
                false,
            ),
        ] {
            let claims = format!("{{{base},{claims}}}");
            assert_eq!(judge(role, &claims, 900).is_ok(), good, "{role} {claims}");
        }
    }

    #[test]
    fn bound_claims_match_texts_lists_and_globs() {
        let role = |claims: &str, how: &str| {
            format!(
                r#"{{"role_type":"jwt","user_claim":"u","bound_claims":{claims},"bound_claims_type":"{how}"}}"#
            )
        };
        for (bound, how, claims, good) in [
            (r#"{"team":"a"}"#, "string", r#""team":"a""#, true),
            (r#"{"team":["a","b"]}"#, "string", r#""team":["x","b"]"#, true),
            (r#"{"team":"a"}"#, "string", r#""team":"ab""#, false),
            (r#"{"team":"a"}"#, "string", r#""other":"a""#, false),
            (r#"{"/a/b":"c"}"#, "string", r#""a":{"b":"c"}"#, true),
            (r#"{"on":"true"}"#, "string", r#""on":true"#, true),
            (r#"{"on":true}"#, "string", r#""on":true"#, true),
            (r#"{"on":true}"#, "string", r#""on":"true""#, false),
            (r#"{"on":[true]}"#, "string", r#""on":["true"]"#, false),
            (r#"{"on":true}"#, "glob", r#""on":"true""#, false),
            (r#"{"n":5}"#, "string", r#""n":"5""#, false),
            (r#"{"n":5}"#, "string", r#""n":5.0"#, true),
            (r#"{"n":[4,10]}"#, "string", r#""n":1e1"#, true),
            (r#"{"n":9007199254740993}"#, "string", r#""n":9007199254740992"#, false),
            (r#"{"n":5}"#, "string", r#""n":6"#, false),
            (r#"{"team":"a*"}"#, "string", r#""team":"ab""#, false),
            (r#"{"team":"a*z"}"#, "glob", r#""team":"a-z""#, true),
            (r#"{"team":"a*z"}"#, "glob", r#""team":"a-zy""#, false),
        ] {
            let claims = format!(r#"{{"iss":"me","exp":1000,{claims}}}"#);
            assert_eq!(judge(&role(bound, how), &claims, 900).is_ok(), good, "{bound} {claims}");
        }
    }

    #[test]
    fn metadata_and_groups_come_from_claims() {
        let claims = br#"{"a":{"b":"x"},"n":3,"g":["p","q"],"l":["x"],"no":null}"#;
        let claims = parse_object(claims).unwrap();
        let map = |from: &str| BTreeMap::from([(from.to_owned(), "to".to_owned())]);
        let expected = Map::from([("to".to_owned(), "x".into())]);
        assert_eq!(metadata(&claims, &map("/a/b")).unwrap(), expected);
        assert!(metadata(&claims, &map("none")).unwrap().is_empty());
        assert!(metadata(&claims, &map("no")).unwrap().is_empty());
        assert!(metadata(&claims, &map("l")).is_err());
        let groups = |claims: &Map, claim: &str| groups(claims, claim, ProviderKind::Any);
        assert_eq!(groups(&claims, "g").unwrap(), ["p", "q"]);
        assert!(groups(&claims, "n").is_err() && groups(&claims, "none").is_err());
        let text = parse_object(br#"{"g":"p, q,,r"}"#).unwrap();
        assert_eq!(groups(&text, "g").unwrap(), ["p, q,,r"]);
        let split = super::groups(&text, "g", ProviderKind::SecureAuth);
        assert_eq!(split.unwrap(), ["p", "q", "r"]);
    }

    #[test]
    fn groups_that_a_provider_keeps_elsewhere_are_an_error_that_says_so() {
        for overflow in [
            r#"{"_claim_names":{"groups":"src1"},"_claim_sources":{"src1":{"endpoint":"https://g"}}}"#,
            r#"{"hasgroups":true}"#,
        ] {
            let claims = parse_object(overflow.as_bytes()).unwrap();
            let refused = groups(&claims, "groups", ProviderKind::Azure).unwrap_err();
            assert!(refused.contains("elsewhere") && !refused.contains("https"), "{refused}");
        }
    }
}
