//! What a server reads that does not write: change rows behind its position, or all records where those are not enough.
//!
//! A follower asks whenever it is notified, and at least every `confirm_every`. A leader asks after it took the lease, before it refuses
//! a group of which nothing can be committed, and where no commit says it: for strong reads, and every `confirm_every`. What comes of
//! a commit that was cut off is found here: its row is there, or its epoch is over and it never will be.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kallisto_store::{Error, Replaced};

use crate::database::{DatabaseFailure, DatabaseSession, StoreDatabase};
use crate::driver::{PgDriver, committed, unknown};
use crate::limits::PATIENCE;
use crate::shared::{PgRole, WaitingBatch, lock, lock_feed};

impl<D: StoreDatabase> PgDriver<D> {
    /// Reads what others committed. Whether that was all there is.
    pub(crate) async fn follow(&mut self) -> Result<bool, DatabaseFailure> {
        let shared = Arc::clone(&self.shared);
        let reads = std::mem::take(&mut lock(&shared.queue).reads);
        let outcome = self.poll().await;
        match &outcome {
            Ok(true) => {
                let position = shared.position();
                reads.into_iter().for_each(|promise| promise.keep(Ok(position)));
            }
            Ok(false) => lock(&shared.queue).reads.extend(reads),
            Err(_) => reads.into_iter().for_each(|promise| promise.keep(Err(Error::NotLeader))),
        }
        outcome
    }

    async fn poll(&mut self) -> Result<bool, DatabaseFailure> {
        let shared = Arc::clone(&self.shared);
        let asked = shared.clock.now();
        let own = shared.position().0;
        let polled = self.session()?.poll(own).await?;
        let tip = polled.tip;
        if std::mem::replace(&mut self.seen_holder, polled.holder) != polled.holder {
            // It hears of nothing, and would look at its next beat.
            shared.keeper_wake.notify_one();
        }
        let role = lock(&shared.lead).role;
        if let PgRole::Leading { epoch } = role
            && polled.epoch > epoch
        {
            shared.depose(epoch);
        }
        shared.counters.behind.store(tip.saturating_sub(own), Ordering::Relaxed);
        let restored = polled.generation != shared.generation.load(Ordering::Acquire);
        if tip < own {
            // What was acknowledged in between is in no table any more.
            tracing::warn!(
                position = tip,
                own,
                "the database is behind this server, as after a restore of an older dump: reading all records"
            );
        }
        if restored || polled.trimmed > own || tip < own {
            self.rebuild(if restored { Replaced::Restored } else { Replaced::CaughtUp }).await?;
            return Ok(false);
        }
        for row in polled.rows {
            let batches = row.batches.filter(|_| row.first == shared.position().0 + 1);
            let Some(batches) = batches else {
                tracing::error!(
                    row.first,
                    row.last,
                    "a change row is not the next one: reading all records"
                );
                self.rebuild(Replaced::CaughtUp).await?;
                return Ok(false);
            };
            self.apply(&batches);
            self.found(row.last, row.epoch);
        }
        if polled.has_more {
            return Ok(false);
        }
        if tip != shared.position().0 {
            tracing::error!(tip, "change rows are missing: reading all records");
            self.rebuild(Replaced::CaughtUp).await?;
            return Ok(false);
        }
        shared.confirm(asked);
        self.not_found(polled.epoch);
        if self.unknown.is_none() {
            shared.in_flight.store(0, Ordering::Release);
        }
        Ok(true)
    }

    /// A change row was applied: if it is that of the group whose end was not known, it is known now.
    fn found(&mut self, last: u64, epoch: u64) {
        if let Some((group, _)) =
            self.unknown.take_if(|(group, _)| (group.last(), group.epoch) == (last, epoch))
        {
            tracing::info!(position = last, "a commit that was cut off had come to its end");
            self.shared.in_flight.store(0, Ordering::Release);
            committed(group);
        }
    }

    /// All change rows are here as of `epoch`. A group that was cut off and is not among them, and whose epoch is over, never will be.
    fn not_found(&mut self, epoch: u64) {
        let Some((group, _)) = self.unknown.take_if(|(group, _)| epoch > group.epoch) else {
            return;
        };
        let waiting = group.into_waiting();
        let now = self.shared.clock.now();
        let role = lock(&self.shared.lead).role;
        match role {
            PgRole::Leading { .. } | PgRole::Elected { .. } => {
                // One that takes longer than a statement may is sent again and again, and all others wait behind it.
                let is_old = |w: &WaitingBatch| now.saturating_sub(w.since) > PATIENCE;
                let (old, again): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_old);
                lock(&self.shared.queue).put_back(again);
                let late = || Error::Unavailable("the database did not take it in time".to_owned());
                old.into_iter().for_each(|w| w.promise.keep(Err(late())));
            }
            PgRole::Following => {
                waiting.into_iter().for_each(|w| w.promise.keep(Err(Error::NotLeader)));
            }
        }
    }

    /// Reads all records, in the place of those that are here.
    pub(crate) async fn rebuild(&mut self, why: Replaced) -> Result<(), DatabaseFailure> {
        tracing::info!(?why, "reading all records from the database");
        self.shared.counters.loads.fetch_add(1, Ordering::Relaxed);
        let asked = self.shared.clock.now();
        let loaded = self.session()?.load().await?;
        let shared = Arc::clone(&self.shared);
        self.database.occupy(|| {
            let mut feed = lock_feed(&shared);
            let fold = feed.take();
            // Before the position moves: see `Fold::replaced`.
            if let Some(fold) = fold {
                fold.replaced(why);
            }
            shared.records.replace(loaded.records);
            shared.generation.store(loaded.generation, Ordering::Release);
            shared.position.store(loaded.position, Ordering::Release);
        });
        shared.confirm(asked);
        if let Some((group, _)) = self.unknown.take() {
            shared.in_flight.store(0, Ordering::Release);
            unknown(group);
        }
        Ok(())
    }
}
