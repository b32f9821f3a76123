//! The records in an engine: how their keys and values are laid out, and reading those of the generation in use.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kallisto_lsm::{Engine, ReadPoint};

use super::meta::{GENERATIONS_KEY, stored_generations};
use crate::batch::{Record, Seqno};
use crate::raft::restore::Generations;
use crate::{Error, GENERATION_KEY, RecordVisitor, Records, Visit, start_of_scan};

/// First byte of the keys of records of generation 0.
pub(super) const RECORD: u8 = 0x01;
/// First byte of the keys of all other records.
pub(super) const RESTORED: u8 = 0x02;
/// Bytes of a seqno before a record's value.
pub(super) const SEQNO_BYTES: usize = 8;

/// Records in an engine, of the generation in use.
#[derive(Debug)]
pub(crate) struct EngineRecords(pub(crate) Engine, pub(super) AtomicU64);

/// The engine's key of a record of a generation.
pub(super) fn put_engine_key(out: &mut Vec<u8>, generation: u64, key: &[u8]) {
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

pub(super) fn engine_key(generation: u64, key: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(key.len() + ENGINE_KEY_OVERHEAD);
    put_engine_key(&mut whole, generation, key);
    whole
}

/// Whose record an engine's key is.
pub(super) fn generation_of(engine_key: &[u8]) -> u64 {
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

pub(super) fn split(value: &[u8]) -> Result<(Seqno, &[u8]), Error> {
    let (seqno, value) = value
        .split_first_chunk::<SEQNO_BYTES>()
        .ok_or_else(|| Error::Damaged("a record without its seqno".into()))?;
    Ok((Seqno(u64::from_le_bytes(*seqno)), value))
}

impl EngineRecords {
    pub(super) fn of(engine: Engine) -> Result<Self, Error> {
        let active = stored_generations(&engine)?.active;
        Ok(Self(engine, AtomicU64::new(active)))
    }

    pub(super) fn key(&self, key: &[u8]) -> Vec<u8> {
        // Acquire: see `Machine::step`.
        engine_key(self.1.load(Ordering::Acquire), key)
    }

    /// The records of all generations at a moment: keys as the engine has them, values with their seqno in front.
    pub(crate) fn raw_scan(&self, point: &ReadPoint) -> Result<kallisto_lsm::Scan, Error> {
        Ok(self.0.scan_at(point, (Bound::Included(&[RECORD][..]), Bound::Unbounded))?)
    }

    /// As [`Self::raw_scan`], behind a key of it.
    pub(crate) fn raw_scan_behind(
        &self,
        point: &ReadPoint,
        key: &[u8],
    ) -> Result<kallisto_lsm::Scan, Error> {
        if key < &[RECORD][..] {
            return self.raw_scan(point);
        }
        Ok(self.0.scan_at(point, (Bound::Excluded(key), Bound::Unbounded))?)
    }

    /// The place of a record; `engine_key` is room for its key.
    pub(super) fn seqno(&self, key: &[u8], engine_key: &mut Vec<u8>) -> Result<Seqno, Error> {
        // Acquire: see `Machine::step`.
        let generation = self.1.load(Ordering::Acquire);
        if key == GENERATION_KEY {
            return Ok(Seqno(generation));
        }
        put_engine_key(engine_key, generation, key);
        match self.0.get_start(engine_key, SEQNO_BYTES)? {
            Some(value) => Ok(split(&value)?.0),
            None => Ok(Seqno::ABSENT),
        }
    }
}

impl Records for EngineRecords {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        let Some(value) = self.0.get(&self.key(key))? else { return Ok(None) };
        let (seqno, _) = split(&value)?;
        // What was read is a copy already.
        let value = Bytes::from(value.into_vec()).slice(SEQNO_BYTES..);
        Ok(Some(Record { value, seqno }))
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.scan_borrowed(prefix, None, &mut |key, seqno, value| {
            visit(key, &Record { value: Bytes::copy_from_slice(value), seqno })
        })
    }

    fn scan_borrowed(
        &self,
        prefix: &[u8],
        behind: Option<&[u8]>,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        let own = self.key(&[]);
        let from = [&own[..], prefix].concat();
        let start = start_of_scan(prefix, behind).map(|key| [&own[..], key].concat());
        let range = (start.as_ref().map(|key| &key[..]), Bound::Unbounded);
        // Who asks for everything asks once, and leaves the cache to those who come again.
        let all = prefix.is_empty() && behind.is_none();
        let mut scan = if all { self.0.scan_once(range)? } else { self.0.scan(range)? };
        while let Some((key, value)) = scan.next_entry()? {
            if !key.starts_with(&from) {
                break;
            }
            let (seqno, value) = split(value)?;
            if visit(&key[own.len()..], seqno, value) == Visit::Stop {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_generation_in_use_are_told_from_those_that_are_staged_and_those_that_go() {
        for (active, staged, generation, is_active, goes_along) in [
            (0, 0, 0, true, true),
            (0, 0, 5, false, false),
            (0, 5, 0, true, true),
            (0, 5, 5, false, true),
            (0, 5, 6, false, false),
            (5, 0, 0, false, false),
            (5, 0, 5, true, true),
            (5, 6, 0, false, false),
            (5, 6, 5, true, true),
            (5, 6, 6, false, true),
            (5, 6, 7, false, false),
        ] {
            let generations = Generations { active, staged, records: 0 };
            let key = engine_key(generation, b"k");
            assert_eq!(generation_of(&key), generation);
            let shown = (active_key(&key, &generations), travels(&key, &generations));
            let expected = (is_active.then_some(&b"k"[..]), goes_along);
            assert_eq!(shown, expected, "{generation} beside {active} and {staged}");
            assert!(travels(&GENERATIONS_KEY, &generations));
            assert_eq!(active_key(&GENERATIONS_KEY, &generations), None, "it is no record");
        }
    }
}
