//! The state machine: committed batches become records of the engine.
//!
//! Applying is a pure function of the entry and of what was applied before, the same on every node and at every replay:
//! judge the expectations, write, and only then call it applied. The engine keeps a record as its seqno (u64,
//! little-endian) and its bytes. Keys of the engine begin with a byte that tells records from what the machine keeps
//! about itself, so no record's key can reach the latter.
//!
//! Records belong to a *generation*: 0 until a backup is restored, then the one that was (`restore.rs`). A record's key is
//! `01 | key` in generation 0 and `02 | generation u64, big-endian | key` in any other; `03` holds which one is in use, and
//! travels with a snapshot as the records do. A batch may expect the generation under [`GENERATION_KEY`], so that what was
//! decided on restored-over records comes to nothing.
//!
//! A batch whose expectation fails is an entry like any other: it takes its index and changes nothing. So positions have
//! gaps, and nobody may count on the next one.
//!
//! Invariants:
//! - one thread applies at a time, in index order, each entry once while it runs; after a restart entries above the
//!   engine's flushed position are applied again to the state of that position, with the same outcome;
//! - the fold is called under the lock that orders it with [`Machine::attach`].

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use kallisto_lsm::disk::Disk;
use kallisto_lsm::{Engine, ReadPoint, Sync};
use raft::eraftpb::ConfState;

use super::lock;
use super::log::record::{put_membership, read_membership};
use super::members::{put_directory, read_directory, updated};
use super::node::{Committed, Members};
use super::restore::{Generations, Step};
use crate::batch::{Batch, Op, Position, Record, Seqno};
use crate::cluster::Peer;
use crate::codec::{Reader, decode_batch};
use crate::{Error, Fold, GENERATION_KEY, Records, Replaced, Visit};

/// First byte of the keys of what the machine keeps about itself.
const META: u8 = 0x00;
/// First byte of the keys of records of generation 0.
const RECORD: u8 = 0x01;
/// First byte of the keys of all other records.
const RESTORED: u8 = 0x02;
/// Which generations there are.
const GENERATIONS_KEY: [u8; 1] = [0x03];
/// Records that a sweep removes at a time.
const SWEEP_MAX: usize = 512;
/// Which store this is: 16 bytes.
const STORE_ID_KEY: [u8; 2] = [META, 0x01];
/// The members at the flushed position, encoded as in the log.
const MEMBERSHIP_KEY: [u8; 2] = [META, 0x02];
/// The members' names and addresses, as `members.rs` has them.
const DIRECTORY_KEY: [u8; 2] = [META, 0x03];
/// Bytes of a seqno before a record's value.
const SEQNO_BYTES: usize = 8;

/// Records in an engine, of the generation in use.
#[derive(Debug)]
pub(crate) struct EngineRecords(pub(crate) Engine, AtomicU64);

/// Where a store's engines are, and how they are opened.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) disk: Arc<dyn Disk>,
    /// The store's directory.
    pub(crate) dir: PathBuf,
    pub(crate) options: kallisto_lsm::Options,
}

/// Applies what is committed.
pub(crate) struct Machine {
    home: Home,
    records: ArcSwap<EngineRecords>,
    order: Mutex<Order>,
    /// Threads that wait for `order` and are not the applier.
    knocking: AtomicUsize,
    applied: AtomicU64,
    directory: Mutex<Vec<Peer>>,
    /// Engines that were replaced, until nobody reads them any more.
    retired: Mutex<Vec<(u64, Arc<EngineRecords>)>>,
}

struct Order {
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
    batch: kallisto_lsm::Batch,
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

impl Home {
    /// The directory of an engine.
    pub(crate) fn engine_dir(&self, engine: u64) -> PathBuf {
        engine_dir(&self.dir, engine)
    }

    /// Opens an engine that is filled from a snapshot: nothing above it keeps a log.
    pub(crate) fn open_apart(&self, engine: u64) -> Result<Engine, Error> {
        let options = kallisto_lsm::Options { outer_log: None, ..self.options.clone() };
        self.disk
            .create_dir(&self.engine_dir(engine))
            .and_then(|()| self.disk.sync_dir(&self.dir))
            .map_err(|error| Error::Unavailable(format!("make an engine: {error}")))?;
        Ok(Engine::open(Arc::clone(&self.disk), self.engine_dir(engine), options)?)
    }

