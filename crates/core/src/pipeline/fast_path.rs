//! The short way of a read that memory answers.
//!
//! Nearly every request is one: a secret that is in the hot table, asked for by a token that may read it; or a list of revoked
//! certificates or an answer of OCSP, which anyone may ask for and which the row of its route finds in memory. Such
//! a request waits for nothing, so it needs none of what [`Core::handle`] has for those that do. Whatever
//! is not that simple (a rate limit, a token with so many uses, a wrapped answer, a question for help, a long secret, a path that
//! is no secret's) is left alone, before anything was done, for [`Core::handle`].
//!
//! With an audit device the answer is there at once too, but may not leave before it was written down: what is to
//! be written is gathered ([`AuditBatch`]), and whoever asked has it written before the answers are sent.
//!
//! Requests that came together are answered together: what is the same for all of them ([`FastReads`]), and for all
//! of one token ([`FastPathCaller`]), is looked up once. What each asks is judged by itself.
//!
//! Invariant: what is answered here is answered as [`Core::handle`] would have. Tests of the listener (`wire`)
//! ask both and compare.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_auth::{AclGrant, Operation, Subject as _};
use kallisto_cuckoo::Guard;
use kallisto_engine::Class;

use crate::api::error::{Denial, Error};
use crate::api::json::member;
use crate::api::request::{Request, TokenText};
use crate::api::response::Response;
use crate::authz::judge::{Judgement, PolicyDecision, authenticate, authorize, names_of};
use crate::caller::call::{AnswerShape, AuthorizedCall, AuthzRequest};
use crate::caller::spelling::SYSTEM;
use crate::dispatch::server_engine::JudgedTarget;
use crate::limits::{LIGHT_BODY_BYTES_MAX, LIGHT_SECRET_BYTES_MAX};
use crate::pipeline::audit::{AlikeFields, AuditBatch, GatheringDevices};
use crate::pipeline::compute::is_heavy_to_judge;
use crate::pipeline::stages::{NextStep, read_at_once};
use crate::records::engine_kind::EngineKind;
use crate::registry;
use crate::state::Core;
use crate::view::NamespaceContext;
use crate::view::policies::Compiled;
use crate::view::{CachedToken, Mount};

/// Answers reads that wait for nothing, one after another.
///
/// While it lives, nothing that readers may see is freed: hold it for a few reads, and never while waiting.
pub struct FastReads<'c> {
    core: &'c Core,
    context: arc_swap::Guard<Option<Arc<NamespaceContext>>>,
    pin: Guard,
}

/// Who asks for a few reads that came together, found once.
pub struct FastPathCaller<'a> {
    pub(super) core: &'a Core,
    pub(super) context: &'a Arc<NamespaceContext>,
    token: &'a CachedToken,
    granted: arc_swap::Guard<Option<Arc<Compiled>>>,
    /// The mount of the first of them, and so most likely of them all.
    mount: OnceCell<Arc<Mount>>,
    /// What the records of the last of them said.
    alike: Cell<Option<AlikeReads>>,
}

/// What the records of granted reads say of them but for their ids and paths, and what these reads have in common.
struct AlikeReads {
    fields: AlikeFields,
    mount: Arc<Mount>,
    /// The names of the policies that grant them.
    granted_by: Vec<String>,
}

/// Where the records of a read go.
struct Gathering<'g> {
    gathered: &'g mut AuditBatch,
    /// At which it is written down.
    devices: GatheringDevices,
    /// The shape that its answer will have.
    shape: AnswerShape,
}

