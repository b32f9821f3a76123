//! Order and durability: batches go in, committed batches come out through the fold.
//!
//! `core` builds a [`Batch`] of puts and deletes with preconditions and calls [`Store::commit`].
//! The store judges the preconditions, gives the batch its [`Position`], makes it as durable as the
//! store promises, and hands it to the [`Fold`], in order, before the commit is acknowledged. One
//! code path feeds the view at start, on a leader and on a follower alike.
//!
//! Invariants:
//! - A batch is applied whole or not at all; of two batches with the same precondition at most one
//!   commits.
//! - The fold sees every committed batch exactly once, in position order.
//! - When [`Store::commit`] has resolved, the fold of that batch has returned: a writer reads its
//!   own write.
#![forbid(unsafe_code)]

mod batch;
mod memory;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

pub use batch::{BATCH_OPS_MAX, Batch, Expectation, KEY_BYTES_MAX, Op, Position, Record, Seqno};
pub use memory::MemoryStore;

/// Why a store refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A precondition did not hold: someone else wrote first. Read again and decide again.
    Conflict,
    /// The batch breaks a named limit; retrying cannot help.
    TooLarge(&'static str),
    /// The store can not take writes or answer reads; a person is needed.
    Unavailable(String),
}

/// Read access to committed records.
pub trait Records {
    /// The record under `key`, or `None`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the record cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Record>, Error>;

    /// Visits the records whose key starts with `prefix`, in key order, until `visit` says stop.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a record cannot be read.
    fn scan(
        &self,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], &Record) -> Visit,
    ) -> Result<(), Error>;
}

/// Whether a scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Give me the next record.
    Continue,
    /// Enough.
    Stop,
}

/// What a store calls with every committed batch, in order.
pub trait Fold: Send + Sync {
    /// Updates the view. `records` shows the state with this batch applied.
    fn fold(&self, position: Position, batch: &Batch, records: &dyn Records);
}

/// A place that orders batches and keeps them.
pub trait Store: Records + Send + Sync {
    /// Commits `batch`; resolves when it is as durable as this store promises and folded.
    fn commit(&self, batch: Batch) -> Commit;

    /// The position of the last committed batch.
    fn position(&self) -> Position;
}

/// A commit under way; resolves to the batch's position.
#[must_use = "a commit that is not awaited is not acknowledged"]
#[derive(Debug)]
pub struct Commit(Option<Result<Position, Error>>);

impl Commit {
    /// A commit that is already decided.
    pub fn decided(outcome: Result<Position, Error>) -> Self {
        Self(Some(outcome))
    }
}

impl Future for Commit {
    type Output = Result<Position, Error>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Ready(Err(Error::Unavailable("commit polled after it resolved".into()))),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("a precondition did not hold"),
            Self::TooLarge(what) => write!(f, "batch over its limit: {what}"),
            Self::Unavailable(why) => write!(f, "store unavailable: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// The bytes of a record's value, shared and immutable.
pub type Value = Bytes;
