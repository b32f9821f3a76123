//! A request's span and those below it, and which request a thread works for.

use std::borrow::Cow;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::context::TraceContext;
use crate::span::{AttributeValue, Attributes, FinishedSpan, SpanKind, SpanStatus};
use crate::tracer::{Tracer, random_span_id};

/// Most spans below that of a request; those after them are left out.
pub const CHILDREN_MAX: u32 = 64;

thread_local! {
    /// The request that this thread is working for.
    static CURRENT: RefCell<Option<Arc<RequestTrace>>> = const { RefCell::new(None) };
}

/// The request that this thread works for, where requests are traced.
pub fn current() -> Option<Arc<RequestTrace>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Begins a span below that of the current request; `None` if there is none, or it is not recorded.
pub fn child(name: &'static str, kind: SpanKind) -> Option<ChildSpan> {
    CURRENT.with_borrow(|current| current.as_ref()?.child(name, kind))
}

/// Runs `future` as work for a request, wherever it runs; as it is without one.
pub async fn carry<F: Future>(trace: Option<Arc<RequestTrace>>, future: F) -> F::Output {
    match trace {
        None => future.await,
        Some(trace) => trace.scope(future).await,
    }
}

/// A request as far as its trace is concerned.
#[derive(Debug)]
pub struct RequestTrace {
    tracer: Arc<Tracer>,
    context: TraceContext,
    /// The span above, which is a client's or another server's.
    parent: Option<[u8; 8]>,
    /// When it began: in nanoseconds since 1970, and on the clock that is never set.
    start: (u64, Duration),
    children: AtomicU32,
    told: Mutex<RequestText>,
}

/// What is told of a request once it has ended.
#[derive(Debug)]
struct RequestText {
    name: Cow<'static, str>,
    attributes: Attributes,
}

impl Default for RequestText {
    fn default() -> Self {
        Self { name: Cow::Borrowed("request"), attributes: Attributes::new() }
    }
}

impl RequestTrace {
    pub(crate) fn new(
        tracer: Arc<Tracer>,
        context: TraceContext,
        parent: Option<[u8; 8]>,
        ago: Duration,
    ) -> Arc<Self> {
        // Without a recording nobody asks for the time.
        let start = match context.is_sampled {
            false => (0, Duration::ZERO),
            true => {
                let clock = tracer.clock();
                let nanos = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
                (clock.unix_nanos().saturating_sub(nanos), clock.monotonic().saturating_sub(ago))
            }
        };
        let (children, told) = (AtomicU32::new(0), Mutex::default());
        Arc::new(Self { tracer, context, parent, start, children, told })
    }

    /// Whether it is recorded: what is not need not be described.
    pub const fn is_recorded(&self) -> bool {
        self.context.is_sampled
    }

    /// Says what it is called: one of few names.
    pub fn set_name(&self, name: impl Into<Cow<'static, str>>) {
        self.told().name = name.into();
    }

    /// Says something of it.
    pub fn note(&self, name: &'static str, value: impl Into<AttributeValue>) {
        self.told().attributes.push((name, value.into()));
    }

    fn told(&self) -> MutexGuard<'_, RequestText> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its place in the trace, for whoever works for it elsewhere.
    pub const fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Runs `future` as work for this request.
    pub fn scope<F: Future>(self: &Arc<Self>, future: F) -> Scoped<F> {
        Scoped { trace: Arc::clone(self), future: Box::pin(future) }
    }

    /// Begins a span below this one, unless it is not recorded or has many.
    pub fn child(self: &Arc<Self>, name: &'static str, kind: SpanKind) -> Option<ChildSpan> {
        if !self.context.is_sampled {
            return None;
        }
        // Relaxed: it counts.
        if self.children.fetch_add(1, Ordering::Relaxed) >= CHILDREN_MAX {
            return None;
        }
        let context = TraceContext { span_id: random_span_id(), ..self.context.clone() };
        Some(ChildSpan {
            start_nanos: self.now_nanos(),
            trace: Arc::clone(self),
            context,
            name,
            kind,
            attributes: Attributes::new(),
            status: SpanStatus::Unset,
            is_left_out: false,
        })
    }

