//! The seal whose key is given to the server.

use kallisto_barrier::{Error, SecretKey, UnsealKey};
use kallisto_core::AutoSeal;
use zeroize::Zeroizing;

/// A key and what the configuration calls it.
pub(crate) struct SealKey {
    id: String,
    key: SecretKey,
}

impl SealKey {
    /// The key `bytes`, of which there are 32.
    ///
    /// # Errors
    /// What is wrong with it, without the key.
    pub(crate) fn new(id: &str, bytes: &[u8]) -> Result<Self, String> {
        let key = SecretKey::from_bytes(bytes).map_err(|error| error.to_string())?;
        Ok(Self { id: id.to_owned(), key })
    }
}

/// Wraps the unseal key under a key from a file or the environment.
pub(crate) struct StaticKeySeal {
    current: SealKey,
    /// Opens what was wrapped before the key was changed.
    previous: Option<SealKey>,
}

impl StaticKeySeal {
    /// A seal under `current` that still opens what `previous` wrapped.
    pub(crate) fn new(current: SealKey, previous: Option<SealKey>) -> Self {
        Self { current, previous }
    }
}

impl AutoSeal for StaticKeySeal {
    fn name(&self) -> &str {
        "static"
    }

    fn wrap(&self, key: &[u8]) -> Result<Vec<u8>, String> {
        let key = UnsealKey::from_bytes(key).map_err(|error| error.to_string())?;
        tracing::info!(key_id = self.current.id, "the unseal key is wrapped");
        key.wrap(&self.current.key).map_err(|error| error.to_string())
    }

    fn unwrap(&self, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let mut tried = Vec::new();
        // Which key wrapped is found by trying: the record does not name it.
        for named in [Some(&self.current), self.previous.as_ref()].into_iter().flatten() {
            match UnsealKey::unwrap(wrapped, &named.key) {
                Ok(key) => {
                    tracing::info!(key_id = named.id, "the unseal key is unwrapped");
                    return Ok(Zeroizing::new(key.expose().to_vec()));
                }
                Err(Error::WrongKey) => tried.push(named.id.as_str()),
                Err(error) => return Err(format!("the static seal key {:?}: {error}", named.id)),
            }
        }
        Err(format!("no static seal key opens this storage: wrong key, of {}", tried.join(", ")))
    }

    fn is_outdated(&self, wrapped: &[u8]) -> bool {
        matches!(UnsealKey::unwrap(wrapped, &self.current.key), Err(Error::WrongKey))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_and_another_seal_key_is_refused() {
        let bytes = |first: u8| -> [u8; 32] { std::array::from_fn(|at| first + at as u8) };
        let key = |id: &str, first: u8| SealKey::new(id, &bytes(first)).unwrap();
        let seal = StaticKeySeal::new(key("old", 0), None);
        let other = StaticKeySeal::new(key("new", 50), None);
        let changed = StaticKeySeal::new(key("new", 50), Some(key("old", 0)));
        let wrapped = seal.wrap(&bytes(100)).unwrap();
        assert_eq!(**seal.unwrap(&wrapped).unwrap(), bytes(100));
        assert_eq!(**changed.unwrap(&wrapped).unwrap(), bytes(100));
        assert!(changed.is_outdated(&wrapped) && !seal.is_outdated(&wrapped));
        let refused = other.unwrap(&wrapped).unwrap_err();
        assert!(refused.ends_with("wrong key, of new"), "{refused}");
        assert!(SealKey::new("short", b"short").is_err());
    }
}
