//! Keys by context.
//!
//! ```text
//! HkdfSha256          HKDF-SHA-256 (RFC 5869) of the version's key without a salt, the context as info
//! HmacSha256Counter   HMAC-SHA-256(key, 0 u32 | context | 256 u32), big-endian: the one block of NIST
//!                     SP 800-108 in counter mode that Vault and OpenBao make, which is cut to the length
//! ```

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::settings::Kdf;

/// Bits of the block in counter mode, whatever of it is used.
const COUNTER_BITS: u32 = 256;

/// How many bytes are derived.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// `length` bytes of `key` for `context`.
pub(crate) fn derive_bytes(
    kdf: Kdf,
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
    match kdf {
        Kdf::HkdfSha256 => {
            let derived = Salt::none(HKDF_SHA256)
                .extract(key)
                .expand(&[context], Length(length))
                .and_then(|okm| okm.fill(&mut bytes));
            derived.map_err(|_| Error::Machine("a key could not be derived"))?;
        }
        Kdf::HmacSha256Counter => {
            let mut hmac = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, key));
            hmac.update(&0_u32.to_be_bytes());
            hmac.update(context);
            hmac.update(&COUNTER_BITS.to_be_bytes());
            let block = hmac.sign();
            let wanted = block.as_ref().get(..length);
            bytes.copy_from_slice(wanted.ok_or(Error::Machine("a key could not be derived"))?);
        }
    }
    Ok(bytes)
}
