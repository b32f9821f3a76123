//! What drives each engine: the one place that knows an engine by its kind.
//!
//! Which engines there are is said in [`records::engine_kind`](crate::records::engine_kind). Those that know the server by its contract
//! alone are in the [`EngineSet`](crate::EngineSet) of the program, and drive themselves.

use std::sync::LazyLock;

use kallisto_engine::{Body, Route, Routes};

use crate::caller::spelling::SYSTEM;
use crate::dispatch::server_engine::ServerEngine;
use crate::engines::identity::IdentityEngine;
use crate::engines::kv::KvEngine;
use crate::engines::sys::System;
use crate::records::engine_kind::{EngineKind, EngineSource, KvState, ServerEngineKind};
use crate::tokens::TokenEngine;

/// What drives an engine.
pub(crate) fn driver(kind: EngineKind) -> &'static dyn ServerEngine {
    match kind.source() {
        EngineSource::Contract(spec) => spec,
        EngineSource::Server(ServerEngineKind::System) => &System,
        EngineSource::Server(ServerEngineKind::Identity) => &IdentityEngine,
        EngineSource::Server(ServerEngineKind::Token) => &TokenEngine,
        EngineSource::Server(ServerEngineKind::Kv(KvState::V1)) => &KvEngine(KvState::V1),
        EngineSource::Server(ServerEngineKind::Kv(KvState::V2)) => &KvEngine(KvState::V2),
        EngineSource::Server(ServerEngineKind::Kv(KvState::Upgrading)) => {
            &KvEngine(KvState::Upgrading)
        }
    }
}

/// The tables of the engines that every namespace has from the start, by where they are.
static BUILTIN: LazyLock<Vec<(&'static str, &'static dyn Routes)>> = LazyLock::new(|| {
    let base = |kind: EngineKind| kind.facts().builtin.map(|mount| mount.path);
    EngineKind::all().filter_map(|kind| Some((base(kind)?, driver(kind).routes()))).collect()
});

/// The row of a route that is at the same place in every namespace; `None` for paths of what operators mount, and for those that no row
/// serves. Such a route is known before the namespace is, and while the server is sealed.
pub(crate) fn builtin_route(path: &str) -> Option<&'static Route> {
    let path = path.strip_suffix('/').unwrap_or(path);
    BUILTIN.iter().find_map(|(base, routes)| routes.find(path.strip_prefix(base)?))
}

/// The routes for which no rate limit holds unless somebody says otherwise, by path.
pub(crate) fn unlimited_paths() -> Vec<String> {
    let of = |(base, routes): &(&str, &'static dyn Routes)| {
        let unlimited = routes.routes().filter(|route| !route.is_limited);
        unlimited.map(|route| format!("{base}{}", route.pattern)).collect::<Vec<_>>()
    };
    let mut paths: Vec<String> = BUILTIN.iter().flat_map(of).collect();
    paths.sort_unstable();
    paths
}

/// Whether operators see by a path how the server is, or open and close it.
pub fn is_for_operators(path: &str) -> bool {
    path.starts_with(SYSTEM) && builtin_route(path).is_some_and(|route| route.is_for_operators)
}

/// Whether what is sent to a path is a file, taken in as it comes.
pub fn takes_upload(path: &str) -> bool {
    builtin_route(path).is_some_and(|route| route.body == Body::Upload)
}
