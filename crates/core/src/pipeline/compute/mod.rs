//! Work that takes a processor for long, beside the threads that serve requests.
//!
//! A worker serves all of its connections on one thread, so whatever takes it for more than a millisecond is a delay for
//! all of them. A listener therefore asks of each request what answering it takes ([`Core::weigh`]) and has those that
//! are heavy answered here, whole ([`Core::offload`]): parsed, judged, audited, run and rendered on a thread of a
//! [`Pool`], where clients take turns by address and token. What is light stays where it is, since handing it over would
//! cost more than it does.
//!
//! - `pool`: threads and turns. Hashes of passwords and calls to other servers have pools of their own (`auth_methods`).
//! - `weight`: which requests are heavy: a rule per engine, in one place.
//! - [`Pace`]: how long work lets others take their turns in between.
//!
//! Why whole requests and not parts of them: `docs/decisions/0179-work-beside-the-workers.md`.
//!
//! Invariants:
//! - Answering a light request takes no loop over more than a client's small body can name.
//! - What a pool holds is bounded ([`crate::admission`]), as a whole and for each client.
//! - A client that goes away ends its work, at the next turn.

mod pool;
mod weight;

pub(crate) use pool::{Claim, Pool};
pub use weight::Weight;
pub(crate) use weight::{LIGHT_BODY_BYTES_MAX, LIGHT_SECRET_BYTES_MAX, is_heavy_to_judge};

use std::sync::Arc;

use crate::admission::{Admission, Cost, Flow, Shares};
use crate::api::error::Error;
use crate::pipeline::state::Core;
use crate::platform::cooperative_yield::cooperative_yield;

/// Threads that make keys: each takes up to seconds, and nobody else waits for them.
const MAKERS: usize = 2;
/// What the first turn of a handshake costs, of a few milliseconds.
const HANDSHAKE: Cost = 4;
/// Keys that are made or wait to be, at once.
const KEYS_MAX: usize = 64;

/// The pools of a server for what its clients ask.
pub(crate) struct Compute {
    /// Answers heavy requests.
    requests: Pool,
    /// Makes keys.
    pub(crate) makers: Pool,
    /// Shakes hands.
    handshakes: Pool,
}

impl Compute {
    /// Idle pools; what waits for them waits in places of `admission`.
    pub(crate) fn new(admission: &Admission) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let computations = Arc::clone(&admission.computations);
        let keys = Arc::new(Shares::new(KEYS_MAX, 0));
        let shaking = Arc::new(Shares::new(admission.handshakes.max(), 0));
        Self {
            requests: Pool::new("compute", threads, Claim::Lesser, computations),
            makers: Pool::new("make-key", MAKERS, Claim::Lesser, keys),
            // Whoever shakes hands holds a place among the handshakes already: here there are as many. It is all that a
            // new client waits for, so it gives way to nobody.
            handshakes: Pool::new("handshake", threads, Claim::Equal, shaking),
        }
    }
}

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

/// Effort after which long work lets others in.
const EFFORT_PER_TURN: usize = 64;
/// Bytes that are hashed, encrypted or copied with an effort of one.
const EFFORT_BYTES: usize = 4 << 10;

/// Lets others take their turns in the midst of long work, about every millisecond.
#[derive(Debug, Default)]
pub(crate) struct Pace(usize);

impl Pace {
    /// An effort of some microseconds, or as many of them.
    pub(crate) async fn spend(&mut self, effort: usize) {
        self.0 = self.0.saturating_add(effort);
        if self.0 >= EFFORT_PER_TURN {
            self.0 = 0;
            cooperative_yield().await;
        }
    }

    /// The effort of something done once for so many bytes.
    pub(crate) const fn of_bytes(bytes: usize) -> usize {
        1 + bytes / EFFORT_BYTES
    }

    /// The effort that is a turn of its own.
    pub(crate) const TURN: usize = EFFORT_PER_TURN;
}
