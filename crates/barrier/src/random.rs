//! Random bytes from the operating system.
//!
//! Not from a generator in this process: the system's is reseeded when a virtual machine is cloned or restored, one of
//! ours would hand both copies the same bytes. It is asked for keys and nonce prefixes only, never per record.

use crate::error::{Error, Result};

/// Fills `out` with random bytes.
///
/// # Errors
/// [`Error::Machine`] if the system has none.
pub(crate) fn fill(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(|_| Error::Machine("no random bytes from the system"))
}
