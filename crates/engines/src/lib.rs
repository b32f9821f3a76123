//! The engines that know the server by its contract alone: a folder each, and a row each in [`ENGINES`].
#![forbid(unsafe_code)]

mod base_url;
mod cubbyhole;
mod database;
mod identity_oidc;
mod identity_template;
mod kubernetes;
mod ldap;
mod leased;
mod passwords;
mod pki;
mod rabbitmq;
mod rotation;
mod ssh;
#[cfg(test)]
mod testing;
mod totp;
mod transit;
mod username;

pub use identity_oidc::ENGINE as IDENTITY_OIDC;
use kallisto_engine::EngineSpec;

pub use database::read_hostile_sql;
pub use kubernetes::read_hostile as read_hostile_kubernetes;
pub use pki::read_hostile_acme;

/// Every engine here that operators mount. [`IDENTITY_OIDC`] is a part of the engine at `identity/`.
pub const ENGINES: &[&EngineSpec] = &[
    &cubbyhole::ENGINE,
    &database::ENGINE,
    &kubernetes::ENGINE,
    &ldap::ENGINE,
    &ldap::OPENLDAP_ENGINE,
    &pki::ENGINE,
    &rabbitmq::ENGINE,
    &ssh::ENGINE,
    &totp::ENGINE,
    &transit::ENGINE,
];
