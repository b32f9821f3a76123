//! What waits, in its order, and who leads by which answers, without a database.

use kallisto_store::{Commit, NoPeers};

use super::*;
use crate::limits::LEASE;

/// A clock that says what it is told to.
#[derive(Debug, Default)]
pub(crate) struct SetClock(AtomicU64);

impl SetClock {
    /// Sets it forward by so many milliseconds, and says what it says then.
    pub(crate) fn advance(&self, ms: u64) -> Duration {
        Duration::from_millis(self.0.fetch_add(ms, Ordering::Relaxed) + ms)
    }
}

impl Clock for SetClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) {}
}

/// What a store on no database shares.
pub(crate) fn shared(clock: &Arc<SetClock>) -> PgShared {
    PgShared {
        clock: Arc::<SetClock>::clone(clock),
        own: Peer { id: 1, ..Peer::default() },
        is_ha: true,
        store_id: [7; 16],
        transport: Arc::new(NoPeers),
        records: MemoryRecords::default(),
        feed: Mutex::new(None),
        position: AtomicU64::new(9),
        generation: AtomicU64::new(0),
        lead: Mutex::new(LeadState::new()),
        members: Mutex::default(),
        candidacy: Mutex::new(Candidacy::Willing),
        transfer: Mutex::new(None),
        confirmed: AtomicU64::new(AsOf::NEVER.to_bits()),
        in_flight: AtomicU64::new(0),
        queue: Mutex::default(),
        wake: Arc::default(),
        keeper_wake: Arc::default(),
        on_leadership: Mutex::new(None),
        commits: Mutex::default(),
        counters: PgCounters::default(),
        confirm_every: Duration::from_secs(1),
        closing: AtomicBool::new(false),
        drained: AtomicBool::new(false),
    }
}

/// What is asked of all of it at once takes one lock after the other.
#[test]
fn figures_are_read_under_one_lock_at_a_time() {
    let shared = shared(&Arc::default());
    lock(&shared.commits).batches = 3;
    assert_eq!(shared.stats().commits.batches, 3);
}

#[cfg(debug_assertions)]
#[test]
fn a_second_lock_and_the_feed_behind_another_lock_are_noticed() {
    let shared = shared(&Arc::default());
    let taken = |take: &dyn Fn(&PgShared)| {
        let under_lead = std::panic::AssertUnwindSafe(|| {
            let _lead = lock(&shared.lead);
            take(&shared);
        });
        std::panic::catch_unwind(under_lead).is_ok()
    };
    assert!(!taken(&|shared| drop(lock(&shared.queue))));
    assert!(!taken(&|shared| drop(lock_feed(shared))));
    // Both are free again, and so is what comes behind the feed.
    let feed = lock_feed(&shared);
    drop(lock(&shared.lead));
    drop(feed);
}

fn batch(key: u8, bytes: usize, since: Duration) -> WaitingBatch {
    let mut batch = Batch::new();
    batch.delete(vec![key]);
    let (promise, commit) = Commit::promised();
    drop(commit);
    WaitingBatch { batch, promise, since, bytes }
}

/// The keys that batches delete.
fn keys(group: &[WaitingBatch]) -> Vec<u8> {
    let of = |waiting: &WaitingBatch| {
        (0..=u8::MAX).find(|&key| {
            let mut deletes = Batch::new();
            deletes.delete(vec![key]);
            deletes == waiting.batch
        })
    };
    group.iter().filter_map(of).collect()
}

#[test]
fn what_is_put_back_goes_first_and_in_its_order() {
    let mut queue = PgQueue::default();
    for key in 0..4 {
        assert!(queue.push(PgRequest::Commit(batch(key, 10, Duration::ZERO))).is_none());
    }
    let group = queue.take_group();
    assert_eq!((keys(&group), queue.bytes), (vec![0, 1, 2, 3], 0));
    assert!(queue.push(PgRequest::Commit(batch(4, 10, Duration::ZERO))).is_none());
    queue.put_back(group);
    assert_eq!((queue.len(), queue.bytes), (5, 50));
    assert_eq!(keys(&queue.take_group()), [0, 1, 2, 3, 4]);
    assert_eq!((queue.len(), queue.bytes), (0, 0));
}

