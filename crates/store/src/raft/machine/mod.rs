//! The state machine: committed batches become records of the engine.
//!
//! Applying is a pure function of the entry and of what was applied before, the same on every node and at every replay:
//! judge the expectations, write, and only then call it applied. The engine keeps a record as its seqno (u64,
//! little-endian) and its bytes. Keys of the engine begin with a byte that tells records from what the machine keeps
//! about itself, so no record's key can reach the latter.
//!
//! Records belong to a *generation*: 0 until a backup is restored, then the one that was (`restore.rs`). A record's key is
//! `01 | key` in generation 0 and `02 | generation u64, big-endian | key` in any other; `03` holds which one is in use, and
//! travels with a snapshot as the records do. A batch may expect the generation under [`crate::GENERATION_KEY`], so that what was
//! decided on restored-over records comes to nothing.
//!
//! A batch whose expectation fails is an entry like any other: it takes its index and changes nothing. So positions have
//! gaps, and nobody may count on the next one.
//!
//! Invariants:
//! - one thread applies at a time, in index order, each entry once while it runs; after a restart entries above the
//!   engine's flushed position are applied again to the state of that position, with the same outcome;
//! - the fold is called under the lock that orders it with [`StateMachine::attach`].

mod home;
mod meta;
mod records;

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use kallisto_lsm::{Engine, ReadPoint, Sync};
use raft::eraftpb::ConfState;

pub(crate) use self::home::EngineHome;
pub(crate) use self::meta::put_meta;
use self::meta::{
    GENERATIONS_KEY, STORE_ID_KEY, put_members, stored_directory, stored_generations,
    stored_membership,
};
pub(crate) use self::records::{ENGINE_KEY_OVERHEAD, EngineRecords, active_key, travels};
use self::records::{engine_key, generation_of, put_engine_key};
use crate::batch::{Batch, Position, Seqno, StoreOp};
use crate::cluster::Peer;
use crate::codec::decode_batch;
use crate::raft::lock;
use crate::raft::members::updated;
use crate::raft::node::{Committed, MembersFrom};
use crate::raft::restore::{Generations, RestoreStep};
use crate::{Error, Fold, Records, Replaced, Visit};

/// Records that a sweep removes at a time.
const SWEEP_MAX: usize = 512;
/// Applies what is committed.
pub(crate) struct StateMachine {
    home: EngineHome,
    records: ArcSwap<EngineRecords>,
    order: Mutex<BatchOrder>,
    /// Threads that wait for `order` and are not the applier.
    knocking: AtomicUsize,
    applied: AtomicU64,
    directory: Mutex<Vec<Peer>>,
    /// Engines that were replaced, until nobody reads them any more.
    retired: Mutex<Vec<(u64, Arc<EngineRecords>)>>,
}

struct BatchOrder {
    fold: Option<Arc<dyn Fold>>,
    /// Which engine it is, by number.
    engine: u64,
    store_id: [u8; 16],
    /// The term of the last entry that was applied.
    term: u64,
    generations: Generations,
    /// There may be records of generations that are no more.
    unswept: bool,
    /// Kept to be filled again.
    batch: kallisto_lsm::EntryBatch,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The state at one moment.
pub(crate) struct Moment {
    pub(crate) records: Arc<EngineRecords>,
    pub(crate) point: ReadPoint,
    pub(crate) store_id: [u8; 16],
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) generations: Generations,
    pub(crate) membership: ConfState,
    pub(crate) directory: Vec<Peer>,
}

/// A state that takes the place of another: an engine, and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    pub(crate) engine: u64,
    pub(crate) store_id: [u8; 16],
    pub(crate) index: u64,
    pub(crate) term: u64,
    pub(crate) membership: ConfState,
    pub(crate) directory: Vec<Peer>,
}

