//! The applier: writes what is committed to the engine, has it folded, and only then says so.
//!
//! It works through its backlog in order. A full disk stalls it, and nothing is skipped: who waits for an entry, this one
//! or one behind it, hears that it is committed and not yet applied, new writes are refused, and the same entry is tried
//! again until there is space. Any other failure ends the store.

use std::collections::VecDeque;
use std::sync::Arc;

use super::limits::RESOLVE_MAX;
use super::lock;
use super::shared::StoreShared;
use super::tasks::ApplierTask;
use crate::Error;
use crate::commit::{CommitOutcome, Promise};

/// The applier's own.
pub(crate) struct Applier {
    shared: Arc<StoreShared>,
    backlog: VecDeque<ApplierTask>,
    /// What is applied and not yet said to be.
    unsaid: Vec<(Promise, CommitOutcome)>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplierTurn {
    /// Everything is applied.
    Done,
    /// The disk is full; try again later.
    Stalled,
}

impl Applier {
    /// An applier without a backlog.
    pub(crate) fn new(shared: Arc<StoreShared>) -> Self {
        Self { shared, backlog: VecDeque::new(), unsaid: Vec::new() }
    }

    /// Where tasks go.
    pub(crate) fn backlog(&mut self) -> &mut VecDeque<ApplierTask> {
        &mut self.backlog
    }

    /// Works through the backlog.
    ///
    /// # Errors
    /// What makes the store useless; everyone who waits has been told.
    pub(crate) fn turn(&mut self) -> Result<ApplierTurn, Error> {
        let (mut count, mut bytes) = (0, 0);
        let ended = loop {
            let Some(task) = self.backlog.pop_front() else { break Ok(ApplierTurn::Done) };
            let task_bytes = task.bytes();
            match self.perform(task) {
                Ok(ApplierTurn::Done) => {}
                Ok(ApplierTurn::Stalled) => break Ok(ApplierTurn::Stalled),
                Err(error) => break Err(error),
            }
            count += 1;
            bytes += task_bytes;
            if self.unsaid.len() >= RESOLVE_MAX {
                self.resolve();
            }
        };
        self.resolve();
        if let Err(error) = &ended {
            self.abandon(error);
            return ended;
        }
        let stalled = ended == Ok(ApplierTurn::Stalled);
        if stalled {
            count += self.tell_who_waits();
        }
        // Those who wait for the driver are refused by it.
        if self.shared.tasks.done(count, bytes) || stalled {
            self.shared.requests.nudge();
        }
        ended
    }

    fn perform(&mut self, task: ApplierTask) -> Result<ApplierTurn, Error> {
        let (entry, promise) = match task {
            ApplierTask::Settled(promise) => {
                self.unsaid.push((promise, Ok(self.shared.machine.position())));
                return Ok(ApplierTurn::Done);
            }
            ApplierTask::Confirmed(asked) => {
                self.shared.lease.confirm(asked);
                return Ok(ApplierTurn::Done);
            }
            ApplierTask::Apply(entry, promise) => (entry, promise),
        };
        let outcome = self.shared.machine.apply(&entry);
        if entry.members.is_some() && outcome.is_ok() {
            self.shared.transport.know(&self.shared.machine.directory());
        }
        match &outcome {
            Ok(_) | Err(Error::Conflict | Error::Unknown(_)) => {
                self.shared.note_space();
                self.unsaid.extend(promise.map(|promise| (promise, outcome)));
                Ok(ApplierTurn::Done)
            }
            Err(Error::Full(what)) => {
                *lock(&self.shared.full) = Some(Error::Full(what.clone()));
                self.backlog.push_front(ApplierTask::Apply(entry, promise));
                Ok(ApplierTurn::Stalled)
            }
            Err(error) => {
                if let Some(promise) = promise {
                    promise.keep(Err(Error::Unknown(error.to_string())));
                }
                Err(error.clone())
            }
        }
    }

    fn resolve(&mut self) {
        let _together = kallisto_wake::together();
        for (promise, outcome) in self.unsaid.drain(..) {
            promise.keep(outcome);
        }
    }

    /// Tells everybody whose word is in the backlog that it has to wait for space, and returns how many tasks that ends.
    fn tell_who_waits(&mut self) -> usize {
        let before = self.backlog.len();
        let Some(full) = self.shared.stalled() else { return 0 };
        for task in std::mem::take(&mut self.backlog) {
            match task {
                ApplierTask::Settled(promise) => promise.keep(Err(full.clone())),
                // Not while something before it waits: it is asked for again.
                ApplierTask::Confirmed(_) => {}
                ApplierTask::Apply(entry, promise) => {
                    if let Some(promise) = promise {
                        let what = "it is in the log and will be applied once the disk has space";
                        promise.keep(Err(Error::Unknown(what.into())));
                    }
                    self.backlog.push_back(ApplierTask::Apply(entry, None));
                }
            }
        }
        before - self.backlog.len()
    }

    fn abandon(&mut self, why: &Error) {
        for task in self.backlog.drain(..) {
            task.refuse(Error::Unknown(why.to_string()));
        }
        self.shared.tasks.abandon();
    }
}