#[test]
fn a_group_ends_before_what_is_no_batch_and_at_its_size() {
    let mut queue = PgQueue::default();
    let (saved, outcome) = Commit::promised();
    assert!(queue.push(PgRequest::Commit(batch(0, 1, Duration::ZERO))).is_none());
    assert!(queue.push(PgRequest::Save(saved)).is_none());
    assert!(queue.push(PgRequest::Commit(batch(1, GROUP_BYTES_MAX, Duration::ZERO))).is_none());
    assert!(queue.push(PgRequest::Commit(batch(2, 1, Duration::ZERO))).is_none());
    assert!(queue.take_other().is_none(), "a batch goes first");
    assert_eq!(keys(&queue.take_group()), [0]);
    assert!(queue.take_group().is_empty(), "who saves has heard of all before");
    assert!(matches!(queue.take_other(), Some(PgRequest::Save(_))));
    drop(outcome);
    assert_eq!(keys(&queue.take_group()), [1], "it is full");
    assert_eq!(keys(&queue.take_group()), [2]);
}

#[test]
fn what_waits_is_bounded_and_what_waited_too_long_is_taken_out() {
    let mut queue = PgQueue::default();
    let at = Duration::from_secs;
    for (key, since) in [(0, 1), (1, 5), (2, 3)] {
        assert!(queue.push(PgRequest::Commit(batch(key, 10, at(since)))).is_none());
    }
    let old = queue.take_old(Some(at(3)));
    assert_eq!((old.len(), queue.len(), queue.bytes), (1, 2, 20), "3 is not before 3");
    assert_eq!(queue.take_old(None).len(), 2);
    assert_eq!((queue.len(), queue.bytes), (0, 0));
    let huge = batch(0, WAITING_BYTES_MAX, Duration::ZERO);
    assert!(queue.push(PgRequest::Commit(huge)).is_none());
    let refused = queue.push(PgRequest::Commit(batch(1, 1, Duration::ZERO)));
    assert!(matches!(refused, Some((_, Error::Busy))));
    queue.take_old(None);
    queue.close();
    let refused = queue.push(PgRequest::Commit(batch(1, 1, Duration::ZERO)));
    assert!(matches!(refused, Some((_, Error::Unavailable(_)))));
}

/// Driver and keeper ask the database by connections of their own, so answers may come in any order.
#[test]
fn the_newest_lease_counts_in_whichever_order_the_answers_come() {
    let clock = Arc::new(SetClock::default());
    let shared = shared(&clock);
    let taken = |epoch, position| TakenLease { epoch, position };
    shared.elect(taken(5, 20), Duration::from_secs(2));
    shared.elect(taken(4, 10), Duration::from_secs(1));
    let lead = lock(&shared.lead);
    assert_eq!((lead.role, lead.epoch), (PgRole::Elected { epoch: 5, position: 20 }, 5));
    assert_eq!(lead.until, Duration::from_secs(2) + LEASE);
    drop(lead);
    // Nor does the end of the older one end it, and it leads in its own epoch alone.
    shared.depose(4);
    shared.lead(4);
    assert!(!shared.leads_in(4) && !shared.leads_in(5));
    shared.lead(5);
    assert!(shared.leads_in(5) && shared.leadership().is_mine());
    shared.depose(5);
    assert!(!shared.leads_in(5));
}

/// Others count from what they saw; this server from when it asked, which was before.
#[test]
fn a_lead_is_as_long_as_its_question_says_and_not_a_moment_longer() {
    let clock = Arc::new(SetClock::default());
    let shared = shared(&clock);
    let lease = u64::try_from(LEASE.as_millis()).unwrap();
    shared.elect(TakenLease { epoch: 3, position: 9 }, Duration::ZERO);
    shared.lead(3);
    let leads_at = |at: u64| {
        clock.0.store(at, Ordering::Relaxed);
        shared.leadership().is_mine()
    };
    assert!(leads_at(lease - 1) && !leads_at(lease));
    shared.extend(3, Duration::from_secs(2));
    assert!(leads_at(lease + 1999) && !leads_at(lease + 2000));
    // Words of another epoch, and earlier ones, prolong nothing and shorten nothing.
    shared.extend(2, Duration::from_secs(90));
    shared.extend(3, Duration::from_secs(1));
    assert!(leads_at(lease + 1999) && !leads_at(lease + 2000));
    // What may be on its way is not here yet: no view is newer than its beginning.
    shared.in_flight.store(AsOf::at(Duration::from_millis(1500)).to_bits(), Ordering::Release);
    let before = shared.as_of();
    shared.extend(3, Duration::from_secs(4));
    assert_eq!(shared.as_of().to_bits(), before.to_bits(), "nothing since 2 s is known");
    shared.in_flight.store(0, Ordering::Release);
    shared.extend(3, Duration::from_secs(4));
    assert_eq!(shared.as_of().to_bits(), AsOf::at(Duration::from_secs(4)).to_bits());
}
