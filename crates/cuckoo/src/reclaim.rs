//! When memory that left a table may be freed: epochs, one domain for the whole process.
//!
//! A reader *pins*: it writes the current epoch into a slot of its own. The writer unlinks a
//! thing, gathers it with others, stamps the batch with the epoch while stepping the epoch on, and
//! frees the batch once every pinned slot shows an epoch past the stamp. Readers free nothing and
//! run nobody's destructor; the writer does, under its table's lock.
//!
//! Why nothing is freed under a reader. Both sides pass a `SeqCst` fence: the reader between its
//! slot and its first load from a table, the writer between unlinking and looking at slots. Of two
//! such fences one comes first. The reader's first: the writer sees the slot, and waits if its
//! epoch is not past the stamp. The writer's first: the reader cannot see what was unlinked. And a
//! slot with an epoch past the stamp read that epoch from the step after the unlinking.
//!
//! Why one domain: a guard of any table pins all tables, so none can be the wrong one. Why not a
//! library: `docs/decisions/0003-cuckoo-table.md`.

#![expect(unsafe_code, reason = "slots are shared between threads through raw pointers")]

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::{mem, ptr};

use crate::limits;
use crate::primitive::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering, fence};

/// The epoch a slot shows when its thread holds no guard.
const UNPINNED: u64 = 0;
/// What a thread's handle adds to the claims on a slot.
const HANDLE: usize = 1;
/// What each guard adds to the claims on a slot.
const GUARD: usize = 2;

/// A thread's mark, alone on its cache lines. Slots are never freed, only claimed again.
#[repr(align(128))]
struct ReaderSlot {
    epoch: AtomicU64,
    /// Handle and guards that use the slot; zero is free. Only the owning thread changes it, but
    /// for the claim from zero.
    claims: AtomicUsize,
    next: *const Self,
}

/// What left a whole table behind: dropped when no pin can see it.
type Remains = Box<dyn Send>;

/// The epoch and everybody's slots.
pub(crate) struct Domain {
    epoch: AtomicU64,
    slots: AtomicPtr<ReaderSlot>,
    remains: Mutex<Vec<(u64, Remains)>>,
    remains_count: AtomicUsize,
}

// SAFETY: slots are reached through shared references only, and all they hold is atomic or, the
// link, never written after the slot was published.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

#[cfg(not(loom))]
static DOMAIN: Domain = Domain {
    epoch: AtomicU64::new(UNPINNED + 1),
    slots: AtomicPtr::new(ptr::null_mut()),
    remains: Mutex::new(Vec::new()),
    remains_count: AtomicUsize::new(0),
};

#[cfg(loom)]
loom::lazy_static! {
    static ref DOMAIN: Domain = Domain {
        epoch: AtomicU64::new(UNPINNED + 1),
        slots: AtomicPtr::new(ptr::null_mut()),
        remains: Mutex::new(Vec::new()),
        remains_count: AtomicUsize::new(0),
    };
}

