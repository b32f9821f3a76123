//! What there is to say of a route.
//!
//! One row is one pattern, and everything that the server and its clients need to know of it: the help of a path (`?help=1`), the OpenAPI
//! document, the decision and the tests that ask every route without a token and with every set of capabilities come from here.

pub use kallisto_auth::Operation;

use crate::names;
use crate::open_read::OpenRead;
use crate::pattern::{self, Params};

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Its path below the family's base; `{name}` is a segment, `{name..}` is all that is left.
    pub pattern: &'static str,
    /// What may be done there, with a sentence each.
    pub does: &'static [(Operation, &'static str)],
    /// Who may ask.
    pub admits: Admits,
    /// Whether asking needs `sudo` besides.
    pub rights: Rights,
    /// The pattern of the route that this is another name of.
    pub alias_of: Option<&'static str>,
    /// What it takes, in the path, the query or the body.
    pub fields: &'static [Field],
    /// More than a sentence, where one is not enough.
    pub more: &'static str,
    /// Whether answering takes less than a millisecond of a processor, whatever is stored; what takes longer is answered beside those
    /// who answer reads.
    pub is_light: bool,
    /// Where an update takes the capability `create` instead of `update`.
    pub creates: Creates,
    /// Which servers of a cluster answer it.
    pub served_by: ServedBy,
    /// Which namespaces have it. Asked of routes below `sys/` only: what is mounted belongs to the namespace of its mount.
    pub scope: Scope,
    /// Whether audit devices hear of it. What they never hear of has to be answered when no device works: it hands out no secret, and
    /// changes at most whether the server is sealed.
    pub is_audited: bool,
    /// Whether rate limits hold for it.
    pub is_limited: bool,
    /// Whether operators see by it how a server is, or open and close it: it goes before what others ask, answers from memory or does
    /// what cannot wait.
    pub is_for_operators: bool,
    /// Whether it is answered without a look at the view, however old that is: what says how the server is, and what gets it out of
    /// where it is.
    pub ignores_view: bool,
    /// Whether a locked namespace answers it.
    pub answers_while_locked: bool,
    /// Whether it is about the token that asks: where a request names no namespace, it is for the token's own.
    pub is_about_caller: bool,
    /// What the body of an update is.
    pub body: Body,
    /// Whether a read may be answered by a stream, which is made while it is sent.
    pub streams: bool,
    /// Whether the parameter of open length at its end may be empty.
    pub takes_root: bool,
    /// Whether it answers where no other row of its table matches. It is found by dispatch only: documents and whoever else asks about
    /// routes see paths there as unknown.
    pub is_fallback: bool,
    /// What answers a read from memory at once, of a route that admits anyone.
    pub read_at_once: Option<OpenRead>,
}

/// Where an update takes the capability `create` instead of `update`: where it makes something that is not there yet.
#[derive(Clone, Copy, Debug)]
pub enum Creates {
    /// Nowhere: it always takes `update`.
    Never,
    /// Where this record is not there.
    Record(RecordOf),
    /// Where the engine, a part of the server, knows of nothing.
    AsEngineTells,
}

/// The record that an update makes where it is not there; `None` for an update that makes none. Asked before the caller is known to have any right.
pub type RecordOf = fn(&UpdateTarget<'_>) -> Option<String>;

/// Where an update is for.
#[derive(Clone, Copy, Debug)]
pub struct UpdateTarget<'a> {
    /// What the path has in the places of the route's parameters.
    pub params: Params<'a>,
    /// The token that asks, as [`CallerToken::id`](crate::CallerToken) has it, if there is one.
    pub token: Option<&'a [u8; 32]>,
}

impl<'a> UpdateTarget<'a> {
    /// The name that the path has in the place of a parameter; `None` for what is no [name](names::check).
    pub fn name(&self, parameter: &str) -> Option<&'a str> {
        let name = self.params.get(parameter);
        names::check(name).is_ok().then_some(name)
    }
}

