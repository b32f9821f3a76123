//! The arguments of `kallisto server`.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use kallisto_core::admission::AdmissionLimits;
use kallisto_core::{Access, Leases, Offer};
use kallisto_listener::Timeouts;
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
        }
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
        let (tls, ca) = tls.map_or((None, None), |made| (Some(made.files), Some(made.ca)));
        let timeouts = Timeouts::default();
        let mut listeners = vec![ListenerSettings {
            address: address.into(),
            tls: tls.clone(),
            timeouts,
            spoken: Spoken::Http { metrics: Access::Open },
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
            api_addr: None,
            cluster_addr: None,
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

/// A new directory for this run's certificates.
fn fresh_directory() -> Result<PathBuf, Error> {
    let name = format!("kallisto-tls-{}", fastrand::u64(..));
    let directory = std::env::temp_dir().join(name);
    crate::cli::files::create_private_directory(&directory)
        .map_err(|error| Error::usage(format!("{}: {error}", directory.display())))?;
    Ok(directory)
}
