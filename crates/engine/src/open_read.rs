//! Reads by whoever asks, that memory answers at once.
//!
//! A list of revoked certificates or an answer of OCSP is asked for by everybody who meets a certificate, and is in memory most of the time. The
//! row of such a route says what finds it there ([`Route::read_at_once`](crate::Route::read_at_once)): a function of what is decoded, of the path and of
//! the time, which waits for nothing. The server calls it where no stage of a request has anything else to do; what it answers is what the
//! handler of the row would.

use std::any::Any;

use jiff::Timestamp;
use kallisto_api::Response;

use crate::memory::Memory;
use crate::pattern::Params;

/// Answers a read from memory, as the handler of the row would; `None` where that has to do more, or refuses.
pub type OpenRead = for<'a> fn(OpenReadCall<'a>) -> Option<Response>;

/// A read by whoever asks.
#[derive(Clone, Copy)]
pub struct OpenReadCall<'a> {
    /// What the engine keeps decoded of the mount.
    pub memory: &'a dyn Memory,
    /// What the path has in the places of the route's parameters.
    pub params: Params<'a>,
    /// When it is asked.
    pub now: Timestamp,
}

impl<'a> OpenReadCall<'a> {
    /// What the engine keeps decoded; `None` when that is something else.
    pub fn memory<M: Memory>(&self) -> Option<&'a M> {
        (self.memory as &dyn Any).downcast_ref()
    }
}
