//! Random bytes from the operating system, for keys, nonces and whoever asks for some.
//!
//! Not from a generator in this process: the system's is reseeded when a virtual machine is cloned
//! or restored; one of ours would hand both copies the same nonces under the same key.

use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Fills `out` with random bytes.
///
/// # Errors
/// [`Error::Machine`] if the system has none.
pub fn fill(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(|_| Error::Machine("no random bytes from the system"))
}

/// A secret of `count` random bytes.
pub(crate) fn make_bytes(count: usize) -> Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; count]);
    fill(&mut bytes)?;
    Ok(bytes)
}
