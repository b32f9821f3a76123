//! The arguments of `kallisto server`.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use kallisto_core::admission::AdmissionLimits;
use kallisto_core::limits::MAX_STALENESS_DEFAULT;
use kallisto_core::{Access, Leases, Offer};
use kallisto_listener::Timeouts;
use kallisto_listener::http::ForwardedFor;
use kallisto_store::Losses;
use secrecy::{ExposeSecret, SecretString};
use tracing_subscriber::filter::LevelFilter;

use super::config::DIRECTORIES_DEFAULT;
use super::settings::{
    DevSettings, ListenerSettings, LogFormat, LogSettings, Settings, Spoken, Storage, resolve,
};
use super::{dev_tls, hygiene};
use crate::cli::config::{Environment, token_file};
use crate::cli::error::Error;

/// Where a dev server lets audit files lie.
const DEV_AUDIT_DIRECTORIES: [&str; 2] = [DIRECTORIES_DEFAULT[0], "/tmp"];
const DEV_ADDRESS: &str = "127.0.0.1:8200";

/// Run a server
///
/// With -config: durable, encrypted, sealed until it is unsealed. With -dev: everything in memory,
/// unsealed, KV version 2 at secret/; nothing is kept when it stops.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto server -dev\n  \
    kallisto server -dev -dev-root-token-id=root -dev-listen-address=127.0.0.1:8200\n  \
    kallisto server -dev-tls\n  \
    kallisto server -config=/etc/kallisto/server.hcl\n\n\
    Stops on SIGINT and SIGTERM; SIGHUP reloads certificates and \
    opens audit files anew. Exit codes: 0 stopped by a signal, \
    1 could not start or storage failed")]
pub(crate) struct ServerArgs {
    /// Configuration file, or directory of .hcl and .json files; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(super) config: Vec<PathBuf>,
    /// Run in memory, unsealed, for development
    #[arg(long)]
    dev: bool,
    /// The same over TLS, with a certificate made at start
    #[arg(long)]
    dev_tls: bool,
    /// Where -dev-tls writes its authority, certificate and key [default: a new temporary directory]
    #[arg(long, value_name = "DIR")]
    dev_tls_cert_dir: Option<PathBuf>,
    /// Root token of a dev server; drawn at random when absent
    #[arg(long, value_name = "TOKEN")]
    dev_root_token_id: Option<SecretString>,
    /// Address a dev server listens on [default: 127.0.0.1:8200]
    #[arg(long, value_name = "HOST:PORT")]
    dev_listen_address: Option<String>,
    /// Address at which a dev server speaks the Redis protocol [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    dev_resp_listen_address: Option<String>,
    /// Do not write the root token to ~/.vault-token
    #[arg(long)]
    dev_no_store_token: bool,
    /// Least urgent events to log: trace, debug, info, warn, error or off
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LevelFilter>,
    /// Threads that serve requests [default: one per processor]
    #[arg(long, value_name = "COUNT")]
    workers: Option<NonZeroUsize>,
    /// Start although the log lost what was on the disk, with what is left
    #[arg(long)]
    accept_log_loss: bool,
}

impl ServerArgs {
    /// Those of a server with this configuration and nothing else.
    pub(super) fn of_config(config: Vec<PathBuf>) -> Self {
        Self {
            config,
            dev: false,
            dev_tls: false,
            dev_tls_cert_dir: None,
            dev_root_token_id: None,
            dev_listen_address: None,
            dev_resp_listen_address: None,
            dev_no_store_token: false,
            log_level: None,
            workers: None,
            accept_log_loss: false,
        }
    }

    /// What is done with a log that lost what was on the disk.
    pub(super) fn losses(&self) -> Losses {
        if self.accept_log_loss { Losses::Accepted } else { Losses::Refused }
    }

    /// Checks the arguments and fills in what the environment and the defaults say.
    pub(super) fn into_settings(self) -> Result<Settings, Error> {
        let dev = self.dev || self.dev_tls;
        match (dev, self.config.is_empty()) {
            (true, true) => self.into_dev(&Environment::process()),
            (false, false) => self.into_configured(&Environment::process()),
            (true, false) => Err(Error::usage("-dev and -config exclude each other")),
            (false, true) => Err(Error::usage(
                "which server? Give -config=FILE for a durable one, -dev for one in memory",
            )),
        }
    }

