//! What stands around an engine in a test and answers as the test says: probes, far ends, the account of a pod.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_api::BoxFuture;
use kallisto_engine::far_end::{FarEndProgress, FarEndStatus};
use kallisto_engine::{
    FarEndCall, FarEndFailure, FarEndOutcome, FarEnds, Pod, PodAccount, Probe, ProbeAnswer,
    ProbeFailure, ProbeRunner, ProbeState,
};

/// What probes find, as a test says it.
#[derive(Default)]
pub(super) struct Probing {
    pub(super) begun: Mutex<Vec<(String, Probe)>>,
    pub(super) found: Mutex<BTreeMap<String, Result<ProbeAnswer, ProbeFailure>>>,
}

impl ProbeRunner for Probing {
    fn begin(&self, id: &str, probe: Probe) -> bool {
        self.begun.lock().unwrap().push((id.to_owned(), probe));
        true
    }

    fn take(&self, id: &str) -> ProbeState {
        if let Some(found) = self.found.lock().unwrap().remove(id) {
            return ProbeState::Done(found);
        }
        let is_begun = self.begun.lock().unwrap().iter().any(|(begun, _)| begun == id);
        if is_begun { ProbeState::UnderWay } else { ProbeState::Unknown }
    }
}

/// What a far end does with a call.
pub(super) type FarEndScript = Box<dyn FnMut(&FarEndCall) -> FarEndOutcome + Send>;

/// Far ends that answer at once, as a test says it.
#[derive(Default)]
pub(super) struct ScriptedFarEnds {
    pub(super) script: Mutex<Option<FarEndScript>>,
    begun: Mutex<BTreeMap<String, FarEndOutcome>>,
}

impl ScriptedFarEnds {
    fn outcome(&self, call: &FarEndCall) -> FarEndOutcome {
        match &mut *self.script.lock().unwrap() {
            Some(script) => script(call),
            None => Err(FarEndFailure::Unreachable("this server asks no others".into())),
        }
    }
}

impl FarEnds for ScriptedFarEnds {
    fn ask(&self, call: FarEndCall) -> BoxFuture<'_, FarEndOutcome> {
        Box::pin(std::future::ready(self.outcome(&call)))
    }

    fn begin(&self, id: &str, call: FarEndCall) -> bool {
        let outcome = self.outcome(&call);
        self.begun.lock().unwrap().insert(id.to_owned(), outcome);
        true
    }

    fn take(&self, id: &str) -> FarEndProgress {
        let ended = self.begun.lock().unwrap().remove(id);
        ended.map_or(FarEndProgress::Unknown, FarEndProgress::Ended)
    }

    fn close(&self, _: &str, _: Option<&str>) {}

    fn check(&self, _: &str, _: &str) -> BoxFuture<'_, Result<(), FarEndFailure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn statuses(&self) -> Vec<FarEndStatus> {
        Vec::new()
    }

    fn pause(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A pod that tests say.
#[derive(Default)]
pub(super) struct ScriptedPod(pub(super) Mutex<Option<Arc<PodAccount>>>);

impl Pod for ScriptedPod {
    fn account(&self) -> Option<Arc<PodAccount>> {
        self.0.lock().unwrap().clone()
    }
}
