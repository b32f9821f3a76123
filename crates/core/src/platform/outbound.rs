//! What sends the calls of engines to other servers ([`kallisto_engine::outbound`]).
//!
//! The core does no I/O: whoever runs it gives it something that sends, which is called on threads of the core's own, so a slow
//! peer keeps no request of others waiting.

pub use kallisto_engine::outbound::{
    Authorization, OutboundAnswer, OutboundCall, Payload, form_component,
};

/// Most bytes of an answer that are read.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Longest that a call may take, in seconds.
pub const CALL_SECS_MAX: u64 = 10;

/// Sends calls to other servers.
pub trait OutboundCalls: Send + Sync {
    /// Sends one call and waits for its answer, at most [`CALL_SECS_MAX`]. Redirects are not followed.
    ///
    /// # Errors
    /// What went wrong, without the call's secrets.
    fn send(&self, call: &OutboundCall) -> Result<OutboundAnswer, String>;
}
