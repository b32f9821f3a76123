//! Who asks, and whether they may: the stages `authenticate` and `authorize`, which wait for nothing.
//!
//! A request is judged once. What was found on the way, and by which policies it is granted, is passed to the code that audits it
//! ([`Judgement`]), so that an audit record says what was decided and not what would be decided a moment later. The general way
//! ([`crate::pipeline::stages`]) and the fast path ([`crate::pipeline::fast_path`]) both come here.

use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{AclGrant, AclSet, Capability, Denied, Subject as _, authorize_noting};
use kallisto_cuckoo::Guard;
use kallisto_engine::address;

use crate::api::error::{Denial, Error};
use crate::api::request::{Request, TokenText};
use crate::api::response::Response;
use crate::authz::any_token;
use crate::caller::call::AuthorizedCall;
use crate::caller::call::AuthzRequest;
use crate::caller::find;
use crate::caller::policies::CallerPolicies;
use crate::dispatch::server_engine::JudgedTarget;
use crate::namespaces::TokenHome;
use crate::records::token::TokenHash;
use crate::view::NamespaceContext;
use crate::view::{CachedToken, Mount, View};

/// A request that was let in.
pub(crate) enum Admitted<'c, 'r> {
    /// It asked what any token may, and this is the answer.
    Answer(Result<Response, Error>),
    /// It may run.
    Call(AuthorizedCall<'c, 'r>),
    /// Its token has only so many uses; one has to be taken, whatever the verdict.
    Limited(Box<LimitedToken<'c, 'r>>),
}

/// A request of a token that has only so many uses, judged as the token was found.
pub(crate) struct LimitedToken<'c, 'r> {
    pub(crate) caller: CallerPolicies,
    pub(crate) verdict: Result<Admitted<'c, 'r>, Error>,
}

/// What there is to write down of a request when it was judged.
pub(crate) struct Judgement<'a> {
    /// What is mounted where it asks.
    pub(crate) mount: Option<&'a Mount>,
    /// The live token that it shows, and the view that has it.
    pub(crate) bearer: Option<(&'a CachedToken, &'a View)>,
    /// What it takes.
    pub(crate) capability: Capability,
    /// What the policies of the token say.
    pub(crate) decision: Option<PolicyDecision>,
    /// Whether it is refused already, unless anyone may ask.
    pub(crate) is_refused: bool,
}

/// What the policies of a token say of a request.
pub(crate) struct PolicyDecision {
    pub(crate) is_allowed: bool,
    /// The names of the policies that grant it.
    pub(crate) granted_by: Vec<String>,
}

/// Who is told what was found.
pub(crate) type FindingsRecord<'a> = &'a mut dyn FnMut(Judgement<'_>);

/// What a request is judged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JudgePurpose {
    /// To be answered.
    Answer,
    /// To be written down: what answers it, or refused it, is settled elsewhere.
    Record,
}

/// Authenticates and authorises a request, and tells `record` what was found.
///
/// # Errors
/// [`Error::Denied`].
pub(crate) fn judge<'c, 'r>(
    context: &Arc<NamespaceContext>,
    request: &'c Request<'r>,
    purpose: JudgePurpose,
    record: Option<FindingsRecord<'_>>,
) -> Result<Admitted<'c, 'r>, Error> {
    let found = context.view.mounts.route(request.path.as_str());
    let mount = found.as_ref().map(|(mount, _)| &**mount);
    let asked_by = |token| match &found {
        Some((mount, path)) => {
            AuthzRequest::below(JudgedTarget { view: &context.view, mount, path, token }, request)
        }
        None => AuthzRequest::unmounted(request),
    };
    let unknown = || Judgement {
        mount,
        bearer: None,
        capability: asked_by(None).capability(),
        decision: None,
        is_refused: request.token.is_some(),
    };
    let (above, below) = match context.home_of(request.token) {
        Ok(TokenHome::Here) => (None, String::new()),
        Ok(TokenHome::Above { context, below }) => (Some(context), below),
        Err(refusal) => return refuse(unknown, record, refusal),
    };
    let holder = above.as_ref().unwrap_or(context);
    let guard = holder.view.tokens.pin();
    let (hash, token) = match find_live(holder, request.token, request.now, &guard) {
        Ok(live) => live,
        Err(refusal) => return refuse(unknown, record, refusal),
    };
    let asked = asked_by(Some(&hash));
    let capability = asked.capability();
    // What a token grants below its own namespace is compiled for each request: it is what administrators of trees do.
    let bearing = || match &above {
        Some(holder) => CallerPolicies::from_above(holder, &below, hash, token, request.now),
        None => CallerPolicies::bearing(context, hash, token, request.now),
    };
    let caller = above.as_ref().map(|_| bearing());
    let granted;
    let acl = match &caller {
        Some(caller) => caller.as_ref().ok().map(CallerPolicies::acl),
        None => {
            granted = token.granted(&context.view, request.now);
            granted.as_ref().and_then(|compiled| compiled.acl())
        }
    };
    let mut granted_by = Vec::new();
    let notes = record.is_some();
    let decided = match acl {
        Some(acl) => authorize(context, token, acl, asked, |grant| {
            if notes {
                granted_by = names_of(grant);
            }
        }),
        None => Err(Error::Denied(Denial::BadToken)),
    };
    let is_for_any = any_token::is_for_any_token(request);
    let from_there = address::check(token.bound_cidrs(), request.remote);
    if let Some(record) = record {
        record(Judgement {
            mount,
            bearer: Some((token, &holder.view)),
            capability,
            decision: Some(PolicyDecision { is_allowed: decided.is_ok(), granted_by }),
            is_refused: from_there.is_err() || acl.is_none() || (decided.is_err() && !is_for_any),
        });
    }
    from_there?;
    if acl.is_none() {
        return Err(Error::Denied(Denial::BadToken));
    }
    let needs_caller = token.is_limited() || (is_for_any && purpose == JudgePurpose::Answer);
    if !needs_caller {
        return decided.map(Admitted::Call);
    }
    let caller = caller.unwrap_or_else(bearing)?;
    let for_any = match purpose {
        JudgePurpose::Answer if is_for_any => answer_any_token(context, request, &caller),
        JudgePurpose::Answer | JudgePurpose::Record => None,
    };
    let verdict = match for_any {
        Some(answer) => Ok(Admitted::Answer(answer)),
        None => decided.map(Admitted::Call),
    };
    if token.is_limited() {
        return Ok(Admitted::Limited(Box::new(LimitedToken { caller, verdict })));
    }
    verdict
}

