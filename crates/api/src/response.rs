//! What the core answers; a listener gives it its form on the wire.

use std::fmt;

use kallisto_auth::Operation;

use crate::BoxFuture;
use crate::error::Error;
use crate::etag::Etag;
use crate::json::{Json, write_string, write_strings, write_u64};
use crate::request_id::RequestId;
use crate::stream::{Stream, Waiting};

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
    /// The client has this answer already (304).
    NotModified {
        /// The tag it named.
        etag: Etag,
        /// As of [`Logical`].
        index: Option<u64>,
    },
    /// Each of the paths that the request named has an answer of its own.
    Each(Vec<BatchAnswer>),
    /// An answer that is made while it is sent.
    Stream(Stream),
    /// Takes a file that is sent after the request.
    Upload(Box<dyn Upload>),
    /// To be asked again when something has changed, or after a while.
    Waiting(Waiting),
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
    /// A reply without an envelope (401) that says how whoever asks proves themselves (RFC 9110, 11.6.1).
    Challenge {
        /// The scheme and its parameters.
        challenge: String,
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
    /// A page of HTML for whoever looks at it in a browser. It is sent under a policy that runs no script, loads nothing and lets
    /// nobody frame it.
    Page {
        /// The status code on the wire.
        code: u16,
        /// The page.
        body: Vec<u8>,
    },
    /// Sends a browser on with a `GET` (303).
    SeeOther {
        /// Where to: a path of this server, or an address.
        location: String,
    },
    /// A reply of another protocol, with headers of its own, such as ACME's.
    Foreign {
        /// The status code on the wire.
        code: u16,
        /// What it is; empty for a reply without a body.
        content_type: &'static str,
        /// Headers beside those that every reply has, names in lower case; a name may come more than once.
        headers: Vec<(&'static str, String)>,
        /// The body.
        body: Vec<u8>,
    },
}

/// Takes a file that is sent after its request.
pub trait Upload: Send + Sync {
    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what is wrong with it; what the store says.
    fn take<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), Error>>;

    /// The file has ended.
    ///
    /// # Errors
    /// [`Error::Invalid`] if something is missing; what the store says.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Response, Error>>;
}

impl fmt::Debug for dyn Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upload")
    }
}

/// The payload of an enveloped reply.
#[derive(Debug, Default)]
pub struct Logical {
    /// The data as JSON text; empty stands for `null`.
    pub data: Vec<u8>,
    /// For how long the data may be relied on, in seconds.
    pub lease_secs: u64,
    /// The lease of a credential that the data is, or that was renewed.
    pub lease: Option<LeaseHandle>,
    /// The `auth` object as JSON text, of a reply that hands out a token; empty for none.
    pub auth: Vec<u8>,
    /// The `wrap_info` object as JSON text, of a reply that hands out a wrapping token; empty for none.
    pub wrap_info: Vec<u8>,
    /// What the caller should know besides.
    pub warnings: Vec<String>,
    /// The tag of this answer, if it can be asked for by it.
    pub etag: Option<Etag>,
    /// Up to where in the order of all writes this answer is known to go, when the client asked.
    pub index: Option<u64>,
    /// What was done beside what the request's own path says, for the audit.
    pub touched: Vec<TouchedPath>,
}

/// How a client names a lease that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHandle {
    /// Its id.
    pub id: String,
    /// Whether it may be renewed.
    pub renewable: bool,
}

impl Logical {
    /// Appends the envelope around it, led by `members` at the top level.
    pub fn write_envelope(&self, id: RequestId, members: &[u8], out: &mut Vec<u8>) {
        // All fields are named: an answer is kept in a wrapping token as its envelope, so what has no place here is lost there.
        let Self {
            data,
            auth,
            wrap_info,
            warnings,
            // [`Self::write_lease`].
            lease: _,
            lease_secs: _,
            // Headers, and what audit records say.
            etag: _,
            index: _,
            touched: _,
        } = self;
        out.push(b'{');
        if !members.is_empty() {
            out.extend_from_slice(members);
            out.push(b',');
        }
        out.extend_from_slice(b"\"request_id\":\"");
        // A wrapped answer has its own id inside.
        if wrap_info.is_empty() {
            id.write(out);
        }
        out.extend_from_slice(b"\",");
        self.write_lease(out);
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(or_null(data));
        out.extend_from_slice(b",\"wrap_info\":");
        out.extend_from_slice(or_null(wrap_info));
        out.extend_from_slice(b",\"warnings\":");
        write_strings(warnings, out);
        out.extend_from_slice(b",\"auth\":");
        out.extend_from_slice(or_null(auth));
        out.push(b'}');
    }

