//! What clients of others met: answers that they decide by, through the pipeline.

use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Error, Expected, Operation, Response};

use crate::logins::{site, text};
use crate::support::{Site, ask_as, data};

use Operation::{Delete, List, Read, Update};

fn auth(answer: Result<Response, Error>) -> (Map, Vec<String>) {
    match answer.unwrap() {
        Response::Logical(reply) => (json::parse_object(&reply.auth).unwrap(), reply.warnings),
        other => panic!("{other:?}"),
    }
}

/// What a mount says of its leases.
fn leases(site: &Site, tune: &str) -> (Json, Json) {
    let shown = data(site.ask(Read, tune, ""));
    (shown["default_lease_ttl"].clone(), shown["max_lease_ttl"].clone())
}

/// The command line sends every flag, those that were not given as the empty text.
#[test]
fn an_empty_text_leaves_a_lease_and_the_word_system_resets_it() {
    let site = site("userpass");
    let system = (Json::from(2_764_800_u64), Json::from(2_764_800_u64));
    for tune in [
        "sys/mounts/secret/tune",
        "sys/auth/userpass/tune",
        "sys/mounts/auth/userpass/tune",
        "sys/auth/token/tune",
    ] {
        let set = |body: &str| site.ask(Update, tune, body).unwrap();
        set(r#"{"default_lease_ttl":"5m","max_lease_ttl":"10m"}"#);
        let tuned = (Json::from(300_u64), Json::from(600_u64));
        for leaves in [
            r#"{"default_lease_ttl":"","max_lease_ttl":""}"#,
            r#"{"default_lease_ttl":null,"max_lease_ttl":null}"#,
            r#"{"description":"d","default_lease_ttl":"","max_lease_ttl":""}"#,
        ] {
            set(leaves);
            assert!(leases(&site, tune) == tuned, "{tune} {leaves}");
        }
        set(r#"{"default_lease_ttl":"","max_lease_ttl":"system"}"#);
        assert!(leases(&site, tune) == (tuned.0, system.1.clone()), "{tune}");
        set(r#"{"default_lease_ttl":"system","max_lease_ttl":""}"#);
        assert!(leases(&site, tune) == system, "{tune}");
    }
    // The bound that is left holds: this is what a tune by the command line lifted.
    site.ask(Update, "sys/auth/token/tune", r#"{"max_lease_ttl":"10m"}"#).unwrap();
    site.ask(Update, "sys/auth/token/tune", r#"{"max_lease_ttl":""}"#).unwrap();
    let (made, warnings) = auth(site.ask(Update, "auth/token/create", r#"{"ttl":"240h"}"#));
    assert!(made["lease_duration"] == Json::from(600_u64) && warnings.len() == 1);
}

#[test]
fn an_empty_text_leaves_the_rules_of_lockout() {
    let site = site("userpass");
    let tune = "sys/auth/userpass/tune";
    let rules = r#"{"lockout_threshold":"7","lockout_duration":"20m",
        "lockout_counter_reset_duration":"30m","lockout_disable":true}"#;
    let ask = |rules: &str| {
        site.ask(Update, tune, &format!(r#"{{"user_lockout_config":{rules}}}"#)).unwrap();
        data(site.ask(Read, tune, ""))
    };
    let before = ask(rules);
    let empty = r#"{"lockout_threshold":"","lockout_duration":"",
        "lockout_counter_reset_duration":"","lockout_disable":""}"#;
    assert!(before["user_lockout_threshold"] == Json::from(7_u64));
    assert!(ask(empty) == before && ask("{}") == before);
}

#[test]
fn a_verification_that_begins_again_tells_its_new_nonce() {
    let site = Site::open(1 << 20);
    for family in ["sys/rekey", "sys/rotate/root"] {
        let spec = r#"{"secret_shares":3,"secret_threshold":2,"require_verification":true}"#;
        let ask = |operation, verb: &str, body: &str| match site
            .ask(operation, &format!("{family}/{verb}"), body)
            .unwrap()
        {
            Response::Bare { body: Json::Object(body), .. } => body,
            other => data(Ok(other)),
        };
        let started = ask(Update, "init", spec);
        let give = format!(r#"{{"key":"{}","nonce":"{}"}}"#, site.keys[0], text(&started, "nonce"));
        let made = ask(Update, "update", &give);
        let nonce = text(&made, "verification_nonce").to_owned();
        let Json::Array(keys) = &made["keys"] else { panic!("no keys") };
        let share = format!(r#"{{"key":"{}","nonce":"{nonce}"}}"#, keys[0].as_str().unwrap());
        assert!(ask(Update, "verify", &share)["progress"] == Json::from(1_u64));
        let again = ask(Delete, "verify", "");
        assert_ne!(text(&again, "nonce"), nonce);
        assert!(again == ask(Read, "verify", ""));
        for (field, value) in [("t", 2), ("n", 3), ("progress", 0)] {
            assert!(again[field] == Json::from(u64::from(value as u8)), "{family} {field}");
        }
        assert!(again["started"] == Json::from(true));
        site.ask(Delete, &format!("{family}/init"), "").unwrap();
    }
}

#[test]
fn there_are_no_backed_up_keys() {
    let site = Site::open(1 << 20);
    let none = Some(Error::Invalid("no backed-up keys found".to_owned()));
    for path in [
        "sys/rekey/backup",
        "sys/rekey/recovery-key-backup",
        "sys/rekey-recovery-key/backup",
        "sys/rotate/root/backup",
        "sys/rotate/recovery/backup",
    ] {
        assert_eq!(site.ask(Read, path, "").err(), none, "{path}");
        assert!(matches!(site.ask(Delete, path, ""), Ok(Response::Empty)), "{path}");
    }
}

#[test]
fn a_missing_role_of_approle_is_told_as_clients_look_for_it() {
    let site = site("approle");
    let ask = |operation, part: &str, body: &str| {
        site.ask(operation, &format!("auth/approle/role/nope/{part}"), body).err()
    };
    let unknown = Some(Error::Expected(Expected::NoRoleOfSecretId("nope".to_owned())));
    for (part, body) in [
        ("secret-id/lookup", r#"{"secret_id":"x"}"#),
        ("secret-id/destroy", r#"{"secret_id":"x"}"#),
        ("secret-id-accessor/lookup", r#"{"secret_id_accessor":"x"}"#),
        ("secret-id-accessor/destroy", r#"{"secret_id_accessor":"x"}"#),
    ] {
        assert_eq!(ask(Update, part, body), unknown, "{part}");
    }
    let missing = Some(Error::Expected(Expected::NoRole("nope".to_owned())));
    for (part, body) in [
        ("secret-id", "{}"),
        ("custom-secret-id", r#"{"secret_id":"x"}"#),
        ("role-id", r#"{"role_id":"x"}"#),
        ("policies", r#"{"token_policies":"x"}"#),
        ("bind-secret-id", r#"{"bind_secret_id":true}"#),
    ] {
        assert_eq!(ask(Update, part, body), missing, "{part}");
    }
    // A request that is wrong by itself is told so first, and a list is a list.
    let asks = Some(Error::Invalid("missing secret_id".to_owned()));
    assert_eq!(ask(Update, "secret-id/lookup", "{}"), asks);
    assert!(matches!(ask(List, "secret-id", ""), Some(Error::Invalid(_))));
}

#[test]
fn a_delete_names_its_secret_id_by_a_parameter() {
    let site = site("approle");
    let role = "auth/approle/role/web";
    site.ask(Update, role, "{}").unwrap();
    let policies = format!("{role}/policies");
    site.ask(Update, &policies, r#"{"token_policies":["z","A","a","z"]}"#).unwrap();
    assert!(data(site.ask(Read, &policies, ""))["token_policies"] == Json::strings(["a", "z"]));
    for (verb, field) in [("secret-id", "secret_id"), ("secret-id-accessor", "secret_id_accessor")]
    {
        let made = data(site.ask(Update, &format!("{role}/secret-id"), "{}"));
        let path = format!("{role}/{verb}/destroy");
        let body = format!(r#"{{"{field}":"{}"}}"#, text(&made, field));
        let asked = Some(Error::Invalid(format!("missing {field}")));
        assert_eq!(site.ask(Delete, &path, &body).err(), asked);
        let mut request = crate::support::request_of("root", 0, Delete, &path, "");
        request.query = vec![(field.to_owned(), text(&made, field).to_owned())];
        pollster::block_on(site.core.handle(&request)).unwrap();
        let listed = site.ask(List, &format!("{role}/secret-id"), "");
        assert_eq!(listed.err(), Some(Error::NotFound), "{verb}");
    }
}

#[test]
fn a_backup_that_may_not_be_is_told_as_clients_look_for_it() {
    let site = Site::open(1 << 20);
    site.ask(Update, "sys/mounts/transit", r#"{"type":"transit"}"#).unwrap();
    let key = |name: &str, body: &str| {
        site.ask(Update, &format!("transit/keys/{name}"), body).unwrap();
        site.ask(Read, &format!("transit/backup/{name}"), "")
    };
    let refused = |why: &str| Some(Error::Expected(Expected::NoBackup(why.to_owned())));
    assert_eq!(key("a", "{}").err(), refused("exporting is disallowed on the policy"));
    let shown = key("b", r#"{"exportable":true}"#);
    assert_eq!(shown.err(), refused("plaintext backup is disallowed on the policy"));
    let backup = data(key("c", r#"{"exportable":true,"allow_plaintext_backup":true}"#));
    let body = format!(r#"{{"backup":"{}"}}"#, text(&backup, "backup"));
    for path in ["transit/restore", "transit/restore/c"] {
        let taken = Some(Error::Expected(Expected::KeyExists("c".to_owned())));
        assert_eq!(site.ask(Update, path, &body).err(), taken, "{path}");
    }
    site.ask(Update, "transit/restore/d", &body).unwrap();
    // What is wrong by itself stays the caller's mistake.
    let bad = site.ask(Update, "transit/restore", r#"{"backup":"bogus"}"#);
    assert!(matches!(bad, Err(Error::Invalid(_))));
    assert!(matches!(site.ask(Read, "transit/backup/none", ""), Err(Error::Invalid(_))));
}

#[test]
fn a_time_that_is_left_is_told_in_the_nearest_second_and_is_none_only_at_the_end() {
    let site = Site::open(1 << 20);
    let (made, _) = auth(site.ask(Update, "auth/token/create", r#"{"ttl":"10s"}"#));
    let token = text(&made, "client_token");
    let look_up = |millis: i64| {
        let mut request = crate::support::request_of(token, 0, Read, "auth/token/lookup-self", "");
        request.now = jiff::Timestamp::from_millisecond(millis).unwrap();
        data(pollster::block_on(site.core.handle(&request)))["ttl"].clone()
    };
    for (millis, left) in [(0, 10_u64), (1, 10), (500, 10), (501, 9), (1499, 9), (9999, 1)] {
        assert!(look_up(millis) == Json::from(left), "{millis}");
    }
}

#[test]
fn a_renewal_that_is_capped_warns() {
    let site = Site::open(1 << 20);
    let body = r#"{"ttl":"10m","explicit_max_ttl":"20m"}"#;
    let (made, _) = auth(site.ask(Update, "auth/token/create", body));
    let (token, accessor) = (text(&made, "client_token"), text(&made, "accessor"));
    let warned = |asker: &str, path: &str, body: &str| {
        auth(ask_as(&site.core, asker, 0, Update, path, body)).1
    };
    let expected = "TTL of \"5h\" exceeded the effective max_ttl of \"20m\"; TTL value is capped \
                    accordingly";
    let by_token = format!(r#"{{"token":"{token}","increment":"5h"}}"#);
    let by_accessor = format!(r#"{{"accessor":"{accessor}","increment":"5h"}}"#);
    assert_eq!(warned("root", "auth/token/renew", &by_token), [expected]);
    assert_eq!(warned("root", "auth/token/renew-accessor", &by_accessor), [expected]);
    assert_eq!(warned(token, "auth/token/renew-self", r#"{"increment":"5h"}"#), [expected]);
    assert_eq!(warned(token, "auth/token/renew-self", r#"{"increment":"5m"}"#), [""; 0]);
}

#[test]
fn engines_are_loaded_anew_by_name_or_by_mount() {
    let site = Site::open(1 << 20);
    let path = "sys/plugins/reload/backend";
    for good in [
        r#"{"plugin":"kv"}"#,
        r#"{"plugin":"approle","scope":"global"}"#,
        r#"{"mounts":["secret/"]}"#,
        r#"{"mounts":"secret,auth/token"}"#,
    ] {
        let answer = data(site.ask(Update, path, good));
        assert_eq!(text(&answer, "reload_id").len(), 36, "{good}");
    }
    for (bad, why) in [
        ("{}", "plugin or mounts must be provided"),
        (r#"{"plugin":"kv","mounts":["secret/"]}"#, "cannot be set at the same time"),
        (r#"{"plugin":"nope"}"#, "plugin not found in the catalog: \"nope\""),
        (r#"{"mounts":["nope/"]}"#, "cannot fetch mount entry on \"nope/\""),
    ] {
        let Err(Error::Invalid(told)) = site.ask(Update, path, bad) else { panic!("{bad}") };
        assert!(told.contains(why), "{bad}: {told}");
    }
}

#[test]
fn an_alias_that_stays_as_it_is_answers_nothing() {
    let site = site("userpass");
    let mounted = data(site.ask(Read, "sys/auth/userpass", ""));
    let accessor = text(&mounted, "accessor");
    let entity = data(site.ask(Update, "identity/entity", r#"{"name":"e"}"#));
    let group = data(site.ask(Update, "identity/group", r#"{"name":"g","type":"external"}"#));
    for (kind, owner) in [("entity", text(&entity, "id")), ("group", text(&group, "id"))] {
        let full =
            format!(r#"{{"name":"a","mount_accessor":"{accessor}","canonical_id":"{owner}"}}"#);
        let made = data(site.ask(Update, &format!("identity/{kind}-alias"), &full));
        let path = format!("identity/{kind}-alias/id/{}", text(&made, "id"));
        let before = data(site.ask(Read, &path, ""));
        for same in ["{}", r#"{"name":"a"}"#, &full] {
            let answer = site.ask(Update, &path, same);
            assert!(matches!(answer, Ok(Response::Empty)), "{kind} {same}: {answer:?}");
        }
        assert!(data(site.ask(Read, &path, "")) == before, "{kind}");
        let changed = data(site.ask(Update, &path, r#"{"name":"b"}"#));
        assert_eq!(text(&changed, "id"), text(&made, "id"));
    }
}
