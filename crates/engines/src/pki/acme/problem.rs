//! What a client of ACME hears when a request fails: a problem document (RFC 7807), with the types of RFC 8555, section 6.7.
//!
//! Everything that serves ACME returns a [`Failure`]; [`super::exchange`] gives it its form. What the server itself cannot do (it is sealed, it does
//! not lead) stays an error of the server, so that the request is relayed or refused as any other.
//!
//! Invariants:
//! - A document has no member that is null.
//! - A detail repeats at most what the client itself sent; of what a probe read it has nothing.

use kallisto_api::Error;
use kallisto_api::json::{Json, Map};

/// What went wrong, by its name in RFC 8555.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pki) enum Kind {
    AccountDoesNotExist,
    AlreadyRevoked,
    BadCsr,
    BadNonce,
    BadPublicKey,
    BadRevocationReason,
    BadSignatureAlgorithm,
    Connection,
    Dns,
    ExternalAccountRequired,
    IncorrectResponse,
    InvalidContact,
    Malformed,
    OrderNotReady,
    RateLimited,
    RejectedIdentifier,
    Tls,
    Unauthorized,
    UnsupportedContact,
    UnsupportedIdentifier,
}

impl Kind {
    /// Its name, status, and what is said of it in general. The statuses are those of OpenBao where RFC 8555 leaves them open.
    const fn facts(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::AccountDoesNotExist => {
                ("accountDoesNotExist", 400, "the request specified an account that does not exist")
            }
            Self::AlreadyRevoked => (
                "alreadyRevoked",
                400,
                "the request specified a certificate to be revoked that has already been revoked",
            ),
            Self::BadCsr => ("badCSR", 400, "the CSR is unacceptable"),
            Self::BadNonce => {
                ("badNonce", 400, "the client sent an unacceptable anti-replay nonce")
            }
            Self::BadPublicKey => (
                "badPublicKey",
                400,
                "the JWS was signed by a public key the server does not support",
            ),
            Self::BadRevocationReason => (
                "badRevocationReason",
                400,
                "the revocation reason provided is not allowed by the server",
            ),
            Self::BadSignatureAlgorithm => (
                "badSignatureAlgorithm",
                400,
                "the JWS was signed with an algorithm the server does not support",
            ),
            Self::Connection => {
                ("connection", 400, "the server could not connect to the validation target")
            }
            Self::Dns => ("dns", 400, "there was a problem with a DNS query during validation"),
            Self::ExternalAccountRequired => (
                "externalAccountRequired",
                401,
                "the request must include a value for the 'externalAccountBinding' field",
            ),
            Self::IncorrectResponse => (
                "incorrectResponse",
                400,
                "response received didn't match the challenge's requirements",
            ),
            Self::InvalidContact => {
                ("invalidContact", 400, "a contact URL for an account was invalid")
            }
            Self::Malformed => ("malformed", 400, "the request message was malformed"),
            Self::OrderNotReady => (
                "orderNotReady",
                403,
                "the request attempted to finalize an order that is not ready to be finalized",
            ),
            Self::RateLimited => ("rateLimited", 429, "the request exceeds a rate limit"),
            Self::RejectedIdentifier => (
                "rejectedIdentifier",
                400,
                "the server will not issue certificates for the identifier",
            ),
            Self::Tls => ("tls", 400, "the server received a TLS error during validation"),
            Self::Unauthorized => {
                ("unauthorized", 401, "the client lacks sufficient authorization")
            }
            Self::UnsupportedContact => (
                "unsupportedContact",
                400,
                "a contact URL for an account used an unsupported protocol scheme",
            ),
            Self::UnsupportedIdentifier => {
                ("unsupportedIdentifier", 400, "an identifier is of an unsupported type")
            }
        }
    }
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pki) struct Problem {
    kind: Kind,
    /// Another status than that of its kind.
    code: Option<u16>,
    detail: String,
    /// What else there is to say, such as the algorithms that are supported.
    also: Vec<(&'static str, Json)>,
    /// The URL of what is in the way.
    pub(super) location: Option<String>,
}

impl Problem {
    pub(super) fn new(kind: Kind, why: impl AsRef<str>) -> Self {
        let (_, _, general) = kind.facts();
        // In the order in which clients know them.
        let is_general_first =
            matches!(kind, Kind::BadCsr | Kind::OrderNotReady | Kind::IncorrectResponse);
        let detail = match why.as_ref() {
            "" => general.to_owned(),
            why if is_general_first => format!("{general}: {why}"),
            why => format!("{why}: {general}"),
        };
        Self { kind, code: None, detail, also: Vec::new(), location: None }
    }

    /// The same with another status.
    pub(super) fn with_code(self, code: u16) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same with the URL of what is in the way.
    pub(super) fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// The same with another member.
    pub(super) fn also(mut self, name: &'static str, value: Json) -> Self {
        self.also.push((name, value));
        self
    }

    pub(super) fn code(&self) -> u16 {
        self.code.unwrap_or(self.kind.facts().1)
    }

    /// The document.
    pub(super) fn to_json(&self) -> Map {
        let (name, ..) = self.kind.facts();
        let mut document = crate::pki::given::object([
            ("type", format!("urn:ietf:params:acme:error:{name}").into()),
            ("detail", self.detail.as_str().into()),
        ]);
        for (name, value) in &self.also {
            document.insert((*name).to_owned(), value.clone());
        }
        document
    }
}

/// Why a request fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pki) enum Failure {
    /// For the client to hear.
    Problem(Box<Problem>),
    /// What the server cannot do.
    Server(Error),
    /// ACME is disabled here.
    Disabled,
}

impl Failure {
    /// The same, of something that is not there.
    pub(super) fn not_found(self) -> Self {
        match self {
            Self::Problem(problem) => problem.with_code(404).into(),
            other => other,
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(why) => malformed(why),
            Error::TooLarge(why) => Problem::new(Kind::Malformed, why).with_code(413).into(),
            other => Self::Server(other),
        }
    }
}

/// A failure of a kind.
pub(super) fn fail(kind: Kind, why: impl AsRef<str>) -> Failure {
    Problem::new(kind, why).into()
}

/// A request that is not what it should be.
pub(super) fn malformed(why: impl AsRef<str>) -> Failure {
    fail(Kind::Malformed, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_a_type_a_detail_and_nothing_that_is_null() {
        let problem = Problem::new(Kind::OrderNotReady, "order is status pending");
        assert_eq!(problem.code(), 403);
        let document = problem.to_json();
        assert_eq!(document.get("type"), Some(&"urn:ietf:params:acme:error:orderNotReady".into()));
        assert!(document.values().all(|value| *value != Json::Null));
    }
}
