//! `service_registration "kubernetes"`: labels on this server's own pod say what it is, so that a service can choose the pod that leads.
//!
//! A thread looks at the core a few times a second and, where something is different from what the pod says, sends one `PATCH` to the API server:
//! all labels at once, so that the newest state is told and never one after the other. What failed is tried again with growing pauses, sooner if
//! there is something new to tell. No request waits for any of it, and there is never more than one call under way.
//!
//! Labels have the names of Vault and of OpenBao, since the services of both charts choose by their own: see
//! [0420](../../../docs/decisions/0420-labels-of-pods.md).
//!
//! Invariants:
//! - Only labels of the own pod are written, by a merge patch (RFC 7396) that leaves all others as they are.
//! - Token and authority are read for every call; the server of the API is verified.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use kallisto_command::VAULT_API_VERSION;
use kallisto_command::json::{self, Json};
use kallisto_core::Core;
use kallisto_listener::{SystemClock, WallClock};
use secrecy::ExposeSecret;
use ureq::http::Request;
use zeroize::Zeroizing;

use super::config::PodConfig;
use super::http_agent;
use super::service_account::ServiceAccountFiles;

/// How often the core is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Longest that a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the first failure, and least pause between two tries.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long the end of the server waits for the last patch.
const END_WAIT: Duration = Duration::from_secs(2);
/// Most bytes of a refusal that are read.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;
/// Most characters of a refusal that are logged.
const REFUSAL_CHARS_MAX: usize = 300;
/// What stands before the names of labels: Vault's, and OpenBao's.
const PREFIXES: [&str; 2] = ["vault", "openbao"];
/// Longest value of a label.
const LABEL_BYTES_MAX: usize = 63;

const _: () = assert!(PAUSE_MIN.as_nanos() < PAUSE_MAX.as_nanos());

/// What the labels say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PodState {
    is_active: bool,
    is_initialized: bool,
    is_sealed: bool,
}

impl PodState {
    /// What a pod says whose server has ended.
    const ENDED: Self = Self { is_active: false, is_initialized: false, is_sealed: true };

    fn of(core: &Core) -> Self {
        let is_sealed = core.is_sealed();
        let is_active = !is_sealed && core.store().leads();
        let is_initialized = !is_sealed || core.is_blank().is_ok_and(|is_blank| !is_blank);
        Self { is_active, is_initialized, is_sealed }
    }

    /// The labels, as a merge patch of a pod.
    fn patch(self, version: &str) -> Vec<u8> {
        let labels = PREFIXES.into_iter().flat_map(|prefix| {
            [
                ("active", self.is_active.to_string()),
                ("initialized", self.is_initialized.to_string()),
                // Every standby answers reads here, and none is what Vault sells under this name.
                ("perf-standby", false.to_string()),
                ("sealed", self.is_sealed.to_string()),
                ("version", label_value(version)),
            ]
            .map(|(name, value)| (format!("{prefix}-{name}"), Json::from(value)))
        });
        let labels = Json::Object(labels.collect());
        let metadata = Json::object([("labels", labels)]);
        Json::object([("metadata", metadata)]).to_text()
    }
}

