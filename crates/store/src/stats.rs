//! Figures about a store, for operators: plain numbers, taken at one moment each.

use std::time::Duration;

use crate::{Durability, Position};

/// Upper ends of the buckets of [`CommitStats`], in microseconds; the last bucket has none.
pub const COMMIT_BUCKET_ENDS_US: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// How long commits took on this server as the leader, from the log to the majority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitStats {
    /// Batches that were put into the log.
    pub batches: u64,
    /// Groups of them that were committed, by how long that took.
    pub buckets: [u64; COMMIT_BUCKET_ENDS_US.len() + 1],
    /// What they add up to.
    pub sum: Duration,
}

impl CommitStats {
    /// Counts a group that was committed.
    pub fn record(&mut self, took: Duration) {
        let bucket =
            COMMIT_BUCKET_ENDS_US.partition_point(|end| Duration::from_micros(*end) < took);
        self.buckets[bucket] += 1;
        self.sum = self.sum.saturating_add(took);
    }
}

/// Figures about a store.
#[derive(Clone, Debug)]
pub struct StoreStats {
    /// The position up to which everything is applied.
    pub position: Position,
    /// When commits are acknowledged.
    pub durability: Durability,
    /// About how many records there are.
    pub records: u64,
    /// Of the replicated log; `None` for a store without one.
    pub raft: Option<RaftStats>,
    /// Of the database; `None` for a store without one.
    pub database: Option<DatabaseStats>,
}

impl StoreStats {
    /// How long commits took; `None` for a store that has nothing to wait for.
    #[must_use]
    pub fn commits(&self) -> Option<&CommitStats> {
        let of_raft = self.raft.as_ref().map(|raft| &raft.commits);
        of_raft.or_else(|| self.database.as_ref().map(|database| &database.commits))
    }
}

/// Figures about a database that keeps the records.
#[derive(Clone, Debug)]
pub struct DatabaseStats {
    /// How often the right to write was taken, by any server.
    pub epoch: u64,
    /// Whether this server writes.
    pub leads: bool,
    /// Whether there is a connection.
    pub is_connected: bool,
    /// Batches waiting to be sent.
    pub waiting: usize,
    /// Batches that the database had and this server had not, when it last asked.
    pub behind: u64,
    /// Connections that ended, or on which an answer did not come in time.
    pub connections_lost: u64,
    /// How often all records were read, the first time among them.
    pub loads: u64,
    /// Statements that the database refused.
    pub refused: u64,
    /// How long commits took.
    pub commits: CommitStats,
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
    /// That entry's term. Of two logs the one that ends with the later term has what was acknowledged; of one term, the longer.
    pub last_term: u64,
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
    /// How long commits took.
    pub commits: CommitStats,
    /// The engine's own.
    pub engine: EngineStats,
}

pub use kallisto_lsm::{LevelStats as EngineLevelStats, Stats as EngineStats};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_counted_in_the_first_bucket_that_it_does_not_exceed() {
        let mut stats = CommitStats::default();
        for (took, bucket) in [
            (Duration::ZERO, 0),
            (Duration::from_micros(10), 0),
            (Duration::from_nanos(10_001), 1),
            (Duration::from_secs(10), COMMIT_BUCKET_ENDS_US.len() - 1),
            (Duration::from_secs(11), COMMIT_BUCKET_ENDS_US.len()),
        ] {
            let before = stats;
            stats.record(took);
            assert_eq!(stats.buckets[bucket], before.buckets[bucket] + 1, "{took:?}");
            assert_eq!(stats.buckets.iter().sum::<u64>(), before.buckets.iter().sum::<u64>() + 1);
            assert_eq!(stats.sum, before.sum + took);
        }
        stats.record(Duration::MAX);
        assert_eq!(stats.sum, Duration::MAX, "it goes no further");
    }

    #[test]
    fn commits_are_those_of_the_log_or_else_of_the_database() {
        let mut stats = StoreStats {
            position: Position(1),
            durability: Durability::Strict,
            records: 0,
            raft: None,
            database: None,
        };
        assert_eq!(stats.commits(), None);
        let commits = CommitStats { batches: 3, ..CommitStats::default() };
        stats.database = Some(DatabaseStats {
            epoch: 1,
            leads: true,
            is_connected: true,
            waiting: 0,
            behind: 0,
            connections_lost: 0,
            loads: 1,
            refused: 0,
            commits,
        });
        assert_eq!(stats.commits(), Some(&commits));
    }
}
