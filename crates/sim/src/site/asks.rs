//! Requests as a world keeps them, and what comes back of one.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use jiff::Timestamp;
use kallisto_core::{
    BodyKind, Core, Error, JoinOutcome, Operation, Path, Request, Response, RunUnderWay, TokenText,
};
use serde_json::Value;

/// What is written beside a secret in a run.
const BESIDE: &str = "secret/data/beside";
/// Most times that a future wakes itself before it is left alone until the next turn.
const WAKES_MAX: usize = 4096;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) operation: Operation,
    pub(crate) path: String,
    pub(crate) token: String,
    pub(crate) body: String,
    pub(crate) wrap_ttl_secs: u64,
    pub(crate) query: Vec<(String, String)>,
    /// Whether it is answered by a view that holds everything that anybody was told before.
    pub(crate) recency: Recency,
    /// Whether it is a write that came together with another, and is committed as one with it where that can be done.
    pub(crate) joins: bool,
}

/// How recent the view has to be that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recency {
    /// As recent as what the client has seen.
    Seen(u64),
    /// Everything that was told to anybody.
    Everything,
}

impl Ask {
    /// A request without a body.
    pub(crate) fn new(operation: Operation, path: impl Into<String>, token: &str) -> Self {
        Self {
            operation,
            path: path.into(),
            token: token.to_owned(),
            body: String::new(),
            wrap_ttl_secs: 0,
            query: Vec::new(),
            recency: Recency::Seen(0),
            joins: false,
        }
    }

    /// The same with a body.
    pub(crate) fn with(self, body: &Value) -> Self {
        Self { body: body.to_string(), ..self }
    }

    /// The same, answered no earlier than from this position.
    pub(crate) fn seen(self, index: u64) -> Self {
        Self { recency: Recency::Seen(index), ..self }
    }
}

/// What a core said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CoreAnswer {
    /// Done, with what it told.
    Done(Box<AnswerParts>),
    /// The token is none, or may not.
    Denied,
    /// The request is refused for what it asks.
    Refused(String),
    /// This server does not lead; nothing was done.
    NotLeader,
    /// This server is sealed.
    Sealed,
    /// It cannot say what became of it.
    Unclear(String),
    /// It is at fault.
    Internal,
}

/// The parts of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AnswerParts {
    pub(crate) data: Value,
    pub(crate) auth: Value,
    pub(crate) wrap_info: Value,
    /// The id of its lease; empty for none.
    pub(crate) lease: String,
    /// Whether it says that its subject is gone.
    pub(crate) missing: bool,
}

impl CoreAnswer {
    fn of(answer: Result<Response, Error>) -> Self {
        match answer {
            Ok(response) => Self::Done(Box::new(AnswerParts::of(response))),
            Err(Error::NotLeader) => Self::NotLeader,
            Err(Error::Sealed) => Self::Sealed,
            Err(Error::Denied(_)) => Self::Denied,
            Err(
                error @ (Error::Invalid(_)
                | Error::InvalidSilently
                | Error::CasMismatch
                | Error::Expected(_)
                | Error::NotFound),
            ) => Self::Refused(format!("{error:?}")),
            Err(Error::Internal(_)) => Self::Internal,
            Err(error) => Self::Unclear(format!("{error:?}")),
        }
    }

    /// The answer, if it is done.
    pub(crate) fn answer_parts(&self) -> Option<&AnswerParts> {
        match self {
            Self::Done(told) => Some(told),
            _ => None,
        }
    }
}

impl AnswerParts {
    fn of(response: Response) -> Self {
        let (logical, missing) = match response {
            Response::Logical(logical)
            | Response::Accepted(logical)
            | Response::Merged(logical)
            | Response::WithStatus { logical, .. } => (logical, false),
            Response::Missing(logical) => (logical, true),
            Response::Bare { body, .. } => {
                let data = serde_json::from_slice(&body.to_text()).unwrap_or_default();
                return Self { data, ..Self::default() };
            }
            Response::MissingEmpty => return Self { missing: true, ..Self::default() },
            _ => return Self::default(),
        };
        let read = |text: &[u8]| serde_json::from_slice(text).unwrap_or_default();
        Self {
            data: read(&logical.data),
            auth: read(&logical.auth),
            wrap_info: read(&logical.wrap_info),
            lease: logical.lease.as_ref().map(|lease| lease.id.clone()).unwrap_or_default(),
            missing,
        }
    }
}

