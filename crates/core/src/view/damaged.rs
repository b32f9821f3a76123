//! A record that cannot be read.

/// Why a record could not be folded; reported, never served.
pub(crate) struct Damaged(pub(super) &'static str);
