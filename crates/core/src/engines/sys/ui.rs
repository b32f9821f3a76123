//! What every token may ask: `sys/internal/ui/mounts`, which the `kv` commands and the web page ask
//! first, and help.

use std::sync::Arc;

use crate::api::error::{Denial, Error};
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::policies::CallerPolicies;
use crate::state::Core;
use crate::view::Mount;
use crate::view::NamespaceContext;
use kallisto_engine::Class;

/// The mount that serves `path`, for a command that needs to know its version.
pub(super) fn preflight(
    context: &NamespaceContext,
    path: &str,
    caller: &CallerPolicies,
) -> Result<Response, Error> {
    let folder = format!("{path}/");
    let found = context.view.mounts.route(&folder);
    let Some((mount, _)) = found.filter(|(mount, _)| caller.reaches(&mount.entry.path)) else {
        return Err(Error::Denied(Denial::Preflight(path.to_owned())));
    };
    let mut data = mount.entry.to_wire();
    data.insert("path".into(), mount.entry.path.as_str().into());
    Ok(Response::data(&data.into()))
}

/// Every mount that the caller can reach anything of.
pub(super) fn all_mounts(context: &NamespaceContext, caller: &CallerPolicies) -> Response {
    let all = context.view.mounts.all();
    let reached = all.iter().filter(|mount| caller.reaches(&mount.entry.path));
    reply(reached.map(|mount| (mount, mount.entry.to_wire())))
}

/// What the caller's policies come to, as the web page asks.
pub(super) fn resultant_acl(caller: &CallerPolicies) -> Response {
    if caller.is_root() {
        return Response::data(&Json::object([("root", true.into())]));
    }
    let (mut exact, mut glob) = (Map::new(), Map::new());
    for rule in caller.acl().rules() {
        let capabilities = Json::strings(rule.capabilities.names());
        let entry = Json::object([("capabilities", capabilities)]);
        match rule.pattern.strip_suffix('*') {
            Some(prefix) => glob.insert(prefix.to_owned(), entry),
            None => exact.insert(rule.pattern.clone(), entry),
        };
    }
    Response::data(&Json::object([
        ("root", false.into()),
        ("exact_paths", exact.into()),
        ("glob_paths", glob.into()),
    ]))
}

/// What a login page may show: mounts listed as `unauth`, reduced to their kind.
pub(super) fn public_mounts(core: &Core, request: &Request<'_>) -> Result<Response, Error> {
    let context = core.namespace_context(request.namespace)?;
    let all = context.view.mounts.all();
    let public = all.iter().filter(|mount| mount.entry.config.listing_visibility == "unauth");
    Ok(reply(public.map(|mount| {
        let mut entry = mount.entry.to_wire();
        entry.retain(|name, _| matches!(name.as_str(), "type" | "description" | "options"));
        (mount, entry)
    })))
}

fn reply<'a>(mounts: impl Iterator<Item = (&'a Arc<Mount>, Map)>) -> Response {
    let (mut secret, mut auth) = (Map::new(), Map::new());
    for (mount, entry) in mounts {
        let listing = match mount.entry.kind.class() {
            Class::Secret => &mut secret,
            Class::Auth => &mut auth,
        };
        listing.insert(mount.entry.shown_path().to_owned(), entry.into());
    }
    Response::data(&Json::object([("auth", auth.into()), ("secret", secret.into())]))
}
