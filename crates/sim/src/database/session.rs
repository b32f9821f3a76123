//! A server's end of its connections to the simulated database: operations travel as closures that the world carries.
//!
//! A future here waits for its answer, for the end of its connection, or until it has waited for long enough by its server's clock.
//! Nothing wakes it: the world polls a server's tasks whenever something has come.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use kallisto_lsm::clock::Clock;
use kallisto_store::{Error, Peer};
use kallisto_store_postgres::database::{
    CommitOrder, DatabaseFailure, DatabaseResult, DatabaseSession, LeaseLook, ListedServer,
    LoadedRecords, Notify, PolledChanges, RestoreOrder, StoreDatabase, SwitchOutcome, TakenLease,
};
use kallisto_store_postgres::limits::{LONG_STATEMENT, STATEMENT};

use super::rows::{DatabaseRows, SentCommit};
use crate::clock::SimClock;
use crate::sabotage::Sabotage;

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(6);
const STORE_ID: [u8; 16] = [7; 16];

/// What a query finds when it comes: the rows, the time there, and how far the database's clock is off.
pub(crate) struct QueryMoment<'m> {
    pub(crate) rows: &'m mut DatabaseRows,
    /// What a standby that lags shows.
    pub(crate) lagging: Option<&'m DatabaseRows>,
    pub(crate) now: Duration,
    pub(crate) off: i64,
}

