//! Who follows the log: each tap gets the lines of its level, in its form, from its making on.
//!
//! Called by the log for every event while there is a tap, and by `core` through its `Host` for a new
//! one. A tap may be louder than the log itself: the taps have a filter of their own, as loud as the
//! loudest of them and closed while there is none, so that a server nobody follows pays nothing.
//!
//! Invariants:
//! - A tap holds at most [`LINES_MAX`] lines and [`BYTES_MAX`] bytes; what comes while it is full is
//!   counted, and the count told in its place. Who reads slowly keeps nobody waiting.
//! - A tap goes with the stream that reads it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_core::{Bell, LogForm, LogLevel, Next, Source};
use kallisto_listener::{Clock, SystemClock};
use tokio::sync::Notify;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::{Layer, Registry, reload};

use super::host;
use super::log_line::Line;

/// Most taps at once.
const TAPS_MAX: usize = 16;
/// Most lines that wait for one reader.
const LINES_MAX: usize = 512;
/// Most bytes of them.
const BYTES_MAX: usize = 1 << 20;

/// Makes the filter of the taps as loud as this.
type SetLevel = reload::Handle<LevelFilter, Registry>;

/// The taps of a server's log.
#[derive(Clone, Default)]
pub(super) struct LogTaps(Arc<Taps>);

#[derive(Default)]
struct Taps {
    open: Mutex<Vec<Arc<Tap>>>,
    filter: Mutex<Option<SetLevel>>,
}

/// One of them.
struct Tap {
    level: LevelFilter,
    form: LogForm,
    waiting: Mutex<Waiting>,
    bell: Notify,
}

/// What its reader has not taken yet.
#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

/// The reader of a tap.
struct Reader {
    taps: LogTaps,
    tap: Arc<Tap>,
}

impl LogTaps {
    /// The layer that hands events to the taps; a second one would never be asked.
    pub(super) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let (filter, handle) = reload::Layer::new(LevelFilter::OFF);
        *lock(&self.0.filter) = Some(handle);
        self.clone().with_filter(filter)
    }

    /// A new tap; `None` when there are [`TAPS_MAX`].
    pub(super) fn open(&self, level: LogLevel, form: LogForm) -> Option<Box<dyn Source>> {
        let level = host::to_filter(level);
        let tap = Tap { level, form, waiting: Mutex::default(), bell: Notify::new() };
        let tap = Arc::new(tap);
        {
            let mut open = lock(&self.0.open);
            if open.len() >= TAPS_MAX {
                return None;
            }
            open.push(Arc::clone(&tap));
        }
        self.set_level();
        Some(Box::new(Reader { taps: self.clone(), tap }))
    }

    fn close(&self, tap: &Arc<Tap>) {
        lock(&self.0.open).retain(|open| !Arc::ptr_eq(open, tap));
        self.set_level();
    }

    /// Called without the lock of the taps: to change a filter is to ask every layer, this one too.
    fn set_level(&self) {
        // Held to the end: of two changes at once the later one has seen both.
        let filter = lock(&self.0.filter);
        let Some(filter) = &*filter else { return };
        let loudest = lock(&self.0.open).iter().map(|tap| tap.level).max();
        // Fails when the log has ended, and nobody follows it then.
        let _ = filter.reload(loudest.unwrap_or(LevelFilter::OFF));
    }

    fn hand_out(&self, line: &Line) {
        for tap in lock(&self.0.open).iter().filter(|tap| tap.level >= line.level) {
            tap.push(line.to_text(tap.form));
        }
    }
}

impl<S: Subscriber> Layer<S> for LogTaps {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        self.hand_out(&Line::of(event, SystemClock.now()));
    }
}

