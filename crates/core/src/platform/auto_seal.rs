//! Something that keeps the unseal key in place of people; the binary implements it.

/// Keeps the unseal key in place of people: something that wraps it and gives it back.
pub trait AutoSeal: Send + Sync {
    /// The name of the scheme, such as `static` or `transit`; part of the stored record.
    fn name(&self) -> &str;

    /// Wraps a key.
    ///
    /// # Errors
    /// What went wrong, without the key.
    fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, String>;

    /// Gives a wrapped key back.
    ///
    /// # Errors
    /// What went wrong, without the key.
    fn unwrap(&self, wrapped: &[u8]) -> Result<zeroize::Zeroizing<Vec<u8>>, String>;

    /// Whether `wrapped`, which [`AutoSeal::unwrap`] opens, should be wrapped again: by a key that
    /// replaced the one behind it.
    fn is_outdated(&self, wrapped: &[u8]) -> bool;
}
