//! Inserts and removals that become visible and durable together.

use std::fmt;

use zeroize::Zeroizing;

use crate::error::Result;
use crate::record;

/// Operations that are applied as one, in order; the last one on a name wins. Values in it are wiped when it is dropped.
#[derive(Default)]
pub struct WriteBatch {
    pub(crate) ops: Vec<DbOp>,
}

/// One operation.
pub(crate) struct DbOp {
    pub(crate) name: Box<str>,
    /// The plaintext of the record; `None` removes it.
    pub(crate) plain: Option<Zeroizing<Vec<u8>>>,
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a name to a value.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the value is too long. Whether the name can be one is said when the batch is written.
    pub fn insert(&mut self, name: &str, value: &[u8]) -> Result<()> {
        let plain = record::assemble(name, value)?;
        self.ops.push(DbOp { name: name.into(), plain: Some(plain) });
        Ok(())
    }

    /// Removes a name, whether it is there or not.
    pub fn remove(&mut self, name: &str) {
        self.ops.push(DbOp { name: name.into(), plain: None });
    }

    /// How many operations it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Empties the batch.
    pub fn clear(&mut self) {
        self.ops.clear();
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch").field("len", &self.len()).finish_non_exhaustive()
    }
}
