//! What a cluster under faults must hold, and the means to see whether it does.
//!
//! [`history`] judges what clients saw, of whatever made it: the simulated cluster or servers under real faults.
//! It knows nothing of how Kallisto works, so that a mistake there is not repeated here.
#![forbid(unsafe_code)]

pub mod history;
