//! What runs for a route of an engine that is driven with the server itself.
//!
//! Such an engine has a [`RouteTable`]: a row says everything of a route, and what runs for each of its operations. So an operation
//! is answered where the table has it and nowhere else, and what it has not is refused by the table.

use std::sync::Arc;

use kallisto_engine::{Params, RouteRows};

use super::server_engine::{EngineAnswer, RunningRequest};
use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::state::Core;
use crate::view::Mount;
use crate::view::NamespaceContext;

/// The routes of an engine, and what runs for them.
pub(crate) type RouteTable = RouteRows<RouteHandler>;

/// What runs for one operation of a route, by who asks. Which there are is what the route admits ([`kallisto_engine::Admits`]).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RouteHandler {
    authorized: Option<AuthorizedHandler>,
    any_token: Option<AnyToken>,
    anyone: Option<Anyone>,
    /// Answers what `authorized` does, where nothing has to be waited for.
    now: Option<Now>,
}

type AuthorizedHandler = for<'a> fn(RouteCall<'a>) -> EngineAnswer<'a>;
type AnyToken = fn(AnyTokenCall<'_>) -> Option<Result<Response, Error>>;
type Anyone = for<'a> fn(AnyoneCall<'a>) -> EngineAnswer<'a>;
type Now = fn(ReadCall<'_>, Params<'_>) -> Option<Result<Response, Error>>;

/// A request of a caller who may, at a route.
pub(crate) struct RouteCall<'a> {
    pub(crate) core: &'a Core,
    /// Handed on, not shared: a request that seals lets go of the keys, and must not wait for itself.
    pub(crate) context: Arc<NamespaceContext>,
    pub(crate) call: &'a AuthorizedCall<'a, 'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
    pub(crate) params: Params<'a>,
}

/// A read of a caller who may, to be answered at once.
#[derive(Clone, Copy)]
pub(crate) struct ReadCall<'a> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) call: &'a AuthorizedCall<'a, 'a>,
    pub(crate) mount: &'a Mount,
    /// The path inside the mount.
    pub(crate) path: &'a str,
    /// The longest secret that may be read.
    pub(crate) secret_bytes_max: usize,
}

/// A request of a caller with a valid token, whatever its policies, at a route.
pub(crate) struct AnyTokenCall<'a> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) request: &'a Request<'a>,
    pub(crate) caller: &'a CallerPolicies,
    pub(crate) params: Params<'a>,
}

/// A request of anyone at a route of the server itself, which may be sealed.
pub(crate) struct AnyoneCall<'a> {
    pub(crate) core: &'a Core,
    pub(crate) request: &'a Request<'a>,
}

impl RouteHandler {
    const NONE: Self = Self { authorized: None, any_token: None, anyone: None, now: None };

    /// Runs for a caller whose policies allow it.
    pub(crate) const fn authorized(run: AuthorizedHandler) -> Self {
        Self { authorized: Some(run), ..Self::NONE }
    }

    /// Runs for a caller whose policies allow it: `now` where that is enough, or `run`.
    pub(crate) const fn reading(now: Now, run: AuthorizedHandler) -> Self {
        Self { authorized: Some(run), now: Some(now), ..Self::NONE }
    }

    /// Runs for anyone, on a server that may be sealed.
    pub(crate) const fn anyone(run: Anyone) -> Self {
        Self { anyone: Some(run), ..Self::NONE }
    }

    /// Runs for a caller with a valid token, unless it says that policies have to allow it.
    pub(crate) const fn any_token(run: AnyToken) -> Self {
        Self { any_token: Some(run), ..Self::NONE }
    }

    /// The same, and what runs for anyone where the route admits them.
    pub(crate) const fn or_anyone(self, run: Anyone) -> Self {
        Self { anyone: Some(run), ..self }
    }

    /// The same, and what runs for a caller with a valid token.
    pub(crate) const fn or_any_token(self, run: AnyToken) -> Self {
        Self { any_token: Some(run), ..self }
    }

