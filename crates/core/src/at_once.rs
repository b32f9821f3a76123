//! The short way of a read that memory answers.
//!
//! Nearly every request is one: a secret that is in the hot table, asked for by a token that may read it. Such
//! a request waits for nothing, so it needs none of what [`Core::handle`] has for those that do. Whatever
//! is not that simple (an audit device, a rate limit, a token with so many uses, a wrapped answer, a
//! path that is no secret's) is left alone, before anything was done, for [`Core::handle`].
//!
//! Requests that came together are answered together ([`AtOnce`]): what is the same for all of them is looked up once.
//!
//! Invariant: what is answered here is answered as [`Core::handle`] would have. Tests of the listener (`wire`)
//! ask both and compare.

use std::sync::Arc;

use kallisto_auth::Operation;
use kallisto_cuckoo::Guard;

use crate::asked::Shape;
use crate::door::{Admitted, admit_shaped, read};
use crate::error::Error;
use crate::mount::Class;
use crate::request::Request;
use crate::response::Response;
use crate::state::{Core, Unsealed};

/// Where the server's own routes are.
const SYSTEM: &str = "sys/";

/// Answers reads that wait for nothing, one after another.
///
/// While it lives, nothing that readers may see is freed: hold it for a few reads, and never while waiting.
pub struct AtOnce<'c> {
    core: &'c Core,
    unsealed: arc_swap::Guard<Option<Arc<Unsealed>>>,
    _pin: Guard,
}

impl Core {
    /// Begins with a few reads; `None` when all requests have to go the long way.
    pub fn at_once(&self) -> Option<AtOnce<'_>> {
        let unsealed = self.unsealed.load();
        let view = &unsealed.as_ref()?.view;
        // A path may lead into a namespace, which the long way settles first.
        if view.quotas.has_rules() || !view.namespaces.is_empty() {
            return None;
        }
        let pin = view.tokens.pin();
        Some(AtOnce { core: self, unsealed, _pin: pin })
    }

    /// Answers a read that waits for nothing; `None` for any other request, for which nothing was done.
    pub fn read_at_once(&self, request: &Request<'_>) -> Option<Result<Response, Error>> {
        self.at_once()?.read(request)
    }
}

impl AtOnce<'_> {
    /// Answers a read that waits for nothing; `None` for any other request, for which nothing was done.
    pub fn read(&self, request: &Request<'_>) -> Option<Result<Response, Error>> {
        self.answer(request, Shape::Whole)
    }

    /// The same for whoever wants a secret's fields and nothing else: they are the data of the answer.
    pub fn read_fields(&self, request: &Request<'_>) -> Option<Result<Response, Error>> {
        self.answer(request, Shape::Fields)
    }

    fn answer(&self, request: &Request<'_>, shape: Shape) -> Option<Result<Response, Error>> {
        let path = request.path.as_str();
        let is_simple = request.operation == Operation::Read
            && request.wrap_ttl_secs == 0
            && request.namespace.is_empty()
            && !path.starts_with(SYSTEM)
            && !path.starts_with(Class::Auth.prefix());
        if !is_simple || self.core.is_audited(request) {
            return None;
        }
        let unsealed = self.unsealed.as_ref()?;
        let answer = match admit_shaped(unsealed, request, shape) {
            Ok(Admitted::Call(call)) => read(unsealed, &call)?,
            Ok(Admitted::Answer(_) | Admitted::Limited(_)) => return None,
            Err(refusal) => Err(refusal),
        };
        self.core.metrics.answered(request.operation, &answer);
        Some(answer)
    }
}
