//! Changes that will commit as one, under their limits.
//!
//! A write of one secret is one of these, and so is one of many: `kv::v2` and `kv::v1` say what a
//! write of a secret means for it, [`kv_batch`](crate::engines::kv_batch) puts several into one. The batch below judges what is
//! expected, so either all of it happens or nothing.

use kallisto_store::{Batch, Seqno, Value};

use crate::api::error::Error;
use crate::limits::{TOGETHER_BYTES_MAX, TOGETHER_RECORDS_MAX};

/// A batch in the making.
#[derive(Default)]
pub(crate) struct Staged {
    batch: Batch,
    bytes: usize,
}

impl Staged {
    /// Expects the record under `key` to be as it was at `seqno`.
    pub(crate) fn expect(&mut self, key: Vec<u8>, seqno: Seqno) {
        self.batch.expect(key, seqno);
    }

    /// Lets it use the reserve of a disk that is nearly full: it takes something away.
    pub(crate) fn set_essential(&mut self) {
        self.batch.set_essential();
    }

    /// Writes a record.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past the limits.
    pub(crate) fn put(&mut self, key: Vec<u8>, value: impl Into<Value>) -> Result<(), Error> {
        let value = value.into();
        self.bytes += key.len() + value.len();
        self.batch.put(key, value);
        self.check()
    }

    /// Removes a record.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past the limits.
    pub(crate) fn delete(&mut self, key: Vec<u8>) -> Result<(), Error> {
        self.bytes += key.len();
        self.batch.delete(key);
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        let records = self.batch.ops().len();
        if records > TOGETHER_RECORDS_MAX {
            return Err(Error::TooLarge(format!(
                "more than {TOGETHER_RECORDS_MAX} records would change at once; nothing was done"
            )));
        }
        if self.bytes > TOGETHER_BYTES_MAX {
            return Err(Error::TooLarge(format!(
                "more than {TOGETHER_BYTES_MAX} bytes would be written at once; nothing was done"
            )));
        }
        Ok(())
    }

    /// Nothing would change.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.ops().is_empty()
    }

    /// The batch to commit.
    pub(crate) fn into_batch(self) -> Batch {
        self.batch
    }
}

#[cfg(test)]
mod tests {
    use kallisto_store::{Error as StoreError, MemoryStore, Records, Store};

    use super::*;

    fn is_too_large(result: Result<(), Error>) -> bool {
        matches!(result, Err(Error::TooLarge(_)))
    }

    #[test]
    fn no_more_records_change_at_once_than_the_limit() {
        let mut staged = Staged::default();
        for at in 0..TOGETHER_RECORDS_MAX {
            let key = (at as u32).to_be_bytes().to_vec();
            let added = if at % 2 == 0 { staged.delete(key) } else { staged.put(key, vec![1]) };
            added.unwrap();
        }
        assert!(is_too_large(staged.delete(b"one more".to_vec())));
    }

    #[test]
    fn no_more_bytes_are_written_at_once_than_the_limit() {
        let staged = |value: usize| {
            let mut staged = Staged::default();
            staged.delete(b"abcd".to_vec()).unwrap();
            staged.put(b"efg".to_vec(), vec![0; value]).map(|()| staged)
        };
        let mut full = staged(TOGETHER_BYTES_MAX - 7).unwrap();
        assert!(is_too_large(full.delete(b"h".to_vec())));
        assert!(is_too_large(staged(TOGETHER_BYTES_MAX - 6).map(drop)));
    }

    #[test]
    fn nothing_is_committed_when_a_record_is_not_as_expected() {
        let store = MemoryStore::new();
        let commit = |seqno| {
            let mut staged = Staged::default();
            assert!(staged.is_empty());
            staged.expect(b"k".to_vec(), seqno);
            staged.put(b"k".to_vec(), vec![1]).unwrap();
            pollster::block_on(store.commit(staged.into_batch()))
        };
        assert!(commit(Seqno::ABSENT).is_ok());
        assert!(matches!(commit(Seqno::ABSENT), Err(StoreError::Conflict)));
        assert!(commit(store.get(b"k").unwrap().unwrap().seqno).is_ok());
    }
}
