//! Tests of the second factor of logins, at the times they say.

use std::sync::Arc;
use std::task::{Context, Waker};

use jiff::Timestamp;
use kallisto_auth::{Operation, Path};
use kallisto_engine::Backend;
use kallisto_store::MemoryStore;
use kallisto_totp::TotpKey;

use super::methods::{METHODS, METHODS_MAX};
use super::records::{LAST_METHOD, RULES, RULES_MAX, storage};
use super::secrets::secret_record;
use crate::api::error::{Denial, Error};
use crate::api::request::{Request, TokenText};
use crate::api::response::Response;
use crate::identity::record::IdentityId;
use crate::logins;
use crate::platform::server_info::ServerInfo;
use crate::state::Core;

/// Seconds since 1970.
const START: i64 = 1_000_000;

struct Server(Core);

impl Server {
    /// With a user and a method; a rule asks it of every user.
    fn new() -> Self {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let root = Some("root".to_owned().into());
        pollster::block_on(core.initialize_dev(root, at(START))).unwrap();
        let server = Self(core);
        server.write(START, "sys/auth/userpass", r#"{"type":"userpass"}"#).unwrap();
        server.write(START, "auth/userpass/users/bob", r#"{"password":"pw"}"#).unwrap();
        let made = server.write(START, "identity/mfa/method/totp", r#"{"issuer":"K"}"#).unwrap();
        let method = made["data"]["method_id"].as_str().unwrap().to_owned();
        let body = format!(r#"{{"mfa_method_ids":"{method}","auth_method_types":"userpass"}}"#);
        server.write(START, "identity/mfa/login-enforcement/all", &body).unwrap();
        server
    }

    fn write(&self, secs: i64, path: &str, body: &str) -> Result<serde_json::Value, Error> {
        self.ask(Operation::Update, secs, path, body)
    }

    fn ask(
        &self,
        operation: Operation,
        secs: i64,
        path: &str,
        body: &str,
    ) -> Result<serde_json::Value, Error> {
        let request = Request {
            token: Some(TokenText::new("root")),
            body: body.as_bytes(),
            ..Request::new(operation, Path::decode(path).unwrap(), at(secs))
        };
        match pollster::block_on(self.0.handle(&request))? {
            Response::Logical(logical) => {
                let part = |text: &[u8]| -> serde_json::Value {
                    serde_json::from_slice(text).unwrap_or_default()
                };
                Ok(serde_json::json!({"data": part(&logical.data), "auth": part(&logical.auth)}))
            }
            _ => Ok(serde_json::Value::Null),
        }
    }

    fn log_in(&self, secs: i64) -> Result<serde_json::Value, Error> {
        self.write(secs, "auth/userpass/login/bob", r#"{"password":"pw"}"#)
    }

    fn validate(&self, secs: i64, id: &str) -> Error {
        let body = format!(r#"{{"mfa_request_id":"{id}","mfa_payload":{{"x":["1"]}}}}"#);
        self.write(secs, "sys/mfa/validate", &body).unwrap_err()
    }

    /// Gives bob a key with the method; the method's id, and the key.
    fn factor(&self) -> (String, TotpKey) {
        let login = self.log_in(START).unwrap();
        let people = self.ask(Operation::List, START, "identity/entity/id", "").unwrap();
        let entity = people["data"]["keys"][0].as_str().unwrap();
        let constraint = &login["auth"]["mfa_requirement"]["mfa_constraints"]["all"]["any"][0];
        let method = constraint["id"].as_str().unwrap().to_owned();
        let body = format!(r#"{{"method_id":"{method}","entity_id":"{entity}"}}"#);
        self.write(START, "identity/mfa/method/totp/admin-generate", &body).unwrap();
        let context = self.0.context.load_full().unwrap();
        let record = secret_record(&method, IdentityId::parse(entity).unwrap());
        let record = storage(&context).unwrap().get(&record).unwrap().unwrap();
        (method, TotpKey::decode(&record.value).unwrap())
    }

    /// Logs in and shows a code at once.
    fn enter(&self, secs: i64, method: &str, code: &str) -> Result<serde_json::Value, Error> {
        let id = id_of(&self.log_in(secs).unwrap());
        let body =
            format!(r#"{{"mfa_request_id":"{id}","mfa_payload":{{"{method}":["{code}"]}}}}"#);
        self.write(secs, "sys/mfa/validate", &body)
    }

    fn waiting(&self) -> usize {
        let context = self.0.context.load_full().unwrap();
        storage(&context).unwrap().scan("mfa/pending/").unwrap().len()
    }
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).unwrap()
}

fn id_of(login: &serde_json::Value) -> String {
    assert_eq!(login["auth"]["client_token"], "");
    login["auth"]["mfa_requirement"]["mfa_request_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_login_waits_five_minutes_for_its_second_factor_and_is_then_deleted() {
    let server = Server::new();
    let id = id_of(&server.log_in(START).unwrap());
    let refused = server.validate(START + 299, &id);
    assert!(matches!(refused, Error::Denied(Denial::SecondFactor(_))), "{refused}");
    assert_eq!(server.validate(START + 300, &id), Error::invalid("invalid request ID"));
    let context = server.0.context.load_full().unwrap();
    pollster::block_on(logins::sweep(&context, at(START + 299))).unwrap();
    assert_eq!(server.waiting(), 1);
    pollster::block_on(logins::sweep(&context, at(START + 300))).unwrap();
    assert_eq!(server.waiting(), 0);
}

#[test]
fn so_many_logins_of_one_entity_wait_and_the_oldest_gives_way() {
    let server = Server::new();
    let ids: Vec<String> = (0..20).map(|n| id_of(&server.log_in(START + n).unwrap())).collect();
    assert_eq!(server.waiting(), 16);
    for (n, id) in ids.iter().enumerate() {
        let is_gone = server.validate(START + 30, id) == Error::invalid("invalid request ID");
        assert_eq!(is_gone, n < 4, "{n}");
    }
}

#[test]
fn a_rule_that_cannot_be_read_lets_nobody_in() {
    let server = Server::new();
    let context = server.0.context.load_full().unwrap();
    let kept = storage(&context).unwrap();
    pollster::block_on(kept.put("mfa/enforcement/all", b"rubbish".to_vec())).unwrap();
    assert!(matches!(server.log_in(START), Err(Error::Internal(_))));
}

/// A limit may have been passed by those who wrote at once, and a backup holds whatever it holds.
#[test]
fn every_rule_is_asked_however_many_there_are() {
    let server = Server::new();
    server.ask(Operation::Delete, START, "identity/mfa/login-enforcement/all", "").unwrap();
    let methods = server.ask(Operation::List, START, "identity/mfa/method/totp", "").unwrap();
    let method = methods["data"]["keys"][0].as_str().unwrap();
    let context = server.0.context.load_full().unwrap();
    let kept = storage(&context).unwrap();
    for n in 0..=RULES_MAX {
        let (name, kind) =
            (format!("r{n:04}"), if n == RULES_MAX { "userpass" } else { "approle" });
        let rule = serde_json::json!({
            "name": name, "id": name, "mfa_method_ids": [method], "auth_method_types": [kind],
        });
        let record = format!("{RULES}{name}");
        pollster::block_on(kept.put(&record, rule.to_string().into_bytes())).unwrap();
    }
    assert_eq!(server.log_in(START).unwrap()["auth"]["client_token"], "");
    let listed = server.ask(Operation::List, START, "identity/mfa/login-enforcement", "").unwrap();
    assert_eq!(listed["data"]["keys"].as_array().unwrap().len(), RULES_MAX + 1);
}

/// Starts two writes that wait for each other, and counts those that are refused.
fn refused_of_two(server: &Server, writes: [(&str, &str); 2]) -> usize {
    let context = server.0.context.load_full().unwrap();
    let kept = storage(&context).unwrap();
    let latch = pollster::block_on(Backend::latch(&kept, LAST_METHOD));
    let requests = writes.map(|(path, body)| Request {
        token: Some(TokenText::new("root")),
        body: body.as_bytes(),
        ..Request::new(Operation::Update, Path::decode(path).unwrap(), at(START))
    });
    let mut asked: Vec<_> =
        requests.iter().map(|request| Box::pin(server.0.handle(request))).collect();
    for one in &mut asked {
        let is_over = one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_over, "it waits");
    }
    drop(latch);
    asked.into_iter().filter_map(|one| pollster::block_on(one).err()).count()
}

#[test]
fn of_two_at_once_one_is_over_the_limit_of_rules_and_of_methods() {
    let server = Server::new();
    let context = server.0.context.load_full().unwrap();
    let kept = storage(&context).unwrap();
    let methods = server.ask(Operation::List, START, "identity/mfa/method/totp", "").unwrap();
    let method = methods["data"]["keys"][0].as_str().unwrap();
    // One of each is there already.
    let limits = [(RULES, RULES_MAX), (METHODS, METHODS_MAX)];
    for (folder, most) in limits {
        for n in 2..most {
            let name = format!("{folder}{n}");
            pollster::block_on(kept.put(&name, b"{}".to_vec())).unwrap();
        }
    }
    let rule = format!(r#"{{"mfa_method_ids":"{method}","auth_method_types":"userpass"}}"#);
    let [one, two] = ["one", "two"].map(|name| format!("identity/mfa/login-enforcement/{name}"));
    assert_eq!(refused_of_two(&server, [(&one, &rule), (&two, &rule)]), 1);
    let (path, body) = ("identity/mfa/method/totp", r#"{"issuer":"K"}"#);
    assert_eq!(refused_of_two(&server, [(path, body); 2]), 1);
    for (folder, most) in limits {
        assert_eq!(kept.list(folder).unwrap().len(), most, "{folder}");
    }
    // What is there may be replaced.
    server.write(START, "identity/mfa/login-enforcement/all", &rule).unwrap();
}

/// The number of the period of 30 s that a moment is in.
fn period(secs: i64) -> u64 {
    u64::try_from(secs).unwrap() / 30
}

#[test]
fn a_code_of_a_second_factor_is_good_once() {
    let server = Server::new();
    let (method, key) = server.factor();
    let code = key.code(period(START));
    let entered = server.enter(START, &method, &code).unwrap();
    assert!(entered["auth"]["client_token"].as_str().unwrap().starts_with("hvs."), "{entered}");
    // Of another login too, and while it would be good for a clock that is behind.
    for secs in [START, START + 29] {
        let again = server.enter(secs, &method, &code);
        let Err(Error::Denied(Denial::SecondFactor(why))) = again else { panic!("{again:?}") };
        assert!(why.contains("code already used"), "{why}");
    }
    server.enter(START + 60, &method, &key.code(period(START + 60))).unwrap();
}

#[test]
fn wrong_codes_of_a_second_factor_are_looked_at_five_times_a_period() {
    let server = Server::new();
    let (method, key) = server.factor();
    // None of the periods around, which a clock may be in.
    let near: Vec<String> = (0..6).map(|n| key.code(period(START) + n - 2)).collect();
    let wrong = (0..10).map(|digit| digit.to_string().repeat(6));
    let wrong = wrong.into_iter().find(|code| !near.contains(code)).unwrap();
    let start = START - START % 30;
    for _ in 0..5 {
        let refused = server.enter(start, &method, &wrong).unwrap_err();
        assert!(matches!(refused, Error::Denied(Denial::SecondFactor(_))), "{refused}");
    }
    // Not even a good one is looked at then, whichever login brings it.
    for secs in [start, start + 29] {
        let refused = server.enter(secs, &method, &key.code(period(start)));
        let left = u64::try_from(start + 30 - secs).unwrap();
        assert_eq!(refused.unwrap_err(), Error::TooManyTries { retry_after_secs: left });
    }
    server.enter(start + 30, &method, &key.code(period(start + 30))).unwrap();
}

/// Else a rule would hold no longer for whoever it was made for, and their key be lost.
#[test]
fn an_entity_takes_over_the_second_factor_of_one_that_becomes_part_of_it() {
    let server = Server::new();
    let (method, key) = server.factor();
    let people = server.ask(Operation::List, START, "identity/entity/id", "").unwrap();
    let bob = people["data"]["keys"][0].as_str().unwrap();
    let rule = format!(r#"{{"mfa_method_ids":"{method}","identity_entity_ids":"{bob}"}}"#);
    server.write(START, "identity/mfa/login-enforcement/bob", &rule).unwrap();
    server.ask(Operation::Delete, START, "identity/mfa/login-enforcement/all", "").unwrap();
    let one = server.write(START, "identity/entity", r#"{"name":"one"}"#).unwrap();
    let one = one["data"]["id"].as_str().unwrap();
    let merge = format!(r#"{{"to_entity_id":"{one}","from_entity_ids":"{bob}"}}"#);
    server.write(START, "identity/entity/merge", &merge).unwrap();
    server.enter(START, &method, &key.code(period(START))).unwrap();
    let of_one = format!(r#"{{"method_id":"{method}","entity_id":"{one}"}}"#);
    let again = server.write(START, "identity/mfa/method/totp/admin-generate", &of_one).unwrap();
    assert_eq!(again["data"], serde_json::Value::Null, "there is a key");
    server.write(START, "identity/mfa/method/totp/admin-destroy", &of_one).unwrap();
    let refused = server.enter(START + 60, &method, &key.code(period(START + 60))).unwrap_err();
    let Error::Denied(Denial::SecondFactor(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("not present in entity"), "{why}");
}

#[test]
fn a_rule_is_for_what_is_there() {
    let server = Server::new();
    let (method, _) = server.factor();
    let people = server.ask(Operation::List, START, "identity/entity/id", "").unwrap();
    let entity = people["data"]["keys"][0].as_str().unwrap().to_owned();
    let group = server.write(START, "identity/group", r#"{"name":"staff"}"#).unwrap();
    let group = group["data"]["id"].as_str().unwrap().to_owned();
    let rule = |name: &str, item: &str| {
        let body = format!(r#"{{"mfa_method_ids":"{method}","{name}":["{item}"]}}"#);
        server.write(START, "identity/mfa/login-enforcement/two", &body)
    };
    for (name, item) in [
        ("auth_method_types", "userpass"),
        ("auth_method_types", "approle"),
        ("identity_entity_ids", entity.as_str()),
        ("identity_group_ids", group.as_str()),
    ] {
        assert!(rule(name, item).is_ok(), "{name} {item}");
    }
    for (name, item) in [
        ("auth_method_accessors", "auth_userpass_nope"),
        ("auth_method_types", "userpas"),
        ("auth_method_types", "pki"),
        ("identity_entity_ids", group.as_str()),
        ("identity_group_ids", entity.as_str()),
        ("identity_group_ids", "staff"),
    ] {
        let refused = rule(name, item).unwrap_err().to_string();
        assert!(refused.contains(name) && refused.contains(item), "{refused}");
    }
    // A rule is for logins of the namespaces below, too, and for none of those above.
    server.write(START, "sys/namespaces/team", "{}").unwrap();
    let below = server.write(START, "team/identity/entity", r#"{"name":"below"}"#).unwrap();
    let below = below["data"]["id"].as_str().unwrap();
    rule("identity_entity_ids", below).unwrap();
    let body = format!(r#"{{"mfa_method_ids":"{method}","identity_entity_ids":["{entity}"]}}"#);
    let above = server.write(START, "team/identity/mfa/login-enforcement/two", &body);
    assert!(above.unwrap_err().to_string().contains("identity_entity_ids"));
}

#[test]
fn a_name_is_one_methods_until_it_is_given_up() {
    let server = Server::new();
    let make = |name: &str| {
        let body = format!(r#"{{"issuer":"K","method_name":"{name}"}}"#);
        let made = server.write(START, "identity/mfa/method/totp", &body)?;
        Ok::<_, Error>(made["data"]["method_id"].as_str().unwrap().to_owned())
    };
    let rename = |id: &str, name: &str| {
        let body = format!(r#"{{"method_name":"{name}"}}"#);
        server.write(START, &format!("identity/mfa/method/totp/{id}"), &body)
    };
    let taken = Error::invalid("a method of this name exists");
    let phone = make("Phone").unwrap();
    assert_eq!(make("phone").unwrap_err(), taken);
    let other = make("other").unwrap();
    assert_eq!(rename(&other, "PHONE").unwrap_err(), taken);
    assert!(rename(&phone, "phone").is_ok(), "its own name in another spelling");
    assert_eq!(make("PHONE").unwrap_err(), taken);
    rename(&phone, "card").unwrap();
    assert_eq!(make("card").unwrap_err(), taken);
    rename(&other, "phone").unwrap();
    rename(&other, "").unwrap();
    let third = make("phone").unwrap();
    server.ask(Operation::Delete, START, &format!("identity/mfa/method/totp/{third}"), "").unwrap();
    make("phone").unwrap();
    assert_eq!(rename("none", "x").unwrap_err(), Error::NotFound);
}

#[test]
fn a_method_says_where_it_is_and_keeps_what_is_the_servers_to_say() {
    let server = Server::new();
    server.write(START, "sys/namespaces/team", "{}").unwrap();
    for (prefix, namespace) in [("", ""), ("team/", "team/")] {
        let path = format!("{prefix}identity/mfa/method/totp");
        let body = r#"{"issuer":"K","id":"mine","type":"duo","name":"n","method_name":"m"}"#;
        let made = server.write(START, &path, body).unwrap();
        let id = made["data"]["method_id"].as_str().unwrap().to_owned();
        assert_ne!(id, "mine");
        let read = server.ask(Operation::Read, START, &format!("{path}/{id}"), "").unwrap();
        let shown = |name: &str| read["data"][name].as_str().unwrap().to_owned();
        assert_eq!((shown("id"), shown("type"), shown("name")), (id, "totp".into(), "m".into()));
        assert_eq!(shown("namespace_path"), namespace);
        assert_eq!(shown("namespace_id") == "root", namespace.is_empty());
        assert_eq!(read["data"]["max_validation_attempts"], 5);
    }
    for (attempts, taken) in [(0, Some(5)), (1, Some(1)), (100, Some(100)), (101, None), (-1, None)]
    {
        let body = format!(r#"{{"issuer":"K","max_validation_attempts":{attempts}}}"#);
        let made = server.write(START, "identity/mfa/method/totp", &body);
        let Some(most) = taken else {
            assert!(made.is_err(), "{attempts}");
            continue;
        };
        let id = made.unwrap()["data"]["method_id"].as_str().unwrap().to_owned();
        let path = format!("identity/mfa/method/totp/{id}");
        let read = server.ask(Operation::Read, START, &path, "").unwrap();
        assert_eq!(read["data"]["max_validation_attempts"], most);
    }
}

#[test]
fn a_rule_asks_those_it_names_and_a_code_may_be_given_by_the_name_of_its_method() {
    let server = Server::new();
    let (method, key) = server.factor();
    let named = format!("identity/mfa/method/totp/{method}");
    server.write(START, &named, r#"{"method_name":"phone"}"#).unwrap();
    let people = server.ask(Operation::List, START, "identity/entity/id", "").unwrap();
    let bob = people["data"]["keys"][0].as_str().unwrap().to_owned();
    let group = |name: &str, member: &str| {
        let body = format!(r#"{{"name":"{name}","member_entity_ids":[{member}]}}"#);
        let made = server.write(START, "identity/group", &body).unwrap();
        made["data"]["id"].as_str().unwrap().to_owned()
    };
    let (his, empty) = (group("his", &format!("\"{bob}\"")), group("empty", ""));
    let other = server.write(START, "identity/entity", r#"{"name":"other"}"#).unwrap();
    let other = other["data"]["id"].as_str().unwrap().to_owned();
    server.write(START, "sys/auth/more", r#"{"type":"userpass"}"#).unwrap();
    let accessor_of = |path: &str| {
        let context = server.0.context.load_full().unwrap();
        context.view.mounts.route(path).unwrap().0.entry.accessor.clone()
    };
    let (here, elsewhere) = (accessor_of("auth/userpass/"), accessor_of("auth/more/"));
    for (name, item, asks) in [
        ("auth_method_types", "userpass", true),
        ("auth_method_types", "approle", false),
        ("auth_method_accessors", here.as_str(), true),
        ("auth_method_accessors", elsewhere.as_str(), false),
        ("identity_entity_ids", bob.as_str(), true),
        ("identity_entity_ids", other.as_str(), false),
        ("identity_group_ids", his.as_str(), true),
        ("identity_group_ids", empty.as_str(), false),
    ] {
        let body = format!(r#"{{"mfa_method_ids":"{method}","{name}":["{item}"]}}"#);
        server.write(START, "identity/mfa/login-enforcement/all", &body).unwrap();
        let login = server.log_in(START).unwrap();
        assert_eq!(login["auth"]["client_token"] == "", asks, "{name} {item}");
        server.ask(Operation::Delete, START, "identity/mfa/login-enforcement/all", "").unwrap();
    }
    let body = format!(r#"{{"mfa_method_ids":"{method}","auth_method_types":"userpass"}}"#);
    server.write(START, "identity/mfa/login-enforcement/all", &body).unwrap();
    server.enter(START, "phone", &key.code(period(START))).unwrap();
    // A method without a name is not found by none.
    server.write(START, &named, r#"{"method_name":""}"#).unwrap();
    let refused = server.enter(START + 60, "", &key.code(period(START + 60)));
    assert!(refused.is_err(), "{refused:?}");
}

/// A key of everybody's would let everybody in.
#[test]
fn each_user_has_a_key_and_tries_of_their_own() {
    let server = Server::new();
    let (method, bobs) = server.factor();
    server.write(START, "auth/userpass/users/eve", r#"{"password":"pw"}"#).unwrap();
    let log_in = |secs: i64| {
        let login = server.write(secs, "auth/userpass/login/eve", r#"{"password":"pw"}"#);
        id_of(&login.unwrap())
    };
    let people = || {
        let listed = server.ask(Operation::List, START, "identity/entity/id", "").unwrap();
        let keys = listed["data"]["keys"].as_array().unwrap().clone();
        keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let known = people();
    log_in(START);
    let eve = people().into_iter().find(|id| !known.contains(id)).unwrap();
    let body = format!(r#"{{"method_id":"{method}","entity_id":"{eve}"}}"#);
    let made = server.write(START, "identity/mfa/method/totp/admin-generate", &body).unwrap();
    assert!(made["data"]["url"].is_string(), "she has none yet");
    let context = server.0.context.load_full().unwrap();
    let record = secret_record(&method, IdentityId::parse(&eve).unwrap());
    let record = storage(&context).unwrap().get(&record).unwrap().unwrap();
    let eves = TotpKey::decode(&record.value).unwrap();
    let enter = |secs: i64, code: &str| {
        let id = log_in(secs);
        let body =
            format!(r#"{{"mfa_request_id":"{id}","mfa_payload":{{"{method}":["{code}"]}}}}"#);
        server.write(secs, "sys/mfa/validate", &body)
    };
    let at = START + 300 - START % 30;
    let near: Vec<String> = (0..6)
        .flat_map(|n| [bobs.code(period(at) + n - 2), eves.code(period(at) + n - 2)])
        .collect();
    let wrong = (0..10).map(|digit| digit.to_string().repeat(6));
    let wrong = wrong.into_iter().find(|code| !near.contains(code)).unwrap();
    assert_ne!(bobs.code(period(at)), eves.code(period(at)));
    assert!(enter(at, &bobs.code(period(at))).is_err(), "it is his");
    for _ in 0..4 {
        enter(at, &wrong).unwrap_err();
    }
    let refused = enter(at, &eves.code(period(at))).unwrap_err();
    assert!(matches!(refused, Error::TooManyTries { .. }), "{refused}");
    server.enter(at, &method, &bobs.code(period(at))).unwrap();
    let next = at + 60;
    enter(next, &eves.code(period(next))).unwrap();
    server.write(next, "identity/mfa/method/totp/admin-destroy", &body).unwrap();
    enter(next + 60, &eves.code(period(next + 60))).unwrap_err();
    server.enter(next + 60, &method, &bobs.code(period(next + 60))).unwrap();
}

#[test]
fn the_token_of_a_login_that_was_validated_is_wrapped_for_who_asks_for_that() {
    let server = Server::new();
    let (method, key) = server.factor();
    let wrapping = |path: &str, body: &str| {
        let request = Request {
            body: body.as_bytes(),
            wrap_ttl_secs: 60,
            ..Request::new(Operation::Update, Path::decode(path).unwrap(), at(START))
        };
        match pollster::block_on(server.0.handle(&request)).unwrap() {
            Response::Logical(answer) => answer,
            other => panic!("{other:?}"),
        }
    };
    // What a login asks for has to be read by who logs in, and is no token.
    let login = wrapping("auth/userpass/login/bob", r#"{"password":"pw"}"#);
    assert!(login.wrap_info.is_empty());
    let login: serde_json::Value = serde_json::from_slice(&login.auth).unwrap();
    let id = id_of(&serde_json::json!({ "auth": login }));
    let code = key.code(period(START));
    let body = format!(r#"{{"mfa_request_id":"{id}","mfa_payload":{{"{method}":["{code}"]}}}}"#);
    let answer = wrapping("sys/mfa/validate", &body);
    assert!(answer.auth.is_empty(), "the token itself is told");
    let wrapped: serde_json::Value = serde_json::from_slice(&answer.wrap_info).unwrap();
    let body = format!(r#"{{"token":"{}"}}"#, wrapped["token"].as_str().unwrap());
    let opened = server.write(START, "sys/wrapping/unwrap", &body).unwrap();
    assert_eq!(opened["auth"]["metadata"]["username"], "bob");
}

#[test]
fn methods_are_listed_by_their_ids() {
    let server = Server::new();
    let (method, _) = server.factor();
    let body = r#"{"issuer":"K","name":"none"}"#;
    let made = server.write(START, "identity/mfa/method/totp", body).unwrap();
    let second = made["data"]["method_id"].as_str().unwrap().to_owned();
    let listed = server.ask(Operation::List, START, "identity/mfa/method/totp", "").unwrap();
    let mut expected = [method, second.clone()];
    expected.sort();
    assert_eq!(listed["data"]["keys"], serde_json::json!(expected));
    let shown = &listed["data"]["key_info"][&second];
    assert_eq!((&shown["type"], &shown["name"]), (&"totp".into(), &"".into()), "{shown}");
}
