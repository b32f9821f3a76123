//! Restoring a backup: records are staged beside those in use, and one transaction has them take their place.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use kallisto_store::{AsOf, Batch, Error, Position, Promise, Replaced};
use tokio_postgres::types::Type;

use crate::cells::{number, only};
use crate::change;
use crate::connection::{PgFailure, PgSession};
use crate::driver::{PgDriver, answer, apply, lease_ms};
use crate::limits::STATEMENT;
use crate::shared::{PgRestoreStep, PgShared};

impl PgDriver {
    /// Does a step; a connection that ends meanwhile leaves its caller without knowing.
    pub(crate) async fn restore(
        &mut self,
        epoch: u64,
        step: PgRestoreStep,
        promise: Promise,
    ) -> Result<(), PgFailure> {
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
            PgRestoreStep::Abandon(generation) => self.clear().await.map(|()| generation),
        };
        if !matches!(outcome, Err(PgFailure::Lost(_))) {
            self.shared.in_flight.store(0, Ordering::Release);
        }
        match outcome {
            Ok(position) => answer(promise, Ok(position)),
            Err(PgFailure::Refused(error)) => {
                if error == Error::NotLeader {
                    self.shared.depose(epoch);
                }
                answer(promise, Err(error));
            }
            Err(PgFailure::Again(why)) => answer(promise, Err(Error::Unavailable(why))),
            Err(PgFailure::Lost(why)) => {
                answer(promise, Err(Error::Unknown(why.clone())));
                // What came of it is read before this server leads again.
                self.shared.depose(epoch);
                return Err(PgFailure::Lost(why));
            }
        }
        Ok(())
    }

    async fn clear(&self) -> Result<(), PgFailure> {
        self.session()?.run(&self.shared.statements.clear_staged, &[], Self::LONG).await.map(|_| ())
    }

    /// A generation is the position of a batch that changes nothing.
    async fn begin(&mut self, epoch: u64) -> Result<u64, PgFailure> {
        self.clear().await?;
        let shared = Arc::clone(&self.shared);
        let before = shared.position().0;
        let (sent, generation) = (shared.clock.now(), before + 1);
        let nothing = Batch::new();
        let body = change::encode([&nothing].into_iter());
        let rows = self
            .session()?
            .run(
                &shared.statements.begin_restore,
                &[
                    (&lease_ms(), Type::FLOAT8),
                    (&epoch.cast_signed(), Type::INT8),
                    (&generation.cast_signed(), Type::INT8),
                    (&before.cast_signed(), Type::INT8),
                    (&body, Type::BYTEA),
                ],
                STATEMENT,
            )
            .await;
        refuse_none(rows?.is_empty())?;
        shared.extend(epoch, sent);
        apply(&shared, &[(Position(generation), nothing)]);
        Ok(generation)
    }

    async fn stage(
        &self,
        epoch: u64,
        generation: u64,
        records: &[(Bytes, Bytes)],
    ) -> Result<u64, PgFailure> {
        let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
        let values: Vec<&[u8]> = records.iter().map(|(_, value)| &value[..]).collect();
        let rows = self
            .session()?
            .run(
                &self.shared.statements.stage,
                &[
                    (&epoch.cast_signed(), Type::INT8),
                    (&generation.cast_signed(), Type::INT8),
                    (&keys, Type::BYTEA_ARRAY),
                    (&values, Type::BYTEA_ARRAY),
                ],
                STATEMENT,
            )
            .await;
        refuse_none(rows?.is_empty() && !records.is_empty())?;
        Ok(self.shared.position().0)
    }

    async fn switch(
        &mut self,
        epoch: u64,
        generation: u64,
        records: u64,
    ) -> Result<u64, PgFailure> {
        let shared = Arc::clone(&self.shared);
        let session = self.session()?;
        let counted = session
            .run(
                &shared.statements.count_staged,
                &[(&generation.cast_signed(), Type::INT8)],
                Self::LONG,
            )
            .await;
        if number(only(&counted?)?, 0)? != records {
            return Err(PgFailure::Refused(Error::Conflict));
        }
        let sent = shared.clock.now();
        let position = match take_place(session, &shared, epoch, generation).await {
            Ok(position) => position,
            Err(lost @ PgFailure::Lost(_)) => return Err(lost),
            Err(refused) => {
                session.batch("ROLLBACK", STATEMENT).await?;
                return Err(refused);
            }
        };
        shared.extend(epoch, sent);
        self.rebuild(Replaced::Restored).await?;
        debug_assert_eq!(shared.generation.load(Ordering::Acquire), generation);
        Ok(position)
    }
}

fn refuse_none(is_none: bool) -> Result<(), PgFailure> {
    if is_none { Err(PgFailure::Refused(Error::NotLeader)) } else { Ok(()) }
}

async fn take_place(
    session: &PgSession,
    shared: &PgShared,
    epoch: u64,
    generation: u64,
) -> Result<u64, PgFailure> {
    let [fence, remove, take, rest] = &shared.statements.switch;
    let before = shared.position().0;
    let position = before + 1;
    session.batch("BEGIN", STATEMENT).await?;
    let led = session
        .run(
            fence,
            &[
                (&lease_ms(), Type::FLOAT8),
                (&epoch.cast_signed(), Type::INT8),
                (&position.cast_signed(), Type::INT8),
                (&before.cast_signed(), Type::INT8),
                (&generation.cast_signed(), Type::INT8),
            ],
            STATEMENT,
        )
        .await;
    refuse_none(led?.is_empty())?;
    session.run(remove, &[], PgDriver::LONG).await?;
    let (old, new) = (generation.cast_signed(), position.cast_signed());
    session.run(take, &[(&old, Type::INT8), (&new, Type::INT8)], PgDriver::LONG).await?;
    session.batch(rest, PgDriver::LONG).await?;
    session.batch("COMMIT", STATEMENT).await?;
    Ok(position)
}
