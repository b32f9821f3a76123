//! The clock seam: time is an argument.
//!
//! Only the sync mode "every T milliseconds" and the back-pressure of writers look at time. A test hands in its own
//! [`Clock`] and never sleeps.

use std::fmt::Debug;
use std::time::Duration;

/// A monotonic clock that can wait.
pub trait Clock: Send + Sync + Debug {
    /// Time since some fixed point; never goes back.
    fn now(&self) -> Duration;
    /// Waits.
    fn sleep(&self, duration: Duration);
}

/// The clock of this machine. It goes on while the machine sleeps, where the system has such a clock: what was true a while
/// ago is as old after a night's suspend as it is.
#[derive(Debug)]
pub struct RealClock {
    start: Duration,
}

impl RealClock {
    /// A clock that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: since_boot() }
    }
}

/// Time since some point before the process began.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::Boottime);
    // Neither is ever negative.
    let secs = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(secs, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// Time since some point after the process began.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "this is the clock seam")]
fn since_boot() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Duration {
        since_boot().saturating_sub(self.start)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}
