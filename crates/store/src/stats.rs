//! Figures about a store, for operators: plain numbers, taken at one moment each.

use crate::{Durability, Position};

/// Figures about a store.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The position up to which everything is applied.
    pub position: Position,
    /// When commits are acknowledged.
    pub durability: Durability,
    /// About how many records there are.
    pub records: u64,
    /// Of the replicated log; `None` for a store without one.
    pub raft: Option<RaftStats>,
}

/// Figures about the replicated log and the engine under it.
#[derive(Clone, Debug)]
pub struct RaftStats {
    /// This server's id among its peers.
    pub node_id: u64,
    /// The leader's id; 0 while there is none.
    pub leader_id: u64,
    /// Raft's term.
    pub term: u64,
    /// The last entry of the log.
    pub last_index: u64,
    /// The last entry known to be committed.
    pub commit_index: u64,
    /// The last entry that was applied.
    pub applied_index: u64,
    /// The last entry that is in the engine's files; the log may forget it and all before it.
    pub flushed_index: u64,
    /// Commits that are acknowledged, or about to be, and not on the disk; 0 in strict mode.
    pub unsynced: u64,
    /// Batches waiting to be proposed.
    pub waiting: usize,
    /// Bytes of the log's segments in use.
    pub log_bytes: u64,
    /// Syncs of the log since the store was opened.
    pub log_syncs: u64,
    /// Entries appended to the log since the store was opened.
    pub log_entries: u64,
    /// The engine's own.
    pub engine: EngineStats,
}

pub use kallisto_lsm::{LevelStats as EngineLevelStats, Stats as EngineStats};
