//! A batch: puts and deletes that become visible and durable together.
//!
//! It is kept in the form in which it is written to the WAL, so a commit copies bytes and encodes nothing:
//!
//! ```text
//! operation := kind u8 (1 put, 0 delete) | key length varint | [value length varint] | key | [value]
//! ```
//!
//! Operations apply in order; the last one on a key wins. [`Operations`] reads the form back and trusts nothing.

use kallisto_codec::{ByteReader, put_varint};

use crate::error::{Error, Result};
use crate::limits::{BATCH_BYTES_MAX, BATCH_OPS_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Whether an entry holds a value or says that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// The key was deleted.
    Delete,
    /// The key has a value.
    Put,
}

impl EntryKind {
    /// Its byte on the disk.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Delete => 0,
            Self::Put => 1,
        }
    }

    /// The kind behind a byte.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Delete),
            1 => Some(Self::Put),
            _ => None,
        }
    }
}

/// Puts and deletes that are applied as one.
#[derive(Clone, Debug, Default)]
pub struct EntryBatch {
    bytes: Vec<u8>,
    ops: usize,
    position: u64,
}

impl EntryBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key, the value or the batch grows too long; the batch stays as it was.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::Invalid("value is longer than 64 MiB"));
        }
        self.check_room(key, value.len())?;
        self.bytes.push(EntryKind::Put.code());
        put_varint(&mut self.bytes, key.len() as u64);
        put_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.ops += 1;
        Ok(())
    }

    /// Removes a key, whether it is there or not.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key or the batch grows too long; the batch stays as it was.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.check_room(key, 0)?;
        self.bytes.push(EntryKind::Delete.code());
        put_varint(&mut self.bytes, key.len() as u64);
        self.bytes.extend_from_slice(key);
        self.ops += 1;
        Ok(())
    }

    /// Says up to which place of an outer log (a Raft position, say) this batch reaches. The engine reports the highest
    /// place whose batches are all in SSTs as its flushed position.
    pub fn set_position(&mut self, position: u64) {
        self.position = position;
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops = 0;
        self.position = 0;
    }

    /// How many operations it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops == 0
    }

    /// How many bytes it takes in the WAL.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    fn check_room(&self, key: &[u8], value_len: usize) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::Invalid("key is longer than 64 KiB"));
        }
        const OVERHEAD_MAX: usize = 1 + 2 * kallisto_codec::VARINT_BYTES_MAX;
        if self.bytes.len() + OVERHEAD_MAX + key.len() + value_len > BATCH_BYTES_MAX {
            return Err(Error::Invalid("batch is longer than 96 MiB"));
        }
        if self.ops == BATCH_OPS_MAX {
            return Err(Error::Invalid("batch has more than 1,048,576 operations"));
        }
        Ok(())
    }
}

/// One operation of an encoded batch. A delete has an empty value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchOperation<'a> {
    /// What it does.
    pub(crate) kind: EntryKind,
    /// To which key.
    pub(crate) key: &'a [u8],
    /// With which value.
    pub(crate) value: &'a [u8],
}

/// Reads encoded operations; `Some(None)` is damage.
#[derive(Clone, Debug)]
pub(crate) struct Operations<'a> {
    reader: ByteReader<'a>,
}

impl<'a> Operations<'a> {
    /// The operations in `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { reader: ByteReader::new(bytes) }
    }

    fn decode(&mut self) -> Option<BatchOperation<'a>> {
        let kind = EntryKind::from_code(self.reader.u8()?)?;
        let key_len = self.reader.varint_len().filter(|&len| len <= KEY_BYTES_MAX)?;
        let value_len = match kind {
            EntryKind::Put => self.reader.varint_len().filter(|&len| len <= VALUE_BYTES_MAX)?,
            EntryKind::Delete => 0,
        };
        let key = self.reader.take(key_len)?;
        let value = self.reader.take(value_len)?;
        Some(BatchOperation { kind, key, value })
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Option<BatchOperation<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() { None } else { Some(self.decode()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_back_in_order() {
        let mut batch = EntryBatch::new();
        batch.put(b"a", b"1").unwrap();
        batch.delete(b"b").unwrap();
        batch.put(b"", &[7; 300]).unwrap();
        let read: Vec<_> = Operations::new(batch.bytes()).map(Option::unwrap).collect();
        assert_eq!(read.len(), batch.len());
        assert_eq!(read[0], BatchOperation { kind: EntryKind::Put, key: b"a", value: b"1" });
        assert_eq!(read[1], BatchOperation { kind: EntryKind::Delete, key: b"b", value: b"" });
        assert_eq!(read[2], BatchOperation { kind: EntryKind::Put, key: b"", value: &[7; 300] });
    }

    #[test]
    fn too_long_is_refused_and_changes_nothing() {
        let mut batch = EntryBatch::new();
        assert!(batch.put(&[0; KEY_BYTES_MAX + 1], b"").is_err());
        assert!(batch.delete(&[0; KEY_BYTES_MAX + 1]).is_err());
        assert!(batch.put(b"k", &vec![0; VALUE_BYTES_MAX + 1]).is_err());
        assert!(batch.is_empty() && batch.encoded_bytes() == 0);
        batch.put(&[0; KEY_BYTES_MAX], &vec![0; VALUE_BYTES_MAX]).unwrap();
        assert!(batch.put(b"k", &vec![0; VALUE_BYTES_MAX]).is_err());
        assert_eq!((batch.len(), batch.is_empty()), (1, false));
        let read: Vec<_> = Operations::new(batch.bytes()).map(Option::unwrap).collect();
        assert_eq!((read[0].key.len(), read[0].value.len()), (KEY_BYTES_MAX, VALUE_BYTES_MAX));
    }

    #[test]
    fn a_batch_is_filled_to_its_last_byte_and_no_further() {
        let key = [b'k'; 1000];
        let overhead = 1 + 2 * kallisto_codec::VARINT_BYTES_MAX;
        let mut batch = EntryBatch::new();
        batch.put(b"", &vec![0; VALUE_BYTES_MAX]).unwrap();
        let left = BATCH_BYTES_MAX - batch.encoded_bytes() - overhead - key.len();
        assert!(batch.put(&key, &vec![0; left + 1]).is_err());
        batch.put(&key, &vec![0; left]).unwrap();
        assert_eq!(batch.len(), 2);
    }

    #[test]
    fn a_cleared_batch_is_as_a_new_one() {
        let mut batch = EntryBatch::new();
        batch.set_position(7);
        batch.put(b"key", b"value").unwrap();
        assert_eq!((batch.len(), batch.encoded_bytes(), batch.position()), (1, 11, 7));
        batch.clear();
        assert_eq!((batch.len(), batch.encoded_bytes(), batch.position()), (0, 0, 0));
    }

    #[test]
    fn cut_bytes_are_damage() {
        let mut batch = EntryBatch::new();
        batch.put(b"key", b"value").unwrap();
        for len in 1..batch.bytes().len() {
            assert_eq!(Operations::new(&batch.bytes()[..len]).next(), Some(None));
        }
    }
}
