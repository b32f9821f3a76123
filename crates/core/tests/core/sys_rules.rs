//! What single routes of the system refuse, keep apart and answer: one rule a test.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_core::json::{Json, Map};
use kallisto_core::{
    Core, Error, InitSpec, Initialized, Operation, Path, Request, Response, RouteAccess, ServerInfo,
};
use kallisto_engine::BoxFuture;
use kallisto_engine::far_end::{
    FarEndAnswer, FarEndCall, FarEndFailure, FarEndProgress, FarEndStatus, FarEnds, NoFarEnds,
};
use kallisto_store::MemoryStore;

use crate::support::{Site, TOKEN, ask, ask_as, data, request_of, whole_core};

use Operation::{Delete, List, Read, Update};

/// An answer without an envelope.
fn bare(answer: Result<Response, Error>) -> (u16, Map) {
    match answer.unwrap() {
        Response::Bare { code, body: Json::Object(map) } => (code, map),
        other => panic!("{other:?}"),
    }
}

fn refusal(answer: Result<Response, Error>) -> String {
    match answer {
        Err(Error::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// A request without a token.
fn ask_as_anyone(
    core: &Core,
    operation: Operation,
    path: &str,
    body: &str,
    query: &[(&str, &str)],
) -> Result<Response, Error> {
    let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    let request = Request {
        body: body.as_bytes(),
        query: query.iter().map(own).collect(),
        ..Request::new(operation, Path::decode(path).unwrap(), Timestamp::UNIX_EPOCH)
    };
    pollster::block_on(core.handle(&request))
}

/// An unsealed core whose key takes two of three shares.
fn core_of_three_shares() -> (Core, Vec<String>) {
    let info = ServerInfo { unauthenticated_rekey: RouteAccess::Open, ..ServerInfo::default() };
    let core = whole_core(Arc::new(MemoryStore::new()), info);
    let root_token = Some(TOKEN.to_owned().into());
    let spec = InitSpec { shares: 3, threshold: 2, root_token, mount_kv: None };
    let made = pollster::block_on(core.initialize(&spec, Timestamp::UNIX_EPOCH)).unwrap();
    let keys = Initialized::hex(&made.keys);
    for key in &keys[..2] {
        ask(&core, Update, "sys/unseal", &format!(r#"{{"key":"{key}"}}"#)).unwrap();
    }
    (core, keys)
}

#[test]
fn whoever_has_no_token_cancels_a_rekey_by_its_nonce_alone() {
    let (core, _) = core_of_three_shares();
    let begin = || {
        let body = r#"{"secret_shares":1,"secret_threshold":1}"#;
        let (_, begun) = bare(ask(&core, Update, "sys/rekey/init", body));
        begun["nonce"].as_str().unwrap().to_owned()
    };
    let cancel =
        |body: &str, query: &[_]| ask_as_anyone(&core, Delete, "sys/rekey/init", body, query);
    let is_begun = || bare(ask(&core, Read, "sys/rekey/init", "")).1["started"] == true.into();
    let nonce = begin();
    assert!(cancel("", &[]).is_err() && cancel(r#"{"nonce":"other"}"#, &[]).is_err());
    assert!(cancel("", &[("nonce", "other")]).is_err() && is_begun());
    assert!(cancel(&format!(r#"{{"nonce":"{nonce}"}}"#), &[]).is_ok() && !is_begun());
    let nonce = begin();
    assert!(cancel("", &[("nonce", &nonce)]).is_ok() && !is_begun());
    begin();
    assert!(ask(&core, Delete, "sys/rekey/init", "").is_ok() && !is_begun(), "root needs none");
}

#[test]
fn a_rekey_says_how_many_shares_it_takes_before_it_begins() {
    let (core, _) = core_of_three_shares();
    let (_, status) = bare(ask(&core, Read, "sys/rekey/init", ""));
    assert_eq!((&status["required"], &status["started"]), (&2_u64.into(), &false.into()));
}

#[test]
fn a_key_for_another_operation_is_refused_unless_it_is_empty() {
    let site = Site::open(1 << 20);
    for (path, names) in [
        ("sys/rekey/init", ["recovery_pgp_keys", "root_token_pgp_key", "pgp_key"]),
        ("sys/generate-root/attempt", ["pgp_keys", "recovery_pgp_keys", "root_token_pgp_key"]),
    ] {
        for name in names {
            let with = |value: &str| {
                let body =
                    format!(r#"{{"secret_shares":1,"secret_threshold":1,"{name}":{value}}}"#);
                let answer = site.ask(Update, path, &body);
                let _ = site.ask(Delete, path, "");
                answer
            };
            for value in [r#""a""#, r#"["a"]"#, "7"] {
                let why = refusal(with(value));
                assert_eq!(why, format!("{name}: no parameter of this operation"), "{value}");
            }
            for value in [r#""""#, "[]", "null"] {
                assert!(with(value).is_ok(), "{path} {name} {value}");
            }
        }
    }
}

#[test]
fn fields_about_recovery_are_refused_where_people_hold_the_unseal_key() {
    let core = whole_core(Arc::new(MemoryStore::new()), ServerInfo::default());
    let init = |more: &str| {
        let body = format!(r#"{{"secret_shares":1,"secret_threshold":1{more}}}"#);
        ask_as_anyone(&core, Update, "sys/init", &body, &[])
    };
    for (more, named) in [
        (r#","recovery_shares":1"#, "recovery_shares"),
        (r#","recovery_threshold":1"#, "recovery_threshold"),
        (r#","recovery_pgp_keys":["a"]"#, "recovery_pgp_keys"),
        (r#","recovery_shares":1,"recovery_pgp_keys":["a"]"#, "recovery_shares,recovery_pgp_keys"),
    ] {
        let why = format!("parameters {named} not applicable to seal type shamir");
        assert_eq!(refusal(init(more)), why);
    }
    let none = r#","recovery_shares":0,"recovery_threshold":0,"recovery_pgp_keys":[]"#;
    assert!(init(none).is_ok());
}

#[test]
fn a_root_token_is_hidden_by_the_password_that_was_brought() {
    let site = Site::open(1 << 20);
    let otp = "o".repeat(28);
    let start = |otp: &str| {
        let _ = site.ask(Delete, "sys/generate-root/attempt", "");
        bare(site.ask(Update, "sys/generate-root/attempt", &format!(r#"{{"otp":"{otp}"}}"#))).1
    };
    let length = start("")["otp"].as_str().unwrap().len();
    assert!(length > 0, "one is drawn where none was brought");
    let otp = if length == otp.len() { otp } else { "o".repeat(length) };
    let begun = start(&otp);
    assert_eq!(begun["otp"], "".into(), "whoever brought one is told none");
    let nonce = begun["nonce"].as_str().unwrap();
    let body = format!(r#"{{"key":"{}","nonce":"{nonce}"}}"#, site.keys[0]);
    let (_, made) = bare(site.ask(Update, "sys/generate-root/update", &body));
    let encoded = made["encoded_token"].as_str().unwrap();
    let decode = |encoded: &str, otp: &str| {
        let body = format!(r#"{{"encoded_token":"{encoded}","otp":"{otp}"}}"#);
        site.ask(Update, "sys/decode-token", &body)
    };
    let token = data(decode(encoded, &otp))["token"].as_str().unwrap().to_owned();
    let looked = ask_as(&site.core, &token, 0, Read, "auth/token/lookup-self", "");
    assert!(looked.is_ok());
    for (encoded, otp) in [("", &*otp), (encoded, ""), ("", "")] {
        let why = refusal(decode(encoded, otp));
        assert_eq!(why, "provided 'encoded_token' or 'otp' is empty");
    }
}

#[test]
fn a_sealed_server_is_initialized_and_says_so_to_load_balancers() {
    let site = Site::open(1 << 20);
    let health = |core: &Core| bare(ask_as_anyone(core, Read, "sys/health", "", &[]));
    assert_eq!(health(&site.core).0, 200);
    pollster::block_on(site.core.seal()).unwrap();
    let (code, told) = health(&site.core);
    assert_eq!((code, &told["initialized"], &told["sealed"]), (503, &true.into(), &true.into()));
    let blank = whole_core(Arc::new(MemoryStore::new()), ServerInfo::default());
    let (code, told) = health(&blank);
    assert_eq!((code, &told["initialized"]), (501, &false.into()));
}

#[test]
fn each_password_policy_is_kept_by_its_name_and_makes_passwords_by_its_own_rules() {
    let site = Site::open(1 << 20);
    let rules = |length: usize, set: &str| {
        format!("length = {length}\nrule \"charset\" {{ charset = \"{set}\" }}")
    };
    for (name, length, set) in [("short", 8, "ab"), ("long", 40, "xyz")] {
        let body = Json::object([("policy", rules(length, set).into())]).to_text();
        let path = format!("sys/policies/password/{name}");
        site.ask(Update, &path, std::str::from_utf8(&body).unwrap()).unwrap();
    }
    for (name, length, set) in [("short", 8, "ab"), ("long", 40, "xyz")] {
        let path = format!("sys/policies/password/{name}");
        assert_eq!(data(site.ask(Read, &path, ""))["policy"], rules(length, set).into());
        let made = data(site.ask(Read, &format!("{path}/generate"), ""))["password"].clone();
        let made = made.as_str().unwrap();
        assert!(made.len() == length && made.chars().all(|c| set.contains(c)), "{made}");
    }
    site.ask(Delete, "sys/policies/password/short", "").unwrap();
    let left = data(site.ask(List, "sys/policies/password", ""));
    assert_eq!(left["keys"], Json::strings(["long"]));
}

#[test]
fn a_mount_stays_in_its_class_when_it_is_moved() {
    let site = Site::open(1 << 20);
    site.ask(Update, "sys/auth/up", r#"{"type":"userpass"}"#).unwrap();
    let moved = |from: &str, to: &str| {
        site.ask(Update, "sys/remount", &format!(r#"{{"from":"{from}","to":"{to}"}}"#))
    };
    for (from, to) in [("secret", "auth/secret"), ("auth/up", "up")] {
        let why = refusal(moved(from, to));
        assert_eq!(why, format!("cannot remount to destination {to}/"));
    }
    assert!(moved("secret", "other").is_ok() && moved("auth/up", "auth/other").is_ok());
}

#[test]
fn a_mount_is_made_at_a_path_as_it_is_asked_for_and_no_other_spelling() {
    let site = Site::open(1 << 20);
    for path in ["a%2562", "a%252fb", "a%25"] {
        let why = refusal(site.ask(Update, &format!("sys/mounts/{path}"), r#"{"type":"kv"}"#));
        assert!(why.ends_with("the path is not canonical"), "{path}: {why}");
    }
    assert!(site.ask(Update, "sys/mounts/ab", r#"{"type":"kv"}"#).is_ok());
}

#[test]
fn the_page_before_a_login_shows_what_is_listed_for_it_and_no_more() {
    let site = Site::open(1 << 20);
    for path in ["shown", "hidden"] {
        site.ask(Update, &format!("sys/auth/{path}"), r#"{"type":"userpass"}"#).unwrap();
    }
    let tune = r#"{"listing_visibility":"unauth"}"#;
    site.ask(Update, "sys/mounts/auth/shown/tune", tune).unwrap();
    let told = data(ask_as_anyone(&site.core, Read, "sys/internal/ui/mounts", "", &[]));
    let auth = told["auth"].as_object().unwrap();
    assert_eq!(auth.keys().collect::<Vec<_>>(), ["shown/"]);
    assert_eq!(told["secret"], Json::Object(Map::new()));
    let shown: Vec<_> = auth["shown/"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(shown, ["description", "options", "type"]);
}

#[test]
fn a_banner_is_shown_until_its_end_and_not_at_it() {
    let site = Site::open(1 << 20);
    let banner = |until: &str| {
        let body = format!(r#"{{"banner":{{"text":"x","until":"{until}"}}}}"#);
        site.ask(Update, "sys/config/ui/settings", &body).unwrap();
        let told = data(ask_as_anyone(&site.core, Read, "sys/internal/ui/config", "", &[]));
        told["banner"] != Json::Null
    };
    assert!(banner("1970-01-01T00:00:01Z") && !banner("1970-01-01T00:00:00Z"));
    assert!(banner(""), "it has no end");
}

#[test]
fn metrics_for_prometheus_are_written_where_they_are_enabled() {
    let asked = |serves_prometheus: bool, format: &str| {
        let info = ServerInfo { serves_prometheus, ..ServerInfo::default() };
        let core = whole_core(Arc::new(MemoryStore::new()), info);
        let query = [("format".to_owned(), format.to_owned())].to_vec();
        let path = Path::decode("sys/metrics").unwrap();
        core.open_metrics(&Request { query, ..Request::new(Read, path, Timestamp::UNIX_EPOCH) })
    };
    assert!(matches!(asked(true, "prometheus"), Ok(Response::Text { .. })));
    assert_eq!(refusal(asked(false, "prometheus")), "prometheus is not enabled");
    assert!(matches!(asked(false, ""), Ok(Response::Bare { .. })));
}

#[test]
fn a_namespace_is_named_without_slashes_and_reached_from_the_one_above() {
    let site = Site::open(1 << 20);
    site.ask(Update, "sys/namespaces/a", "").unwrap();
    let inside = |operation, path: &str, body: &str| {
        let request = request_of(TOKEN, 0, operation, path, body);
        pollster::block_on(site.core.handle(&Request { namespace: "a/", ..request }))
    };
    inside(Update, "sys/namespaces/b", "").unwrap();
    assert!(inside(Read, "sys/namespaces/b", "").is_ok());
    for (operation, body) in [(Read, ""), (Update, "{}"), (Delete, "")] {
        let why = refusal(site.ask(operation, "sys/namespaces/a/b", body));
        assert_eq!(why, "namespace name cannot contain /", "{operation:?}");
    }
}

#[test]
fn a_locked_namespace_is_opened_by_its_key_or_by_who_may_without_one() {
    let site = Site::open(1 << 20);
    site.ask(Update, "sys/namespaces/a", "").unwrap();
    let lock = || {
        let told = data(site.ask(Update, "sys/namespaces/api-lock/lock/a", ""));
        told["unlock_key"].as_str().unwrap().to_owned()
    };
    let unlock = |body: &str| site.ask(Update, "sys/namespaces/api-lock/unlock/a", body);
    let key = lock();
    assert_eq!(refusal(unlock(r#"{"unlock_key":"other"}"#)), "incorrect unlock key");
    let opened = unlock(&format!(r#"{{"unlock_key":"{key}"}}"#)).unwrap();
    assert!(matches!(opened, Response::Empty), "{opened:?}");
    assert!(refusal(unlock("{}")).ends_with("is not locked"));
    // Without the key it takes sudo.
    for (name, capabilities) in [("weak", "\"update\""), ("strong", "\"update\", \"sudo\"")] {
        let rule = format!("path \"sys/namespaces/*\" {{ capabilities = [{capabilities}] }}");
        let body = Json::object([("policy", rule.into())]).to_text();
        let body = std::str::from_utf8(&body).unwrap();
        site.ask(Update, &format!("sys/policies/acl/{name}"), body).unwrap();
        let body = format!(r#"{{"id":"{name}","policies":["{name}"]}}"#);
        site.ask(Update, "auth/token/create", &body).unwrap();
    }
    let path = "sys/namespaces/api-lock/unlock/a";
    let unlock_as = |token: &str| ask_as(&site.core, token, 0, Update, path, "{}");
    lock();
    assert_eq!(refusal(unlock_as("weak")), "provided empty key");
    assert!(unlock_as("strong").is_ok());
    for body in ["{}", r#"{"unlock_key":""}"#] {
        lock();
        match unlock(body).unwrap() {
            Response::Logical(told) => assert!(told.warnings[0].contains("sudo"), "{told:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn policies_are_listed_by_what_their_names_begin_with() {
    let site = Site::open(1 << 20);
    for name in ["team", "team/a", "team/b/c", "teams/d"] {
        let body = r#"{"policy":"path \"x\" { capabilities = [\"read\"] }"}"#;
        site.ask(Update, &format!("sys/policies/acl/{name}"), body).unwrap();
    }
    let keys = |path: &str| Json::Object(data(site.ask(List, path, ""))).to_text();
    assert_eq!(keys("sys/policies/acl/team"), br#"{"keys":["team/a","team/b/c"]}"#);
    assert_eq!(keys("sys/policies/acl/team/b"), br#"{"keys":["team/b/c"]}"#);
    let both = br#"{"keys":["teams/d"],"policies":["teams/d"]}"#;
    assert_eq!(keys("sys/policy/teams"), both);
    assert_eq!(keys("sys/policy/root"), br#"{"policies":null}"#);
    for none in ["sys/policies/acl/none", "sys/policies/acl/team/a"] {
        assert_eq!(site.ask(List, none, "").unwrap_err(), Error::NotFound, "{none}");
    }
}

#[test]
fn the_minutes_that_are_remembered_are_from_one_to_sixty() {
    let site = Site::open(1 << 20);
    let asked = |minutes: &str| {
        let request = request_of(TOKEN, 7200, Read, "sys/kallisto/metrics", "");
        let query = vec![("minutes".to_owned(), minutes.to_owned())];
        pollster::block_on(site.core.handle(&Request { query, ..request }))
    };
    for minutes in ["1", "60"] {
        assert!(data(asked(minutes)).contains_key("series"), "{minutes}");
    }
    for minutes in ["0", "61", "-1"] {
        assert_eq!(refusal(asked(minutes)), "minutes must be from 1 to 60");
    }
}

static NONE: NoFarEnds = NoFarEnds;

/// Two far ends, of which one is there.
struct TwoFarEnds(Vec<FarEndStatus>);

impl FarEnds for TwoFarEnds {
    fn ask(&self, call: FarEndCall) -> BoxFuture<'_, Result<FarEndAnswer, FarEndFailure>> {
        NONE.ask(call)
    }

    fn begin(&self, _: &str, _: FarEndCall) -> bool {
        false
    }

    fn take(&self, id: &str) -> FarEndProgress {
        NONE.take(id)
    }

    fn close(&self, _: &str, _: Option<&str>) {}

    fn check(&self, _: &str, name: &str) -> BoxFuture<'_, Result<(), FarEndFailure>> {
        let is_there = name == "there";
        let failure = || FarEndFailure::Unreachable("nobody answers".into());
        Box::pin(std::future::ready(is_there.then_some(()).ok_or_else(failure)))
    }

    fn statuses(&self) -> Vec<FarEndStatus> {
        self.0.clone()
    }

    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        NONE.pause(time)
    }
}

#[test]
fn far_ends_are_shown_with_their_mount_and_tried_where_that_is_asked() {
    let site = Site::open(1 << 20);
    site.ask(Update, "sys/namespaces/team", "").unwrap();
    let below = request_of(TOKEN, 0, Update, "sys/mounts/kv", r#"{"type":"kv"}"#);
    pollster::block_on(site.core.handle(&Request { namespace: "team/", ..below })).unwrap();
    let accessor = |namespace: &str, path: &str| {
        let asked = request_of(TOKEN, 0, Read, "sys/mounts", "");
        let mounts = data(pollster::block_on(site.core.handle(&Request { namespace, ..asked })));
        mounts[path].as_object().unwrap()["accessor"].as_str().unwrap().to_owned()
    };
    let status = |mount: String, name: &str| FarEndStatus {
        mount,
        name: name.to_owned(),
        protocol: "postgresql",
        open: 1,
        waiting: 2,
        calls: 3,
        failures: 4,
        micros: 5,
        is_broken: true,
        last_failure: "it hung up".to_owned(),
    };
    let all =
        vec![status(accessor("", "secret/"), "there"), status(accessor("team/", "kv/"), "gone")];
    let Site { store, core, keys } = site;
    let site = Site { store, core: core.with_far_ends(Arc::new(TwoFarEnds(all))), keys };
    let shown = |query: &[(&str, &str)]| {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let asked = request_of(TOKEN, 0, Read, "sys/kallisto/far-ends", "");
        let asked = Request { query: query.iter().map(own).collect(), ..asked };
        match &data(pollster::block_on(site.core.handle(&asked)))["far_ends"] {
            Json::Array(all) => {
                all.iter().map(|one| one.as_object().unwrap().clone()).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let seen = shown(&[]);
    let mounts: Vec<_> = seen.iter().map(|one| one["mount"].clone()).collect();
    assert_eq!(mounts, ["secret/".into(), "team/kv/".into()]);
    assert_eq!(seen[0]["last_failure"], "it hung up".into());
    let counts =
        ["open", "waiting", "calls", "failures", "micros"].map(|name| seen[0][name].clone());
    assert_eq!(counts, [1_u64, 2, 3, 4, 5].map(Json::from));
    assert!(!seen[0].contains_key("answers"), "nobody was asked");
    let tried = shown(&[("try", "true")]);
    let answers: Vec<_> = tried.iter().map(|one| one["answers"].clone()).collect();
    assert_eq!(answers, [true.into(), false.into()]);
    assert!(tried[1]["error"].as_str().unwrap().contains("nobody answers"), "{:?}", tried[1]);
}

#[test]
fn options_that_a_mount_is_tuned_to_are_kept_beside_those_it_has() {
    let site = Site::open(1 << 20);
    let options = || data(site.ask(Read, "sys/mounts/secret/tune", ""))["options"].clone();
    let tune = |body: &str| site.ask(Update, "sys/mounts/secret/tune", body).unwrap();
    tune(r#"{"options":{"owner":"ada","cost":7,"version":"2"}}"#);
    let all = [("cost", "7".into()), ("owner", "ada".into()), ("version", "2".into())];
    assert_eq!(options(), Json::object(all));
    tune(r#"{"options":{"cost":"","team":"x"}}"#);
    tune(r#"{"options":{}}"#);
    tune(r#"{"options":null,"description":"d"}"#);
    let all = [("owner", "ada".into()), ("team", "x".into()), ("version", "2".into())];
    assert_eq!(options(), Json::object(all));
}

#[test]
fn a_list_of_a_mount_that_is_emptied_is_not_there_any_more() {
    let site = Site::open(1 << 20);
    let names = [
        "allowed_response_headers",
        "audit_non_hmac_request_keys",
        "audit_non_hmac_response_keys",
        "passthrough_request_headers",
    ];
    let shown = || data(site.ask(Read, "sys/mounts/secret/tune", ""));
    for (name, empty) in names.iter().zip(["\"\"", "[]", "\"\"", "[]"]) {
        let tune = |value: &str| {
            let body = format!(r#"{{"{name}":{value}}}"#);
            site.ask(Update, "sys/mounts/secret/tune", &body).unwrap();
        };
        tune("\"a,b\"");
        assert_eq!(shown()[*name], Json::strings(["a", "b"]));
        tune(empty);
        assert!(!shown().contains_key(*name), "{name}");
    }
    let body = r#"{"type":"kv","config":{"audit_non_hmac_request_keys":[]}}"#;
    site.ask(Update, "sys/mounts/kv", body).unwrap();
    let mounted = data(site.ask(Read, "sys/mounts/kv", ""));
    assert!(!mounted["config"].as_object().unwrap().contains_key(names[1]));
}
