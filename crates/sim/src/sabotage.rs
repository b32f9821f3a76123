//! Ways to break the cluster on purpose, each at a seam of the simulation: the proof that the invariants can fail.
//!
//! A run with one of these must be caught; one that is not shows an invariant that looks and does not see.

use std::fmt;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// No sync reaches the disk.
    LostSyncs,
    /// No sync of a little reaches the disk: terms and votes are forgotten, entries are not.
    LostVotes,
    /// Followers are told that what they are sent is committed.
    EarlyCommit,
    /// A refused vote arrives as a granted one.
    VoteTwice,
    /// A byte of an entry arrives as another.
    FlippedByte,
    /// A client takes a timeout for a yes.
    EarlyAck,
    /// A client reads the latest from any server without asking a majority.
    StaleReads,
    /// A client reads from any server, however far behind what it has seen.
    NoIndex,
    /// The network stays cut when everything should come together again.
    NeverHealed,
    /// What a batch expects is not looked at.
    NoExpectations,
    /// What a batch takes away stays.
    NoDeletes,
    /// An intake takes a token for the one made before it when it is asked what lies in a cubbyhole.
    MixedTokens,
    /// A core answers from its view however old that is.
    NoLease,
    /// Every other server's core is told a time long past when it is read.
    SlowClock,
    /// The database looks at nobody's epoch when it commits.
    UnfencedCommits,
    /// A commit that was cut off is told as one that failed.
    UnknownAsFailed,
    /// A standby that lags answers for the database who asks what is new.
    LaggingStandby,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::LostSyncs,
        Self::LostVotes,
        Self::EarlyCommit,
        Self::VoteTwice,
        Self::FlippedByte,
        Self::EarlyAck,
        Self::StaleReads,
        Self::NoIndex,
        Self::NeverHealed,
        Self::NoExpectations,
        Self::NoDeletes,
        Self::MixedTokens,
        Self::NoLease,
        Self::SlowClock,
        Self::UnfencedCommits,
        Self::UnknownAsFailed,
        Self::LaggingStandby,
    ];

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sabotage| sabotage.name() == name)
    }

    /// What it is called on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LostSyncs => "lost-syncs",
            Self::LostVotes => "lost-votes",
            Self::EarlyCommit => "early-commit",
            Self::VoteTwice => "vote-twice",
            Self::FlippedByte => "flipped-byte",
            Self::EarlyAck => "early-ack",
            Self::StaleReads => "stale-reads",
            Self::NoIndex => "no-index",
            Self::NeverHealed => "never-healed",
            Self::NoExpectations => "no-expectations",
            Self::NoDeletes => "no-deletes",
            Self::MixedTokens => "mixed-tokens",
            Self::NoLease => "no-lease",
            Self::SlowClock => "slow-clock",
            Self::UnfencedCommits => "unfenced-commits",
            Self::UnknownAsFailed => "unknown-as-failed",
            Self::LaggingStandby => "lagging-standby",
        }
    }
}

impl fmt::Display for Sabotage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
