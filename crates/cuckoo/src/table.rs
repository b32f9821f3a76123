//! The table: lookups without a lock, writes behind one.
//!
//! A lookup loads `moves`, scans the key's two buckets (of both arrays while the table grows) and
//! returns at once on a hit: entries are immutable, so what it found is right. Only a miss loads
//! `moves` again; if it stepped, an entry may have gone past the scan and the lookup repeats. The
//! proof in short: within an array an entry that stays in the table leaves a slot only by (1) a
//! copy elsewhere, (2) a step of `moves`, (3) the overwriting, each a `Release` store. A scan that
//! found neither place saw (3) but not (1). Seeing (3), its second load of `moves` sees (2); not
//! seeing (1), its first load, which came before, did not. So the two loads differ. From an old
//! array to the current one there is no (2): the old one is scanned first, so who saw (3) sees (1)
//! afterwards. Publishing arrays steps `moves` before anything leaves the slots known till then.
//!
//! Writers exclude each other by a mutex that readers never touch. `writer` and `growth` do the
//! work; `reclaim` decides when freed memory may be used again.

#![expect(unsafe_code, reason = "readers follow addresses that a guard keeps valid")]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::{fmt, hint};

use crate::array::{self, Array};
use crate::bucket::Word;
use crate::entry::{self, Entry, EntryHead};
use crate::iter::Iter;
use crate::primitive::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::reclaim::{Domain, Guard};
use crate::siphash::SipKey;
use crate::stats::{TableMemory, TableStats};
use crate::writer::{BucketArrays, CacheLine, TableShared, TableWriter};
use crate::{Error, limits, prefetch};

/// A concurrent map from byte keys to immutable entries: header, key and value.
///
/// Readers never wait and never miss a key that is present throughout their lookup. Writers are
/// serialised. A header's destructor runs in some later write, or when the table goes, once no
/// reader can hold the entry, under the table's lock: it may look keys up there, but it must call
/// nothing else of the same table. If it panics, the write that ran it has taken effect.
///
/// ```
/// use kallisto_cuckoo::{Inserted, Table};
///
/// let table = Table::with_capacity(1000)?;
/// assert_eq!(table.insert(b"secret/app", 7_u64, b"ciphertext")?, Inserted::Inserted);
/// let guard = table.pin();
/// let entry = table.get(b"secret/app", &guard).expect("present");
/// table.remove(b"secret/app");
/// assert_eq!((*entry.header(), entry.value()), (7, &b"ciphertext"[..]));
/// # Ok::<(), kallisto_cuckoo::Error>(())
/// ```
///
/// An entry cannot outlive its guard:
///
/// ```compile_fail,E0597
/// let table = kallisto_cuckoo::Table::<u64>::with_capacity(0).unwrap();
/// let entry = {
///     let guard = table.pin();
///     table.get(b"secret/app", &guard)
/// };
/// drop(entry);
/// ```
///
/// and a header must be fit for other threads, since any of them may read or drop it:
///
/// ```compile_fail,E0277
/// let _ = kallisto_cuckoo::Table::<std::rc::Rc<u8>>::with_capacity(0);
/// ```
pub struct Table<H: Send + Sync + 'static> {
    inner: ManuallyDrop<Box<TableInner<H>>>,
}

/// What `insert` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The entry is in the table.
    Inserted,
    /// The key was there already, and its entry stays.
    AlreadyPresent,
}

/// What [`Table::get_gated`] found.
pub enum Gated<'g, H> {
    /// The gate said no.
    Refused,
    /// The gate let the key pass, and it has no entry.
    Missing,
    /// The entry.
    Found(Entry<'g, H>),
}

/// What `upsert` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upserted {
    /// The key was new.
    Inserted,
    /// The entry took the place of the key's entry.
    Replaced,
}

/// All of a table. Dropped only when no pin can see its entries.
struct TableInner<H> {
    shared: TableShared<H>,
    writer: Mutex<TableWriter<H>>,
}

