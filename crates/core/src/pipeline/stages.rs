//! The stages of a request, in order: the one way in.
//!
//! | stage | does | where it is |
//! |---|---|---|
//! | resolve namespace | whether this server answers, from a view that is recent enough, and for which namespace | here, `resolve_namespace` |
//! | rate limit | counts the request against the rule that holds for it | here, `quotas` |
//! | authenticate | finds the token, if the route asks for one | `authz::judge` |
//! | authorize | asks the policies of the token | `authz::judge` |
//! | audit request | writes down who asks for what | `super::audit::gate` |
//! | dispatch | takes a use of a token that has only so many, and runs the handler of the route | here |
//! | audit reply | writes down what the answer is | `super::audit::gate` |
//! | respond | wraps the answer if that is asked for, and counts it | here, `wrapping` |
//!
//! Where nothing is to be dispatched (a refusal, a secret that is in memory) both records are written at once, before the answer leaves.
//! The fast path ([`super::fast_path`]) calls the same stages for reads that wait for nothing.
//!
//! A refusal of who asks and one of whether they may say the same to those without a right.

use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{Operation, Path};
use kallisto_engine::{Class, OpenReadCall, Params, Route};

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::request::{Request, TokenText};
use crate::api::response::Response;
use crate::authz::judge::{self, Admitted, FindingsRecord, JudgePurpose, LimitedToken};
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::caller::{find, spelling};
use crate::cluster::leading;
use crate::dispatch::server_engine::{OpenRun, RunningRequest};
use crate::dispatch::{no_route, read};
use crate::pipeline::audit::OpenRecords;
use crate::pipeline::open_routes::{self, OpenRoute};
use crate::pipeline::resolve_namespace::{self, Placed};
use crate::pipeline::{freshness, snapshots, timed};
use crate::quotas::{Allowance, Counting};
use crate::registry;
use crate::state::Core;
use crate::tokens::{self, UsesLeft};
use crate::view::{Mount, NamespaceContext};
use crate::wrapping;

/// What who asks hears where the server was sealed while the request ran, and the request could not go on.
const SEALED_MEANWHILE: &str = "the server was sealed meanwhile: what was asked for may have been done, read before sending it again";

/// What came of a request.
#[derive(Debug)]
pub struct ServedRequest {
    /// The answer.
    pub answer: Result<Response, Error>,
    /// What rate limits leave to who asked; `None` unless the settings say that clients are told.
    pub allowance: Option<Allowance>,
}

/// A request that was judged.
pub(crate) enum JudgedRequest<'c, 'r> {
    /// Nothing is left to do for it: it is refused, or memory answers it.
    Answer(Result<Response, Error>),
    /// It is to be dispatched.
    Dispatch(NextStep<'c, 'r>),
}

