//! What the core answers; a listener gives it its form on the wire.

use crate::json::Json;

/// The success of a request.
#[derive(Debug)]
pub enum Response {
    /// Done, nothing to say (204).
    Empty,
    /// An enveloped reply (200).
    Logical(Logical),
    /// An enveloped reply to what was taken on (202).
    Accepted(Logical),
    /// An enveloped reply whose subject is gone, such as a deleted version (404).
    Missing(Logical),
    /// An enveloped reply under a status code of its own, such as a batch that partly failed.
    WithStatus {
        /// The status code on the wire.
        code: u16,
        /// The payload.
        logical: Logical,
    },
    /// Gone, with nothing to say (404 and an empty body).
    MissingEmpty,
    /// An enveloped reply whose data stands at the top level too, as some old `sys/` ones do.
    Merged(Logical),
    /// A reply without an envelope, and its status code: the unauthenticated family.
    Bare {
        /// The status code on the wire.
        code: u16,
        /// The body.
        body: Json,
    },
    /// Text that is no JSON.
    Text {
        /// The status code on the wire.
        code: u16,
        /// What it is.
        content_type: &'static str,
        /// The text.
        body: Vec<u8>,
    },
}

/// The payload of an enveloped reply.
#[derive(Debug, Default)]
pub struct Logical {
    /// The data as JSON text; empty stands for `null`.
    pub data: Vec<u8>,
    /// For how long the data may be relied on, in seconds.
    pub lease_secs: u64,
    /// The `auth` object as JSON text, of a reply that hands out a token; empty for none.
    pub auth: Vec<u8>,
    /// The `wrap_info` object as JSON text, of a reply that hands out a wrapping token; empty for none.
    pub wrap_info: Vec<u8>,
    /// What the caller should know besides.
    pub warnings: Vec<String>,
}

impl Response {
    /// An enveloped reply with this data.
    pub(crate) fn data(data: &Json) -> Self {
        Self::Logical(Logical { data: data.to_text(), ..Logical::default() })
    }

    /// The same with an envelope around what has none.
    pub(crate) fn enveloped(self) -> Self {
        match self {
            Self::Bare { body, .. } => Self::data(&body),
            other => other,
        }
    }

    /// A merged reply with this data.
    pub(crate) fn merged(data: &Json) -> Self {
        Self::Merged(Logical { data: data.to_text(), ..Logical::default() })
    }
}