    fn into_dev(self, environment: &Environment<'_>) -> Result<Settings, Error> {
        let token = self
            .dev_root_token_id
            .clone()
            .or_else(|| environment.value("DEV_ROOT_TOKEN_ID").map(SecretString::from));
        let address = self
            .dev_listen_address
            .clone()
            .or_else(|| environment.value("DEV_LISTEN_ADDRESS"))
            .unwrap_or_else(|| DEV_ADDRESS.to_owned());
        let address = resolve(&address)?;
        let tls = if self.dev_tls {
            let directory = match &self.dev_tls_cert_dir {
                Some(directory) => directory.clone(),
                None => fresh_directory()?,
            };
            Some(dev_tls::generate(&directory, address.ip()).map_err(Error::usage)?)
        } else {
            None
        };
        let (api_addr, cluster_addr) = dev_addresses(address, tls.is_some());
        let (tls, ca) = tls.map_or((None, None), |made| (Some(made.files), Some(made.ca)));
        let timeouts = Timeouts::default();
        let mut listeners = vec![ListenerSettings {
            address: address.into(),
            tls: tls.clone(),
            timeouts,
            spoken: Spoken::Http { metrics: Access::Open, forwarded_for: ForwardedFor::default() },
        }];
        if let Some(address) = &self.dev_resp_listen_address {
            let address = resolve(address)?;
            if tls.is_none() && !address.ip().is_loopback() {
                return Err(Error::usage(
                    "-dev-resp-listen-address has to be a loopback address without -dev-tls",
                ));
            }
            let (mounts, userpass) = (vec!["secret".to_owned()], "userpass".to_owned());
            let spoken = Spoken::Resp { mounts, userpass };
            let address = address.into();
            listeners.push(ListenerSettings { address, tls, timeouts, spoken });
        }
        Ok(Settings {
            listeners,
            storage: Storage::Memory,
            seal: None,
            cluster_name: None,
            limits: AdmissionLimits::default(),
            leases: Leases::default(),
            private_files: Vec::new(),
            api_addr,
            cluster_addr,
            max_staleness: MAX_STALENESS_DEFAULT,
            cache_bytes: hygiene::half_of_memory(),
            unauthenticated_rekey: Access::Open,
            audit_devices: Vec::new(),
            audit_directories: DEV_AUDIT_DIRECTORIES.map(PathBuf::from).to_vec(),
            prometheus: Offer::Served,
            log: self.log(LevelFilter::INFO, LogFormat::Standard),
            workers: self.workers(),
            pid_file: None,
            dev: Some(DevSettings {
                root_token: token.filter(|text| !text.expose_secret().is_empty()),
                token_file: token_file(environment).filter(|_| !self.dev_no_store_token),
                ca,
            }),
            warnings: Vec::new(),
        })
    }

    pub(super) fn log(&self, level: LevelFilter, format: LogFormat) -> LogSettings {
        LogSettings {
            level: self.log_level.unwrap_or(level),
            format,
            colour: std::io::stderr().is_terminal(),
        }
    }

    pub(super) fn workers(&self) -> NonZeroUsize {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.workers.unwrap_or(cores)
    }
}

/// What a dev server says of itself: where its API is, and where a cluster's port would be. Neither is
/// known of a port that the system chooses.
fn dev_addresses(address: SocketAddr, is_tls: bool) -> (Option<String>, Option<String>) {
    if address.port() == 0 {
        return (None, None);
    }
    let scheme = if is_tls { "https" } else { "http" };
    let next = address.port().checked_add(1).map(|port| SocketAddr::new(address.ip(), port));
    (Some(format!("{scheme}://{address}")), next.map(|next| format!("https://{next}")))
}

/// A new directory for this run's certificates.
fn fresh_directory() -> Result<PathBuf, Error> {
    let name = format!("kallisto-tls-{}", fastrand::u64(..));
    let directory = std::env::temp_dir().join(name);
    crate::cli::files::create_private_directory(&directory)
        .map_err(|error| Error::usage(format!("{}: {error}", directory.display())))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dev_server_says_where_it_is_unless_its_port_is_drawn() {
        let of = |text: &str, is_tls| dev_addresses(text.parse().unwrap(), is_tls);
        let (api, cluster) = of("127.0.0.1:8200", false);
        assert_eq!(api.as_deref(), Some("http://127.0.0.1:8200"));
        assert_eq!(cluster.as_deref(), Some("https://127.0.0.1:8201"));
        assert_eq!(of("[::1]:8200", true).0.as_deref(), Some("https://[::1]:8200"));
        assert_eq!(of("127.0.0.1:65535", false).1, None);
        assert_eq!(of("127.0.0.1:0", false), (None, None));
    }
}
