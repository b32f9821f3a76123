//! The login methods: a folder each, and a row each in [`METHODS`].
//!
//! A login method keeps its roles or users in the storage of its mount. A login runs without a token; whatever proof it takes, it ends in
//! a [`Login`](kallisto_engine::Login), of which the server makes a token.
//!
//! Invariants:
//! - All refusals of a wrong proof read the same: none says which users there are.
//! - A name has one spelling, so that no two spellings are one user.
#![forbid(unsafe_code)]

mod approle;
mod cert;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz {
    //! The body of the fuzz target; see `jwt::fuzz`.
    pub use crate::jwt::fuzz::oidc;
}
mod github;
mod jwt;
mod kubernetes;
mod ldap;
mod local;
mod names;
mod okta;
mod password;
mod records;
mod rest;
mod routes;
mod userpass;

use kallisto_engine::EngineSpec;

/// Every login method.
pub const METHODS: &[&EngineSpec] = &[
    &approle::METHOD,
    &cert::METHOD,
    &github::METHOD,
    &jwt::METHOD,
    &jwt::OIDC_METHOD,
    &kubernetes::METHOD,
    &ldap::METHOD,
    &okta::METHOD,
    &userpass::METHOD,
];
