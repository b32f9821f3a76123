//! What clients did and saw, and whether one order of it all explains it.
//!
//! A history is a list of [`ClientOperation`]s on registers with a version (KV v2's secrets, or plain keys if no version is ever
//! told). It is *linearizable* (Herlihy and Wing, 1990) if each operation can be given one moment between its call and its
//! return such that, taken in the order of these moments, everything was answered as one register would have answered it.
//!
//! In a file a history is lines of JSON, in any order ([`read`], [`ClientOperation::to_line`]):
//!
//! ```text
//! {"client":1,"op":"write","key":"a","value":"x","call":10,"return":17,"outcome":"ok","version":1}
//! {"client":2,"op":"read","key":"a","call":12,"return":20,"outcome":"ok","value":"x","version":1}
//! {"client":2,"op":"cas","key":"a","expect_version":7,"value":"y","call":21,"return":30,"outcome":"refused"}
//! {"client":1,"op":"delete","key":"a","call":22,"outcome":"unknown"}
//! ```
//!
//! `op` is `read`, `write`, `cas` or `delete`. A `cas` has `expect_version` (0: the key was never written) or `expect` (the value it
//! replaces; null: there is none). Times are whole numbers of one clock that all clients share. `outcome` is `ok`, `refused` (a `cas` whose
//! expectation did not hold), `failed` (nothing came of it) or `unknown` (a timeout: it happened at some time after its call, or never). A read
//! that is `ok` says what it found in `value`, null for nothing; `version` is told where it is known. A delete leaves the version as it is.

mod check;
mod lines;
mod model;
mod places;
mod search;
mod timeline;
mod verdict;

pub use check::check;
pub use lines::{LINE_BYTES_MAX, LineError, OPERATIONS_MAX, read};
pub use search::STATES_MAX;
pub use verdict::{Breach, HistoryFigures, HistoryVerdict};

/// One operation of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOperation {
    /// Who did it. One client may have several under way.
    pub client: u64,
    /// On what.
    pub key: String,
    /// What was asked.
    pub action: Action,
    /// When it was asked.
    pub call: u64,
    /// How it ended.
    pub end: OperationEnd,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// What is there?
    Read,
    /// This is there from now on.
    Write(String),
    /// The same, if what is there is as expected.
    Swap(Expect, String),
    /// Nothing is there from now on.
    Delete,
}

/// What a swap expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// This value, or none.
    Value(Option<String>),
    /// The value of this version; 0 if there never was one.
    Version(u64),
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationEnd {
    /// It was done.
    Done {
        /// When the client heard of it.
        at: u64,
        /// What a read found; `None` for anything else.
        found: Option<String>,
        /// The version that was found or made, where it was told.
        version: Option<u64>,
    },
    /// A swap whose expectation did not hold.
    Refused {
        /// When the client heard of it.
        at: u64,
    },
    /// Nothing came of it, and nothing will.
    Failed,
    /// Nobody knows: it happened after its call, or happens later, or never.
    Unknown,
}
