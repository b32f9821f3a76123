//! The door: the one way in.
//!
//! Order of a request: the unauthenticated family, then whether the server is unsealed, then who
//! asks, then whether they may, then the route. A refusal of who asks and one of whether they may
//! say the same to those without a right.

use std::sync::Arc;

use kallisto_auth::authorize;

use crate::error::{Denial, Error};
use crate::request::Request;
use crate::response::Response;
use crate::state::{Call, Core, Unsealed};
use crate::{kv, sys, token, token_routes};

impl Core {
    /// Answers one request.
    ///
    /// # Errors
    /// What the client may hear: see [`Error`].
    pub async fn handle(&self, request: &Request<'_>) -> Result<Response, Error> {
        if !matches!(request.namespace.trim_matches('/'), "" | "root") {
            return Err(Error::NoNamespace);
        }
        if let Some(path) = request.path.as_str().strip_prefix("sys/")
            && let Some(route) = sys::open_route(self, path, request)
        {
            return Box::pin(route.answer(self, request)).await;
        }
        let (unsealed, call) = {
            let unsealed = self.unsealed.load();
            let unsealed = unsealed.as_ref().ok_or(Error::Sealed)?;
            let call = admit(unsealed, request)?;
            if let Some(answer) = read(unsealed, &call) {
                return answer;
            }
            (Arc::clone(unsealed), call)
        };
        // Boxed, so that the future of a read, which never gets here, stays small.
        Box::pin(self.run(unsealed, call)).await
    }

    /// Runs what may have to wait.
    async fn run(&self, unsealed: Arc<Unsealed>, call: Call<'_, '_>) -> Result<Response, Error> {
        let path = call.path.as_str();
        if let Some(path) = path.strip_prefix("sys/") {
            return sys::handle(self, unsealed, &call, path).await;
        }
        match unsealed.view.mounts.route(path) {
            Some((mount, inside)) => kv::write(&unsealed, &call, &mount, inside).await,
            None => Err(Error::NoRoute(path.to_owned())),
        }
    }
}

/// Authenticates and authorises.
fn admit<'c, 'r>(unsealed: &Unsealed, request: &'c Request<'r>) -> Result<Call<'c, 'r>, Error> {
    let guard = unsealed.view.tokens.pin();
    let token = token::find(&unsealed.view, request.token, &guard)?;
    if token.is_expired(request.now) {
        return Err(Error::Denied(Denial::BadToken));
    }
    let call = authorize(token, request, request.now).map_err(|_| Error::Denied(Denial::Policy))?;
    if request.wrap_ttl_secs > 0 {
        return Err(Error::invalid("response wrapping is not available on this server"));
    }
    Ok(call)
}

/// Answers what needs no waiting; `None` for the rest.
fn read(unsealed: &Unsealed, call: &Call<'_, '_>) -> Option<Result<Response, Error>> {
    let path = call.path.as_str();
    if path.starts_with("sys/") {
        return None;
    }
    if let Some(path) = path.strip_prefix("auth/token/") {
        return Some(token_routes::handle(unsealed, call, path));
    }
    if call.operation.writes() {
        return None;
    }
    Some(match unsealed.view.mounts.route(path) {
        Some((mount, inside)) => kv::read(unsealed, call, &mount, inside),
        None => Err(Error::NoRoute(path.to_owned())),
    })
}
