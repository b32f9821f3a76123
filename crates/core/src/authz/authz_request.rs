//! A request as the decision sees it.

use crate::caller::call::AnswerShape;
use crate::caller::call::AuthzRequest;

use kallisto_auth::{Capability, Operation};

use crate::api::request::Request;
use crate::caller::spelling;
use crate::dispatch::server_engine::JudgedTarget;
use crate::records::token::TokenHash;
use crate::registry;
use crate::view::View;

impl<'c, 'r> AuthzRequest<'c, 'r> {
    /// A request of `token` for what is below a mount of `view`, if there is one.
    pub(crate) fn new(request: &'c Request<'r>, view: &View, token: &TokenHash) -> Self {
        match view.mounts.route(request.path.as_str()) {
            Some((mount, path)) => {
                Self::below(JudgedTarget { view, mount: &mount, path, token: Some(token) }, request)
            }
            None => Self::unmounted(request),
        }
    }

    /// A request for a path at which nothing is mounted.
    pub(crate) const fn unmounted(request: &'c Request<'r>) -> Self {
        Self {
            request,
            capability: request.operation.capability(),
            needs_sudo: false,
            shape: AnswerShape::Whole,
            caseless: None,
        }
    }

    /// A request for a path inside a mount. Looks up whether a write would create what it writes, where the engine can tell.
    pub(crate) fn below(target: JudgedTarget<'_>, request: &'c Request<'r>) -> Self {
        let JudgedTarget { mount, path, .. } = target;
        Self {
            request,
            capability: capability_below(target, request.operation),
            needs_sudo: registry::driver(mount.entry.kind)
                .routes()
                .needs_sudo(request.operation, path),
            shape: AnswerShape::Whole,
            caseless: spelling::caseless_below(mount, path, request.path.as_str()),
        }
    }

    /// The same for an answer of another shape. It is judged as the whole is.
    pub(crate) fn shaped(self, shape: AnswerShape) -> Self {
        Self { shape, ..self }
    }

    pub(crate) const fn shape(&self) -> AnswerShape {
        self.shape
    }
}

/// The capability that `operation` takes at a path inside a mount: where nothing is stored yet, a write takes `create` and no `update`.
pub(crate) fn capability_below(target: JudgedTarget<'_>, operation: Operation) -> Capability {
    let engine = registry::driver(target.mount.entry.kind);
    if operation == Operation::Update && engine.creates(target) {
        Capability::Create
    } else {
        operation.capability()
    }
}

/// Whether `operation` at `path` takes `sudo` besides its capability.
pub(crate) fn needs_sudo(operation: Operation, path: &str, view: &View) -> bool {
    let found = view.mounts.route(path);
    found.is_some_and(|(mount, inside)| {
        registry::driver(mount.entry.kind).routes().needs_sudo(operation, inside)
    })
}
