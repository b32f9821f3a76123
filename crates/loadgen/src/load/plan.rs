//! What a run does, checked.

use std::num::NonZeroU32;
use std::time::Duration;

use super::keys::Draw;

/// A request that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadKind {
    Read,
    Write,
}

/// Where the next request comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LoadPace {
    /// A connection asks again when it was answered (closed loop).
    Closed,
    /// So many a second, answered or not (open loop).
    Open { per_second: f64 },
    /// Each key once, as fast as it goes: the data of later runs.
    EachOnce,
}

/// A run of `bench http`, `resp` or `mixed`.
#[derive(Clone, Debug)]
pub(super) struct LoadPlan {
    pub(super) pace: LoadPace,
    /// Whether each request has a connection of its own.
    pub(super) reconnects: bool,
    pub(super) threads: u32,
    /// Connections of all threads together.
    pub(super) connections: NonZeroU32,
    /// Requests on their way on one connection.
    pub(super) depth: u32,
    pub(super) keys: u64,
    pub(super) draw: Draw,
    /// Of a hundred requests, how many write.
    pub(super) write_percent: u8,
    /// Load that is not counted, before that which is.
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
    pub(super) seed: u64,
}