/// Which servers of a cluster answer a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    /// Any server answers reads from its own view; the leader does the rest.
    LeaderToWrite,
    /// The leader alone: it is about what only the leader keeps.
    Leader,
    /// The leader if there is one, and any server as it knows it if there is none, however old that is.
    LeaderIfAny,
    /// Reads as above. Its update only reads as well, but whoever asks may have written a moment ago what it needs: so the leader answers
    /// it, and any server whose view is recent enough for reads if there is none.
    LeaderOrRecentView,
    /// The server that is asked: it changes that server alone, or nothing.
    AnyServer,
}

/// Which namespaces have a route below `sys/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The root namespace.
    Root,
    /// Each for itself.
    Namespace,
    /// It is about the server as a whole, and every namespace has the same.
    Server,
}

/// What the body of an update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// JSON, in memory.
    Json,
    /// A file, taken in as it comes.
    Upload,
}

/// Who may ask at a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admits {
    /// Whose policies allow it.
    Policy,
    /// Whoever has a valid token; the answer is cut to what it may reach.
    AnyToken,
    /// The same, and without a token a smaller answer.
    AnyTokenOrNone,
    /// Anyone; a token that is shown is not looked at.
    Anyone,
    /// Anyone where the listener says so; otherwise whose policies allow it.
    AnyoneIfConfigured,
    /// Anyone at a listener that says so, which then does not ask the pipeline.
    AnyoneAtListener,
    /// Anyone while the server is sealed, and afterwards whose policies allow it.
    AnyoneWhileSealed,
    /// A wrapping token that opens itself, and for another one whose policies allow it.
    WrappingToken,
}

/// What asking needs besides the capability of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
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
    pub fn need_sudo(self, operation: Operation) -> bool {
        match self {
            Self::Plain => false,
            Self::Sudo => true,
            Self::SudoToList => matches!(operation, Operation::List | Operation::Scan),
            Self::SudoToWrite => operation != Operation::Read,
        }
    }
}

/// Something a route takes.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: FieldKind,
    /// A sentence.
    pub about: &'static str,
    /// Where it stands.
    pub place: FieldPlace,
}

/// Where a field stands. One that a pattern names stands in the path, whatever it says here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPlace {
    /// In the body of a write.
    Body,
    /// In the query of a read or list.
    Query,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// Seconds, or a text such as `1h30m`.
    Span,
    /// Texts.
    Texts,
    /// Whole numbers.
    Wholes,
    /// Names with values.
    Map,
}

