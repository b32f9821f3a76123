//! Keys by context: HKDF-SHA-256 (RFC 5869) of the version's key without a salt, the context as info.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// How many bytes are derived.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// `length` bytes of `key` for `context`.
pub(crate) fn derive_bytes(
    key: &[u8],
    context: &[u8],
    length: usize,
) -> Result<Zeroizing<Vec<u8>>> {
    if context.is_empty() {
        return Err(Error::invalid(
            "missing 'context' for key derivation; the key was created using a derived key, which \
             means additional, per-request information must be included in order to perform \
             operations with the key",
        ));
    }
    let mut bytes = Zeroizing::new(vec![0; length]);
    let derived = Salt::none(HKDF_SHA256)
        .extract(key)
        .expand(&[context], Length(length))
        .and_then(|okm| okm.fill(&mut bytes));
    derived.map_err(|_| Error::Machine("a key could not be derived"))?;
    Ok(bytes)
}
