//! `lease`: asking about leases, giving them more time, and ending them.

use std::time::Duration;

use clap::{Args, Subcommand};

use kallisto_command::client::{Client, ClientRequest, url};
use kallisto_command::config::Config;
use kallisto_command::duration;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// What can be done with leases.
#[derive(Subcommand, Debug)]
pub(crate) enum Lease {
    /// Print what the server knows about a lease
    Lookup(Lookup),
    /// Give a lease more time
    Renew(Renew),
    /// End a lease, or all below a prefix
    Revoke(Revoke),
}

impl Lease {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::Lookup(lookup) => lookup.run(),
            Self::Renew(renew) => renew.run(),
            Self::Revoke(revoke) => revoke.run(),
        }
    }
}

/// Looks a lease up.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto lease lookup auth/token/create/h2f6a614c")]
pub(crate) struct Lookup {
    /// Its id
    id: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Lookup {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let body = Map::from([("lease_id".to_owned(), Json::from(self.id.trim()))]);
        let client = Client::new(&config)?;
        let doing = Error::doing(format!("error looking up lease id {}", self.id));
        let answer = client
            .send(&ClientRequest::put("sys/leases/lookup", body).wrappable())
            .map_err(doing)?;
        let answer = answer.ok_or_else(|| Error::no_value(&self.id))?;
        output::secret(&answer, &config, None)
    }
}

/// Gives a lease more time.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto lease renew auth/token/create/h2f6a614c\n  kallisto lease renew -increment=1h auth/token/create/h2f6a614c"
)]
pub(crate) struct Renew {
    /// Its id
    id: String,
    /// How much more, e.g. 1h; the server decides
    #[arg(long, short = 'i', value_name = "DURATION")]
    increment: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

/// Whole seconds, and one for less: none asks for the default.
fn whole_secs(span: Duration) -> u64 {
    span.as_secs().max(u64::from(!span.is_zero()))
}

impl Renew {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let increment = self.increment.as_deref().map(duration::parse).transpose();
        let increment = increment.map_err(|why| Error::usage(format!("-increment: {why}")))?;
        let body = Map::from([
            ("increment".to_owned(), Json::from(increment.map_or(0, whole_secs))),
            ("lease_id".to_owned(), Json::from(self.id.trim())),
        ]);
        let client = Client::new(&config)?;
        let doing = Error::doing(format!("Error renewing {}", self.id));
        let answer = client
            .send(&ClientRequest::put("sys/leases/renew", body).wrappable())
            .map_err(doing)?;
        let answer = answer.ok_or_else(|| Error::no_value(&self.id))?;
        output::secret(&answer, &config, None)
    }
}

/// Ends a lease and what hangs on it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto lease revoke auth/token/create/h2f6a614c\n  kallisto lease revoke -prefix auth/userpass/login/ada"
)]
pub(crate) struct Revoke {
    /// Its id, or with -prefix what ids begin with
    id: String,
    /// End all leases whose ids begin so
    #[arg(long)]
    prefix: bool,
    /// Forget them even where an engine cannot end them; with -prefix
    #[arg(long, short = 'f')]
    force: bool,
    /// Return when it is done
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    common: CommonFlags,
}

impl Revoke {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let id = url::clean(self.id.trim())?;
        let (family, failed, done) = match (self.force, self.prefix) {
            (true, false) => {
                return Err(Error::usage("Specifying -force requires also specifying -prefix"));
            }
            (true, true) => (
                "revoke-force",
                format!("Error force revoking leases with prefix {id}"),
                format!("Success! Force revoked any leases with prefix: {id}"),
            ),
            (false, true) => (
                "revoke-prefix",
                format!("Error revoking leases with prefix {id}"),
                format!("Success! Revoked any leases with prefix: {id}"),
            ),
            (false, false) => (
                "revoke",
                format!("Error revoking lease {id}"),
                format!("Success! Revoked lease: {id}"),
            ),
        };
        let path = format!("sys/leases/{family}/{id}");
        let body = Map::from([("sync".to_owned(), Json::from(self.sync))]);
        let client = Client::new(&config)?;
        client.send(&ClientRequest::put(&path, body)).map_err(Error::doing(failed))?;
        // Here revoking has happened when it is answered; Vault without -sync has only begun.
        let queued = !self.sync && !self.force;
        let sentence =
            if queued { "All revocation operations queued successfully!" } else { &done };
        Ok(output::done(&config, sentence))
    }
}