impl StateMachine {
    /// The machine over engine number `engine`, whose files hold everything up to `applied`. A new one is told which store
    /// it belongs to and who its members are; one that belongs to another is refused.
    pub(crate) fn open(
        home: EngineHome,
        first: Replacement,
        applied: impl FnOnce(&Engine) -> u64,
    ) -> Result<Self, Error> {
        let engine = home.open(first.engine)?;
        match engine.get(&STORE_ID_KEY)? {
            Some(known) if *known == first.store_id => {}
            Some(_) => return Err(Error::Damaged("raft log and engine of two stores".into())),
            None if engine.flushed_position() > 0 => {
                return Err(Error::Damaged("the engine does not say whose it is".into()));
            }
            None => {
                let mut batch = kallisto_lsm::EntryBatch::new();
                put_meta(&mut batch, &first.store_id, &first.membership, &first.directory)?;
                engine.write(&batch, Sync::Mode)?;
            }
        }
        let directory = stored_directory(&engine)?.unwrap_or(first.directory);
        let applied = applied(&engine);
        let order = BatchOrder {
            fold: None,
            engine: first.engine,
            store_id: first.store_id,
            term: first.term,
            generations: stored_generations(&engine)?,
            unswept: true,
            batch: kallisto_lsm::EntryBatch::new(),
            key: Vec::new(),
            value: Vec::new(),
        };
        Ok(Self {
            home,
            records: ArcSwap::from_pointee(EngineRecords::of(engine)?),
            order: Mutex::new(order),
            knocking: AtomicUsize::new(0),
            applied: AtomicU64::new(applied),
            directory: Mutex::new(directory),
            retired: Mutex::default(),
        })
    }

    /// Who the members are at the engine's flushed position; `None` in a directory of an earlier release.
    pub(crate) fn stored_membership(&self) -> Result<Option<ConfState>, Error> {
        stored_membership(&self.records.load().0)
    }

    /// The term of the last entry that was applied, as the log knows it.
    pub(crate) fn set_term(&self, term: u64) {
        self.knock().term = term;
    }

    /// Names and addresses of the members.
    pub(crate) fn directory(&self) -> Vec<Peer> {
        lock(&self.directory).clone()
    }

    /// The state as it is now.
    pub(crate) fn moment(&self) -> Result<Moment, Error> {
        let order = self.knock();
        let records = self.records.load_full();
        let point = records.0.read_point();
        let membership = stored_membership(&records.0)?;
        Ok(Moment {
            point,
            store_id: order.store_id,
            index: self.position().0,
            term: order.term,
            generations: order.generations,
            membership: membership.ok_or_else(|| Error::Damaged("the members are gone".into()))?,
            directory: self.directory(),
            records,
        })
    }

    /// Has another engine take the place of this one, with the state it holds. The fold is told, and fed no more.
    pub(crate) fn replace(&self, with: &Replacement) -> Result<(), Error> {
        let mut order = self.knock();
        let engine = self.home.open(with.engine)?;
        if engine.get(&STORE_ID_KEY)?.as_deref() != Some(&with.store_id[..]) {
            return Err(Error::Damaged("an engine of another store".into()));
        }
        let generations = stored_generations(&engine)?;
        let why = match generations.active == order.generations.active {
            true => Replaced::CaughtUp,
            false => Replaced::Restored,
        };
        let old = self.records.swap(Arc::new(EngineRecords::of(engine)?));
        lock(&self.retired).push((order.engine, old));
        order.engine = with.engine;
        order.store_id = with.store_id;
        order.term = with.term;
        (order.generations, order.unswept) = (generations, true);
        lock(&self.directory).clone_from(&with.directory);
        // Before the position moves: who sees it knows that the view is of the past.
        if let Some(fold) = order.fold.take() {
            fold.replaced(why);
        }
        self.note_applied(with.index);
        Ok(())
    }

    /// Removes engines that were replaced and that nobody reads any more.
    pub(crate) fn bury(&self) {
        let mut retired = lock(&self.retired);
        for at in (0..retired.len()).rev() {
            if Arc::strong_count(&retired[at].1) == 1 {
                let (engine, records) = retired.swap_remove(at);
                drop(records);
                self.home.remove(engine);
            }
        }
    }

    /// Whether there is no record at all.
    pub(crate) fn is_empty(&self) -> Result<bool, Error> {
        let mut found = false;
        self.records().scan(&[], &mut |_, _| {
            found = true;
            Visit::Stop
        })?;
        Ok(!found)
    }

    /// Where the engines are.
    pub(crate) fn home(&self) -> &EngineHome {
        &self.home
    }

    /// The number of an engine that is free: neither in use nor just replaced.
    pub(crate) fn next_engine(&self) -> u64 {
        let order = self.knock();
        let retired = lock(&self.retired);
        retired.iter().map(|(engine, _)| *engine).fold(order.engine, u64::max) + 1
    }

