//! `pki`: certificate authorities of PKI mounts, seen from outside.
//!
//! | command | does |
//! |---|---|
//! | `issue` | makes an intermediate CA in one mount, signed by an issuer of another |
//! | `reissue` | the same, with the contents of a CA that there is already |
//! | `list-intermediates` | says which issuers a certificate has issued |
//! | `verify-sign` | says how two issuers are related |
//! | `health-check` | looks for what a mount should change, and what will soon fail |
//!
//! Names, flags and exit codes are those of Vault's command line. Certificates are read and compared here, by
//! `kallisto_pki`; the server is asked for nothing but what its API has.

mod fetch;
mod health;
mod issue;
mod list_intermediates;
mod reissue;
mod relation;
mod verify_sign;

use clap::Subcommand;

use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// What can be done with the authorities of PKI mounts.
#[derive(Subcommand, Debug)]
pub(crate) enum Pki {
    Issue(issue::Issue),
    Reissue(reissue::Reissue),
    ListIntermediates(list_intermediates::ListIntermediates),
    VerifySign(verify_sign::VerifySign),
    HealthCheck(health::HealthCheck),
}

impl Pki {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Issue(issue) => issue.run(),
            Self::Reissue(reissue) => reissue.run(),
            Self::ListIntermediates(list) => list.run(),
            Self::VerifySign(verify) => verify.run(),
            Self::HealthCheck(check) => check.run(),
        }
    }
}