impl Domain {
    /// The one domain of the process.
    pub(crate) fn global() -> &'static Self {
        &DOMAIN
    }

    fn slots(&self) -> impl Iterator<Item = &ReaderSlot> {
        // Acquire: pairs with the publishing of a slot, so that its link is seen.
        let mut next = self.slots.load(Ordering::Acquire).cast_const();
        std::iter::from_fn(move || {
            // SAFETY: null or a published slot, which is never freed.
            let slot = unsafe { next.as_ref() }?;
            next = slot.next;
            Some(slot)
        })
    }

    /// A free slot, or a new one.
    fn claim(&self) -> &ReaderSlot {
        for slot in self.slots() {
            // Acquire: pairs with `ReaderSlot::release`, so the last owner's marks come before ours.
            let claim =
                slot.claims.compare_exchange(0, HANDLE, Ordering::Acquire, Ordering::Relaxed);
            if claim.is_ok() {
                return slot;
            }
        }
        self.publish_slot()
    }

    fn publish_slot(&self) -> &ReaderSlot {
        // Relaxed: only a guess, the exchange below judges it.
        let mut first = self.slots.load(Ordering::Relaxed);
        let slot = Box::into_raw(Box::new(ReaderSlot {
            epoch: AtomicU64::new(UNPINNED),
            claims: AtomicUsize::new(HANDLE),
            next: first,
        }));
        loop {
            // Release: publishes the slot. Acquire is not needed: links are read from `slots`.
            match self.slots.compare_exchange(first, slot, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => {
                    first = now;
                    // SAFETY: not published yet, so still ours alone.
                    unsafe { (*slot).next = now };
                }
            }
        }
        // SAFETY: published now, and never freed while the domain lives.
        unsafe { &*slot }
    }

    /// Ends the current epoch and returns it: the stamp of all that was unlinked until now.
    fn step(&self) -> u64 {
        // AcqRel: who reads the next epoch sees all that was unlinked before this step.
        self.epoch.fetch_add(1, Ordering::AcqRel)
    }

    /// The oldest epoch anybody is pinned in, or the greatest number if nobody is.
    fn oldest_pin(&self) -> u64 {
        // The writer's side of the pair described on top.
        fence(Ordering::SeqCst);
        self.slots()
            // Acquire: pairs with the stores of the epoch by its owner, so all that a reader did
            // before it unpinned comes before what we free.
            .map(|slot| slot.epoch.load(Ordering::Acquire))
            .filter(|epoch| *epoch != UNPINNED)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Takes over what a dropped table leaves, and drops it as soon as no pin can see it: now, or
    /// when a later guard or table goes.
    pub(crate) fn bury(&self, remains: Remains) {
        let stamp = self.step();
        {
            let mut all = self.remains.lock().unwrap_or_else(|poison| poison.into_inner());
            all.push((stamp, remains));
            // Relaxed: a hint; a guard that misses it leaves the work to the next one.
            self.remains_count.store(all.len(), Ordering::Relaxed);
        }
        self.drop_remains();
    }

    /// Drops the remains that nobody can see. Does nothing if somebody else is at it.
    fn drop_remains(&self) {
        let Ok(mut all) = self.remains.try_lock() else { return };
        let oldest = self.oldest_pin();
        let (free, kept) = mem::take(&mut *all).into_iter().partition(|(stamp, _)| *stamp < oldest);
        *all = kept;
        // Relaxed: see `bury`.
        self.remains_count.store(all.len(), Ordering::Relaxed);
        // The destructors of headers may come back here: not under the lock.
        drop(all);
        drop::<Vec<(u64, Remains)>>(free);
    }
}

#[cfg(loom)]
impl Drop for Domain {
    fn drop(&mut self) {
        let mut next = self.slots.load(Ordering::Relaxed);
        while !next.is_null() {
            // SAFETY: made by `Box::into_raw`; the model is over, so nobody refers to it.
            let slot = unsafe { Box::from_raw(next) };
            next = slot.next.cast_mut();
        }
    }
}

impl ReaderSlot {
    fn claim_more(&self, claim: usize) -> usize {
        // Relaxed: while claimed only the owning thread reads or writes it.
        let before = self.claims.load(Ordering::Relaxed);
        self.claims.store(before + claim, Ordering::Relaxed);
        before
    }

    fn release(&self, claim: usize) {
        // Relaxed: as in `claim_more`.
        let after = self.claims.load(Ordering::Relaxed) - claim;
        if after < GUARD {
            // Release: what was read under the pin comes before any freeing that sees this.
            self.epoch.store(UNPINNED, Ordering::Release);
        }
        // Release: the next owner's claim comes after the store above.
        self.claims.store(after, Ordering::Release);
    }
}

