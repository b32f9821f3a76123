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
#[cfg(test)]
mod records_tests;
mod rotation;
mod ssh;
mod totp;
mod transit;
mod username;

pub use identity_oidc::ENGINE as IDENTITY_OIDC;
use kallisto_engine::EngineSpec;
#[cfg(test)]
use kallisto_engine_testing as testing;

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz {
    //! The bodies of the fuzz targets: what clients, operators and far ends hand the engines, as any bytes.
    pub use crate::database::fill_hostile as sql;
    pub use crate::kubernetes::read_hostile as kubernetes;
    pub use crate::pki::read_hostile_acme as acme;
}

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