    /// Applies the next entry and folds it. An error other than [`Error::Conflict`] and [`Error::Unknown`] leaves it
    /// unapplied; the latter says that a snapshot went past it.
    ///
    /// `known` is the batch that was encoded here for this entry, where it is at hand.
    pub(crate) fn apply(
        &self,
        entry: &Committed,
        known: Option<&Batch>,
    ) -> Result<Position, Error> {
        self.give_way();
        let mut order = lock(&self.order);
        let position = Position(entry.index);
        if position <= self.position() {
            return Err(Error::Unknown("a snapshot of the leader went past it".into()));
        }
        assert_eq!(self.position().0 + 1, entry.index, "entries are applied in order");
        if let Some(members) = &entry.members {
            self.write_members(&mut order, entry.index, members)?;
        }
        let outcome = match known {
            Some(batch) => {
                debug_assert!(is_encoded_in(batch, entry), "the batch of another entry");
                self.apply_batch(&mut order, position, batch)
            }
            None => match decode(entry)? {
                EntryEffect::Nothing => Ok(()),
                EntryEffect::Batch(batch) => self.apply_batch(&mut order, position, &batch),
                EntryEffect::Step(step) => self.step(&mut order, entry.index, step),
            },
        };
        if !matches!(outcome, Ok(()) | Err(Error::Conflict)) {
            return outcome.map(|()| position);
        }
        order.term = entry.term;
        // After the fold: whoever sees the position finds the view there.
        self.note_applied(entry.index);
        outcome.map(|()| position)
    }

    /// Judges, writes and folds a batch; [`Error::Conflict`] if what it expects is not so.
    fn apply_batch(
        &self,
        order: &mut BatchOrder,
        position: Position,
        batch: &Batch,
    ) -> Result<(), Error> {
        self.judge(order, batch)?;
        self.write(order, position.0, batch)?;
        if let Some(fold) = &order.fold {
            fold.fold(position, batch, &**self.records.load());
        }
        Ok(())
    }

    /// Takes a step of a restore; [`Error::Conflict`] if another restore began since, or records are missing.
    fn step(&self, order: &mut BatchOrder, index: u64, step: RestoreStep) -> Result<(), Error> {
        let now = order.generations;
        let next = match &step {
            RestoreStep::Begin => Generations { staged: index, records: 0, ..now },
            RestoreStep::Stage(generation, records) if *generation == now.staged => {
                let records = now.records.saturating_add(records.len() as u64);
                Generations { records, ..now }
            }
            RestoreStep::Switch(generation, records)
                if (*generation, *records) == (now.staged, now.records) =>
            {
                Generations { active: *generation, ..Generations::default() }
            }
            RestoreStep::Abandon(generation) if *generation == now.staged => {
                Generations { active: now.active, ..Generations::default() }
            }
            RestoreStep::Stage(..) | RestoreStep::Switch(..) | RestoreStep::Abandon(_) => {
                return Err(Error::Conflict);
            }
        };
        let BatchOrder { batch: out, value: record, .. } = order;
        out.clear();
        if let RestoreStep::Stage(generation, records) = &step {
            for (key, value) in records {
                record.clear();
                record.extend_from_slice(&index.to_le_bytes());
                record.extend_from_slice(value);
                out.put(&engine_key(*generation, key), record)?;
            }
        }
        out.put(&GENERATIONS_KEY, &next.encode())?;
        out.set_position(index);
        let records = self.records.load();
        records.0.write(out, Sync::Mode)?;
        order.generations = next;
        if !matches!(step, RestoreStep::Stage(..)) {
            order.unswept = true;
        }
        if now.active != next.active {
            // Release: who sees the generation sees the records that were staged.
            records.1.store(next.active, Ordering::Release);
            if let Some(fold) = order.fold.take() {
                fold.replaced(Replaced::Restored);
            }
        }
        Ok(())
    }

