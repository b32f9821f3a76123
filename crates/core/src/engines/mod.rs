//! What answers below a mount. Which engines there are is said in [`crate::registry`].

pub(crate) mod beyond;
#[cfg_attr(not(test), allow(dead_code, reason = "the first engine of the contract comes next"))]
pub(crate) mod contract;
pub(crate) mod cubbyhole;
pub(crate) mod identity;
pub(crate) mod jobs;
pub(crate) mod kv;
pub(crate) mod mount;
pub(crate) mod server_engine;
pub(crate) mod sys;
#[cfg(test)]
pub(crate) mod test_engine;
pub(crate) mod transit;
