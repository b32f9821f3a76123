//! What the server does by the clock, without being asked: a row each.
//!
//! Whoever has a clock calls [`Core::run_due_jobs`] about once a second (`kallisto-server`'s scheduler, and the simulator).
//! The runner (`run`) goes through the rows of `table` in their order, one job at a time, and runs those that are due. What
//! an engine does at its mounts it says itself (`ServerEngine::jobs`); nothing here knows what engines there are.
//!
//! Invariants:
//! - A job that fails keeps no other from running, nor a namespace or mount the next one.
//! - A job of the leader runs only on an unsealed server that leads. A server that begins to lead runs all of them at once.
//! - A clock that is set back stops no job.
//! - No job waits for a request. What takes longer than a pass should is done beside it (`platform::threads`), or in parts.
//!
//! What is known of the runs is in `metrics::jobs`, for `sys/internal/jobs` and the metrics.

mod observe;
mod run;
mod table;

pub use run::{FailedJob, FailedJobs};

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_engine::EngineJob;

use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::metrics::{JobFacts, JobPlace};
use crate::records::engine_kind::EngineKind;
use crate::state::Core;
use crate::view::NamespaceContext;

/// The period of a job that runs at every pass.
const EVERY_PASS: u64 = 0;

/// A job under way.
type RunningJob<'a> = BoxFuture<'a, Result<(), Error>>;

/// A job of the server itself.
struct JobSpec {
    /// Lower case and underscores.
    name: &'static str,
    /// A sentence.
    about: &'static str,
    /// Seconds between the starts of two runs; [`EVERY_PASS`] for a job that runs whenever the runner does.
    period_secs: u64,
    /// Where and for what it runs, and what it does.
    scope: JobScope,
}

/// Where a job runs, and what for.
#[derive(Clone, Copy)]
enum JobScope {
    /// On every server, sealed or not.
    Server(for<'a> fn(&'a Core, Timestamp) -> RunningJob<'a>),
    /// On the leader, once; it is given what the root namespace has.
    Leader(for<'a> fn(&'a Core, &'a Arc<NamespaceContext>, Timestamp) -> RunningJob<'a>),
    /// On the leader, for each namespace.
    Namespaces(for<'a> fn(&'a Arc<NamespaceContext>, Timestamp) -> RunningJob<'a>),
}

/// A row of the table.
#[derive(Clone, Copy)]
enum JobRow {
    /// The server's own.
    Server(&'static JobSpec),
    /// What an engine does at each of its mounts, in each namespace, on the leader.
    Mounts(EngineKind, &'static EngineJob),
}

impl JobRow {
    const fn place(self) -> JobPlace {
        match self {
            Self::Server(spec) => match spec.scope {
                JobScope::Server(_) => JobPlace::EveryServer,
                JobScope::Leader(_) | JobScope::Namespaces(_) => JobPlace::Leader,
            },
            Self::Mounts(..) => JobPlace::Leader,
        }
    }

    /// The name of the job; that of an engine's follows the engine's.
    fn name(self) -> String {
        match self {
            Self::Server(spec) => spec.name.to_owned(),
            Self::Mounts(kind, job) => format!("{}_{}", kind.name(), job.name),
        }
    }

    fn facts(self) -> JobFacts {
        let (about, period_secs) = match self {
            Self::Server(spec) => (spec.about, spec.period_secs),
            Self::Mounts(_, job) => (job.about, job.period_secs),
        };
        JobFacts { name: self.name(), about, period_secs, place: self.place() }
    }
}
