//! `kallisto server`: starts a server in this process and stops it on a signal.
//!
//! Arguments become one validated [`settings::Settings`]; then core, service and listener are put
//! together here and nowhere else. Unlike the client commands a server speaks to its operator
//! while it runs: what it is, to stdout, once; events to stderr as log lines.

mod announce;
mod settings;

use std::io;
use std::sync::Arc;

use kallisto_core::{Access, Core, Initialized, ServerInfo};
use kallisto_listener::http::Service;
use kallisto_listener::{Clock, Server, ServerConfig, SystemClock};
use kallisto_store::MemoryStore;
use secrecy::ExposeSecret;

use crate::VAULT_API_VERSION;
use crate::cli::error::Error;
use crate::cli::files;
use crate::cli::outcome::Outcome;
pub(crate) use settings::ServerArgs;
use settings::Settings;

impl ServerArgs {
    /// Runs a server until SIGINT or SIGTERM.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let settings = self.into_settings()?;
        start_logging(&settings);
        let (core, made) = open_dev(&settings).map_err(|error| Error::usage(error.to_string()))?;
        let server = serve(core, &settings).map_err(|error| {
            Error::usage(format!("cannot listen on {}: {error}", settings.address))
        })?;
        if let Some(path) = &settings.token_file {
            files::write_private(path, made.root_token.expose_secret().as_bytes()).map_err(
                |error| {
                    Error::usage(format!("cannot write the token to {}: {error}", path.display()))
                },
            )?;
        }
        announce::dev(&server, &made, settings.token_file.as_deref())
            .map_err(|error| Error::usage(format!("cannot write to standard output: {error}")))?;
        let signal = wait_for_signal()
            .map_err(|error| Error::usage(format!("cannot wait for signals: {error}")))?;
        tracing::info!(signal, "shutting down");
        server.shut_down();
        Ok(Outcome::default())
    }
}

/// A core over memory, initialised and unsealed, and what initialisation handed out.
fn open_dev(settings: &Settings) -> Result<(Arc<Core>, Initialized), kallisto_core::Error> {
    let info = ServerInfo {
        version: VAULT_API_VERSION.to_owned(),
        build_date: build_date(),
        storage_type: "inmem".to_owned(),
        cluster_name: None,
        unauthenticated_rekey: Access::Open,
    };
    let core = Core::new(Arc::new(MemoryStore::new()), info);
    let root = settings.root_token.clone();
    let made = pollster::block_on(core.initialize_dev(root, SystemClock.now()))?;
    Ok((Arc::new(core), made))
}

fn serve(core: Arc<Core>, settings: &Settings) -> io::Result<Server> {
    let service = Service::new(core, Arc::new(SystemClock));
    let config = ServerConfig { address: settings.address, workers: settings.workers };
    Server::start(config, &service)
}

/// When the running code was committed, as RFC 3339 text.
fn build_date() -> String {
    let seconds = env!("KALLISTO_COMMIT_EPOCH").parse().unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

fn start_logging(settings: &Settings) {
    let logger = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(settings.colour)
        .with_max_level(settings.log_level);
    // A second subscriber in one process is refused; the first one stays.
    let _ = logger.try_init();
}

/// Waits for SIGINT or SIGTERM and names it.
fn wait_for_signal() -> io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        Ok(tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        })
    })
}