    /// Removes some records of generations that are neither in use nor staged; false when there are none left. Each server
    /// does so for itself: nobody reads them.
    pub(crate) fn sweep(&self) -> Result<bool, Error> {
        let mut order = self.knock();
        if !order.unswept {
            return Ok(false);
        }
        let records = self.records.load();
        let Generations { active, staged, .. } = order.generations;
        let mut batch = kallisto_lsm::EntryBatch::new();
        let mut count = 0;
        let mut from = engine_key(0, &[]);
        'ranges: loop {
            let mut scan = records
                .0
                .scan((Bound::Included(&from[..]), Bound::Excluded(&GENERATIONS_KEY[..])))?;
            while let Some((key, _)) = scan.next_entry()? {
                let generation = generation_of(key);
                if generation == active || (staged != 0 && generation == staged) {
                    from = engine_key(generation + 1, &[]);
                    continue 'ranges;
                }
                batch.delete(key)?;
                count += 1;
                if count == SWEEP_MAX {
                    break;
                }
            }
            break;
        }
        if count == 0 {
            order.unswept = false;
            return Ok(false);
        }
        records.0.write(&batch, Sync::Mode)?;
        Ok(true)
    }

    /// Loads a fold with the state as it is and feeds it from then on.
    pub(crate) fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        let mut order = self.knock();
        order.fold = None;
        let position = self.position();
        fold.load(position, &**self.records.load())?;
        order.fold = Some(fold);
        Ok(position)
    }

    /// Feeds no fold any more.
    pub(crate) fn detach(&self) {
        self.knock().fold = None;
    }

    /// Which restore the records are of.
    pub(crate) fn generation(&self) -> Seqno {
        Seqno(self.records.load().1.load(Ordering::Acquire))
    }

    /// Up to where everything is applied.
    pub(crate) fn position(&self) -> Position {
        // Acquire: pairs with the release of what was applied.
        Position(self.applied.load(Ordering::Acquire))
    }

    /// The records.
    pub(crate) fn records(&self) -> Guard<Arc<EngineRecords>> {
        self.records.load()
    }

    fn write_members(
        &self,
        order: &mut BatchOrder,
        index: u64,
        members: &MembersFrom,
    ) -> Result<(), Error> {
        let directory = updated(&self.directory(), &members.changed);
        let out = &mut order.batch;
        out.clear();
        put_members(out, &members.membership, &directory)?;
        out.set_position(index);
        self.records.load().0.write(out, Sync::Mode)?;
        *lock(&self.directory) = directory;
        Ok(())
    }

    /// Makes `own` the only member as of what is applied, up to `index`, for good.
    pub(crate) fn force_members(
        &self,
        index: u64,
        membership: &ConfState,
        own: Peer,
    ) -> Result<(), Error> {
        let mut order = self.knock();
        let out = &mut order.batch;
        out.clear();
        put_members(out, membership, std::slice::from_ref(&own))?;
        out.set_position(index);
        let records = self.records.load();
        records.0.write(out, Sync::Mode)?;
        records.0.flush_to(index)?;
        *lock(&self.directory) = vec![own];
        Ok(())
    }

    fn judge(&self, order: &mut BatchOrder, batch: &Batch) -> Result<(), Error> {
        let records = self.records.load();
        for expectation in batch.expectations() {
            let found = records.seqno(&expectation.key, &mut order.key)?;
            if found != expectation.seqno {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    fn write(&self, order: &mut BatchOrder, index: u64, batch: &Batch) -> Result<(), Error> {
        let BatchOrder { batch: out, key: engine_key, value: record, generations, .. } = order;
        out.clear();
        for op in batch.ops() {
            let (StoreOp::Put { key, .. } | StoreOp::Delete { key, .. }) = op;
            put_engine_key(engine_key, generations.active, key);
            match op {
                StoreOp::Put { value, .. } => {
                    record.clear();
                    record.extend_from_slice(&index.to_le_bytes());
                    record.extend_from_slice(value);
                    out.put(engine_key, record)?;
                }
                StoreOp::Delete { .. } => out.delete(engine_key)?,
            }
        }
        out.set_position(index);
        self.records.load().0.write(out, Sync::Mode)?;
        Ok(())
    }

    fn note_applied(&self, index: u64) {
        // Release: whoever sees the position sees what was written up to there.
        self.applied.store(index, Ordering::Release);
    }

    /// Takes the order although the applier takes it again and again.
    fn knock(&self) -> std::sync::MutexGuard<'_, BatchOrder> {
        // Relaxed: a hint that the applier looks at between entries.
        self.knocking.fetch_add(1, Ordering::Relaxed);
        let order = lock(&self.order);
        self.knocking.fetch_sub(1, Ordering::Relaxed);
        order
    }

    fn give_way(&self) {
        while self.knocking.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }
}
/// What an entry says.
enum EntryEffect {
    /// Nothing that the records show.
    Nothing,
    Batch(Batch),
    Step(RestoreStep),
}

/// Whether an entry says what a batch does.
fn is_encoded_in(batch: &Batch, entry: &Committed) -> bool {
    entry.members.is_none()
        && decode_batch(&entry.data).is_some_and(|decoded| {
            decoded.ops() == batch.ops() && decoded.expectations() == batch.expectations()
        })
}

fn decode(entry: &Committed) -> Result<EntryEffect, Error> {
    if entry.data.is_empty() || entry.members.is_some() {
        return Ok(EntryEffect::Nothing);
    }
    let damaged = || Error::Damaged(format!("raft log: entry {} is no batch", entry.index));
    if RestoreStep::is_in(&entry.data) {
        return RestoreStep::decode(&entry.data).map(EntryEffect::Step).ok_or_else(damaged);
    }
    decode_batch(&entry.data).map(EntryEffect::Batch).ok_or_else(damaged)
}

#[cfg(test)]
mod tests;
