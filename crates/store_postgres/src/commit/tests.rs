//! A commit that takes its time, on a database that does nothing else.

use std::task::{Context, Waker};

use bytes::Bytes;
use kallisto_store::{Commit, Peer};
use tokio::sync::Notify;

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
}

impl StoreDatabase for SlowDatabase {
    type Session = Self;

    async fn open(&self, _: &Arc<Notify>) -> DatabaseResult<Self> {
        Ok(self.clone())
    }

    async fn sleep(&self, _: Duration) {}

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
        Ok(true)
    }

    fn is_closed(&self) -> bool {
        false
    }

    async fn listen(&self) -> DatabaseResult<()> {
        not_asked()
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

    async fn poll(&self, _: u64) -> DatabaseResult<PolledChanges> {
        not_asked()
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
        not_asked()
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
    let database = SlowDatabase { clock: Arc::clone(&clock), commit_ms: 2500 };
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
