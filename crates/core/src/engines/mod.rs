//! What answers below a mount. Which code answers for which mount is said in `pipeline::engines`.

pub(crate) mod beyond;
pub(crate) mod cubbyhole;
pub(crate) mod identity;
pub(crate) mod kv;
pub(crate) mod mount;
pub(crate) mod sys;
pub(crate) mod transit;
