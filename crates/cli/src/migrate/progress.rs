//! How far a pass is, on one line of a terminal that is written over; nothing where nobody watches.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time between two lines.
const PAUSE: Duration = Duration::from_millis(200);

/// The line.
pub(super) struct Progress {
    is_shown: bool,
    now: Mutex<Phase>,
}

/// What is counted now.
struct Phase {
    what: String,
    done: usize,
    total: usize,
    since: Instant,
    shown: Option<Instant>,
}

impl Progress {
    pub(super) fn start() -> Self {
        let phase = Phase { what: String::new(), done: 0, total: 0, since: clock(), shown: None };
        Self { is_shown: std::io::stderr().is_terminal(), now: Mutex::new(phase) }
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to count `total` items; 0 when nobody knows how many there are.
    pub(super) fn begin(&self, what: &str, total: usize) {
        if self.is_shown {
            *self.lock() =
                Phase { what: what.to_owned(), done: 0, total, since: clock(), shown: None };
        }
    }

    /// ItemCounts so many.
    pub(super) fn add(&self, count: usize) {
        if !self.is_shown {
            return;
        }
        let now = clock();
        let mut phase = self.lock();
        phase.done += count;
        let is_last = phase.done == phase.total;
        if is_last || phase.shown.is_none_or(|shown| now.duration_since(shown) >= PAUSE) {
            phase.shown = Some(now);
            let line = line(&phase.what, phase.done, phase.total, now.duration_since(phase.since));
            write(&format!("\r{line}\x1b[K"));
        }
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        if self.is_shown {
            write("\r\x1b[K");
        }
    }
}

/// `secrets of secret/: 1200 of 10000, 400/s, 22s left`
fn line(what: &str, done: usize, total: usize, taken: Duration) -> String {
    let rate = done as f64 / taken.as_secs_f64().max(0.001);
    let of = if total == 0 { String::new() } else { format!(" of {total}") };
    let left = match total.checked_sub(done) {
        Some(left) if total > 0 && rate > 0.0 => format!(", {:.0}s left", left as f64 / rate),
        _ => String::new(),
    };
    format!("{what}: {done}{of}, {rate:.0}/s{left}")
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Nobody is left to hear that stderr is gone.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The clock by which rates are told.
#[expect(clippy::disallowed_methods, reason = "this is the clock seam of a migration's progress")]
fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_it_takes() {
        let after = Duration::from_secs(3);
        assert_eq!(line("secrets", 1200, 10_000, after), "secrets: 1200 of 10000, 400/s, 22s left");
        assert_eq!(line("folders", 30, 0, after), "folders: 30, 10/s");
        assert_eq!(line("secrets", 0, 10, Duration::ZERO), "secrets: 0 of 10, 0/s");
    }
}
