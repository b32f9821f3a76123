//! The task that reads and writes: it alone changes the records.
//!
//! A leader commits what waits (`commit`), group by group. A follower asks for change rows whenever it is notified, and at least every
//! `confirm_every`; a leader without writes does the latter too. When the connection ends in the middle of a commit, nobody knows what
//! came of it: the leader takes a new epoch, which waits for the old transaction or keeps it from committing, and then reads whether its
//! row is there. Only after that, or after [`PATIENCE`], is anybody told.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kallisto_store::{Batch, Error, Position, Promise};

use crate::database::{DatabaseFailure, DatabaseSession, StoreDatabase};
use crate::group::PgGroup;
use crate::limits::{CHANGES_KEPT, PATIENCE, PAUSE_FIRST, PAUSE_LONGEST, TRIM_EVERY};
use crate::shared::{PgRequest, PgRole, PgShared, lock, lock_feed};

pub(crate) struct PgDriver<D: StoreDatabase> {
    pub(crate) shared: Arc<PgShared>,
    pub(crate) database: D,
    pub(crate) session: Option<D::Session>,
    pub(crate) pause: Duration,
    /// A group whose end is not known, and since when.
    pub(crate) unknown: Option<(PgGroup, Duration)>,
    /// Since when there is no connection.
    pub(crate) away_since: Option<Duration>,
    pub(crate) trimmed: u64,
    /// Who held the lease when it was last asked.
    pub(crate) seen_holder: u64,
}

impl<D: StoreDatabase> PgDriver<D> {
    pub(crate) fn new(shared: Arc<PgShared>, database: D, session: D::Session) -> Self {
        Self {
            shared,
            database,
            session: Some(session),
            pause: PAUSE_FIRST,
            unknown: None,
            away_since: None,
            trimmed: 0,
            seen_holder: 0,
        }
    }

    /// Works until the store is closed and nothing waits any more.
    pub(crate) async fn run(mut self) {
        loop {
            if self.session.as_ref().is_none_or(DatabaseSession::is_closed) {
                if self.session.take().is_some() {
                    self.lost("it ended");
                }
                if self.shared.is_closing() {
                    break;
                }
                self.connect().await;
                continue;
            }
            match self.turn().await {
                Ok(DriverTurn::Again) => self.pause = PAUSE_FIRST,
                Ok(DriverTurn::Rest) if self.shared.is_closing() => break,
                Ok(DriverTurn::Rest) => {
                    self.pause = PAUSE_FIRST;
                    // A notification, a request, or the time at which the records are to be confirmed again.
                    self.database.rest(self.shared.confirm_every, &self.shared.wake).await;
                }
                Err(DatabaseFailure::Lost(why)) => {
                    self.lost(&why);
                    self.session = None;
                }
                Err(DatabaseFailure::Again(why)) => {
                    tracing::debug!(why, "a statement of the storage is sent again");
                    self.database.sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(PAUSE_LONGEST);
                    self.give_up_old();
                }
                Err(DatabaseFailure::Refused(error)) => {
                    tracing::error!(%error, "the database refuses a statement of the storage");
                    self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                    if self.shared.is_closing() {
                        // It would refuse the same again, for as long as whoever stops this server waits.
                        break;
                    }
                    self.database.sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(PAUSE_LONGEST);
                    self.give_up_old();
                }
            }
        }
        self.end();
    }

    /// Says that a connection is gone.
    fn lost(&mut self, why: &str) {
        tracing::warn!(why, "the connection to the database was lost");
        self.away_since.get_or_insert(self.shared.clock.now());
        let counters = &self.shared.counters;
        counters.connections_lost.fetch_add(1, Ordering::Relaxed);
        counters.is_connected.store(false, Ordering::Relaxed);
    }

