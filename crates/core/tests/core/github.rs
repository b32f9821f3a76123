//! Logins by a token of GitHub, whose answers change between a login and its renewals.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_core::json::Json;
use kallisto_core::{
    Authorization, Error, Operation, OutboundAnswer, OutboundCall, OutboundCalls, Response,
};
use secrecy::ExposeSecret;

use crate::logins::{log_in, text};
use crate::support::{Site, ask_as, data};

use Operation::{Delete, List, Read, Update};

/// What the stand-in says of the bearer of `ghp_octo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Octo {
    Member,
    OutOfTheTeam,
    OutOfTheOrganization,
    Down,
    Refused,
}

/// A GitHub of one person, that takes a while for each answer.
struct Hub {
    octo: Mutex<Octo>,
    takes: Mutex<Duration>,
    clock: Mutex<Duration>,
}

impl Hub {
    fn says(&self, octo: Octo) {
        *self.octo.lock().unwrap() = octo;
    }

    fn takes(&self, time: Duration) {
        *self.takes.lock().unwrap() = time;
    }
}

impl OutboundCalls for Hub {
    fn clock(&self) -> Duration {
        *self.clock.lock().unwrap()
    }

    fn send(&self, call: &OutboundCall, time: Duration) -> Result<OutboundAnswer, String> {
        let takes = *self.takes.lock().unwrap();
        *self.clock.lock().unwrap() += takes.min(time);
        if takes > time {
            return Err("timeout".to_owned());
        }
        let octo = *self.octo.lock().unwrap();
        let path = call.url.strip_prefix("https://hub.example/api/").unwrap();
        if path == "orgs/acme" {
            assert!(matches!(call.authorization, Authorization::None));
            let body = br#"{"login":"acme","id":42}"#.to_vec();
            return Ok(OutboundAnswer { status: 200, body, ..OutboundAnswer::default() });
        }
        let Authorization::Bearer(token) = &call.authorization else { panic!("no token") };
        assert_eq!(token.expose_secret(), "ghp_octo");
        let (status, body) = match (octo, path) {
            (Octo::Down, _) => return Err("connection to 10.1.2.3 refused".to_owned()),
            (Octo::Refused, _) => (401, r#"{"message":"Bad credentials"}"#),
            (_, "user") => (200, r#"{"login":"Octo"}"#),
            (Octo::OutOfTheOrganization, "user/orgs?per_page=100") => (200, "[]"),
            (_, "user/orgs?per_page=100") => (200, r#"[{"login":"acme","id":42}]"#),
            (Octo::OutOfTheTeam, "user/teams?per_page=100") => (200, "[]"),
            (_, "user/teams?per_page=100") => {
                (200, r#"[{"name":"Dev Team","slug":"dev-team","organization":{"id":42}}]"#)
            }
            (_, other) => panic!("asked for {other}"),
        };
        Ok(OutboundAnswer { status, body: body.into(), ..OutboundAnswer::default() })
    }
}

fn site() -> (Site, Arc<Hub>) {
    let hub = Arc::new(Hub {
        octo: Mutex::new(Octo::Member),
        takes: Mutex::default(),
        clock: Mutex::default(),
    });
    let Site { store, core, keys } = Site::open(1 << 20);
    let outbound: Arc<dyn OutboundCalls> = Arc::<Hub>::clone(&hub);
    let site = Site { store, core: core.with_outbound(outbound), keys };
    for (path, body) in [
        ("sys/auth/github", r#"{"type":"github"}"#),
        (
            "auth/github/config",
            r#"{"organization":"acme","base_url":"https://hub.example/api","token_policies":"all"}"#,
        ),
        ("auth/github/map/teams/Dev-Team", r#"{"value":"dev, ops"}"#),
        ("auth/github/map/users/octo", r#"{"value":"mine"}"#),
    ] {
        site.ask(Update, path, body).unwrap();
    }
    (site, hub)
}

const LOGIN: &str = "auth/github/login";
const BODY: &str = r#"{"token":"ghp_octo"}"#;

#[test]
fn a_member_has_the_policies_of_team_and_person_until_github_says_otherwise() {
    let (site, hub) = site();
    let auth = log_in(&site, 0, LOGIN, BODY).unwrap();
    assert_eq!(auth["policies"], Json::strings(["all", "default", "dev", "mine", "ops"]));
    let metadata = Json::object([("org", "acme".into()), ("username", "Octo".into())]);
    assert_eq!(auth["metadata"], metadata);
    let token = text(&auth, "client_token");
    let seen = data(ask_as(&site.core, token, 1, Read, "auth/token/lookup-self", ""));
    assert_eq!(text(&seen, "display_name"), "github-Octo");
    assert!(!Json::Object(seen).to_text().windows(8).any(|part| part == b"ghp_octo"));
    let renew = || ask_as(&site.core, token, 2, Update, "auth/token/renew-self", "");
    assert!(renew().is_ok());
    for (octo, is_fault_of_github) in [
        (Octo::OutOfTheTeam, false),
        (Octo::OutOfTheOrganization, false),
        (Octo::Refused, false),
        (Octo::Down, true),
    ] {
        hub.says(octo);
        let refused = renew().unwrap_err();
        assert_eq!(matches!(refused, Error::Unavailable(_)), is_fault_of_github, "{octo:?}");
        let told = refused.to_string();
        assert!(!told.contains("ghp_octo") && !told.contains("10.1.2.3"), "{told}");
    }
    hub.says(Octo::Member);
    assert!(renew().is_ok());
    site.ask(Update, "auth/github/map/teams/dev-team", r#"{"value":"dev"}"#).unwrap();
    assert!(renew().is_err());
}

/// A team may be known to the identity engine alone, so that a renewal finds the same policies of the method.
#[test]
fn a_renewal_takes_who_left_a_team_out_of_the_group_of_that_team() {
    let (site, hub) = site();
    site.ask(Delete, "auth/github/map/teams/Dev-Team", "").unwrap();
    let accessor = data(site.ask(Read, "sys/auth/github", ""))["accessor"].clone();
    let group = r#"{"name":"devs","type":"external","policies":"of-the-team"}"#;
    let group = data(site.ask(Update, "identity/group", group))["id"].clone();
    let alias = Json::object([
        ("name", "dev-team".into()),
        ("mount_accessor", accessor),
        ("canonical_id", group),
    ]);
    let alias = String::from_utf8(alias.to_text()).unwrap();
    site.ask(Update, "identity/group-alias", &alias).unwrap();
    let auth = log_in(&site, 0, LOGIN, BODY).unwrap();
    assert_eq!(auth["identity_policies"], Json::strings(["of-the-team"]));
    let token = text(&auth, "client_token");
    let renewed = || {
        ask_as(&site.core, token, 2, Update, "auth/token/renew-self", "").unwrap();
        data(ask_as(&site.core, token, 2, Read, "auth/token/lookup-self", ""))
    };
    assert_eq!(renewed()["identity_policies"], Json::strings(["of-the-team"]));
    hub.says(Octo::OutOfTheTeam);
    assert!(!renewed().contains_key("identity_policies"));
    hub.says(Octo::Member);
    assert_eq!(renewed()["identity_policies"], Json::strings(["of-the-team"]));
}

#[test]
fn who_may_not_log_in_is_told_whose_fault_it_is() {
    let (site, hub) = site();
    let enter = |octo| {
        hub.says(octo);
        log_in(&site, 0, LOGIN, BODY).unwrap_err()
    };
    let outside = enter(Octo::OutOfTheOrganization);
    assert_eq!(outside.to_string(), "user is not part of required org");
    assert!(matches!(enter(Octo::Refused), Error::Invalid(_)));
    let Error::Unavailable(down) = enter(Octo::Down) else { panic!("not ours") };
    assert_eq!(down, "GitHub was not reached in time");
}

#[test]
fn a_github_that_is_slow_at_every_step_holds_a_login_no_longer_than_the_limit() {
    let (site, hub) = site();
    hub.takes(Duration::from_secs(6));
    let before = hub.clock();
    assert!(log_in(&site, 0, LOGIN, BODY).is_ok());
    assert_eq!(hub.clock() - before, Duration::from_secs(18));
    hub.takes(Duration::from_secs(9));
    let before = hub.clock();
    let slow = log_in(&site, 0, LOGIN, BODY).unwrap_err();
    assert!(matches!(slow, Error::Unavailable(_)), "{slow}");
    assert_eq!(hub.clock() - before, Duration::from_secs(20));
    // Each request has the whole time for itself.
    hub.takes(Duration::from_secs(6));
    assert!(log_in(&site, 0, LOGIN, BODY).is_ok());
}

#[test]
fn mappings_read_back_as_they_were_given() {
    let (site, _) = site();
    let shown = data(site.ask(Read, "auth/github/map/teams/DEV-team", ""));
    assert_eq!((text(&shown, "key"), text(&shown, "value")), ("dev-team", "dev, ops"));
    let names = data(site.ask(List, "auth/github/map/teams/", ""));
    assert_eq!(names["keys"], Json::strings(["dev-team"]));
    site.ask(Delete, "auth/github/map/users/OCTO", "").unwrap();
    let Response::Logical(nothing) = site.ask(Read, "auth/github/map/users/octo", "").unwrap()
    else {
        panic!("no answer")
    };
    assert!(nothing.data.is_empty());
    let config = data(site.ask(Read, "auth/github/config", ""));
    assert_eq!(config["organization_id"], 42_u64.into());
    assert_eq!(text(&config, "base_url"), "https://hub.example/api/");
}