impl Core {
    /// Begins with a few reads; `None` when all requests have to go the long way.
    pub fn fast_reads(&self) -> Option<FastReads<'_>> {
        let context = self.context.load();
        let opened = context.as_ref()?;
        let view = &opened.view;
        // A path may lead into a namespace, which the long way settles first.
        if view.quotas.has_rules() || !view.namespaces.is_empty() {
            return None;
        }
        // After the requests came: one that finds the view too old hears so the long way.
        if !opened.is_fresh() {
            return None;
        }
        let pin = view.tokens.pin();
        Some(FastReads { core: self, context, pin })
    }

    /// Answers a read that waits for nothing; `None` for any other request, for which nothing was done. If it joined
    /// those in `gathered`, its answer may leave when they are written.
    pub fn read_fast(
        &self,
        request: &Request<'_>,
        gathered: &mut AuditBatch,
    ) -> Option<Result<Response, Error>> {
        if !is_simple(request) {
            return None;
        }
        let reads = self.fast_reads()?;
        match reads.bearer(request.token, request.remote, request.now)? {
            Ok(bearer) => bearer.answer(request, AnswerShape::Whole, gathered),
            // A request of nobody is written down the long way.
            Err(_) if self.is_audited(request) => None,
            Err(refusal) => {
                let begin = self.metrics.routes.is_on().then(|| self.services.timers.now());
                let answer = match reads.read_open(request) {
                    None => Err(refusal),
                    Some(found) => Ok(found?),
                };
                if let Some(begin) = begin {
                    self.note_route(request, begin);
                }
                self.metrics.answered(request.operation, &answer);
                Some(answer)
            }
        }
    }
}

impl FastReads<'_> {
    /// Reads what anyone may read: `None` where a token is asked for, and nothing found where that goes the long way, since it has to be made or is refused.
    fn read_open(&self, request: &Request<'_>) -> Option<Option<Response>> {
        let context = self.context.as_ref().map(|context| &**context);
        match self.core.find_open(context, request)? {
            NextStep::Open(open) => Some(open.read_at_once(request.now)),
            _ => Some(None),
        }
    }

    /// Finds who asks with `token` from `remote`; `None` when its reads have to go the long way.
    ///
    /// # Errors
    /// [`Error::Denied`] when nobody does: no such token, or not from there.
    pub fn bearer(
        &self,
        token: Option<TokenText<'_>>,
        remote: Option<SocketAddr>,
        now: Timestamp,
    ) -> Option<Result<FastPathCaller<'_>, Error>> {
        let context = self.context.as_ref()?;
        let token = match authenticate(context, token, remote, now, &self.pin) {
            Ok((_, token)) if token.is_limited() => return None,
            // Its policies are compiled beside the workers.
            Ok((_, token)) if is_heavy_to_judge(&context.view, token, now) => return None,
            Ok((_, token)) => token,
            Err(refusal) => return Some(Err(refusal)),
        };
        let granted = token.granted(&context.view, now);
        let mount = OnceCell::new();
        let alike = Cell::default();
        Some(Ok(FastPathCaller { core: self.core, context, token, granted, mount, alike }))
    }
}

