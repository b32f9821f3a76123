//! An embedded key-value engine: a log-structured merge tree that survives crashes and has a synchronous API.
//!
//! Keys have up to 64 KiB, values up to 64 MiB. It has ordered scans, reads of a fixed point in time, and checkpoints.
//! One process at a time opens a store, and any number of its threads use it.
//!
//! Modules, top to bottom: `engine` (the public API), `commit` (group commit), `wal` (the write-ahead log), `memtable`,
//! `sst` (sorted files), `levels` and `manifest` (which files are current), `compaction`, `cursor` (ordered reads),
//! `cache`, and `disk`, the only module that uses the file system. The header of each lists its invariants;
//! `docs/format.md` describes the bytes on disk.
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
