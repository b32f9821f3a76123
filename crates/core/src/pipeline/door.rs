//! The door: the one way in.
//!
//! Order of a request: whether this server may answer it, whose namespace it is for, the unauthenticated family, then whether the server is unsealed, then who
//! asks, then whether they may, then the route. A refusal of who asks and one of whether they may
//! say the same to those without a right.

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{Denied, Operation, Path, authorize_by};
use kallisto_cuckoo::Guard;

use crate::api::error::{Denial, Error};
use crate::api::request::{Request, TokenText};
use crate::api::response::Response;
use crate::auth_methods;
use crate::cluster::leading;
use crate::engines::server_engine::{OpenRun, Run};
use crate::engines::sys;
use crate::namespaces::{self, Home};
use crate::pipeline::address;
use crate::pipeline::authz_request::AuthzRequest;
use crate::pipeline::freshness;
use crate::pipeline::policies::Caller;
use crate::pipeline::spelling;
use crate::pipeline::state::{Call, Core, NamespaceContext};
use crate::pipeline::wrapping;
use crate::quotas::{Allowance, Counting};
use crate::routes;
use crate::tokens;
use crate::tokens::{Hash, Left};
use crate::view::{CachedToken, Mount};

/// What came of a request.
#[derive(Debug)]
pub struct Served {
    /// The answer.
    pub answer: Result<Response, Error>,
    /// What rate limits leave to who asked; `None` unless the settings say that clients are told.
    pub allowance: Option<Allowance>,
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
    pub async fn serve(&self, request: &Request<'_>) -> Served {
        let placed = leading::check(self, request).and_then(|()| freshness::check(self, request));
        match placed.and_then(|()| namespaces::resolve(self, request)) {
            // Another server answers it, and writes it down; a sealed one has nothing to write to.
            Err(error @ (Error::NotLeader | Error::Sealed)) => {
                Served { answer: Err(error), allowance: None }
            }
            Err(error) => Box::pin(self.refuse_unplaced(request, error)).await,
            Ok(None) => self.serve_placed(request).await,
            Ok(Some(placed)) => {
                // Boxed, so that the future of the usual request stays small.
                Box::pin(async move { self.serve_placed(&placed.request(request)).await }).await
            }
        }
    }

    /// Answers a request whose namespace is settled.
    async fn serve_placed(&self, request: &Request<'_>) -> Served {
        let taken = self.take_allowance(request);
        let allowance = taken.as_ref().map_or(None, |left| *left);
        let answer = match taken {
            Ok(_) if self.is_audited(request) => Box::pin(self.handle_audited(request)).await,
            Ok(_) => self.answer_as_asked(request).await,
            Err(refusal) => Box::pin(self.refuse(request, refusal)).await,
        };
        self.metrics.answered(request.operation, &answer);
        Served { answer, allowance }
    }

    /// Answers one request, wrapped if that is asked for. Whether it is written down was decided before.
    pub(crate) async fn answer_as_asked(&self, request: &Request<'_>) -> Result<Response, Error> {
        if request.wrap_ttl_secs > 0 {
            return Box::pin(wrapping::answer(self, request)).await;
        }
        self.answer(request).await
    }

    /// Answers one request in the open.
    ///
    /// # Errors
    /// What the client may hear.
    pub(crate) async fn answer(&self, request: &Request<'_>) -> Result<Response, Error> {
        if let Some(path) = request.path.as_str().strip_prefix("sys/")
            && let Some(route) = sys::open_route(self, path, request)
        {
            return Box::pin(route.answer(self, request)).await;
        }
        if let Some(open) = self.find_open(request) {
            return Box::pin(open.answer(self, request)).await;
        }
        let inside;
        let (unsealed, admitted) = {
            let root = self.unsealed.load();
            let root = root.as_ref().ok_or(Error::Sealed)?;
            let unsealed = if request.namespace.is_empty() {
                root
            } else {
                inside = self.namespace_context(request.namespace)?;
                &inside
            };
            let admitted = admit(unsealed, request)?;
            match admitted {
                Admitted::Answer(answer) => return answer,
                Admitted::Call(call) if let Some(answer) = read(unsealed, &call) => return answer,
                other => (Arc::clone(unsealed), other),
            }
        };
        let _place = self.metrics.in_flight.enter(request);
        // Boxed, so that the future of a read, which never gets here, stays small.
        match admitted {
            Admitted::Answer(answer) => answer,
            Admitted::Call(call) => Box::pin(self.run(unsealed, call)).await,
            Admitted::Limited(caller) => {
                Box::pin(self.run_limited(unsealed, request, *caller)).await
            }
        }
    }

