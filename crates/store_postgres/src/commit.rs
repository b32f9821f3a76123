//! Committing: a leader judges what waits on its records, which are all there is, and commits a group as one statement, in one round trip.
//!
//! ```text
//! judge > send > fold the group before > wait > committed > judge the next one ...
//! ```
//!
//! A group is folded while the next one is on its way, so the database does not wait for this server. The next one is judged on the
//! records and on what is not among them yet; by then that is committed, so no group hangs on one that may still fail.
//!
//! Invariants:
//! - one statement is on its way at a time;
//! - `in_flight` is no later than the beginning of any group that others may see and this server has not folded;
//! - what is committed is folded before anything else happens, whatever comes of the group behind it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use kallisto_store::{AsOf, Batch, Error, Position, Promise, Seqno};

use crate::change;
use crate::database::{
    CommitOrder, DatabaseFailure, DatabaseResult, DatabaseSession, StoreDatabase,
};
use crate::driver::{PgDriver, committed};
use crate::group::PgGroup;
use crate::shared::{WaitingBatch, lock};

/// A group that is committed in the database and not applied to the records in memory yet.
struct CommittedGroup {
    group: PgGroup,
    /// Its batches without their preconditions.
    batches: Vec<Batch>,
    /// Strong reads that were asked before its commit was sent.
    reads: Vec<Promise>,
}

impl<D: StoreDatabase> PgDriver<D> {
    /// Commits what waits, one group behind the other, until nothing does.
    pub(crate) async fn commit(
        &mut self,
        epoch: u64,
        first: Vec<WaitingBatch>,
    ) -> Result<(), DatabaseFailure> {
        let (mut waiting, mut behind) = (first, None);
        let outcome = loop {
            let outcome = self.commit_group(epoch, waiting, &mut behind).await;
            // What failed is for a turn of its own; so are change rows to be forgotten, and a lead that was given away.
            let goes_on = behind.as_ref().is_some_and(|done| !self.is_trim_due(done.group.last()));
            if outcome.is_err() || !goes_on || !self.shared.leads_in(epoch) {
                break outcome;
            }
            waiting = lock(&self.shared.queue).take_group();
            if waiting.is_empty() {
                break outcome;
            }
        };
        if let Some(done) = behind.take() {
            self.settle(done);
            self.shared.in_flight.store(0, Ordering::Release);
        }
        outcome
    }

    /// Commits what of these may be committed, and leaves it in `behind` to be folded; the group that was there is folded.
    async fn commit_group(
        &mut self,
        epoch: u64,
        waiting: Vec<WaitingBatch>,
        behind: &mut Option<CommittedGroup>,
    ) -> Result<(), DatabaseFailure> {
        let shared = Arc::clone(&self.shared);
        let ahead = behind.as_ref().map(|done| &done.group);
        let before = ahead.map_or(shared.position().0, PgGroup::last);
        let generation = Seqno(shared.generation.load(Ordering::Acquire));
        let group = PgGroup::judge(epoch, before, waiting, (&shared.records, ahead), generation);
        if group.going.is_empty() {
            if let Some(done) = behind.take() {
                self.settle(done);
                shared.in_flight.store(0, Ordering::Release);
            }
            return self.refuse(epoch, group).await;
        }
        // What was committed before the commit began is here once it is: whoever asks for the latest needs no question more.
        let reads = std::mem::take(&mut lock(&shared.queue).reads);
        let batches = group.batches();
        let body = change::encode(batches.iter());
        let sent = shared.clock.now();
        if behind.is_none() {
            shared.in_flight.store(AsOf::at(sent).to_bits(), Ordering::Release);
        }
        let held = self.send(&group, &body, sent, behind).await;
        if let Ok(true) = held {
            shared.extend(epoch, sent);
            let took = shared.clock.now().saturating_sub(sent);
            let mut commits = lock(&shared.commits);
            commits.batches += batches.len() as u64;
            commits.record(took);
            drop(commits);
            *behind = Some(CommittedGroup { group, batches, reads });
            return Ok(());
        }
        lock(&shared.queue).reads.extend(reads);
        self.not_committed(group, held.map(|_| ()), sent)?;
        // A database that refuses what is written still says what is there, to those who would wait for a commit in vain.
        self.look_if_due().await
    }

    /// Sends a group, folds the one before it meanwhile, and hears what came of it.
    async fn send(
        &self,
        group: &PgGroup,
        body: &[u8],
        sent: Duration,
        behind: &mut Option<CommittedGroup>,
    ) -> DatabaseResult<bool> {
        let effects = group.effects();
        let (epoch, before, last) = (group.epoch, group.before, group.last());
        let order = CommitOrder { epoch, before, last, effects: &effects, body };
        let mut commit = pin!(self.session()?.commit(&order));
        // It is on its way once it was polled.
        let begun = poll_fn(|context| Poll::Ready(commit.as_mut().poll(context))).await;
        if let Some(done) = behind.take() {
            self.settle(done);
            self.shared.in_flight.store(AsOf::at(sent).to_bits(), Ordering::Release);
        }
        match begun {
            Poll::Ready(held) => held,
            Poll::Pending => commit.await,
        }
    }

    /// Folds a group that is committed, and tells those who wait for it.
    fn settle(&self, done: CommittedGroup) {
        let CommittedGroup { group, batches, reads } = done;
        let last = Position(group.last());
        let positions = group.going.iter().map(|(position, _)| *position);
        let all: Vec<_> = positions.zip(batches).collect();
        self.apply(&all);
        reads.into_iter().for_each(|promise| promise.keep(Ok(last)));
        committed(group);
    }

    /// Tells of a group that was not committed, or keeps it until it is known what came of it. `told` is what the database said: that
    /// epoch and position are others, or why it did nothing, or nothing.
    fn not_committed(
        &mut self,
        group: PgGroup,
        told: Result<(), DatabaseFailure>,
        sent: Duration,
    ) -> Result<(), DatabaseFailure> {
        let shared = Arc::clone(&self.shared);
        if let Err(DatabaseFailure::Lost(why)) = told {
            self.unknown = Some((group, sent));
            return Err(DatabaseFailure::Lost(why));
        }
        shared.in_flight.store(0, Ordering::Release);
        let error = match told {
            Ok(()) => {
                shared.depose(group.epoch);
                Error::NotLeader
            }
            Err(DatabaseFailure::Refused(error)) => {
                tracing::warn!(%error, "the database refused a commit");
                shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                error
            }
            Err(again) => {
                lock(&shared.queue).put_back(group.into_waiting());
                return Err(again);
            }
        };
        group.into_waiting().into_iter().for_each(|w| w.promise.keep(Err(error.clone())));
        Ok(())
    }

    /// Tells of what cannot be committed, once the database has said that what it was judged on is the latest.
    async fn refuse(&mut self, epoch: u64, group: PgGroup) -> Result<(), DatabaseFailure> {
        let confirmed = self.follow().await;
        let outcome = match confirmed {
            Ok(_) if !self.shared.leads_in(epoch) => Error::NotLeader,
            Ok(true) => Error::Conflict,
            confirmed => {
                lock(&self.shared.queue).put_back(group.into_waiting());
                return confirmed.map(|_| ());
            }
        };
        group.conflicting.into_iter().for_each(|w| w.promise.keep(Err(outcome.clone())));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
