//! A request as the decision sees it, and one that may run.

use std::ops::Deref;
use std::time::Duration;

use kallisto_auth::{Authorized, Capability, Literal, Operation, Path, Subject};

use crate::api::json::{Json, Map};
use crate::api::request::Request;

/// What of a secret an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerShape {
    /// All that the API has it show.
    Whole,
    /// Its fields alone, for protocols that have no place for anything else.
    Fields,
}

/// A request with what the server had to look up to judge it.
#[derive(Debug)]
pub(crate) struct AuthzRequest<'c, 'r> {
    pub(crate) request: &'c Request<'r>,
    pub(crate) capability: Capability,
    pub(crate) needs_sudo: bool,
    pub(crate) shape: AnswerShape,
    pub(crate) caseless: Option<Box<str>>,
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
        match self.request.sole_in_query("limit") {
            // As many as there may be, as 0 is.
            Ok(Some("" | "max")) => Some(0),
            // Below zero or no number at all: more than any rule lets pass.
            Ok(limit) => Some(limit?.parse().unwrap_or(u64::MAX)),
            Err(_) => Some(u64::MAX),
        }
    }

    fn parameters(&self) -> Option<Vec<(String, Literal)>> {
        let map: Map = match self.request.operation {
            Operation::Update | Operation::Patch | Operation::Recover => {
                self.request.object().ok()?
            }
            Operation::Read | Operation::Delete | Operation::List | Operation::Scan => {
                self.request.query_fields()
            }
        };
        Some(map.iter().map(|(name, value)| (name.clone(), literal(value))).collect())
    }
}

/// The same value in the decision's terms; as deep as JSON may nest.
pub(crate) fn literal(value: &Json) -> Literal {
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

/// A request that may run.
pub(crate) type AuthorizedCall<'c, 'r> = Authorized<AuthzRequest<'c, 'r>>;