/// What is to be done for a request.
pub(crate) enum NextStep<'c, 'r> {
    /// A route of the server that answers whoever asks.
    System(OpenRoute<'c>),
    /// A route below a mount that answers whoever asks.
    Open(OpenPath<'c>),
    /// It is answered, and the answer is to be wrapped.
    Respond(Result<Response, Error>),
    /// The handler of its route runs.
    Call(AuthorizedCall<'c, 'r>),
    /// A use of its token is taken, and then the same.
    Limited(Box<LimitedToken<'c, 'r>>),
}

impl Core {
    /// Answers one request.
    ///
    /// # Errors
    /// What the client may hear: see [`Error`].
    pub async fn handle(&self, request: &Request<'_>) -> Result<Response, Error> {
        self.serve(request).await.answer
    }

    /// Answers one request, and tells what rate limits leave to who asked.
    pub async fn serve(&self, request: &Request<'_>) -> ServedRequest {
        match self.resolve_namespace(request) {
            // Another server answers it, and writes it down; a sealed one has nothing to write to.
            Err(error @ (Error::NotLeader | Error::Sealed)) => {
                ServedRequest { answer: Err(error), allowance: None }
            }
            Err(error) => Box::pin(self.refuse_unplaced(request, error)).await,
            Ok(None) => self.serve_in_namespace(request).await,
            Ok(Some(placed)) => {
                // Boxed, so that the future of the usual request stays small.
                Box::pin(async move { self.serve_in_namespace(&placed.request(request)).await })
                    .await
            }
        }
    }

    /// Settles whether this server answers a request, and for which namespace; `None` for one that is as it has to be.
    fn resolve_namespace(&self, request: &Request<'_>) -> Result<Option<Placed>, Error> {
        leading::check(self, request)?;
        freshness::check(self, request)?;
        self.place(request)
    }

    /// Settles which namespace a request is for; `None` for one that is as it has to be.
    pub(crate) fn place(&self, request: &Request<'_>) -> Result<Option<Placed>, Error> {
        resolve_namespace::resolve(self, request)
    }

    async fn serve_in_namespace(&self, request: &Request<'_>) -> ServedRequest {
        let taken = self.rate_limit(request);
        let allowance = taken.as_ref().map_or(None, |left| *left);
        let begin = self.metrics.routes.is_on().then(|| self.services.timers.now());
        let answer = match taken {
            Ok(_) if self.is_audited(request) => Box::pin(self.answer_audited(request)).await,
            Ok(_) => self.answer(request).await,
            Err(refusal) => Box::pin(self.refuse_over_limit(request, refusal)).await,
        };
        if let Some(begin) = begin {
            self.note_route(request, begin);
        }
        self.metrics.answered(request.operation, &answer);
        ServedRequest { answer, allowance }
    }

    /// Answers a request that is not written down.
    async fn answer(&self, request: &Request<'_>) -> Result<Response, Error> {
        let (context, step) = {
            let root = self.context.load();
            let inside;
            let context = match root.as_ref() {
                Some(_) if !request.namespace.is_empty() => {
                    inside = self.namespace_context(request.namespace)?;
                    Some(&inside)
                }
                root => root,
            };
            match self.prepare(context, request, None) {
                JudgedRequest::Answer(answer) => return answer,
                JudgedRequest::Dispatch(step) => (context.cloned(), step),
            }
        };
        // Boxed, so that the future of a read, which never gets here, stays small.
        Box::pin(self.dispatch(context, request, step)).await
    }

    /// Answers a request between its two records.
    ///
    /// # Errors
    /// What the client may hear; [`Error::Unaudited`] when no device took a record.
    async fn answer_audited(&self, request: &Request<'_>) -> Result<Response, Error> {
        // Where there is nothing to audit by, nothing is answered either.
        let context = self.namespace_context(request.namespace)?;
        // The keys can be taken away whatever the devices do.
        let seals = open_routes::is_seal(request);
        let mut records = self.audit_records(seals)?;
        let prepared = self.prepare(
            Some(&context),
            request,
            Some(&mut |judgement| records.open(self, &context, request, judgement)),
        );
        let step = match prepared {
            JudgedRequest::Answer(answer) => {
                return self.audit_both(&context, request, records, answer).await;
            }
            JudgedRequest::Dispatch(step) => step,
        };
        if seals {
            return self.seal_audited(context, request, records, step).await;
        }
        let records = OpenRecords::new(records, &context, request);
        if let Err(refusal) = self.audit_request(records.get()).await {
            drop(records.take());
            return Err(refusal);
        }
        let answer = self.dispatch(Some(Arc::clone(&context)), request, step).await;
        self.audit_reply(&context, request, records.take(), answer).await
    }

    /// Judges a request, and answers it if memory does. `context` is that of its namespace, unless the server is sealed.
    pub(crate) fn prepare<'c, 'r>(
        &self,
        context: Option<&Arc<NamespaceContext>>,
        request: &'c Request<'r>,
        record: Option<FindingsRecord<'_>>,
    ) -> JudgedRequest<'c, 'r> {
        if let Some(open) = self.find_open(context.map(|context| &**context), request) {
            if let (Some(context), Some(record)) = (context, record) {
                // A token that is shown is written down, and not asked for.
                let _ = judge::judge(context, request, JudgePurpose::Record, Some(record));
            }
            return match snapshots::refusal_where_open(request) {
                Some(refusal) => JudgedRequest::Answer(Err(refusal)),
                None => JudgedRequest::Dispatch(open),
            };
        }
        let Some(context) = context else { return JudgedRequest::Answer(Err(Error::Sealed)) };
        let answered = |answer| match request.wrap_ttl_secs {
            0 => JudgedRequest::Answer(answer),
            _ => JudgedRequest::Dispatch(NextStep::Respond(answer)),
        };
        match judge::judge(context, request, JudgePurpose::Answer, record) {
            Err(refusal) => JudgedRequest::Answer(Err(refusal)),
            Ok(Admitted::Limited(limited)) => JudgedRequest::Dispatch(NextStep::Limited(limited)),
            Ok(Admitted::Answer(answer)) => answered(answer),
            Ok(Admitted::Call(call)) => match read(context, &call) {
                Some(answer) => answered(answer),
                None => JudgedRequest::Dispatch(NextStep::Call(call)),
            },
        }
    }

    /// What answers whoever asks: a few routes of the server, logins, and what engines let anyone ask.
    pub(crate) fn find_open<'c, 'r>(
        &self,
        context: Option<&NamespaceContext>,
        request: &'c Request<'_>,
    ) -> Option<NextStep<'c, 'r>> {
        if let Some(path) = request.path.as_str().strip_prefix(spelling::SYSTEM) {
            return open_routes::open_route(self, path, request).map(NextStep::System);
        }
        let context = context?;
        let (mount, inside) = context.view.mounts.route(request.path.as_str())?;
        let kind = mount.entry.kind;
        let inside = spelling::inside(request.operation, kind, inside).ok()?;
        let route = registry::driver(kind).open_route(inside)?;
        // What stands below an open path is listed for whoever asks only where the row lists.
        let lists = matches!(request.operation, Operation::List | Operation::Scan);
        if lists && !route.takes(request.operation) {
            return None;
        }
        Some(NextStep::Open(OpenPath { mount, inside, route }))
    }

    /// Whether a request is for what answers whoever asks.
    pub(crate) fn is_open(&self, context: &NamespaceContext, request: &Request<'_>) -> bool {
        self.find_open(Some(context), request).is_some()
    }

    /// Does what is to be done for a request, and wraps the answer if that is asked for.
    pub(crate) async fn dispatch(
        &self,
        context: Option<Arc<NamespaceContext>>,
        request: &Request<'_>,
        step: NextStep<'_, '_>,
    ) -> Result<Response, Error> {
        // What anyone may ask is not kept for anyone, since keeping it costs a write.
        let is_from_somebody = match &step {
            NextStep::System(route) => route.is_from_somebody(),
            NextStep::Open(_) => false,
            NextStep::Respond(_) | NextStep::Call(_) | NextStep::Limited(_) => true,
        };
        let sealings = *self.sealings.borrow();
        let (begin, timer) = (self.services.timers.now(), timed::timer_of(request, &step));
        let answer = match step {
            NextStep::System(route) => Box::pin(route.answer(self, request)).await,
            NextStep::Open(open) => {
                let context = context.ok_or(Error::Sealed)?;
                Box::pin(open.answer(&context, request)).await
            }
            NextStep::Respond(answer) => answer,
            NextStep::Call(call) => {
                let _place = self.metrics.in_flight.enter(request);
                Box::pin(self.run(context.ok_or(Error::Sealed)?, call)).await
            }
            NextStep::Limited(limited) => {
                let _place = self.metrics.in_flight.enter(request);
                Box::pin(self.run_limited(context.ok_or(Error::Sealed)?, *limited, request.now))
                    .await
            }
        };
        if let Some(timer) = timer {
            self.services.timers.end(timer, begin);
        }
        // Its keys are those of before, and open nothing that was written under newer ones.
        let answer = match answer {
            Err(Error::Internal(_)) if *self.sealings.borrow() != sealings => {
                Err(Error::Unavailable(SEALED_MEANWHILE.into()))
            }
            answer => answer,
        };
        if request.wrap_ttl_secs == 0 {
            return answer;
        }
        let answer = answer?;
        // A token that was just made is somebody's, whoever may ask for it.
        let has_token = answer.logical().is_some_and(|logical| !logical.auth.is_empty());
        if !is_from_somebody && !has_token {
            return Ok(answer);
        }
        Box::pin(wrapping::keep(self, request, answer)).await
    }

    /// Refuses a request for a namespace that does not serve it. It is counted and written down where namespaces
    /// begin, by the path from there as far as it is one.
    async fn refuse_unplaced(&self, request: &Request<'_>, refusal: Error) -> ServedRequest {
        let inside = request.path.as_str();
        let absolute = match request.namespace.trim_matches('/') {
            "" => inside.to_owned(),
            namespace => format!("{namespace}/{inside}"),
        };
        let path = Path::literal(&absolute).unwrap_or_else(|_| request.path.clone());
        let request = Request { namespace: "", path, ..request.clone() };
        let answer = match self.rate_limit(&request) {
            Ok(_) if self.is_audited(&request) => self.audit_refusal(&request, refusal).await,
            Ok(_) => Err(refusal),
            Err(over) => self.refuse_over_limit(&request, over).await,
        };
        self.metrics.answered(request.operation, &answer);
        ServedRequest { answer, allowance: None }
    }

    /// Counts a request against the rate limit that holds for it. A sealed server knows of none.
    fn rate_limit(&self, request: &Request<'_>) -> Result<Option<Allowance>, Error> {
        let taken = self.ask_quotas(request, Counting::Take);
        taken.inspect_err(|_| self.metrics.over_quota.count())
    }

    /// Whether a rate limit would let a request pass now. It is not counted.
    pub(crate) fn has_allowance(&self, request: &Request<'_>) -> bool {
        self.ask_quotas(request, Counting::Look).is_ok()
    }

    fn ask_quotas(
        &self,
        request: &Request<'_>,
        counting: Counting,
    ) -> Result<Option<Allowance>, Error> {
        let context = self.context.load();
        let Some(context) = context.as_ref() else { return Ok(None) };
        let path = request.path.as_str();
        let caseless =
            || spelling::caseless(path, &self.namespace_context(request.namespace).ok()?.view);
        context.view.quotas.ask(request, path, counting, caseless, |path| {
            let context = self.namespace_context(request.namespace).ok()?;
            let (mount, inside) = context.view.mounts.route(request.path.as_str())?;
            let is_there = path.strip_prefix(request.namespace) == Some(&mount.entry.path);
            let engine = registry::driver(mount.entry.kind);
            let logs_in = is_there && engine.has_roles() && engine.is_open(inside);
            let login = OpenRun { context: &context, request, mount: &mount, path: inside };
            if !logs_in {
                return None;
            }
            engine.role_of(&login, Fields::new(&login.request.object().ok()?))
        })
    }

    /// Counts what a request does at another path than its own, as a request for that would be counted.
    ///
    /// # Errors
    /// [`Error::OverQuota`] when nothing is left.
    pub(crate) fn take_allowance_at(
        &self,
        request: &Request<'_>,
        operation: Operation,
        path: &str,
    ) -> Result<(), Error> {
        let context = self.context.load();
        let Some(context) = context.as_ref() else { return Ok(()) };
        if !context.view.quotas.has_rules() {
            return Ok(());
        }
        let path = spelling::canonical(operation, path)?;
        // Nothing that is done in one of many is a login, nor has it a name without case: they are secrets.
        let taken = context.view.quotas.ask(request, &path, Counting::Take, || None, |_| None);
        taken.inspect_err(|_| self.metrics.over_quota.count()).map(drop)
    }

    /// Refuses a request that is over a rate limit. Whether that is audited is a setting: a flood would
    /// fill the devices.
    async fn refuse_over_limit(
        &self,
        request: &Request<'_>,
        refusal: Error,
    ) -> Result<Response, Error> {
        let audits = self
            .context
            .load()
            .as_ref()
            .is_some_and(|context| context.view.quotas.audits_refusals());
        if audits && self.is_audited(request) {
            return self.audit_refusal(request, refusal).await;
        }
        Err(refusal)
    }

    /// Whether a token is live, for those who let requests in; what it may do is not asked.
    pub fn knows(&self, token: TokenText<'_>) -> bool {
        let context = self.context.load();
        let Some(context) = context.as_ref() else { return false };
        let guard = context.view.tokens.pin();
        // At any time: who asks has no clock, and a token that is over is refused behind this.
        find::find(&context.view, Some(token), Timestamp::MIN, &guard).is_ok()
    }

    /// Runs what may have to wait.
    async fn run(
        &self,
        context: Arc<NamespaceContext>,
        call: AuthorizedCall<'_, '_>,
    ) -> Result<Response, Error> {
        if let Some(asked) = snapshots::SnapshotQuestion::of(&call)? {
            return Box::pin(snapshots::answer(self, context, call, asked)).await;
        }
        let found = context.view.mounts.route(call.path.as_str());
        match found {
            Some((mount, inside)) => {
                let kind = mount.entry.kind;
                // Handed on, not shared: a request that seals lets go of the keys, and must not wait for itself.
                let Ok(path) = spelling::inside(call.operation, kind, inside) else {
                    return Err(registry::driver(kind).routes().refusal(inside, call.operation));
                };
                let run = RunningRequest { core: self, context, call: &call, mount: &mount, path };
                registry::driver(kind).handle(run).await
            }
            None => Err(no_route(&context, &call)),
        }
    }

    /// Runs a request of a token that has only so many uses: one is taken first, granted or not, and the token ends with its last one.
    /// It was judged as it was found: a racing request with the last use may have ended it by now, and this one has paid.
    async fn run_limited(
        &self,
        context: Arc<NamespaceContext>,
        limited: LimitedToken<'_, '_>,
        now: Timestamp,
    ) -> Result<Response, Error> {
        let LimitedToken { caller, verdict } = limited;
        let left = tokens::spend(caller.home(&context), &caller.hash).await?;
        if wrapping::is_wrapping(caller.entry()) {
            let (home, accessor) = (caller.home(&context), &caller.token().accessor);
            wrapping::receipts::note_used(home, accessor, now).await?;
        }
        let answer = match verdict {
            Err(refusal) => Err(refusal),
            Ok(Admitted::Answer(answer)) => answer,
            Ok(Admitted::Limited(_)) => Err(Error::internal(&"a use is taken twice")),
            Ok(Admitted::Call(call)) => match read(&context, &call) {
                Some(answer) => answer,
                None if open_routes::is_seal(&call) => {
                    return self.seal_with_last(context, caller, call, left).await;
                }
                None => self.run(Arc::clone(&context), call).await,
            },
        };
        if left == UsesLeft::Nothing {
            tokens::revoke_tree(caller.home(&context), caller.hash).await?;
        }
        answer
    }

    /// Runs a request that seals. Nothing of it may hold the keys while it waits for all who do, and a token whose last use
    /// it is ends first: behind the seal nothing can be revoked.
    async fn seal_with_last(
        &self,
        context: Arc<NamespaceContext>,
        caller: CallerPolicies,
        call: AuthorizedCall<'_, '_>,
        left: UsesLeft,
    ) -> Result<Response, Error> {
        if left == UsesLeft::Nothing {
            tokens::revoke_tree(caller.home(&context), caller.hash).await?;
        }
        drop(caller);
        self.run(context, call).await
    }
}

/// A path below a mount that takes no token; one that is shown is not looked at.
pub(crate) struct OpenPath<'r> {
    mount: Arc<Mount>,
    /// The path inside the mount.
    inside: &'r str,
    /// The row of its route.
    route: &'static Route,
}

impl OpenPath<'_> {
    /// Answers a read that memory answers at once, as [`OpenPath::answer`] would; `None` for all others.
    pub(crate) fn read_at_once(&self, now: Timestamp) -> Option<Response> {
        read_at_once(&self.mount, self.inside, self.route, now)
    }

