//! What sends the calls of engines to other servers ([`kallisto_engine::outbound`]).
//!
//! The core does no I/O: whoever runs it gives it something that sends, which is called on threads of the core's own, so a slow
//! peer keeps no request of others waiting.

use std::time::Duration;

pub use kallisto_engine::outbound::{
    Authorization, OutboundAnswer, OutboundCall, Payload, form_component,
};

/// Most bytes of an answer that are read.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Longest that a call may take.
pub(crate) const CALL_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest that all calls of a request may take together, the wait for a thread too: a server that answers each step slowly holds a login
/// no longer than that.
pub(crate) const CALLS_TIME_MAX: Duration = Duration::from_secs(20);

const _: () = assert!(CALL_TIME_MAX.as_secs() <= CALLS_TIME_MAX.as_secs());

/// Sends calls to other servers.
pub trait OutboundCalls: Send + Sync {
    /// Sends one call and waits for its answer, at most so long. Redirects are not followed.
    ///
    /// # Errors
    /// What went wrong, without the call's secrets.
    fn send(&self, call: &OutboundCall, time: Duration) -> Result<OutboundAnswer, String>;

    /// A clock that nobody sets, which began at any time.
    fn clock(&self) -> Duration;
}
