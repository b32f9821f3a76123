//! A request as the decision sees it.

use std::ops::Deref;
use std::time::Duration;

use kallisto_auth::{Capability, Literal, Operation, Path, Subject};

use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::pipeline::spelling;
use crate::view::{Mount, View};

/// What of a secret an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All that the API has it show.
    Whole,
    /// Its fields alone, for protocols that have no place for anything else.
    Fields,
}

/// A request with what the server had to look up to judge it.
#[derive(Debug)]
pub(crate) struct AuthzRequest<'c, 'r> {
    request: &'c Request<'r>,
    capability: Capability,
    needs_sudo: bool,
    shape: Shape,
    caseless: Option<Box<str>>,
}

impl<'c, 'r> AuthzRequest<'c, 'r> {
    /// A request for what is below a mount of `view`, if there is one.
    pub(crate) fn new(request: &'c Request<'r>, view: &View) -> Self {
        match view.mounts.route(request.path.as_str()) {
            Some((mount, inside)) => Self::below(&mount, inside, request),
            None => Self::unmounted(request),
        }
    }

    /// A request for a path at which nothing is mounted.
    pub(crate) const fn unmounted(request: &'c Request<'r>) -> Self {
        Self {
            request,
            capability: request.operation.capability(),
            needs_sudo: false,
            shape: Shape::Whole,
            caseless: None,
        }
    }

    /// A request for `inside` of a mount. Looks up whether a write would create what it writes, where the engine can tell.
    pub(crate) fn below(mount: &Mount, inside: &str, request: &'c Request<'r>) -> Self {
        Self {
            request,
            capability: capability_below(mount, inside, request.operation),
            needs_sudo: mount.entry.kind.engine().routes().needs_sudo(request.operation, inside),
            shape: Shape::Whole,
            caseless: spelling::caseless_below(mount, inside, request.path.as_str()),
        }
    }

    /// The same for an answer of another shape. It is judged as the whole is.
    pub(crate) fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    pub(crate) const fn shape(&self) -> Shape {
        self.shape
    }
}

/// The capability that `operation` takes at `inside` of a mount: where nothing is stored yet, a write takes `create` and no `update`.
pub(crate) fn capability_below(mount: &Mount, inside: &str, operation: Operation) -> Capability {
    if operation == Operation::Update && mount.entry.kind.engine().creates(mount, inside) {
        Capability::Create
    } else {
        operation.capability()
    }
}

/// Whether `operation` at `path` takes `sudo` besides its capability.
pub(crate) fn needs_sudo(operation: Operation, path: &str, view: &View) -> bool {
    let found = view.mounts.route(path);
    found.is_some_and(|(mount, inside)| {
        mount.entry.kind.engine().routes().needs_sudo(operation, inside)
    })
}

impl Subject for AuthzRequest<'_, '_> {
    fn operation(&self) -> Operation {
        self.request.operation
    }

    fn path(&self) -> &Path<'_> {
        &self.request.path
    }

    fn caseless_path(&self) -> Option<&str> {
        self.caseless.as_deref()
    }

    fn capability(&self) -> Capability {
        self.capability
    }

    fn needs_sudo(&self) -> bool {
        self.needs_sudo
    }

    fn wrap_ttl(&self) -> Option<Duration> {
        let secs = self.request.wrap_ttl_secs;
        (secs > 0).then(|| Duration::from_secs(secs))
    }

    fn page_entries(&self) -> Option<u64> {
        let limit = self.request.query.iter().find(|(name, _)| name == "limit")?;
        // Below zero or no number at all: more than any rule lets pass.
        Some(limit.1.parse().unwrap_or(u64::MAX))
    }

    fn parameters(&self) -> Option<Vec<(String, Literal)>> {
        let map: Map = match self.request.operation {
            Operation::Update | Operation::Patch => self.request.object().ok()?,
            Operation::Read | Operation::Delete | Operation::List | Operation::Scan => {
                self.request.query_fields()
            }
        };
        Some(map.iter().map(|(name, value)| (name.clone(), literal(value))).collect())
    }
}

/// The same value in the decision's terms; as deep as JSON may nest.
fn literal(value: &Json) -> Literal {
    match value {
        Json::Null => Literal::Null,
        Json::Bool(value) => Literal::Bool(*value),
        Json::Number(text) => Literal::Number(text.to_string()),
        Json::String(text) => Literal::Text(text.clone()),
        Json::Array(items) => Literal::List(items.iter().map(literal).collect()),
        Json::Object(map) => {
            Literal::Map(map.iter().map(|(name, value)| (name.clone(), literal(value))).collect())
        }
    }
}

impl<'r> Deref for AuthzRequest<'_, 'r> {
    type Target = Request<'r>;

    fn deref(&self) -> &Request<'r> {
        self.request
    }
}