/// An answer on its way back.
pub(crate) type SentAnswer = Box<dyn FnOnce() + Send>;
/// An operation on its way.
pub(crate) type QueryWork = Box<dyn FnOnce(&mut QueryMoment<'_>) -> SentAnswer + Send>;

/// The two ends of a connection.
#[derive(Debug, Default)]
pub(crate) struct SimWire {
    /// The database's end, or the network between, is gone, and the server knows.
    pub(crate) is_broken: AtomicBool,
    /// The server has let it go.
    pub(crate) is_closed: AtomicBool,
    pub(crate) listens: AtomicBool,
}

impl SimWire {
    pub(crate) fn is_open(&self) -> bool {
        !self.is_broken.load(Ordering::Relaxed) && !self.is_closed.load(Ordering::Relaxed)
    }
}

/// What a server said to the database and nobody carried yet.
pub(crate) enum Said {
    /// It wants a connection; the answer makes it one.
    Open { wire: Arc<SimWire>, wake: Arc<Notify>, answer: Arc<Slot<()>> },
    /// It asks for something.
    Query { wire: Arc<SimWire>, work: QueryWork },
}

/// Where an answer is put.
#[derive(Debug)]
pub(crate) struct Slot<T>(Mutex<Option<DatabaseResult<T>>>);

impl<T> Slot<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(None)))
    }

    pub(crate) fn put(&self, answer: DatabaseResult<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    fn take(&self) -> Option<DatabaseResult<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// One server's end, in one of its lives.
#[derive(Clone)]
pub(crate) struct DatabaseEnd {
    said: Arc<Mutex<Vec<Said>>>,
    clock: Arc<SimClock>,
    sabotage: Option<Sabotage>,
}

impl DatabaseEnd {
    pub(crate) fn new(clock: Arc<SimClock>, sabotage: Option<Sabotage>) -> Self {
        Self { said: Arc::default(), clock, sabotage }
    }

    /// What was said since it was last asked.
    pub(crate) fn take(&self) -> Vec<Said> {
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn say(&self, said: Said) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(said);
    }

    async fn wait<T>(
        &self,
        slot: Arc<Slot<T>>,
        wire: Arc<SimWire>,
        longest: Duration,
    ) -> DatabaseResult<T> {
        let until = self.clock.now() + longest;
        poll_fn(|_| {
            if let Some(answer) = slot.take() {
                return Poll::Ready(answer);
            }
            let lost = |why: &str| Poll::Ready(Err(DatabaseFailure::Lost(why.to_owned())));
            if !wire.is_open() {
                return lost("the connection is gone");
            }
            if self.clock.now() >= until { lost("no answer in time") } else { Poll::Pending }
        })
        .await
    }
}

impl StoreDatabase for DatabaseEnd {
    type Session = SimSession;

    async fn open(&self, wake: &Arc<Notify>) -> DatabaseResult<SimSession> {
        let (wire, slot) = (Arc::<SimWire>::default(), Slot::new());
        let open = Said::Open {
            wire: Arc::clone(&wire),
            wake: Arc::clone(wake),
            answer: Arc::clone(&slot),
        };
        self.say(open);
        let session = SimSession { wire: Arc::clone(&wire), end: self.clone() };
        self.wait(slot, wire, CONNECT).await.map(|()| session)
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.clock.now() + duration;
        poll_fn(|_| if self.clock.now() >= until { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    async fn rest(&self, longest: Duration, wake: &Notify) {
        let until = self.clock.now() + longest;
        let mut heard = pin!(wake.notified());
        poll_fn(|context| match heard.as_mut().poll(context) {
            Poll::Pending if self.clock.now() < until => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
    }

    fn occupy<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// A connection.
pub(crate) struct SimSession {
    wire: Arc<SimWire>,
    end: DatabaseEnd,
}

impl Drop for SimSession {
    fn drop(&mut self) {
        self.wire.is_closed.store(true, Ordering::Relaxed);
    }
}

/// What is staged has no place here.
fn no_restores<T>() -> DatabaseResult<T> {
    Err(DatabaseFailure::Refused(Error::Unavailable("restores are not simulated".to_owned())))
}

impl SimSession {
    async fn ask<T: Send + 'static>(
        &self,
        longest: Duration,
        work: impl FnOnce(&mut QueryMoment<'_>) -> DatabaseResult<T> + Send + 'static,
    ) -> DatabaseResult<T> {
        let slot = Slot::new();
        let answer = Arc::clone(&slot);
        let work: QueryWork = Box::new(move |moment| {
            let found = work(moment);
            Box::new(move || answer.put(found))
        });
        self.end.say(Said::Query { wire: Arc::clone(&self.wire), work });
        self.end.wait(slot, Arc::clone(&self.wire), longest).await
    }
}

impl DatabaseSession for SimSession {
    fn is_closed(&self) -> bool {
        !self.wire.is_open()
    }

    async fn listen(&self) -> DatabaseResult<()> {
        let wire = Arc::clone(&self.wire);
        self.ask(STATEMENT, move |_| {
            wire.listens.store(true, Ordering::Relaxed);
            Ok(())
        })
        .await
    }

    async fn prepare(&self) -> DatabaseResult<[u8; 16]> {
        self.ask(STATEMENT, |_| Ok(STORE_ID)).await
    }

    async fn forgets(&self) -> DatabaseResult<Option<String>> {
        Ok(None)
    }

    async fn load(&self) -> DatabaseResult<LoadedRecords> {
        self.ask(LONG_STATEMENT, |moment| Ok(moment.rows.load())).await
    }

    async fn commit(&self, order: &CommitOrder<'_>) -> DatabaseResult<bool> {
        let effects = order.effects;
        let puts = effects.put_keys.iter().zip(&effects.put_seqnos).zip(&effects.put_values);
        let puts =
            puts.map(|((key, seqno), value)| (key.to_vec(), seqno.cast_unsigned(), value.to_vec()));
        let sent = SentCommit {
            epoch: order.epoch,
            before: order.before,
            last: order.last,
            puts: puts.collect(),
            gone: effects.gone.iter().map(|key| key.to_vec()).collect(),
            body: order.body.to_vec(),
        };
        let held = self.ask(STATEMENT, move |moment| moment.rows.commit(sent, moment.off)).await;
        match (held, self.end.sabotage) {
            (Err(DatabaseFailure::Lost(why)), Some(Sabotage::UnknownAsFailed)) => {
                Err(DatabaseFailure::Refused(Error::Unavailable(why)))
            }
            (held, _) => held,
        }
    }

    async fn poll(&self, behind: u64) -> DatabaseResult<PolledChanges> {
        self.ask(STATEMENT, move |moment| match moment.lagging {
            Some(lagging) if lagging.position >= behind => Ok(lagging.poll(behind)),
            _ => Ok(moment.rows.poll(behind)),
        })
        .await
    }

    async fn trim(&self, epoch: u64, to: u64) -> DatabaseResult<()> {
        self.ask(STATEMENT, move |moment| moment.rows.trim(epoch, to)).await
    }

    async fn look(&self) -> DatabaseResult<LeaseLook> {
        self.ask(STATEMENT, |moment| Ok(moment.rows.look())).await
    }

    async fn take(&self, own: u64, seen: &LeaseLook) -> DatabaseResult<Option<TakenLease>> {
        let seen = *seen;
        self.ask(STATEMENT, move |moment| moment.rows.take(own, &seen, moment.off)).await
    }

    async fn take_blank(&self, own: u64) -> DatabaseResult<Option<TakenLease>> {
        self.ask(STATEMENT, move |moment| moment.rows.take_blank(own, moment.off)).await
    }

    async fn refence(&self, own: u64, epoch: u64) -> DatabaseResult<Option<TakenLease>> {
        self.ask(STATEMENT, move |moment| moment.rows.refence(own, epoch, moment.off)).await
    }

    async fn renew(&self, own: u64, epoch: u64) -> DatabaseResult<bool> {
        self.ask(STATEMENT, move |moment| moment.rows.renew(own, epoch, moment.off)).await
    }

    async fn release(&self, own: u64, epoch: u64, wanted: u64) -> DatabaseResult<()> {
        let release = move |moment: &mut QueryMoment<'_>| {
            moment.rows.release(own, epoch, wanted, moment.off).map(|_| ())
        };
        self.ask(STATEMENT, release).await
    }

    async fn be_there(&self, own: &Peer, is_willing: bool) -> DatabaseResult<()> {
        let own = own.clone();
        let list = move |moment: &mut QueryMoment<'_>| {
            moment.rows.be_there(own, is_willing, moment.now);
            Ok(())
        };
        self.ask(STATEMENT, list).await
    }

    async fn supersede(&self, own: &Peer) -> DatabaseResult<()> {
        let own = own.clone();
        let supersede = move |moment: &mut QueryMoment<'_>| {
            moment.rows.supersede(&own, moment.now);
            Ok(())
        };
        self.ask(STATEMENT, supersede).await
    }

    async fn servers(&self) -> DatabaseResult<Vec<ListedServer>> {
        self.ask(STATEMENT, |moment| Ok(moment.rows.list(moment.now))).await
    }

    async fn forget_servers(&self) -> DatabaseResult<()> {
        let forget = |moment: &mut QueryMoment<'_>| {
            moment.rows.forget_servers(moment.now);
            Ok(())
        };
        self.ask(STATEMENT, forget).await
    }

    async fn leave(&self, own: u64) -> DatabaseResult<()> {
        let leave = move |moment: &mut QueryMoment<'_>| {
            moment.rows.leave(own);
            Ok(())
        };
        self.ask(STATEMENT, leave).await
    }

    async fn clear_staged(&self, _epoch: u64, _up_to: u64) -> DatabaseResult<()> {
        no_restores()
    }

    async fn begin_restore(&self, _order: &RestoreOrder, _body: &[u8]) -> DatabaseResult<bool> {
        no_restores()
    }

    async fn stage(
        &self,
        _epoch: u64,
        _generation: u64,
        _records: &[(Bytes, Bytes)],
    ) -> DatabaseResult<bool> {
        no_restores()
    }

    async fn switch(&self, _order: &RestoreOrder, _records: u64) -> DatabaseResult<SwitchOutcome> {
        no_restores()
    }
}
