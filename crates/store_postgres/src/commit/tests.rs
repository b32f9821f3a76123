//! A commit that takes its time, on a database that does nothing else.

use std::fmt::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Waker};

use bytes::Bytes;
use kallisto_store::{Commit, Peer};
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;
use crate::database::{
    ListedServer, LoadedRecords, PolledChanges, RestoreOrder, SwitchOutcome, TakenLease,
};
use crate::lease::LeaseLook;
use crate::limits::LEASE;
use crate::shared::tests::{SetClock, shared};

/// A database whose commits take `commit_ms`.
#[derive(Clone)]
struct SlowDatabase {
    clock: Arc<SetClock>,
    commit_ms: u64,
    /// Which commits come to their end; all of them if this is `None`. It gives the next epoch to whoever asks, then.
    epoch: Option<Arc<AtomicU64>>,
    /// It refuses to say what is there.
    refuses: bool,
    /// How many positions it is behind whoever asks.
    behind_by: u64,
    naps: Arc<AtomicU64>,
}

impl SlowDatabase {
    fn new(clock: &Arc<SetClock>, commit_ms: u64) -> Self {
        let (clock, naps) = (Arc::clone(clock), Arc::default());
        Self { clock, commit_ms, epoch: None, refuses: false, behind_by: 0, naps }
    }
}

impl StoreDatabase for SlowDatabase {
    type Session = Self;

    async fn open(&self, _: &Arc<Notify>) -> DatabaseResult<Self> {
        Ok(self.clone())
    }

    async fn sleep(&self, _: Duration) {
        // Who naps for ever is caught.
        if self.naps.fetch_add(1, Ordering::Relaxed) > 100 {
            std::future::pending::<()>().await;
        }
    }

    async fn rest(&self, _: Duration, _: &Notify) {}

    fn occupy<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

fn not_asked<T>() -> DatabaseResult<T> {
    Err(DatabaseFailure::Lost("a commit asks for nothing else".to_owned()))
}

impl DatabaseSession for SlowDatabase {
    async fn commit(&self, _: &CommitOrder<'_>) -> DatabaseResult<bool> {
        self.clock.advance(self.commit_ms);
        match self.epoch {
            Some(_) => not_asked(),
            None => Ok(true),
        }
    }

    fn is_closed(&self) -> bool {
        false
    }

    async fn listen(&self) -> DatabaseResult<()> {
        Ok(())
    }

    async fn prepare(&self) -> DatabaseResult<[u8; 16]> {
        not_asked()
    }

    async fn forgets(&self) -> DatabaseResult<Option<String>> {
        not_asked()
    }

    async fn load(&self) -> DatabaseResult<LoadedRecords> {
        not_asked()
    }

    async fn poll(&self, behind: u64) -> DatabaseResult<PolledChanges> {
        if self.refuses {
            return Err(DatabaseFailure::Refused(Error::Unavailable("no such table".to_owned())));
        }
        let Some(epoch) = &self.epoch else { return not_asked() };
        Ok(PolledChanges {
            epoch: epoch.load(Ordering::Relaxed),
            tip: behind - self.behind_by,
            generation: 0,
            trimmed: 0,
            holder: 1,
            rows: Vec::new(),
            has_more: false,
        })
    }

    async fn trim(&self, _: u64, _: u64) -> DatabaseResult<()> {
        not_asked()
    }

    async fn look(&self) -> DatabaseResult<LeaseLook> {
        not_asked()
    }

    async fn take(&self, _: u64, _: &LeaseLook) -> DatabaseResult<Option<TakenLease>> {
        not_asked()
    }

    async fn take_blank(&self, _: u64) -> DatabaseResult<Option<TakenLease>> {
        not_asked()
    }

    async fn refence(&self, _: u64, _: u64) -> DatabaseResult<Option<TakenLease>> {
        let Some(epoch) = &self.epoch else { return not_asked() };
        let epoch = epoch.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Some(TakenLease { epoch, position: 9 }))
    }

    async fn renew(&self, _: u64, _: u64) -> DatabaseResult<bool> {
        not_asked()
    }

    async fn release(&self, _: u64, _: u64, _: u64) -> DatabaseResult<()> {
        not_asked()
    }

    async fn be_there(&self, _: &Peer, _: bool) -> DatabaseResult<()> {
        not_asked()
    }

    async fn supersede(&self, _: &Peer) -> DatabaseResult<()> {
        not_asked()
    }

    async fn servers(&self) -> DatabaseResult<Vec<ListedServer>> {
        not_asked()
    }

    async fn forget_servers(&self) -> DatabaseResult<()> {
        not_asked()
    }

    async fn leave(&self, _: u64) -> DatabaseResult<()> {
        not_asked()
    }

    async fn clear_staged(&self, _: u64, _: u64) -> DatabaseResult<()> {
        not_asked()
    }

    async fn begin_restore(&self, _: &RestoreOrder, _: &[u8]) -> DatabaseResult<bool> {
        not_asked()
    }

