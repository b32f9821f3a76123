//! `sys/plugins/*`: the engines, which are all built in.
//!
//! Clients look them up before they mount one, and ask that one be loaded anew after they changed what it
//! runs; here nothing can be registered, removed or exchanged while the server runs, so the first tells
//! what there is and the second has nothing to do.

use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::Json;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::random;
use crate::records::engine_kind::EngineKind;
use crate::view::NamespaceContext;
use kallisto_engine::Class;

const ENGINE_VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"), "+builtin.kallisto");

/// Every engine there is, with its class, sorted.
fn engines() -> Vec<(&'static str, &'static str)> {
    let kind = |class: Class| match class {
        Class::Auth => "auth",
        Class::Secret => "secret",
    };
    let mut engines: Vec<_> =
        EngineKind::catalog().map(|(name, class)| (kind(class), name)).collect();
    engines.sort_unstable();
    engines
}

fn names(engines: &[(&str, &str)], wanted: &str) -> Json {
    Json::strings(engines.iter().filter(|(kind, _)| *kind == wanted).map(|(_, name)| *name))
}

/// `sys/plugins/catalog`: the engines that are built in; there are no others.
pub(in crate::engines::sys) fn catalog() -> Response {
    let engines = engines();
    let detailed = engines.iter().map(|(kind, name)| described(kind, name));
    Response::data(&Json::object([
        ("auth", names(&engines, "auth")),
        ("database", Json::Array(Vec::new())),
        ("secret", names(&engines, "secret")),
        ("detailed", Json::Array(detailed.collect())),
    ]))
}

/// The names of the engines of a type.
pub(in crate::engines::sys) fn of_type(wanted: &str) -> Result<Response, Error> {
    if !matches!(wanted, "auth" | "secret" | "database") {
        return Err(Error::invalid("unknown plugin type: it must be auth, secret or database"));
    }
    Ok(Response::data(&Json::object([("keys", names(&engines(), wanted))])))
}

pub(in crate::engines::sys) fn read(kind: &str, name: &str) -> Result<Response, Error> {
    let is_known = engines().contains(&(kind, name));
    if is_known { Ok(Response::data(&plugin(name))) } else { Err(Error::NotFound) }
}

pub(in crate::engines::sys) fn register() -> Result<Response, Error> {
    Err(Error::invalid("plugins cannot be registered: every engine is built in"))
}

pub(in crate::engines::sys) fn remove() -> Result<Response, Error> {
    Err(Error::invalid("built-in engines cannot be removed"))
}

fn described(kind: &str, name: &str) -> Json {
    Json::object([
        ("builtin", true.into()),
        ("deprecation_status", "supported".into()),
        ("name", name.into()),
        ("type", kind.into()),
        ("version", ENGINE_VERSION.into()),
    ])
}

fn plugin(name: &str) -> Json {
    Json::object([
        ("args", Json::Null),
        ("builtin", true.into()),
        ("command", "".into()),
        ("deprecation_status", "supported".into()),
        ("name", name.into()),
        ("sha256", "".into()),
        ("version", ENGINE_VERSION.into()),
    ])
}

/// `sys/plugins/reload/backend`: checks what is named, and has nothing to load.
pub(in crate::engines::sys) fn reload(
    context: &NamespaceContext,
    call: &AuthorizedCall<'_, '_>,
) -> Result<Response, Error> {
    let body = call.object()?;
    let fields = Fields::new(&body);
    let plugin = fields.string("plugin")?.filter(|name| !name.is_empty());
    let mounts = fields.strings("mounts")?.unwrap_or_default();
    match (plugin, &mounts[..]) {
        (None, []) => return Err(Error::invalid("plugin or mounts must be provided")),
        (Some(_), [_, ..]) => {
            return Err(Error::invalid("plugin and mounts cannot be set at the same time"));
        }
        (Some(plugin), []) if !EngineKind::catalog().any(|(name, _)| name == plugin) => {
            return Err(Error::invalid(format!("plugin not found in the catalog: {plugin:?}")));
        }
        _ => {}
    }
    let is_missing = |path: &&String| {
        context.view.mounts.at(&format!("{}/", path.trim_end_matches('/'))).is_none()
    };
    if let Some(path) = mounts.iter().find(is_missing) {
        return Err(Error::invalid(format!(
            "1 error occurred:\n\t* cannot fetch mount entry on {path:?}\n\n"
        )));
    }
    Ok(Response::data(&Json::object([("reload_id", random::make_uuid()?.into())])))
}
