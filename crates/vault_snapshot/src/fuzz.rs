//! What reads bytes that nobody vouched for yet, as one function of bytes.

use zeroize::Zeroizing;

use crate::file::SnapshotFile;
use crate::{expand, identity, kv};

/// Reads bytes as the first of them says: a file, or what is inside of a record. Nothing may panic, and what is read holds what it promises.
pub fn snapshot(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    match form % 6 {
        0 => {
            if let Ok(file) = SnapshotFile::read(rest) {
                drop(file.seal());
            }
        }
        1 => read_metadata(rest),
        2 => drop(kv::StoredSettings::read(rest)),
        3 => drop(kv::version_data(rest)),
        4 => drop(identity::unpack(Zeroizing::new(rest.to_vec()))),
        _ => drop(expand(Zeroizing::new(rest.to_vec()))),
    }
}

fn read_metadata(bytes: &[u8]) {
    let Ok(metadata) = kv::StoredMetadata::read(bytes) else { return };
    for number in metadata.versions.keys().take(4) {
        let path = metadata.version_path(b"salt", *number);
        let parts: Vec<usize> = path.split('/').map(str::len).collect();
        assert_eq!(parts, [8, 3, 61], "a version's path has one form");
    }
}
