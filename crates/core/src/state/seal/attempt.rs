//! Collecting shares until there are enough.

use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER_PERMISSIVE};
use kallisto_barrier::UnsealKey;
use kallisto_barrier::shamir::Share;
use zeroize::Zeroizing;

use crate::api::error::Error;
use crate::random;

/// Fewest bytes of anything that may be a share, as clients know the limit.
const SHARE_BYTES_MIN: usize = 16;
/// Most bytes of a share: a key and its place on the polynomial.
const SHARE_BYTES_MAX: usize = 33;

/// Shares given so far towards one goal.
pub(crate) struct ShareAttempt {
    /// Identifies the attempt to those who give shares.
    pub(crate) nonce: String,
    shares: Vec<ShareBytes>,
}

/// The bytes of a share as it was given.
pub(crate) type ShareBytes = Zeroizing<Vec<u8>>;

impl ShareAttempt {
    /// An attempt without shares, under a fresh nonce.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without randomness.
    pub(crate) fn start() -> Result<Self, Error> {
        Ok(Self { nonce: random::make_uuid()?, shares: Vec::new() })
    }

    /// Distinct shares so far.
    pub(crate) fn count(&self) -> usize {
        self.shares.len()
    }

    /// Takes a share; one that was given before changes nothing.
    pub(crate) fn add(&mut self, share: ShareBytes) {
        if !self.shares.contains(&share) {
            self.shares.push(share);
        }
    }

    /// Forgets the shares.
    pub(crate) fn clear(&mut self) {
        self.shares.clear();
    }

    /// The key that the shares make; whether it is the right one is for its commitment to say. A
    /// lone share is the key itself.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they do not fit together.
    pub(crate) fn combine(&self) -> Result<UnsealKey, Error> {
        let refuse = |error: kallisto_barrier::Error| {
            Error::invalid(format!("unable to generate root key: {error}"))
        };
        if let [only] = self.shares.as_slice() {
            return UnsealKey::from_bytes(only).map_err(refuse);
        }
        let shares = self.shares.iter().map(|share| Share::from_bytes(share));
        let shares = shares.collect::<Result<Vec<_>, _>>().map_err(refuse)?;
        UnsealKey::combine(&shares).map_err(refuse)
    }
}

/// A share from its text, hexadecimal or base64.
///
/// # Errors
/// [`Error::Invalid`] when it is neither, or too short or too long for a share.
pub(crate) fn parse_share(text: &str) -> Result<ShareBytes, Error> {
    let text = text.trim().as_bytes();
    // Hexadecimal digits are base64 too: what they are is told by how many there are.
    let hex = HEXLOWER_PERMISSIVE.decode(text).map(Zeroizing::new);
    let fits = |bytes: &ShareBytes| (SHARE_BYTES_MIN..=SHARE_BYTES_MAX).contains(&bytes.len());
    if let Some(bytes) = hex.ok().filter(fits) {
        return Ok(bytes);
    }
    let bytes = BASE64
        .decode(text)
        .or_else(|_| BASE64_NOPAD.decode(text))
        .map(Zeroizing::new)
        .map_err(|_| Error::invalid("'key' must be a valid hex or base64 string"))?;
    if bytes.len() < SHARE_BYTES_MIN {
        return Err(Error::invalid(format!(
            "invalid key: key is shorter than minimum {SHARE_BYTES_MIN} bytes"
        )));
    }
    if bytes.len() > SHARE_BYTES_MAX {
        return Err(Error::invalid(format!(
            "invalid key: key is longer than maximum {SHARE_BYTES_MAX} bytes"
        )));
    }
    Ok(bytes)
}
