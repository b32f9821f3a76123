//! The engines and login methods there are: one row each.
//!
//! Nothing else in the server knows which there are. Those that know the server by its contract alone are listed in
//! [`kallisto_engines::ENGINES`].

use crate::auth_methods::approle::AppRole;
use crate::auth_methods::cert::Cert;
use crate::auth_methods::jwt::JwtEngine;
use crate::auth_methods::kubernetes::Kubernetes;
use crate::auth_methods::userpass::Userpass;
use crate::engines::cubbyhole::Cubbyhole;
use crate::engines::identity::Identity;
use crate::engines::kv::{KvEngine, KvState};
use crate::engines::server_engine::ServerEngine;
use crate::engines::sys::System;
use crate::engines::transit::TransitEngine;
use crate::tokens::TokenEngine;

/// The engines that are driven with the server itself.
const ENGINES: &[&'static dyn ServerEngine] = &[
    &System,
    &Identity,
    &Cubbyhole,
    &KvEngine(KvState::V1),
    &KvEngine(KvState::V2),
    &KvEngine(KvState::Upgrading),
    &TransitEngine,
    &TokenEngine,
    &AppRole,
    &Cert,
    &JwtEngine,
    &Kubernetes,
    &Userpass,
    #[cfg(test)]
    &crate::engines::test_engine::ENGINE,
    #[cfg(test)]
    &crate::leases::tests::engine::ENGINE,
];

/// Every engine there is.
pub(crate) fn engines() -> impl Iterator<Item = &'static dyn ServerEngine> {
    let of_contract = kallisto_engines::ENGINES.iter();
    ENGINES.iter().copied().chain(of_contract.map(|spec| *spec as &dyn ServerEngine))
}
