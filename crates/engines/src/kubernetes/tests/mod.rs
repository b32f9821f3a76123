//! The engine against a stand-in for an API server.

mod api_server;
mod local;

use std::sync::Arc;

use api_server::{ApiServer, Mood, TOKEN};
use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Response};
use kallisto_auth::Operation;

use super::ENGINE;
use super::objects::Revocation;
use crate::testing::TestMount;

/// When requests are made, in seconds since 1970.
const NOW: i64 = 1_795_414_141;
const ACCOUNTS: &str = "/api/v1/namespaces/test/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

struct Setting {
    mount: TestMount,
    server: Arc<ApiServer>,
}

impl Setting {
    fn new() -> Self {
        let server = Arc::new(ApiServer::default());
        let mount = TestMount::new(&ENGINE);
        let asked = Arc::clone(&server);
        mount.far_ends_do(move |call| asked.answer(call));
        let setting = Self { mount, server };
        setting.put("config", &config(TOKEN));
        setting
    }

    fn put(&self, path: &str, body: &str) {
        self.mount.ask(NOW, Operation::Update, path, body).unwrap();
    }

    fn asks(&self, path: &str, body: &str) -> Result<Map, Error> {
        self.mount.ask(NOW, Operation::Update, path, body)
    }

    /// A role by which accounts are made with a role of their own.
    fn with_rules(self) -> Self {
        self.put(
            "roles/gen",
            r#"{"allowed_kubernetes_namespaces":"test","generated_role_rules":{"rules":[]}}"#
                .replace(r#"{"rules":[]}"#, r#""{\"rules\":[{\"apiGroups\":[\"\"],\"resources\":[\"pods\"],\"verbs\":[\"list\"]}]}""#)
                .as_str(),
        );
        self
    }

    /// Takes back what the last lease says, some seconds later.
    fn take_back(&self, later_secs: i64) -> Result<(), Error> {
        match self.mount.leased().last() {
            Some(leased) => self.mount.end_lease(NOW + later_secs, "mount/creds/gen", leased),
            None => Ok(()),
        }
    }

    fn last_revocation(&self) -> Revocation {
        Revocation::decode(self.mount.leased().last().unwrap()).unwrap()
    }
}

fn config(token: &str) -> String {
    format!(r#"{{"kubernetes_host":"https://k8s.test:6443","service_account_jwt":"{token}"}}"#)
}

fn text(map: &Map, name: &str) -> String {
    TestMount::text(map, name)
}

#[test]
fn an_account_with_a_role_of_its_own_is_made_owned_and_taken_back() {
    let setting = Setting::new().with_rules();
    let made = setting.asks("creds/gen", r#"{"kubernetes_namespace":"test"}"#).unwrap();
    let name = text(&made, "service_account_name");
    assert!(name.starts_with("v--gen-1795414141-") && name.len() == 42, "{name}");
    assert_eq!(text(&made, "service_account_namespace"), "test");
    let (role, binding, account) = (
        format!("{RBAC}/namespaces/test/roles/{name}"),
        format!("{RBAC}/namespaces/test/rolebindings/{name}"),
        format!("{ACCOUNTS}/{name}"),
    );
    assert_eq!(setting.server.paths(), [account.clone(), binding.clone(), role.clone()]);
    let of = |path: &str| String::from_utf8(setting.server.object(path).to_text()).unwrap();
    assert!(!of(&role).contains("ownerReferences"));
    for owned in [&binding, &account] {
        let told = of(owned);
        let owner = format!(
            r#""ownerReferences":[{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","name":"{name}","uid":"uid-1"}}]"#
        );
        assert!(told.contains(&owner), "{told}");
        assert!(told.contains(r#""app.kubernetes.io/managed-by":"kallisto""#), "{told}");
    }
    setting.server.asked();
    setting.take_back(0).unwrap();
    assert_eq!(setting.server.paths(), [""; 0]);
    let deleted = [account, binding, role].map(|path| format!("Delete {path}"));
    assert_eq!(setting.server.asked(), deleted);
    // Once more, as after a crash; and with nothing there it is done at once.
    setting.take_back(0).unwrap();
}

#[test]
fn the_configuration_stays_while_it_has_to_delete_something() {
    let setting = Setting::new().with_rules();
    let delete = |query: &[(&str, &str)]| {
        setting.mount.answer_with(NOW, Operation::Delete, "config", query, b"").map(drop)
    };
    setting.asks("creds/gen", r#"{"kubernetes_namespace":"test"}"#).unwrap();
    let refused = delete(&[]).unwrap_err().to_string();
    assert!(refused.contains("only this configuration can delete"), "{refused}");
    delete(&[("force", "true")]).unwrap();
    assert!(setting.mount.record("config").is_none());
    // Of a token of an account that was there, nothing is deleted.
    let setting = Setting::new();
    setting
        .put("roles/sa", r#"{"allowed_kubernetes_namespaces":"test","service_account_name":"sa"}"#);
    setting.server.put(&format!("{ACCOUNTS}/sa"), r#"{"metadata":{"name":"sa"}}"#);
    setting.asks("creds/sa", "{}").unwrap();
    setting.mount.answer_with(NOW, Operation::Delete, "config", &[], b"").unwrap();
}

#[test]
fn an_account_is_bound_in_the_whole_cluster_only_where_the_role_says_so() {
    let setting = Setting::new();
    setting.put(
        "roles/view",
        r#"{"allowed_kubernetes_namespaces":"*","kubernetes_role_name":"view","kubernetes_role_type":"ClusterRole","extra_labels":{"a":"b"},"token_default_audiences":"x,y"}"#,
    );
    let body = r#"{"kubernetes_namespace":"test","cluster_role_binding":true,"ttl":"20m"}"#;
    let made = setting.asks("creds/view", body).unwrap();
    let name = text(&made, "service_account_name");
    let binding = format!("{RBAC}/clusterrolebindings/{name}");
    assert_eq!(setting.server.paths(), [format!("{ACCOUNTS}/{name}"), binding.clone()]);
    let told = String::from_utf8(setting.server.object(&binding).to_text()).unwrap();
    for part in [
        r#""roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}"#,
        r#""a":"b""#,
    ] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!told.contains(r#""namespace":"test","uid""#));
    let spec = setting.server.token_spec();
    assert_eq!(spec["audiences"], Json::strings(["x", "y"]));
    setting.put(
        "roles/edit",
        r#"{"allowed_kubernetes_namespaces":"*","kubernetes_role_name":"edit","kubernetes_role_type":"Role"}"#,
    );
    let refused = setting.asks("creds/edit", body).unwrap_err().to_string();
    assert!(refused.contains("'ClusterRole'"), "{refused}");
}

#[test]
fn a_token_of_an_account_that_is_there_makes_nothing_and_takes_nothing_back() {
    let setting = Setting::new();
    setting.put("roles/sa", r#"{"allowed_kubernetes_namespaces":"test","service_account_name":"sa","token_max_ttl":"1h"}"#);
    let refused = setting.asks("creds/sa", "{}").unwrap_err().to_string();
    assert!(refused.contains("https://k8s.test:6443 answers 404"), "{refused}");
    let sa = format!("{ACCOUNTS}/sa");
    setting.server.put(&sa, r#"{"metadata":{"name":"sa"}}"#);
    let made = setting.asks("creds/sa", r#"{"ttl":"2h","audiences":["vault"]}"#).unwrap();
    assert_eq!(text(&made, "service_account_name"), "sa");
    assert_eq!(setting.server.token_spec()["audiences"], Json::strings(["vault"]));
    setting.server.asked();
    setting.take_back(0).unwrap();
    assert_eq!(setting.server.asked(), [""; 0]);
    assert_eq!(setting.server.paths(), [sa]);
}

#[test]
fn a_role_is_used_in_its_namespaces_and_those_with_its_labels() {
    let setting = Setting::new();
    setting.put(
        "roles/r",
        r#"{"allowed_kubernetes_namespaces":"a","allowed_kubernetes_namespace_selector":"matchLabels:\n  team: red","service_account_name":"sa"}"#,
    );
    let in_namespace = |namespace: &str| {
        let body = format!(r#"{{"kubernetes_namespace":"{namespace}"}}"#);
        setting.asks("creds/r", &body).map(|_| ()).map_err(|error| error.to_string())
    };
    for namespace in ["a", "b", "c"] {
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/sa");
        setting.server.put(&account, "{}");
    }
    let named = |name: &str, team: &str| {
        format!(r#"{{"metadata":{{"name":"{name}","labels":{{"team":"{team}"}}}}}}"#)
    };
    setting.server.put("/api/v1/namespaces/b", &named("b", "red"));
    setting.server.put("/api/v1/namespaces/c", &named("c", "blue"));
    // An answer about another namespace says nothing of this one.
    setting.server.put("/api/v1/namespaces/d", &named("b", "red"));
    assert_eq!(in_namespace("a"), Ok(()));
    assert_eq!(in_namespace("b"), Ok(()));
    for (other, why) in [
        ("c", "not present"),
        ("d", "not present"),
        ("e", "failed to read the namespace"),
        ("A", "no name of"),
        ("a%2fb", "no name of"),
        ("", "is required"),
    ] {
        let refused = in_namespace(other).unwrap_err();
        assert!(refused.contains(why), "{other}: {refused}");
    }
}

#[test]
fn lives_are_cut_to_what_the_role_the_mount_and_the_token_say() {
    let setting = Setting::new();
    setting.server.put(&format!("{ACCOUNTS}/sa"), "{}");
    setting.put("roles/sa", r#"{"allowed_kubernetes_namespaces":"test","service_account_name":"sa","token_default_ttl":"30m","token_max_ttl":"40m"}"#);
    let warned = |body: &str| {
        let path = "creds/sa";
        match setting.mount.answer(NOW, Operation::Update, path, body.as_bytes()).unwrap() {
            Response::Logical(logical) => logical.warnings,
            other => panic!("{other:?}"),
        }
    };
    // The lease of the testing mount lives for an hour.
    setting.server.gives_tokens_for(3600);
    assert_eq!(warned("{}"), [""; 0]);
    assert_eq!(
        warned(r#"{"ttl":"2h"}"#),
        ["ttl of 2h0m0s is greater than the role's token_max_ttl of 40m0s; capping accordingly"]
    );
    setting.server.gives_tokens_for(600);
    assert_eq!(
        warned("{}"),
        [
            "the created Kubernetes service account token TTL 10m0s is less than the lease TTL 1h0m0s; capping the lease TTL accordingly"
        ]
    );
    setting.server.gives_tokens_for(7200);
    assert!(warned("{}")[0].contains("2h0m0s is greater than the lease TTL 1h0m0s"));
    for (body, why) in [(r#"{"ttl":"5m"}"#, "10m0s"), (r#"{"ttl":"-1h"}"#, "negative")] {
        let refused = setting.asks("creds/sa", body).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

/// Whatever happens to whichever request, nothing stays behind, and nobody hears the token.
#[test]
fn nothing_is_left_behind_by_an_api_server_that_refuses_hangs_or_lies() {
    let bad = [
        Mood::Unreachable,
        Mood::Refuses(403),
        Mood::Refuses(429),
        Mood::Proxy(403),
        Mood::Proxy(404),
        Mood::Proxy(502),
        Mood::Hangs,
        Mood::DoesAndHangs,
        Mood::DoesLater,
        Mood::Says(""),
        Mood::Says(r#"{"metadata":{"name""#),
        Mood::Says("[]"),
        Mood::Says("{}"),
        Mood::Says(r#"{"metadata":{"name":"another","namespace":"test","uid":"u"}}"#),
        Mood::Says(r#"{"status":{"token":"has a space"}}"#),
        Mood::Says(
            r#"{"status":{"token":"e30.e30.","expirationTimestamp":"1999-01-01T00:00:00Z"}}"#,
        ),
    ];
    for mood in bad {
        for step in 0..4 {
            let is_token = step == 3;
            if is_token && matches!(mood, Mood::DoesLater) {
                continue;
            }
            let setting = Setting::new().with_rules();
            let mut moods = vec![Mood::Good; step];
            moods.push(mood.clone());
            setting.server.feels(&moods);
            let answer = setting.asks("creds/gen", "{}");
            let error = answer.unwrap_err();
            let told = error.to_string();
            assert!(told.contains("https://k8s.test:6443") && !told.contains(TOKEN), "{told}");
            setting.server.feels(&[]);
            // As the server does at once, and then by its queue.
            let at_once = setting.take_back(0);
            setting.server.catch_up();
            if at_once.is_err() {
                setting.take_back(59).ok();
                setting.take_back(60).unwrap();
            }
            assert_eq!(setting.server.paths(), [""; 0], "{mood:?} at {step}");
            if matches!(mood, Mood::Refuses(_) | Mood::Unreachable) || is_token {
                assert_eq!(at_once, Ok(()), "{mood:?} at {step}: it is known what there is");
            }
        }
    }
}

#[test]
fn what_a_refused_deletion_leaves_is_deleted_when_it_is_tried_again() {
    for mood in [
        Mood::Unreachable,
        Mood::Refuses(403),
        Mood::Proxy(404),
        Mood::Proxy(200),
        Mood::Hangs,
        Mood::DoesAndHangs,
    ] {
        for step in 0..3 {
            let setting = Setting::new().with_rules();
            setting.asks("creds/gen", "{}").unwrap();
            let mut moods = vec![Mood::Good; step];
            moods.push(mood.clone());
            setting.server.feels(&moods);
            let error = setting.take_back(3600).unwrap_err().to_string();
            assert!(error.contains("failed to delete the ") && !error.contains(TOKEN), "{error}");
            setting.take_back(3600).unwrap();
            assert_eq!(setting.server.paths(), [""; 0], "{mood:?} at {step}");
        }
    }
}

#[test]
fn an_object_that_was_there_before_is_neither_taken_over_nor_deleted() {
    // Names are drawn alike in every mount of these tests: the second meets what the first made.
    let first = Setting::new().with_rules();
    let made = first.asks("creds/gen", "{}").unwrap();
    let name = text(&made, "service_account_name");
    for (path, is_first) in [
        (format!("{RBAC}/namespaces/test/roles/{name}"), true),
        (format!("{RBAC}/namespaces/test/rolebindings/{name}"), false),
        (format!("{ACCOUNTS}/{name}"), false),
    ] {
        let setting = Setting::new().with_rules();
        setting.server.put(&path, r#"{"metadata":{"name":"theirs"}}"#);
        let refused = setting.asks("creds/gen", "{}").unwrap_err().to_string();
        assert!(refused.contains("answers 409"), "{refused}");
        setting.take_back(0).unwrap();
        assert_eq!(setting.server.paths(), [path], "theirs stays, ours goes ({is_first})");
    }
}

#[test]
fn a_configuration_keeps_its_token_and_its_token_keeps_its_host() {
    let setting = Setting::new();
    let told = setting.mount.ask(NOW, Operation::Read, "config", "").unwrap();
    assert_eq!(text(&told, "kubernetes_host"), "https://k8s.test:6443");
    assert!(!String::from_utf8(Json::from(told).to_text()).unwrap().contains(TOKEN));
    let moved = r#"{"kubernetes_host":"https://evil.test"}"#;
    let refused = setting.asks("config", moved).unwrap_err().to_string();
    assert!(refused.contains("service_account_jwt has to be given again"), "{refused}");
    setting.put("config", r#"{"disable_local_ca_jwt":true}"#);
    assert_eq!(setting.mount.ask(NOW, Operation::Read, "check", ""), Ok(Map::new()));
    setting.put("config", &config("another"));
    let refused = setting.mount.ask(NOW, Operation::Read, "check", "").unwrap_err().to_string();
    assert!(refused.contains("https://k8s.test:6443 answers 401"), "{refused}");
    for bad in [
        r#"{"service_account_jwt":"a b"}"#,
        r#"{"kubernetes_ca_cert":"x"}"#,
        r#"{"kubernetes_host":"k8s.test","service_account_jwt":"x"}"#,
    ] {
        assert!(setting.asks("config", bad).is_err(), "{bad}");
    }
    let empty = TestMount::new(&ENGINE);
    for bad in ["{}", r#"{"kubernetes_host":"https://h"}"#] {
        let refused = empty.ask(NOW, Operation::Update, "config", bad).unwrap_err();
        assert!(refused.to_string().starts_with("missing "), "{refused}");
    }
    assert_eq!(empty.ask(NOW, Operation::Read, "config", ""), Err(Error::NotFound));
}

/// Who forces it has leases that stay, fail while there is no configuration, and end once there is one again.
#[test]
fn a_configuration_that_is_deleted_under_leases_is_missed_and_nothing_is_forgotten() {
    let setting = Setting::new().with_rules();
    setting.asks("creds/gen", "{}").unwrap();
    setting.mount.answer_with(NOW, Operation::Delete, "config", &[("force", "true")], b"").unwrap();
    let error = setting.take_back(0).unwrap_err().to_string();
    assert!(error.contains("not configured"), "{error}");
    assert_eq!(setting.server.paths().len(), 3);
    setting.put("config", &config(TOKEN));
    setting.take_back(0).unwrap();
    assert_eq!(setting.server.paths(), [""; 0]);
}

#[test]
fn what_is_kept_of_a_lease_says_what_there_is_and_no_more() {
    let setting = Setting::new().with_rules();
    setting.asks("creds/gen", "{}").unwrap();
    let kept = setting.last_revocation();
    assert_eq!((kept.kinds.len(), kept.asked_secs), (3, None));
    assert_eq!(Revocation::decode(&kept.encode()), Some(kept));
    setting.server.feels(&[Mood::Good, Mood::Refuses(403)]);
    setting.asks("creds/gen", "{}").unwrap_err();
    assert_eq!(setting.last_revocation().kinds.len(), 1);
    setting.server.feels(&[Mood::Refuses(403)]);
    setting.asks("creds/gen", "{}").unwrap_err();
    assert_eq!(setting.mount.leased().len(), 2, "where nothing was made there is no lease");
    setting.server.feels(&[Mood::Hangs]);
    setting.asks("creds/gen", "{}").unwrap_err();
    let kept = setting.last_revocation();
    assert_eq!((kept.kinds.len(), kept.asked_secs), (1, Some(NOW)));
    assert_eq!(Revocation::decode(&kept.encode()), Some(kept));
    for damaged in ["", "{}", r#"{"namespace":"a","name":"b","objects":["Pod"]}"#] {
        assert_eq!(Revocation::decode(damaged.as_bytes()), None, "{damaged}");
        assert!(setting.mount.end_lease(NOW, "mount/creds/gen", damaged.as_bytes()).is_err());
    }
}