/// A thread's claim on a slot.
struct Handle(&'static ReaderSlot);

impl Handle {
    fn claim() -> Self {
        Self(Domain::global().claim())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.release(HANDLE);
    }
}

#[cfg(not(loom))]
thread_local! {
    static THREAD: Handle = Handle::claim();
}

/// A pin: entries borrowed under it stay valid until it is dropped.
///
/// Cheap to make and free to hold for one batch of reads; while it is held nothing that any table
/// retires is freed, so do not keep one for long. It belongs to its thread:
///
/// ```compile_fail,E0277
/// let table = kallisto_cuckoo::Table::<u64>::with_capacity(0).unwrap();
/// let guard = table.pin();
/// std::thread::spawn(move || drop(guard));
/// ```
pub struct Guard {
    slot: &'static ReaderSlot,
    _not_send: PhantomData<*const ()>,
}

impl Guard {
    pub(crate) fn pin() -> Self {
        #[cfg(not(loom))]
        // A thread that is ending has lost its handle; it claims a slot for this guard alone.
        let guard = THREAD.try_with(Self::on).unwrap_or_else(|_| Self::on(&Handle::claim()));
        #[cfg(loom)]
        let guard = Self::on(&Handle::claim());
        guard
    }

    fn on(handle: &Handle) -> Self {
        let slot = handle.0;
        if slot.claim_more(GUARD) < GUARD {
            // Relaxed: the fence below acquires what this load saw, so whatever was unlinked
            // before this epoch began, we do not see after it.
            let epoch = Domain::global().epoch.load(Ordering::Relaxed);
            // Release: our earlier reads, under an earlier pin, come before any freeing that sees
            // this epoch instead of the unpinned mark.
            slot.epoch.store(epoch, Ordering::Release);
            // The reader's side of the pair described on top.
            fence(Ordering::SeqCst);
        }
        Self { slot, _not_send: PhantomData }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.slot.release(GUARD);
        let domain = Domain::global();
        // Relaxed: a hint, see `Domain::bury`.
        if domain.remains_count.load(Ordering::Relaxed) != 0 {
            domain.drop_remains();
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}

/// Things a table has unlinked and not freed yet, oldest first.
pub(crate) struct Limbo<T> {
    open: Vec<T>,
    open_bytes: usize,
    closed: VecDeque<(u64, Vec<T>)>,
    /// What is left of a batch that no pin can see any more.
    free: Vec<T>,
}

impl<T> Limbo<T> {
    pub(crate) fn new() -> Self {
        Self { open: Vec::new(), open_bytes: 0, closed: VecDeque::new(), free: Vec::new() }
    }

    /// Takes a thing that no slot and no pointer of the table leads to any more.
    pub(crate) fn retire(&mut self, thing: T, bytes: usize) {
        self.open.push(thing);
        self.open_bytes += bytes;
        if self.open.len() >= limits::RETIRE_BATCH || self.open_bytes >= limits::RETIRE_BYTES {
            self.close();
        }
    }

    /// Stamps what was gathered, so that it can become free.
    pub(crate) fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let batch = mem::take(&mut self.open);
        self.open_bytes = 0;
        self.closed.push_back((Domain::global().step(), batch));
    }

    /// A thing that no pin can see any more, if there is one. The caller frees it. One by one, so
    /// that a destructor that panics takes no other thing with it.
    pub(crate) fn pop_free(&mut self) -> Option<T> {
        if self.free.is_empty() {
            let (stamp, _) = self.closed.front()?;
            if *stamp >= Domain::global().oldest_pin() {
                return None;
            }
            (_, self.free) = self.closed.pop_front()?;
        }
        self.free.pop()
    }

    /// Everything, free or not: for an owner that is dropped after all pins.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> {
        let rest = mem::take(&mut self.free).into_iter().chain(mem::take(&mut self.open));
        mem::take(&mut self.closed).into_iter().flat_map(|(_, batch)| batch).chain(rest)
    }

    /// Things not freed yet.
    pub(crate) fn len(&self) -> usize {
        self.free.len()
            + self.open.len()
            + self.closed.iter().map(|(_, batch)| batch.len()).sum::<usize>()
    }
}