impl FastPathCaller<'_> {
    /// What is mounted at `path`, which ends in a slash.
    pub fn engine_at(&self, path: &str) -> Option<EngineKind> {
        let mount = self.context.view.mounts.at(path)?;
        let kind = mount.entry.kind;
        // Another one may be known already; each is found by its path.
        let _ = self.mount.set(mount);
        Some(kind)
    }

    /// Answers a read that waits for nothing, with a secret's fields and nothing else for data; `None` for any other
    /// request, for which nothing was done. The request has this bearer's token, address and time: they are not looked
    /// at again. If it joined those in `gathered`, its answer may leave when they are written.
    pub fn read_fields(
        &self,
        request: &Request<'_>,
        gathered: &mut AuditBatch,
    ) -> Option<Result<Response, Error>> {
        if is_simple(request) { self.answer(request, AnswerShape::Fields, gathered) } else { None }
    }

    fn answer(
        &self,
        request: &Request<'_>,
        shape: AnswerShape,
        gathered: &mut AuditBatch,
    ) -> Option<Result<Response, Error>> {
        if !self.core.metrics.routes.is_on() {
            return self.answer_now(request, shape, gathered);
        }
        let begin = self.core.services.timers.now();
        let answer = self.answer_now(request, shape, gathered)?;
        self.core.note_route(request, begin);
        Some(answer)
    }

    fn answer_now(
        &self,
        request: &Request<'_>,
        shape: AnswerShape,
        gathered: &mut AuditBatch,
    ) -> Option<Result<Response, Error>> {
        if self.core.is_audited(request) {
            let devices = self.core.gathering_devices(gathered)?;
            let gathering = Some(Gathering { gathered, devices, shape });
            let answer =
                self.judge(request, AnswerShape::Whole, LIGHT_BODY_BYTES_MAX, gathering)?;
            return Some(match shape {
                AnswerShape::Whole => answer,
                AnswerShape::Fields => answer.map(|whole| self.fields_of(request, whole)),
            });
        }
        let answer = self.judge(request, shape, LIGHT_SECRET_BYTES_MAX, None)?;
        self.core.metrics.answered(request.operation, &answer);
        Some(answer)
    }

    /// The fields alone of an answer that was written down whole.
    fn fields_of(&self, request: &Request<'_>, answer: Response) -> Response {
        let mount = self.route(request.path.as_str());
        let has_versions = mount.is_some_and(|(mount, _)| mount.entry.kind.has_versions());
        match answer {
            Response::Logical(mut logical) if has_versions => {
                logical.data = member(&logical.data, "data").unwrap_or_default().to_vec();
                Response::Logical(logical)
            }
            other => other,
        }
    }

    /// Authorises and answers a read of at most so many bytes, and adds its records to what is gathered.
    fn judge(
        &self,
        request: &Request<'_>,
        shape: AnswerShape,
        bytes_max: usize,
        gathering: Option<Gathering<'_>>,
    ) -> Option<Result<Response, Error>> {
        let (mount, inside) = self.route(request.path.as_str())?;
        let mount: &Arc<Mount> = &mount;
        let engine = registry::driver(mount.entry.kind);
        // A token that is shown is not looked at there.
        if let Some(route) = engine.open_route(inside) {
            let is_whole = shape == AnswerShape::Whole && gathering.is_none();
            let answer = is_whole.then(|| read_at_once(mount, inside, route, request.now));
            return answer.flatten().map(Ok);
        }
        // A read makes nothing, whoever asks.
        let target = JudgedTarget { view: &self.context.view, mount, path: inside, token: None };
        let asked = AuthzRequest::below(target, request).shaped(shape);
        let capability = asked.capability();
        let is_audited = gathering.is_some();
        // Of a protocol without headers, which could be in a record.
        let has_headers = gathering.as_ref().is_none_or(|told| told.shape == AnswerShape::Whole);
        let is_bare = request.query.is_empty() && !has_headers;
        // Taken out: it is put back below, if it is still what such a read says.
        let alike = if is_audited && is_bare { self.alike.take() } else { None };
        let mut alike = alike.filter(|alike| Arc::ptr_eq(&alike.mount, mount));
        let mut granted_by = Vec::new();
        let decided = self.authorize(asked, |grant| {
            alike.take_if(|alike| !is_by(grant, &alike.granted_by));
            if is_audited && alike.is_none() {
                granted_by = names_of(grant);
            }
        });
        let is_allowed = decided.is_ok();
        let answer = match decided {
            Ok(call) => engine.read_fast(bytes_max, self.context, &call, mount, inside)?,
            Err(refusal) => Err(refusal),
        };
        let Some(Gathering { gathered, devices, .. }) = gathering else { return Some(answer) };
        if let Some(mut alike) = alike.filter(|_| is_allowed) {
            let fields = &mut alike.fields;
            let place = (gathered, &devices);
            let answer = self.core.gather_alike(mount, request, place, fields, answer)?;
            self.alike.set(Some(alike));
            return Some(answer);
        }
        let kept = (is_allowed && is_bare).then(|| granted_by.clone());
        let judgement = Judgement {
            mount: Some(mount),
            bearer: Some((self.token, &self.context.view)),
            capability,
            decision: Some(PolicyDecision { is_allowed, granted_by }),
            is_refused: !is_allowed,
        };
        let place = (gathered, devices);
        let (answer, fields) = self.core.gather(self.context, request, place, judgement, answer)?;
        if let Some(granted_by) = kept {
            self.alike.set(Some(AlikeReads { fields, mount: Arc::clone(mount), granted_by }));
        }
        Some(answer)
    }

    /// Decides whether this bearer may do what is asked; see [`authorize`].
    ///
    /// # Errors
    /// [`Error::Denied`].
    pub(super) fn authorize<'c, 'r>(
        &self,
        asked: AuthzRequest<'c, 'r>,
        note: impl FnOnce(Option<AclGrant<'_>>),
    ) -> Result<AuthorizedCall<'c, 'r>, Error> {
        match self.granted.as_ref().and_then(|compiled| compiled.acl()) {
            Some(acl) => authorize(self.context, self.token, acl, asked, note),
            None => Err(Error::Denied(Denial::BadToken)),
        }
    }

    /// What is mounted where a path leads, and the path inside.
    pub(super) fn route<'p>(&self, path: &'p str) -> Option<(Cow<'_, Arc<Mount>>, &'p str)> {
        // Mounts do not nest, so a path that starts with a mount's is that mount's.
        if let Some(known) = self.mount.get()
            && let Some(inside) = path.strip_prefix(&*known.entry.path)
        {
            return Some((Cow::Borrowed(known), inside));
        }
        let (mount, inside) = self.context.view.mounts.route(path)?;
        let _ = self.mount.set(Arc::clone(&mount));
        Some((Cow::Owned(mount), inside))
    }
}

