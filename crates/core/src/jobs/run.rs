//! Running the jobs that are due.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_engine::EngineJob;

use super::{JobRow, JobScope, table};
use crate::api::error::Error;
use crate::engines::contract;
use crate::metrics::JobPlace;
use crate::records::engine_kind::EngineKind;
use crate::state::Core;
use crate::view::NamespaceContext;

/// The jobs of one pass that failed.
#[derive(Debug)]
pub struct FailedJobs(Vec<FailedJob>);

/// A job that failed.
#[derive(Debug)]
pub struct FailedJob {
    /// Its name.
    pub name: String,
    /// In which namespace and at which mount it failed first; empty for a job that runs once.
    pub place: String,
    /// What it failed of there; it went on with the others.
    pub error: Error,
}

impl FailedJobs {
    /// Them, in the order in which they ran.
    pub fn iter(&self) -> impl Iterator<Item = &FailedJob> {
        self.0.iter()
    }
}

impl FailedJob {
    /// What it failed of, and where.
    pub fn why(&self) -> String {
        let Self { place, error, .. } = self;
        if place.is_empty() { error.to_string() } else { format!("{place}: {error}") }
    }
}

impl fmt::Display for FailedJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, failed) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", failed.name, failed.why())?;
        }
        Ok(())
    }
}

impl std::error::Error for FailedJobs {}

/// The first failure of a job that goes on with the next namespace or mount.
#[derive(Default)]
struct FirstFailure(Option<(String, Error)>);

impl FirstFailure {
    fn note(&mut self, outcome: Result<(), Error>, place: impl FnOnce() -> String) {
        if let Err(error) = outcome {
            self.0.get_or_insert_with(|| (place(), error));
        }
    }

    fn of(self, name: String) -> Option<FailedJob> {
        self.0.map(|(place, error)| FailedJob { name, place, error })
    }
}

/// What one pass runs for.
struct Pass<'a> {
    core: &'a Core,
    now: Timestamp,
    /// The namespaces of the leader, the root first, once they were asked for.
    namespaces: Option<Vec<Arc<NamespaceContext>>>,
}

impl Core {
    /// Runs the jobs that are due: to be called about once a second with the time, by one caller at a time.
    ///
    /// # Errors
    /// Those that failed, after all were run. Each is tried again when it is due again.
    pub async fn run_due_jobs(&self, now: Timestamp) -> Result<(), FailedJobs> {
        let records = &self.metrics.jobs;
        records.enter(table::rows().map(JobRow::facts));
        if self.led_root().is_none() {
            records.follow();
        }
        let mut pass = Pass { core: self, now, namespaces: None };
        let mut failed = Vec::new();
        for (at, row) in table::rows().enumerate() {
            // Asked before each: the one before may have sealed the server, or another leads meanwhile.
            let root = self.led_root();
            let runs_here = row.place() == JobPlace::EveryServer || root.is_some();
            if !runs_here || !records.start_if_due(at, now) {
                continue;
            }
            let start = (self.stopwatch)();
            let failure = pass.run(row, root).await.of(row.name());
            let took = (self.stopwatch)().saturating_sub(start);
            records.end(at, took, failure.as_ref().map(FailedJob::why).as_deref());
            failed.extend(failure);
        }
        if failed.is_empty() { Ok(()) } else { Err(FailedJobs(failed)) }
    }

    /// The root namespace, on an unsealed server that leads.
    fn led_root(&self) -> Option<Arc<NamespaceContext>> {
        let leads = self.store.leads() && !self.is_removed();
        leads.then(|| self.context.load_full()).flatten()
    }
}

impl Pass<'_> {
    /// Runs a row, whatever fails of it.
    async fn run(&mut self, row: JobRow, root: Option<Arc<NamespaceContext>>) -> FirstFailure {
        let (core, now) = (self.core, self.now);
        let mut failure = FirstFailure::default();
        match (row, root) {
            (JobRow::Server(spec), root) => match (spec.scope, root) {
                (JobScope::Server(run), _) => failure.note(run(core, now).await, String::new),
                (JobScope::Leader(run), Some(root)) => {
                    failure.note(run(core, &root, now).await, String::new);
                }
                (JobScope::Namespaces(run), Some(root)) => {
                    for space in self.namespaces(&root) {
                        failure.note(run(space, now).await, || place_of(space));
                    }
                }
                (JobScope::Leader(_) | JobScope::Namespaces(_), None) => {}
            },
            (JobRow::Mounts(kind, job), Some(root)) => {
                for space in self.namespaces(&root) {
                    run_at_mounts(space, (kind, job), now, &mut failure).await;
                }
            }
            (JobRow::Mounts(..), None) => {}
        }
        failure
    }

    fn namespaces(&mut self, root: &Arc<NamespaceContext>) -> &[Arc<NamespaceContext>] {
        self.namespaces.get_or_insert_with(|| {
            let mut namespaces = root.contexts_below();
            namespaces.insert(0, Arc::clone(root));
            namespaces
        })
    }
}

