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
