//! The arguments of `kallisto server`.

use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use kallisto_store::Losses;
use secrecy::SecretString;
use tracing_subscriber::filter::LevelFilter;

use super::config::{self, LogConfig, LogFormat, Of};
use super::log_levels::LogLevels;
use super::request_log::RequestLog;
use super::settings::{LogSettings, ServerSettings};
use kallisto_command::config::{Environment, log_colours_wanted};
use kallisto_command::error::Error;

/// Run a server
///
/// With -config: durable, encrypted, sealed until it is unsealed. With -dev: everything in memory,
/// unsealed, KV version 2 at secret/; nothing is kept when it stops. With both: a dev server that has
/// what the configuration says besides, its storage too if it names one.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto server -dev\n  \
    kallisto server -dev -dev-root-token-id=root -dev-listen-address=127.0.0.1:8200\n  \
    kallisto server -dev-tls\n  \
    kallisto server -dev -dev-kv-v1 -config=/etc/kallisto/telemetry.hcl\n  \
    kallisto server -config=/etc/kallisto/server.hcl\n  \
    kallisto server -config=/etc/kallisto/server.hcl -log-format=json -exit-on-core-shutdown\n\n\
    Of the log a flag wins over KALLISTO_LOG_LEVEL and KALLISTO_LOG_FORMAT (or BAO_.., VAULT_..), these over the \
    configuration.\n\n\
    Stops on SIGINT and SIGTERM; SIGHUP reloads certificates, log_level and \
    log_requests_level, and opens audit files anew. Exit codes: 0 stopped by a signal, \
    1 could not start, storage failed, or -exit-on-core-shutdown")]
pub struct ServerArgs {
    /// Configuration file, or directory of .hcl and .json files; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(super) config: Vec<PathBuf>,
    /// Run in memory, unsealed, for development
    #[arg(long)]
    pub(super) dev: bool,
    /// The same over TLS, with a certificate made at start
    #[arg(long)]
    pub(super) dev_tls: bool,
    /// Where -dev-tls writes its authority, certificate and key [default: a new temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(super) dev_tls_cert_dir: Option<PathBuf>,
    /// Root token of a dev server; drawn at random when absent
    #[arg(long, value_name = "TOKEN")]
    pub(super) dev_root_token_id: Option<SecretString>,
    /// Address a dev server listens on [default: 127.0.0.1:8200]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) dev_listen_address: Option<String>,
    /// Address at which a dev server speaks the Redis protocol [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) dev_resp_listen_address: Option<String>,
    /// Do not write the root token to ~/.vault-token
    #[arg(long)]
    pub(super) dev_no_store_token: bool,
    /// Mount KV version 1 at secret/ of a dev server, and not version 2
    #[arg(long)]
    pub(super) dev_kv_v1: bool,
    /// Least urgent events to log: trace, debug, info, warn, error or off
    #[arg(long, value_name = "LEVEL", value_parser = GivenLevel::parse)]
    log_level: Option<GivenLevel>,
    /// How a line of the log looks [default: standard]
    #[arg(long, value_name = "FORMAT", value_enum, ignore_case = true)]
    log_format: Option<LogFormat>,
    /// End with exit code 1 once the server is down for good: its cluster has removed it
    #[arg(long)]
    pub(super) exit_on_core_shutdown: bool,
    /// Threads that serve requests [default: one per processor]
    #[arg(long, value_name = "COUNT")]
    workers: Option<NonZeroUsize>,
    /// Start although the log lost what was on the disk, with what is left
    #[arg(long)]
    accept_log_loss: bool,
}

/// A level of the log as a flag says it; none where the flag was filled from an empty variable.
#[derive(Clone, Copy, Debug)]
struct GivenLevel(Option<LevelFilter>);

