//! A record that cannot be read.

use kallisto_store::Error as StoreError;

/// Why a record could not be folded; reported, never served.
pub(crate) struct DamagedRecord(pub(super) &'static str);

/// The same as what a store says of what it has.
pub(super) fn unsound(DamagedRecord(what): &DamagedRecord) -> StoreError {
    StoreError::Damaged(format!("a record says nothing sound: {what}"))
}
