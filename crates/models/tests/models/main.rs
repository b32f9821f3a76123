//! The models: see the crate.

mod check;
mod fenced_leader;
mod reading_lease;
mod segment_log;
mod two_phase_leases;
mod wrapping_once;
