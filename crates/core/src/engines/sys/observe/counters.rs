//! Small tables about the server: its versions, engines, tokens, settings.

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::state::Core;
use crate::state::versions;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// `sys/version-history`: the versions that served this storage, each with the one before it.
pub(in crate::engines::sys) fn versions(context: &NamespaceContext) -> Result<Response, Error> {
    let history = versions::history(context)?;
    let mut previous = Json::Null;
    let mut info = Map::new();
    for installed in &history {
        let described = Json::object([
            ("build_date", installed.build_date.as_str().into()),
            ("commit_date", installed.build_date.as_str().into()),
            ("previous_version", previous),
            ("timestamp_installed", installed.at.to_string().into()),
        ]);
        info.insert(installed.version.clone(), described);
        previous = installed.version.as_str().into();
    }
    let names = Json::strings(history.iter().map(|installed| installed.version.as_str()));
    Ok(Response::data(&Json::object([("keys", names), ("key_info", info.into())])))
}

/// `sys/replication/status`: there are no clusters that follow others.
pub(in crate::engines::sys) fn replication() -> Response {
    let disabled = || Json::object([("mode", "disabled".into())]);
    Response::data(&Json::object([("dr", disabled()), ("performance", disabled())]))
}

/// `sys/internal/counters/tokens`.
pub(in crate::engines::sys) fn tokens(context: &NamespaceContext) -> Response {
    let (tokens, _) = context.view.tokens.counts();
    counted("service_tokens", tokens as u64)
}

/// `sys/internal/counters/entities`.
pub(in crate::engines::sys) fn entities(context: &NamespaceContext) -> Response {
    let mount = context.view.mounts.with_id(MountId::IDENTITY);
    let entities = mount.as_ref().and_then(|mount| mount.memory.directory());
    counted("entities", entities.map_or(0, |directory| directory.entity_count() as u64))
}

fn counted(name: &str, total: u64) -> Response {
    let total = Json::object([("total", total.into())]);
    Response::data(&Json::object([("counters", Json::object([(name, total)]))]))
}

/// `sys/config/state/sanitized`: what the server runs with, without a secret.
pub(in crate::engines::sys) fn configuration(core: &Core) -> Response {
    let info = &core.info;
    let seal = core.auto_seal.as_ref().map_or("shamir", |seal| seal.name());
    let settings = [
        ("api_addr", info.api_addr.as_deref().unwrap_or_default().into()),
        ("cluster_addr", info.cluster_addr.as_deref().unwrap_or_default().into()),
        ("cluster_name", info.cluster_name.as_deref().unwrap_or_default().into()),
        ("cache_size", (info.hot_bytes_max as u64).into()),
        ("default_lease_ttl", info.leases.default_secs.into()),
        ("max_lease_ttl", info.leases.max_secs.into()),
        ("disable_cache", false.into()),
        ("enable_ui", info.serves_ui.into()),
        ("raw_storage_endpoint", false.into()),
        (
            "seals",
            Json::Array(vec![Json::object([("disabled", false.into()), ("type", seal.into())])]),
        ),
        (
            "storage",
            Json::object([
                ("type", info.storage_type.as_str().into()),
                ("cluster_addr", info.cluster_addr.as_deref().unwrap_or_default().into()),
            ]),
        ),
    ];
    let all = settings.into_iter().chain(info.shown_settings.iter().cloned());
    let all: Map = all.map(|(name, value)| (name.to_owned(), value)).collect();
    Response::data(&Json::Object(all))
}
