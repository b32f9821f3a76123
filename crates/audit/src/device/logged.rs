//! Counts what a test's thread says in the log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// A second one. While there is but one, a call site that another thread meets first is off for all if it is off for that thread.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(LoggedErrors::default()));

/// The errors that were logged.
#[derive(Clone, Default)]
struct LoggedErrors(Arc<AtomicUsize>);

impl Subscriber for LoggedErrors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// How many errors are logged while this runs.
pub(super) fn errors_of(run: impl FnOnce()) -> usize {
    LazyLock::force(&SECOND);
    let errors = LoggedErrors::default();
    tracing::subscriber::with_default(errors.clone(), run);
    errors.0.load(Ordering::SeqCst)
}
