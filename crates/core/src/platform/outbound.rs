//! Calls from this server to others: what login methods ask of a key server or a Kubernetes API.
//!
//! The core does no I/O. It says what to send, as an [`OutboundCall`]; whoever runs the core gives it
//! something that sends ([`Outbound`]), which is called on threads of the core's own, so a slow peer
//! keeps no request of others waiting.

use std::fmt;

use secrecy::SecretString;

/// Most bytes of an answer that are read.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Longest that a call may take, in seconds.
pub const CALL_SECS_MAX: u64 = 10;

/// What to send.
pub struct OutboundCall {
    /// Where to, with its scheme, `https` or `http`.
    pub url: String,
    /// A token to show, as a bearer's.
    pub bearer: Option<SecretString>,
    /// JSON to post; `None` asks by `GET`.
    pub body: Option<Vec<u8>>,
    /// The authorities to believe, as PEM; empty for those of the machine.
    pub authorities: String,
}

impl fmt::Debug for OutboundCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundCall").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What came back.
#[derive(Debug)]
pub struct OutboundAnswer {
    /// The status code.
    pub status: u16,
    /// The body, at most [`ANSWER_BYTES_MAX`] of it.
    pub body: Vec<u8>,
}

/// Sends calls to other servers.
pub trait Outbound: Send + Sync {
    /// Sends one call and waits for its answer, at most [`CALL_SECS_MAX`]. Redirects are not followed.
    ///
    /// # Errors
    /// What went wrong, without the call's secrets.
    fn send(&self, call: &OutboundCall) -> Result<OutboundAnswer, String>;
}
