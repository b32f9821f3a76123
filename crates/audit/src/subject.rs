//! What the core says of a request and its answer, once for all devices.

use std::net::SocketAddr;

use jiff::Timestamp;

/// Who asked for what: what both records of a request say.
#[derive(Default)]
pub struct AuditSubject<'a> {
    /// Who asks.
    pub auth: Auth<'a>,
    /// What is asked.
    pub request: AuditRequest<'a>,
}

/// Who asks.
#[derive(Default)]
pub struct Auth<'a> {
    /// The text of the token, which is the request's; `None` when it is not live.
    pub client_token: Option<&'a str>,
    /// Its accessor.
    pub accessor: &'a str,
    /// Its name for people.
    pub display_name: &'a str,
    /// All policies.
    pub policies: &'a [String],
    /// Those of the token itself.
    pub token_policies: &'a [String],
    /// Those of its identity.
    pub identity_policies: &'a [String],
    /// What the decision said; `None` where nothing was decided.
    pub decision: Option<AuditDecision<'a>>,
    /// What was written on the token: JSON text of an object, or nothing.
    pub metadata: &'a [u8],
    /// Its entity.
    pub entity_id: &'a str,
    /// `service`, `batch` or `default`.
    pub token_type: &'a str,
    /// Its lifetime when it was made, in seconds.
    pub token_ttl_secs: i64,
    /// When it was made.
    pub issued_at: Option<Timestamp>,
    /// Requests it is good for; 0 for no such limit.
    pub remaining_uses: i64,
}

/// What the access decision said.
pub struct AuditDecision<'a> {
    /// Whether the request may run.
    pub allowed: bool,
    /// The policies that let it.
    pub granted_by: Vec<String>,
    /// The id of the namespace that they are of, which is the token's.
    pub namespace_id: &'a str,
    /// Its path, but for the root one.
    pub namespace_path: &'a str,
}

/// The engine or method that serves a request.
#[derive(Clone, Copy, Default)]
pub struct AuditMount<'a> {
    /// Its path, with a slash at its end.
    pub point: &'a str,
    /// Its type.
    pub kind: &'a str,
    /// Its accessor.
    pub accessor: &'a str,
    /// The version that runs.
    pub version: &'a str,
    /// `secret` or `auth`.
    pub class: &'a str,
}

/// What is asked.
#[derive(Default)]
pub struct AuditRequest<'a> {
    /// The request's id, as the client hears it.
    pub id: &'a str,
    /// Stands for the client where clients are counted.
    pub client_id: &'a str,
    /// What is done.
    pub operation: &'a str,
    /// Who serves it.
    pub mount: AuditMount<'a>,
    /// The token that was shown, live or not.
    pub client_token: Option<&'a str>,
    /// The id of the namespace.
    pub namespace_id: &'a str,
    /// The path of the namespace, but for the root one.
    pub namespace_path: &'a str,
    /// Where.
    pub path: &'a str,
    /// The body or the query: JSON text of an object, or nothing.
    pub data: &'a [u8],
    /// Names in the data whose values stay in the clear.
    pub exempt: &'a [&'a str],
    /// The other end of the connection.
    pub remote: Option<SocketAddr>,
    /// The lifetime asked for a wrapped answer, in seconds.
    pub wrap_ttl_secs: u64,
    /// The client asked for a stale read, and gets one.
    pub is_stale_read: bool,
    /// Headers that are audited: name, values, whether they are masked.
    pub headers: &'a [RequestHeader],
}

/// The header by which a client says what it reads a secret for.
pub const INTENT_HEADER: &str = "x-kallisto-intent";

/// A header of a request.
pub struct RequestHeader {
    /// Its name, in lower case.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
    /// Whether they are masked.
    pub masked: bool,
}

/// What was answered.
#[derive(Default)]
pub struct AuditResponse<'a> {
    /// Who served it.
    pub mount: AuditMount<'a>,
    /// The id of the lease that is handed out or renewed; in the clear, as paths are. It opens nothing.
    pub lease_id: &'a str,
    /// The data: JSON text, or nothing.
    pub data: &'a [u8],
    /// Names in the data whose values stay in the clear.
    pub exempt: &'a [&'a str],
    /// Whether the data answers a listing.
    pub is_listing: bool,
    /// Whether the data is a version of a secret with its metadata, to which the path and its number lead.
    pub is_version: bool,
    /// What the client hears when the request failed; masked.
    pub error: Option<&'a str>,
    /// The token that is handed out.
    pub auth: Option<IssuedToken<'a>>,
    /// The wrapped answer that is handed out.
    pub wrapped: Option<Wrapped<'a>>,
    /// What the caller should know besides.
    pub warnings: &'a [String],
    /// What was done at other paths than the request's own.
    pub touched: Vec<AuditTouched<'a>>,
}

/// Something done at a path that the request itself does not stand at.
#[derive(Clone, Copy)]
pub struct AuditTouched<'a> {
    /// What.
    pub operation: &'a str,
    /// Where; in the clear, as the path of a request is.
    pub path: &'a str,
}

/// A token that is handed out.
#[derive(Default)]
pub struct IssuedToken<'a> {
    /// Its text.
    pub client_token: &'a str,
    /// Its accessor.
    pub accessor: &'a str,
    /// Its name for people.
    pub display_name: &'a str,
    /// All policies.
    pub policies: &'a [String],
    /// Those of the token itself.
    pub token_policies: &'a [String],
    /// Those of its identity.
    pub identity_policies: &'a [String],
    /// What was written on it: JSON text of an object, or nothing.
    pub metadata: &'a [u8],
    /// Its entity.
    pub entity_id: &'a str,
    /// `service` or `batch`.
    pub token_type: &'a str,
    /// Its lifetime, in seconds.
    pub token_ttl_secs: i64,
    /// Requests it is good for; 0 for no such limit.
    pub num_uses: i64,
}

/// A wrapped answer that is handed out.
#[derive(Default)]
pub struct Wrapped<'a> {
    /// The token that unwraps it.
    pub token: &'a str,
    /// Its accessor.
    pub accessor: &'a str,
    /// Its lifetime, in seconds.
    pub ttl_secs: u64,
    /// When it was made, as RFC 3339 text.
    pub creation_time: &'a str,
    /// The path whose answer it holds.
    pub creation_path: &'a str,
    /// The accessor of the token inside.
    pub wrapped_accessor: &'a str,
}
