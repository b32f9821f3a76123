//! The route table: what paths there are, who may ask at them, and what they take.
//!
//! One row is one pattern of one family: the system, tokens, or the engine behind a mount. The
//! table is data. From it come the help of a path (`?help=1`), the OpenAPI document
//! (`sys/internal/specs/openapi`), and the tests that ask every route without a token and with
//! every set of capabilities.
//!
//! A new route is a row here and an arm in its family's dispatch; `tests` ask each row whether a
//! handler answers it, and for every operation a row lacks whether it is refused.
//!
//! Invariants:
//! - An alias takes what its canonical route takes and asks for the same rights (lesson 9).
//! - `sudo` stands here and in `kallisto_auth::needs_sudo`: the decision reads the second, and a
//!   test compares the two, so that neither loses a line unnoticed.
//! - No two rows of a family match the same path with equally many fixed bytes.

pub(crate) mod help;
mod identity;
mod kv;
mod login;
pub(crate) mod openapi;
mod pattern;
#[cfg(test)]
mod spelled;
mod sys;
#[cfg(test)]
pub(crate) mod tests;
mod token;
mod transit;

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::engines::mount::EngineKind;

/// One route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Its path below the family's base; `{name}` is a segment, `{name..}` is all that is left.
    pub(crate) pattern: &'static str,
    /// What may be done there, with a sentence each.
    pub(crate) does: &'static [(Operation, &'static str)],
    /// Who may ask.
    pub(crate) admits: Admits,
    /// Whether asking needs `sudo` besides.
    pub(crate) rights: Rights,
    /// The pattern of the route that this is another name of.
    pub(crate) alias_of: Option<&'static str>,
    /// What it takes, in the path, the query or the body.
    pub(crate) fields: &'static [Field],
    /// More than a sentence, where one is not enough.
    pub(crate) more: &'static str,
}

/// Who may ask at a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admits {
    /// Whose policies allow it.
    Policy,
    /// Whoever has a valid token; the answer is cut to what it may reach.
    AnyToken,
    /// The same, and without a token a smaller answer.
    AnyTokenOrNone,
    /// Anyone.
    Anyone,
    /// Anyone where the listener says so; otherwise whose policies allow it.
    AnyoneIfConfigured,
    /// Anyone at a listener that says so, which then does not ask the door.
    AnyoneAtListener,
}

/// What asking needs besides the capability of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Nothing.
    Plain,
    /// `sudo`.
    Sudo,
    /// `sudo` to list, and nothing for the rest.
    SudoToList,
    /// `sudo` for all but reading.
    SudoToWrite,
}

impl Rights {
    /// Whether `operation` needs `sudo`.
    #[cfg(test)]
    fn need_sudo(self, operation: Operation) -> bool {
        match self {
            Self::Plain => false,
            Self::Sudo => true,
            Self::SudoToList => operation == Operation::List,
            Self::SudoToWrite => operation != Operation::Read,
        }
    }
}

/// Something a route takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
    pub(crate) place: Place,
}

/// Where a field stands. One that a pattern names stands in the path, whatever it says here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the body of a write.
    Body,
    /// In the query of a read or list.
    Query,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Whole,
    Number,
    Flag,
    /// Seconds, or a text such as `1h30m`.
    Span,
    Texts,
    Wholes,
    Map,
}

/// The routes below one base.
pub(crate) struct Family {
    /// Leads the identifiers of its operations.
    pub(crate) name: &'static str,
    /// How OpenAPI groups it.
    pub(crate) tag: &'static str,
    /// What it is for.
    pub(crate) about: &'static str,
    /// Its rows, by subject.
    pub(crate) groups: &'static [&'static [Route]],
}

/// `sys/`.
pub(crate) use sys::SYSTEM;