impl GivenLevel {
    fn parse(text: &str) -> Result<Self, String> {
        let level = config::LEVELS.iter().find(|(word, _)| text.eq_ignore_ascii_case(word));
        if level.is_none() && !text.is_empty() {
            let words: Vec<&str> = config::LEVELS.iter().map(|(word, _)| *word).collect();
            return Err(format!("expected one of: {}", words.join(", ")));
        }
        Ok(Self(level.map(|(_, level)| *level)))
    }
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
            dev_kv_v1: false,
            log_level: None,
            log_format: None,
            exit_on_core_shutdown: false,
            workers: None,
            accept_log_loss: false,
        }
    }

    /// What is done with a log that lost what was on the disk.
    pub(super) fn losses(&self) -> Losses {
        if self.accept_log_loss { Losses::Accepted } else { Losses::Refused }
    }

    /// Checks the arguments and fills in what the environment and the defaults say.
    pub(super) fn into_settings(self) -> Result<ServerSettings, Error> {
        let dev = self.dev || self.dev_tls;
        let environment = Environment::process();
        match (dev, self.config.is_empty()) {
            (true, _) => self.into_dev(&environment),
            (false, false) => self.build_settings(&environment),
            // A container may have its whole configuration there.
            (false, true) if environment.value("LOCAL_CONFIG").is_some() => {
                self.build_settings(&environment)
            }
            (false, true) => Err(Error::usage(
                "which server? Give -config=FILE for a durable one, -dev for one in memory",
            )),
        }
    }

    /// How to log: a flag wins over what the configuration and the environment say.
    pub(super) fn log(&self, configured: &LogConfig) -> LogSettings {
        let level = self.given_level().or(configured.level);
        let format = self.log_format.or(configured.format);
        LogSettings {
            level: level.unwrap_or(LevelFilter::INFO),
            requests: configured.requests.unwrap_or(LevelFilter::OFF),
            format: format.unwrap_or_default(),
            colour: log_colours_wanted(std::io::stderr().is_terminal(), &Environment::process()),
            file: configured.file.clone(),
        }
    }

    fn given_level(&self) -> Option<LevelFilter> {
        self.log_level.and_then(|given| given.0)
    }

    /// What SIGHUP has read anew.
    pub(super) fn reloaded(&self) -> ReloadedConfig {
        let of = if self.dev || self.dev_tls { Of::DevServer } else { Of::Server };
        ReloadedConfig { paths: self.config.clone(), of, level: self.given_level() }
    }

    pub(super) fn workers(&self) -> NonZeroUsize {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.workers.unwrap_or(cores)
    }
}

/// The configuration, to be read again while the server runs.
pub(super) struct ReloadedConfig {
    paths: Vec<PathBuf>,
    of: Of,
    /// The level of the log that a flag says, which wins.
    level: Option<LevelFilter>,
}

impl ReloadedConfig {
    /// Reads it, and takes over what can change: the levels of the log and of completed requests. What cannot be read changes nothing, and is told.
    pub(super) fn read(&self, requests: &RequestLog, levels: &LogLevels) {
        if self.paths.is_empty() {
            return;
        }
        let log = match config::load(&self.paths, &Environment::process(), self.of) {
            Ok(loaded) => loaded.config.log,
            Err(error) => {
                tracing::error!(%error, "configuration not read anew");
                return;
            }
        };
        let level = self.level.or(log.level).unwrap_or(LevelFilter::INFO);
        let asked = log.requests.unwrap_or(LevelFilter::OFF);
        requests.set(asked);
        let before = levels.configure(level);
        if let Some(before) = before {
            tracing::info!(log_level = %level, %before, "level of the log changed");
        }
        tracing::info!(log_level = %level, log_requests_level = %asked, "configuration read anew");
        if let Some(why) = hidden(asked, level) {
            tracing::warn!("{why}");
        }
    }
}

/// What there is to say of a log that does not show the requests it is asked for.
fn hidden(asked: LevelFilter, shown: LevelFilter) -> Option<String> {
    (asked > shown)
        .then(|| format!("log_requests_level = \"{asked}\" has no effect: log_level is {shown}"))
}

impl LogSettings {
    /// What of it has no effect.
    pub(super) fn hidden(&self) -> Option<String> {
        hidden(self.requests, self.level)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Given {
        #[command(flatten)]
        server: ServerArgs,
    }

    #[test]
    fn levels_of_the_log_have_the_same_words_as_a_flag() {
        let configured =
            LogConfig { level: Some(LevelFilter::WARN), requests: None, format: None, file: None };
        let level = |flag: &str| {
            let given =
                Given::try_parse_from(["server", flag]).map_err(|error| error.to_string())?;
            Ok::<_, String>(given.server.log(&configured).level)
        };
        for (word, wanted) in [
            ("err", LevelFilter::ERROR),
            ("Warning", LevelFilter::WARN),
            ("notice", LevelFilter::INFO),
            ("DEBUG", LevelFilter::DEBUG),
            ("off", LevelFilter::OFF),
            // From a variable that is not set.
            ("", LevelFilter::WARN),
        ] {
            assert_eq!(level(&format!("--log-level={word}")), Ok(wanted), "{word}");
        }
        assert!(level("--log-level=loud").unwrap_err().contains("expected one of: trace, debug"));
    }
}