    /// Opens the engine that the log goes with.
    pub(crate) fn open(&self, engine: u64) -> Result<Engine, Error> {
        let dir = self.engine_dir(engine);
        Ok(Engine::open(Arc::clone(&self.disk), dir, self.options.clone())?)
    }

    /// Removes the files of an engine that nobody has open. The empty directory stays.
    pub(crate) fn remove(&self, engine: u64) {
        let dir = self.engine_dir(engine);
        let Ok(names) = self.disk.list(&dir) else { return };
        for name in names {
            // What cannot be removed now is removed by the next start.
            let _ = self.disk.remove(&dir.join(name));
        }
    }
}

/// The directory of an engine of the store in `dir`.
pub(crate) fn engine_dir(dir: &Path, engine: u64) -> PathBuf {
    match engine {
        0 => dir.join("engine"),
        number => dir.join(format!("engine-{number}")),
    }
}

/// Writes what an engine knows of the store it belongs to.
pub(crate) fn put_meta(
    batch: &mut kallisto_lsm::Batch,
    store_id: &[u8; 16],
    membership: &ConfState,
    directory: &[Peer],
) -> Result<(), Error> {
    batch.put(&STORE_ID_KEY, store_id)?;
    put_members(batch, membership, directory)
}

fn put_members(
    batch: &mut kallisto_lsm::Batch,
    membership: &ConfState,
    directory: &[Peer],
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    put_membership(&mut bytes, membership);
    batch.put(&MEMBERSHIP_KEY, &bytes)?;
    bytes.clear();
    put_directory(&mut bytes, directory);
    batch.put(&DIRECTORY_KEY, &bytes)?;
    Ok(())
}

impl Machine {
    /// The machine over engine number `engine`, whose files hold everything up to `applied`. A new one is told which store
    /// it belongs to and who its members are; one that belongs to another is refused.
    pub(crate) fn open(
        home: Home,
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
                let mut batch = kallisto_lsm::Batch::new();
                put_meta(&mut batch, &first.store_id, &first.membership, &first.directory)?;
                engine.write(&batch, Sync::Mode)?;
            }
        }
        let directory = stored_directory(&engine)?.unwrap_or(first.directory);
        let applied = applied(&engine);
        let order = Order {
            fold: None,
            engine: first.engine,
            store_id: first.store_id,
            term: first.term,
            generations: stored_generations(&engine)?,
            unswept: true,
            batch: kallisto_lsm::Batch::new(),
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
    pub(crate) fn home(&self) -> &Home {
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
    pub(crate) fn apply(&self, entry: &Committed) -> Result<Position, Error> {
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
        let outcome = match decode(entry)? {
            Deed::Nothing => Ok(()),
            Deed::Batch(batch) => match self.judge(&batch) {
                Ok(()) => {
                    self.write(&mut order, entry.index, &batch)?;
                    if let Some(fold) = &order.fold {
                        fold.fold(position, &batch, &**self.records.load());
                    }
                    Ok(())
                }
                refused => refused,
            },
            Deed::Step(step) => self.step(&mut order, entry.index, step),
        };
        if !matches!(outcome, Ok(()) | Err(Error::Conflict)) {
            return outcome.map(|()| position);
        }
        order.term = entry.term;
        // After the fold: whoever sees the position finds the view there.
        self.note_applied(entry.index);
        outcome.map(|()| position)
    }

    /// Takes a step of a restore; [`Error::Conflict`] if another restore began since, or records are missing.
    fn step(&self, order: &mut Order, index: u64, step: Step) -> Result<(), Error> {
        let now = order.generations;
        let next = match &step {
            Step::Begin => Generations { staged: index, records: 0, ..now },
            Step::Stage(generation, records) if *generation == now.staged => {
                let records = now.records.saturating_add(records.len() as u64);
                Generations { records, ..now }
            }
            Step::Switch(generation, records)
                if (*generation, *records) == (now.staged, now.records) =>
            {
                Generations { active: *generation, ..Generations::default() }
            }
            Step::Abandon(generation) if *generation == now.staged => {
                Generations { active: now.active, ..Generations::default() }
            }
            Step::Stage(..) | Step::Switch(..) | Step::Abandon(_) => return Err(Error::Conflict),
        };
        let Order { batch: out, value: record, .. } = order;
        out.clear();
        if let Step::Stage(generation, records) = &step {
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
        if !matches!(step, Step::Stage(..)) {
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
        let mut batch = kallisto_lsm::Batch::new();
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

    fn write_members(&self, order: &mut Order, index: u64, members: &Members) -> Result<(), Error> {
        let directory = updated(&self.directory(), &members.changed);
        let out = &mut order.batch;
        out.clear();
        put_members(out, &members.membership, &directory)?;
        out.set_position(index);
        self.records.load().0.write(out, Sync::Mode)?;
        *lock(&self.directory) = directory;
        Ok(())
    }

    fn judge(&self, batch: &Batch) -> Result<(), Error> {
        let records = self.records.load();
        for expectation in batch.expectations() {
            let found = records.seqno(&expectation.key)?;
            if found != expectation.seqno {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    fn write(&self, order: &mut Order, index: u64, batch: &Batch) -> Result<(), Error> {
        let Order { batch: out, key: engine_key, value: record, generations, .. } = order;
        out.clear();
        for op in batch.ops() {
            let (Op::Put { key, .. } | Op::Delete { key, .. }) = op;
            put_engine_key(engine_key, generations.active, key);
            match op {
                Op::Put { value, .. } => {
                    record.clear();
                    record.extend_from_slice(&index.to_le_bytes());
                    record.extend_from_slice(value);
                    out.put(engine_key, record)?;
                }
                Op::Delete { .. } => out.delete(engine_key)?,
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
    fn knock(&self) -> std::sync::MutexGuard<'_, Order> {
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

fn stored_membership(engine: &Engine) -> Result<Option<ConfState>, Error> {
    let Some(value) = engine.get(&MEMBERSHIP_KEY)? else { return Ok(None) };
    let bytes = Bytes::copy_from_slice(&value);
    let members = read_membership(&mut Reader::new(&bytes));
    members.map(Some).ok_or_else(|| Error::Damaged("the engine's members cannot be read".into()))
}

fn stored_directory(engine: &Engine) -> Result<Option<Vec<Peer>>, Error> {
    let Some(value) = engine.get(&DIRECTORY_KEY)? else { return Ok(None) };
    let bytes = Bytes::copy_from_slice(&value);
    let peers = read_directory(&mut Reader::new(&bytes));
    peers.map(Some).ok_or_else(|| Error::Damaged("the engine's directory cannot be read".into()))
}

fn stored_generations(engine: &Engine) -> Result<Generations, Error> {
    let Some(value) = engine.get(&GENERATIONS_KEY)? else { return Ok(Generations::default()) };
    let damaged = || Error::Damaged("the engine's generations cannot be read".into());
    Generations::decode(&value).ok_or_else(damaged)
}

/// What an entry says.
enum Deed {
    /// Nothing that the records show.
    Nothing,
    Batch(Batch),
    Step(Step),
}

fn decode(entry: &Committed) -> Result<Deed, Error> {
    if entry.data.is_empty() || entry.members.is_some() {
        return Ok(Deed::Nothing);
    }
    let damaged = || Error::Damaged(format!("raft log: entry {} is no batch", entry.index));
    if Step::is_in(&entry.data) {
        return Step::decode(&entry.data).map(Deed::Step).ok_or_else(damaged);
    }
    decode_batch(&entry.data).map(Deed::Batch).ok_or_else(damaged)
}

/// The engine's key of a record of a generation.
fn put_engine_key(out: &mut Vec<u8>, generation: u64, key: &[u8]) {
    out.clear();
    match generation {
        0 => out.push(RECORD),
        restored => {
            out.push(RESTORED);
            out.extend_from_slice(&restored.to_be_bytes());
        }
    }
    out.extend_from_slice(key);
}

fn engine_key(generation: u64, key: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(key.len() + ENGINE_KEY_OVERHEAD);
    put_engine_key(&mut whole, generation, key);
    whole
}

/// Whose record an engine's key is.
fn generation_of(engine_key: &[u8]) -> u64 {
    match engine_key.split_first() {
        Some((&RESTORED, rest)) => {
            rest.first_chunk().map_or(0, |generation| u64::from_be_bytes(*generation))
        }
        _ => 0,
    }
}

/// Bytes of an engine's key besides those of the record's own.
pub(crate) const ENGINE_KEY_OVERHEAD: usize = 1 + 8;

/// The key of the record of a generation in use; `None` for all other records.
pub(crate) fn active_key<'k>(engine_key: &'k [u8], generations: &Generations) -> Option<&'k [u8]> {
    let overhead = if generations.active == 0 { 1 } else { ENGINE_KEY_OVERHEAD };
    let is_record = matches!(engine_key.first(), Some(&(RECORD | RESTORED)));
    (is_record && generation_of(engine_key) == generations.active)
        .then(|| engine_key.get(overhead..))
        .flatten()
}

/// Whether a member that is sent everything is sent this.
pub(crate) fn travels(engine_key: &[u8], generations: &Generations) -> bool {
    let generation = generation_of(engine_key);
    engine_key == GENERATIONS_KEY
        || generation == generations.active
        || (generation != 0 && generation == generations.staged)
}

fn split(value: &[u8]) -> Result<(Seqno, &[u8]), Error> {
    let (seqno, value) = value
        .split_first_chunk::<SEQNO_BYTES>()
        .ok_or_else(|| Error::Damaged("a record without its seqno".into()))?;
    Ok((Seqno(u64::from_le_bytes(*seqno)), value))
}

impl EngineRecords {
    fn of(engine: Engine) -> Result<Self, Error> {
        let active = stored_generations(&engine)?.active;
        Ok(Self(engine, AtomicU64::new(active)))
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        // Acquire: see `Machine::step`.
        engine_key(self.1.load(Ordering::Acquire), key)
    }

    /// The records of all generations at a moment: keys as the engine has them, values with their seqno in front.
    pub(crate) fn raw_scan(&self, point: &ReadPoint) -> Result<kallisto_lsm::Scan, Error> {
        Ok(self.0.scan_at(point, (Bound::Included(&[RECORD][..]), Bound::Unbounded))?)
    }

    fn seqno(&self, key: &[u8]) -> Result<Seqno, Error> {
        if key == GENERATION_KEY {
            return Ok(Seqno(self.1.load(Ordering::Acquire)));
        }
        match self.0.get(&self.key(key))? {
            Some(value) => Ok(split(&value)?.0),
            None => Ok(Seqno::ABSENT),
        }
    }
}

impl Records for EngineRecords {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        let Some(value) = self.0.get(&self.key(key))? else { return Ok(None) };
        let (seqno, value) = split(&value)?;
        Ok(Some(Record { value: Bytes::copy_from_slice(value), seqno }))
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        let own = self.key(&[]);
        let from = [&own[..], prefix].concat();
        let range = (Bound::Included(&from[..]), Bound::Unbounded);
        // Who asks for everything asks once, and leaves the cache to those who come again.
        let all = prefix.is_empty();
        let mut scan = if all { self.0.scan_once(range)? } else { self.0.scan(range)? };
        while let Some((key, value)) = scan.next_entry()? {
            if !key.starts_with(&from) {
                break;
            }
            let (seqno, value) = split(value)?;
            let record = Record { value: Bytes::copy_from_slice(value), seqno };
            if visit(&key[own.len()..], &record) == Visit::Stop {
                break;
            }
        }
        Ok(())
    }

    fn approximate_len(&self) -> u64 {
        let stats = self.0.stats();
        let in_files: u64 =
            stats.levels.iter().map(|level| level.entries.saturating_sub(2 * level.deletes)).sum();
        // The memtable counts bytes only; its entries are taken to be as long as the others are.
        let file_bytes: u64 = stats.levels.iter().map(|level| level.bytes).sum();
        let entry_bytes = file_bytes.checked_div(in_files).unwrap_or(ENTRY_BYTES_GUESS);
        in_files + stats.memtable_bytes as u64 / entry_bytes.max(ENTRY_BYTES_GUESS)
    }
}

/// What a record takes, where nothing better is known.
const ENTRY_BYTES_GUESS: u64 = 256;
