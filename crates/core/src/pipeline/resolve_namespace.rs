//! Which namespace a request is for.
//!
//! The header and the path are one absolute path, joined here and nowhere else; the deepest namespace
//! that it is in serves, by what is left of it. So `GET team/kv/data/a`, and `GET kv/data/a` with the
//! header `team`, are one request. A header has to name a namespace whole: it never reaches into a mount.
//!
//! The path gets its one [`spelling`] here as well, with and without namespaces.

use std::sync::Arc;

use kallisto_auth::Path;
use kallisto_engine::Scope;

use crate::api::error::Error;
use crate::api::request::Request;
use crate::caller::spelling::{self, SYSTEM};
use crate::registry;
use crate::state::Core;
use crate::view::NamespaceContext;

/// A request's namespace, and its path there.
pub(crate) struct Placed {
    /// From the root namespace, with an ending slash; empty for that one.
    namespace: String,
    path: Path<'static>,
    /// The keys are in use for as long as a request runs.
    _root: Option<Arc<NamespaceContext>>,
}

/// Settles which namespace a request is for, and how its path is spelled; `None` for one that is as it has to be.
///
/// # Errors
/// [`Error::NoNamespace`], [`Error::Sealed`], [`Error::Invalid`] for a route that no namespace has or a path that
/// is none or may not be written to, [`Error::Unavailable`] for a locked namespace.
pub(crate) fn resolve(core: &Core, request: &Request<'_>) -> Result<Option<Placed>, Error> {
    let header = request.namespace.trim_matches('/');
    let header = if header == "root" { "" } else { header };
    let path = &*spelling::canonical(request.operation, request.path.as_str())?;
    if header.is_empty() {
        let context = core.context.load();
        if context.as_ref().is_none_or(|root| root.view.namespaces.is_empty()) {
            return at_root(request, path);
        }
    }
    if is_of_server(path) {
        return at_root(request, path);
    }
    if !header.is_empty() {
        check_route(path)?;
        if Path::literal(header).is_err() {
            return Err(Error::NoNamespace);
        }
    }
    let root = core.context.load_full().ok_or(Error::Sealed)?;
    let names_none = request.namespace.is_empty();
    let own = if names_none && is_about_caller(path) { own_of(&root, request) } else { None };
    let header = own.as_deref().unwrap_or(header);
    let absolute = match header {
        "" => path.to_owned(),
        header => format!("{header}/{path}"),
    };
    checked(&absolute)?;
    let Some(space) = root.view.namespaces.around(&absolute) else {
        return if header.is_empty() { at_root(request, path) } else { Err(Error::NoNamespace) };
    };
    let namespace = &space.namespace.path;
    if namespace.len() <= header.len() || space.context(&root).is_none() {
        return Err(Error::NoNamespace);
    }
    // A path that led in here may begin with `sys/` only now.
    let inner = &*spelling::canonical(request.operation, &absolute[namespace.len()..])?;
    check_route(inner)?;
    check_locks(&root, namespace, inner)?;
    let path = checked(inner)?.into_owned();
    Ok(Some(Placed { namespace: namespace.clone(), path, _root: Some(root) }))
}

/// The path of the namespace that the token which asks is marked with, without its slash.
fn own_of(root: &NamespaceContext, request: &Request<'_>) -> Option<String> {
    let (_, mark) = request.token?.expose().rsplit_once('.')?;
    let space = root.view.namespaces.with_id(mark)?;
    space.namespace.path.strip_suffix('/').map(str::to_owned)
}

/// The request in the root namespace, by `path`; `None` when it says so already.
fn at_root(request: &Request<'_>, path: &str) -> Result<Option<Placed>, Error> {
    if request.namespace.is_empty() && request.path.as_str().len() == path.len() {
        return Ok(None);
    }
    let path = checked(path)?.into_owned();
    Ok(Some(Placed { namespace: String::new(), path, _root: None }))
}

fn checked(path: &str) -> Result<Path<'_>, Error> {
    Path::literal(path).map_err(|error| Error::invalid(error.to_string()))
}

/// Refuses what only the root namespace has below `sys/`, and what nobody has.
fn check_route(path: &str) -> Result<(), Error> {
    if !path.starts_with(SYSTEM) {
        return Ok(());
    }
    match registry::builtin_route(path).map(|route| route.scope) {
        Some(Scope::Namespace) => Ok(()),
        Some(Scope::Root | Scope::Server) => {
            Err(Error::invalid("operation unavailable in namespaces"))
        }
        None => Err(Error::UnsupportedPath),
    }
}

/// Whether a route is about the server itself, whatever namespace a request names.
fn is_of_server(path: &str) -> bool {
    path.starts_with(SYSTEM)
        && registry::builtin_route(path).is_some_and(|route| route.scope == Scope::Server)
}

/// Whether a route is about the token that asks.
pub(crate) fn is_about_caller(path: &str) -> bool {
    registry::builtin_route(path).is_some_and(|route| route.is_about_caller)
}

/// Whether a locked namespace answers at a path.
fn answers_while_locked(path: &str) -> bool {
    registry::builtin_route(path).is_some_and(|route| route.answers_while_locked)
}

/// Refuses what is in a locked namespace, but to unlock it.
fn check_locks(root: &NamespaceContext, namespace: &str, inner: &str) -> Result<(), Error> {
    for (at, _) in namespace.match_indices('/') {
        let above = &namespace[..=at];
        let space = root.view.namespaces.at(above);
        if space.is_none_or(|space| space.namespace.lock.is_none()) {
            continue;
        }
        if above == namespace && answers_while_locked(inner) {
            continue;
        }
        return Err(Error::Unavailable(format!(
            "API access to this namespace has been locked by an administrator - \"{above}\" must be \
             unlocked to gain access."
        )));
    }
    Ok(())
}

impl Placed {
    /// The request as its namespace sees it.
    pub(crate) fn request<'p>(&'p self, request: &Request<'p>) -> Request<'p> {
        Request {
            id: request.id,
            operation: request.operation,
            path: self.path.clone(),
            namespace: &self.namespace,
            token: request.token,
            query: request.query.clone(),
            body: request.body,
            body_kind: request.body_kind,
            wrap_ttl_secs: request.wrap_ttl_secs,
            now: request.now,
            remote: request.remote,
            client_chain: request.client_chain,
            headers: request.headers,
        }
    }
}
