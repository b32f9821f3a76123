//! What an engine is.

use std::fmt;

use kallisto_api::{BoxFuture, Error, Map};

use crate::call::Handler;
use crate::class::{BuiltinMount, Class, Multiplicity};
use crate::context::EngineContext;
use crate::lease::EngineLeases;
use crate::login::LoginMethod;
use crate::memory::Memory;
use crate::table::RouteRows;

/// An engine, whole.
#[derive(Clone, Copy)]
pub struct EngineSpec {
    /// Its type on the wire, and in the record of a mount.
    pub name: &'static str,
    /// What it is for.
    pub class: Class,
    /// How often it may be mounted.
    pub multiplicity: Multiplicity,
    /// Where every namespace has it, if the server itself mounts it.
    pub builtin: Option<BuiltinMount>,
    /// Whether a path inside a mount may end in a slash: an engine that keeps secrets by path knows folders.
    pub has_folders: bool,
    /// What it answers.
    pub routes: &'static RouteRows<Handler>,
    /// The folders whose names are compared without case, such as `role/`.
    pub caseless_folders: &'static [&'static str],
    /// Whether a request with a small body takes a moment only by what is decoded, where its row does not say that it does.
    pub light: Option<LightCheck>,
    /// The empty state of what it keeps decoded; `None` for an engine that keeps nothing.
    pub memory: Option<fn() -> Box<dyn Memory>>,
    /// What it does by the clock.
    pub jobs: &'static [EngineJob],
    /// How its leases end; `None` for an engine that hands out none.
    pub leases: Option<EngineLeases>,
    /// How its logins go on; `None` for an engine that is no login method.
    pub login: Option<LoginMethod>,
    /// Ends what an answer handed out that was never heard. Tokens and leases end by themselves.
    pub unheard: Option<Unheard>,
}

/// Whether a request at a path inside the mount takes a moment only, by what is decoded of the mount.
pub type LightCheck = fn(&dyn Memory, &str) -> bool;

/// What an engine does by the clock, for each of its mounts, on the server that leads.
#[derive(Clone, Copy)]
pub struct EngineJob {
    /// Its name among those of the engine: lower case and underscores.
    pub name: &'static str,
    /// A sentence.
    pub about: &'static str,
    /// Seconds between the starts of two runs.
    pub period_secs: u64,
    /// Does it. What is left over waits for the next run.
    pub run: for<'a> fn(EngineContext<'a>) -> BoxFuture<'a, Result<(), Error>>,
}

/// Ends what an answer of the engine handed out that was never heard; see [`UnheardCall`].
pub type Unheard = for<'a> fn(UnheardCall<'a>) -> BoxFuture<'a, Result<(), Error>>;

/// An answer that was lost after its handler had run: no audit device took its record, or it could not be wrapped.
#[derive(Clone, Copy, Debug)]
pub struct UnheardCall<'a> {
    /// What the engine may use.
    pub context: EngineContext<'a>,
    /// The path inside the mount.
    pub path: &'a str,
    /// The data of the answer.
    pub data: &'a Map,
}

impl EngineSpec {
    /// An engine for secrets with these routes, that has nothing else to say.
    pub const fn secret(name: &'static str, routes: &'static RouteRows<Handler>) -> Self {
        Self {
            name,
            class: Class::Secret,
            multiplicity: Multiplicity::Any,
            builtin: None,
            has_folders: false,
            routes,
            caseless_folders: &[],
            light: None,
            memory: None,
            jobs: &[],
            leases: None,
            login: None,
            unheard: None,
        }
    }

    /// A login method with these routes, that has nothing else to say.
    pub const fn login_method(
        name: &'static str,
        routes: &'static RouteRows<Handler>,
        login: LoginMethod,
    ) -> Self {
        Self { class: Class::Auth, login: Some(login), ..Self::secret(name, routes) }
    }
}

impl fmt::Debug for EngineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineSpec").field("name", &self.name).finish_non_exhaustive()
    }
}
