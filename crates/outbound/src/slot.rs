//! A far end: its queue, its idle sessions, its counts.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kallisto_engine::far_end::{FarEndPool, FarEndStatus};
use kallisto_engine::{FarEnd, FarEndOutcome};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::breaker::Breaker;
use crate::driver::FarEndSession;
use crate::lock;

/// Most sessions of a far end, whatever its settings say.
const OPEN_MAX: usize = 256;
/// Most sessions of a far end that are opening at once: as many as its breaker counts failures, and one.
const LOGINS_MAX: usize = 4;
/// How long a session waits for work before it is closed.
const IDLE_SECS_MAX: u64 = 60;
/// How long a session may have waited to be used without a look whether it is still there, in seconds.
const FRESH_SECS: u64 = 2;

/// A far end.
pub(crate) struct FarEndSlot {
    pub(crate) revision: u64,
    /// How it was last reached.
    pub(crate) far_end: FarEnd,
    pool: FarEndPool,
    /// One for each session that there may be.
    pub(crate) permits: Arc<Semaphore>,
    /// One for each session that may be opening.
    pub(crate) logins: Arc<Semaphore>,
    breaker: Mutex<Breaker>,
    idle: Mutex<Idle>,
    counts: Arc<FarEndCounts>,
    last_failure: Mutex<String>,
}

/// Sessions that wait for work, the one used last at the end.
#[derive(Default)]
struct Idle {
    sessions: VecDeque<OpenSession>,
    is_closed: bool,
}

#[derive(Default)]
struct FarEndCounts {
    open: AtomicU64,
    entered: AtomicU64,
    calls: AtomicU64,
    failures: AtomicU64,
    micros: AtomicU64,
}

/// A session that counts as open.
pub(crate) struct OpenSession {
    session: Box<dyn FarEndSession>,
    opened: Instant,
    used: Instant,
    counts: Arc<FarEndCounts>,
}

/// A session in use.
pub(crate) struct Leased {
    pub(crate) session: OpenSession,
    pub(crate) permit: OwnedSemaphorePermit,
    pub(crate) is_reused: bool,
}

/// A place among the calls of a far end.
pub(crate) struct CallSlot<'s>(&'s FarEndCounts);

impl Drop for CallSlot<'_> {
    fn drop(&mut self) {
        // Counts order nothing.
        self.0.entered.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OpenSession {
    pub(crate) fn new(session: Box<dyn FarEndSession>, slot: &FarEndSlot) -> Self {
        let (counts, now) = (Arc::clone(&slot.counts), Instant::now());
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self { session, opened: now, used: now, counts }
    }

    /// Whether it can be used: one that waited for long is asked.
    pub(crate) async fn check(&mut self) -> bool {
        match self.used.elapsed() < Duration::from_secs(FRESH_SECS) {
            true => !self.session.is_closed(),
            false => !self.session.is_closed() && self.session.check().await,
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Deref for OpenSession {
    type Target = dyn FarEndSession;

    fn deref(&self) -> &Self::Target {
        &*self.session
    }
}

impl DerefMut for OpenSession {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.session
    }
}

impl FarEndSlot {
    pub(crate) fn new(far_end: &FarEnd) -> Self {
        let open_max = far_end.pool.open_max.clamp(1, OPEN_MAX);
        Self {
            revision: far_end.revision,
            far_end: far_end.clone(),
            pool: far_end.pool,
            permits: Arc::new(Semaphore::new(open_max)),
            logins: Arc::new(Semaphore::new(LOGINS_MAX)),
            breaker: Mutex::default(),
            idle: Mutex::default(),
            counts: Arc::default(),
            last_failure: Mutex::default(),
        }
    }

    /// The same far end with other settings.
    pub(crate) fn after(before: &Self, far_end: &FarEnd) -> Self {
        Self { counts: Arc::clone(&before.counts), ..Self::new(far_end) }
    }

    pub(crate) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        lock(&self.breaker)
    }

    /// Takes a place among at most `most` calls.
    pub(crate) fn enter(&self, most: usize) -> Option<CallSlot<'_>> {
        let before = self.counts.entered.fetch_add(1, Ordering::Relaxed);
        let place = CallSlot(&self.counts);
        (before < most as u64).then_some(place)
    }

    pub(crate) fn take_idle(&self) -> Option<OpenSession> {
        lock(&self.idle).sessions.pop_back()
    }

    /// Keeps a session for the next call, unless its settings have changed or there are enough.
    pub(crate) fn keep(&self, session: OpenSession, revision: u64) {
        let mut session = session;
        session.used = Instant::now();
        let mut idle = lock(&self.idle);
        let is_old = self.is_old(&session);
        let has_room = idle.sessions.len() < self.pool.idle_max;
        if revision == self.revision && !idle.is_closed && has_room && !is_old {
            idle.sessions.push_back(session);
        }
    }

    fn is_old(&self, session: &OpenSession) -> bool {
        let most = self.pool.lifetime_secs;
        most > 0 && session.opened.elapsed() >= Duration::from_secs(most)
    }

    /// Closes sessions that waited for long.
    pub(crate) fn sweep(&self) {
        let most = Duration::from_secs(IDLE_SECS_MAX);
        let is_kept =
            |session: &OpenSession| session.used.elapsed() < most && !self.is_old(session);
        lock(&self.idle).sessions.retain(is_kept);
    }

    /// Closes what is idle, and keeps nothing from now on.
    pub(crate) fn close(&self) {
        let mut idle = lock(&self.idle);
        idle.is_closed = true;
        idle.sessions.clear();
    }

    /// Whether nothing is lost with it.
    pub(crate) fn is_unused(&self) -> bool {
        let counts = &self.counts;
        counts.open.load(Ordering::Relaxed) == 0 && counts.entered.load(Ordering::Relaxed) == 0
    }

    /// Counts a call.
    pub(crate) fn count(&self, took: Duration, outcome: &FarEndOutcome) {
        let counts = &self.counts;
        counts.calls.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counts.micros.fetch_add(micros, Ordering::Relaxed);
        let mut last = lock(&self.last_failure);
        match outcome {
            Ok(_) => last.clear(),
            Err(failure) => {
                counts.failures.fetch_add(1, Ordering::Relaxed);
                failure.words().clone_into(&mut last);
            }
        }
    }

    pub(crate) fn status(&self, mount: &str, name: &str) -> FarEndStatus {
        let counts = &self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let working = self.pool.open_max.clamp(1, OPEN_MAX) - self.permits.available_permits();
        FarEndStatus {
            mount: mount.to_owned(),
            name: name.to_owned(),
            protocol: self.far_end.protocol.name(),
            open: read(&counts.open),
            waiting: read(&counts.entered).saturating_sub(working as u64),
            calls: read(&counts.calls),
            failures: read(&counts.failures),
            micros: read(&counts.micros),
            is_broken: self.breaker().is_open(Instant::now()),
            last_failure: lock(&self.last_failure).clone(),
        }
    }
}
