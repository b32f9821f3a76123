//! The way of a request: its stages in order ([`stages`]), and what they are made of.

pub(crate) mod audit;
mod browsers;
pub(crate) mod compute;
pub(crate) mod fast_path;
pub(crate) mod freshness;
pub(crate) mod open_routes;
pub(crate) mod patience;
pub(crate) mod resolve_namespace;
pub(crate) mod route_facts;
mod snapshots;
pub(crate) mod stages;
mod timed;
pub(crate) mod write_run;
