//! What the threads of a store share: the records, who leads, what waits.
//!
//! Order of the locks: the feed, if it is needed, is taken first ([`lock_feed`]); its holder takes the records, and a fold that it calls asks what
//! `Replicated` calls cheap. Of all other locks a thread holds one at a time ([`lock`]), and keeps no promise and tells no news meanwhile. A debug
//! build checks the order.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kallisto_lsm::clock::Clock;
use kallisto_store::{
    AsOf, Batch, Candidacy, CommitStats, DatabaseStats, Error, Fold, Leadership, Member, Peer,
    Position, Promise, Transport,
};
use tokio::sync::Notify;

use crate::database::TakenLease;
use crate::limits::{GROUP_BATCHES_MAX, GROUP_BYTES_MAX, WAITING_BYTES_MAX, WAITING_MAX};
use crate::records::MemoryRecords;

/// A batch that waits, since when, and its size.
pub(crate) struct WaitingBatch {
    pub(crate) batch: Batch,
    pub(crate) promise: Promise,
    pub(crate) since: Duration,
    pub(crate) bytes: usize,
}

/// A step of a restore.
pub(crate) enum PgRestoreStep {
    Begin,
    Stage(u64, Vec<(Bytes, Bytes)>),
    Switch(u64, u64),
    Abandon(u64),
}

/// What waits for the driver.
pub(crate) enum PgRequest {
    Commit(WaitingBatch),
    Step(PgRestoreStep, Promise, Duration),
    /// Resolves once all before it did.
    Save(Promise),
}

/// What waits, in order.
#[derive(Default)]
pub(crate) struct PgQueue {
    requests: VecDeque<PgRequest>,
    bytes: usize,
    pub(crate) reads: Vec<Promise>,
    closed: bool,
    /// The database has been away for as long as one is waited for.
    is_away: bool,
}

/// Whether this server leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PgRole {
    /// It follows.
    Following,
    /// It holds the lease of `epoch`, and has to hold everything up to `position` before it leads.
    Elected { epoch: u64, position: u64 },
    /// It leads.
    Leading { epoch: u64 },
}

/// Who leads, as this server knows it.
#[derive(Debug)]
pub(crate) struct LeadState {
    pub(crate) role: PgRole,
    /// Until when nobody else can lead, by this server's clock, while it does.
    pub(crate) until: Duration,
    /// Who holds the lease as the database last said, and until when.
    pub(crate) holder: u64,
    pub(crate) holder_until: Duration,
    pub(crate) epoch: u64,
    /// Nothing was ever committed.
    pub(crate) is_blank: bool,
    told: (u64, u64),
}

pub(crate) type LeadershipNews = Arc<dyn Fn() + Send + Sync>;

/// What is counted for operators.
#[derive(Debug, Default)]
pub(crate) struct PgCounters {
    pub(crate) is_connected: AtomicBool,
    pub(crate) behind: AtomicU64,
    pub(crate) connections_lost: AtomicU64,
    pub(crate) loads: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// See the module.
pub(crate) struct PgShared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) own: Peer,
    pub(crate) is_ha: bool,
    pub(crate) store_id: [u8; 16],
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) records: MemoryRecords,
    /// The fold that is fed. Whoever holds it keeps the records as they are.
    pub(crate) feed: Mutex<Option<Arc<dyn Fold>>>,
    pub(crate) position: AtomicU64,
    pub(crate) generation: AtomicU64,
    pub(crate) lead: Mutex<LeadState>,
    pub(crate) members: Mutex<Vec<Member>>,
    pub(crate) candidacy: Mutex<Candidacy>,
    pub(crate) transfer: Mutex<Option<(u64, Promise)>>,
    pub(crate) confirmed: AtomicU64,
    /// Since when a transaction is under way whose end is not known; 0 for none.
    pub(crate) in_flight: AtomicU64,
    pub(crate) queue: Mutex<PgQueue>,
    pub(crate) wake: Arc<Notify>,
    pub(crate) keeper_wake: Arc<Notify>,
    pub(crate) on_leadership: Mutex<Option<LeadershipNews>>,
    pub(crate) commits: Mutex<CommitStats>,
    pub(crate) counters: PgCounters,
    pub(crate) confirm_every: Duration,
    pub(crate) closing: AtomicBool,
    /// The driver has ended: the keeper may let the lease go.
    pub(crate) drained: AtomicBool,
}

thread_local! {
    /// Whether this thread holds a lock that is not the feed's.
    static HOLDS_LOCK: Cell<bool> = const { Cell::new(false) };
}

/// A lock that is held, and not the feed's.
pub(crate) struct SharedGuard<'m, T>(MutexGuard<'m, T>);

