//! The seal whose key is given to the server.

use kallisto_barrier::{Error, SecretKey, UnsealKey};
use kallisto_core::AutoSeal;
use zeroize::Zeroizing;

/// Wraps the unseal key under a key from a file or the environment.
pub(in crate::server) struct StaticKey {
    current: SecretKey,
    /// Opens what was wrapped before the key was changed.
    previous: Option<SecretKey>,
}

impl StaticKey {
    /// A seal under `current`, 32 bytes, that still opens what `previous` wrapped.
    ///
    /// # Errors
    /// What is wrong with a key, without the key.
    pub(in crate::server) fn new(
        current: &[u8],
        previous: Option<&[u8; 32]>,
    ) -> Result<Self, String> {
        let read = |key: &[u8]| SecretKey::from_bytes(key).map_err(|error| error.to_string());
        let previous = previous.map(|key| read(key)).transpose()?;
        Ok(Self { current: read(current)?, previous })
    }
}

impl AutoSeal for StaticKey {
    fn name(&self) -> &str {
        "static"
    }

    fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, String> {
        let key = UnsealKey::from_bytes(key).map_err(|error| error.to_string())?;
        key.wrap(&self.current).map_err(|error| error.to_string())
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let opened = match (UnsealKey::unwrap(wrapped, &self.current), &self.previous) {
            (Err(Error::WrongKey), Some(previous)) => UnsealKey::unwrap(wrapped, previous),
            (opened, _) => opened,
        };
        let key = opened
            .map_err(|error| format!("the static seal key does not open this storage: {error}"))?;
        Ok(Zeroizing::new(key.expose().to_vec()))
    }

    fn is_outdated(&self, wrapped: &[u8]) -> bool {
        matches!(UnsealKey::unwrap(wrapped, &self.current), Err(Error::WrongKey))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_and_another_seal_key_is_refused() {
        let bytes = |first: u8| -> [u8; 32] { std::array::from_fn(|at| first + at as u8) };
        let seal = StaticKey::new(&bytes(0), None).unwrap();
        let other = StaticKey::new(&bytes(50), None).unwrap();
        let changed = StaticKey::new(&bytes(50), Some(&bytes(0))).unwrap();
        let wrapped = seal.wrap(&bytes(100)).unwrap();
        assert_eq!(**seal.unwrap(&wrapped).unwrap(), bytes(100));
        assert_eq!(**changed.unwrap(&wrapped).unwrap(), bytes(100));
        assert!(changed.is_outdated(&wrapped) && !seal.is_outdated(&wrapped));
        assert!(other.unwrap(&wrapped).unwrap_err().contains("wrong key"));
        assert!(StaticKey::new(b"short", None).is_err());
    }
}
