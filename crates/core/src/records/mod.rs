//! What is stored, decoded: the form of records that memory keeps and rooms share, and nothing that acts on them.

pub(crate) mod attribution;
pub(crate) mod batch_token;
pub(crate) mod engine_kind;
pub(crate) mod engine_set;
pub(crate) mod kv;
pub(crate) mod lockout_rules;
pub(crate) mod mount;
pub(crate) mod namespace;
pub(crate) mod time_marks;
pub(crate) mod token;
