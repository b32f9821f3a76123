//! AppRole through the pipeline.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use jiff::Timestamp;
use kallisto_core::json::{Json, Map};
use kallisto_core::{Denial, Error, Operation, Response};
use kallisto_store::Records;

use crate::logins::{log_in, site, text};
use crate::support::{Site, TOKEN, ask_as, data, logical, request_of};

use Operation::{Delete, List, Read, Update};

fn approle(role: &str) -> Site {
    let site = site("approle");
    site.ask(Update, "auth/approle/role/web", role).unwrap();
    site.ask(Update, "auth/approle/role/web/role-id", r#"{"role_id":"web-id"}"#).unwrap();
    site
}

fn secret_id(site: &Site, role: &str, body: &str) -> Map {
    data(site.ask(Update, &format!("auth/approle/role/{role}/secret-id"), body))
}

fn enter(site: &Site, secs: i64, role_id: &str, secret_id: &str) -> Result<Map, Error> {
    let body = format!(r#"{{"role_id":"{role_id}","secret_id":"{secret_id}"}}"#);
    log_in(site, secs, "auth/approle/login", &body)
}

fn wrong() -> Option<Error> {
    Some(Error::Invalid("invalid role or secret ID".to_owned()))
}

#[test]
fn a_role_and_a_secret_id_make_a_token() {
    let site = approle(r#"{"token_policies":"p","token_num_uses":7}"#);
    let secret = secret_id(&site, "web", r#"{"metadata":"{\"team\":\"a\"}"}"#);
    let auth = enter(&site, 0, "web-id", text(&secret, "secret_id")).unwrap();
    assert!(auth["policies"] == Json::strings(["default", "p"]));
    assert!(auth["num_uses"] == Json::from(7_u64));
    let metadata = Json::object([("role_name", "web".into()), ("team", "a".into())]);
    assert!(auth["metadata"] == metadata);
    // Every wrong case reads the same.
    for (role_id, secret_id) in [
        ("web-id", "none"),
        ("none", text(&secret, "secret_id")),
        ("none", "none"),
        ("web", text(&secret, "secret_id")),
        ("web-id", text(&secret, "secret_id_accessor")),
    ] {
        assert_eq!(enter(&site, 0, role_id, secret_id).err(), wrong(), "{role_id} {secret_id}");
    }
    let missing = |body: &str| log_in(&site, 0, "auth/approle/login", body).unwrap_err();
    assert_eq!(missing("{}"), Error::Invalid("missing role_id".to_owned()));
    let body = r#"{"role_id":"web-id"}"#;
    assert_eq!(missing(body), Error::Invalid("missing secret_id".to_owned()));
}

/// A login asks for no kind of token, so that a default is never overruled: it is the kind itself.
#[test]
fn a_default_of_mounts_is_the_kind_that_it_names_and_warns() {
    let site = approle("{}");
    let write = |body: &str| site.ask(Update, "auth/approle/role/web", body);
    for kind in ["service", "batch"] {
        let body = format!(r#"{{"token_type":"default-{kind}"}}"#);
        let warning = format!("default-{kind} has no useful meaning; adjusting to {kind}");
        assert_eq!(logical(write(&body).unwrap()).warnings, [warning]);
        let role = data(site.ask(Read, "auth/approle/role/web", ""));
        assert_eq!(text(&role, "token_type"), kind);
    }
    assert!(matches!(write(r#"{"token_type":"service"}"#), Ok(Response::Empty)));
    let refused = write(r#"{"token_type":"default-bogus"}"#).unwrap_err().to_string();
    assert!(refused.contains("invalid 'token_type' value \"default-bogus\""), "{refused}");
}

/// What the operator of the mount set is not for its roles to lift.
#[test]
fn a_secret_id_that_ends_does_so_within_the_longest_lease_of_the_mount() {
    let site = approle(r#"{"secret_id_ttl":"720h"}"#);
    site.ask(Update, "auth/approle/role/open", "{}").unwrap();
    site.ask(Update, "sys/auth/approle/tune", r#"{"max_lease_ttl":"1h"}"#).unwrap();
    let own = |id: &str| format!(r#"{{"secret_id":"{id}","ttl":"500h"}}"#);
    let custom = |role: &str, id: &str| {
        data(site.ask(Update, &format!("auth/approle/role/{role}/custom-secret-id"), &own(id)))
    };
    for secret in [
        secret_id(&site, "web", ""),
        secret_id(&site, "web", r#"{"ttl":"500h"}"#),
        secret_id(&site, "open", r#"{"ttl":"500h"}"#),
        custom("web", "one"),
        custom("open", "two"),
    ] {
        assert!(secret["secret_id_ttl"] == Json::from(3600_u64));
    }
    site.ask(Update, "auth/approle/role/open/role-id", r#"{"role_id":"open-id"}"#).unwrap();
    assert!(enter(&site, 3599, "open-id", "two").is_ok());
    assert_eq!(enter(&site, 3601, "open-id", "two").err(), wrong());
    // One without an end has none.
    assert!(secret_id(&site, "open", "")["secret_id_ttl"] == Json::from(0_u64));
}

/// Ids that were read from files have a line end behind them.
#[test]
fn blanks_around_ids_are_none_of_theirs() {
    let site = approle("{}");
    let secret = secret_id(&site, "web", "");
    let body = |id: &str| format!(r#"{{"secret_id":"{id}"}}"#);
    site.ask(Update, "auth/approle/role/web/custom-secret-id", &body(r"custom\n")).unwrap();
    site.ask(Update, "auth/approle/role/web/role-id", r#"{"role_id":"web-id2\n"}"#).unwrap();
    for id in [text(&secret, "secret_id"), "custom"] {
        for role_id in ["web-id2", r"web-id2\n", r" web-id2\r\n"] {
            enter(&site, 0, role_id, &format!(r"{id}\n")).unwrap();
        }
        let found =
            site.ask(Update, "auth/approle/role/web/secret-id/lookup", &body(&format!(r"{id}\n")));
        assert!(data(found).contains_key("secret_id_accessor"), "{id}");
    }
    let missing = enter(&site, 0, r" \n", "custom").err();
    assert_eq!(missing, Some(Error::Invalid("missing role_id".to_owned())));
}

#[test]
fn of_many_logins_at_once_exactly_as_many_get_in_as_a_secret_id_has_uses() {
    const USES: usize = 5;
    let site = Arc::new(approle(&format!(r#"{{"secret_id_num_uses":{USES}}}"#)));
    let secret = secret_id(&site, "web", "");
    let id = text(&secret, "secret_id").to_owned();
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let (site, id) = (Arc::clone(&site), id.clone());
            std::thread::spawn(move || enter(&site, 0, "web-id", &id).is_ok())
        })
        .collect();
    let entered = threads.into_iter().map(|thread| thread.join().unwrap());
    assert_eq!(entered.filter(|entered| *entered).count(), USES);
    // Refused as wrong, or for all those that were.
    assert!(enter(&site, 0, "web-id", &id).is_err());
    let listed = site.ask(List, "auth/approle/role/web/secret-id", "");
    assert_eq!(listed.err(), Some(Error::NotFound));
}

#[test]
fn a_role_is_locked_out_by_wrong_secret_ids_and_let_in_again() {
    let site = approle("{}");
    let secret = secret_id(&site, "web", "");
    let good = |secs| enter(&site, secs, "web-id", text(&secret, "secret_id"));
    let bad = |times: usize, role_id: &str, secret_id: &str| {
        for _ in 0..times {
            assert!(enter(&site, 0, role_id, secret_id).is_err());
        }
    };
    let locked = Some(Error::Denied(Denial::BadToken));
    bad(4, "web-id", "none");
    assert!(good(0).is_ok(), "a good login ends the count");
    bad(4, "web-id", "none");
    // What says nothing of the secret id is not counted.
    bad(9, "web-id", "");
    assert!(good(0).is_ok());
    bad(5, "web-id", "none");
    assert_eq!(good(899).err(), locked);
    let seen = data(site.ask(Read, "sys/locked-users", ""));
    assert!(String::from_utf8(Json::Object(seen).to_text()).unwrap().contains("web-id"));
    assert!(good(900).is_ok());
    // Names of no role are not kept: a guess at one costs nothing.
    bad(9, "none", "none");
    assert_eq!(enter(&site, 0, "none", "none").err(), wrong());
    let tune = r#"{"user_lockout_config":{"lockout_disable":true}}"#;
    site.ask(Update, "sys/auth/approle/tune", tune).unwrap();
    bad(9, "web-id", "none");
    assert!(good(0).is_ok());
}

#[test]
fn a_secret_id_is_looked_up_and_destroyed_below_its_role_alone() {
    let site = approle("{}");
    site.ask(Update, "auth/approle/role/other", "{}").unwrap();
    let secret = secret_id(&site, "web", r#"{"ttl":"1h","num_uses":3}"#);
    let ask = |role: &str, verb: &str, name: &str| {
        let key = if verb.contains("accessor") { "secret_id_accessor" } else { "secret_id" };
        let body = format!(r#"{{"{key}":"{}"}}"#, text(&secret, name));
        site.ask(Update, &format!("auth/approle/role/{role}/{verb}"), &body)
    };
    let (id, accessor) = ("secret_id", "secret_id_accessor");
    for seen in [
        data(ask("web", "secret-id/lookup", id)),
        data(ask("web", "secret-id-accessor/lookup", accessor)),
    ] {
        assert!(seen["secret_id_num_uses"] == Json::from(3_u64));
        assert_eq!(text(&seen, "expiration_time"), "1970-01-01T01:00:00Z");
        assert_eq!(text(&seen, accessor), text(&secret, accessor));
    }
    // Through another role it does not exist.
    assert!(matches!(ask("other", "secret-id/lookup", id), Ok(Response::Empty)));
    let lookup = ask("other", "secret-id-accessor/lookup", accessor);
    assert!(matches!(lookup, Ok(Response::Missing(_))));
    ask("other", "secret-id/destroy", id).unwrap();
    assert!(ask("other", "secret-id-accessor/destroy", accessor).is_err());
    enter(&site, 0, "web-id", text(&secret, id)).unwrap();
    ask("web", "secret-id-accessor/destroy", accessor).unwrap();
    assert_eq!(enter(&site, 0, "web-id", text(&secret, id)).err(), wrong());
    assert!(matches!(ask("web", "secret-id/lookup", id), Ok(Response::Empty)));
    ask("web", "secret-id/destroy", id).unwrap();
}

#[test]
fn a_role_made_again_knows_nothing_of_the_old_ones_secret_ids() {
    let site = approle("{}");
    let secret = secret_id(&site, "web", "");
    site.ask(Delete, "auth/approle/role/web", "").unwrap();
    assert_eq!(enter(&site, 0, "web-id", text(&secret, "secret_id")).err(), wrong());
    site.ask(Update, "auth/approle/role/web", r#"{"role_id":"web-id"}"#).unwrap();
    assert_eq!(enter(&site, 0, "web-id", text(&secret, "secret_id")).err(), wrong());
    let listed = site.ask(List, "auth/approle/role/web/secret-id", "");
    assert_eq!(listed.err(), Some(Error::NotFound));
}

#[test]
fn role_ids_are_each_of_one_role() {
    let site = approle("{}");
    site.ask(Update, "auth/approle/role/other", "{}").unwrap();
    let taken = site.ask(Update, "auth/approle/role/other/role-id", r#"{"role_id":"web-id"}"#);
    assert_eq!(taken.err(), Some(Error::Invalid("role_id already in use".to_owned())));
    site.ask(Update, "auth/approle/role/web/role-id", r#"{"role_id":"new"}"#).unwrap();
    site.ask(Update, "auth/approle/role/other/role-id", r#"{"role_id":"web-id"}"#).unwrap();
    let secret = secret_id(&site, "other", "");
    assert!(enter(&site, 0, "web-id", text(&secret, "secret_id")).is_ok());
    assert_eq!(enter(&site, 0, "new", text(&secret, "secret_id")).err(), wrong());
}

#[test]
fn what_a_secret_id_may_be_is_bounded_by_its_role() {
    let role = r#"{"secret_id_num_uses":2,"secret_id_ttl":"1h",
        "secret_id_bound_cidrs":"127.0.0.0/8","token_bound_cidrs":"127.0.0.0/8"}"#;
    let site = approle(role);
    for (body, refusal) in [
        (r#"{"num_uses":3}"#, "num_uses cannot be higher"),
        (r#"{"num_uses":0}"#, "num_uses cannot be higher"),
        (r#"{"num_uses":-1}"#, "num_uses cannot be negative"),
        (r#"{"ttl":"2h"}"#, "ttl cannot be longer"),
        (r#"{"cidr_list":"10.0.0.0/8"}"#, "failed to verify subset relationship"),
        (r#"{"token_bound_cidrs":"0.0.0.0/0"}"#, "failed to verify subset relationship"),
    ] {
        let answer = site.ask(Update, "auth/approle/role/web/secret-id", body);
        let refused = answer.unwrap_err().to_string();
        assert!(refused.starts_with(refusal), "{body}: {refused}");
    }
    let near = secret_id(&site, "web", r#"{"cidr_list":"127.0.0.1/32"}"#);
    assert!(enter(&site, 0, "web-id", text(&near, "secret_id")).is_ok());
    let far = secret_id(&site, "web", r#"{"cidr_list":"127.9.0.0/16"}"#);
    let refused = enter(&site, 0, "web-id", text(&far, "secret_id")).unwrap_err().to_string();
    assert!(refused.contains("unauthorized through CIDR restrictions on the secret ID"));
    // An address that is wrong costs no use.
    let body = format!(r#"{{"secret_id":"{}"}}"#, text(&far, "secret_id"));
    let seen = data(site.ask(Update, "auth/approle/role/web/secret-id/lookup", &body));
    assert!(seen["secret_id_num_uses"] == Json::from(2_u64));
}

#[test]
fn parts_of_a_role_are_read_set_and_unset() {
    let site = approle(r#"{"token_policies":"p","token_ttl":"1h"}"#);
    let path = |part: &str| format!("auth/approle/role/web/{part}");
    let ttl = || data(site.ask(Read, &path("token-ttl"), ""))["token_ttl"].clone();
    assert!(ttl() == Json::from(3600_u64));
    site.ask(Update, &path("token-ttl"), r#"{"token_ttl":60}"#).unwrap();
    assert!(ttl() == Json::from(60_u64));
    site.ask(Delete, &path("token-ttl"), "").unwrap();
    assert!(ttl() == Json::from(0_u64));
    let refused = site.ask(Update, &path("token-ttl"), "{}").unwrap_err().to_string();
    assert_eq!(refused, "missing token_ttl");
    site.ask(Update, &path("policies"), r#"{"policies":"x,y"}"#).unwrap();
    let seen = data(site.ask(Read, &path("policies"), ""));
    assert!(seen["policies"] == Json::strings(["x", "y"]) && seen.len() == 2);
    let refused = site.ask(Update, &path("local-secret-ids"), r#"{"local_secret_ids":true}"#);
    assert_eq!(refused.err(), Some(Error::UnsupportedOperation));
    let bare = r#"{"bind_secret_id":false}"#;
    let refused = site.ask(Update, "auth/approle/role/web", bare).unwrap_err().to_string();
    assert_eq!(refused, "at least one constraint should be enabled on the role");
}

/// After their end secret ids go by themselves, and what a role left goes by tidying.
#[test]
fn nothing_of_a_secret_id_is_left_after_its_end() {
    let site = approle("{}");
    // The first login of a role makes its entity, which stays.
    let first = secret_id(&site, "web", r#"{"num_uses":1}"#);
    enter(&site, 0, "web-id", text(&first, "secret_id")).unwrap();
    let before = site.store.approximate_len();
    let secrets: Vec<Map> = (0..50).map(|_| secret_id(&site, "web", r#"{"ttl":"1m"}"#)).collect();
    assert!(enter(&site, 59, "web-id", text(&secrets[0], "secret_id")).is_ok());
    assert_eq!(enter(&site, 60, "web-id", text(&secrets[0], "secret_id")).err(), wrong());
    let at = |secs: i64| jiff::Timestamp::from_second(secs).unwrap();
    pollster::block_on(site.core.run_due_jobs(at(120))).unwrap();
    let listed = site.ask(List, "auth/approle/role/web/secret-id", "");
    assert_eq!(listed.err(), Some(Error::NotFound));
    // The second login's token.
    assert_eq!(site.store.approximate_len(), before + 1);
}

/// What a server of another make kept of the secret id `3c043175-...`, and the key of the role there.
const FOREIGN: &str = r#""hmac_key":"be937732-f1d8-7bb7-f315-bb08c66159f2",
    "secret_id_hmac":"a9b78a27f23b26191d30ea82a8f59df714dc6cc25a7432f5a8706e3e74d02c0c""#;
const FOREIGN_ID: &str = "3c043175-f06a-990c-3321-a5db4c2c69a2";

#[test]
fn a_secret_id_of_another_server_logs_in_with_the_uses_it_has_left() {
    let site = approle(r#"{"token_policies":"p"}"#);
    let import = |more: &str| {
        let body = format!("{{{FOREIGN},{more}}}");
        site.ask(Update, "auth/approle/role/web/secret-id/import", &body).map(|it| data(Ok(it)))
    };
    assert_eq!(enter(&site, 0, "web-id", FOREIGN_ID).err(), wrong());
    let full = r#""secret_id_accessor":"acc","secret_id_num_uses":2,"metadata":{"k":"v"}"#;
    assert!(import(full).unwrap()["changed"] == Json::from(true));
    let auth = enter(&site, 0, "web-id", FOREIGN_ID).unwrap();
    assert!(auth["metadata"].as_object().unwrap()["k"] == Json::from("v"));
    // Coming again gives no use back.
    assert!(import(full).unwrap()["changed"] == Json::from(false));
    let looked = format!(r#"{{"secret_id":"{FOREIGN_ID}"}}"#);
    let found = data(site.ask(Update, "auth/approle/role/web/secret-id/lookup", &looked));
    assert!(found["secret_id_num_uses"] == Json::from(1_u64));
    assert!(found["secret_id_accessor"] == Json::from("acc"));
    // The same text is not made another secret id of.
    let twice = site.ask(Update, "auth/approle/role/web/custom-secret-id", &looked);
    assert!(twice.unwrap_err().to_string().contains("already registered"));
    // One that is made here is another beside it.
    let own = secret_id(&site, "web", "{}");
    enter(&site, 0, "web-id", text(&own, "secret_id")).unwrap();
    enter(&site, 0, "web-id", FOREIGN_ID).unwrap();
    assert_eq!(enter(&site, 0, "web-id", FOREIGN_ID).err(), wrong());
    // Neither its HMAC nor its accessor logs in.
    let hmac = "a9b78a27f23b26191d30ea82a8f59df714dc6cc25a7432f5a8706e3e74d02c0c";
    assert_eq!(enter(&site, 0, "web-id", hmac).err(), wrong());
}

#[test]
fn what_is_no_secret_id_of_another_server_is_refused() {
    let site = approle("{}");
    let refused = |body: &str| {
        let asked = site.ask(Update, "auth/approle/role/web/secret-id/import", body);
        asked.unwrap_err().to_string()
    };
    let with = |more: &str| format!("{{{FOREIGN},{more}}}");
    for (body, why) in [
        ("{}".to_owned(), "missing hmac_key"),
        (r#"{"hmac_key":"k"}"#.to_owned(), "missing secret_id_hmac"),
        (r#"{"hmac_key":"k","secret_id_hmac":"ab"}"#.to_owned(), "no HMAC-SHA256"),
        (with(r#""x":1"#), "missing secret_id_accessor"),
        (with(r#""secret_id_accessor":"a/b""#), "accessor is none"),
        (with(r#""secret_id_accessor":"a","secret_id_num_uses":-1"#), "negative"),
        (with(r#""secret_id_accessor":"a","creation_time":"x""#), "creation_time is no time"),
        (
            with(r#""secret_id_accessor":"a","expiration_time":"1970-01-01T00:00:00Z""#),
            "has expired",
        ),
    ] {
        assert!(refused(&body).contains(why), "{body}: {}", refused(&body));
    }
    let body = with(r#""secret_id_accessor":"a""#);
    site.ask(Update, "auth/approle/role/web/secret-id/import", &body).unwrap();
    let other = body.replace("be937732", "be937733").replace("a9b78a27", "a9b78a28");
    assert!(refused(&other).contains("another hmac_key"));
    let same_accessor = body.replace("a9b78a27", "a9b78a28");
    assert!(refused(&same_accessor).contains("another secret id has this accessor"));
    // Destroyed by its accessor, it is gone.
    site.ask(
        Update,
        "auth/approle/role/web/secret-id-accessor/destroy",
        r#"{"secret_id_accessor":"a"}"#,
    )
    .unwrap();
    assert_eq!(enter(&site, 0, "web-id", FOREIGN_ID).err(), wrong());
}

#[test]
fn tokens_of_a_login_end_though_who_disables_or_moves_it_hangs_up() {
    let moving = r#"{"from":"auth/approle","to":"auth/elsewhere"}"#;
    for (operation, path, body) in
        [(Delete, "sys/auth/approle", ""), (Update, "sys/remount", moving)]
    {
        let site = approle("{}");
        let secret = secret_id(&site, "web", "");
        // More than end at once.
        let tokens: Vec<String> = (0..300)
            .map(|_| {
                let auth = enter(&site, 0, "web-id", text(&secret, "secret_id")).unwrap();
                text(&auth, "client_token").to_owned()
            })
            .collect();
        let lives = |token: &&String| {
            ask_as(&site.core, token, 0, Read, "auth/token/lookup-self", "").is_ok()
        };
        {
            let request = request_of(TOKEN, 0, operation, path, body);
            let mut asking = pin!(site.core.handle(&request));
            // It goes when it waits for the first time.
            let polled = asking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "{path}");
        }
        assert!(site.ask(Read, "sys/auth/approle", "").is_err(), "{path}");
        assert!(tokens.iter().any(|token| lives(&token)), "{path} was not cut short");
        // A login of the same path would have tokens that nobody could tell from those.
        let again = site.ask(Update, "sys/auth/approle", r#"{"type":"approle"}"#);
        assert!(matches!(again, Err(Error::Unavailable(_))), "{path}: {again:?}");
        pollster::block_on(site.core.run_due_jobs(Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(tokens.iter().filter(lives).count(), 0, "{path}");
        site.ask(Update, "sys/auth/approle", r#"{"type":"approle"}"#).unwrap();
    }
}
