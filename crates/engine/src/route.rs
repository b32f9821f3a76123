//! What there is to say of a route.
//!
//! One row is one pattern, and everything that the server and its clients need to know of it: the help of a path (`?help=1`), the OpenAPI
//! document, the decision and the tests that ask every route without a token and with every set of capabilities come from here.

pub use kallisto_auth::Operation;

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
    /// Whether an update where nothing is yet takes the capability `create` instead of `update`.
    pub creates: bool,
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
            Self::SudoToList => operation == Operation::List,
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
            creates: false,
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

    /// The same, where an update at which nothing is yet takes the capability `create`.
    #[must_use]
    pub const fn creating(self) -> Self {
        Self { creates: true, ..self }
    }

    /// The same, with more to say of it.
    #[must_use]
    pub const fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
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
