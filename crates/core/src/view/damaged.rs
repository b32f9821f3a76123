//! A record that cannot be read.

/// Why a record could not be folded; reported, never served.
pub(crate) struct DamagedRecord(pub(super) &'static str);
