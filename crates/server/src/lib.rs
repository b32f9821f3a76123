//! `kallisto server`: starts a server in this process and stops it on a signal.
//!
//! Arguments and configuration become one validated `settings::ServerSettings`; then store, core and
//! listeners are put together here and nowhere else. Unlike the client commands a server speaks to
//! its operator while it runs: what it is, to stdout, once; events to stderr as log lines.
//!
//! Order of the end: stop listening, let open requests finish, close the store, send the spans that are left.

#![forbid(unsafe_code)]

mod announce;
mod arguments;
mod build_settings;
mod cluster;
mod config;
mod damage;
mod dev;
mod dev_tls;
mod diagnose;
mod directory;
mod exposed;
mod host;
mod http_agent;
mod hygiene;
mod log_file;
mod log_levels;
mod log_line;
mod log_subscribers;
mod memory;
mod migrate;
mod outbound;
mod own_certificate;
mod percent;
mod recovery;
mod request_log;
mod retry_join;
mod running;
mod scheduler;
mod seals;
mod self_init;
mod service_account;
mod service_manager;
mod service_registration;
mod settings;
mod signals;
mod snapshots;
mod standing;
mod storage;
mod traces;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kallisto_core::{AuditSettings, Core, InitSpec, Initialized, ServerInfo};
use kallisto_engine::FarEnds;
use kallisto_listener::{SystemClock, WallClock};
use kallisto_outbound::FarEndRunner;
use kallisto_probes::Prober;
use kallisto_store::Store;
use secrecy::ExposeSecret;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

pub use arguments::ServerArgs;
use cluster::ClusterPortFiles;
use config::LogFormat;
pub use diagnose::{Diagnose, ValidateConfig};
use host::LinuxHost;
use kallisto_command::VAULT_API_VERSION;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::outcome::Outcome;
use log_file::{FileLines, LogFileWriter};
use log_levels::LogLevels;
use log_line::{JsonLines, OneLine};
use log_subscribers::LogSubscribers;
pub use migrate::Migrate;
use outbound::Calls;
pub use own_certificate::MakeCertificate;
use request_log::RequestLog;
use running::{RunningListeners, ServerParts};
use service_account::{LocalPod, ServiceAccountFiles};
use settings::{DevSettings, LogSettings, ServerSettings};
use signals::{ServerEnd, Signals};
use snapshots::Snapshots;
use traces::{TracedFarEnds, Traces};

impl ServerArgs {
    /// Runs a server until a signal or a failure of its storage ends it.
    ///
    /// # Errors
    /// What keeps the server from starting, or ended it.
    pub fn run(self) -> Result<Outcome, Error> {
        let (losses, exits) = (self.losses(), self.exit_on_core_shutdown);
        let reloaded = self.reloaded();
        let mut settings = self.into_settings()?;
        let requests = RequestLog::at(settings.log.requests);
        let host = start_logging(&settings.log)?;
        let levels = host.levels();
        hygiene::harden();
        warn_of(&settings);
        let signals = Signals::register()
            .map_err(|error| Error::usage(format!("cannot wait for signals: {error}")))?;
        let parts = ServerParts::open(&mut settings, host, losses, &signals)?;
        let on_down = exits.then(|| signals.core_hook());
        let (running, announced) = parts.start(&settings, &requests, on_down)?;
        let ended = announced.map(|()| {
            signals.wait(|| {
                running.listening.reload();
                reloaded.read(&requests, &levels);
                note_certificates(&running.core, &settings);
                running.core.reopen_audit();
                tracing::info!("audit files opened anew");
            })
        });
        tracing::info!("shutting down");
        let closed = running.stop();
        match ended? {
            ServerEnd::Signal(_) => ended_with(closed),
            ServerEnd::CoreDown(why) => {
                Err(Error::usage(format!("the core is down for good: {why}")))
            }
            ServerEnd::Failure(why) => Err(Error::usage(format!("the storage failed: {why}"))),
        }
    }
}

