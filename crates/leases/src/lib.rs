//! Leases of credentials that live elsewhere: database users, directory accounts, one-time passwords.
//!
//! It is pure: no store, no clock, no threads; time and randomness are arguments. The server's core keeps the
//! records, calls the engines and commits what is decided here.
//!
//! ```text
//! LeaseRecord      what is stored of a lease, and its bytes       (record)
//! LeaseTable       all leases in memory: by id, owner, mount, path and the time they are due   (table)
//! RevocationQueue  which of the due leases are worked on now      (queue)
//! decide_*         lifetimes, renewals, what follows a revocation (decide)
//! ```
//!
//! The life of a lease: `Pending` is the intent, stored before the far end is asked; `Live` follows when the far
//! end has answered; `Revoking` when its end was asked for or an attempt to revoke it failed; `Irrevocable` after
//! the last attempt that the far end refused. One that it did not answer counts for nothing: the lease waits for it. A lease whose revocation
//! succeeded has no record.
//!
//! Invariants:
//! - The table is a function of the records: put and remove are idempotent, and nothing else changes it but when a lease is tried again.
//! - A lease that is pending, live or revoking is due at some time; an irrevocable one never is.
//! - What a record needs for its revocation is in the record, and not in memory.
//! - Every step over many leases takes a limit.
#![forbid(unsafe_code)]

mod decide;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod id;
pub mod limits;
mod queue;
mod record;
mod table;

pub use decide::{
    AttemptFailure, GrantedRenewal, RenewalRefusal, RevocationOutcome, Ttl, TtlCapped, TtlLimits,
    TtlRequest, decide_renewal, decide_revocation, decide_ttl, told_secs,
};
pub use id::{InvalidId, LeaseId};
pub use queue::RevocationQueue;
pub use record::{LeasePhase, LeaseRecord, LeaseState, MalformedLease, Owner, Term};
pub use table::{GatheredLeases, LeaseCounts, LeaseCursor, LeaseTable, Located};
