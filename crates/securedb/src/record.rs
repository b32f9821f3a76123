//! What a record is below: its place and its plaintext.
//!
//! ```text
//! storage key := kind u8 (1) | name hash 16                     what the engine sorts by, and what the envelope is bound to
//! plaintext   := value | name | name length u16, little-endian
//! ```
//!
//! The name stands behind the value so that a reader who wants the value cuts it off, and copies nothing.

use kallisto_barrier::limits::PLAIN_BYTES_MAX;
use kallisto_barrier::{Keyring, NAME_HASH_BYTES};
use kallisto_index::PATH_BYTES_MAX;
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// The first byte of every record's key.
pub(crate) const KIND: u8 = 1;
const STORAGE_KEY_BYTES: usize = 1 + NAME_HASH_BYTES;
/// What the name hash is scoped by; part of the format.
const NAME_SCOPE: &[u8] = b"securedb/v1";
const LENGTH_BYTES: usize = 2;

/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = PLAIN_BYTES_MAX - PATH_BYTES_MAX - LENGTH_BYTES;

const _: () = assert!(PATH_BYTES_MAX <= u16::MAX as usize);

/// Where a record lies.
pub(crate) type StorageKey = [u8; STORAGE_KEY_BYTES];

/// Where the record of `name` lies.
pub(crate) fn storage_key(keyring: &Keyring, name: &str) -> StorageKey {
    let mut key = [KIND; STORAGE_KEY_BYTES];
    key[1..].copy_from_slice(&keyring.name_hash(NAME_SCOPE, name.as_bytes()));
    key
}

/// The plaintext of a record, in one allocation that is wiped.
pub(crate) fn assemble(name: &str, value: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::Invalid("a value is longer than the store holds"));
    }
    if name.len() > PATH_BYTES_MAX {
        return Err(Error::Name(kallisto_index::Error::TooLong));
    }
    let length = u16::try_from(name.len()).expect("the length was checked");
    let mut plain = Zeroizing::new(Vec::with_capacity(value.len() + name.len() + LENGTH_BYTES));
    plain.extend_from_slice(value);
    plain.extend_from_slice(name.as_bytes());
    plain.extend_from_slice(&length.to_le_bytes());
    Ok(plain)
}

/// The value's length and the name in a plaintext; `None` if it is none.
pub(crate) fn take_apart(plain: &[u8]) -> Option<(usize, &str)> {
    let (rest, length) = plain.split_last_chunk::<LENGTH_BYTES>()?;
    let value_length = rest.len().checked_sub(usize::from(u16::from_le_bytes(*length)))?;
    let name = std::str::from_utf8(&rest[value_length..]).ok()?;
    Some((value_length, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plaintext_falls_apart_into_what_it_was_made_of() {
        for (name, value) in [("a", b"".as_slice()), ("a/b", b"value"), ("\u{e9}", &[0; 300])] {
            let plain = assemble(name, value).unwrap();
            assert_eq!(plain.len(), plain.capacity());
            assert_eq!(take_apart(&plain), Some((value.len(), name)));
        }
        for bytes in [b"".as_slice(), b"\x01", b"\x02\x00", b"a\x02\x00", b"\xff\x01\x00"] {
            assert_eq!(take_apart(bytes), None);
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        assert!(matches!(assemble("a", &vec![0; VALUE_BYTES_MAX + 1]), Err(Error::Invalid(_))));
        assert!(matches!(assemble(&"a".repeat(PATH_BYTES_MAX + 1), b""), Err(Error::Name(_))));
        assert!(assemble(&"a".repeat(PATH_BYTES_MAX), &vec![0; VALUE_BYTES_MAX]).is_ok());
    }
}
