//! What engines do by the clock.

use jiff::Timestamp;
use kallisto_engine::{EngineContext, EngineJob};

use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::engines::contract;
use crate::pipeline::state::{Core, NamespaceContext};
use crate::view::Mount;

/// What an engine does by the clock at each of its mounts, on the server that leads.
#[derive(Clone, Copy)]
pub(crate) struct MountJob {
    /// Its name among those of the engine: lower case and underscores.
    pub(crate) name: &'static str,
    /// A sentence.
    pub(crate) about: &'static str,
    /// Seconds between the starts of two runs.
    pub(crate) period_secs: u64,
    /// What it does. What is left over waits for the next run.
    pub(crate) work: MountWork,
}

/// What a job of an engine does.
#[derive(Clone, Copy)]
pub(crate) enum MountWork {
    /// With the server itself in its hands.
    Server(for<'a> fn(MountJobCall<'a>) -> BoxFuture<'a, Result<(), Error>>),
    /// With what the contract gives it.
    Engine(for<'a> fn(EngineContext<'a>) -> BoxFuture<'a, Result<(), Error>>),
}

/// A mount that a job runs at.
#[derive(Clone, Copy)]
pub(crate) struct MountJobCall<'a> {
    pub(crate) core: &'a Core,
    pub(crate) unsealed: &'a NamespaceContext,
    pub(crate) mount: &'a Mount,
    pub(crate) now: Timestamp,
}

impl MountJob {
    /// A job of an engine that is a crate of its own.
    pub(super) const fn of_contract(job: &EngineJob) -> Self {
        let EngineJob { name, about, period_secs, run } = *job;
        Self { name, about, period_secs, work: MountWork::Engine(run) }
    }

    /// Runs it at a mount.
    pub(crate) fn run<'a>(&self, call: MountJobCall<'a>) -> BoxFuture<'a, Result<(), Error>> {
        match self.work {
            MountWork::Server(run) => run(call),
            MountWork::Engine(run) => Box::pin(contract::run_job(run, call)),
        }
    }
}
