//! Spans of requests in this process: what records them, and the thread that sends them to the collector that the configuration names.
//!
//! Without one there is no tracer, and nobody asks for the time or for an id.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kallisto_core::Core;
use kallisto_engine::far_end::{FarEndProgress, FarEndStatus};
use kallisto_engine::{BoxFuture, FarEndAnswer, FarEndCall, FarEndFailure, FarEnds};
use kallisto_listener::{SystemClock, WallClock};
use kallisto_otlp::{Exporter, ExporterSettings};
use kallisto_tls_client::{CertificateAuthorities, ServerTrust};
use kallisto_traces::{SpanKind, TraceClock, Tracer};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::config::TracingConfig;
use super::settings::ServerSettings;
use kallisto_command::error::Error;
use kallisto_command::files;

/// The clock of this machine, as spans have it.
struct SystemTraceClock {
    start: Instant,
}

impl TraceClock for SystemTraceClock {
    fn unix_nanos(&self) -> u64 {
        u64::try_from(SystemClock.now().as_nanosecond()).unwrap_or(0)
    }

    fn monotonic(&self) -> Duration {
        SystemClock.instant().saturating_duration_since(self.start)
    }
}

/// What records spans, and the thread that sends them.
pub(super) struct Traces {
    tracer: Arc<Tracer>,
    exporter: Exporter,
}

impl Traces {
    /// Starts both, where the configuration says so; it is taken out of the settings, since it holds secrets.
    ///
    /// # Errors
    /// When a file of its TLS is none, or there is no thread to be had.
    pub(super) fn start(settings: &mut ServerSettings) -> Result<Option<Self>, Error> {
        let node = settings.storage.node_name();
        let Some(config) = settings.tracing.take() else { return Ok(None) };
        let tls = collector_tls(&config)
            .map_err(|why| Error::usage(format!("tracing \"otlp\": {why}")))?;
        let (tracer, receiver) =
            Tracer::new(config.sampling, SystemTraceClock { start: SystemClock.instant() });
        let settings = ExporterSettings {
            endpoint: config.endpoint,
            headers: config.headers,
            tls,
            resource: resource(config.resource, node),
        };
        let exporter = Exporter::start(settings, receiver, Arc::clone(tracer.counts()));
        let exporter = exporter
            .map_err(|error| Error::usage(format!("no thread that sends spans: {error}")))?;
        Ok(Some(Self { tracer, exporter }))
    }

    /// What records them.
    pub(super) const fn tracer(&self) -> &Arc<Tracer> {
        &self.tracer
    }

    /// Has them counted among the metrics.
    pub(super) fn count_in(&self, core: &Core) {
        // There is one tracer to a process.
        let _ = core.metrics().traces.set(Arc::clone(self.tracer.counts()));
    }

    /// Sends what is left, for a bounded time.
    pub(super) fn stop(self) {
        self.exporter.stop();
    }
}

/// What is told of this server, besides what the configuration says.
fn resource(mut told: Vec<(String, String)>, node: String) -> Vec<(String, String)> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (name, value) in [
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", node),
        ("host.name", host),
        ("process.pid", std::process::id().to_string()),
    ] {
        if !value.is_empty() && told.iter().all(|(known, _)| known != name) {
            told.push((name.to_owned(), value));
        }
    }
    told
}

/// How TLS is spoken to the collector, by the files that the configuration names; `None` in the clear. `operator diagnose` asks as a start does.
///
/// # Errors
/// Which file is not what it should be.
pub(super) fn collector_tls(config: &TracingConfig) -> Result<Option<Arc<ClientConfig>>, String> {
    if !config.endpoint.is_tls() {
        return Ok(None);
    }
    let read =
        |path: &Path| files::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let authorities = match &config.ca_cert {
        None => CertificateAuthorities::of_machine(),
        Some(path) => CertificateAuthorities::from_pem(&read(path)?)
            .ok_or_else(|| format!("{}: expected certificates in PEM", path.display()))?,
    };
    let identity = match &config.client_identity {
        None => None,
        Some((cert, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(cert)?).collect();
            let chain = chain.ok().filter(|chain| !chain.is_empty());
            let chain =
                chain.ok_or_else(|| format!("{}: expected certificates in PEM", cert.display()))?;
            let private = PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|_| format!("{}: expected a private key in PEM", key.display()))?;
            Some((chain, private))
        }
    };
    let tls = ServerTrust::Authorities(authorities).client_config(identity);
    tls.map(|tls| Some(Arc::new(tls))).map_err(|error| error.to_string())
}

/// Far ends of which each call is a span.
pub(super) struct TracedFarEnds(pub(super) Arc<dyn FarEnds>);

impl FarEnds for TracedFarEnds {
    fn ask(&self, call: FarEndCall) -> BoxFuture<'_, Result<FarEndAnswer, FarEndFailure>> {
        let Some(mut span) = kallisto_traces::child("far end", SpanKind::Client) else {
            return self.0.ask(call);
        };
        span.note("kallisto.far_end.protocol", call.far_end.protocol.name());
        span.note("kallisto.far_end.name", call.far_end.name.clone());
        if let Some((host, port)) = call.far_end.hosts.first() {
            span.note("server.address", host.clone());
            span.note("server.port", i64::from(*port));
        }
        let asking = self.0.ask(call);
        Box::pin(async move {
            let answer = asking.await;
            if let Err(failure) = &answer {
                span.fail(word_of(failure));
            }
            answer
        })
    }

    fn begin(&self, id: &str, call: FarEndCall) -> bool {
        self.0.begin(id, call)
    }

    fn take(&self, id: &str) -> FarEndProgress {
        self.0.take(id)
    }

    fn close(&self, mount: &str, name: Option<&str>) {
        self.0.close(mount, name);
    }

    fn check(&self, mount: &str, name: &str) -> BoxFuture<'_, Result<(), FarEndFailure>> {
        self.0.check(mount, name)
    }

    fn statuses(&self) -> Vec<FarEndStatus> {
        self.0.statuses()
    }

    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.0.pause(time)
    }
}

/// What went wrong, without a word of the far end's: those may name users.
const fn word_of(failure: &FarEndFailure) -> &'static str {
    match failure {
        FarEndFailure::Busy => "busy",
        FarEndFailure::Unreachable(_) => "unreachable",
        FarEndFailure::LoginRefused(_) => "login refused",
        FarEndFailure::LoginBarred(_) => "login barred",
        FarEndFailure::Paused(_) => "paused",
        FarEndFailure::NothingDone(_) => "nothing done",
        FarEndFailure::Refused(_) => "refused",
        FarEndFailure::Unknown(_) => "unknown",
    }
}
