//! The door: the one way in.
//!
//! Order of a request: the unauthenticated family, then whether there is a cluster to ask, then who
//! asks, then whether they may, then the route. A refusal of who asks and one of whether they may
//! say the same to those without a right.

use kallisto_auth::authorize;

use crate::error::{Denial, Error};
use crate::request::Request;
use crate::response::Response;
use crate::state::{Call, Core};
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
        let path = request.path.as_str();
        let sys_path = path.strip_prefix("sys/");
        if let Some(answer) = sys_path.and_then(|path| sys::unauthenticated(self, path, request)) {
            return answer;
        }
        if self.view.cluster().is_none() {
            return Err(Error::Sealed);
        }
        let call = self.admit(request)?;
        if request.wrap_ttl_secs > 0 {
            return Err(Error::invalid("response wrapping is not available on this server"));
        }
        if let Some(path) = sys_path {
            return Box::pin(sys::handle(self, &call, path)).await;
        }
        if let Some(path) = path.strip_prefix("auth/token/") {
            return token_routes::handle(self, &call, path);
        }
        match self.view.mounts.route(path) {
            // A write waits for its commit; boxing it keeps the future of a read small.
            Some((mount, inside)) if call.operation.writes() => {
                Box::pin(kv::write(self, &call, &mount, inside)).await
            }
            Some((mount, inside)) => kv::read(self, &call, &mount, inside),
            None => Err(Error::NoRoute(path.to_owned())),
        }
    }

    /// Authenticates and authorises.
    fn admit<'c, 'r>(&self, request: &'c Request<'r>) -> Result<Call<'c, 'r>, Error> {
        let guard = self.view.tokens.pin();
        let token = token::find(&self.view, request.token, &guard)?;
        if token.is_expired(request.now) {
            return Err(Error::Denied(Denial::BadToken));
        }
        authorize(token, request, request.now).map_err(|_| Error::Denied(Denial::Policy))
    }
}
