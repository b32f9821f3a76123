//! An engine as the server drives it.
//!
//! An engine that is a crate of its own is an `EngineSpec` of the contract, which [`crate::engines::contract`] drives with what the contract gives it.
//! Those that are parts of the server (what is at `sys/`, tokens, identity) and those that were here before the contract are driven
//! with the server itself. The [`crate::registry`] lists both, and nothing else in the server knows which engines there are.

use std::future::ready;
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_engine::pattern::Params;
use kallisto_engine::route::{Creates, UpdateTarget};
use kallisto_engine::{Admits, Renewal, RoleTtl, Route, Routes};

use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Map;
use crate::api::request::Request;
use crate::api::response::LeaseHandle;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::dispatch::route_handler::AnyoneCall;
use crate::leases::lease_run::LeaseRun;
use crate::records::attribution::Author;
use crate::records::token::{TokenEntry, TokenHash};
use crate::state::Core;
use crate::storage::latches::{BusyLatch, HeldLatches};
use crate::view::{Mount, NamespaceContext, RunChanges, View};

/// A request that runs, where it runs.
pub(crate) struct RunningRequest<'a> {
    pub(crate) core: &'a Core,
    /// Handed on, not shared: a request that seals lets go of the keys, and must not wait for itself.
    pub(crate) context: Arc<NamespaceContext>,
    pub(crate) call: &'a AuthorizedCall<'a, 'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
}

/// Where something is recovered from.
pub(crate) struct RecoverSource {
    /// The namespace as the loaded snapshot has it.
    pub(crate) there: Arc<NamespaceContext>,
    /// The path there, from the namespace; `None` for that of the request.
    pub(crate) path: Option<String>,
}

/// Where a request is for, as the decision about it looks it up.
#[derive(Clone, Copy)]
pub(crate) struct JudgedTarget<'a> {
    pub(crate) view: &'a View,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
    /// The token that asks, if there is one.
    pub(crate) token: Option<&'a TokenHash>,
}

/// A write that came together with others, of a caller who may.
pub(crate) struct JoiningWrite<'a> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) call: &'a AuthorizedCall<'a, 'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
    /// What those change that joined before it.
    pub(crate) changes: &'a mut RunChanges,
    /// Their latches.
    pub(crate) held: &'a mut HeldLatches,
    /// Who writes, once that was asked.
    pub(crate) author: &'a mut Option<Author>,
}

/// What a write is that can be committed together with others.
pub(crate) enum JoinAnswer {
    /// What it changes is among the changes of the run; its latch is held.
    Joined,
    /// Somebody else writes what it changes; nothing was done.
    Busy(BusyLatch),
}

/// A request without a token, where it runs.
#[derive(Clone, Copy)]
pub(crate) struct OpenRun<'a> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) request: &'a Request<'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
}

/// A renewal that is asked for.
pub(crate) struct RenewalRequest<'a, 'r> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) request: &'a Request<'r>,
    /// The method that made the token.
    pub(crate) mount: &'a Mount,
    /// The path of its login, inside the mount.
    pub(crate) path: &'a str,
    /// The token.
    pub(crate) entry: &'a TokenEntry,
}

/// What an answer was to tell, to the engine that gave it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnheardAnswer<'a> {
    /// Its data.
    pub(crate) data: &'a Map,
    /// Its lease.
    pub(crate) lease: Option<&'a LeaseHandle>,
    /// When the request came.
    pub(crate) since: Timestamp,
}

/// What answers, or is about to.
pub(crate) type EngineAnswer<'a> = BoxFuture<'a, Result<Response, Error>>;

/// An engine.
pub(crate) trait ServerEngine: Sync {
    /// What it answers.
    fn routes(&self) -> &'static dyn Routes;

    /// Answers what needs no waiting; `None` for the rest, and where a secret longer than `secret_bytes_max` has to be read.
    fn read_fast(
        &self,
        _secret_bytes_max: usize,
        _unsealed: &NamespaceContext,
        _call: &AuthorizedCall<'_, '_>,
        _mount: &Mount,
        _path: &str,
    ) -> Option<Result<Response, Error>> {
        None
    }

    /// What a write changes that can be committed together with others, where its answer tells nothing but that it is done. `None` where it would be
    /// refused, has to wait, or takes long, and for everything else that goes its own way: then nothing was done.
    fn join(&self, _joining: JoiningWrite<'_>) -> Option<JoinAnswer> {
        None
    }

