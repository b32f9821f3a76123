//! How far long work is, on one line of a terminal that is written over; nothing where nobody watches.

use std::io::{IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time between two lines.
const PAUSE: Duration = Duration::from_millis(200);

/// The line.
pub(crate) struct Progress {
    is_shown: bool,
    now: Mutex<Phase>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Items,
    Bytes,
}

/// What is counted now.
struct Phase {
    what: String,
    unit: Unit,
    done: usize,
    total: usize,
    since: Instant,
    shown: Option<Instant>,
}

impl Phase {
    fn new(what: &str, unit: Unit, total: usize) -> Self {
        Self { what: what.to_owned(), unit, done: 0, total, since: clock(), shown: None }
    }
}

impl Progress {
    /// A line of which nothing is shown yet.
    pub(crate) fn start() -> Self {
        let now = Mutex::new(Phase::new("", Unit::Items, 0));
        Self { is_shown: std::io::stderr().is_terminal(), now }
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to count `total` items; 0 when nobody knows how many there are.
    pub(crate) fn begin(&self, what: &str, total: usize) {
        *self.lock() = Phase::new(what, Unit::Items, total);
    }

    /// The same for bytes.
    pub(crate) fn begin_bytes(&self, what: &str, total: usize) {
        *self.lock() = Phase::new(what, Unit::Bytes, total);
    }

    /// Says what is waited for, of which nothing can be counted.
    pub(crate) fn say(&self, what: &str) {
        if self.is_shown {
            write(&format!("\r{what}\x1b[K"));
        }
    }

    /// Counts so many more.
    pub(crate) fn add(&self, count: usize) {
        self.count(|done| done + count);
    }

    /// Says that so many are done in all.
    pub(crate) fn reach(&self, done: usize) {
        self.count(|_| done);
    }

    fn count(&self, next: impl FnOnce(usize) -> usize) {
        if !self.is_shown {
            return;
        }
        let now = clock();
        let mut phase = self.lock();
        phase.done = next(phase.done);
        let is_last = phase.done == phase.total;
        if is_last || phase.shown.is_none_or(|shown| now.duration_since(shown) >= PAUSE) {
            phase.shown = Some(now);
            let line = line(&phase, now.duration_since(phase.since));
            write(&format!("\r{line}\x1b[K"));
        }
    }

    /// Takes the line away.
    pub(crate) fn end(&self) {
        if self.is_shown {
            write("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// A file whose bytes are counted as they are read or written.
pub(crate) struct CountedBytes<F> {
    pub(crate) file: F,
    pub(crate) progress: Arc<Progress>,
}

impl<F: Read> Read for CountedBytes<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        match read {
            0 => self.progress.say("the server works on it"),
            read => self.progress.add(read),
        }
        Ok(read)
    }
}

impl<F: Write> Write for CountedBytes<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.progress.add(written);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// `secrets of secret/: 1200 of 10000, 400/s, 22s left`
fn line(phase: &Phase, taken: Duration) -> String {
    let Phase { what, unit, done, total, .. } = phase;
    let rate = *done as f64 / taken.as_secs_f64().max(0.001);
    let of = if *total == 0 { String::new() } else { format!(" of {}", amount(*total, *unit)) };
    let left = match total.checked_sub(*done) {
        Some(left) if *total > 0 && rate > 0.0 => format!(", {:.0}s left", left as f64 / rate),
        _ => String::new(),
    };
    format!(
        "{what}: {}{of}, {}/s{left}",
        amount(*done, *unit),
        amount(rate.round() as usize, *unit)
    )
}

fn amount(count: usize, unit: Unit) -> String {
    match unit {
        Unit::Items => count.to_string(),
        Unit::Bytes => format!("{:.1} MiB", count as f64 / f64::from(1 << 20)),
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Nobody is left to hear that stderr is gone.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The clock by which rates are told.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock seam of progress that people watch"
)]
fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_long_it_takes() {
        let after = Duration::from_secs(3);
        let said = |what, unit, done, total, taken| {
            line(&Phase { done, ..Phase::new(what, unit, total) }, taken)
        };
        assert_eq!(
            said("secrets", Unit::Items, 1200, 10_000, after),
            "secrets: 1200 of 10000, 400/s, 22s left"
        );
        assert_eq!(said("folders", Unit::Items, 30, 0, after), "folders: 30, 10/s");
        assert_eq!(said("secrets", Unit::Items, 0, 10, Duration::ZERO), "secrets: 0 of 10, 0/s");
        assert_eq!(
            said("b.snap", Unit::Bytes, 3 << 20, 12 << 20, after),
            "b.snap: 3.0 MiB of 12.0 MiB, 1.0 MiB/s, 9s left"
        );
    }
}
