//! The way of a request: namespace, limits, who asks, what the policies say, audit, and the engine that answers.

pub(crate) mod address;
pub(crate) mod authz_request;
pub(crate) mod compute;
pub(crate) mod door;
pub(crate) mod fast_path;
pub(crate) mod freshness;
pub(crate) mod patience;
pub(crate) mod policies;
pub(crate) mod spelling;
pub(crate) mod state;
pub(crate) mod unheard;
pub(crate) mod wrapping;