impl Tap {
    fn push(&self, line: String) {
        let mut waiting = lock(&self.waiting);
        if waiting.lines.len() >= LINES_MAX || waiting.bytes + line.len() > BYTES_MAX {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        drop(waiting);
        self.bell.notify_one();
    }

    fn take(&self) -> Waiting {
        std::mem::take(&mut *lock(&self.waiting))
    }
}

impl Source for Reader {
    fn next(&mut self, now: Timestamp) -> Next {
        let Waiting { lines, dropped, .. } = self.tap.take();
        let mut text: String = lines.into_iter().collect();
        if dropped > 0 {
            let mut line = Line::about_dropped(now);
            line.put("dropped", dropped.into());
            text.push_str(&line.to_text(self.tap.form));
        }
        if text.is_empty() { Next::Wait } else { Next::Bytes(text.into_bytes()) }
    }

    fn bell(&mut self) -> Bell<'_> {
        Box::pin(self.tap.bell.notified())
    }

    /// Nothing: every byte would be a line to somebody.
    fn heartbeat(&self) -> &'static [u8] {
        b""
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        Some(self.tap.take().lines.into_iter().collect::<String>().into_bytes())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.taps.close(&self.tap);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Runs `work` with a log that only the taps hear.
    fn logged(taps: &LogTaps, work: impl FnOnce()) {
        let subscriber = tracing_subscriber::registry().with(taps.layer());
        tracing::subscriber::with_default(subscriber, work);
    }

    fn taken(source: &mut dyn Source) -> String {
        match source.next(Timestamp::UNIX_EPOCH) {
            Next::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
            Next::Wait => String::new(),
            Next::End(_) | Next::Cut => panic!("a tap has no end of its own"),
        }
    }

    #[test]
    fn each_tap_hears_its_level_in_its_form_from_its_making_on() {
        let taps = LogTaps::default();
        logged(&taps, || {
            tracing::error!("before");
            let mut quiet = taps.open(LogLevel::Warn, LogForm::Standard).unwrap();
            let mut loud = taps.open(LogLevel::Debug, LogForm::Json).unwrap();
            tracing::warn!(target: "kallisto_core::door", path = "a b", count = 3, "one");
            tracing::debug!(open = true, "two");
            tracing::trace!("three");
            let text = taken(&mut *quiet);
            let end = "Z [WARN]  core: one: path=\"a b\" count=3\n";
            assert!(text.ends_with(end) && text.lines().count() == 1, "{text}");
            let text = taken(&mut *loud);
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 2, "{text}");
            assert!(lines[0].starts_with(r#"{"@level":"warn","@message":"one","@module":"core","#));
            assert!(lines[0].ends_with(r#""count":3,"path":"a b"}"#), "{text}");
            assert!(lines[1].contains(r#""open":true"#), "{text}");
            assert_eq!(taken(&mut *loud), "");
            drop(loud);
            tracing::debug!("nobody is as loud any more");
            tracing::warn!("still heard");
            assert!(taken(&mut *quiet).ends_with("still heard\n"));
        });
    }

    #[test]
    fn who_reads_slowly_is_told_how_much_was_dropped() {
        let taps = LogTaps::default();
        logged(&taps, || {
            let mut tap = taps.open(LogLevel::Info, LogForm::Standard).unwrap();
            for _ in 0..LINES_MAX + 7 {
                tracing::info!("x");
            }
            let text = taken(&mut *tap);
            assert_eq!(text.lines().count(), LINES_MAX + 1);
            assert!(text.ends_with("dropped=7\n"), "{}", &text[text.len() - 100..]);
            tracing::info!("after");
            assert_eq!(taken(&mut *tap).lines().count(), 1);
        });
    }

    #[test]
    fn there_are_so_many_taps_and_no_more() {
        let taps = LogTaps::default();
        let open = || taps.open(LogLevel::Info, LogForm::Standard);
        let mut held: Vec<_> = (0..TAPS_MAX).map(|_| open().unwrap()).collect();
        assert!(open().is_none());
        held.pop();
        assert!(open().is_some());
    }
}
