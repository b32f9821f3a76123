//! The pools of a server for what its clients ask.

use std::sync::Arc;

use crate::admission::{Admission, Cost, SharedAmount};
use crate::platform::pool::{Claim, ThreadPool};

/// What the first turn of a handshake costs, of a few milliseconds.
pub(crate) const HANDSHAKE: Cost = 4;

/// The pools of a server for what its clients ask.
pub(crate) struct Compute {
    /// Answers heavy requests, and reads for streams that outlive theirs.
    pub(crate) requests: Arc<ThreadPool>,
    /// Shakes hands.
    pub(crate) handshakes: ThreadPool,
}

impl Compute {
    /// Idle pools; what waits for them waits in places of `admission`.
    pub(crate) fn new(admission: &Admission) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let computations = Arc::clone(&admission.computations);
        let shaking = Arc::new(SharedAmount::new(admission.handshakes.max(), 0));
        Self {
            requests: Arc::new(ThreadPool::new("compute", threads, Claim::Lesser, computations)),
            // Whoever shakes hands holds a place among the handshakes already: here there are as many. It is all that a
            // new client waits for, so it gives way to nobody.
            handshakes: ThreadPool::new("handshake", threads, Claim::Equal, shaking),
        }
    }
}
