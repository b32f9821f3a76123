//! The engines that know the server by its contract alone: a folder each, and a row each in [`ENGINES`].
#![forbid(unsafe_code)]

mod cubbyhole;
mod identity_template;
mod pki;
mod ssh;
#[cfg(test)]
mod testing;
mod totp;
mod transit;

use kallisto_engine::EngineSpec;

pub use pki::read_hostile_acme;

/// Every engine here.
pub const ENGINES: &[&EngineSpec] =
    &[&cubbyhole::ENGINE, &pki::ENGINE, &ssh::ENGINE, &totp::ENGINE, &transit::ENGINE];
