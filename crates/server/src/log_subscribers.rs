//! Who follows the log: each subscriber gets the lines of its level, in its form, from its making on.
//!
//! Called by the log for every event while there is a subscriber, and by `core` through its `Host` for a new
//! one. A subscriber may be louder than the log itself: the subscribers have a filter of their own, as loud as the
//! loudest of them and closed while there is none, so that a server nobody follows pays nothing.
//!
//! Invariants:
//! - A subscriber holds at most [`LINES_MAX`] lines and [`BYTES_MAX`] bytes; what comes while it is full is
//!   counted, and the count told in its place. Who reads slowly keeps nobody waiting.
//! - A subscriber goes with the stream that reads it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kallisto_core::{ChangeFuture, LogForm, LogLevel, NextPiece, Source};
use kallisto_listener::{SystemClock, WallClock};
use tokio::sync::Notify;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::{Layer, Registry, reload};

use super::log_levels;
use super::log_line::LogLine;

/// Most subscribers at once.
const SUBSCRIBERS_MAX: usize = 16;
/// Most lines that wait for one reader.
const LINES_MAX: usize = 512;
/// Most bytes of them.
const BYTES_MAX: usize = 1 << 20;

/// Makes the filter of the subscribers as loud as this.
type SetLevel = reload::Handle<Targets, Registry>;

/// The subscribers of a server's log.
#[derive(Clone, Default)]
pub(super) struct LogSubscribers(Arc<Subscribers>);

#[derive(Default)]
struct Subscribers {
    open: Mutex<Vec<Arc<LogSubscriber>>>,
    filter: Mutex<Option<SetLevel>>,
}

/// One of them.
struct LogSubscriber {
    level: LevelFilter,
    form: LogForm,
    waiting: Mutex<WaitingLines>,
    notify: Notify,
}

/// What its reader has not taken yet.
#[derive(Default)]
struct WaitingLines {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

/// The reader of a subscriber.
struct SubscriberStream {
    subscribers: LogSubscribers,
    subscriber: Arc<LogSubscriber>,
}

impl LogSubscribers {
    /// The layer that hands events to the subscribers; a second one would never be asked.
    pub(super) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let (filter, handle) = reload::Layer::new(log_levels::targets(LevelFilter::OFF));
        *lock(&self.0.filter) = Some(handle);
        self.clone().with_filter(filter)
    }

    /// A new subscriber; `None` when there are [`SUBSCRIBERS_MAX`].
    pub(super) fn open(&self, level: LogLevel, form: LogForm) -> Option<Box<dyn Source>> {
        let level = log_levels::to_filter(level);
        let subscriber =
            LogSubscriber { level, form, waiting: Mutex::default(), notify: Notify::new() };
        let subscriber = Arc::new(subscriber);
        {
            let mut open = lock(&self.0.open);
            if open.len() >= SUBSCRIBERS_MAX {
                return None;
            }
            open.push(Arc::clone(&subscriber));
        }
        self.set_level();
        Some(Box::new(SubscriberStream { subscribers: self.clone(), subscriber }))
    }

    fn close(&self, subscriber: &Arc<LogSubscriber>) {
        lock(&self.0.open).retain(|open| !Arc::ptr_eq(open, subscriber));
        self.set_level();
    }

    /// Called without the lock of the subscribers: to change a filter is to ask every layer, this one too.
    fn set_level(&self) {
        // Held to the end: of two changes at once the later one has seen both.
        let filter = lock(&self.0.filter);
        let Some(filter) = &*filter else { return };
        let loudest = lock(&self.0.open).iter().map(|subscriber| subscriber.level).max();
        // Fails when the log has ended, and nobody follows it then.
        let _ = filter.reload(log_levels::targets(loudest.unwrap_or(LevelFilter::OFF)));
    }

    fn hand_out(&self, line: &LogLine) {
        for subscriber in
            lock(&self.0.open).iter().filter(|subscriber| subscriber.level >= line.level)
        {
            subscriber.push(line.to_text(subscriber.form));
        }
    }
}

impl<S: Subscriber> Layer<S> for LogSubscribers {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        self.hand_out(&LogLine::of(event, SystemClock.now()));
    }
}

