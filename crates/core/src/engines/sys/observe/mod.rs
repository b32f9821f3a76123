//! What the server says of itself, its process and its machine.

pub(super) mod counters;
pub(super) mod host;
pub(super) mod jobs;
pub(super) mod loggers;
pub(super) mod metrics;
pub(super) mod monitor;
pub(super) mod plugins;