impl Route {
    /// A route that policies admit to.
    pub const fn new(
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
            is_light: false,
            creates: Creates::Never,
            served_by: ServedBy::LeaderToWrite,
            scope: Scope::Root,
            is_audited: true,
            is_limited: true,
            is_for_operators: false,
            ignores_view: false,
            answers_while_locked: false,
            is_about_caller: false,
            body: Body::Json,
            streams: false,
            takes_root: false,
            is_fallback: false,
            read_at_once: None,
        }
    }

    /// The same, admitting others.
    #[must_use]
    pub const fn admitting(self, admits: Admits) -> Self {
        Self { admits, ..self }
    }

    /// The same, for whoever has `sudo` besides.
    #[must_use]
    pub const fn with_sudo(self) -> Self {
        Self { rights: Rights::Sudo, ..self }
    }

    /// The same, where listing needs `sudo` besides.
    #[must_use]
    pub const fn with_sudo_to_list(self) -> Self {
        Self { rights: Rights::SudoToList, ..self }
    }

    /// The same, where all but reading needs `sudo` besides.
    #[must_use]
    pub const fn with_sudo_to_write(self) -> Self {
        Self { rights: Rights::SudoToWrite, ..self }
    }

    /// Another name of the route with this pattern.
    #[must_use]
    pub const fn alias_of(self, canonical: &'static str) -> Self {
        Self { alias_of: Some(canonical), ..self }
    }

    /// The same, taking a moment only.
    #[must_use]
    pub const fn light(self) -> Self {
        Self { is_light: true, ..self }
    }

    /// The same, where an update takes the capability `create` while there is no such record.
    #[must_use]
    pub const fn creating(self, record: RecordOf) -> Self {
        Self { creates: Creates::Record(record), ..self }
    }

    /// The same, where an update takes the capability `create` while the engine, a part of the server, knows of nothing there.
    #[must_use]
    pub const fn creating_as_engine_tells(self) -> Self {
        Self { creates: Creates::AsEngineTells, ..self }
    }

    /// The same, answered by other servers.
    #[must_use]
    pub const fn served_by(self, served_by: ServedBy) -> Self {
        Self { served_by, ..self }
    }

    /// The same, for other namespaces.
    #[must_use]
    pub const fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same, of which audit devices never hear.
    #[must_use]
    pub const fn unaudited(self) -> Self {
        Self { is_audited: false, ..self }
    }

    /// The same, for which no rate limit holds.
    #[must_use]
    pub const fn unlimited(self) -> Self {
        Self { is_limited: false, ..self }
    }

    /// The same, which goes before what others ask.
    #[must_use]
    pub const fn for_operators(self) -> Self {
        Self { is_for_operators: true, ..self }
    }

    /// The same, answered without a look at the view.
    #[must_use]
    pub const fn ignoring_view(self) -> Self {
        Self { ignores_view: true, ..self }
    }

    /// The same, answered in a locked namespace too.
    #[must_use]
    pub const fn while_locked(self) -> Self {
        Self { answers_while_locked: true, ..self }
    }

    /// The same, about the token that asks.
    #[must_use]
    pub const fn about_caller(self) -> Self {
        Self { is_about_caller: true, ..self }
    }

    /// The same, whose updates bring a file.
    #[must_use]
    pub const fn with_upload(self) -> Self {
        Self { body: Body::Upload, ..self }
    }

    /// The same, whose reads may be answered by a stream.
    #[must_use]
    pub const fn with_streams(self) -> Self {
        Self { streams: true, ..self }
    }

    /// The same, also where the parameter of open length at its end is empty.
    #[must_use]
    pub const fn with_root(self) -> Self {
        Self { takes_root: true, ..self }
    }

    /// The same, for paths that no other row matches.
    #[must_use]
    pub const fn as_fallback(self) -> Self {
        Self { is_fallback: true, ..self }
    }

    /// The same, whose reads memory may answer at once.
    #[must_use]
    pub const fn read_at_once(self, read: OpenRead) -> Self {
        Self { read_at_once: Some(read), ..self }
    }

    /// The same, with more to say of it.
    #[must_use]
    pub const fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    /// Whether `path` is one of its.
    pub fn matches(&self, path: &str) -> bool {
        pattern::matches(self.pattern, path)
            || (self.takes_root && pattern::is_root(self.pattern, path))
    }

    /// Whether it takes `operation`.
    pub fn takes(&self, operation: Operation) -> bool {
        self.does.iter().any(|(taken, _)| *taken == operation)
    }

    /// What it is for: the sentence of its first operation.
    pub fn summary(&self) -> &'static str {
        self.does.first().map_or("", |(_, about)| about)
    }
}

/// A field of the body, or a parameter of the path.
pub const fn field(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, kind, about, place: FieldPlace::Body }
}

/// A parameter of the query.
pub const fn query(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, kind, about, place: FieldPlace::Query }
}

/// The name after which a list that comes in pages goes on.
pub const AFTER: Field = query("after", FieldKind::Text, "The name after which a list goes on.");
/// How long a list that comes in pages is.
pub const LIMIT: Field = query("limit", FieldKind::Whole, "Most names in a list.");

impl FieldKind {
    /// Its name in help texts.
    pub const fn name(self) -> &'static str {
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
