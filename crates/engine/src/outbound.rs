//! Calls from this server to others: what login methods ask of a key server or a Kubernetes API.
//!
//! An engine does no I/O. It says what to send, as an [`OutboundCall`]; the server sends it, on threads that keep nobody else waiting.
//!
//! Invariants, which the server keeps for every call:
//! - No redirect is followed: who was named in a configuration is who is asked.
//! - The answer is read up to a limit, and within a deadline.
//! - No address is asked that only this machine or its cloud can reach, loopback aside.
//! - What went wrong is told to the log; an engine, and so a client, hears only that the other server was not reached.

use std::fmt;

use kallisto_api::{BoxFuture, Error};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

/// What to send.
#[derive(Default)]
pub struct OutboundCall {
    /// Where to, with its scheme, `https` or `http`.
    pub url: String,
    /// What shows who asks.
    pub authorization: Authorization,
    /// What is posted, or nothing.
    pub payload: Payload,
    /// The authorities to believe, as PEM; empty for those of the machine.
    pub authorities: String,
}

/// What shows who asks.
#[derive(Clone, Default)]
pub enum Authorization {
    /// Nothing.
    #[default]
    None,
    /// A token, in the header `Authorization: Bearer` (RFC 6750, section 2.1).
    Bearer(SecretString),
    /// A token of Okta's API, in the header `Authorization: SSWS`.
    Ssws(SecretString),
    /// A name and a password, in the header `Authorization: Basic` (RFC 7617). Both stand in it as they are here: a protocol that encodes
    /// them first, as OAuth 2.0 does (RFC 6749, section 2.3.1), has encoded them.
    Basic(String, SecretString),
}

/// What is sent besides the address.
#[derive(Default)]
pub enum Payload {
    /// Nothing: the call is a `GET`.
    #[default]
    Nothing,
    /// JSON, posted.
    Json(Vec<u8>),
    /// Fields of a form, posted as `application/x-www-form-urlencoded`.
    Form(Vec<(&'static str, SecretString)>),
}

impl Payload {
    /// The content type and the bytes of what is posted; `None` for a `GET`.
    pub fn encode(&self) -> Option<(&'static str, Zeroizing<Vec<u8>>)> {
        match self {
            Self::Nothing => None,
            Self::Json(bytes) => Some(("application/json", Zeroizing::new(bytes.clone()))),
            Self::Form(fields) => {
                let mut out = Zeroizing::new(Vec::new());
                for (name, value) in fields {
                    if !out.is_empty() {
                        out.push(b'&');
                    }
                    form_component(name, &mut out);
                    out.push(b'=');
                    form_component(value.expose_secret(), &mut out);
                }
                Some(("application/x-www-form-urlencoded", out))
            }
        }
    }
}

/// Appends a text as it stands in a form or a query: all but letters, digits and `-._~` as `%XX`.
pub fn form_component(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            other => {
                let (high, low) = (usize::from(other >> 4), usize::from(other & 15));
                out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
            }
        }
    }
}

impl fmt::Debug for OutboundCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundCall").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What came back.
#[derive(Debug, Default)]
pub struct OutboundAnswer {
    /// The status code.
    pub status: u16,
    /// The `Link` headers (RFC 8288), with commas between them; empty when there are none, or too long ones.
    pub link: String,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_what_its_fields_say() {
        let fields = vec![("code", "a b&c=d+e/\u{e9}%".into()), ("empty", "".into())];
        let (kind, bytes) = Payload::Form(fields).encode().unwrap();
        assert_eq!(kind, "application/x-www-form-urlencoded");
        assert_eq!(bytes.as_slice(), b"code=a%20b%26c%3Dd%2Be%2F%C3%A9%25&empty=");
        assert!(Payload::Nothing.encode().is_none());
    }
}
