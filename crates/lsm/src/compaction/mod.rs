//! Compaction: merging files downward so that reads look in few places and stale versions go.
//!
//! `pick.rs` decides, `run.rs` merges, `gc.rs` judges versions. The engine's background threads call them and install
//! the result with one manifest edit; until then the inputs stay live, so a compaction that fails or dies costs nothing
//! but the files it leaves, which the next open removes.

mod gc;
mod pick;
mod run;

pub(crate) use gc::VersionFilter;
pub(crate) use pick::{CompactionPlan, pick, pick_any};
pub(crate) use run::{CompactionOutput, merge};
