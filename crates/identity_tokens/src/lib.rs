//! Keys, tokens, templates and decisions of identity as an OIDC provider, as pure functions.
//!
//! Nothing here reads a clock, a store or a socket, or knows who asks: the engine at `identity/oidc` does, and keeps what is encoded here.
//! Times are seconds since 1970. Keys, signatures and hashes are `aws-lc-rs`'s; JSON is `kallisto-api`'s.
//!
//! Invariants:
//! - A private key is printed nowhere, and dropped when its version stops signing: what verifies its tokens is public.
//! - A version of a key is published before it signs and until the last token that it signed has ended ([`named_key`]).
//! - A template adds claims and never replaces one that the server sets ([`claims`]).
//! - What a value says cannot change what a template means: values are put in as values, and never parsed ([`template`]).
#![forbid(unsafe_code)]

pub mod algorithm;
pub mod authorize;
pub mod claims;
pub mod client;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod grant;
pub mod jws;
pub mod named_key;
pub mod oauth;
mod record;
pub mod redirect;
pub mod settings;
pub mod signing_key;
pub mod subject;
pub mod template;

pub use algorithm::SigningAlgorithm;
pub use named_key::NamedKey;
pub use oauth::OauthError;
pub use signing_key::{JsonWebKey, TokenSigningKey};
pub use subject::TokenSubject;
pub use template::ClaimsTemplate;