    async fn stage(&self, _: u64, _: u64, _: &[(Bytes, Bytes)]) -> DatabaseResult<bool> {
        not_asked()
    }

    async fn switch(&self, _: &RestoreOrder, _: u64) -> DatabaseResult<SwitchOutcome> {
        not_asked()
    }
}

/// Others count a lease from when they saw it: until the answer comes, some of it is over.
#[test]
fn a_lead_that_a_commit_prolongs_is_counted_from_when_it_was_sent() {
    let clock = Arc::new(SetClock::default());
    let shared = Arc::new(shared(&clock));
    shared.elect(TakenLease { epoch: 3, position: 9 }, Duration::ZERO);
    shared.lead(3);
    let database = SlowDatabase::new(&clock, 2500);
    let mut driver = PgDriver::new(Arc::clone(&shared), database.clone(), database);

    let sent = clock.advance(1000);
    let mut batch = Batch::new();
    batch.put(b"key".to_vec(), b"value".to_vec());
    let (promise, mut commit) = Commit::promised();
    let waiting = vec![WaitingBatch { batch, promise, since: sent, bytes: 8 }];
    let done = pin!(driver.commit(3, waiting)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(done, Poll::Ready(Ok(()))));

    let answer = pin!(&mut commit).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(answer, Poll::Ready(Ok(Position(10)))), "{answer:?}");
    assert_eq!(shared.position(), Position(10));
    assert_eq!(lock(&shared.lead).until, sent + LEASE);
    assert_eq!(shared.as_of().to_bits(), AsOf::at(sent).to_bits(), "others may have read since");
}

/// Longer than a statement may take, however often it is sent: others wait behind it.
#[test]
fn a_commit_that_never_comes_to_its_end_in_time_is_given_up_for_those_behind_it() {
    let clock = Arc::new(SetClock::default());
    let shared = Arc::new(shared(&clock));
    shared.elect(TakenLease { epoch: 3, position: 9 }, Duration::ZERO);
    shared.lead(3);
    let epoch = Some(Arc::new(AtomicU64::new(3)));
    let database = SlowDatabase { epoch, ..SlowDatabase::new(&clock, 4000) };
    let mut driver = PgDriver::new(Arc::clone(&shared), database.clone(), database);
    let mut batch = Batch::new();
    batch.put(b"key".to_vec(), b"large".to_vec());
    let (promise, mut commit) = Commit::promised();
    let waiting = WaitingBatch { batch, promise, since: clock.advance(1000), bytes: 8 };
    shared.push(crate::shared::PgRequest::Commit(waiting));

    let mut running = pin!(async {
        // As the task does, but for its end.
        for _ in 0..100 {
            if driver.turn().await.is_err() {
                driver.connect().await;
            }
        }
    });
    let done = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(done.is_ready());
    let answer = pin!(&mut commit).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(answer, Poll::Ready(Err(Error::Unavailable(_)))), "{answer:?}");
    assert!(clock.advance(0) < Duration::from_secs(30), "{:?}", clock.advance(0));
}

#[test]
fn a_store_ends_though_the_database_refuses_what_it_asks() {
    let clock = Arc::new(SetClock::default());
    let shared = Arc::new(shared(&clock));
    let database = SlowDatabase { refuses: true, ..SlowDatabase::new(&clock, 0) };
    let driver = PgDriver::new(Arc::clone(&shared), database.clone(), database);
    shared.closing.store(true, Ordering::Release);
    let ended = pin!(driver.run()).poll(&mut Context::from_waker(Waker::noop()));
    assert!(ended.is_ready(), "whoever stops the server waits for it");
    assert!(shared.drained.load(Ordering::Acquire));
}

/// The fields of the warnings that were logged, a line each.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<String>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
        self.0.lock().unwrap().push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0.lock().unwrap(), "{}={value:?} ", field.name()).unwrap();
    }
}

/// Nobody else says that what was acknowledged is gone.
#[test]
fn a_database_that_was_put_back_is_warned_of_with_both_positions() {
    let clock = Arc::new(SetClock::default());
    let shared = Arc::new(shared(&clock));
    let own = shared.position().0;
    let epoch = Some(Arc::new(AtomicU64::new(3)));
    let told = |behind_by| {
        let database =
            SlowDatabase { epoch: epoch.clone(), behind_by, ..SlowDatabase::new(&clock, 0) };
        let mut driver = PgDriver::new(Arc::clone(&shared), database.clone(), database);
        let warnings = Warnings::default();
        tracing::subscriber::with_default(warnings.clone(), || {
            let polled = pin!(driver.follow()).poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_ready());
        });
        warnings.0.lock().unwrap().clone()
    };
    let warned = told(2);
    let positions = format!("position={} own={own} ", own - 2);
    assert!(warned.contains(&positions) && warned.lines().count() == 1, "{warned}");
    assert_eq!(told(0), "");
}