    /// Appends what an envelope says of the lease: `"lease_id":"","renewable":false,"lease_duration":0`.
    fn write_lease(&self, out: &mut Vec<u8>) {
        match &self.lease {
            None => out.extend_from_slice(b"\"lease_id\":\"\",\"renewable\":false"),
            Some(lease) => {
                out.extend_from_slice(b"\"lease_id\":");
                write_string(&lease.id, out);
                out.extend_from_slice(match lease.renewable {
                    true => b",\"renewable\":true",
                    false => b",\"renewable\":false",
                });
            }
        }
        out.extend_from_slice(b",\"lease_duration\":");
        write_u64(self.lease_secs, out);
    }
}

const fn or_null(text: &[u8]) -> &[u8] {
    if text.is_empty() { b"null" } else { text }
}

/// The answer to one of many requests in one.
#[derive(Debug)]
pub struct BatchAnswer {
    /// What was asked.
    pub operation: Operation,
    /// Where; the path of a request of its own.
    pub path: String,
    /// What such a request would have been answered.
    pub answer: Result<BatchPart, Error>,
}

/// As much of a [`Response`] as the answer to one of many requests has.
#[derive(Debug)]
pub enum BatchPart {
    /// Done, nothing to say.
    Empty,
    /// The data as JSON text.
    Found(Vec<u8>),
    /// The data of what is gone, which may be nothing.
    Missing(Vec<u8>),
}

impl BatchPart {
    /// What stands for an answer among others.
    ///
    /// # Errors
    /// [`Error::Internal`] for a kind of answer that no part of such a request has.
    pub fn of(answer: Response) -> Result<Self, Error> {
        match answer {
            Response::Empty => Ok(Self::Empty),
            Response::Logical(logical) => Ok(Self::Found(logical.data)),
            Response::Missing(logical) => Ok(Self::Missing(logical.data)),
            Response::MissingEmpty => Ok(Self::Missing(Vec::new())),
            Response::Accepted(_)
            | Response::WithStatus { .. }
            | Response::NotModified { .. }
            | Response::Each(_)
            | Response::Stream(_)
            | Response::Upload(_)
            | Response::Waiting(_)
            | Response::Merged(_)
            | Response::Bare { .. }
            | Response::Challenge { .. }
            | Response::Text { .. }
            | Response::Page { .. }
            | Response::SeeOther { .. }
            | Response::Foreign { .. } => {
                Err(Error::internal(&"an answer that cannot stand among others"))
            }
        }
    }

    /// Its data, if there is any.
    pub fn data(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::Found(data) | Self::Missing(data) => data,
        }
    }
}

/// One path that a request touched besides its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedPath {
    /// What was done, and judged.
    pub operation: Operation,
    /// Where; the path of a request of its own.
    pub path: String,
}

impl Response {
    /// An enveloped reply with this data.
    pub fn data(data: &Json) -> Self {
        Self::Logical(Logical { data: data.to_text(), ..Logical::default() })
    }

    /// The payload of an enveloped reply; `None` for every other.
    pub const fn logical(&self) -> Option<&Logical> {
        match self {
            Self::Logical(logical)
            | Self::Accepted(logical)
            | Self::Missing(logical)
            | Self::WithStatus { logical, .. }
            | Self::Merged(logical) => Some(logical),
            Self::Empty
            | Self::MissingEmpty
            | Self::NotModified { .. }
            | Self::Each(_)
            | Self::Stream(_)
            | Self::Upload(_)
            | Self::Waiting(_)
            | Self::Bare { .. }
            | Self::Challenge { .. }
            | Self::Text { .. }
            | Self::Foreign { .. }
            | Self::Page { .. }
            | Self::SeeOther { .. } => None,
        }
    }

    /// The same with an envelope around what has none.
    pub fn enveloped(self) -> Self {
        match self {
            Self::Bare { body, .. } => Self::data(&body),
            other => other,
        }
    }

    /// A merged reply with this data.
    pub fn merged(data: &Json) -> Self {
        Self::Merged(Logical { data: data.to_text(), ..Logical::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_says_which_lease_there_is() {
        let told = |lease| {
            let mut out = Vec::new();
            Logical { lease, lease_secs: 60, ..Logical::default() }.write_lease(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(told(None), r#""lease_id":"","renewable":false,"lease_duration":60"#);
        let lease = LeaseHandle { id: "db/creds/\"r\"/x".to_owned(), renewable: true };
        let expected = r#""lease_id":"db/creds/\"r\"/x","renewable":true,"lease_duration":60"#;
        assert_eq!(told(Some(lease)), expected);
    }
}
