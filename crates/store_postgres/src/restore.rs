//! Restoring a backup: records are staged beside those in use, and one transaction has them take their place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use kallisto_store::{AsOf, Batch, Error, Position, Promise, Replaced};

use crate::change;
use crate::database::{
    DatabaseFailure, DatabaseSession, RestoreOrder, StoreDatabase, SwitchOutcome,
};
use crate::driver::{PgDriver, answer};
use crate::shared::PgRestoreStep;

impl<D: StoreDatabase> PgDriver<D> {
    /// Does a step; a connection that ends meanwhile leaves its caller without knowing.
    pub(crate) async fn restore(
        &mut self,
        epoch: u64,
        step: PgRestoreStep,
        promise: Promise,
    ) -> Result<(), DatabaseFailure> {
        // Others may see what came of it before this server does.
        let began = AsOf::at(self.shared.clock.now()).to_bits();
        self.shared.in_flight.store(began, Ordering::Release);
        let outcome = match step {
            PgRestoreStep::Begin => self.begin(epoch).await,
            PgRestoreStep::Stage(generation, records) => {
                self.stage(epoch, generation, &records).await
            }
            PgRestoreStep::Switch(generation, records) => {
                self.switch(epoch, generation, records).await
            }
            PgRestoreStep::Abandon(generation) => self.clear(epoch, generation).await,
        };
        if !matches!(outcome, Err(DatabaseFailure::Lost(_))) {
            self.shared.in_flight.store(0, Ordering::Release);
        }
        match outcome {
            Ok(position) => answer(promise, Ok(position)),
            Err(DatabaseFailure::Refused(error)) => {
                if error == Error::NotLeader {
                    self.shared.depose(epoch);
                }
                answer(promise, Err(error));
            }
            Err(DatabaseFailure::Again(why)) => answer(promise, Err(Error::Unavailable(why))),
            Err(DatabaseFailure::Lost(why)) => {
                answer(promise, Err(Error::Unknown(why.clone())));
                // What came of it is read before this server leads again.
                self.shared.depose(epoch);
                return Err(DatabaseFailure::Lost(why));
            }
        }
        Ok(())
    }

    /// Another restore may have begun since: what is staged for it stays.
    async fn clear(&self, epoch: u64, generation: u64) -> Result<u64, DatabaseFailure> {
        self.session()?.clear_staged(epoch, generation).await.map(|()| generation)
    }

    /// A generation is the position of a batch that changes nothing.
    async fn begin(&mut self, epoch: u64) -> Result<u64, DatabaseFailure> {
        let shared = Arc::clone(&self.shared);
        let before = shared.position().0;
        let generation = before + 1;
        self.clear(epoch, generation).await?;
        let sent = shared.clock.now();
        let nothing = Batch::new();
        let body = change::encode([&nothing].into_iter());
        let order = RestoreOrder { epoch, before, generation };
        need_lead(self.session()?.begin_restore(&order, &body).await?)?;
        shared.extend(epoch, sent);
        self.apply(&[(Position(generation), nothing)]);
        Ok(generation)
    }

    async fn stage(
        &self,
        epoch: u64,
        generation: u64,
        records: &[(Bytes, Bytes)],
    ) -> Result<u64, DatabaseFailure> {
        need_lead(self.session()?.stage(epoch, generation, records).await?)?;
        Ok(self.shared.position().0)
    }

    async fn switch(
        &mut self,
        epoch: u64,
        generation: u64,
        records: u64,
    ) -> Result<u64, DatabaseFailure> {
        let shared = Arc::clone(&self.shared);
        let sent = shared.clock.now();
        let before = shared.position().0;
        let order = RestoreOrder { epoch, before, generation };
        match self.session()?.switch(&order, records).await? {
            SwitchOutcome::Switched => {}
            SwitchOutcome::Deposed => return Err(DatabaseFailure::Refused(Error::NotLeader)),
            SwitchOutcome::Incomplete => return Err(DatabaseFailure::Refused(Error::Conflict)),
        }
        shared.extend(epoch, sent);
        self.rebuild(Replaced::Restored).await?;
        debug_assert_eq!(shared.generation.load(Ordering::Acquire), generation);
        Ok(before + 1)
    }
}

fn need_lead(is_held: bool) -> Result<(), DatabaseFailure> {
    if is_held { Ok(()) } else { Err(DatabaseFailure::Refused(Error::NotLeader)) }
}