    fn end(&mut self) {
        if let Some((group, _)) = self.unknown.take() {
            unknown(group);
        }
        let closed = || Error::Unavailable("the store is closed".to_owned());
        let (old, reads) = {
            let mut queue = lock(&self.shared.queue);
            (queue.take_old(None), std::mem::take(&mut queue.reads))
        };
        old.into_iter().for_each(|request| request.refuse(closed()));
        reads.into_iter().for_each(|promise| promise.keep(Err(closed())));
        self.shared.drained.store(true, Ordering::Release);
        self.shared.keeper_wake.notify_one();
    }

    pub(crate) async fn connect(&mut self) {
        match self.open().await {
            Ok(session) => {
                tracing::info!("connected to the database again");
                self.shared.counters.is_connected.store(true, Ordering::Relaxed);
                self.away_since = None;
                lock(&self.shared.queue).set_away(false);
                self.session = Some(session);
            }
            Err(failure) => {
                let error = failure.into_error();
                tracing::warn!(%error, "the database is not reached");
                self.give_up_old();
                self.database.sleep(self.pause).await;
                self.pause = (self.pause * 2).min(PAUSE_LONGEST);
            }
        }
    }

    async fn open(&self) -> Result<D::Session, DatabaseFailure> {
        let session = self.database.open(&self.shared.wake).await?;
        session.listen().await?;
        Ok(session)
    }

    /// Answers those that have waited for too long. Of a database that is away for as long nobody waits, and from then on nobody begins to: those
    /// who write one record wait for each other, so each would wait as long again.
    fn give_up_old(&mut self) {
        let now = self.shared.clock.now();
        if let Some((group, since)) = self.unknown.take() {
            match now.saturating_sub(since) > PATIENCE {
                true => {
                    // What came of it is read before this server leads again.
                    self.shared.depose(group.epoch);
                    unknown(group);
                }
                false => self.unknown = Some((group, since)),
            }
        }
        let Some(since) = now.checked_sub(PATIENCE) else { return };
        let is_long = self.away_since.is_some_and(|away| away < since);
        let (old, reads) = {
            let mut queue = lock(&self.shared.queue);
            queue.set_away(is_long);
            (queue.take_old((!is_long).then_some(since)), std::mem::take(&mut queue.reads))
        };
        let away = || Error::Unavailable("the database is not reached".to_owned());
        old.into_iter().for_each(|request| request.refuse(away()));
        reads.into_iter().for_each(|promise| promise.keep(Err(away())));
    }

    pub(crate) async fn turn(&mut self) -> Result<DriverTurn, DatabaseFailure> {
        let role = lock(&self.shared.lead).role;
        if self.unknown.is_some()
            && let PgRole::Leading { epoch } = role
        {
            self.refence(epoch).await?;
            return Ok(DriverTurn::Again);
        }
        match role {
            PgRole::Leading { epoch } => self.lead(epoch).await,
            PgRole::Elected { epoch, position } => {
                let is_whole = self.follow().await?;
                if is_whole && self.shared.position().0 >= position {
                    self.shared.lead(epoch);
                }
                Ok(DriverTurn::Again)
            }
            PgRole::Following => {
                self.refuse_or_begin().await?;
                let is_whole = self.follow().await?;
                Ok(if is_whole { DriverTurn::Rest } else { DriverTurn::Again })
            }
        }
    }

    /// What waits at a server that does not lead: it is the leader's business. Of a database without anything any server may begin.
    async fn refuse_or_begin(&self) -> Result<(), DatabaseFailure> {
        if self.unknown.is_some() || lock(&self.shared.queue).len() == 0 {
            return Ok(());
        }
        if self.shared.position().0 == 0 {
            let sent = self.shared.clock.now();
            if let Some(taken) = self.session()?.take_blank(self.shared.own.id).await? {
                self.shared.elect(taken, sent);
                return Ok(());
            }
        }
        let all = lock(&self.shared.queue).take_old(None);
        all.into_iter().for_each(|request| request.refuse(Error::NotLeader));
        Ok(())
    }

