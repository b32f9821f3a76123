//! The stages `audit request` and `audit reply`: what is written down of each request, and that nothing passes before it was.
//!
//! [`gate`] stands around the request: [`describe`] says who asks for what, [`answer`] what came of it, and the devices
//! ([`crate::audit`]) mask, chain and write both. Reads that come together are written together ([`batch`]).
//!
//! Invariants:
//! - Of the enabled devices at least one has taken a request's record before its handler runs, and
//!   one its response's before the answer leaves; else the client gets an internal error.
//! - A read of KV changes nothing, so both its records are written at once, before its answer leaves; reads that
//!   come together are written together ([`batch`]).

mod answer;
mod batch;
mod describe;
mod gate;
#[cfg(test)]
mod tests;

pub use batch::AuditBatch;
pub(crate) use batch::{AlikeFields, GatheringDevices};
pub(crate) use gate::OpenRecords;
