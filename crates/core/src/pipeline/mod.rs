//! The way of a request: its stages in order ([`stages`]), and what they are made of.

pub(crate) mod any_token;
pub(crate) mod authz_request;
mod browsers;
pub(crate) mod call;
pub(crate) mod compute;
pub(crate) mod fast_path;
pub(crate) mod freshness;
pub(crate) mod judge;
pub(crate) mod open_routes;
pub(crate) mod outdated;
pub(crate) mod patience;
pub(crate) mod policies;
pub(crate) mod spelling;
pub(crate) mod stages;
pub(crate) mod state;
pub(crate) mod unheard;
pub(crate) mod wrapping;
