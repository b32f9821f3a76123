//! An embedded, crash-safe, synchronous key-value engine: a log-structured merge tree that loses nothing.
//!
//! Byte keys up to 64 KiB, values up to 64 MiB, ordered scans, read points, checkpoints. One process at a time opens a
//! store; any number of threads use it.
//!
//! Modules, top to bottom: `engine` (the public API), `commit` (group commit), `wal`, `memtable`, `sst`, `levels` and
//! `manifest` (which files are live), `compaction`, `cursor` (ordered reading), `cache`, and `disk`, the only one that
//! knows a file system. Each says its invariants at its top; the bytes on the disk are described in `docs/format.md`.
#![forbid(unsafe_code)]

mod batch;
mod cache;
mod checksum;
pub mod clock;
mod commit;
mod common_prefix;
mod compaction;
mod cursor;
pub mod disk;
mod engine;
mod error;
mod hash;
#[doc(hidden)]
pub mod internals;
mod levels;
pub mod limits;
mod manifest;
mod memtable;
mod names;
mod numbers;
mod options;
mod sst;
mod sync;
mod value;
mod wal;

pub use wal::segment_log;

pub use batch::EntryBatch;
pub use commit::Sync;
pub use engine::{CheckReport, Engine, LevelStats, ReadPoint, Scan, Stats};
pub use error::{Error, Result, is_full};
pub use options::{Background, LogKeeping, Options, OuterLog, SyncMode};
pub use value::ValueBytes;