    /// Refuses a request for a namespace that does not serve it. It is counted and written down where namespaces
    /// begin, by the path from there as far as it is one.
    async fn refuse_unplaced(&self, request: &Request<'_>, refusal: Error) -> Served {
        let inside = request.path.as_str();
        let absolute = match request.namespace.trim_matches('/') {
            "" => inside.to_owned(),
            namespace => format!("{namespace}/{inside}"),
        };
        let path = Path::literal(&absolute).unwrap_or_else(|_| request.path.clone());
        let request = Request { namespace: "", path, ..request.clone() };
        let answer = match self.take_allowance(&request) {
            Ok(_) if self.is_audited(&request) => self.audit_refusal(&request, refusal).await,
            Ok(_) => Err(refusal),
            Err(over) => self.refuse(&request, over).await,
        };
        self.metrics.answered(request.operation, &answer);
        Served { answer, allowance: None }
    }

    /// Counts a request against the rate limit that holds for it. A sealed server knows of none.
    fn take_allowance(&self, request: &Request<'_>) -> Result<Option<Allowance>, Error> {
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
        let unsealed = self.unsealed.load();
        let Some(unsealed) = unsealed.as_ref() else { return Ok(None) };
        let path = request.path.as_str();
        let caseless =
            || spelling::caseless(path, &self.namespace_context(request.namespace).ok()?.view);
        unsealed.view.quotas.ask(request, path, counting, caseless, |path| {
            let context = self.namespace_context(request.namespace).ok()?;
            let (mount, inside) = context.view.mounts.route(request.path.as_str())?;
            let is_there = path.strip_prefix(request.namespace) == Some(&mount.entry.path);
            let engine = mount.entry.kind.engine();
            let logs_in = is_there && engine.has_roles() && engine.is_open(inside);
            let login =
                OpenRun { core: self, unsealed: &context, request, mount: &mount, path: inside };
            if logs_in { auth_methods::role_of(&login) } else { None }
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
        let unsealed = self.unsealed.load();
        let Some(unsealed) = unsealed.as_ref() else { return Ok(()) };
        if !unsealed.view.quotas.has_rules() {
            return Ok(());
        }
        let path = spelling::canonical(operation, path)?;
        // Nothing that is done in one of many is a login, nor has it a name without case: they are secrets.
        let taken = unsealed.view.quotas.ask(request, &path, Counting::Take, || None, |_| None);
        taken.inspect_err(|_| self.metrics.over_quota.count()).map(drop)
    }

    /// Refuses a request that is over a rate limit. Whether that is audited is a setting: a flood would
    /// fill the devices.
    async fn refuse(&self, request: &Request<'_>, refusal: Error) -> Result<Response, Error> {
        let audits = self
            .unsealed
            .load()
            .as_ref()
            .is_some_and(|unsealed| unsealed.view.quotas.audits_refusals());
        if audits && self.is_audited(request) {
            return self.audit_refusal(request, refusal).await;
        }
        Err(refusal)
    }

    /// Whether a token is live, for those who let requests in; what it may do is not asked.
    pub fn knows(&self, token: TokenText<'_>) -> bool {
        let unsealed = self.unsealed.load();
        let Some(unsealed) = unsealed.as_ref() else { return false };
        let guard = unsealed.view.tokens.pin();
        tokens::find(&unsealed.view, Some(token), &guard).is_ok()
    }

    /// What takes no token of the paths below mounts: a login, or what anyone may ask.
    fn find_open<'r>(&self, request: &'r Request<'_>) -> Option<OpenPath<'r>> {
        let unsealed = self.namespace_context(request.namespace).ok()?;
        let (mount, inside) = unsealed.view.mounts.route(request.path.as_str())?;
        mount.entry.kind.engine().is_open(inside).then_some(OpenPath { unsealed, mount, inside })
    }

    /// Runs what may have to wait.
    async fn run(
        &self,
        unsealed: Arc<NamespaceContext>,
        call: Call<'_, '_>,
    ) -> Result<Response, Error> {
        let found = unsealed.view.mounts.route(call.path.as_str());
        match found {
            Some((mount, inside)) => {
                let kind = mount.entry.kind;
                // Handed on, not shared: a request that seals lets go of the keys, and must not wait for itself.
                let path = spelling::inside(call.operation, kind, inside)?;
                let run = Run { core: self, unsealed, call: &call, mount: &mount, path };
                let answer = kind.engine().handle(run);
                let refused = |error| routes::sort_refusal(kind, inside, call.operation, error);
                answer.await.map_err(refused)
            }
            None => Err(no_route(&unsealed, &call)),
        }
    }

    /// Runs a request of a token that has only so many: the use is taken first, granted or not, and
    /// the token ends with its last one.
    async fn run_limited(
        &self,
        unsealed: Arc<NamespaceContext>,
        request: &Request<'_>,
        caller: Caller,
    ) -> Result<Response, Error> {
        let left = tokens::spend(caller.home(&unsealed), &caller.hash).await?;
        // Judged as it was found: a racing request with the last use may have ended it by now, and
        // this one has paid.
        let answer = match answer_any_token(&unsealed, request, &caller) {
            Some(answer) => answer,
            None => match authorise(&unsealed, &caller, request) {
                Err(error) => Err(error),
                Ok(call) => match read(&unsealed, &call) {
                    Some(answer) => answer,
                    None if sys::is_seal(&call) => {
                        return self.seal_with_last(unsealed, caller, call, left).await;
                    }
                    None => self.run(Arc::clone(&unsealed), call).await,
                },
            },
        };
        if left == Left::Nothing {
            tokens::revoke_tree(caller.home(&unsealed), caller.hash).await?;
        }
        answer
    }

    /// Runs a request that seals. Nothing of it may hold the keys while it waits for all who do, and a token whose last use
    /// it is ends first: behind the seal nothing can be revoked.
    async fn seal_with_last(
        &self,
        unsealed: Arc<NamespaceContext>,
        caller: Caller,
        call: Call<'_, '_>,
        left: Left,
    ) -> Result<Response, Error> {
        if left == Left::Nothing {
            tokens::revoke_tree(caller.home(&unsealed), caller.hash).await?;
        }
        drop(caller);
        self.run(unsealed, call).await
    }
}

/// A path that takes no token; one that is shown is not looked at.
struct OpenPath<'r> {
    unsealed: Arc<NamespaceContext>,
    mount: Arc<Mount>,
    /// The path inside the mount.
    inside: &'r str,
}

impl OpenPath<'_> {
    async fn answer(self, core: &Core, request: &Request<'_>) -> Result<Response, Error> {
        let OpenPath { unsealed, mount, inside } = self;
        let run = OpenRun { core, unsealed: &unsealed, request, mount: &mount, path: inside };
        mount.entry.kind.engine().handle_open(run).await
    }
}

