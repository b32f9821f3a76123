//! What a Raft store is opened with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kallisto_lsm::clock::{Clock, RealClock};

use super::limits::{BLOCK_CACHE_BYTES, CONFIRM_EVERY, MEMTABLE_BYTES};
use super::log::Losses;
use crate::{Durability, Error, NoPeers, Peer, Transport};

/// Called once, from a thread of the store, when a failure has ended it: the server should exit
/// with an error.
#[derive(Clone, Default)]
pub struct OnFatal(Option<Arc<Hook>>);

type Hook = dyn Fn(&Error) + Send + Sync;

impl OnFatal {
    /// Calls `hook`.
    pub fn new(hook: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Tells whoever waits for it.
    pub fn call(&self, error: &Error) {
        if let Some(hook) = &self.0 {
            hook(error);
        }
    }
}

impl fmt::Debug for OnFatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnFatal")
    }
}

/// How a Raft store behaves. Start from [`RaftOptions::default`].
#[derive(Clone, Debug)]
pub struct RaftOptions {
    /// This server among its peers, in a new directory; not 0. A directory remembers whose it is.
    pub node_id: u64,
    /// What peers are told of this server: its name and addresses. The id is the directory's.
    pub peer: Peer,
    /// How peers are reached.
    pub transport: Arc<dyn Transport>,
    /// When commits are acknowledged.
    pub durability: Durability,
    /// The engine's options; who keeps unflushed commits is the store's business.
    pub engine: kallisto_lsm::Options,
    /// Size of a segment of the log, in bytes.
    pub log_segment_bytes: u64,
    /// Raft's unit of time. An election timeout is 15 to 30 of them, a heartbeat 3.
    pub tick: Duration,
    /// How often a server that has peers asks whether its state holds everything: see [`crate::Replicated::as_of`].
    pub confirm_every: Duration,
    /// Seeds election timeouts and, in a new directory, the store's id: draw it from the operating
    /// system's randomness.
    pub seed: u64,
    /// Whether threads of the store do the work: one drives Raft and the log, one applies, one keeps the log's segments.
    /// Without, the caller does what it made necessary, for tests that must be repeatable; give the engine
    /// [`kallisto_lsm::Background::Inline`] as well.
    pub has_threads: bool,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Whether this server is to be the only member from now on: its cluster lost its majority for good.
    pub only_member: bool,
    /// What to do with a log that lost what was synced.
    pub losses: Losses,
    /// What to do when a failure ends the store.
    pub on_fatal: OnFatal,
}

impl Default for RaftOptions {
    fn default() -> Self {
        Self {
            node_id: 1,
            peer: Peer::default(),
            transport: Arc::new(NoPeers),
            durability: Durability::Strict,
            engine: kallisto_lsm::Options {
                memtable_bytes: MEMTABLE_BYTES,
                cache_bytes: BLOCK_CACHE_BYTES,
                ..kallisto_lsm::Options::default()
            },
            log_segment_bytes: 16 << 20,
            tick: Duration::from_millis(10),
            confirm_every: CONFIRM_EVERY,
            seed: 0,
            has_threads: true,
            clock: Arc::new(RealClock::new()),
            only_member: false,
            losses: Losses::Refused,
            on_fatal: OnFatal::default(),
        }
    }
}