async fn run_at_mounts(
    context: &NamespaceContext,
    (kind, job): (EngineKind, &EngineJob),
    now: Timestamp,
    failure: &mut FirstFailure,
) {
    let mounts = context.view.mounts.all();
    for mount in mounts.iter().filter(|mount| mount.entry.kind == kind) {
        let outcome = contract::run_job(job, context, mount, now).await;
        failure.note(outcome, || match place_of(context).as_str() {
            "" => format!("mount {}", mount.entry.accessor),
            space => format!("{space}, mount {}", mount.entry.accessor),
        });
    }
}

/// What a namespace is called where no path may stand.
fn place_of(context: &NamespaceContext) -> String {
    let inside = context.view.inside.as_ref();
    inside.map_or_else(String::new, |inside| format!("namespace {}", inside.id))
}

#[cfg(test)]
mod tests {
    use kallisto_auth::Operation::Update;
    use kallisto_store::MemoryStore;

    use super::*;
    use crate::metrics::JobRecord;
    use crate::platform::server_info::ServerInfo;
    use crate::storage::engine_storage::EngineStorage;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn blank() -> Core {
        Core::new(Arc::new(MemoryStore::new()), ServerInfo::default())
    }

    fn write(core: &Core, path: &str, body: &str) {
        let request = crate::routes::tests::request(Some("root"), Update, path, body);
        pollster::block_on(core.handle(&request)).unwrap();
    }

    fn record(core: &Core, name: &str) -> JobRecord {
        core.metrics.jobs.all().into_iter().find(|job| job.facts.name == name).unwrap()
    }

    #[test]
    fn a_sealed_server_runs_what_every_server_runs() {
        let core = blank();
        pollster::block_on(core.run_due_jobs(at(1))).unwrap();
        let ran = |name: &str| record(&core, name).runs;
        assert_eq!((ran("view_freshness"), ran("token_expiry"), ran("time_marks")), (1, 0, 0));
        let made = core.initialize_dev(Some("root".to_owned().into()), at(0));
        pollster::block_on(made).unwrap();
        pollster::block_on(core.run_due_jobs(at(1))).unwrap();
        assert_eq!((ran("view_freshness"), ran("token_expiry"), ran("time_marks")), (2, 1, 1));
    }

    #[test]
    fn what_fails_at_one_mount_is_kept_and_hinders_nothing_else() {
        let core = blank();
        let made = core.initialize_dev(Some("root".to_owned().into()), at(0));
        pollster::block_on(made).unwrap();
        for mount in ["a", "b"] {
            write(&core, &format!("sys/mounts/{mount}"), r#"{"type":"transit"}"#);
            write(&core, &format!("{mount}/keys/k"), r#"{"auto_rotate_period":"1h"}"#);
        }
        let context = core.context.load_full().unwrap();
        let mount = |path: &str| context.view.mounts.at(path).unwrap();
        let first = mount("a/");
        let storage = EngineStorage::of(&context, &first);
        pollster::block_on(storage.put("key/k", b"damaged".to_vec())).unwrap();
        let kept = EngineStorage::of(&context, &mount("b/")).get("key/k").unwrap().unwrap();

        let failed = pollster::block_on(core.run_due_jobs(at(4_000_000_000))).unwrap_err();
        let names: Vec<_> = failed.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["transit_key_rotation"]);
        let why = failed.iter().next().unwrap().why();
        assert!(why.starts_with(&format!("mount {}: ", first.entry.accessor)), "{why}");
        let job = record(&core, "transit_key_rotation");
        assert_eq!((job.runs, job.failures, job.is_failing), (1, 1, true));
        assert_eq!(job.last_error, Some((at(4_000_000_000), why)));
        assert_eq!(record(&core, "time_marks").runs, 1, "what comes later runs");
        let now = EngineStorage::of(&context, &mount("b/")).get("key/k").unwrap().unwrap();
        assert_ne!(now.seqno, kept.seqno, "the key of the other mount was rotated");

        // It is tried again after its period, not before.
        pollster::block_on(core.run_due_jobs(at(4_000_000_059))).unwrap();
        assert!(pollster::block_on(core.run_due_jobs(at(4_000_000_060))).is_err());
    }

    #[test]
    fn how_long_a_job_took_is_told_by_the_stopwatch() {
        let passed = std::sync::atomic::AtomicU64::new(0);
        let core = blank().with_stopwatch(move || {
            let millis = passed.fetch_add(7, std::sync::atomic::Ordering::Relaxed);
            std::time::Duration::from_millis(millis)
        });
        pollster::block_on(core.run_due_jobs(at(1))).unwrap();
        let took = record(&core, "view_freshness").last_duration;
        assert_eq!(took, Some(std::time::Duration::from_millis(7)));
    }
}
