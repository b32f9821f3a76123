//! What the server is given by the process that it runs in: threads, randomness, the machine, calls to others; and versions.

pub(crate) mod cooperative_yield;
pub(crate) mod host;
pub(crate) mod outbound;
pub(crate) mod random;
pub(crate) mod threads;
pub(crate) mod tickets;
pub(crate) mod versions;
pub(crate) mod web;