impl<H: Send + Sync + 'static> Table<H> {
    /// A table that takes `entries` entries without growing, under a hash key drawn from the
    /// operating system. There is no way to choose the key.
    pub fn with_capacity(entries: usize) -> Result<Self, Error> {
        Self::with_draw(entries, SipKey::make_random)
    }

    /// As `with_capacity`, with another source of keys: tests only.
    pub(crate) fn with_draw(
        entries: usize,
        draw: fn() -> Result<SipKey, Error>,
    ) -> Result<Self, Error> {
        let current = Arc::new(Array::new(array::buckets_for(entries)?, draw()?)?);
        let arrays = Box::new(BucketArrays { current: Arc::clone(&current), old: None });
        let shared = TableShared {
            arrays: CacheLine(AtomicPtr::new(Box::into_raw(arrays))),
            moves: CacheLine(AtomicU64::new(0)),
            len: AtomicUsize::new(0),
        };
        let writer = Mutex::new(TableWriter::new(current, draw));
        Ok(Self { inner: ManuallyDrop::new(Box::new(TableInner { shared, writer })) })
    }

    /// Pins the calling thread: what it finds stays valid while the guard lives. One guard serves
    /// any number of lookups, in any table.
    #[inline]
    pub fn pin(&self) -> Guard {
        Guard::pin()
    }

    /// The entry of `key`.
    #[inline]
    pub fn get<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<Entry<'g, H>> {
        self.inner.shared.get(key, guard)
    }

    /// The entry of a key that `gate` lets pass.
    ///
    /// The key is hashed and its buckets are asked for before the gate is, so that a gate which
    /// waits for memory of its own waits at the same time. Nothing is looked at if it says no.
    #[inline]
    pub fn get_gated<'g>(
        &self,
        key: &[u8],
        guard: &'g Guard,
        gate: impl FnOnce() -> bool,
    ) -> Gated<'g, H> {
        self.inner.shared.get_gated(key, guard, gate)
    }

    /// The entries of many keys, in their order; `found` is emptied first.
    ///
    /// All keys are hashed and their buckets asked for before any is looked at, so the cache
    /// misses of a batch overlap. Each key is looked up on its own: the batch is not one moment.
    pub fn get_many<'g>(
        &self,
        keys: &[&[u8]],
        found: &mut Vec<Option<Entry<'g, H>>>,
        guard: &'g Guard,
    ) {
        found.clear();
        found.reserve(keys.len());
        for batch in keys.chunks(limits::LOOKUP_BATCH) {
            self.inner.shared.get_batch(batch, found, guard);
        }
    }

    /// Makes the table large enough for `entries` entries at once, where it would double again and again as they come. What
    /// it holds moves over with later writes, as when it grows by itself; a table that is large enough stays as it is.
    pub fn reserve(&self, entries: usize) -> Result<(), Error> {
        let (shared, mut writer) = self.write();
        writer.grow_to(shared, array::buckets_for(entries)?)?;
        writer.free_retired();
        Ok(())
    }

    /// Asks for the buckets of a key that will soon be looked up or put in: a hint, and nothing waits for it.
    pub fn prefetch(&self, key: &[u8], guard: &Guard) {
        self.inner.shared.with_arrays(guard, |arrays| {
            arrays.current.prefetch(arrays.current.spot(key));
        });
    }

    /// Puts an entry under a key that is not there yet.
    pub fn insert(&self, key: &[u8], header: H, value: &[u8]) -> Result<Inserted, Error> {
        entry::check_key(key)?;
        entry::check_value(value)?;
        let (shared, mut writer) = self.write();
        writer.move_some(shared)?;
        if writer.find(key).is_some() {
            return Ok(Inserted::AlreadyPresent);
        }
        writer.add(shared, key, header, value)?;
        writer.free_retired();
        Ok(Inserted::Inserted)
    }

    /// Puts an entry under a key, in place of the key's entry if there is one.
    pub fn upsert(&self, key: &[u8], header: H, value: &[u8]) -> Result<Upserted, Error> {
        entry::check_key(key)?;
        entry::check_value(value)?;
        let (shared, mut writer) = self.write();
        writer.move_some(shared)?;
        let Some((cell, word)) = writer.find(key) else {
            writer.add(shared, key, header, value)?;
            writer.free_retired();
            return Ok(Upserted::Inserted);
        };
        let entry = EntryHead::make(&mut writer.arena, header, key, value)?;
        cell.store(Word::new(entry, word.tag()));
        writer.stats.replaced += 1;
        writer.retire(word);
        writer.free_retired();
        Ok(Upserted::Replaced)
    }

    /// Takes a key's entry out. False if there was none.
    pub fn remove(&self, key: &[u8]) -> bool {
        let (shared, mut writer) = self.write();
        let Some((cell, word)) = writer.find(key) else { return false };
        cell.store(Word::EMPTY);
        // Relaxed: a count, written under the lock and read as a hint.
        shared.len.store(shared.len.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        writer.stats.removed += 1;
        writer.retire(word);
        writer.free_retired();
        true
    }

    /// All entries of one moment, the call's, in no order. Writers wait while their addresses are
    /// copied (eight bytes each); later changes do not show.
    pub fn iter<'g>(&self, guard: &'g Guard) -> Iter<'g, H> {
        let (_, writer) = self.write();
        Iter::new(writer.cells().filter_map(|(_, word)| word.entry()).collect(), guard)
    }

    /// Takes every entry out, one after another: a reader meanwhile may find some of them. The
    /// buckets stay.
    pub fn clear(&self) {
        let (shared, mut writer) = self.write();
        let words: Vec<_> = writer
            .cells()
            .map(|(cell, word)| {
                cell.store(Word::EMPTY);
                word
            })
            .collect();
        // Relaxed: a count, written under the lock and read as a hint.
        shared.len.store(0, Ordering::Relaxed);
        writer.stats.removed += words.len() as u64;
        for word in words {
            writer.retire(word);
        }
        writer.limbo.close();
        writer.free_retired();
    }

    /// Finishes a growth that is under way, so that lookups need only one array again. For a
    /// maintenance thread: with further writes it would come about by itself.
    pub fn finish_growth(&self) -> Result<(), Error> {
        let (shared, mut writer) = self.write();
        writer.finish_growth(shared)?;
        writer.free_retired();
        Ok(())
    }

    /// Entries in the table.
    pub fn len(&self) -> usize {
        // Relaxed: a count that is out of date as soon as it is read.
        self.inner.shared.len.load(Ordering::Relaxed)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots that new entries go to.
    pub fn capacity(&self) -> usize {
        self.inner.shared.with_arrays(&self.pin(), |arrays| arrays.current.slots())
    }

    /// Entries per slot.
    pub fn load_factor(&self) -> f64 {
        self.len() as f64 / self.capacity() as f64
    }

    /// The bytes the table holds.
    pub fn memory(&self) -> TableMemory {
        let (_, writer) = self.write();
        let old = writer.growth.as_ref().map_or(0, |growth| growth.old.buckets().len());
        let buckets = writer.current.buckets().len() + old;
        TableMemory {
            table_bytes: buckets * size_of::<crate::bucket::Bucket<H>>(),
            entry_bytes: writer.arena.used_bytes(),
            retired_bytes: writer.retired_bytes,
            reserved_bytes: writer.arena.reserved_bytes(),
        }
    }

    /// What the table has done so far.
    pub fn stats(&self) -> TableStats {
        let (_, writer) = self.write();
        let mut stats = writer.stats;
        stats.buckets_to_move = writer.growth.as_ref().map_or(0, |growth| growth.buckets_to_move());
        stats.retired = writer.limbo.len();
        stats
    }

    /// What readers see, and the writer's half under its lock.
    pub(crate) fn write(&self) -> (&TableShared<H>, MutexGuard<'_, TableWriter<H>>) {
        // A panic under the lock can only come from a header's destructor, which runs last.
        let writer = self.inner.writer.lock().unwrap_or_else(|poison| poison.into_inner());
        (&self.inner.shared, writer)
    }
}