/// The routes of the engine behind a mount.
pub(crate) const fn of_engine(kind: EngineKind) -> &'static Family {
    match kind {
        EngineKind::System => &SYSTEM,
        EngineKind::Identity => &identity::IDENTITY,
        EngineKind::Cubbyhole => &kv::CUBBYHOLE,
        EngineKind::Token => &token::TOKEN,
        EngineKind::AppRole => &login::APPROLE,
        EngineKind::Cert => &login::CERT,
        EngineKind::Jwt => &login::JWT,
        EngineKind::Kubernetes => &login::KUBERNETES,
        EngineKind::Userpass => &login::USERPASS,
        EngineKind::KvV1 => &kv::VERSION_1,
        EngineKind::KvV2 | EngineKind::KvUpgrading => &kv::VERSION_2,
        EngineKind::Transit => &transit::TRANSIT,
    }
}

/// Tells apart, for a request that no handler took, a path that does not exist from an operation
/// that it does not take. A list is of the folder at its path: it is an operation of routes that list
/// and of paths of open length, and no other path has a folder.
pub(crate) fn sort_refusal(
    kind: EngineKind,
    path: &str,
    operation: Operation,
    error: Error,
) -> Error {
    if !matches!(error, Error::UnsupportedPath | Error::UnsupportedOperation) {
        return error;
    }
    let lists = matches!(operation, Operation::List | Operation::Scan);
    let family = of_engine(kind);
    let path = path.strip_suffix('/').unwrap_or(path);
    let Some(route) = family.find(path) else { return error };
    if route.takes(operation) {
        return error;
    }
    let has_folder = route.takes(Operation::List) || family.find(&format!("{path}/")).is_some();
    if lists && !has_folder { Error::UnsupportedPath } else { Error::UnsupportedOperation }
}

impl Family {
    /// Every row.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &'static Route> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The row that serves `path`: of those that match the one with the most fixed bytes.
    pub(crate) fn find(&self, path: &str) -> Option<&'static Route> {
        let matching = self.routes().filter(|route| pattern::matches(route.pattern, path));
        matching.max_by_key(|route| pattern::fixed_bytes(route.pattern))
    }
}

impl Route {
    /// A route that policies admit to.
    const fn new(
        pattern: &'static str,
        does: &'static [(Operation, &'static str)],
        fields: &'static [Field],
    ) -> Self {
        Self {
            pattern,
            does,
            admits: Admits::Policy,
            rights: Rights::Plain,
            alias_of: None,
            fields,
            more: "",
        }
    }

    const fn admitting(self, admits: Admits) -> Self {
        Self { admits, ..self }
    }

    const fn with_sudo(self) -> Self {
        Self { rights: Rights::Sudo, ..self }
    }

    const fn with_sudo_to_list(self) -> Self {
        Self { rights: Rights::SudoToList, ..self }
    }

    const fn with_sudo_to_write(self) -> Self {
        Self { rights: Rights::SudoToWrite, ..self }
    }

    const fn alias_of(self, canonical: &'static str) -> Self {
        Self { alias_of: Some(canonical), ..self }
    }

    const fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    /// Whether it takes `operation`.
    pub(crate) fn takes(&self, operation: Operation) -> bool {
        self.does.iter().any(|(taken, _)| *taken == operation)
    }

    /// What it is for: the sentence of its first operation.
    fn summary(&self) -> &'static str {
        self.does.first().map_or("", |(_, about)| about)
    }
}

/// A field of the body, or a parameter of the path.
const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about, place: Place::Body }
}

/// What a list that comes in pages takes.
const AFTER: Field = query("after", Kind::Text, "The name after which a list goes on.");
const LIMIT: Field = query("limit", Kind::Whole, "Most names in a list.");

/// A parameter of the query.
const fn query(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about, place: Place::Query }
}

impl Kind {
    /// Its name in help texts.
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Whole => "int",
            Self::Number => "float",
            Self::Flag => "bool",
            Self::Span => "duration",
            Self::Texts => "slice of strings",
            Self::Wholes => "slice of ints",
            Self::Map => "map",
        }
    }
}
