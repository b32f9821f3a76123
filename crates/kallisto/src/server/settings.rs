//! The server's arguments and what they come to.

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use tracing_subscriber::filter::LevelFilter;

use crate::cli::config::{Environment, token_file};
use crate::cli::error::Error;

const DEV_ADDRESS: &str = "127.0.0.1:8200";

/// Run a server
///
/// With -dev: everything in memory, unsealed, KV version 2 at secret/, plain HTTP. Nothing is kept
/// when it stops.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto server -dev\n  \
    kallisto server -dev -dev-root-token-id=root -dev-listen-address=127.0.0.1:8200\n\n\
    Stops on SIGINT and SIGTERM. Exit codes: 0 stopped by a signal, 1 could not start")]
pub(crate) struct ServerArgs {
    /// Run in memory, unsealed, for development
    #[arg(long)]
    dev: bool,
    /// Root token of a dev server; drawn at random when absent
    #[arg(long, value_name = "TOKEN")]
    dev_root_token_id: Option<SecretString>,
    /// Address a dev server listens on [default: 127.0.0.1:8200]
    #[arg(long, value_name = "HOST:PORT")]
    dev_listen_address: Option<String>,
    /// Do not write the root token to ~/.vault-token
    #[arg(long)]
    dev_no_store_token: bool,
    /// Least urgent events to log: trace, debug, info, warn, error or off
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
    /// Threads that serve requests [default: one per processor]
    #[arg(long, value_name = "COUNT")]
    workers: Option<NonZeroUsize>,
}

/// What a server runs with.
pub(super) struct Settings {
    pub(super) address: SocketAddr,
    pub(super) root_token: Option<SecretString>,
    /// Where to leave the root token for the client commands.
    pub(super) token_file: Option<PathBuf>,
    pub(super) log_level: LevelFilter,
    pub(super) workers: NonZeroUsize,
    pub(super) colour: bool,
}

impl ServerArgs {
    /// Checks the arguments and fills in what the environment and the defaults say.
    pub(super) fn into_settings(self) -> Result<Settings, Error> {
        if !self.dev {
            return Err(Error::usage(
                "this server runs in development mode only: start it with -dev",
            ));
        }
        let environment = Environment::process();
        let token = self
            .dev_root_token_id
            .or_else(|| environment.value("DEV_ROOT_TOKEN_ID").map(SecretString::from));
        let address = self
            .dev_listen_address
            .or_else(|| environment.value("DEV_LISTEN_ADDRESS"))
            .unwrap_or_else(|| DEV_ADDRESS.to_owned());
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Ok(Settings {
            address: resolve(&address)?,
            root_token: token.filter(|text| !text.expose_secret().is_empty()),
            token_file: token_file(&environment).filter(|_| !self.dev_no_store_token),
            log_level: self.log_level,
            workers: self.workers.unwrap_or(cores),
            colour: std::io::stderr().is_terminal(),
        })
    }
}

fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let refuse = |why: String| Error::usage(format!("bad listen address {address}: {why}"));
    let mut found = address.to_socket_addrs().map_err(|error| refuse(error.to_string()))?;
    found.next().ok_or_else(|| refuse("it has no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_resolve_or_are_refused_by_name() {
        assert!(resolve("127.0.0.1:8200").is_ok());
        for bad in ["127.0.0.1", "127.0.0.1:99999", ""] {
            let Err(error) = resolve(bad) else { panic!("{bad} was taken") };
            assert!(error.to_string().contains("bad listen address"), "{error}");
        }
    }
}