/// A text as a label's value may be.
fn label_value(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let value: String = text.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let value = &value[..value.len().min(LABEL_BYTES_MAX)];
    value.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// What was told, and when to try again what was not.
#[derive(Default)]
struct LabelPacing {
    told: Option<PodState>,
    failed: Option<FailedTry>,
}

/// What was tried last in vain.
struct FailedTry {
    state: PodState,
    at: Instant,
    /// What pauses have grown to.
    pause: Duration,
    /// How long it is waited this time: a little shorter, so that servers that failed together do not come back together.
    wait: Duration,
}

impl LabelPacing {
    /// Whether to tell `state` now.
    fn is_due(&self, state: PodState, now: Instant) -> bool {
        match &self.failed {
            None => self.told != Some(state),
            Some(failed) => {
                let wait = if failed.state == state { failed.wait } else { PAUSE_MIN };
                now.saturating_duration_since(failed.at) >= wait
            }
        }
    }

    /// Notes what came of pacing it.
    fn note(&mut self, state: PodState, outcome: Result<(), String>, now: Instant) {
        match outcome {
            Ok(()) => {
                if self.failed.take().is_some() || self.told.is_none() {
                    tracing::info!("the labels of this server's pod are told");
                }
                self.told = Some(state);
            }
            Err(error) => {
                let grown = self.failed.as_ref().map(|failed| failed.pause * 2);
                let pause = grown.map_or(PAUSE_MIN, |pause| pause.min(PAUSE_MAX));
                tracing::warn!(
                    error,
                    pause_secs = pause.as_secs(),
                    "the labels of this server's pod are not told; trying again"
                );
                // Nobody knows what the pod says now.
                self.told = None;
                let wait = pause.mul_f64(1.0 - fastrand::f64() / 4.0);
                self.failed = Some(FailedTry { state, at: now, pause, wait });
            }
        }
    }
}

/// The pod, as the API server knows it.
struct LabelledPod {
    url: String,
    account: ServiceAccountFiles,
}

impl LabelledPod {
    fn of(config: &PodConfig, account: ServiceAccountFiles) -> Self {
        // Both are names of objects, which mean themselves in a path.
        let PodConfig { api_server, namespace, pod } = config;
        Self { url: format!("{api_server}/api/v1/namespaces/{namespace}/pods/{pod}"), account }
    }

    /// Labels the pod.
    ///
    /// # Errors
    /// Why that is not known to have happened.
    fn label(&self, state: PodState) -> Result<(), String> {
        let account = self.account.read()?;
        let agent = http_agent::make(&account.authorities, CALL_TIMEOUT)?;
        let bearer = Zeroizing::new(format!("Bearer {}", account.token.expose_secret()));
        let request = Request::builder()
            .method("PATCH")
            .uri(&self.url)
            .header("Authorization", bearer.as_str())
            .header("Accept", "application/json")
            .header("Content-Type", "application/merge-patch+json")
            .body(state.patch(VAULT_API_VERSION));
        let failed = |error: &dyn std::fmt::Display| format!("PATCH {}: {error}", self.url);
        let answer = agent.run(request.map_err(|error| failed(&error))?);
        let mut answer = answer.map_err(|error| failed(&error))?;
        let status = answer.status();
        if status.is_success() {
            // The answer is the pod, of which nothing is of interest.
            return Ok(());
        }
        let body = answer.body_mut().with_config().limit(REFUSAL_BYTES_MAX).read_to_vec();
        let body = body.unwrap_or_default();
        let why = refusal(&body, account.token.expose_secret());
        Err(failed(&format_args!("status {}{why}", status.as_u16())))
    }
}

/// What an API server says of a refusal, as part of a line.
fn refusal(body: &[u8], token: &str) -> String {
    let Ok(map) = json::parse_object(body) else { return String::new() };
    let message = map.get("message").and_then(Json::as_str).unwrap_or_default();
    let message = message.replace(token, "***");
    let shown = message.chars().filter(|c| !c.is_control()).take(REFUSAL_CHARS_MAX);
    let shown: String = shown.collect();
    if shown.is_empty() { shown } else { format!(": {shown}") }
}

/// The thread that labels the pod.
pub(super) struct ServiceRegistration {
    stop: SyncSender<()>,
    ended: Receiver<()>,
}

impl ServiceRegistration {
    /// Starts to tell what the server of `core` is.
    pub(super) fn start(
        core: &Arc<Core>,
        config: &PodConfig,
        account: ServiceAccountFiles,
    ) -> Self {
        let (core, pod) = (Arc::clone(core), LabelledPod::of(config, account));
        let (stop, stopped) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let run = move || {
            follow(&|| PodState::of(&core), &|state| pod.label(state), &stopped);
            // Whoever waited has perhaps given up.
            let _ = end.try_send(());
        };
        let thread = std::thread::Builder::new().name("pod-labels".into()).spawn(run);
        if let Err(error) = thread {
            tracing::error!(%error, "no thread for the labels of this server's pod");
        }
        Self { stop, ended }
    }

    /// Has the pod say that its server ends.
    pub(super) fn stopping(&self) {
        // The thread may not be there.
        let _ = self.stop.try_send(());
    }

    /// Waits until the pod says so, for a bounded time: an API server that hangs keeps nobody from ending.
    pub(super) fn stop(self) {
        match self.ended.recv_timeout(END_WAIT) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("the API server does not answer; the pod's labels stay as they are");
            }
        }
    }
}

/// Tells what `look` finds, by `tell`, until it is stopped; then that the server has ended, once.
fn follow(
    look: &dyn Fn() -> PodState,
    tell: &dyn Fn(PodState) -> Result<(), String>,
    stopped: &Receiver<()>,
) {
    let mut pacing = LabelPacing::default();
    loop {
        let state = look();
        if pacing.is_due(state, SystemClock.instant()) {
            let outcome = tell(state);
            pacing.note(state, outcome, SystemClock.instant());
        }
        if stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    if let Err(error) = tell(PodState::ENDED) {
        tracing::warn!(error, "the labels of this server's pod stay as they are");
    }
}

#[cfg(test)]
mod tests;
