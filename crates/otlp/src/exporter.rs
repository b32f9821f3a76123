//! The thread that sends: it gathers spans for a moment, sends them, tries again for a while, and at the end sends what is left.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use kallisto_traces::{FinishedSpan, SpanCounts, SpanDrop, SpanReceiver};
use rustls::ClientConfig;
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::backoff::Backoff;
use crate::connection::Connection;
use crate::delivery::{self, DeliveryFailure, RETRY_AFTER_MAX};
use crate::endpoint::CollectorEndpoint;

/// Most spans of one request.
const BATCH_SPANS_MAX: usize = 512;
/// How long spans are gathered.
const GATHER_MAX: Duration = Duration::from_secs(1);
/// Longest that one attempt takes, the connection included.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// Longest that a batch is tried again.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Most names that are looked up at once: one that hangs outlives its attempt.
const LOOKUPS_MAX: usize = 2;
/// Longest that the end of a server is held up by spans.
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(3);

// A batch that a collector wants later is tried again after that.
const _: () = assert!(RETRY_AFTER_MAX.as_secs() < RETRY_MAX.as_secs());

/// Where spans are sent, and as whose.
pub struct ExporterSettings {
    /// Where the collector is.
    pub endpoint: CollectorEndpoint,
    /// Headers of every request, such as a key of the collector.
    pub headers: Vec<(String, SecretString)>,
    /// How TLS is spoken, for an endpoint of https.
    pub tls: Option<Arc<ClientConfig>>,
    /// What is told of this server: `service.name` and so on.
    pub resource: Vec<(String, String)>,
}

impl fmt::Debug for ExporterSettings {
    /// Without headers, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExporterSettings").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl ExporterSettings {
    /// Whether a name and a value can be a header of a request, and none that the request has by itself.
    pub fn is_header(name: &str, value: &str) -> bool {
        const OWN: [&str; 8] = [
            "host",
            "content-type",
            "content-length",
            "content-encoding",
            "transfer-encoding",
            "connection",
            "te",
            "user-agent",
        ];
        let is_own = OWN.iter().any(|own| name.eq_ignore_ascii_case(own));
        !is_own && header(name, value).is_some()
    }

    fn header_map(&self) -> HeaderMap {
        let headers = self.headers.iter();
        headers.filter_map(|(name, value)| header(name, value.expose_secret())).collect()
    }
}

fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
}

/// The thread that sends.
pub struct Exporter {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Exporter {
    /// Starts to send what `receiver` has.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(
        settings: ExporterSettings,
        receiver: SpanReceiver,
        counts: Arc<SpanCounts>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let mut builder = Builder::new_current_thread();
        let runtime =
            builder.enable_io().enable_time().max_blocking_threads(LOOKUPS_MAX).build()?;
        let sender = BatchSender::new(settings, counts);
        let run = move || run_alone(runtime, sender.run(receiver, stopped));
        let thread = std::thread::Builder::new().name("traces".into()).spawn(run)?;
        Ok(Self { stop, thread })
    }

    /// Sends what there is, for at most [`SHUTDOWN_MAX`], and ends the thread.
    pub fn stop(self) {
        // A thread that has ended by itself hears nothing.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the thread that sends spans panicked");
        }
    }
}

/// Runs `work` to its end, and leaves behind what blocks: a look-up of a name takes as long as the resolver wants.
fn run_alone(runtime: Runtime, work: impl Future<Output = ()>) {
    runtime.block_on(work);
    runtime.shutdown_background();
}

/// What the thread has.
struct BatchSender {
    settings: ExporterSettings,
    headers: HeaderMap,
    counts: Arc<SpanCounts>,
    connection: Option<Connection>,
    backoff: Backoff,
    /// Whether the last batch was not taken, which is told once.
    is_failing: bool,
}

impl BatchSender {
    fn new(settings: ExporterSettings, counts: Arc<SpanCounts>) -> Self {
        let headers = settings.header_map();
        let (connection, backoff) = (None, Backoff::default());
        Self { settings, headers, counts, connection, backoff, is_failing: false }
    }