    fn now_nanos(&self) -> u64 {
        let (unix, monotonic) = self.start;
        let since = self.tracer.clock().monotonic().saturating_sub(monotonic);
        unix.saturating_add(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The span of a request that is answered. Dropped without an end, its client went away.
#[derive(Debug)]
pub struct RequestSpan {
    trace: Arc<RequestTrace>,
    is_ended: bool,
}

impl RequestSpan {
    pub(crate) const fn new(trace: Arc<RequestTrace>) -> Self {
        Self { trace, is_ended: false }
    }

    /// The request, for work on it.
    pub const fn trace(&self) -> &Arc<RequestTrace> {
        &self.trace
    }

    /// It was answered.
    pub fn end(mut self, status: SpanStatus) {
        self.finish(status);
    }

    /// It is not for this server to answer, and is recorded where it is: there is no span.
    pub fn leave_out(mut self) {
        self.is_ended = true;
    }

    fn finish(&mut self, status: SpanStatus) {
        let trace = &self.trace;
        if std::mem::replace(&mut self.is_ended, true) || !trace.is_recorded() {
            return;
        }
        let children = trace.children.load(Ordering::Relaxed);
        if children > CHILDREN_MAX {
            trace.note("kallisto.children_left_out", i64::from(children - CHILDREN_MAX));
        }
        let RequestText { name, attributes } = std::mem::take(&mut *trace.told());
        trace.tracer.hand_in(FinishedSpan {
            context: trace.context.clone(),
            parent: trace.parent,
            has_remote_parent: trace.parent.is_some(),
            name,
            kind: SpanKind::Server,
            start_nanos: trace.start.0,
            end_nanos: trace.now_nanos(),
            attributes,
            status,
        });
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        self.finish(SpanStatus::Failed("cancelled"));
    }
}

/// A span below that of a request. It ends when it is dropped.
#[derive(Debug)]
pub struct ChildSpan {
    trace: Arc<RequestTrace>,
    context: TraceContext,
    name: &'static str,
    kind: SpanKind,
    start_nanos: u64,
    attributes: Attributes,
    status: SpanStatus,
    is_left_out: bool,
}

impl ChildSpan {
    /// Its place in the trace, for the server that is asked.
    pub const fn context(&self) -> &TraceContext {
        &self.context
    }

    /// Says something of it.
    pub fn note(&mut self, name: &'static str, value: impl Into<AttributeValue>) {
        self.attributes.push((name, value.into()));
    }

    /// Says that it failed: a word of a fixed set.
    pub fn fail(&mut self, why: &'static str) {
        self.status = SpanStatus::Failed(why);
    }

    /// What it stands for was not done after all: there is no span.
    pub fn leave_out(mut self) {
        self.is_left_out = true;
    }
}

impl Drop for ChildSpan {
    fn drop(&mut self) {
        if self.is_left_out {
            return;
        }
        self.trace.tracer.hand_in(FinishedSpan {
            context: self.context.clone(),
            parent: Some(self.trace.context.span_id),
            has_remote_parent: false,
            name: Cow::Borrowed(self.name),
            kind: self.kind,
            start_nanos: self.start_nanos,
            end_nanos: self.trace.now_nanos(),
            attributes: std::mem::take(&mut self.attributes),
            status: std::mem::take(&mut self.status),
        });
    }
}

/// Work for a request.
#[derive(Debug)]
pub struct Scoped<F> {
    trace: Arc<RequestTrace>,
    future: Pin<Box<F>>,
}

/// Whom the thread worked for before, while it works for another.
struct Before(Option<Arc<RequestTrace>>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _before = Before(CURRENT.replace(Some(Arc::clone(&self.trace))));
        self.future.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{poll_fn, ready};
    use std::pin::pin;
    use std::task::Waker;

    use super::*;
    use crate::sampling::{RootSampling, Sampling};
    use crate::tracer::{QUEUE_SPANS_MAX, SpanDrop, SpanReceiver, TraceClock};

    /// A clock that goes on by a microsecond with each look.
    #[derive(Default)]
    struct Ticking(Mutex<u64>);

    impl TraceClock for Ticking {
        fn unix_nanos(&self) -> u64 {
            1_000_000_000_000
        }

        fn monotonic(&self) -> Duration {
            let mut looks = self.0.lock().unwrap();
            *looks += 1;
            Duration::from_secs(1) + Duration::from_micros(*looks)
        }
    }

    fn tracer(root: RootSampling) -> (Arc<Tracer>, SpanReceiver) {
        Tracer::new(Sampling { follows_parent: true, root }, Ticking::default())
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn taken(receiver: &mut SpanReceiver) -> Vec<FinishedSpan> {
        let mut spans = Vec::new();
        receiver.close();
        while now(receiver.take(&mut spans, 100)) > 0 {}
        spans
    }

    #[test]
    fn work_for_a_request_is_below_its_span_and_work_for_nobody_is_not_recorded() {
        let (tracer, mut receiver) = tracer(RootSampling::All);
        assert!(child("nobody's", SpanKind::Internal).is_none());
        let span = tracer.begin(None);
        now(span.trace().scope(async {
            let mut inner = child("inner", SpanKind::Client).unwrap();
            inner.note("n", 7_i64);
            let carried = carry(current(), async { child("carried", SpanKind::Internal) });
            drop(carried.await);
        }));
        assert!(current().is_none(), "the scope is over");
        span.end(SpanStatus::Unset);
        let spans = taken(&mut receiver);
        let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["carried", "inner", "request"]);
        let root = &spans[2];
        assert_eq!(root.parent, None);
        for span in &spans[..2] {
            assert_eq!(span.parent, Some(root.context.span_id));
            assert_eq!(span.context.trace_id, root.context.trace_id);
            assert!(root.start_nanos <= span.start_nanos && span.end_nanos <= root.end_nanos);
        }
        assert_eq!(spans[1].attributes, [("n", AttributeValue::from(7_i64))]);
    }

    #[test]
    fn scopes_do_not_outlive_a_poll_nor_a_panic() {
        let (tracer, _receiver) = tracer(RootSampling::All);
        let span = tracer.begin(None);
        let mut scoped = pin!(span.trace().scope(std::future::pending::<()>()));
        assert!(scoped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(current().is_none());
        let trace = Arc::clone(span.trace());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            now(trace.scope(poll_fn(|_| -> Poll<()> { panic!("planned") })))
        }));
        assert!(panicked.is_err() && current().is_none());
        let other = tracer.begin(None);
        now(span.trace().scope(async {
            now(other.trace().scope(ready(())));
            assert_eq!(current().unwrap().context(), span.trace().context());
        }));
    }

    #[test]
    fn what_is_not_sampled_has_a_context_and_no_spans() {
        let (tracer, mut receiver) = tracer(RootSampling::None);
        let span = tracer.begin(None);
        assert!(
            !span.trace().is_recorded() && span.trace().child("a", SpanKind::Internal).is_none()
        );
        assert!(span.trace().context().to_parent().ends_with("-00"));
        span.end(SpanStatus::Unset);
        drop(tracer.begin(None));
        assert!(tracer.begin_answered(None, Duration::ZERO).is_none());
        assert_eq!(taken(&mut receiver), []);
    }

    #[test]
    fn a_client_that_went_away_ends_its_span() {
        let (tracer, mut receiver) = tracer(RootSampling::All);
        let sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceContext::parse(sent.as_bytes(), [&b"a=b"[..]]);
        drop(tracer.begin(parent.clone()));
        let answered = tracer.begin_answered(parent.clone(), Duration::from_micros(500)).unwrap();
        answered.end(SpanStatus::Unset);
        let spans = taken(&mut receiver);
        let parent = parent.unwrap();
        for span in &spans {
            assert_eq!(span.context.trace_id, parent.trace_id);
            assert_eq!(span.parent, Some(parent.span_id));
            assert!(span.has_remote_parent);
            assert_eq!(span.context.state.as_deref(), Some("a=b"));
        }
        assert_eq!(spans[0].status, SpanStatus::Failed("cancelled"));
        assert_eq!(spans[1].status, SpanStatus::Unset);
        let took = spans[1].end_nanos - spans[1].start_nanos;
        assert!((500_000..510_000).contains(&took), "{took}");
    }

    #[test]
    fn what_is_left_out_has_no_span() {
        let (tracer, mut receiver) = tracer(RootSampling::All);
        let span = tracer.begin(None);
        span.trace().child("left out", SpanKind::Client).unwrap().leave_out();
        drop(span.trace().child("kept", SpanKind::Client));
        span.leave_out();
        let spans = taken(&mut receiver);
        assert_eq!(spans.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["kept"]);
        assert_eq!(tracer.counts().waiting(), 1);
    }

    #[test]
    fn children_are_bounded_and_so_is_the_queue() {
        let (tracer, mut receiver) = tracer(RootSampling::All);
        let span = tracer.begin(None);
        let count =
            (0..CHILDREN_MAX + 9).filter_map(|_| span.trace().child("c", SpanKind::Internal));
        assert_eq!(count.count(), CHILDREN_MAX as usize);
        span.end(SpanStatus::Unset);
        let queued = CHILDREN_MAX as usize + 1;
        for _ in queued..QUEUE_SPANS_MAX + 5 {
            tracer.begin(None).end(SpanStatus::Unset);
        }
        assert_eq!(tracer.counts().dropped(SpanDrop::QueueFull), 5);
        assert_eq!(tracer.counts().waiting(), QUEUE_SPANS_MAX as u64);
        let spans = taken(&mut receiver);
        assert_eq!(spans.len(), QUEUE_SPANS_MAX);
        let left_out = ("kallisto.children_left_out", AttributeValue::from(9_i64));
        assert_eq!(spans[queued - 1].attributes, [left_out]);
        // Nobody takes any more.
        tracer.begin(None).end(SpanStatus::Unset);
        assert_eq!(tracer.counts().dropped(SpanDrop::QueueFull), 6);
    }
}
