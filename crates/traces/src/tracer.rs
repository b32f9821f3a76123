//! Where requests begin their spans, and the queue in which those wait that have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::context::TraceContext;
use crate::request::{RequestSpan, RequestTrace};
use crate::sampling::Sampling;
use crate::span::FinishedSpan;

/// Most spans that wait to be sent: a few megabytes.
pub const QUEUE_SPANS_MAX: usize = 8192;

/// Tells the time of spans.
pub trait TraceClock: Send + Sync {
    /// Nanoseconds since 1970.
    fn unix_nanos(&self) -> u64;

    /// Time since some fixed point, on a clock that is never set.
    fn monotonic(&self) -> Duration;
}

/// Why a span was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanDrop {
    /// Too many waited already.
    QueueFull,
    /// Whoever takes them was not reached, did not answer, or could not take them for long.
    Unreachable,
    /// Whoever takes them refused it.
    Refused,
}

impl SpanDrop {
    /// All reasons, with a word for each, in the order in which they are counted.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::QueueFull, "queue_full"),
        (Self::Unreachable, "unreachable"),
        (Self::Refused, "refused"),
    ];
}

/// What became of spans that were recorded.
#[derive(Debug, Default)]
pub struct SpanCounts {
    exported: AtomicU64,
    dropped: [AtomicU64; SpanDrop::ALL.len()],
    waiting: AtomicU64,
}

impl SpanCounts {
    /// Counts spans that were sent.
    pub fn add_exported(&self, count: u64) {
        // Relaxed, here and below: these count, and order nothing.
        self.exported.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts spans that were not.
    pub fn add_dropped(&self, why: SpanDrop, count: u64) {
        self.dropped[why as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// How many were sent.
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// How many were dropped for this reason.
    pub fn dropped(&self, why: SpanDrop) -> u64 {
        self.dropped[why as usize].load(Ordering::Relaxed)
    }

    /// How many wait, or are on their way.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Says that so many spans wait no more.
    pub fn note_ended(&self, count: u64) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }
}

/// The other end of the queue.
#[derive(Debug)]
pub struct SpanReceiver(mpsc::Receiver<FinishedSpan>);

impl SpanReceiver {
    /// Takes at most `most` spans into `batch`, and waits while there is none; how many they were. Zero once the queue is closed and
    /// empty.
    pub async fn take(&mut self, batch: &mut Vec<FinishedSpan>, most: usize) -> usize {
        self.0.recv_many(batch, most).await
    }

    /// Lets no more in; what is there can still be taken.
    pub fn close(&mut self) {
        self.0.close();
    }
}

/// Begins spans.
pub struct Tracer {
    sampling: Sampling,
    clock: Box<dyn TraceClock>,
    queue: mpsc::Sender<FinishedSpan>,
    counts: Arc<SpanCounts>,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

impl Tracer {
    /// A tracer with an empty queue, and the other end of that.
    pub fn new(sampling: Sampling, clock: impl TraceClock + 'static) -> (Arc<Self>, SpanReceiver) {
        let (queue, receiver) = mpsc::channel(QUEUE_SPANS_MAX);
        let tracer = Self { sampling, clock: Box::new(clock), queue, counts: Arc::default() };
        (Arc::new(tracer), SpanReceiver(receiver))
    }

    /// What became of the spans.
    pub fn counts(&self) -> &Arc<SpanCounts> {
        &self.counts
    }

    /// Begins the span of a request that came just now, with the context that it brought.
    pub fn begin(self: &Arc<Self>, parent: Option<TraceContext>) -> RequestSpan {
        let (context, parent) = self.place(parent);
        RequestSpan::new(RequestTrace::new(Arc::clone(self), context, parent, Duration::ZERO))
    }

    /// Begins the span of a request that is answered already and came so long ago; `None` if it is not recorded.
    pub fn begin_answered(
        self: &Arc<Self>,
        parent: Option<TraceContext>,
        ago: Duration,
    ) -> Option<RequestSpan> {
        let (context, parent) = self.place(parent);
        if !context.is_sampled {
            return None;
        }
        Some(RequestSpan::new(RequestTrace::new(Arc::clone(self), context, parent, ago)))
    }

    /// The time of the clock that is never set.
    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// The place of a request's span, and the span above it.
    fn place(&self, parent: Option<TraceContext>) -> (TraceContext, Option<[u8; 8]>) {
        let trace_id = parent.as_ref().map_or_else(random_trace_id, |parent| parent.trace_id);
        let decided = parent.as_ref().map(|parent| parent.is_sampled);
        let context = TraceContext {
            trace_id,
            span_id: random_span_id(),
            is_sampled: self.sampling.samples(trace_id, decided),
            is_random: parent.as_ref().is_some_and(|parent| parent.is_random),
            state: parent.as_ref().and_then(|parent| parent.state.clone()),
        };
        (context, parent.map(|parent| parent.span_id))
    }

    pub(crate) fn clock(&self) -> &dyn TraceClock {
        &*self.clock
    }

    /// Puts a span into the queue, or drops it.
    pub(crate) fn hand_in(&self, span: FinishedSpan) {
        // Before it is there: who takes it counts it out.
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(span).is_err() {
            self.counts.note_ended(1);
            self.counts.add_dropped(SpanDrop::QueueFull, 1);
        }
    }
}

/// An id that is not zero. Nothing secret depends on it.
pub(crate) fn random_span_id() -> [u8; 8] {
    fastrand::u64(1..).to_be_bytes()
}

fn random_trace_id() -> [u8; 16] {
    // In its right half too, by which others sample.
    ((u128::from(fastrand::u64(..)) << 64) | u128::from(fastrand::u64(1..))).to_be_bytes()
}
