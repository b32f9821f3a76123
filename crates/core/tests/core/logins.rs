//! Login methods through the pipeline: a proof goes in, a token that works comes out.

use jiff::Timestamp;
use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Denial, Error, Operation, Path, Request, Response, TokenText};

use crate::support::{Site, TOKEN, ask_as, data, request_of};

use Operation::{Delete, List, Read, Update};

/// A site with a login method of a type, mounted under its name.
pub(crate) fn site(kind: &str) -> Site {
    let site = Site::open(1 << 20);
    site.ask(Update, &format!("sys/auth/{kind}"), &format!(r#"{{"type":"{kind}"}}"#)).unwrap();
    site
}

/// A request without a token, from an address.
fn knock(site: &Site, from: &str, secs: i64, path: &str, body: &str) -> Result<Response, Error> {
    let request = Request {
        body: body.as_bytes(),
        remote: Some(from.parse().unwrap()),
        ..Request::new(Update, Path::decode(path).unwrap(), Timestamp::from_second(secs).unwrap())
    };
    pollster::block_on(site.core.handle(&request))
}

const HERE: &str = "127.0.0.1:5000";

/// The `auth` object of a good login, or its refusal.
pub(crate) fn log_in(site: &Site, secs: i64, path: &str, body: &str) -> Result<Map, Error> {
    match knock(site, HERE, secs, path, body)? {
        Response::Logical(reply) => match json::parse(&reply.auth).unwrap() {
            Json::Object(auth) => Ok(auth),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text<'m>(map: &'m Map, name: &str) -> &'m str {
    map[name].as_str().unwrap()
}

fn wrong() -> Error {
    Error::Invalid("invalid username or password".to_owned())
}

#[test]
fn a_user_logs_in_and_gets_a_token_that_works() {
    let site = site("userpass");
    let body = r#"{"password":"pw","token_policies":"A,b","token_ttl":"1h","token_max_ttl":"2h"}"#;
    site.ask(Update, "auth/userpass/users/Bob", body).unwrap();
    let auth = log_in(&site, 0, "auth/userpass/login/BOB", r#"{"password":"pw"}"#).unwrap();
    let expected = [
        ("lease_duration", Json::from(3600_u64)),
        ("metadata", Json::object([("username", "bob".into())])),
        ("orphan", true.into()),
        ("policies", Json::strings(["a", "b", "default"])),
        ("renewable", true.into()),
        ("token_type", "service".into()),
    ];
    for (name, value) in expected {
        assert!(auth[name] == value, "{name}");
    }
    let token = text(&auth, "client_token");
    let seen = data(ask_as(&site.core, token, 1, Read, "auth/token/lookup-self", ""));
    assert_eq!(text(&seen, "display_name"), "userpass-bob");
    assert_eq!(text(&seen, "path"), "auth/userpass/login/BOB");
    // Renewals end where the role's maximum does.
    let body = r#"{"increment":"9h"}"#;
    ask_as(&site.core, token, 3000, Update, "auth/token/renew-self", body).unwrap();
    let seen = data(ask_as(&site.core, token, 3000, Read, "auth/token/lookup-self", ""));
    assert!(seen["ttl"] == Json::from(7200_u64 - 3000));
    assert_eq!(data(site.ask(List, "auth/userpass/users", ""))["keys"], Json::strings(["bob"]));
}

#[test]
fn wrong_names_and_passwords_read_the_same() {
    let site = site("userpass");
    site.ask(Update, "auth/userpass/users/bob", r#"{"password":"pw"}"#).unwrap();
    let ask = |name: &str, body: &str| {
        log_in(&site, 0, &format!("auth/userpass/login/{name}"), body).unwrap_err()
    };
    assert_eq!(ask("bob", r#"{"password":"no"}"#), wrong());
    assert_eq!(ask("eve", r#"{"password":"no"}"#), wrong());
    assert_eq!(ask("bob", "{}"), Error::Invalid("missing password".to_owned()));
    assert_eq!(ask("eve", "{}"), Error::Invalid("missing password".to_owned()));
    let shown = data(site.ask(Read, "auth/userpass/users/bob", ""));
    assert!(!shown.contains_key("hash") && !shown.contains_key("password"));
}

/// What yields to what is asked for is for a mount to say; AppRole alone takes it, with a warning.
#[test]
fn a_role_or_user_has_no_default_type_of_tokens() {
    for (method, path, body) in [
        ("cert", "certs/web", r#""certificate":"-""#),
        ("github", "config", r#""organization":"o","organization_id":1"#),
        ("jwt", "role/web", r#""role_type":"jwt","user_claim":"sub","bound_subject":"s""#),
        (
            "kubernetes",
            "role/web",
            r#""bound_service_account_names":"a","bound_service_account_namespaces":"b""#,
        ),
        ("ldap", "config", r#""url":"ldap://127.0.0.1","userdn":"dc=x""#),
        ("okta", "config", r#""org_name":"o","base_url":"okta.com""#),
        ("userpass", "users/web", r#""password":"pw""#),
    ] {
        let site = site(method);
        for kind in ["default-batch", "default-service"] {
            let body = format!(r#"{{{body},"token_type":"{kind}"}}"#);
            let refused = site.ask(Update, &format!("auth/{method}/{path}"), &body).unwrap_err();
            let expected = format!("invalid 'token_type' value \"{kind}\"");
            assert!(refused.to_string().contains(&expected), "{method}: {refused}");
        }
    }
}

#[test]
fn no_login_makes_root() {
    let site = site("userpass");
    let body = r#"{"password":"pw","token_policies":"root"}"#;
    site.ask(Update, "auth/userpass/users/bob", body).unwrap();
    let refusal = log_in(&site, 0, "auth/userpass/login/bob", r#"{"password":"pw"}"#);
    let expected = Error::Invalid("auth methods cannot create root tokens".to_owned());
    assert_eq!(refusal.err(), Some(expected));
}

#[test]
fn the_threads_of_hashing_take_a_bcrypt_hash_and_make_it_a_newer_one() {
    // `pw`, cost 5.
    const HASH: &str = "$2b$05$NzNjIu8T.pKF7AM1/6BkW.niCPo4qXXhtdt03qRjh8529BEEC8o46";
    let site = site("userpass");
    let body = format!(r#"{{"password_hash":"{HASH}"}}"#);
    site.ask(Update, "auth/userpass/users/bob", &body).unwrap();
    for _ in 0..2 {
        log_in(&site, 0, "auth/userpass/login/bob", r#"{"password":"pw"}"#).unwrap();
        let refusal = log_in(&site, 0, "auth/userpass/login/bob", r#"{"password":"no"}"#);
        assert_eq!(refusal.err(), Some(wrong()));
    }
}

#[test]
fn a_name_is_locked_out_and_let_in_again() {
    let site = site("userpass");
    site.ask(Update, "auth/userpass/users/bob", r#"{"password":"pw"}"#).unwrap();
    let try_as = |name: &str, password: &str, secs: i64| {
        let body = format!(r#"{{"password":"{password}"}}"#);
        log_in(&site, secs, &format!("auth/userpass/login/{name}"), &body).err()
    };
    let locked = Some(Error::Denied(Denial::BadToken));
    // Of users and of nobody alike, in whatever spelling.
    for names in [["bob", "BOB"], ["eve", "eVe"]] {
        for at in 0..5 {
            assert_eq!(try_as(names[at % 2], "no", 0), Some(wrong()));
        }
        assert_eq!(try_as(names[1], "no", 1), locked);
    }
    assert_eq!(try_as("bob", "pw", 899), locked);
    let seen = data(site.ask(Read, "sys/locked-users", ""));
    assert!(seen["total"] == Json::from(2_u64));
    assert_eq!(try_as("bob", "pw", 900), None);
    // An operator lets in earlier.
    (0..5).for_each(|_| assert_eq!(try_as("bob", "no", 1000), Some(wrong())));
    assert_eq!(try_as("bob", "pw", 1001), locked);
    let Response::Merged(mount) = site.ask(Read, "sys/auth/userpass", "").unwrap() else {
        panic!("not merged");
    };
    let mount = json::parse_object(&mount.data).unwrap();
    let unlock = format!("sys/locked-users/{}/unlock/bob", text(&mount, "accessor"));
    site.ask(Update, &unlock, "").unwrap();
    assert_eq!(try_as("bob", "pw", 1001), None);
    // And a mount may do without.
    let tune = r#"{"user_lockout_config":{"lockout_disable":true}}"#;
    site.ask(Update, "sys/mounts/auth/userpass/tune", tune).unwrap();
    (0..9).for_each(|_| assert_eq!(try_as("bob", "no", 1002), Some(wrong())));
    assert_eq!(try_as("bob", "pw", 1002), None);
}

#[test]
fn those_locked_out_are_shown_by_mount_or_of_one_that_is_asked_for() {
    let site = site("userpass");
    site.ask(Update, "sys/auth/other", r#"{"type":"userpass"}"#).unwrap();
    for (mount, name) in [("userpass", "bob"), ("userpass", "eve"), ("other", "ann")] {
        for _ in 0..5 {
            let path = format!("auth/{mount}/login/{name}");
            assert_eq!(log_in(&site, 0, &path, r#"{"password":"no"}"#).err(), Some(wrong()));
        }
    }
    let accessor = |mount: &str| {
        let mounts = data(site.ask(Read, "sys/auth", ""));
        text(mounts[&format!("{mount}/")].as_object().unwrap(), "accessor").to_owned()
    };
    let locked = |accessor: &str| {
        let asked = request_of(TOKEN, 1, Read, "sys/locked-users", "");
        let query = vec![("mount_accessor".to_owned(), accessor.to_owned())];
        let told = data(pollster::block_on(site.core.handle(&Request { query, ..asked })));
        let Json::Array(spaces) = &told["by_namespace"] else { panic!("no list") };
        let Json::Array(mounts) = &spaces[0].as_object().unwrap()["mount_accessors"] else {
            panic!("no list")
        };
        let mut shown: Vec<_> = mounts
            .iter()
            .map(|mount| {
                let mount = mount.as_object().unwrap();
                (text(mount, "mount_accessor").to_owned(), mount["counts"].clone())
            })
            .collect();
        shown.sort_by(|one, other| one.0.cmp(&other.0));
        (told["total"].clone(), shown)
    };
    let [userpass, other] = ["userpass", "other"].map(accessor);
    let (two, one) = (Json::from(2_u64), Json::from(1_u64));
    assert_eq!(locked(&userpass), (two.clone(), vec![(userpass.clone(), two.clone())]));
    assert_eq!(locked(&other), (one.clone(), vec![(other.clone(), one.clone())]));
    let mut both = vec![(userpass, two), (other, one)];
    both.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(locked(""), (3_u64.into(), both));
}

#[test]
fn a_bound_token_works_from_its_addresses_alone() {
    let site = site("userpass");
    let body = r#"{"password":"pw","token_bound_cidrs":"10.0.0.0/8"}"#;
    site.ask(Update, "auth/userpass/users/bob", body).unwrap();
    let enter =
        |from: &str| knock(&site, from, 0, "auth/userpass/login/bob", r#"{"password":"pw"}"#);
    assert_eq!(enter(HERE).err(), Some(Error::Denied(Denial::BadToken)));
    let Ok(Response::Logical(reply)) = enter("10.1.2.3:4") else { panic!("no login") };
    let auth = json::parse_object(&reply.auth).unwrap();
    let look = |from: Option<&str>| {
        let request = Request {
            token: Some(TokenText::new(text(&auth, "client_token"))),
            remote: from.map(|from| from.parse().unwrap()),
            ..Request::new(
                Read,
                Path::decode("auth/token/lookup-self").unwrap(),
                Timestamp::UNIX_EPOCH,
            )
        };
        pollster::block_on(site.core.handle(&request))
    };
    assert!(look(Some("10.9.9.9:1")).is_ok());
    assert!(look(Some("[::ffff:10.0.0.1]:1")).is_ok());
    for from in [Some(HERE), Some("[::1]:1"), None] {
        assert_eq!(look(from).err(), Some(Error::Denied(Denial::BadToken)), "{from:?}");
    }
}

#[test]
fn a_token_ends_with_its_method_and_is_not_renewed_without_its_user() {
    let site = site("userpass");
    site.ask(Update, "auth/userpass/users/bob", r#"{"password":"pw"}"#).unwrap();
    let enter = || {
        let auth = log_in(&site, 0, "auth/userpass/login/bob", r#"{"password":"pw"}"#).unwrap();
        text(&auth, "client_token").to_owned()
    };
    let renew = |token: &str| ask_as(&site.core, token, 1, Update, "auth/token/renew-self", "");
    let token = enter();
    renew(&token).unwrap();
    site.ask(Update, "auth/userpass/users/bob/policies", r#"{"policies":"other"}"#).unwrap();
    let refusal = renew(&token).unwrap_err().to_string();
    assert_eq!(refusal, "policies have changed, not renewing");
    let token = enter();
    site.ask(Delete, "auth/userpass/users/bob", "").unwrap();
    assert!(renew(&token).is_err());
    site.ask(Delete, "sys/auth/userpass", "").unwrap();
    let refusal = ask_as(&site.core, &token, 1, Read, "auth/token/lookup-self", "");
    assert_eq!(refusal.err(), Some(Error::Denied(Denial::BadToken)));
}

/// A route beside the logins asks for a token, and a login elsewhere is none.
#[test]
fn only_logins_do_without_a_token() {
    let site = site("userpass");
    for path in [
        "auth/userpass/users/bob",
        "auth/userpass/login",
        "auth/none/login/bob",
        "auth/token/create",
        "auth/token/login/bob",
        "secret/data/login/bob",
    ] {
        let refusal = knock(&site, HERE, 0, path, r#"{"password":"pw"}"#).err();
        assert_eq!(refusal, Some(Error::Denied(Denial::BadToken)), "{path}");
    }
}

#[test]
fn a_token_that_is_bound_to_its_logins_address_is_nobodys_elsewhere() {
    let site = site("userpass");
    let user = "auth/userpass/users/bob";
    let body = r#"{"password":"p","token_strictly_bind_ip":true}"#;
    site.ask(Update, user, body).unwrap();
    assert!(data(site.ask(Read, user, ""))["token_strictly_bind_ip"] == Json::from(true));
    let both = site.ask(Update, user, r#"{"token_bound_cidrs":"10.0.0.0/8"}"#).unwrap_err();
    assert!(both.to_string().contains("conflicts with 'token_bound_cidrs'"), "{both}");
    let auth = log_in(&site, 0, "auth/userpass/login/bob", r#"{"password":"p"}"#).unwrap();
    let from = |address: &str| {
        let token = text(&auth, "client_token");
        let mut request = crate::support::request_of(token, 0, Read, "auth/token/lookup-self", "");
        request.remote = Some(address.parse().unwrap());
        pollster::block_on(site.core.handle(&request))
    };
    let seen = data(from("127.0.0.1:6000"));
    assert!(seen["bound_cidrs"] == Json::strings(["127.0.0.1"]));
    for other in ["127.0.0.2:5000", "[::1]:5000"] {
        assert!(matches!(from(other), Err(Error::Denied(_))), "{other}");
    }
    // A token role is another matter: it is refused, not taken and forgotten.
    let role = r#"{"token_strictly_bind_ip":true}"#;
    assert!(site.ask(Update, "auth/token/roles/r", role).is_err());
}

#[test]
fn bounds_of_a_secret_id_hold_beside_a_login_that_binds_its_address() {
    let site = site("approle");
    let role = r#"{"token_strictly_bind_ip":true,"role_id":"web"}"#;
    site.ask(Update, "auth/approle/role/web", role).unwrap();
    for (bounds, enters) in [("127.0.0.0/8", true), ("10.0.0.0/8", false)] {
        let body = format!(r#"{{"token_bound_cidrs":"{bounds}"}}"#);
        let secret = data(site.ask(Update, "auth/approle/role/web/secret-id", &body));
        let body = format!(r#"{{"role_id":"web","secret_id":"{}"}}"#, text(&secret, "secret_id"));
        let entered = log_in(&site, 0, "auth/approle/login", &body);
        assert_eq!(entered.is_ok(), enters, "{bounds}: {entered:?}");
    }
}

#[test]
fn a_good_login_forgets_the_wrong_tries_before_it() {
    let site = site("userpass");
    site.ask(Update, "auth/userpass/users/bob", r#"{"password":"pw"}"#).unwrap();
    let log_in = |password: &str| {
        let body = format!(r#"{{"password":"{password}"}}"#);
        log_in(&site, 0, "auth/userpass/login/bob", &body)
    };
    for _ in 0..3 {
        // One more would lock the name.
        (0..4).for_each(|_| assert_eq!(log_in("no").unwrap_err(), wrong()));
        log_in("pw").unwrap();
    }
}
