//! What engines use of the server, sealed or not: threads for work that takes long, other servers, and the memory of wrong passwords.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kallisto_engine::{FarEnds, NoFarEnds, NoPod, NoProbes, Pod, ProbeRunner};
use kallisto_traces::SpanKind;

use crate::admission::{Admission, Flow, SharedAmount};
use crate::api::error::Error;
use crate::platform::lockout::Lockouts;
use crate::platform::outbound::{
    CALL_TIME_MAX, CALLS_TIME_MAX, OutboundAnswer, OutboundCall, OutboundCalls,
};
use crate::platform::pool::{Claim, ThreadPool};
use crate::platform::snapshot_storage::{SchedulePauses, SnapshotStorage};
use crate::platform::threads::UnstartedTask;
use crate::timers::Timers;

/// Threads that make keys: each takes up to seconds, and nobody else waits for them.
const MAKERS: usize = 2;
/// Keys that are made or wait to be, at once.
const KEYS_MAX: usize = 64;
/// Threads for calls to other servers; they wait, and cost no core.
const CALLERS: usize = 8;
/// Calls to other servers that wait for a thread, or for their answer.
const CALLS_MAX: usize = 256;

/// Most threads that hash passwords, however many cores there are.
const HASHERS_MAX: usize = 4;

/// How many threads hash passwords: half of the cores at most, so that the other half serves reads whatever comes in.
fn hashing_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, HASHERS_MAX)
}

fn locked(spent: &Mutex<Duration>) -> MutexGuard<'_, Duration> {
    spent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What engines use of the server.
pub(crate) struct EngineServices {
    /// Makes keys.
    pub(crate) makers: ThreadPool,
    /// Hashes passwords.
    pub(crate) hashers: ThreadPool,
    /// Waits for other servers.
    callers: ThreadPool,
    pub(crate) lockouts: Arc<Lockouts>,
    /// How long things take.
    pub(crate) timers: Arc<Timers>,
    /// What found no thread, and is started again by the scheduler.
    pub(crate) waiting: UnstartedTask,
    /// Sends what engines ask of other servers; empty where nothing does.
    outbound: OnceLock<Arc<dyn OutboundCalls>>,
    /// Looks at what stands at names and addresses; empty where nothing does.
    probes: OnceLock<Arc<dyn ProbeRunner>>,
    /// Stores scheduled snapshots; empty where nothing does.
    snapshots: OnceLock<Arc<dyn SnapshotStorage>>,
    /// Whether a scheduled snapshot is under way.
    pub(crate) snapshot_running: Arc<AtomicBool>,
    /// Schedules of which it could not be kept when they were tried last.
    pub(crate) snapshot_pauses: Arc<SchedulePauses>,
    /// Asks databases, directories and brokers; empty where nothing does.
    far_ends: OnceLock<Arc<dyn FarEnds>>,
    /// Knows the pod that the server runs in; empty where it runs in none.
    pod: OnceLock<Arc<dyn Pod>>,
}

impl EngineServices {
    /// Idle pools; what waits for them waits in places of `admission`.
    pub(crate) fn new(admission: &Admission) -> Self {
        let (keys, calls) =
            (Arc::new(SharedAmount::new(KEYS_MAX, 0)), Arc::new(SharedAmount::new(CALLS_MAX, 0)));
        let (hashing, hashes) = (hashing_threads(), &admission.hashes);
        Self {
            makers: ThreadPool::new("make-key", MAKERS, Claim::Lesser, keys),
            hashers: ThreadPool::new("hash", hashing, Claim::Equal, Arc::clone(hashes)),
            callers: ThreadPool::new("outbound", CALLERS, Claim::Equal, calls),
            lockouts: Arc::default(),
            timers: Arc::default(),
            waiting: UnstartedTask::default(),
            outbound: OnceLock::new(),
            probes: OnceLock::new(),
            snapshots: OnceLock::new(),
            snapshot_running: Arc::default(),
            snapshot_pauses: Arc::default(),
            far_ends: OnceLock::new(),
            pod: OnceLock::new(),
        }
    }

    /// What sends to other servers.
    pub(crate) fn outbound(&self) -> Option<&Arc<dyn OutboundCalls>> {
        self.outbound.get()
    }

    /// Says what sends to other servers; the first word counts.
    pub(crate) fn set_outbound(&self, outbound: Arc<dyn OutboundCalls>) {
        let _ = self.outbound.set(outbound);
    }

    /// What looks at names and addresses.
    pub(crate) fn probes(&self) -> &dyn ProbeRunner {
        self.probes.get().map_or(&NoProbes, |probes| &**probes)
    }

