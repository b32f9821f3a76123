//! What answers below a mount. Which engines there are is said in `records::engine_kind`, and what drives each in [`crate::registry`].

pub(crate) mod contract;
pub(crate) mod identity;
pub(crate) mod kv;
pub(crate) mod kv_batch;
pub(crate) mod kv_search;
pub(crate) mod kv_watch;
pub(crate) mod sys;
#[cfg(test)]
pub(crate) mod test_engine;
