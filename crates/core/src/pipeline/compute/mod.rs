//! Work that takes a processor for long, beside the threads that serve requests.
//!
//! A worker serves all of its connections on one thread, so whatever takes it for more than a millisecond is a delay for
//! all of them. A listener therefore asks of each request what answering it takes ([`Core::weigh`]) and has those that
//! are heavy answered here, whole ([`Core::offload`]): parsed, judged, audited, run and rendered on a thread of a
//! [`ThreadPool`](crate::platform::pool::ThreadPool), where clients take turns by address and token. What is light stays where it is, since handing it over would
//! cost more than it does.
//!
//! - `platform::pool`: threads and turns. Keys, hashes of passwords and calls to other servers have pools of their own (`platform::engine_services`).
//! - `weight`: which requests are heavy: a rule per engine, in one place.
//! - [`TurnPace`](kallisto_engine::pace::TurnPace): how long work lets others take their turns in between.
//!
//! Why whole requests and not parts of them: `docs/decisions/0179-work-beside-the-workers.md`.
//!
//! Invariants:
//! - Answering a light request takes no loop over more than a client's small body can name.
//! - What a pool holds is bounded ([`crate::admission`]), as a whole and for each client.
//! - A client that goes away ends its work, at the next turn.

mod weight;

pub use weight::Weight;
pub(crate) use weight::is_heavy_to_judge;

use crate::state::compute_pools::HANDSHAKE;

use crate::admission::{Cost, Flow};
use crate::api::error::Error;
use crate::state::Core;

impl Core {
    /// Drives `work` on the threads for heavy requests, in the turns of `flow`; the first one costs `cost`. Dropping what
    /// this returns ends the work.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits there already.
    pub async fn offload<T: Send + 'static>(
        &self,
        flow: Flow,
        cost: Cost,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        self.metrics.offloaded.count();
        // Whom this thread works for, that one works for too.
        let work = kallisto_traces::carry(kallisto_traces::current(), work);
        self.compute.requests.drive(flow, cost, work).await
    }
}

impl Core {
    /// Drives a TLS handshake that takes a processor for long, in the turns of `flow`. Dropping what this returns ends it.
    ///
    /// # Errors
    /// [`Error::Internal`] when it panicked.
    pub async fn shake_hands<T: Send + 'static>(
        &self,
        flow: Flow,
        shaking: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Error> {
        self.metrics.handshakes.count();
        self.compute.handshakes.drive(flow, HANDSHAKE, shaking).await
    }

    /// How many requests were answered beside the workers.
    pub fn offloaded(&self) -> u64 {
        self.metrics.offloaded.total()
    }
}
