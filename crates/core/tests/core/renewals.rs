//! Renewals of tokens of logins: what their role and mount say by then counts.

use kallisto_core::json::Json;
use kallisto_core::{Error, Operation};

use crate::logins::{log_in, site, text};
use crate::support::{Site, ask_as, data};

use Operation::{Delete, Read, Update};

const USER: &str = "auth/userpass/users/bob";
const TUNE: &str = "sys/mounts/auth/userpass/tune";

/// A site with a user, and a token of theirs.
fn bob(times: &str) -> (Site, String) {
    let site = site("userpass");
    let token = enter(&site, times);
    (site, token)
}

/// Writes the user, and logs in as them.
fn enter(site: &Site, times: &str) -> String {
    site.ask(Update, USER, &format!(r#"{{"password":"pw",{times}}}"#)).unwrap();
    let auth = log_in(site, 0, "auth/userpass/login/bob", r#"{"password":"pw"}"#).unwrap();
    text(&auth, "client_token").to_owned()
}

/// The seconds that a renewal leaves.
fn renew(site: &Site, token: &str, secs: i64, increment: &str) -> Result<i64, Error> {
    let body = format!(r#"{{"increment":"{increment}"}}"#);
    ask_as(&site.core, token, secs, Update, "auth/token/renew-self", &body)?;
    let seen = data(ask_as(&site.core, token, secs, Read, "auth/token/lookup-self", ""));
    Ok(String::from_utf8(seen["ttl"].to_text()).unwrap().parse().unwrap())
}

fn past() -> Option<Error> {
    Some(Error::Invalid("past the max TTL, cannot renew".to_owned()))
}

#[test]
fn a_role_that_gives_less_by_now_bounds_the_tokens_that_it_gave_more() {
    let (site, token) = bob(r#""token_ttl":"1h","token_max_ttl":"100h""#);
    assert_eq!(renew(&site, &token, 600, "50h"), Ok(50 * 3600));
    site.ask(Update, USER, r#"{"token_max_ttl":"2h"}"#).unwrap();
    assert_eq!(renew(&site, &token, 3600, "50h"), Ok(3600));
    site.ask(Update, USER, r#"{"token_ttl":"10m"}"#).unwrap();
    assert_eq!(renew(&site, &token, 3700, "0"), Ok(600), "what a login gives");
    site.ask(Update, USER, r#"{"token_max_ttl":"30m"}"#).unwrap();
    assert_eq!(renew(&site, &token, 3800, "50h").err(), past());
    // The other way round as well.
    site.ask(Update, USER, r#"{"token_max_ttl":"3h"}"#).unwrap();
    assert_eq!(renew(&site, &token, 3800, "50h"), Ok(3 * 3600 - 3800));
}

#[test]
fn a_period_that_is_taken_from_a_role_is_taken_from_its_tokens() {
    let (site, token) = bob(r#""token_period":"1h""#);
    assert_eq!(renew(&site, &token, 600, "0"), Ok(3600));
    site.ask(Update, USER, r#"{"token_period":"10m"}"#).unwrap();
    assert_eq!(renew(&site, &token, 700, "0"), Ok(600));
    site.ask(Update, USER, r#"{"token_period":0,"token_max_ttl":"15m"}"#).unwrap();
    assert_eq!(renew(&site, &token, 800, "1h"), Ok(100));
    assert_eq!(renew(&site, &token, 899, "1h"), Ok(1));
    assert_eq!(ask_as(&site.core, &token, 901, Read, "auth/token/lookup-self", "").err(), {
        Some(Error::Denied(kallisto_core::Denial::BadToken))
    });
}

#[test]
fn the_tuning_of_a_login_method_counts_at_renewals() {
    let (site, token) = bob(r#""token_ttl":"1h""#);
    let periodic = enter(&site, r#""token_period":"10h""#);
    site.ask(Update, USER, r#"{"token_period":0,"token_ttl":"1h"}"#).unwrap();
    site.ask(Update, TUNE, r#"{"max_lease_ttl":"2h"}"#).unwrap();
    assert_eq!(renew(&site, &token, 600, "50h"), Ok(7200 - 600));
    site.ask(Update, USER, r#"{"token_period":"10h"}"#).unwrap();
    assert_eq!(renew(&site, &periodic, 600, "0"), Ok(7200), "each time");
    site.ask(Update, USER, r#"{"token_period":0,"token_ttl":0}"#).unwrap();
    site.ask(Update, TUNE, r#"{"default_lease_ttl":"5m"}"#).unwrap();
    assert_eq!(renew(&site, &token, 700, "0"), Ok(300));
}

#[test]
fn an_explicit_maximum_stays_what_it_was_at_the_login() {
    let (site, token) = bob(r#""token_ttl":"1h","token_explicit_max_ttl":"3h""#);
    site.ask(Update, USER, r#"{"token_explicit_max_ttl":"100h"}"#).unwrap();
    assert_eq!(renew(&site, &token, 600, "50h"), Ok(3 * 3600 - 600));
}

#[test]
fn every_method_with_roles_has_its_renewals_follow_them() {
    let site = site("approle");
    let role = "auth/approle/role/web";
    site.ask(Update, role, r#"{"token_ttl":"1h","token_period":"2h"}"#).unwrap();
    let role_id = data(site.ask(Read, &format!("{role}/role-id"), ""));
    let secret = data(site.ask(Update, &format!("{role}/secret-id"), ""));
    let body = Json::object([
        ("role_id", role_id["role_id"].clone()),
        ("secret_id", secret["secret_id"].clone()),
    ]);
    let body = String::from_utf8(body.to_text()).unwrap();
    let auth = log_in(&site, 0, "auth/approle/login", &body).unwrap();
    let token = text(&auth, "client_token");
    assert_eq!(renew(&site, token, 10, "0"), Ok(7200));
    site.ask(Delete, &format!("{role}/period"), "").unwrap();
    site.ask(Update, &format!("{role}/token-max-ttl"), r#"{"token_max_ttl":"1h"}"#).unwrap();
    assert_eq!(renew(&site, token, 20, "9h"), Ok(3580));
}

#[test]
fn who_renews_itself_is_given_its_own_token_whatever_the_body_names() {
    let (site, token) = bob(r#""token_ttl":"1h""#);
    let body = r#"{"token":"root","increment":"2h"}"#;
    let answer = ask_as(&site.core, &token, 10, Update, "auth/token/renew-self", body).unwrap();
    let auth = kallisto_core::json::parse_object(&crate::support::logical(answer).auth).unwrap();
    assert_eq!(text(&auth, "client_token"), token);
    assert_eq!(auth["lease_duration"], Json::from(7200_u64));
}