/// A request that was let in.
pub(crate) enum Admitted<'c, 'r> {
    /// It asked what any token may, and this is the answer.
    Answer(Result<Response, Error>),
    /// It may run.
    Call(Call<'c, 'r>),
    /// Its token has only so many uses; one has to be taken before it is judged.
    Limited(Box<Caller>),
}

/// Authenticates, and authorises unless a use has to be taken first.
pub(crate) fn admit<'c, 'r>(
    unsealed: &NamespaceContext,
    request: &'c Request<'r>,
) -> Result<Admitted<'c, 'r>, Error> {
    if let Home::Above { context, below } = unsealed.home_of(request.token)? {
        return admit_from_above(unsealed, request, &context, &below);
    }
    let guard = unsealed.view.tokens.pin();
    let Request { token, remote, now, .. } = *request;
    let (hash, live) = find_bearer(unsealed, token, remote, now, &guard)?;
    if live.is_limited() {
        let caller = Caller::bearing(unsealed, hash, live, request.now)?;
        return Ok(Admitted::Limited(Box::new(caller)));
    }
    if sys::ui::is_for_any_token(request) {
        let caller = Caller::bearing(unsealed, hash, live, request.now)?;
        if let Some(answer) = answer_any_token(unsealed, request, &caller) {
            return Ok(Admitted::Answer(answer));
        }
    }
    let asked = AuthzRequest::new(request, &unsealed.view);
    let decided = live.with_acl(&unsealed.view, request.now, |acl| {
        unsealed.check_stale(acl)?;
        authorize_by(live.standing(), acl, asked, request.now)
    });
    let decided = decided.ok_or(Error::Denied(Denial::BadToken))?;
    decided.map(Admitted::Call).map_err(|Denied| Error::Denied(Denial::Policy))
}

