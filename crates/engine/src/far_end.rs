//! Far ends: databases, directories and brokers at which engines make credentials.
//!
//! An engine does no I/O. It says what to ask of which far end, as a [`FarEndCall`], and waits for the answer; the server connects and asks,
//! on a thread that keeps neither requests nor jobs waiting.
//!
//! Invariants, which hold for whatever implements [`FarEnds`]:
//! - Each far end has its own bounded queue, its own sessions and its own circuit breaker: one that hangs delays nobody else.
//! - A call ends within [`FarEndCall::deadline_secs`], whatever the far end does; its answers are bounded.
//! - A connection goes to an address that [`may_reach`] admits, and that address is the one that was judged.
//! - A failure says in the far end's words what is wrong, and has no part of a secret that the call names.
//! - Work is begun at most once, unless the far end cannot have begun it.

mod directory;
mod failure;
mod target;
mod work;

pub use directory::{
    LdapAttribute, LdapChange, LdapDereference, LdapEntry, LdapOperation, LdapScope, LdapSearch,
    LdapValue, LdapWork, MissingEntry,
};
pub use failure::{FarEndFailure, without_secrets};
pub use target::{
    FarEnd, FarEndLogin, FarEndPool, FarEndProtocol, FarEndTls, FarEndTlsVersion, HttpLogin,
    PostgresStart, RootPassword, TlsUse, may_reach,
};
pub use work::{
    FarEndAnswer, FarEndOutcome, FarEndWork, HttpWork, HttpWorkAnswer, HttpWorkVerb, RedisCommand,
    RedisReply, SqlWork,
};

use std::time::Duration;

use secrecy::SecretString;

use kallisto_api::BoxFuture;

/// Longest that a call takes, in seconds: less than a lease may be pending.
pub const CALL_SECS_MAX: u64 = 45;
/// Most bytes of an answer that are read.
pub const FAR_END_ANSWER_BYTES_MAX: usize = 1 << 20;
/// Most characters of a far end's words that are told.
pub const FAILURE_CHARS_MAX: usize = 400;

/// What to ask of which far end.
#[derive(Clone, Debug)]
pub struct FarEndCall {
    /// Which one, and how it is reached.
    pub far_end: FarEnd,
    /// What.
    pub work: FarEndWork,
    /// Over which session.
    pub session: SessionUse,
    /// How long all of it may take, the wait for a session too; at most [`CALL_SECS_MAX`].
    pub deadline_secs: u64,
    /// What no failure may tell, besides what the far end is logged in to with.
    pub secrets: Vec<SecretString>,
}

/// Over which session something is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionUse {
    /// One that is open, or a new one that stays open; refused while the circuit breaker is open.
    Pooled,
    /// A new one, which is closed afterwards, whatever the breaker says: a check of settings or of a credential.
    Fresh,
}

/// How a far end is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FarEndStatus {
    /// The accessor of the mount.
    pub mount: String,
    /// Its name in the mount.
    pub name: String,
    /// The kind of its protocol, such as `postgresql`.
    pub protocol: &'static str,
    /// Sessions that are open.
    pub open: u64,
    /// Calls that wait for a session.
    pub waiting: u64,
    /// Calls that have ended.
    pub calls: u64,
    /// Calls that ended with a failure.
    pub failures: u64,
    /// How long all calls took together, in microseconds.
    pub micros: u64,
    /// Whether the circuit breaker is open.
    pub is_broken: bool,
    /// What the last failure was; empty once a call succeeded.
    pub last_failure: String,
}

/// What came of a call that was begun.
#[derive(Debug)]
pub enum FarEndProgress {
    /// There is none under this id.
    Unknown,
    /// It is under way.
    UnderWay,
    /// It has ended.
    Ended(Result<FarEndAnswer, FarEndFailure>),
}

/// Asks far ends.
pub trait FarEnds: Send + Sync {
    /// Asks, and waits for the answer. Dropping the future does not undo what was begun.
    ///
    /// # Errors
    /// What went wrong, and whether the far end can have begun the work.
    fn ask(&self, call: FarEndCall) -> BoxFuture<'_, Result<FarEndAnswer, FarEndFailure>>;

    /// Begins a call under an id that no other has, for whoever comes back for its outcome. False when too many are under way.
    fn begin(&self, id: &str, call: FarEndCall) -> bool;

    /// What came of the call that was begun under an id; it is forgotten once it has ended.
    fn take(&self, id: &str) -> FarEndProgress;

    /// Closes the sessions of a far end, or of all of a mount, and forgets its breaker.
    fn close(&self, mount: &str, name: Option<&str>);

    /// Asks a far end whether it is there, by a new session, as it was last asked something.
    ///
    /// # Errors
    /// What is wrong; [`FarEndFailure::Unreachable`] for one that was never asked.
    fn check(&self, mount: &str, name: &str) -> BoxFuture<'_, Result<(), FarEndFailure>>;

    /// How each far end is doing that was asked since the start, or since it was closed.
    fn statuses(&self) -> Vec<FarEndStatus>;

    /// Waits, and keeps no thread for that: for who asks again until there is an answer. Over at once where too many wait.
    fn pause(&self, time: Duration) -> BoxFuture<'_, ()>;
}

/// Where nothing is asked: every call fails at once.
#[derive(Clone, Copy, Debug)]
pub struct NoFarEnds;

impl FarEnds for NoFarEnds {
    fn ask(&self, _: FarEndCall) -> BoxFuture<'_, Result<FarEndAnswer, FarEndFailure>> {
        let failure = FarEndFailure::Unreachable("this server asks no others".into());
        Box::pin(std::future::ready(Err(failure)))
    }

    fn begin(&self, _: &str, _: FarEndCall) -> bool {
        false
    }

    fn take(&self, _: &str) -> FarEndProgress {
        FarEndProgress::Unknown
    }

    fn close(&self, _: &str, _: Option<&str>) {}

    fn check(&self, _: &str, _: &str) -> BoxFuture<'_, Result<(), FarEndFailure>> {
        let failure = FarEndFailure::Unreachable("this server asks no others".into());
        Box::pin(std::future::ready(Err(failure)))
    }

    fn statuses(&self) -> Vec<FarEndStatus> {
        Vec::new()
    }

    fn pause(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