/// Logs what the configuration has that has no effect, and which files others may read.
fn warn_of(settings: &ServerSettings) {
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    for exposed::Exposed { what, path, mode, why } in exposed::of(settings) {
        let (path, mode) = (path.display(), format_args!("{mode:04o}"));
        tracing::warn!(what, %path, %mode, "{why}");
    }
}

/// What an end that was asked for comes to. A full disk keeps memory from being written to files, and what is there is in the
/// log, which the next start reads: the server ended as it was asked to.
fn ended_with(closed: Result<(), kallisto_store::Error>) -> Result<Outcome, Error> {
    match closed {
        Err(error @ kallisto_store::Error::Full(_)) => {
            tracing::warn!(%error, "stopped on a full disk: the next start reads more of the log");
            Ok(Outcome::default())
        }
        Err(error) => Err(Error::usage(format!("closing the store: {error}"))),
        Ok(()) => Ok(Outcome::default()),
    }
}

/// Notes when the first of the listeners' certificates ends, for the metrics, and warns of those that have ended.
fn note_certificates(core: &Core, settings: &ServerSettings) {
    let files = settings.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let mut first = None;
    for path in files.map(|tls| &tls.certificate) {
        let Some(end) = diagnose::ends(path) else { continue };
        if end <= SystemClock.now().as_second() {
            let ended = jiff::Timestamp::from_second(end).unwrap_or_default();
            tracing::warn!(
                path = %path.display(), %ended,
                "a listener's certificate has ended: clients refuse it; SIGHUP reads a new one"
            );
        }
        first = Some(first.map_or(end, |first: i64| first.min(end)));
    }
    core.metrics().listener.certificate_end.store(first.unwrap_or(0), Ordering::Relaxed);
}

fn open_core(
    settings: &ServerSettings,
    host: LinuxHost,
    store: Arc<dyn Store>,
    cluster: Option<Arc<ClusterPortFiles>>,
    traces: Option<&Traces>,
) -> Arc<Core> {
    let info = ServerInfo {
        version: VAULT_API_VERSION.to_owned(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        build_date: build_date(),
        storage_type: settings.storage.kind().to_owned(),
        cluster_name: settings.cluster_name.clone(),
        leases: settings.leases,
        api_addr: settings.api_addr.clone(),
        cluster_addr: settings.cluster_addr.clone(),
        hot_bytes_max: settings.cache_bytes,
        unauthenticated_rekey: settings.unauthenticated_rekey,
        serves_prometheus: settings.serves_prometheus,
        metrics: settings.metrics.clone(),
        serves_ui: settings.serves_ui,
        max_staleness: settings.max_staleness,
        shown_settings: settings.shown(),
    };
    let audit = AuditSettings {
        directories: settings.audit_directories.clone(),
        declared: settings.audit_devices.clone(),
        anchors: settings.storage.audit_anchors(),
        node: settings.storage.node_name(),
        ..AuditSettings::default()
    };
    let limits = settings.limits.clone().within_files(hygiene::open_files_max());
    let start = SystemClock.instant();
    let far_ends: Arc<dyn FarEnds> = Arc::new(FarEndRunner::default());
    let far_ends = match traces {
        None => far_ends,
        Some(_) => Arc::new(TracedFarEnds(far_ends)),
    };
    let core = Core::new(store, info)
        .with_limits(&limits)
        .with_audit(audit)
        .with_host(Arc::new(host.with_storage(settings.storage.directory().map(Path::to_path_buf))))
        .with_stopwatch(move || SystemClock.instant().saturating_duration_since(start))
        .with_outbound(Arc::new(Calls::new()))
        .with_snapshots(Arc::new(Snapshots::default()))
        .with_probes(Arc::new(Prober::default()))
        .with_far_ends(far_ends);
    if let Some(traces) = traces {
        traces.count_in(&core);
    }
    let core = match cluster {
        Some(cluster) => core.with_port(cluster),
        None => core,
    };
    let core = match &settings.api_server {
        Some(api_server) => {
            let account = ServiceAccountFiles::of(&settings.service_account_dir);
            core.with_pod(Arc::new(LocalPod::new(api_server, account)))
        }
        None => core,
    };
    Arc::new(match &settings.seal {
        Some(seal) => core.with_auto_seal(Arc::clone(seal)),
        None => core,
    })
}

fn start_dev(
    core: &Core,
    dev: &DevSettings,
    settings: &ServerSettings,
    listening: &RunningListeners,
) -> Result<(), Error> {
    let failed = |error: kallisto_core::Error| Error::usage(error.to_string());
    if !core.is_blank().map_err(failed)? {
        return Err(Error::usage(
            "the storage is initialised: a dev server starts on an empty one. Start this one without -dev, or \
             give the dev server a directory of its own",
        ));
    }
    let (root_token, mount_kv) = (dev.root_token.clone(), Some(dev.kv));
    let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv };
    let made = core.initialize_unsealed(&spec, SystemClock.now());
    let made: Initialized = pollster::block_on(made).map_err(failed)?;
    if let Some(path) = &dev.token_file {
        files::write_private(path, made.root_token.expose_secret().as_bytes()).map_err(
            |error| Error::usage(format!("cannot write the token to {}: {error}", path.display())),
        )?;
    }
    announce::dev(&listening.servers, &made, settings).map_err(cannot_announce)
}