/// Whether these are the names of the policies of a grant.
fn is_by(grant: Option<AclGrant<'_>>, names: &[String]) -> bool {
    match grant {
        Some(grant) => grant.policies().iter().map(|name| &***name).eq(names.iter()),
        None => *names == names_of(None),
    }
}

/// Whether a request is for a secret as it is.
fn is_simple(request: &Request<'_>) -> bool {
    // All fields are named, so that whoever adds one decides whether such a request is simple still.
    let Request {
        operation,
        path,
        namespace,
        wrap_ttl_secs,
        // Asked below for what makes a request another one; handlers read the rest.
        query: _,
        // Who asks, and when, is judged here as there.
        token: _,
        remote: _,
        now: _,
        // Handlers and audit records take these from the request.
        id: _,
        headers: _,
        // No read takes these.
        body: _,
        body_kind: _,
        client_chain: _,
    } = request;
    let path = path.as_str();
    *operation == Operation::Read
        && *wrap_ttl_secs == 0
        && namespace.is_empty()
        && request.read_snapshot().is_none()
        && !request.asks_help()
        && !path.starts_with(SYSTEM)
        && !path.starts_with(Class::Auth.prefix())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::tests::request;

    #[test]
    fn a_read_of_a_secret_as_it_is_takes_the_short_way_and_no_other_request() {
        let read = |path| request(None, Operation::Read, path, "");
        let asking = |name: &str| vec![(name.to_owned(), "1".to_owned())];
        assert!(is_simple(&read("secret/data/a")));
        assert!(is_simple(&Request { query: asking("version"), ..read("secret/data/a") }));
        for other in [
            request(None, Operation::List, "secret/metadata", ""),
            request(None, Operation::Update, "secret/data/a", "{}"),
            Request { wrap_ttl_secs: 60, ..read("secret/data/a") },
            Request { namespace: "team", ..read("secret/data/a") },
            Request { query: asking("read_snapshot_id"), ..read("secret/data/a") },
            Request { query: asking("help"), ..read("secret/data/a") },
            read("sys/mounts"),
            read("auth/token/lookup-self"),
        ] {
            assert!(!is_simple(&other), "{:?} {}", other.operation, other.path.as_str());
        }
    }
}
