//! What the metrics of a server tell whoever reads them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_core::{
    Core, Error, HeaderSource, Headers, InitSpec, KvVersion, MetricsSettings, Operation, Request,
    Response, ServerInfo,
};

use crate::aged::AgedStore;
use crate::snapshots::{Inline, Shelf};
use crate::support::{TOKEN, ask_as, request_of, whole_core};

/// A server on which everything that has a name is called `canary-` and what it is, after some use of it.
fn used_server(usage_period: Option<Duration>) -> Core {
    let metrics = MetricsSettings { usage_period, ..MetricsSettings::default() };
    let info = ServerInfo { metrics, ..ServerInfo::default() };
    let store = Arc::<AgedStore>::default();
    store.become_readable();
    let core = whole_core(store, info)
        .with_snapshots(Arc::new(Shelf::default()))
        .with_threads(Arc::new(Inline));
    let root_token = Some(TOKEN.to_owned().into());
    let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv: Some(KvVersion::V2) };
    let made = pollster::block_on(core.initialize(&spec, Timestamp::UNIX_EPOCH)).unwrap();
    let keys = kallisto_core::Initialized::hex(&made.keys);
    let put = |path: &str, body: &str| {
        ask_as(&core, TOKEN, 0, Operation::Update, path, body)
            .map_err(|error| (path, error))
            .unwrap()
    };
    put("sys/unseal", &format!(r#"{{"key":"{}"}}"#, keys[0]));
    put("sys/namespaces/canary-space", "{}");
    for space in ["", "canary-space/"] {
        put(&format!("{space}sys/mounts/canary-mount"), r#"{"type":"kv-v2"}"#);
        put(&format!("{space}canary-mount/data/canary-secret"), r#"{"data":{"canary-key":"v"}}"#);
        put(&format!("{space}sys/auth/canary-method"), r#"{"type":"userpass"}"#);
        let policy = r#"{"policy":"path \"canary-mount/*\" { capabilities = [\"read\"] }"}"#;
        put(&format!("{space}sys/policies/acl/canary-policy"), policy);
        let user = r#"{"password":"canary-password","token_policies":"canary-policy"}"#;
        put(&format!("{space}auth/canary-method/users/canary-user"), user);
        let login = format!("{space}auth/canary-method/login/canary-user");
        put(&login, r#"{"password":"canary-password"}"#);
        put(&format!("{space}identity/entity"), r#"{"name":"canary-person"}"#);
        put(&format!("{space}identity/group"), r#"{"name":"canary-group"}"#);
        let token = r#"{"policies":["canary-policy"],"display_name":"canary-token"}"#;
        put(&format!("{space}auth/token/create"), token);
        let secret = format!("{space}canary-mount/data/canary-secret");
        ask_as(&core, TOKEN, 1, Operation::Read, &secret, "").unwrap();
    }
    put("sys/quotas/rate-limit/canary-quota", r#"{"rate":1000,"path":"canary-mount/"}"#);
    put("sys/quotas/lease-count/canary-count", r#"{"max_leases":1000,"path":"canary-mount/"}"#);
    let schedule = r#"{"interval":3600,"storage_type":"local","path_prefix":"/canary-folder","local_max_space":1000000}"#;
    put("sys/storage/raft/snapshot-auto/config/canary-schedule", schedule);
    for secs in [1000, 2000] {
        pollster::block_on(core.run_due_jobs(Timestamp::from_second(secs).unwrap())).unwrap();
    }
    core
}

/// The metrics in both of their forms.
fn told(core: &Core) -> String {
    let mut all = String::new();
    for format in ["", "prometheus"] {
        let request = Request {
            query: vec![("format".to_owned(), format.to_owned())],
            ..request_of(TOKEN, 2000, Operation::Read, "sys/metrics", "")
        };
        match pollster::block_on(core.handle(&request)).unwrap() {
            Response::Bare { body, .. } => all += &String::from_utf8(body.to_text()).unwrap(),
            Response::Text { body, .. } => all += &String::from_utf8(body).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        all.contains("kallisto_jobs_runs_total") && all.contains("\"kallisto.jobs.runs_total\"")
    );
    all
}

#[test]
fn metrics_name_nothing_that_somebody_made_unless_they_are_told_to() {
    let mut quiet = told(&used_server(None));
    // What operators named for the server as a whole goes by its name, always.
    for name in ["canary-count", "canary-schedule"] {
        assert!(quiet.contains(name), "{name}");
        quiet = quiet.replace(name, "");
    }
    let at = quiet.find("canary").map(|at| &quiet[at.saturating_sub(200)..at + 40]);
    assert_eq!(at, None);
    let telling = told(&used_server(Some(Duration::from_secs(600))));
    for name in ["canary-mount", "canary-policy", "canary-space"] {
        assert!(telling.contains(name), "{name}");
    }
    // Nor is any of this a name that they tell even then.
    for name in ["secret", "key", "password", "user", "person", "token", "quota", "folder"] {
        assert!(!telling.contains(&format!("canary-{name}")), "{name}");
    }
}

/// A request that says what it takes.
struct Takes(&'static str);

impl HeaderSource for Takes {
    fn values(&self, name: &str) -> Vec<String> {
        if name == "accept" && !self.0.is_empty() { vec![self.0.to_owned()] } else { Vec::new() }
    }
}

#[test]
fn a_scraper_gets_the_format_that_it_says_it_takes() {
    let is_text = |core: &Core, accept, format: Option<&str>| {
        let source = Takes(accept);
        let query = format.map(|format| ("format".to_owned(), format.to_owned()));
        let request = Request {
            query: query.into_iter().collect(),
            headers: Headers::of(&source),
            ..request_of(TOKEN, 2000, Operation::Read, "sys/metrics", "")
        };
        Ok::<_, Error>(match pollster::block_on(core.handle(&request))? {
            Response::Text { .. } => true,
            Response::Bare { .. } => false,
            other => panic!("{other:?}"),
        })
    };
    let scraper = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;\
                   version=0.0.4;q=0.2,*/*;q=0.1";
    let core = used_server(None);
    for (accept, format, expected) in [
        (scraper, None, true),
        (scraper, Some(""), true),
        ("prometheus/telemetry", None, true),
        ("application/json", Some("prometheus"), true),
        ("application/json", None, false),
        ("*/*", None, false),
        ("", None, false),
    ] {
        assert_eq!(is_text(&core, accept, format), Ok(expected), "{accept} {format:?}");
    }
    assert!(is_text(&core, scraper, Some("json")).is_err());
}