    /// What is mounted there.
    pub(crate) fn class(&self) -> Class {
        self.mount.entry.kind.class()
    }

    async fn answer(
        self,
        context: &NamespaceContext,
        request: &Request<'_>,
    ) -> Result<Response, Error> {
        let OpenPath { mount, inside, .. } = self;
        let run = OpenRun { context, request, mount: &mount, path: inside };
        registry::driver(mount.entry.kind).handle_open(run).await
    }
}

/// Answers a read at a path that takes no token from memory, where its row says how and this server reads for itself; `None` elsewhere. The
/// path is that inside the mount.
pub(crate) fn read_at_once(
    mount: &Mount,
    path: &str,
    route: &'static Route,
    now: Timestamp,
) -> Option<Response> {
    let read = route.read_at_once.filter(|_| leading::reads_here(route))?;
    let memory = mount.memory.of_engine()?;
    read(OpenReadCall { memory, params: Params::new(route.pattern, path), now })
}

#[cfg(test)]
impl Core {
    /// Whether a request would run, without running it; `None` when it could not be judged.
    pub(crate) fn would_admit(&self, request: &Request<'_>) -> Option<bool> {
        let context = self.context.load();
        let admitted = judge::judge(context.as_ref()?, request, JudgePurpose::Answer, None);
        match admitted {
            Ok(Admitted::Call(_) | Admitted::Answer(_)) => Some(true),
            Ok(Admitted::Limited(_)) => None,
            Err(Error::Denied(_)) => Some(false),
            Err(_) => None,
        }
    }
}
