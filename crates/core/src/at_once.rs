//! The short way of a read that memory answers.
//!
//! Nearly every request is one: a secret that is in the hot table, asked for by a token that may read it. Such
//! a request waits for nothing, so it needs none of what [`Core::handle`] has for those that do. Whatever
//! is not that simple (an audit device, a rate limit, a token with so many uses, a wrapped answer, a
//! path that is no secret's) is left alone, before anything was done, for [`Core::handle`].
//!
//! Invariant: what is answered here is answered as [`Core::handle`] would have. Tests of the listener (`wire`)
//! ask both and compare.

use kallisto_auth::Operation;

use crate::door::{Admitted, admit, read};
use crate::error::Error;
use crate::mount::Class;
use crate::request::Request;
use crate::response::Response;
use crate::state::Core;

impl Core {
    /// Answers a read that waits for nothing; `None` for any other request, for which nothing was done.
    pub fn read_at_once(&self, request: &Request<'_>) -> Option<Result<Response, Error>> {
        let path = request.path.as_str();
        let is_simple = request.operation == Operation::Read
            && request.wrap_ttl_secs == 0
            && request.namespace.is_empty()
            && !path.starts_with(SYSTEM)
            && !path.starts_with(Class::Auth.prefix());
        if !is_simple || self.is_audited(request) {
            return None;
        }
        let unsealed = self.unsealed.load();
        let unsealed = unsealed.as_ref()?;
        // A path may lead into a namespace, which the long way settles first.
        if unsealed.view.quotas.has_rules() || !unsealed.view.namespaces.is_empty() {
            return None;
        }
        let answer = match admit(unsealed, request) {
            Ok(Admitted::Call(call)) => read(unsealed, &call)?,
            Ok(Admitted::Answer(_) | Admitted::Limited(_)) => return None,
            Err(refusal) => Err(refusal),
        };
        self.metrics.answered(request.operation, &answer);
        Some(answer)
    }
}

/// Where the server's own routes are.
const SYSTEM: &str = "sys/";