/// Announces the server.
fn announce_configured(core: &Core, settings: &ServerSettings, listening: &RunningListeners) {
    // One that joined is none, though nothing may have come yet.
    let is_new = core.is_blank().unwrap_or(false) && !core.is_unsent();
    // It serves already: a full disk below a log is no reason to stop.
    if let Err(error) = announce::configured(&listening.servers, settings, is_new) {
        tracing::warn!(%error, "the start-up message cannot be written to standard output");
    }
}

fn cannot_announce(error: io::Error) -> Error {
    Error::usage(format!("cannot write to standard output: {error}"))
}

/// When the running code was committed, as RFC 3339 text.
fn build_date() -> String {
    let seconds = env!("KALLISTO_COMMIT_EPOCH").parse().unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// Starts the log, and returns who can change its levels.
///
/// # Errors
/// When the file of the log cannot be written.
fn start_logging(log: &LogSettings) -> Result<LinuxHost, Error> {
    let (filter, handle) = reload::Layer::new(log_levels::targets(log.level));
    let file = log.file.as_ref().map(LogFileWriter::open).transpose()?;
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match log.format {
        LogFormat::Standard => {
            fmt::layer().with_writer(OneLine::of_errors).with_ansi(log.colour).boxed()
        }
        LogFormat::Json => JsonLines.boxed(),
    };
    let lines = match file {
        None => lines,
        Some(file) => lines.and_then(FileLines::new(file, log.format)).boxed(),
    };
    let subscribers = LogSubscribers::default();
    // Each with a filter of its own: a subscriber may be louder than the log.
    let layers = vec![lines.with_filter(filter).boxed(), subscribers.layer().boxed()];
    // A second subscriber in one process is refused; the first one stays.
    let started = tracing_subscriber::registry().with(layers).try_init();
    let levels = LogLevels::new(log.level, started.ok().map(|()| handle));
    Ok(LinuxHost::new(Arc::new(levels), subscribers))
}

#[cfg(test)]
mod tests {
    use kallisto_store::Error as StoreError;

    use super::ended_with;

    #[test]
    fn a_server_that_was_told_to_end_on_a_full_disk_did_not_fail() {
        assert!(ended_with(Ok(())).is_ok());
        assert!(ended_with(Err(StoreError::Full("write a.sst".to_owned()))).is_ok());
        let Err(error) = ended_with(Err(StoreError::Poisoned("sync a.sst".to_owned()))) else {
            panic!("a failed sync is a failure");
        };
        assert!(error.to_string().contains("closing the store"), "{error}");
    }
}