    async fn run(mut self, mut receiver: SpanReceiver, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::with_capacity(BATCH_SPANS_MAX);
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                count = gather(&mut receiver, &mut batch) => if count == 0 { return },
            }
            tokio::select! {
                biased;
                // What was on its way is sent again: a collector knows a span by its id.
                _ = &mut stopped => break,
                () = self.deliver(&batch) => batch.clear(),
            }
        }
        self.finish(receiver, batch).await;
    }

    /// Sends a batch once the collector may be asked, and tries again for a while if that may help.
    async fn deliver(&mut self, batch: &[FinishedSpan]) {
        let give_up = Instant::now() + RETRY_MAX;
        loop {
            self.backoff.wait().await;
            let Err(failure) = self.attempt(batch, Instant::now() + ATTEMPT_MAX).await else {
                return;
            };
            let why = failure.drop_reason();
            if why == SpanDrop::Refused || self.backoff.lasts_until(give_up) {
                return self.drop_all(batch.len(), why);
            }
        }
    }

    /// Sends a batch once.
    async fn attempt(
        &mut self,
        batch: &[FinishedSpan],
        until: Instant,
    ) -> Result<(), DeliveryFailure> {
        let sent = timeout_at(until, self.send(batch)).await.unwrap_or_else(|_| {
            Err(DeliveryFailure::Unanswered("the collector does not answer".to_owned()))
        });
        match sent {
            Ok(rejected) => {
                self.note_taken(batch.len() as u64, rejected);
                Ok(())
            }
            Err(failure) => {
                self.note_failed(&failure);
                Err(failure)
            }
        }
    }

    fn note_taken(&mut self, count: u64, rejected: u64) {
        let rejected = rejected.min(count);
        self.backoff = Backoff::default();
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("spans are sent again");
        }
        self.counts.note_ended(count);
        self.counts.add_exported(count - rejected);
        self.counts.add_dropped(SpanDrop::Refused, rejected);
    }

    fn note_failed(&mut self, failure: &DeliveryFailure) {
        if !failure.is_answer() {
            self.connection = None;
        }
        let asked = match failure {
            DeliveryFailure::Later(_, asked) => *asked,
            DeliveryFailure::Lost(_)
            | DeliveryFailure::Unanswered(_)
            | DeliveryFailure::Refused(_) => None,
        };
        self.backoff.fail(Instant::now(), asked);
        self.tell(failure);
    }

    async fn send(&mut self, batch: &[FinishedSpan]) -> Result<u64, DeliveryFailure> {
        let ExporterSettings { endpoint, tls, resource, .. } = &self.settings;
        let request = || delivery::request(endpoint, &self.headers, resource, batch);
        if let Some(connection) = &mut self.connection {
            match delivery::send(connection, endpoint.protocol(), request()?).await {
                // It was idle, and may have been closed by now: that is no failure of the collector's.
                Err(DeliveryFailure::Lost(_)) => {}
                other => return other,
            }
        }
        let opened = Connection::open(endpoint, tls.as_ref()).await;
        let connection = self.connection.insert(opened.map_err(DeliveryFailure::Lost)?);
        delivery::send(connection, endpoint.protocol(), request()?).await
    }

    /// Sends what is left, once and without a pause, and counts what was not.
    async fn finish(mut self, mut receiver: SpanReceiver, mut batch: Vec<FinishedSpan>) {
        let until = Instant::now() + SHUTDOWN_MAX;
        receiver.close();
        let mut is_reached = true;
        loop {
            let room = BATCH_SPANS_MAX - batch.len();
            if room > 0 {
                // It is closed: this does not wait.
                receiver.take(&mut batch, room).await;
            }
            if batch.is_empty() {
                return;
            }
            if !is_reached {
                self.drop_all(batch.len(), SpanDrop::Unreachable);
            } else if let Err(failure) = self.attempt(&batch, until).await {
                let why = failure.drop_reason();
                // Another batch may please it.
                is_reached = why == SpanDrop::Refused;
                self.drop_all(batch.len(), why);
            }
            batch.clear();
        }
    }

    fn drop_all(&self, count: usize, why: SpanDrop) {
        self.counts.note_ended(count as u64);
        self.counts.add_dropped(why, count as u64);
    }

    /// Says that spans are not taken, the first time.
    fn tell(&mut self, failure: &DeliveryFailure) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let (collector, why) = (&self.settings.endpoint.authority, failure.why());
            tracing::warn!(
                collector,
                why,
                "spans are not sent; those that do not fit the queue are dropped"
            );
        }
    }
}

/// Waits for spans and takes what comes within a moment; how many they are. Zero once no more come.
async fn gather(receiver: &mut SpanReceiver, batch: &mut Vec<FinishedSpan>) -> usize {
    if receiver.take(batch, BATCH_SPANS_MAX).await == 0 {
        return 0;
    }
    let more = async {
        while batch.len() < BATCH_SPANS_MAX
            && receiver.take(batch, BATCH_SPANS_MAX - batch.len()).await > 0
        {}
    };
    // Over or not, what was taken is in the batch.
    let _ = timeout(GATHER_MAX, more).await;
    batch.len()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_end_waits_for_no_look_up_of_a_name() {
        let (resolver, answer) = mpsc::channel::<()>();
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().build().unwrap();
            run_alone(runtime, async {
                let (begun, begins) = oneshot::channel();
                let look_up = move || (begun.send(()), answer.recv());
                drop(tokio::task::spawn_blocking(look_up));
                begins.await.unwrap();
            });
            ended.send(()).unwrap();
        });
        assert_eq!(end.recv_timeout(SHUTDOWN_MAX), Ok(()), "it waits for the resolver");
        drop(resolver);
    }
}