    /// Says what looks at names and addresses; the first word counts.
    pub(crate) fn set_probes(&self, probes: Arc<dyn ProbeRunner>) {
        let _ = self.probes.set(probes);
    }

    /// What asks databases, directories and brokers.
    pub(crate) fn far_ends(&self) -> &dyn FarEnds {
        self.far_ends.get().map_or(&NoFarEnds, |far_ends| &**far_ends)
    }

    /// Says what asks databases, directories and brokers; the first word counts.
    pub(crate) fn set_far_ends(&self, far_ends: Arc<dyn FarEnds>) {
        let _ = self.far_ends.set(far_ends);
    }

    /// The pod that the server runs in.
    pub(crate) fn pod(&self) -> &dyn Pod {
        self.pod.get().map_or(&NoPod, |pod| &**pod)
    }

    /// Says which pod the server runs in; the first word counts.
    pub(crate) fn set_pod(&self, pod: Arc<dyn Pod>) {
        let _ = self.pod.set(pod);
    }

    /// What stores scheduled snapshots.
    pub(crate) fn snapshots(&self) -> Option<&Arc<dyn SnapshotStorage>> {
        self.snapshots.get()
    }

    /// Says what stores scheduled snapshots; the first word counts.
    pub(crate) fn set_snapshots(&self, snapshots: Arc<dyn SnapshotStorage>) {
        let _ = self.snapshots.set(snapshots);
    }

    /// The same as `other` asks other servers and looks at names.
    pub(crate) fn take_after(&self, other: &Self) {
        if let Some(outbound) = other.outbound() {
            self.set_outbound(Arc::clone(outbound));
        }
        if let Some(probes) = other.probes.get() {
            self.set_probes(Arc::clone(probes));
        }
        if let Some(snapshots) = other.snapshots() {
            self.set_snapshots(Arc::clone(snapshots));
        }
        if let Some(far_ends) = other.far_ends.get() {
            self.set_far_ends(Arc::clone(far_ends));
        }
        if let Some(pod) = other.pod.get() {
            self.set_pod(Arc::clone(pod));
        }
    }

    /// Asks another server, in the turns of `flow`, and adds to `spent` how long that took.
    ///
    /// # Errors
    /// [`Error::Busy`] when too many wait; [`Error::Unavailable`] when it cannot be asked, or not within what is left of
    /// [`CALLS_TIME_MAX`]; what went wrong is in the log only, since it tells of this server's surroundings.
    pub(crate) async fn call(
        &self,
        flow: Flow,
        call: OutboundCall,
        spent: &Mutex<Duration>,
    ) -> Result<OutboundAnswer, Error> {
        let Some(outbound) = self.outbound().cloned() else {
            return Err(Error::Unavailable("this server asks no others".into()));
        };
        let left = CALLS_TIME_MAX.saturating_sub(*locked(spent));
        let begun = outbound.clock();
        let clock = Arc::clone(&outbound);
        let ask = move || {
            let left = left.saturating_sub(outbound.clock().saturating_sub(begun));
            match left.is_zero() {
                true => Err(format!("{}: no time is left for it", call.url)),
                false => outbound.send(&call, left.min(CALL_TIME_MAX)),
            }
        };
        let span = kallisto_traces::child("outbound call", SpanKind::Client);
        let outcome = self.callers.run(flow, ask).await;
        if let (Some(mut span), Some(why)) = (span, failure_of(&outcome)) {
            span.fail(why);
        }
        let answer = outcome?;
        *locked(spent) += clock.clock().saturating_sub(begun);
        answer.map_err(|why| {
            tracing::warn!(why, "a server that an engine depends on was not reached");
            Error::Unavailable("a server that this depends on was not reached".into())
        })
    }
}

/// What a span says of a call without an answer: a word of a fixed set.
const fn failure_of<T>(outcome: &Result<Result<T, String>, Error>) -> Option<&'static str> {
    match outcome {
        Ok(Ok(_)) => None,
        Ok(Err(_)) => Some("unreachable"),
        Err(Error::Busy(_)) => Some("busy"),
        Err(_) => Some("failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Crowd;

    #[test]
    fn a_call_that_was_not_made_is_no_success() {
        assert_eq!(failure_of::<()>(&Err(Error::Busy(Crowd::All))), Some("busy"));
        assert_eq!(failure_of::<()>(&Err(Error::internal(&"no thread"))), Some("failed"));
        assert_eq!(failure_of::<()>(&Ok(Err("refused".to_owned()))), Some("unreachable"));
        assert_eq!(failure_of(&Ok(Ok(()))), None);
    }
}
