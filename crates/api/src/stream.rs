//! Answers that take time: those that are made while they are sent, and those that wait.
//!
//! The core reads no clock and owns no timer, so both are driven from outside: a listener asks a
//! [`Source`] for its next bytes, says what time it is, and waits for a change between. Nothing is
//! buffered here: a source that is not asked does nothing.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::BoxFuture;

/// An answer without an end of its own.
pub struct Stream {
    /// Its media type.
    pub content_type: &'static str,
    /// Where its bytes come from.
    pub source: Box<dyn Source>,
}

/// Ends when something has changed.
pub type ChangeFuture<'a> = BoxFuture<'a, ()>;

/// What a stream's bytes come from.
pub trait Source: Send + Sync {
    /// What is to be sent now.
    fn next(&mut self, now: Timestamp) -> NextPiece;

    /// Resolves when [`Source::next`] is worth asking again. May ring for nothing.
    fn changed(&mut self) -> ChangeFuture<'_>;

    /// What says, when nothing else is to be sent, that the connection lives.
    fn heartbeat(&self) -> &'static [u8];

    /// The last bytes when the server stops; `None` when the answer is not whole then.
    fn farewell(&mut self) -> Option<Vec<u8>>;
}

/// The next piece of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum NextPiece {
    /// These bytes, and there may be more at once.
    Bytes(Vec<u8>),
    /// Nothing yet.
    Wait,
    /// These bytes, and never anything again.
    End(Vec<u8>),
    /// Nothing again, though the answer is not whole: whoever reads it is to know.
    Cut,
}

/// What a waiting request waits for.
pub trait Awaited: Send + Sync {
    /// True when the answer may be another now, or it cannot be told.
    fn has_news(&mut self) -> bool;

    /// Resolves when [`Awaited::has_news`] is worth asking again. May ring for nothing.
    fn changed(&mut self) -> ChangeFuture<'_>;
}

/// A request whose answer is wanted when something has changed, or after a while.
pub struct Waiting {
    /// For how long at the most.
    pub longest: Duration,
    /// What it waits for.
    pub awaited: Box<dyn Awaited>,
}

impl Waiting {
    /// True when it is time to answer.
    pub fn has_news(&mut self) -> bool {
        self.awaited.has_news()
    }

    /// Resolves when [`Waiting::has_news`] is worth asking again. May ring for nothing.
    pub fn changed(&mut self) -> ChangeFuture<'_> {
        self.awaited.changed()
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("content_type", &self.content_type).finish_non_exhaustive()
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("longest", &self.longest).finish_non_exhaustive()
    }
}