/// Takes any lock but the feed's, for as long as no other such is taken.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> SharedGuard<'_, T> {
    let held = HOLDS_LOCK.replace(true);
    debug_assert!(!held, "a thread that holds a lock takes another");
    // What each guards is whole between any two statements.
    SharedGuard(mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Takes the feed, before any other lock.
pub(crate) fn lock_feed(shared: &PgShared) -> MutexGuard<'_, Option<Arc<dyn Fold>>> {
    debug_assert!(!HOLDS_LOCK.get(), "a thread that holds a lock takes the feed");
    shared.feed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Deref for SharedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for SharedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for SharedGuard<'_, T> {
    fn drop(&mut self) {
        HOLDS_LOCK.set(false);
    }
}

impl LeadState {
    pub(crate) const fn new() -> Self {
        Self {
            role: PgRole::Following,
            until: Duration::ZERO,
            holder: 0,
            holder_until: Duration::ZERO,
            epoch: 0,
            is_blank: false,
            told: (0, 0),
        }
    }
}

impl PgShared {
    pub(crate) fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Who leads now.
    pub(crate) fn leadership(&self) -> Leadership {
        let now = self.clock.now();
        let lead = lock(&self.lead);
        let leader_id = match lead.role {
            PgRole::Leading { .. } if now < lead.until => self.own.id,
            PgRole::Leading { .. } | PgRole::Elected { .. } => 0,
            // Of a database without anything any server is asked to begin.
            PgRole::Following if lead.is_blank && self.position().0 == 0 => self.own.id,
            PgRole::Following if lead.holder != self.own.id && now < lead.holder_until => {
                lead.holder
            }
            PgRole::Following => 0,
        };
        Leadership { node_id: self.own.id, leader_id, term: lead.epoch }
    }

    /// Tells whoever wants to know that somebody else leads, if that is so.
    pub(crate) fn tell_leadership(&self) {
        let leadership = self.leadership();
        let told = (leadership.leader_id, leadership.term);
        if std::mem::replace(&mut lock(&self.lead).told, told) != told {
            let news = lock(&self.on_leadership).clone();
            if let Some(news) = news {
                news();
            }
        }
    }

    /// Up to when the records hold everything.
    pub(crate) fn as_of(&self) -> AsOf {
        AsOf::from_bits(self.confirmed.load(Ordering::Acquire))
    }

    /// Everything that was committed before `asked` is here.
    pub(crate) fn confirm(&self, asked: Duration) {
        self.confirmed.fetch_max(AsOf::at(asked).to_bits(), Ordering::AcqRel);
    }

    /// Whether it is a while since the database last said that everything is here.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.as_of().age(self.clock.now()).is_none_or(|age| age >= self.confirm_every)
    }

    /// Whether this server leads in `epoch`, as far as it knows.
    pub(crate) fn leads_in(&self, epoch: u64) -> bool {
        lock(&self.lead).role == PgRole::Leading { epoch }
    }

    /// The database took a word of this server's in its `epoch`, which was sent at `sent`: nobody else wrote before.
    pub(crate) fn extend(&self, epoch: u64, sent: Duration) {
        // Read before the role: what ends meanwhile is folded by then.
        let began = self.in_flight.load(Ordering::Acquire);
        let mut lead = lock(&self.lead);
        let (own, leads) = match lead.role {
            PgRole::Leading { epoch } => (epoch, true),
            PgRole::Elected { epoch, .. } => (epoch, false),
            PgRole::Following => return,
        };
        if own != epoch {
            return;
        }
        lead.until = lead.until.max(sent + crate::limits::LEASE);
        if leads {
            let bound = if began == 0 { sent } else { sent.min(Duration::from_nanos(began)) };
            self.confirm(bound);
        }
    }

    /// The lease was taken.
    pub(crate) fn elect(&self, taken: TakenLease, sent: Duration) {
        let TakenLease { epoch, position } = taken;
        {
            let mut lead = lock(&self.lead);
            // Driver and keeper may both have taken it, and the answer to the first come behind that to the second.
            if epoch < lead.epoch {
                return;
            }
            lead.role = PgRole::Elected { epoch, position };
            lead.until = sent + crate::limits::LEASE;
            (lead.epoch, lead.holder) = (epoch, self.own.id);
        }
        self.wake.notify_one();
    }

    /// This server holds everything that was committed before its lease: it leads.
    pub(crate) fn lead(&self, epoch: u64) {
        {
            let mut lead = lock(&self.lead);
            if !matches!(lead.role, PgRole::Elected { epoch: own, .. } if own == epoch) {
                return;
            }
            lead.role = PgRole::Leading { epoch };
        }
        tracing::info!(epoch, position = self.position().0, "this server writes to the database");
        self.tell_leadership();
    }

    /// The lease of `epoch` is lost, or was given away.
    pub(crate) fn depose(&self, epoch: u64) {
        {
            let mut lead = lock(&self.lead);
            match lead.role {
                PgRole::Leading { epoch: own } | PgRole::Elected { epoch: own, .. }
                    if own == epoch =>
                {
                    lead.role = PgRole::Following;
                    lead.holder_until = Duration::ZERO;
                }
                _ => return,
            }
        }
        tracing::info!(epoch, "this server does not write to the database any more");
        self.tell_leadership();
        self.wake.notify_one();
        self.keeper_wake.notify_one();
    }

    /// Figures for operators.
    pub(crate) fn stats(&self) -> DatabaseStats {
        let leadership = self.leadership();
        let waiting = lock(&self.queue).len();
        let commits = *lock(&self.commits);
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DatabaseStats {
            epoch: leadership.term,
            leads: leadership.is_mine(),
            is_connected: counters.is_connected.load(Ordering::Relaxed),
            waiting,
            behind: read(&counters.behind),
            connections_lost: read(&counters.connections_lost),
            loads: read(&counters.loads),
            refused: read(&counters.refused),
            commits,
        }
    }

    /// Adds a request; refuses it where too much waits.
    pub(crate) fn push(&self, request: PgRequest) {
        let refused = lock(&self.queue).push(request);
        match refused {
            None => self.wake.notify_one(),
            Some((request, error)) => request.refuse(error),
        }
    }
}

