//! The clock seam: the only place where the time of a request comes from.

use std::time::Instant;

use jiff::Timestamp;

/// Tells the time.
pub trait WallClock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// A point on a clock that is never set, to measure how long something takes.
    fn instant(&self) -> Instant;
}

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn instant(&self) -> Instant {
        Instant::now()
    }
}