/// Waits while a core's view is of the past and a new one is being built.
async fn shows_now(core: &Core) {
    let shows = || core.is_sealed() || core.shown().is_some();
    poll_fn(|_| if shows() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Begins a run of a write of a secret and of another secret that nobody asks for; `None` where the first has to go its own way.
fn begin_run(core: &Core, request: &Request<'_>) -> Option<RunUnderWay> {
    let body = request.object().ok()?;
    let write = Request { body: &[], body_kind: BodyKind::Fields(&body), ..request.clone() };
    let reads = core.fast_reads()?;
    let caller = reads.bearer(request.token, request.remote, request.now)?.ok()?;
    let mut writer = caller.run_writer()?;
    let mut run = writer.begin_run();
    let JoinOutcome::Joined = writer.join(&mut run, &write, None) else { return None };
    let beside = Path::literal(BESIDE).ok()?;
    let _ = writer.join(&mut run, &Request { path: beside, ..write.clone() }, None);
    run.commit()
}

/// Work of a core that is under way.
pub(crate) struct Flight(Pin<Box<dyn Future<Output = CoreAnswer>>>);

impl Flight {
    /// Asks a core, at `now` by its clock.
    pub(crate) fn ask(core: Arc<Core>, ask: Ask, now: Timestamp) -> Self {
        Self(Box::pin(async move {
            if ask.recency == Recency::Everything {
                if let Err(error) = core.catch_up().await {
                    return CoreAnswer::of(Err(error));
                }
                shows_now(&core).await;
            }
            let Ok(path) = Path::decode(&ask.path) else {
                return CoreAnswer::Refused("no path".into());
            };
            let request = Request {
                token: (!ask.token.is_empty()).then(|| TokenText::new(&ask.token)),
                query: ask.query.clone(),
                body: ask.body.as_bytes(),
                wrap_ttl_secs: ask.wrap_ttl_secs,
                ..Request::new(ask.operation, path, now)
            };
            if ask.joins
                && let Some(run) = begin_run(&core, &request)
            {
                match core.finish_run(run).await {
                    Ok(true) => return CoreAnswer::Done(Box::default()),
                    // Another writer was first: it goes its own way.
                    Ok(false) => {}
                    Err(error) => return CoreAnswer::of(Err(error)),
                }
            }
            CoreAnswer::of(core.handle(&request).await)
        }))
    }

    /// Has a core run the jobs that are due.
    pub(crate) fn run_jobs(core: Arc<Core>, now: Timestamp) -> Self {
        Self(Box::pin(async move {
            let is_internal = |error: &Error| matches!(error, Error::Internal(_));
            match core.run_due_jobs(now).await {
                Ok(()) => CoreAnswer::Done(Box::default()),
                Err(failed) if failed.iter().any(|job| is_internal(&job.error)) => {
                    CoreAnswer::Internal
                }
                Err(failed) => CoreAnswer::Unclear(failed.to_string()),
            }
        }))
    }

    /// What came of it, if anything did yet.
    pub(crate) fn poll(&mut self) -> Option<CoreAnswer> {
        let woken = Arc::new(WokenFlag::default());
        let waker = Waker::from(Arc::clone(&woken));
        for _ in 0..WAKES_MAX {
            match self.0.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(answer) => return Some(answer),
                Poll::Pending if woken.0.swap(false, Ordering::Relaxed) => {}
                Poll::Pending => return None,
            }
        }
        None
    }
}

/// Remembers that it was woken. Relaxed is enough: one thread runs at a time.
#[derive(Default)]
struct WokenFlag(AtomicBool);

impl Wake for WokenFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
