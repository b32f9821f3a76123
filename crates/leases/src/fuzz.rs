//! The bodies of the fuzz targets: what a disk or a client hands this crate, as any bytes.
//!
//! libFuzzer, the corpus and the smoke test of the `fuzz` crate all call these.

use crate::id::LeaseId;
use crate::record::LeaseRecord;

/// Any bytes as a record: an error, or a lease whose record is these bytes. The same bytes as the id that a
/// client sends: refused, or one that is spelled as it was sent.
///
/// # Panics
/// If a promise is broken.
pub fn record(bytes: &[u8]) {
    if let Ok(record) = LeaseRecord::decode(bytes) {
        assert!(record.is_within_limits());
        assert_eq!(record.encode(), bytes);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for namespace_id in ["", "aB3dE"] {
        if let Ok(id) = LeaseId::parse_wire(text, namespace_id) {
            assert_eq!(id.to_wire(namespace_id), text);
            assert_eq!(LeaseId::join(id.path(), &id.random()), id);
        }
    }
}
