//! Leases of dynamic secrets: credentials at far ends, made in two steps, renewed, and taken back.
//!
//! `kallisto-leases` decides, this room acts: it reads and commits records, calls the far end, and serves what
//! `sys/leases` says of such leases ([`wire`]; tokens have leases of their own, in `tokens::leases`).
//!
//! ```text
//! create   pending record > far end > live record; what fails is rolled back
//! renew    far end > record
//! revoke   one lease, those of a path, of a mount
//! work     by the clock, on the leader: owners that are gone, then the queue
//! ```
//!
//! Invariants:
//! - The record is there before the far end is asked, and goes after the far end has said that the credential is gone;
//!   but for [`revoke::forget_below`] and a forced unmount, which an operator asks for.
//! - A lease of an owner that is gone is due at once. The owner's end is not a condition of that: the leader notices.
//! - Nothing here waits for a far end with a lock, and no request but who asked for it waits for one.

pub(crate) mod create;
pub(crate) mod far_end;
pub(crate) mod lease_run;
pub(crate) mod quota;
mod record;
mod renew;
pub(crate) mod revoke;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod wire;
mod work;

pub(crate) use work::{start_marked, work_queue};