    /// Runs a request of a caller who may.
    fn handle<'a>(&self, run: RunningRequest<'a>) -> EngineAnswer<'a>;

    /// The route of a path inside a mount, if it takes no token: a login, which takes a proof of who asks instead, or what anyone may ask.
    fn open_route(&self, path: &str) -> Option<&'static Route> {
        let routes = self.routes();
        let found = if routes.has_open() { routes.find(path) } else { None };
        found.filter(|route| route.admits == Admits::Anyone)
    }

    /// Whether a path inside a mount has an [`ServerEngine::open_route`].
    fn is_open(&self, path: &str) -> bool {
        self.open_route(path).is_some()
    }

    /// Runs a request at a path that [`ServerEngine::is_open`].
    fn handle_open<'a>(&self, _run: OpenRun<'a>) -> EngineAnswer<'a> {
        Box::pin(ready(Err(Error::UnsupportedPath)))
    }

    /// Refuses to renew a token whose login would not be good any more. `None` where its tokens are of no login.
    fn check_renewal<'a>(
        &self,
        _renewal: RenewalRequest<'a, 'a>,
    ) -> BoxFuture<'a, Result<Option<Renewal>, Error>> {
        Box::pin(ready(Ok(None)))
    }

    /// Whether a login names a role that a rate limit can be for.
    fn has_roles(&self) -> bool {
        false
    }

    /// The role by which a request would log in; `None` when it names none. Nothing is proven by it.
    fn role_of(&self, _login: &OpenRun<'_>, _fields: Fields<'_>) -> Option<String> {
        None
    }

    /// Whether nothing is there yet where an update writes, which takes the capability `create`. It only looks into memory: the caller is not
    /// known to have any right.
    fn creates(&self, update: JudgedTarget<'_>) -> bool {
        let JudgedTarget { mount, path, token, .. } = update;
        let found = self.routes().may_create(path).then(|| self.routes().find(path));
        let Some(route) = found.flatten() else { return false };
        let Creates::Record(record_of) = route.creates else { return false };
        let target = UpdateTarget { params: Params::new(route.pattern, path), token };
        record_of(&target).is_some_and(|record| !mount.index.contains(&record))
    }

    /// Answers anyone at a route of the server itself, which may be sealed.
    fn answer_anyone<'a>(&self, _path: &str, _call: AnyoneCall<'a>) -> EngineAnswer<'a> {
        Box::pin(ready(Err(Error::UnsupportedPath)))
    }

    /// Answers a request of a caller with a valid token; `None` where policies have to allow it.
    fn answer_any_token(
        &self,
        _path: &str,
        _context: &NamespaceContext,
        _request: &Request<'_>,
        _caller: &CallerPolicies,
    ) -> Option<Result<Response, Error>> {
        None
    }

    /// Whether a request with a small body takes a moment only, and may be answered by those who answer reads.
    fn is_light(&self, weighed: &Weighed<'_>) -> bool;

    /// Whether what it keeps can be read and recovered from a loaded snapshot.
    fn has_snapshots(&self) -> bool {
        false
    }

    /// Makes what is at a path what it was in a loaded snapshot.
    fn recover<'a>(&self, _run: RunningRequest<'a>, _from: RecoverSource) -> EngineAnswer<'a> {
        Box::pin(ready(Err(Error::UnsupportedOperation)))
    }

    /// Ends what an answer handed out that was never heard.
    fn end_unheard<'a>(
        &self,
        _unsealed: &'a NamespaceContext,
        _mount: &'a Mount,
        _path: &'a str,
        _told: UnheardAnswer<'a>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(ready(Ok(())))
    }

    /// Takes back a credential that it handed out with a lease; one that is not there is a success.
    fn revoke_lease<'a>(&self, _run: LeaseRun<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(ready(Err(no_leases())))
    }

    /// Lets a credential that it handed out with a lease live until `end`.
    fn renew_lease<'a>(
        &self,
        _run: LeaseRun<'a>,
        _end: Timestamp,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(ready(Err(no_leases())))
    }

    /// What the role of such a credential says of lifetimes by now.
    fn role_ttl(&self, _run: &LeaseRun<'_>) -> Result<RoleTtl, Error> {
        Err(no_leases())
    }
}

/// What an engine says that hands nothing out, of a lease that names it.
pub(crate) fn no_leases() -> Error {
    Error::invalid("the engine of the mount hands out no leases")
}

/// A request whose weight is asked.
pub(crate) struct Weighed<'a> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) request: &'a Request<'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
    /// Whether it lists.
    pub(crate) lists: bool,
    /// Whether its answer is written down.
    pub(crate) is_audited: &'a dyn Fn() -> bool,
}
