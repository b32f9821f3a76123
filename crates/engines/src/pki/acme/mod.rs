//! ACME (RFC 8555, 8737, 8738) on a PKI mount: certificates for whoever shows that a name or an address is theirs.
//!
//! ```text
//! routes      the rows, once for each kind of directory
//! acme        what every request goes through: directory, signature, nonce, account; and the form of its answer
//! jws         signed requests and their keys          nonces     good on every server, once
//! accounts    accounts and their keys                 eab        external account bindings
//! orders      orders and authorizations               challenges what is looked at, when, and what it comes to
//! finalize    from a CSR to a certificate             revoke     by account, by key, by who holds the names
//! expiry      what ends, and what is deleted          config     settings of the mount
//! problem     what a client hears when it fails
//! ```
//!
//! In the mount's storage, a record each:
//!
//! ```text
//! acme/account/ID            an account               acme/key/HASH      whose a key is, by directory
//! acme/eab/ID                a key that was handed out
//! acme/order/ACCOUNT/ID      an order                 acme/authz/ACCOUNT/ID   an authorization with its challenges
//! acme/probe/ACCOUNT/AUTHZ   that a challenge is being looked at
//! acme/cert/ACCOUNT/SERIAL   that an account was issued a certificate
//! acme/end/SECS-ORDER        what is deleted then     acme/nonces        who keeps the nonces that were used
//! ```
//!
//! Invariants:
//! - What an account made stands below its id: no request reaches what another account made.
//! - A certificate and the order that it fulfils are committed together; an order has one certificate.
//! - Names are decided on by the role, at the order and again at the certificate, with `kallisto_pki::names`.

mod accounts;
mod challenges;
pub(super) mod config;
mod eab;
mod exchange;
mod expiry;
mod finalize;
#[cfg(test)]
mod golden;
#[cfg(any(test, feature = "fuzz"))]
mod hostile;
mod jws;
pub(super) mod nonces;
mod orders;
mod problem;
mod revoke;
mod routes;
#[cfg(test)]
mod tests;

pub(super) use expiry::tidy_accounts;
#[cfg(any(test, feature = "fuzz"))]
pub use hostile::read_hostile;
pub(super) use routes::{AT_ISSUER, AT_ISSUER_ROLE, AT_MOUNT, AT_ROLE, SETTINGS};

use kallisto_engine::EngineJob;

/// What ACME does by the clock.
pub(super) const PROBE_JOB: EngineJob = EngineJob {
    name: "acme_challenges",
    about: "Looks at the challenges of ACME that clients say are ready.",
    period_secs: 1,
    run: |context| Box::pin(challenges::run(context)),
};

/// The other thing.
pub(super) const EXPIRY_JOB: EngineJob = EngineJob {
    name: "acme_expiry",
    about: "Deletes orders and authorizations of ACME that have ended.",
    period_secs: 10,
    run: |context| Box::pin(expiry::run(context)),
};
