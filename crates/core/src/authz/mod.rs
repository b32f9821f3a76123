//! Whether a request may run: the stages `authenticate` and `authorize`, and what any valid token may ask.

pub(crate) mod any_token;
pub(crate) mod authz_request;
pub(crate) mod judge;
