//! The batch: what is committed as one.
//!
//! Keys are opaque bytes to the store; `core` lays them out (see `docs/format.md`). A batch carries
//! its preconditions with it, so that judging them is a pure function of the batch and the records,
//! the same on every node.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::{Error, Value};

/// Longest key of a record, in bytes: less than the engine's by what stands before that of a record that was restored.
pub const KEY_BYTES_MAX: usize = (64 << 10) - 9;
/// Longest value of a record, in bytes.
pub const VALUE_BYTES_MAX: usize = 32 << 20;
/// Longest note of a delete, in bytes.
pub const NOTE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of keys, values and notes in one batch.
pub const BATCH_BYTES_MAX: usize = 32 << 20;
/// Most operations in one batch.
pub const BATCH_OPS_MAX: usize = 64 << 10;

/// Where a committed batch stands in the order of all batches. Positions only rise; a store may leave gaps between them,
/// so the next one is nobody's to guess.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The position of the batch that last wrote a record; [`Seqno::ABSENT`] for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seqno(pub u64);

impl Seqno {
    /// The sequence number of a record that is not there.
    pub const ABSENT: Self = Self(0);
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its bytes.
    pub value: Value,
    /// When it was last written.
    pub seqno: Seqno,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// Store `value` under `key`.
    Put {
        /// Where.
        key: Vec<u8>,
        /// What.
        value: Value,
    },
    /// Remove `key`; removing an absent key is no error.
    Delete {
        /// Where.
        key: Vec<u8>,
        /// What the fold is told besides the key, which may say too little about what is gone. It
        /// is kept in the log only.
        note: Value,
    },
}

/// A precondition: `key` was last written at `seqno`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Whose record.
    pub key: Vec<u8>,
    /// Its sequence number, or [`Seqno::ABSENT`].
    pub seqno: Seqno,
}

/// Changes that commit together, if all expectations hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    ops: Vec<StoreOp>,
    expectations: Vec<Expectation>,
    need: Need,
    companion: Companion,
}

/// What whoever commits a batch knows of it, for the fold of the same server. It is not part of what is committed, so two batches that differ in it
/// alone are the same.
#[derive(Clone, Default)]
struct Companion(Option<Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for Companion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Companion")
    }
}

impl PartialEq for Companion {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Companion {}

/// What a batch may use of a disk that is nearly full. Known where the batch is committed, and not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Need {
    /// What is free.
    #[default]
    Usual,
    /// The reserve as well: it takes something away from somebody, a token or a secret, and is small.
    Essential,
}

impl Batch {
    /// A batch that changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the batch use the reserve of a disk that is nearly full: for what revokes and removes.
    pub fn set_essential(&mut self) -> &mut Self {
        self.set_need(Need::Essential)
    }

    /// Says what the batch may use of a disk that is nearly full.
    pub fn set_need(&mut self, need: Need) -> &mut Self {
        self.need = need;
        self
    }

    /// What it may use of a disk that is nearly full.
    pub fn need(&self) -> Need {
        self.need
    }

    /// Adds what the fold of this server may use instead of finding it out from the batch. Other servers, and this one after a restart, fold without it:
    /// it must say nothing but what the batch says.
    pub fn set_companion(&mut self, companion: Arc<dyn Any + Send + Sync>) -> &mut Self {
        self.companion = Companion(Some(companion));
        self
    }

    /// What came with the batch, if that is a `T`.
    pub fn companion<T: Any>(&self) -> Option<&T> {
        self.companion.0.as_ref()?.downcast_ref()
    }

    /// Adds a put.
    pub fn put(&mut self, key: Vec<u8>, value: impl Into<Value>) -> &mut Self {
        self.ops.push(StoreOp::Put { key, value: value.into() });
        self
    }

    /// Adds a delete.
    pub fn delete(&mut self, key: Vec<u8>) -> &mut Self {
        self.delete_noted(key, Value::new())
    }

    /// Adds a delete with a note to the fold.
    pub fn delete_noted(&mut self, key: Vec<u8>, note: impl Into<Value>) -> &mut Self {
        self.ops.push(StoreOp::Delete { key, note: note.into() });
        self
    }

    /// Adds a precondition.
    pub fn expect(&mut self, key: Vec<u8>, seqno: Seqno) -> &mut Self {
        self.expectations.push(Expectation { key, seqno });
        self
    }

    /// Takes over what another batch changes and expects, behind what is here. What may be used of a disk that is nearly full stays as it is.
    pub fn append(&mut self, other: Self) -> &mut Self {
        self.ops.extend(other.ops);
        self.expectations.extend(other.expectations);
        self
    }

    /// An empty batch with room.
    pub(crate) fn with_capacity(expectations: usize, ops: usize) -> Self {
        let (ops, expectations) = (Vec::with_capacity(ops), Vec::with_capacity(expectations));
        Self { ops, expectations, ..Self::default() }
    }