impl<H> TableShared<H> {
    #[inline]
    fn arrays<'g>(&self, _guard: &'g Guard) -> &'g BucketArrays<H> {
        // Acquire: pairs with `swap_arrays`.
        let arrays = self.arrays.0.load(Ordering::Acquire);
        // SAFETY: always set; replaced arrays are retired, so they stay while the guard lives.
        unsafe { &*arrays }
    }

    #[inline]
    fn get<'g>(&self, key: &[u8], guard: &'g Guard) -> Option<Entry<'g, H>> {
        loop {
            // Acquire: the scan comes after this load.
            let before = self.moves.0.load(Ordering::Acquire);
            let arrays = self.arrays(guard);
            if let Some(entry) = arrays.find(key, guard) {
                return Some(entry);
            }
            // Relaxed: the scan's loads are `Acquire`, so this one comes after them, and after a
            // step that they follow.
            if self.moves.0.load(Ordering::Relaxed) == before {
                return None;
            }
            hint::spin_loop();
        }
    }

    /// Asks for the buckets of all keys, then for the entries they most likely lead to, and only
    /// then looks.
    #[inline]
    fn get_gated<'g>(
        &self,
        key: &[u8],
        guard: &'g Guard,
        gate: impl FnOnce() -> bool,
    ) -> Gated<'g, H> {
        let array = &self.arrays(guard).current;
        let spot = array.spot(key);
        array.prefetch(spot);
        if !gate() {
            return Gated::Refused;
        }
        // SAFETY: the guard keeps what slots point to alive.
        let hit = unsafe { array.find(spot, key) }.map(|(_, _, entry)| entry);
        // A hit in the current array is right at any time; a miss is for `get` to judge.
        hit.or_else(|| self.get(key, guard)).map_or(Gated::Missing, Gated::Found)
    }

    fn get_batch<'g>(
        &self,
        keys: &[&[u8]],
        found: &mut Vec<Option<Entry<'g, H>>>,
        guard: &'g Guard,
    ) {
        // Acquire: the scans come after this load, as in `get`.
        let before = self.moves.0.load(Ordering::Acquire);
        let arrays = self.arrays(guard);
        let array = &arrays.current;
        let mut spots = [array::HashedKey { first: 0, tag: 1 }; limits::LOOKUP_BATCH];
        let spots = &mut spots[..keys.len()];
        for (spot, key) in spots.iter_mut().zip(keys) {
            *spot = array.spot(key);
            array.prefetch(*spot);
        }
        for spot in spots.iter() {
            if let Some(entry) = array.guess(*spot) {
                prefetch::entry(entry.as_ptr());
            }
        }
        for (spot, key) in spots.iter().zip(keys) {
            // SAFETY: the guard keeps what slots point to alive.
            let hit = unsafe { array.find(*spot, key) }.map(|(_, _, entry)| entry);
            // Relaxed: as in `get`. A hit in the current array is right at any time, and so is a
            // miss when there is no other array and nothing moved; all else is for `get` to judge.
            let settled = hit.is_some()
                || arrays.old.is_none() && self.moves.0.load(Ordering::Relaxed) == before;
            found.push(if settled { hit } else { self.get(key, guard) });
        }
    }

    fn with_arrays<T>(&self, guard: &Guard, look: impl FnOnce(&BucketArrays<H>) -> T) -> T {
        look(self.arrays(guard))
    }

    /// Publishes arrays and returns those before, which readers may still see: not as a box, which
    /// would claim to be the only way to them.
    pub(crate) fn swap_arrays(&self, arrays: Box<BucketArrays<H>>) -> NonNull<BucketArrays<H>> {
        // AcqRel: publishes the arrays' content.
        let before = self.arrays.0.swap(Box::into_raw(arrays), Ordering::AcqRel);
        NonNull::new(before).expect("a table always has arrays")
    }
}

