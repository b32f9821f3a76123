//! The seal as a server holds it: its configuration, and how far the attempts are that need several shares.
//!
//! What is done with it (initialising, unsealing, rekeying, root tokens) is in [`crate::seal`].

pub(crate) mod attempt;
pub(crate) mod config;
pub(crate) mod progress;
pub(crate) mod recipients;

pub(crate) use attempt::parse_share;
pub(crate) use config::SealConfig;
