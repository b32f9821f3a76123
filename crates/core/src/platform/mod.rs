//! What the server is given by the process that it runs in: threads, randomness, the machine, calls to others; what engines use of
//! that; and what its configuration says.

pub(crate) mod auto_seal;
pub(crate) mod cluster_port;
pub(crate) mod engine_services;
pub(crate) mod host;
pub(crate) mod lockout;
pub(crate) mod metrics_settings;
pub(crate) mod outbound;
pub(crate) mod pool;
pub(crate) mod server_info;
pub(crate) mod snapshot_storage;
pub(crate) mod threads;
pub(crate) mod web;
