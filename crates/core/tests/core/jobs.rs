//! What a server does by the clock, and what it says of that.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kallisto_core::{BackgroundTask, Json, Map, Operation, OwnThreads, Response, Threads};

use crate::support::{Site, TOKEN, ask_as, sealed};

/// A server that has no thread to give.
struct NoThreads;

impl Threads for NoThreads {
    fn start(&self, name: &'static str, task: BackgroundTask) -> io::Result<()> {
        match name {
            "reencrypt" => Err(io::ErrorKind::WouldBlock.into()),
            _ => OwnThreads.start(name, task),
        }
    }

    fn pause(&self, duration: Duration) {
        OwnThreads.pause(duration);
    }

    fn wait(&self, future: Pin<&mut dyn Future<Output = ()>>) {
        OwnThreads.wait(future);
    }
}

fn run_jobs(site: &Site, secs: i64) -> bool {
    let now = jiff::Timestamp::from_second(secs).unwrap();
    pollster::block_on(site.core.run_due_jobs(now)).is_ok()
}

/// What `sys/internal/jobs` says of one.
fn job(site: &Site, secs: i64, name: &str) -> Map {
    let told = ask_as(&site.core, TOKEN, secs, Operation::Read, "sys/internal/jobs", "").unwrap();
    let Response::Logical(told) = told else { panic!("{told:?}") };
    let told = kallisto_core::json::parse_object(&told.data).unwrap();
    assert_eq!(told["leads"], true.into());
    let Json::Array(keys) = &told["keys"] else { panic!("no keys") };
    assert!(keys.contains(&name.into()), "{name}");
    told["key_info"].as_object().unwrap()[name].as_object().unwrap().clone()
}

#[test]
fn a_job_that_fails_says_why_and_keeps_no_other_from_running() {
    let first = Site::open(1 << 20);
    pollster::block_on(first.core.seal()).unwrap();
    let core = sealed(Arc::clone(&first.store), 1 << 20).with_threads(Arc::new(NoThreads));
    let site = Site { store: Arc::clone(&first.store), core, keys: first.keys.clone() };
    site.unseal();
    site.ask(Operation::Update, "sys/rotate", "").unwrap_err();
    assert!(!run_jobs(&site, 1000));
    let failed = job(&site, 1000, "reencryption");
    assert_eq!((&failed["runs"], &failed["failures"]), (&1_u64.into(), &1_u64.into()));
    assert_eq!((&failed["failing"], &failed["running"]), (&true.into(), &false.into()));
    assert!(failed["last_error"].as_str().unwrap().contains("no thread"), "{failed:?}");
    assert_eq!(failed["last_start"].as_str(), Some("1970-01-01T00:16:40Z"));
    assert_eq!(failed["last_error_time"], failed["last_start"]);
    for later in ["dead_server_cleanup", "transit_key_rotation", "join_token_expiry"] {
        let ran = job(&site, 1000, later);
        assert_eq!((&ran["runs"], &ran["failing"]), (&1_u64.into(), &false.into()), "{later}");
        assert_eq!(ran["last_error"], Json::Null);
    }
    assert!(!run_jobs(&site, 1001));
    assert_eq!(job(&site, 1001, "reencryption")["failures"], 2_u64.into());
}

#[test]
fn a_job_runs_after_its_period_and_is_overdue_long_after_it() {
    let site = Site::open(1 << 20);
    let runs = |secs| job(&site, secs, "approle_secret_id_expiry")["runs"].clone();
    (1000..=1029).for_each(|secs| assert!(run_jobs(&site, secs)));
    assert_eq!(runs(1029), 1_u64.into());
    assert!(run_jobs(&site, 1030));
    assert_eq!(runs(1030), 2_u64.into());
    // The clock was set back.
    assert!(run_jobs(&site, 500));
    assert_eq!(runs(500), 3_u64.into());
    let is_overdue = |secs| job(&site, secs, "approle_secret_id_expiry")["overdue"].clone();
    assert_eq!((is_overdue(590), is_overdue(591)), (false.into(), true.into()));
}

#[test]
fn what_jobs_did_is_in_the_metrics() {
    let site = Site::open(1 << 20);
    assert!(run_jobs(&site, 1000));
    let asked = ask_as(&site.core, TOKEN, 1000, Operation::Read, "sys/metrics", "").unwrap();
    let Response::Bare { body, .. } = asked else { panic!("{asked:?}") };
    let figures = String::from_utf8(body.to_text()).unwrap();
    for name in ["last_start_time_seconds", "last_duration_seconds", "runs_total", "failures_total"]
    {
        let figure = format!("kallisto.jobs.{name}");
        assert!(
            figures.contains(&figure) && figures.contains(r#""job":"token_expiry""#),
            "{figures}"
        );
    }
}

#[test]
fn only_those_whose_policy_allows_it_read_of_jobs() {
    let site = Site::open(1 << 20);
    let made = site.ask(Operation::Update, "auth/token/create", r#"{"policies":["default"]}"#);
    let Response::Logical(made) = made.unwrap() else { panic!("no token") };
    let auth = kallisto_core::json::parse_object(&made.auth).unwrap();
    let token = auth["client_token"].as_str().unwrap();
    let refused = ask_as(&site.core, token, 0, Operation::Read, "sys/internal/jobs", "");
    assert!(matches!(refused, Err(kallisto_core::Error::Denied(_))), "{refused:?}");
}