impl<H> BucketArrays<H> {
    /// Old before current, which the proof above needs: entries go from the one to the other.
    #[inline]
    fn find<'g>(&self, key: &[u8], _guard: &'g Guard) -> Option<Entry<'g, H>> {
        if let Some(old) = &self.old {
            // SAFETY: the guard keeps what slots point to alive.
            if let Some((_, _, entry)) = unsafe { old.find(old.spot(key), key) } {
                return Some(entry);
            }
        }
        // SAFETY: the guard keeps what slots point to alive.
        unsafe { self.current.find(self.current.spot(key), key) }.map(|(_, _, entry)| entry)
    }
}

impl<H: Send + Sync + 'static> Drop for Table<H> {
    fn drop(&mut self) {
        // SAFETY: taken once, here; `self` is not used afterwards.
        let inner = unsafe { ManuallyDrop::take(&mut self.inner) };
        // Guards do not borrow the table, so entries may outlive it.
        Domain::global().bury(inner);
    }
}

impl<H> Drop for TableInner<H> {
    fn drop(&mut self) {
        // Relaxed: no other thread is left.
        let arrays = self.shared.arrays.0.load(Ordering::Relaxed);
        // SAFETY: the published arrays came from `Box::into_raw`, and no reader is left.
        drop(unsafe { Box::from_raw(arrays) });
        let writer = self.writer.get_mut().unwrap_or_else(|poison| poison.into_inner());
        // SAFETY: the domain drops what was buried when no pin can see it, and nobody else can
        // reach the table any more.
        unsafe { writer.free_everything() };
    }
}

impl<H: Send + Sync + 'static> fmt::Debug for Table<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.len()).finish_non_exhaustive()
    }
}
