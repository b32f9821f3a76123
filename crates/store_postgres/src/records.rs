//! The records, in memory: envelopes under hashed names, as the database has them.
//!
//! Only the driver changes them. A scan takes them out by the chunk, so whoever looks at one may ask for another.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use kallisto_store::{
    Batch, Error, Position, Record, RecordVisitor, Records, Seqno, StoreOp, Visit, start_of_scan,
};

use crate::limits::SCAN_CHUNK;

/// All records, by key.
pub type RecordMap = BTreeMap<Box<[u8]>, Record>;
/// A record under its key.
pub type KeyedRecord = (Box<[u8]>, Record);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MemoryRecords(RwLock<RecordMap>);

impl MemoryRecords {
    fn read(&self) -> RwLockReadGuard<'_, RecordMap> {
        // A change is whole between any two statements, whoever panicked.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a batch.
    pub(crate) fn apply(&self, position: Position, batch: &Batch) {
        let mut records = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let seqno = Seqno(position.0);
        for op in batch.ops() {
            match op {
                StoreOp::Put { key, value } => {
                    let record = Record { value: value.clone(), seqno };
                    records.insert(key.as_slice().into(), record);
                }
                StoreOp::Delete { key, .. } => {
                    records.remove(key.as_slice());
                }
            }
        }
    }

    /// Takes these records in the place of all.
    pub(crate) fn replace(&self, all: RecordMap) {
        let old = {
            let mut records = self.0.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *records, all)
        };
        drop(old);
    }

    /// When a record was written.
    pub(crate) fn seqno(&self, key: &[u8]) -> Seqno {
        self.read().get(key).map_or(Seqno::ABSENT, |record| record.seqno)
    }

    /// All of them, as they are now.
    pub(crate) fn all(&self) -> Vec<KeyedRecord> {
        self.read().iter().map(|(key, record)| (key.clone(), record.clone())).collect()
    }

    fn chunk(&self, from: Bound<&[u8]>, prefix: &[u8]) -> Vec<KeyedRecord> {
        self.read()
            .range::<[u8], _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(SCAN_CHUNK)
            .map(|(key, record)| (key.clone(), record.clone()))
            .collect()
    }

    fn visit(
        &self,
        from: Bound<&[u8]>,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) {
        let mut chunk = self.chunk(from, prefix);
        loop {
            for (key, record) in &chunk {
                if visit(key, record) == Visit::Stop {
                    return;
                }
            }
            let Some((last, _)) = chunk.last().filter(|_| chunk.len() == SCAN_CHUNK) else {
                return;
            };
            chunk = self.chunk(Bound::Excluded(last), prefix);
        }
    }
}

impl Records for MemoryRecords {
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error> {
        Ok(self.read().get(key).cloned())
    }

    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error> {
        self.visit(Bound::Included(prefix), prefix, visit);
        Ok(())
    }

    fn scan_borrowed(
        &self,
        prefix: &[u8],
        behind: Option<&[u8]>,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<(), Error> {
        self.visit(start_of_scan(prefix, behind), prefix, &mut |key, record| {
            visit(key, record.seqno, &record.value)
        });
        Ok(())
    }

    fn approximate_len(&self) -> u64 {
        self.read().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_sees_every_record_of_its_prefix_and_may_ask_for_others() {
        let records = MemoryRecords::default();
        for number in 0..3 * SCAN_CHUNK as u64 {
            let mut batch = Batch::new();
            batch.put([&b"a"[..], &number.to_be_bytes()].concat(), b"v".to_vec());
            batch.put([&b"b"[..], &number.to_be_bytes()].concat(), b"v".to_vec());
            records.apply(Position(number + 1), &batch);
        }
        let mut seen = 0;
        records
            .scan(b"a", &mut |key, record| {
                assert_eq!(records.get(key).unwrap().as_ref(), Some(record));
                seen += 1;
                Visit::Continue
            })
            .unwrap();
        assert_eq!(seen, 3 * SCAN_CHUNK);
        let (mut seen, behind) = (0, [&b"a"[..], &9_u64.to_be_bytes()].concat());
        let mut see = |key: &[u8], _, _: &[u8]| {
            assert!(key > &behind[..]);
            seen += 1;
            Visit::Continue
        };
        records.scan_borrowed(b"a", Some(&behind), &mut see).unwrap();
        assert_eq!(seen, 3 * SCAN_CHUNK - 10);
    }
}
