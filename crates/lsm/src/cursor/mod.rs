//! Ordered reading: one trait for every place that holds entries.
//!
//! Entries come by rising key, and for one key by falling sequence number. A cursor that failed stands nowhere and
//! must not be advanced.

mod merge;
mod run;

pub(crate) use merge::MergeCursor;
pub(crate) use run::RunCursor;

use crate::batch::EntryKind;
use crate::error::Result;

/// A place in a sorted run of entries.
pub(crate) trait Cursor: Send {
    /// Goes to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Goes to the first entry whose key is not below `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Goes to the next entry; only if it stands on one.
    fn next(&mut self) -> Result<()>;
    /// Whether it stands on an entry.
    fn valid(&self) -> bool;
    /// The entry's key.
    fn key(&self) -> &[u8];
    /// The entry's value; empty for a deletion.
    fn value(&self) -> &[u8];
    /// The entry's sequence number.
    fn seqno(&self) -> u64;
    /// What the entry says.
    fn kind(&self) -> EntryKind;
}
