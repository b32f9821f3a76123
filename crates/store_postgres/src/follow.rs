//! What a server reads that does not write: change rows behind its position, or all records where those are not enough.
//!
//! A follower asks whenever it is notified, and at least every `confirm_every`; a leader asks after it took the lease, and while it
//! does not know whether it still has it. What comes of a commit that was cut off is found here: its row is there, or its epoch is
//! over and it never will be.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kallisto_store::{Error, Replaced};
use tokio_postgres::types::Type;

use crate::cells::{cell, number, only};
use crate::change;
use crate::connection::{PgFailure, PgParameter};
use crate::driver::{PgDriver, apply, committed, unknown};
use crate::limits::{POLL_ROWS, STATEMENT};
use crate::load::load;
use crate::shared::{PgRole, lock};

impl PgDriver {
    /// Reads what others committed. Whether that was all there is.
    pub(crate) async fn follow(&mut self) -> Result<bool, PgFailure> {
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

    async fn poll(&mut self) -> Result<bool, PgFailure> {
        let shared = Arc::clone(&self.shared);
        let asked = shared.clock.now();
        let own = shared.position().0;
        let parameters: [PgParameter<'_>; 2] =
            [(&own.cast_signed(), Type::INT8), (&(POLL_ROWS as i64), Type::INT8)];
        let rows = self.session()?.run(&shared.statements.poll, &parameters, STATEMENT).await?;
        let head = only(&rows)?;
        let (tip, generation, trimmed) = (number(head, 1)?, number(head, 2)?, number(head, 3)?);
        shared.counters.behind.store(tip.saturating_sub(own), Ordering::Relaxed);
        let restored = generation != shared.generation.load(Ordering::Acquire);
        if restored || trimmed > own || tip < own {
            self.rebuild(if restored { Replaced::Restored } else { Replaced::CaughtUp }).await?;
            return Ok(false);
        }
        let mut count = 0;
        for row in &rows {
            if cell::<Option<i64>>(row, 4)?.is_none() {
                continue;
            }
            count += 1;
            let (first, last, epoch) = (number(row, 4)?, number(row, 5)?, number(row, 6)?);
            let batches = change::decode(cell(row, 7)?, first, last)
                .filter(|_| first == shared.position().0 + 1);
            let Some(batches) = batches else {
                tracing::error!(
                    first,
                    last,
                    "a change row is not the next one: reading all records"
                );
                self.rebuild(Replaced::CaughtUp).await?;
                return Ok(false);
            };
            apply(&shared, &batches);
            self.found(last, epoch);
        }
        if count == POLL_ROWS {
            return Ok(false);
        }
        if tip != shared.position().0 {
            tracing::error!(tip, "change rows are missing: reading all records");
            self.rebuild(Replaced::CaughtUp).await?;
            return Ok(false);
        }
        shared.confirm(asked);
        self.not_found(number(head, 0)?);
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
        match lock(&self.shared.lead).role {
            PgRole::Leading { .. } | PgRole::Elected { .. } => {
                lock(&self.shared.queue).put_back(waiting);
            }
            PgRole::Following => {
                waiting.into_iter().for_each(|w| w.promise.keep(Err(Error::NotLeader)));
            }
        }
    }

    /// Reads all records, in the place of those that are here.
    pub(crate) async fn rebuild(&mut self, why: Replaced) -> Result<(), PgFailure> {
        tracing::info!(?why, "reading all records from the database");
        self.shared.counters.loads.fetch_add(1, Ordering::Relaxed);
        let asked = self.shared.clock.now();
        let loaded = load(self.session()?, &self.shared.statements).await?;
        let shared = Arc::clone(&self.shared);
        tokio::task::block_in_place(|| {
            let mut feed = lock(&shared.feed);
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
