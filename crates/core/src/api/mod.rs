//! What a request and its answer are, apart from what answers: types without an arrow to anything else of core.

pub(crate) mod duration;
pub(crate) mod error;
pub(crate) mod etag;
pub(crate) mod expected;
pub(crate) mod fields;
pub mod json;
pub(crate) mod request;
pub(crate) mod request_id;
pub(crate) mod response;
pub(crate) mod stream;
