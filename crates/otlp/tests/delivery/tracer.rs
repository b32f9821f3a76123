//! A tracer that records every request, at a time that nobody looks at. The tests of listeners use it too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kallisto_traces::{RootSampling, Sampling, SpanReceiver, TraceClock, Tracer};

struct Clock(Instant);

impl TraceClock for Clock {
    fn unix_nanos(&self) -> u64 {
        1_700_000_000_000_000_000
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// What records every request, and what it recorded.
#[expect(clippy::disallowed_methods, reason = "how long requests take is not what is tested")]
pub(crate) fn tracer() -> (Arc<Tracer>, SpanReceiver) {
    let sampling = Sampling { follows_parent: true, root: RootSampling::All };
    Tracer::new(sampling, Clock(Instant::now()))
}