fn refuse<'a, T>(
    found: impl FnOnce() -> Judgement<'a>,
    record: Option<FindingsRecord<'_>>,
    refusal: Error,
) -> Result<T, Error> {
    if let Some(record) = record {
        record(found());
    }
    Err(refusal)
}

/// The token of this namespace that is shown, if it is live; and its hash.
fn find_live<'g>(
    context: &NamespaceContext,
    text: Option<TokenText<'_>>,
    now: Timestamp,
    guard: &'g Guard,
) -> Result<(TokenHash, &'g CachedToken), Error> {
    let (hash, token) = find::find(&context.view, text, now, guard)?;
    if token.standing().is_expired(now) {
        return Err(Error::Denied(Denial::BadToken));
    }
    Ok((hash, token))
}

/// The token of this namespace that is shown, if it may be used now and from there; and its hash.
///
/// # Errors
/// [`Error::Denied`].
pub(crate) fn authenticate<'g>(
    context: &NamespaceContext,
    text: Option<TokenText<'_>>,
    remote: Option<SocketAddr>,
    now: Timestamp,
    guard: &'g Guard,
) -> Result<(TokenHash, &'g CachedToken), Error> {
    let (hash, token) = find_live(context, text, now, guard)?;
    address::check(token.bound_cidrs(), remote)?;
    Ok((hash, token))
}

/// Decides whether the bearer of a token, whose policies come to `acl`, may do what is asked. If so, `note` is told by which grant: `None` for a
/// root token, which needs none.
///
/// # Errors
/// [`Error::Denied`].
pub(crate) fn authorize<'c, 'r>(
    context: &NamespaceContext,
    token: &CachedToken,
    acl: &AclSet,
    asked: AuthzRequest<'c, 'r>,
    note: impl FnOnce(Option<AclGrant<'_>>),
) -> Result<AuthorizedCall<'c, 'r>, Error> {
    let now = asked.now;
    let decided = context
        .check_stale(acl)
        .and_then(|()| authorize_noting(token.standing(), acl, asked, now, note));
    decided.map_err(|Denied| Error::Denied(Denial::Policy))
}

/// The names of the policies of a grant.
pub(crate) fn names_of(grant: Option<AclGrant<'_>>) -> Vec<String> {
    match grant {
        Some(grant) => grant.policies().iter().map(|name| name.to_string()).collect(),
        None => vec![ROOT.to_owned()],
    }
}

/// What a record says that grants everything.
const ROOT: &str = "root";

/// Authorises a request of a caller that was found earlier.
///
/// # Errors
/// [`Error::Denied`].
pub(crate) fn authorize_caller<'c, 'r>(
    context: &NamespaceContext,
    caller: &CallerPolicies,
    request: &'c Request<'r>,
) -> Result<AuthorizedCall<'c, 'r>, Error> {
    let asked = AuthzRequest::new(request, &context.view, &caller.hash);
    let decided = context.check_stale(caller.acl()).and_then(|()| {
        kallisto_auth::authorize_by(caller.token(), caller.acl(), asked, request.now)
    });
    decided.map_err(|Denied| Error::Denied(Denial::Policy))
}

/// Answers what any token may ask; `None` for all else.
fn answer_any_token(
    context: &NamespaceContext,
    request: &Request<'_>,
    caller: &CallerPolicies,
) -> Option<Result<Response, Error>> {
    if let Err(Denied) = context.check_stale(caller.acl()) {
        return Some(Err(Error::Denied(Denial::Policy)));
    }
    any_token::for_any_token(context, request, caller)
}