impl PgRequest {
    pub(crate) fn refuse(self, error: Error) {
        match self {
            Self::Commit(waiting) => waiting.promise.keep(Err(error)),
            Self::Step(_, promise, _) | Self::Save(promise) => promise.keep(Err(error)),
        }
    }
}

impl PgQueue {
    /// Why nothing is taken in; `None` where it is.
    fn refusal(&self) -> Option<Error> {
        let why = match (self.closed, self.is_away) {
            (false, false) => return None,
            (true, _) => "the store is closed",
            (false, true) => "the database is not reached",
        };
        Some(Error::Unavailable(why.to_owned()))
    }

    fn push(&mut self, request: PgRequest) -> Option<(PgRequest, Error)> {
        if let Some(error) = self.refusal() {
            return Some((request, error));
        }
        if self.requests.len() >= WAITING_MAX || self.bytes >= WAITING_BYTES_MAX {
            return Some((request, Error::Busy));
        }
        if let PgRequest::Commit(waiting) = &request {
            self.bytes += waiting.bytes;
        }
        self.requests.push_back(request);
        None
    }

    /// Adds a strong read.
    ///
    /// # Errors
    /// Why it is not taken in.
    pub(crate) fn push_read(&mut self, promise: Promise) -> Result<(), (Promise, Error)> {
        match self.refusal() {
            Some(error) => Err((promise, error)),
            None if self.reads.len() >= WAITING_MAX => Err((promise, Error::Busy)),
            None => {
                self.reads.push(promise);
                Ok(())
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The batches that go first, as many as make a group.
    pub(crate) fn take_group(&mut self) -> Vec<WaitingBatch> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        while group.len() < GROUP_BATCHES_MAX && bytes < GROUP_BYTES_MAX {
            match self.requests.pop_front() {
                Some(PgRequest::Commit(waiting)) => {
                    bytes += waiting.bytes;
                    self.bytes = self.bytes.saturating_sub(waiting.bytes);
                    group.push(waiting);
                }
                Some(other) => {
                    self.requests.push_front(other);
                    break;
                }
                None => break,
            }
        }
        group
    }

    /// What goes first, if it is no batch.
    pub(crate) fn take_other(&mut self) -> Option<PgRequest> {
        match self.requests.front()? {
            PgRequest::Commit(_) => None,
            PgRequest::Step(..) | PgRequest::Save(_) => self.requests.pop_front(),
        }
    }

    /// Puts batches back that did not come to anything.
    pub(crate) fn put_back(&mut self, group: Vec<WaitingBatch>) {
        for waiting in group.into_iter().rev() {
            self.bytes += waiting.bytes;
            self.requests.push_front(PgRequest::Commit(waiting));
        }
    }

    /// Takes what has waited since before `since`; all of it if that is `None`.
    pub(crate) fn take_old(&mut self, since: Option<Duration>) -> Vec<PgRequest> {
        let mut old = Vec::new();
        let mut kept = VecDeque::new();
        for request in self.requests.drain(..) {
            let began = match &request {
                PgRequest::Commit(waiting) => Some(waiting.since),
                PgRequest::Step(_, _, since) => Some(*since),
                PgRequest::Save(_) => None,
            };
            let is_old = since.is_none_or(|since| began.is_some_and(|began| began < since));
            if is_old {
                old.push(request);
            } else {
                kept.push_back(request);
            }
        }
        self.requests = kept;
        self.bytes = self
            .requests
            .iter()
            .map(|request| match request {
                PgRequest::Commit(waiting) => waiting.bytes,
                PgRequest::Step(..) | PgRequest::Save(_) => 0,
            })
            .sum();
        old
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Says whether the database has been away for as long as one is waited for: nothing is taken in meanwhile.
    pub(crate) fn set_away(&mut self, is_away: bool) {
        self.is_away = is_away;
    }
}

#[cfg(test)]
pub(crate) mod tests;