    /// Adds a change.
    pub(crate) fn push(&mut self, op: StoreOp) {
        self.ops.push(op);
    }

    /// Adds a precondition.
    pub(crate) fn push_expectation(&mut self, expectation: Expectation) {
        self.expectations.push(expectation);
    }

    /// The changes, in the order they were added.
    pub fn ops(&self) -> &[StoreOp] {
        &self.ops
    }

    /// The preconditions.
    pub fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }

    /// Forgets the preconditions, which were judged.
    pub fn clear_expectations(&mut self) {
        self.expectations.clear();
    }

    /// Refuses a batch over a limit.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn check_limits(&self) -> Result<(), Error> {
        if self.ops.len() > BATCH_OPS_MAX {
            return Err(Error::TooLarge("operations in a batch"));
        }
        if self.expectations.len() > BATCH_OPS_MAX {
            return Err(Error::TooLarge("preconditions of a batch"));
        }
        let mut bytes = 0_usize;
        for op in &self.ops {
            let (key, rest) = match op {
                StoreOp::Put { value, .. } if value.len() > VALUE_BYTES_MAX => {
                    return Err(Error::TooLarge("bytes of a value"));
                }
                StoreOp::Delete { note, .. } if note.len() > NOTE_BYTES_MAX => {
                    return Err(Error::TooLarge("bytes of a note"));
                }
                StoreOp::Put { key, value: rest } | StoreOp::Delete { key, note: rest } => {
                    (key, rest)
                }
            };
            check_key(key)?;
            bytes += key.len() + rest.len();
        }
        for expectation in &self.expectations {
            check_key(&expectation.key)?;
            bytes += expectation.key.len();
        }
        if bytes > BATCH_BYTES_MAX { Err(Error::TooLarge("bytes of a batch")) } else { Ok(()) }
    }
}

fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.len() > KEY_BYTES_MAX { Err(Error::TooLarge("bytes of a key")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of the batch is over its limit.
    fn over(change: impl FnOnce(&mut Batch)) -> Option<&'static str> {
        let mut batch = Batch::new();
        change(&mut batch);
        match batch.check_limits() {
            Ok(()) => None,
            Err(Error::TooLarge(what)) => Some(what),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn keys_values_and_notes_are_as_long_as_their_limits_let_them() {
        let key = |bytes| vec![1; bytes];
        for (bytes, what) in [(KEY_BYTES_MAX, None), (KEY_BYTES_MAX + 1, Some("bytes of a key"))] {
            assert_eq!(
                over(|batch| {
                    batch.put(key(bytes), vec![]);
                }),
                what
            );
            assert_eq!(
                over(|batch| {
                    batch.delete(key(bytes));
                }),
                what
            );
            assert_eq!(
                over(|batch| {
                    batch.expect(key(bytes), Seqno::ABSENT);
                }),
                what
            );
        }
        let value = |bytes| {
            over(|batch| {
                batch.put(key(0), vec![0; bytes]);
            })
        };
        assert_eq!(value(VALUE_BYTES_MAX), None);
        assert_eq!(value(VALUE_BYTES_MAX + 1), Some("bytes of a value"));
        let note = |bytes| {
            over(|batch| {
                batch.delete_noted(key(1), vec![0; bytes]);
            })
        };
        assert_eq!(note(NOTE_BYTES_MAX), None);
        assert_eq!(note(NOTE_BYTES_MAX + 1), Some("bytes of a note"));
    }

    #[test]
    fn a_batch_has_as_many_changes_and_preconditions_as_its_limit_lets_it() {
        for (count, is_over) in [(BATCH_OPS_MAX, false), (BATCH_OPS_MAX + 1, true)] {
            let changes = |batch: &mut Batch| {
                for _ in 0..count {
                    batch.delete(vec![1]);
                }
            };
            assert_eq!(over(changes), is_over.then_some("operations in a batch"));
            let conditions = |batch: &mut Batch| {
                for _ in 0..count {
                    batch.expect(vec![1], Seqno(1));
                }
            };
            assert_eq!(over(conditions), is_over.then_some("preconditions of a batch"));
        }
    }

    #[test]
    fn keys_values_and_preconditions_count_together() {
        let with = |bytes: usize| {
            over(|batch| {
                batch.expect(vec![1; 60], Seqno::ABSENT).expect(vec![2; 40], Seqno::ABSENT);
                batch.delete_noted(vec![1; 10], vec![0; 20]).put(vec![1; 10], vec![0; bytes]);
            })
        };
        assert_eq!(with(BATCH_BYTES_MAX - 140), None);
        assert_eq!(with(BATCH_BYTES_MAX - 139), Some("bytes of a batch"));
    }

    #[test]
    fn preconditions_that_were_judged_are_forgotten() {
        let mut batch = Batch::new();
        batch.expect(vec![1], Seqno(1)).put(vec![1], vec![2]);
        batch.clear_expectations();
        assert!(batch.expectations().is_empty() && batch.ops().len() == 1);
    }
}
