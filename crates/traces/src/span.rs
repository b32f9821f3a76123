//! A span that has ended: what is sent.

use std::borrow::Cow;

use crate::context::TraceContext;

/// What is told of a span besides its name and times.
pub type Attributes = Vec<(&'static str, AttributeValue)>;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// Text.
    Text(Cow<'static, str>),
    /// A whole number.
    Whole(i64),
    /// True or false.
    Truth(bool),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<bool> for AttributeValue {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

/// On which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Neither: work inside of this server.
    Internal,
    /// It answers.
    Server,
    /// It asks another server and waits.
    Client,
}

/// How what a span stands for ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpanStatus {
    /// Nothing is said.
    #[default]
    Unset,
    /// It failed: a word of a fixed set.
    Failed(&'static str),
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSpan {
    /// Its place in the trace.
    pub context: TraceContext,
    /// The span above it.
    pub parent: Option<[u8; 8]>,
    /// Whether that span is another server's or a client's.
    pub has_remote_parent: bool,
    /// What it is called: few names, none with a part of a request.
    pub name: Cow<'static, str>,
    /// On which side of a call it is.
    pub kind: SpanKind,
    /// When it began, in nanoseconds since 1970.
    pub start_nanos: u64,
    /// When it ended.
    pub end_nanos: u64,
    /// What else is told.
    pub attributes: Attributes,
    /// How it ended.
    pub status: SpanStatus,
}
