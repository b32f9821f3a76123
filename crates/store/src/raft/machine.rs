//! The state machine: committed batches become records of the engine.
//!
//! Applying is a pure function of the entry and of what was applied before, the same on every node and at every replay:
//! judge the expectations, write, and only then call it applied. The engine keeps a record as its seqno (u64,
//! little-endian) and its bytes. Keys of the engine begin with a byte that tells records from what the machine keeps
//! about itself, so no record's key can reach the latter.
//!
//! A batch whose expectation fails is an entry like any other: it takes its index and changes nothing. So positions have
//! gaps, and nobody may count on the next one.
//!
//! Invariants:
//! - one thread applies at a time, in index order, each entry once while it runs; after a restart entries above the
//!   engine's flushed position are applied again to the state of that position, with the same outcome;
//! - the fold is called under the lock that orders it with [`Machine::attach`].

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use kallisto_lsm::{Engine, Sync};
use raft::eraftpb::ConfState;

use super::lock;
use super::log::record::put_membership;
use super::node::Committed;
use crate::batch::{Batch, Op, Position, Record, Seqno};
use crate::codec::decode_batch;
use crate::{Error, Fold, Records, Visit};

/// First byte of the keys of what the machine keeps about itself.
const META: u8 = 0x00;
/// First byte of the keys of records.
const RECORD: u8 = 0x01;
/// Which store this is: 16 bytes.
const STORE_ID_KEY: [u8; 2] = [META, 0x01];
/// The members at the flushed position, encoded as in the log.
const MEMBERSHIP_KEY: [u8; 2] = [META, 0x02];
/// Bytes of a seqno before a record's value.
const SEQNO_BYTES: usize = 8;

/// Records in an engine.
#[derive(Debug)]
pub(crate) struct EngineRecords(pub(crate) Engine);

/// Applies what is committed.
pub(crate) struct Machine {
    records: EngineRecords,
    order: Mutex<Order>,
    /// Threads that wait for `order` and are not the applier.
    knocking: AtomicUsize,
    applied: AtomicU64,
}

struct Order {
    fold: Option<Arc<dyn Fold>>,
    /// Kept to be filled again.
    batch: kallisto_lsm::Batch,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Machine {
    /// The machine over `engine`, whose files hold everything up to `applied`. A new one is told which store it belongs
    /// to; one that belongs to another is refused.
    pub(crate) fn open(
        engine: Engine,
        store_id: [u8; 16],
        membership: &ConfState,
        applied: u64,
    ) -> Result<Self, Error> {
        match engine.get(&STORE_ID_KEY)? {
            Some(known) if *known == store_id => {}
            Some(_) => return Err(Error::Damaged("raft log and engine of two stores".into())),
            None if engine.flushed_position() > 0 => {
                return Err(Error::Damaged("the engine does not say whose it is".into()));
            }
            None => {
                let mut batch = kallisto_lsm::Batch::new();
                let mut members = Vec::new();
                put_membership(&mut members, membership);
                batch.put(&STORE_ID_KEY, &store_id)?;
                batch.put(&MEMBERSHIP_KEY, &members)?;
                engine.write(&batch, Sync::Mode)?;
            }
        }
        let order = Order {
            fold: None,
            batch: kallisto_lsm::Batch::new(),
            key: Vec::new(),
            value: Vec::new(),
        };
        Ok(Self {
            records: EngineRecords(engine),
            order: Mutex::new(order),
            knocking: AtomicUsize::new(0),
            applied: AtomicU64::new(applied),
        })
    }

    /// Applies the next entry and folds it. An error other than [`Error::Conflict`] leaves it unapplied.
    pub(crate) fn apply(&self, entry: &Committed) -> Result<Position, Error> {
        self.give_way();
        let mut order = lock(&self.order);
        let position = Position(entry.index);
        assert_eq!(self.position().0 + 1, entry.index, "entries are applied in order");
        let batch = decode(entry)?;
        if let Some(batch) = &batch {
            match self.judge(batch) {
                Ok(()) => self.write(&mut order, entry.index, batch)?,
                Err(Error::Conflict) => {
                    self.note_applied(entry.index);
                    return Err(Error::Conflict);
                }
                Err(error) => return Err(error),
            }
        }
        self.note_applied(entry.index);
        if let (Some(batch), Some(fold)) = (&batch, &order.fold) {
            fold.fold(position, batch, &self.records);
        }
        Ok(position)
    }

    /// Loads a fold with the state as it is and feeds it from then on.
    pub(crate) fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        let mut order = self.knock();
        order.fold = None;
        let position = self.position();
        fold.load(position, &self.records)?;
        order.fold = Some(fold);
        Ok(position)
    }

    /// Feeds no fold any more.
    pub(crate) fn detach(&self) {
        self.knock().fold = None;
    }

    /// Up to where everything is applied.
    pub(crate) fn position(&self) -> Position {
        // Acquire: pairs with the release of what was applied.
        Position(self.applied.load(Ordering::Acquire))
    }

    /// The records.
    pub(crate) fn records(&self) -> &EngineRecords {
        &self.records
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.records.0
    }

    fn judge(&self, batch: &Batch) -> Result<(), Error> {
        for expectation in batch.expectations() {
            let found = self.records.seqno(&expectation.key)?;
            if found != expectation.seqno {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    fn write(&self, order: &mut Order, index: u64, batch: &Batch) -> Result<(), Error> {
        let Order { batch: out, key: engine_key, value: record, .. } = order;
        out.clear();
        for op in batch.ops() {
            let (Op::Put { key, .. } | Op::Delete { key, .. }) = op;
            engine_key.clear();
            engine_key.push(RECORD);
            engine_key.extend_from_slice(key);
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
        self.engine().write(out, Sync::Mode)?;
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

fn decode(entry: &Committed) -> Result<Option<Batch>, Error> {
    if entry.data.is_empty() {
        return Ok(None);
    }
    let damaged = || Error::Damaged(format!("raft log: entry {} is no batch", entry.index));
    decode_batch(&entry.data).map(Some).ok_or_else(damaged)
}

fn engine_key(key: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(key.len() + 1);
    whole.push(RECORD);
    whole.extend_from_slice(key);
    whole
}

fn split(value: &[u8]) -> Result<(Seqno, &[u8]), Error> {
    let (seqno, value) = value
        .split_first_chunk::<SEQNO_BYTES>()
        .ok_or_else(|| Error::Damaged("a record without its seqno".into()))?;
    Ok((Seqno(u64::from_le_bytes(*seqno)), value))
}

impl EngineRecords {
    fn seqno(&self, key: &[u8]) -> Result<Seqno, Error> {
        match self.0.get(&engine_key(key))? {
            Some(value) => Ok(split(&value)?.0),
            None => Ok(Seqno::ABSENT),
        }
    }
}

impl Records for EngineRecords {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        let Some(value) = self.0.get(&engine_key(key))? else { return Ok(None) };
        let (seqno, value) = split(&value)?;
        Ok(Some(Record { value: Bytes::copy_from_slice(value), seqno }))
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        let from = engine_key(prefix);
        let mut scan = self.0.scan((Bound::Included(&from[..]), Bound::Unbounded))?;
        while let Some((key, value)) = scan.next_entry()? {
            if !key.starts_with(&from) {
                break;
            }
            let (seqno, value) = split(value)?;
            let record = Record { value: Bytes::copy_from_slice(value), seqno };
            if visit(&key[1..], &record) == Visit::Stop {
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