    /// Who it runs for: those whose policies allow it, any valid token, anyone.
    #[cfg(test)]
    pub(crate) const fn runs_for(&self) -> (bool, bool, bool) {
        (self.authorized.is_some(), self.any_token.is_some(), self.anyone.is_some())
    }
}

/// Runs an authorised request by the row that serves it.
///
/// # Errors
/// What the table says of a path or an operation it has not, and what the handler says.
pub(crate) fn answer<'a>(table: &RouteTable, run: RunningRequest<'a>) -> EngineAnswer<'a> {
    let RunningRequest { core, context, call, mount, path } = run;
    let found = table.dispatch(call.operation, path);
    let found = found.and_then(|found| {
        let authorized = found.handler.authorized.ok_or(Error::UnsupportedOperation)?;
        Ok((authorized, found.params))
    });
    match found {
        Ok((authorized, params)) => {
            authorized(RouteCall { core, context, call, mount, path, params })
        }
        Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
    }
}

/// Answers a read of a caller who may by the row that serves it; `None` where the row has nothing that answers at once, or that
/// does not now.
pub(crate) fn answer_now(
    table: &RouteTable,
    read: ReadCall<'_>,
) -> Option<Result<Response, Error>> {
    match table.dispatch(read.call.operation, read.path) {
        Ok(found) => found.handler.now.and_then(|now| now(read, found.params)),
        Err(refusal) => Some(Err(refusal)),
    }
}

/// Runs a request of anyone at a route of the server itself.
///
/// # Errors
/// What the table says of a path or an operation it has not, and what the handler says.
pub(crate) fn answer_anyone<'a>(
    table: &RouteTable,
    path: &str,
    call: AnyoneCall<'a>,
) -> EngineAnswer<'a> {
    let found = table.dispatch(call.request.operation, path);
    match found.and_then(|found| found.handler.anyone.ok_or(Error::UnsupportedOperation)) {
        Ok(anyone) => anyone(call),
        Err(refusal) => at_once(|| Err(refusal)),
    }
}

/// Answers a request of a caller with a valid token; `None` where policies have to allow it.
pub(crate) fn answer_any_token(
    table: &RouteTable,
    path: &str,
    context: &NamespaceContext,
    request: &Request<'_>,
    caller: &CallerPolicies,
) -> Option<Result<Response, Error>> {
    let found = table.dispatch(request.operation, path).ok()?;
    let params = found.params;
    found.handler.any_token?(AnyTokenCall { context, request, caller, params })
}

/// The answer of what waits for nothing.
pub(crate) fn at_once<'a>(answer: impl FnOnce() -> Result<Response, Error>) -> EngineAnswer<'a> {
    Box::pin(std::future::ready(answer()))
}

/// What runs for a caller whose policies allow it: `runs!(|run| ..)` for what answers at once, `runs!(async |run| ..)` for
/// what waits. `run` is a [`RouteCall`].
macro_rules! runs {
    (async |$run:ident| $body:expr) => {
        $crate::dispatch::route_handler::RouteHandler::authorized(|$run| {
            ::std::boxed::Box::pin(async move { $body })
        })
    };
    (|$run:ident| $body:expr) => {
        $crate::dispatch::route_handler::RouteHandler::authorized(|$run| {
            $crate::dispatch::route_handler::at_once(move || $body)
        })
    };
}

/// What runs for anyone on a server that may be sealed, as [`runs!`]. `run` is an [`AnyoneCall`].
macro_rules! anyone {
    (async |$run:ident| $body:expr) => {
        $crate::dispatch::route_handler::RouteHandler::anyone(|$run| {
            ::std::boxed::Box::pin(async move { $body })
        })
    };
    (|$run:ident| $body:expr) => {
        $crate::dispatch::route_handler::RouteHandler::anyone(|$run| {
            $crate::dispatch::route_handler::at_once(move || $body)
        })
    };
}

/// What runs for a caller with a valid token. `run` is an [`AnyTokenCall`], and the body may decline by `None`.
macro_rules! any_token {
    (|$run:ident| $body:expr) => {
        $crate::dispatch::route_handler::RouteHandler::any_token(|$run| $body)
    };
}

pub(crate) use {any_token, anyone, runs};