impl LogSubscriber {
    fn push(&self, line: String) {
        let mut waiting = lock(&self.waiting);
        if waiting.lines.len() >= LINES_MAX || waiting.bytes + line.len() > BYTES_MAX {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        drop(waiting);
        self.notify.notify_one();
    }

    fn take(&self) -> WaitingLines {
        std::mem::take(&mut *lock(&self.waiting))
    }
}

impl Source for SubscriberStream {
    fn next(&mut self, now: Timestamp) -> NextPiece {
        let WaitingLines { lines, dropped, .. } = self.subscriber.take();
        let mut text: String = lines.into_iter().collect();
        if dropped > 0 {
            let mut line = LogLine::about_dropped(now);
            line.put("dropped", dropped.into());
            text.push_str(&line.to_text(self.subscriber.form));
        }
        if text.is_empty() { NextPiece::Wait } else { NextPiece::Bytes(text.into_bytes()) }
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        Box::pin(self.subscriber.notify.notified())
    }

    /// Nothing: every byte would be a line to somebody.
    fn heartbeat(&self) -> &'static [u8] {
        b""
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        Some(self.subscriber.take().lines.into_iter().collect::<String>().into_bytes())
    }
}

impl Drop for SubscriberStream {
    fn drop(&mut self) {
        self.subscribers.close(&self.subscriber);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Runs `work` with a log that only the subscribers hear.
    fn logged(subscribers: &LogSubscribers, work: impl FnOnce()) {
        let subscriber = tracing_subscriber::registry().with(subscribers.layer());
        tracing::subscriber::with_default(subscriber, work);
    }

    fn taken(source: &mut dyn Source) -> String {
        match source.next(Timestamp::UNIX_EPOCH) {
            NextPiece::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
            NextPiece::Wait => String::new(),
            NextPiece::End(_) | NextPiece::Cut => panic!("a subscriber has no end of its own"),
        }
    }

    #[test]
    fn each_tap_hears_its_level_in_its_form_from_its_making_on() {
        let subscribers = LogSubscribers::default();
        logged(&subscribers, || {
            tracing::error!("before");
            let mut quiet = subscribers.open(LogLevel::Warn, LogForm::Standard).unwrap();
            let mut loud = subscribers.open(LogLevel::Debug, LogForm::Json).unwrap();
            tracing::warn!(target: "kallisto_core::stages", path = "a b", count = 3, "one");
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

    /// Over HTTP/2 or TLS each line that is sent would cause some of these, without an end.
    #[test]
    fn what_libraries_say_of_each_message_reaches_no_subscriber() {
        let subscribers = LogSubscribers::default();
        logged(&subscribers, || {
            let mut subscriber = subscribers.open(LogLevel::Trace, LogForm::Standard).unwrap();
            tracing::trace!(target: "h2::codec::framed_write", "flushing buffer");
            tracing::debug!(target: "hyper::proto::h1::io", "flushed");
            tracing::trace!(target: "rustls::conn", "sending");
            assert_eq!(taken(&mut *subscriber), "");
            tracing::trace!(target: "kallisto_core::stages", "heard");
            assert!(taken(&mut *subscriber).ends_with("heard\n"));
        });
    }

    #[test]
    fn who_reads_slowly_is_told_how_much_was_dropped() {
        let subscribers = LogSubscribers::default();
        logged(&subscribers, || {
            let mut subscriber = subscribers.open(LogLevel::Info, LogForm::Standard).unwrap();
            for _ in 0..LINES_MAX + 7 {
                tracing::info!("x");
            }
            let text = taken(&mut *subscriber);
            assert_eq!(text.lines().count(), LINES_MAX + 1);
            assert!(text.ends_with("dropped=7\n"), "{}", &text[text.len() - 100..]);
            tracing::info!("after");
            assert_eq!(taken(&mut *subscriber).lines().count(), 1);
        });
    }

    #[test]
    fn there_are_so_many_taps_and_no_more() {
        let subscribers = LogSubscribers::default();
        let open = || subscribers.open(LogLevel::Info, LogForm::Standard);
        let mut held: Vec<_> = (0..SUBSCRIBERS_MAX).map(|_| open().unwrap()).collect();
        assert!(open().is_none());
        held.pop();
        assert!(open().is_some());
    }
}
