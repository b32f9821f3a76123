//! Protocols of the server as small models, of which every interleaving within their bounds is checked (`docs/decisions/0375`).
//!
//! There is nothing here but tests, in `tests/models`. A model is a hand-written likeness of a piece of code: its steps carry the names of the functions
//! that take them, and each rule that makes the protocol safe is a field that a test can take away. Every model has two
//! tests: with its rules no state breaks a property, and without any one of them some state does. A model whose rules can all
//! be taken away proves nothing.
//!
//! | model | of |
//! |---|---|
//! | `reading_lease` | `store::raft::{lease, driver::reads}`: no view answers that lacks what was committed longer ago than its bound |
//! | `two_phase_leases` | `core::leases::{create, revoke, work}`: no credential without a record, no live lease without its credential |
//! | `wrapping_once` | `core::wrapping::take`, `core::tokens::spend`: what is in a wrapping token is handed out once |
//! | `segment_log` | `lsm::wal`: what was synced is read back after a power cut, and no power cut looks like damage |
//! | `fenced_leader` | leadership by a row with an epoch that each commit checks, for stores on a database |
#![forbid(unsafe_code)]
