//! What the server keeps: plaintext and logical keys above the barrier, records of engines, locks on names, and how a record
//! is changed by what it says.

pub(crate) mod barrier_store;
pub(crate) mod candidacy;
pub(crate) mod cluster_identity;
pub(crate) mod engine_storage;
mod envelopes;
pub(crate) mod keys;
pub(crate) mod latches;
pub(crate) mod reencryption;
pub(crate) mod transact;