    pub(crate) fn session(&self) -> Result<&D::Session, DatabaseFailure> {
        self.session
            .as_ref()
            .ok_or_else(|| DatabaseFailure::Lost("there is no connection".to_owned()))
    }

    /// Makes sure that nothing of this server's old epoch commits any more, without giving the lease away.
    async fn refence(&self, epoch: u64) -> Result<(), DatabaseFailure> {
        let sent = self.shared.clock.now();
        match self.session()?.refence(self.shared.own.id, epoch).await? {
            Some(taken) => self.shared.elect(taken, sent),
            None => self.shared.depose(epoch),
        }
        Ok(())
    }

    async fn lead(&mut self, epoch: u64) -> Result<DriverTurn, DatabaseFailure> {
        let other = lock(&self.shared.queue).take_other();
        match other {
            Some(PgRequest::Save(promise)) => {
                promise.keep(Ok(self.shared.position()));
                return Ok(DriverTurn::Again);
            }
            Some(PgRequest::Step(step, promise, _)) => {
                self.restore(epoch, step, promise).await?;
                return Ok(DriverTurn::Again);
            }
            Some(PgRequest::Commit(_)) | None => {}
        }
        let waiting = lock(&self.shared.queue).take_group();
        if !waiting.is_empty() {
            self.commit(epoch, waiting).await?;
            self.trim(epoch).await?;
            return Ok(DriverTurn::Again);
        }
        self.look_if_due().await?;
        Ok(DriverTurn::Rest)
    }

    /// Looks at the change rows where somebody asks for the latest, or the database has not said for a while what that is. A lease
    /// is a matter of clocks; who writes, the database says.
    pub(crate) async fn look_if_due(&mut self) -> Result<(), DatabaseFailure> {
        let has_reads = !lock(&self.shared.queue).reads.is_empty();
        if has_reads || self.shared.is_unconfirmed() {
            self.follow().await?;
        }
        Ok(())
    }

    /// Whether there are change rows at `position` that every follower had time to read.
    pub(crate) fn is_trim_due(&self, position: u64) -> bool {
        position.checked_sub(CHANGES_KEPT).is_some_and(|to| to >= self.trimmed + TRIM_EVERY)
    }

    /// Forgets change rows that every follower had time to read.
    async fn trim(&mut self, epoch: u64) -> Result<(), DatabaseFailure> {
        if !self.is_trim_due(self.shared.position().0) {
            return Ok(());
        }
        let to = self.shared.position().0 - CHANGES_KEPT;
        self.trimmed = to;
        self.session()?.trim(epoch, to).await
    }

    /// Applies and folds committed batches, in order.
    pub(crate) fn apply(&self, batches: &[(Position, Batch)]) {
        let shared = &self.shared;
        // Whoever attaches a fold holds the feed for as long as it loads.
        self.database.occupy(|| {
            let feed = lock_feed(shared);
            for (position, batch) in batches {
                shared.records.apply(*position, batch);
                shared.position.store(position.0, Ordering::Release);
                if let Some(fold) = feed.as_ref() {
                    fold.fold(*position, batch, &shared.records);
                }
            }
        });
    }
}

/// Whether there is more to do now.
pub(crate) enum DriverTurn {
    Again,
    Rest,
}

pub(crate) fn committed(group: PgGroup) {
    for (position, waiting) in group.going {
        waiting.promise.keep(Ok(position));
    }
    group.conflicting.into_iter().for_each(|w| w.promise.keep(Err(Error::Conflict)));
}

pub(crate) fn unknown(group: PgGroup) {
    for waiting in group.into_waiting() {
        let why = "the connection to the database ended in the middle of the commit";
        waiting.promise.keep(Err(Error::Unknown(why.to_owned())));
    }
}

/// Keeps a promise with what a statement said.
pub(crate) fn answer(promise: Promise, outcome: Result<u64, Error>) {
    promise.keep(outcome.map(Position));
}