/// The token of this namespace that is shown, if it may be used now and from there; and its hash.
pub(crate) fn find_bearer<'g>(
    unsealed: &NamespaceContext,
    token: Option<TokenText<'_>>,
    remote: Option<SocketAddr>,
    now: Timestamp,
    guard: &'g Guard,
) -> Result<(Hash, &'g CachedToken), Error> {
    let (hash, live) = tokens::find(&unsealed.view, token, guard)?;
    if live.standing().is_expired(now) {
        return Err(Error::Denied(Denial::BadToken));
    }
    address::check(live.bound_cidrs(), remote)?;
    Ok((hash, live))
}

/// The same for a token of the namespace `context`, which the request's is `below`.
fn admit_from_above<'c, 'r>(
    unsealed: &NamespaceContext,
    request: &'c Request<'r>,
    context: &Arc<NamespaceContext>,
    below: &str,
) -> Result<Admitted<'c, 'r>, Error> {
    let guard = context.view.tokens.pin();
    let Request { token, remote, now, .. } = *request;
    let (hash, live) = find_bearer(context, token, remote, now, &guard)?;
    let caller = Caller::from_above(context, below, hash, live, request.now)?;
    if live.is_limited() {
        return Ok(Admitted::Limited(Box::new(caller)));
    }
    if let Some(answer) = answer_any_token(unsealed, request, &caller) {
        return Ok(Admitted::Answer(answer));
    }
    authorise(unsealed, &caller, request).map(Admitted::Call)
}

/// Answers what any token may ask; `None` for all else.
fn answer_any_token(
    unsealed: &NamespaceContext,
    request: &Request<'_>,
    caller: &Caller,
) -> Option<Result<Response, Error>> {
    if !sys::ui::is_for_any_token(request) {
        return None;
    }
    if let Err(Denied) = unsealed.check_stale(caller.acl()) {
        return Some(Err(Error::Denied(Denial::Policy)));
    }
    sys::ui::for_any_token(unsealed, request, caller)
}

/// Authorises a request of a caller that was found earlier.
pub(crate) fn authorise<'c, 'r>(
    unsealed: &NamespaceContext,
    caller: &Caller,
    request: &'c Request<'r>,
) -> Result<Call<'c, 'r>, Error> {
    let asked = AuthzRequest::new(request, &unsealed.view);
    let decided = unsealed.check_stale(caller.acl());
    let decided =
        decided.and_then(|()| authorize_by(caller.token(), caller.acl(), asked, request.now));
    decided.map_err(|Denied| Error::Denied(Denial::Policy))
}

/// Answers what needs no waiting; `None` for the rest.
pub(crate) fn read(
    unsealed: &NamespaceContext,
    call: &Call<'_, '_>,
) -> Option<Result<Response, Error>> {
    if call.operation.writes() {
        return None;
    }
    match unsealed.view.mounts.route(call.path.as_str()) {
        Some((mount, inside)) => {
            mount.entry.kind.engine().read_fast(usize::MAX, unsealed, call, &mount, inside)
        }
        None => Some(Err(no_route(unsealed, call))),
    }
}

/// What mounts there are is told to root only.
pub(crate) fn no_route(unsealed: &NamespaceContext, call: &Call<'_, '_>) -> Error {
    match Caller::of(unsealed, call) {
        Ok(caller) if caller.is_root() => Error::NoRoute(call.path.as_str().to_owned()),
        Ok(_) => Error::Denied(Denial::Policy),
        Err(error) => error,
    }
}

#[cfg(test)]
impl Core {
    /// Whether a request would run, without running it; `None` when it could not be judged.
    pub(crate) fn would_admit(&self, request: &Request<'_>) -> Option<bool> {
        let unsealed = self.unsealed.load();
        let admitted = admit(unsealed.as_ref()?, request);
        match admitted {
            Ok(Admitted::Call(_) | Admitted::Answer(_)) => Some(true),
            Ok(Admitted::Limited(_)) => None,
            Err(Error::Denied(_)) => Some(false),
            Err(_) => None,
        }
    }
}
