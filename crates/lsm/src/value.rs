//! A value that was read: its own bytes or a piece of a cached block.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The bytes of a value; derefs to `[u8]`.
///
/// It may share the memory of a cached block, so a caller that keeps values for long copies them out.
#[derive(Clone)]
pub struct ValueBytes(Holder);

#[derive(Clone)]
enum Holder {
    Owned(Vec<u8>),
    Shared { bytes: Arc<Vec<u8>>, start: usize, end: usize },
}

impl ValueBytes {
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        Self(Holder::Owned(bytes))
    }

    /// The bytes `start..end` of a block; the caller has checked the bounds.
    pub(crate) fn shared(bytes: Arc<Vec<u8>>, start: usize, end: usize) -> Self {
        assert!(start <= end && end <= bytes.len(), "a value lies inside its block");
        Self(Holder::Shared { bytes, start, end })
    }

    /// Its first `bytes_max` bytes.
    pub(crate) fn start(self, bytes_max: usize) -> Self {
        Self(match self.0 {
            Holder::Owned(mut bytes) => {
                bytes.truncate(bytes_max);
                Holder::Owned(bytes)
            }
            Holder::Shared { bytes, start, end } => {
                Holder::Shared { bytes, start, end: end.min(start.saturating_add(bytes_max)) }
            }
        })
    }

    /// The bytes as a vector of the caller's own.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Holder::Owned(bytes) => bytes,
            Holder::Shared { bytes, start, end } => bytes[start..end].to_vec(),
        }
    }
}

impl Deref for ValueBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Holder::Owned(bytes) => bytes,
            Holder::Shared { bytes, start, end } => &bytes[*start..*end],
        }
    }
}

impl AsRef<[u8]> for ValueBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for ValueBytes {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

/// Shows the length only: values are ciphertext or secrets.
impl fmt::Debug for ValueBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueBytes({} bytes)", self.len())
    }
}

/// What a search for one key found in one place.
#[derive(Debug)]
pub(crate) enum LookupOutcome {
    /// The key has a value.
    Value(ValueBytes),
    /// The key was deleted; do not look further down.
    Deleted,
    /// This place says nothing about the key.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_bytes_it_was_given_wherever_they_lie() {
        let block = Arc::new(b"-value-".to_vec());
        for value in [ValueBytes::owned(b"value".to_vec()), ValueBytes::shared(block.clone(), 1, 6)]
        {
            assert_eq!(&value[..], b"value");
            assert_eq!(value.as_ref(), b"value");
            assert!(value == *b"value".as_slice() && value != *b"other".as_slice());
            assert_eq!(value.clone().into_vec(), b"value");
        }
        assert_eq!(ValueBytes::shared(block.clone(), 0, 7).into_vec(), *block);
        assert!(ValueBytes::shared(block, 7, 7).is_empty());
    }
}
