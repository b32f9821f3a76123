//! Calls from this server to others: what login methods ask of a key server or a Kubernetes API.
//!
//! An engine does no I/O. It says what to send, as an [`OutboundCall`]; the server sends it, on threads that keep nobody else waiting.

use std::fmt;

use kallisto_api::{BoxFuture, Error};
use secrecy::SecretString;

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
    /// The body, up to the server's limit.
    pub body: Vec<u8>,
}

/// Other servers.
pub trait Outbound: Sync {
    /// Sends one call in the turns of whoever asks, and waits for its answer. Redirects are not followed.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait; [`Error::Unavailable`] when the other server cannot be asked.
    fn call(&self, call: OutboundCall) -> BoxFuture<'_, Result<OutboundAnswer, Error>>;
}
