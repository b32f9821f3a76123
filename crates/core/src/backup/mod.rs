//! Backups of everything: `sys/storage/raft/snapshot`.
//!
//! What is in the file, and how it is read, is in `kallisto_backup`.
//!
//! [`save()`] streams; it reads one moment of this server's own state, which holds everything committed before the request.
//! [`restore`] streams too: records are staged beside those in use, on every member, and take their place by one entry of
//! the log once everything was verified. Nothing has changed before, and a crash leaves the old or the new. The shares that
//! unseal the cluster stay the ones that count now, unless the restore is by force.
//! [`loaded`] reads a file next to the running state, for single secrets to be read and recovered from it.

pub(crate) mod loaded;
mod restore;
mod save;
pub(crate) mod schedule;
mod seal_records;

pub(crate) use restore::{Check, begin, begin_check};
pub(crate) use save::save;
