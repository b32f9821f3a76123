//! A line at a terminal while an answer is long in coming, as one of an engine whose far end is slow. It is written over, and taken
//! away before anything else is said. Where standard error is no terminal there is none.
//!
//! It names the server and no path: a path may hold what only the answer's reader is to see.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The line changes this often.
const TICK: Duration = Duration::from_secs(1);
/// Ticks before there is a line.
const QUIET_TICKS: u64 = 2;

/// Somebody waits for an answer, until this is dropped.
pub(super) struct WaitingLine {
    ends: Option<Sender<()>>,
    shows: Option<JoinHandle<()>>,
}

impl WaitingLine {
    /// Begins to wait for the server at `address`.
    pub(super) fn begin(address: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { ends: None, shows: None };
        }
        let (ends, ended) = mpsc::channel();
        let address = address.to_owned();
        let shows = std::thread::Builder::new()
            .name("waiting".to_owned())
            .spawn(move || show(&ended, TICK, &address, &mut std::io::stderr()));
        Self { ends: Some(ends), shows: shows.ok() }
    }
}

impl Drop for WaitingLine {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(shows) = self.shows.take() {
            // It ends with the channel; a line that failed is none.
            let _ = shows.join();
        }
    }
}

/// Writes the line until nobody waits any more.
fn show(ended: &Receiver<()>, tick: Duration, address: &str, to: &mut dyn Write) {
    let mut ticks = 0;
    while ended.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
        ticks += 1;
        if ticks >= QUIET_TICKS {
            // Nobody is left to hear that standard error is gone.
            let _ = write!(to, "\rWaiting for {address}, {} s\x1b[K", ticks * TICK.as_secs());
            let _ = to.flush();
        }
    }
    if ticks >= QUIET_TICKS {
        let _ = write!(to, "\r\x1b[K");
        let _ = to.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets go of the answer once it has read so many lines.
    struct Patient {
        ends: Option<Sender<()>>,
        lines: usize,
        read: String,
    }

    impl Write for Patient {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.read.push_str(str::from_utf8(bytes).unwrap());
            if self.read.matches(" s\x1b[K").count() == self.lines {
                self.ends = None;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_waits_long_sees_for_how_long_and_the_line_goes_away() {
        let (ends, ended) = mpsc::channel();
        let mut to = Patient { ends: Some(ends), lines: 2, read: String::new() };
        show(&ended, Duration::from_millis(1), "http://a:1", &mut to);
        let lines =
            "\rWaiting for http://a:1, 2 s\u{1b}[K\rWaiting for http://a:1, 3 s\u{1b}[K\r\u{1b}[K";
        assert_eq!(to.read, lines);
    }

    #[test]
    fn who_is_answered_at_once_sees_nothing() {
        let (ends, ended) = mpsc::channel();
        drop(ends);
        let mut read = Vec::new();
        show(&ended, Duration::from_secs(60), "http://a:1", &mut read);
        assert!(read.is_empty());
    }
}
