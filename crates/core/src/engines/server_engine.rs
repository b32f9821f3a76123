//! An engine as the server drives it.
//!
//! An engine that is a crate of its own is an `EngineSpec` of the contract, which [`super::contract`] drives with what the contract gives it.
//! Those that are parts of the server (what is at `sys/`, tokens, identity) and those that were here before the contract are driven
//! with the server itself. The [`crate::registry`] lists both, and nothing else in the server knows which engines there are.

use crate::storage::keys::MountId;
use crate::tokens::TokenEntry;
use std::future::ready;
use std::sync::Arc;

use jiff::Timestamp;
use kallisto_engine::{Admits, Class, EngineJob, Multiplicity, Routes};

use crate::api::BoxFuture;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::engines::kv::KvState;
use crate::leases::far_end::LeaseRun;
use crate::pipeline::state::{Call, Core, NamespaceContext};
use crate::pipeline::unheard::Unheard;
use crate::view::{Memory, Mount};

/// What every engine says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineFacts {
    /// In the record of a mount.
    pub(crate) stored: &'static str,
    /// On the wire.
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    pub(crate) multiplicity: Multiplicity,
    /// The folders whose names are compared without case.
    pub(crate) caseless_folders: &'static [&'static str],
    /// Whether space around such a name is none of it.
    pub(crate) trims_names: bool,
    /// Where every namespace has it, if the server itself mounts it.
    pub(crate) builtin: Option<BuiltinMount>,
    /// Whether a path inside a mount may end in a slash: an engine that keeps secrets by path knows folders.
    pub(crate) has_folders: bool,
}

impl EngineFacts {
    /// An engine that operators mount.
    pub(crate) const fn mountable(name: &'static str, class: Class) -> Self {
        Self {
            stored: name,
            name,
            class,
            multiplicity: Multiplicity::Any,
            caseless_folders: &[],
            trims_names: false,
            builtin: None,
            has_folders: false,
        }
    }

    /// An engine that the server itself mounts.
    pub(crate) const fn builtin(name: &'static str, class: Class, mount: BuiltinMount) -> Self {
        let multiplicity = Multiplicity::Builtin;
        Self { multiplicity, builtin: Some(mount), ..Self::mountable(name, class) }
    }
}

/// Where every namespace has an engine from the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltinMount {
    pub(crate) id: MountId,
    /// Its path, with an ending slash.
    pub(crate) path: &'static str,
    /// For people.
    pub(crate) description: &'static str,
}

/// A request that runs, where it runs.
pub(crate) struct Run<'a> {
    pub(crate) core: &'a Core,
    /// Handed on, not shared: a request that seals lets go of the keys, and must not wait for itself.
    pub(crate) unsealed: Arc<NamespaceContext>,
    pub(crate) call: &'a Call<'a, 'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
}

/// A request without a token, where it runs.
#[derive(Clone, Copy)]
pub(crate) struct OpenRun<'a> {
    pub(crate) unsealed: &'a NamespaceContext,
    pub(crate) request: &'a Request<'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
}

/// A renewal that is asked for.
pub(crate) struct Renewal<'a, 'r> {
    pub(crate) unsealed: &'a NamespaceContext,
    pub(crate) request: &'a Request<'r>,
    /// The method that made the token.
    pub(crate) mount: &'a Mount,
    /// The path of its login, inside the mount.
    pub(crate) path: &'a str,
    /// The token.
    pub(crate) entry: &'a TokenEntry,
}

/// What answers, or is about to.
pub(crate) type Answer<'a> = BoxFuture<'a, Result<Response, Error>>;

/// An engine.
pub(crate) trait ServerEngine: Sync {
    /// What it says of itself.
    fn facts(&self) -> EngineFacts;

    /// What it answers.
    fn routes(&self) -> &'static dyn Routes;

    /// Answers what needs no waiting; `None` for the rest, and where a secret longer than `secret_bytes_max` has to be read.
    fn read_fast(
        &self,
        _secret_bytes_max: usize,
        _unsealed: &NamespaceContext,
        _call: &Call<'_, '_>,
        _mount: &Mount,
        _path: &str,
    ) -> Option<Result<Response, Error>> {
        None
    }

    /// Runs a request of a caller who may.
    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a>;

    /// Whether a path inside a mount takes no token: a login, which takes a proof of who asks instead, or what anyone may ask.
    fn is_open(&self, path: &str) -> bool {
        let routes = self.routes();
        routes.has_open() && routes.find(path).is_some_and(|route| route.admits == Admits::Anyone)
    }

    /// Runs a request at a path that [`ServerEngine::is_open`].
    fn handle_open<'a>(&self, _run: OpenRun<'a>) -> Answer<'a> {
        Box::pin(ready(Err(Error::UnsupportedPath)))
    }

    /// Refuses to renew a token whose login would not be good any more.
    fn check_renewal(&self, _renewal: &Renewal<'_, '_>) -> Result<(), Error> {
        Ok(())
    }

    /// Whether a login names a role that a rate limit can be for.
    fn has_roles(&self) -> bool {
        false
    }

    /// The role by which a request would log in; `None` when it names none. Nothing is proven by it.
    fn role_of(&self, _login: &OpenRun<'_>, _fields: Fields<'_>) -> Option<String> {
        None
    }

    /// Whether nothing is there yet where an update writes, which takes the capability `create`.
    fn creates(&self, _mount: &Mount, _path: &str) -> bool {
        false
    }

    /// What it does by the clock at each of its mounts, on the server that leads.
    fn jobs(&self) -> &'static [EngineJob] {
        &[]
    }

    /// The empty state of what it keeps decoded.
    fn memory(&self) -> Memory {
        Memory::None
    }

    /// Whether a request with a small body takes a moment only, and may be answered by those who answer reads.
    fn is_light(&self, weighed: &Weighed<'_>) -> bool;

    /// Ends what an answer handed out that was never heard.
    fn end_unheard<'a>(
        &self,
        _unsealed: &'a NamespaceContext,
        _mount: &'a Mount,
        _path: &'a str,
        _told: Unheard<'a>,
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

    /// How the secrets of a key-value engine are kept; `None` for all others.
    fn kv(&self) -> Option<KvState> {
        None
    }
}

/// What an engine says that hands nothing out, of a lease that names it.
pub(super) fn no_leases() -> Error {
    Error::invalid("the engine of the mount hands out no leases")
}

/// A request whose weight is asked.
pub(crate) struct Weighed<'a> {
    pub(crate) unsealed: &'a NamespaceContext,
    pub(crate) request: &'a Request<'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
    /// Whether it lists.
    pub(crate) lists: bool,
    /// Whether its answer is written down.
    pub(crate) is_audited: &'a dyn Fn() -> bool,
}
