//! The two keys above the keyring.
//!
//! The **unseal key** comes from outside (combined shares, a file, another server) and wraps the **root key**, which seals
//! the keyring. *Rekey* is a new unseal key, and a new root key if one likes: the keyring is sealed again, no record changes.

use aws_lc_rs::hmac;

use crate::error::{Error, Result};
use crate::secret::SecretKey;
use crate::shamir::{self, Share};
use crate::wrap::{self, WrapPurpose};

/// The key that opens everything; it is kept in shares, and in memory only while it is used.
#[derive(Debug)]
pub struct UnsealKey(SecretKey);

impl UnsealKey {
    /// A fresh one.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory or no randomness.
    pub fn generate() -> Result<Self> {
        SecretKey::generate().map(Self)
    }

    /// One that somebody else keeps; the caller wipes `bytes`.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless they are 32 and not all the same: an empty, short or blank key is refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        SecretKey::from_bytes(bytes).map(Self)
    }

    /// Its shares, as [`shamir::split`] makes them.
    ///
    /// # Errors
    /// As [`shamir::split`].
    pub fn split(&self, shares: u8, threshold: u8) -> Result<Vec<Share>> {
        shamir::split(&self.0, shares, threshold)
    }

    /// The key that `shares` give; whether it is the right one, [`RootKey::unwrap`] tells.
    ///
    /// # Errors
    /// As [`shamir::combine`].
    pub fn combine(shares: &[Share]) -> Result<Self> {
        shamir::combine(shares).map(Self)
    }

    /// This key under `keeper`, a key that opens the barrier without people, to be stored.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory or no randomness.
    pub fn wrap(&self, keeper: &SecretKey) -> Result<Vec<u8>> {
        wrap::seal(keeper, WrapPurpose::UnsealKey, self.0.expose())
    }

    /// The key in what [`UnsealKey::wrap`] made.
    ///
    /// # Errors
    /// As [`RootKey::unwrap`].
    pub fn unwrap(wrapped: &[u8], keeper: &SecretKey) -> Result<Self> {
        let bytes = wrap::open(keeper, WrapPurpose::UnsealKey, wrapped)?;
        let key = SecretKey::from_bytes(&bytes);
        key.map(Self).map_err(|error| match error {
            Error::Invalid(_) => Error::Damaged("a wrapped unseal key is no key"),
            other => other,
        })
    }

    /// The key itself, for a keeper outside (auto-unseal).
    #[must_use]
    pub fn expose(&self) -> &[u8; crate::limits::KEY_BYTES] {
        self.0.expose()
    }
}

impl From<SecretKey> for UnsealKey {
    fn from(key: SecretKey) -> Self {
        Self(key)
    }
}

/// The key that seals the keyring.
#[derive(Debug)]
pub struct RootKey(SecretKey);

impl RootKey {
    /// A fresh one.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory or no randomness.
    pub fn generate() -> Result<Self> {
        SecretKey::generate().map(Self)
    }

    /// This key under `unseal_key`, with that key's commitment, to be stored.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory or no randomness.
    pub fn wrap(&self, unseal_key: &UnsealKey) -> Result<Vec<u8>> {
        wrap::seal(&unseal_key.0, WrapPurpose::RootKey, self.0.expose())
    }

    /// The key in what [`RootKey::wrap`] made.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if it was wrapped under another key, [`Error::Damaged`] or [`Error::Unsupported`] if the bytes
    /// are not what was made, [`Error::Machine`] if there is no memory.
    pub fn unwrap(wrapped: &[u8], unseal_key: &UnsealKey) -> Result<Self> {
        let bytes = wrap::open(&unseal_key.0, WrapPurpose::RootKey, wrapped)?;
        let key = SecretKey::from_bytes(&bytes);
        key.map(Self).map_err(|error| match error {
            Error::Invalid(_) => Error::Damaged("a wrapped root key is no key"),
            other => other,
        })
    }

    /// The key for tags under `label`: whoever makes one holds this root key.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory.
    pub fn tag_key(&self, label: &[u8]) -> Result<TagKey> {
        let subkey = crate::derive::subkey(&self.0, b"tag", label)?;
        Ok(TagKey(hmac::Key::new(hmac::HMAC_SHA256, subkey.expose())))
    }

    pub(crate) fn key(&self) -> &SecretKey {
        &self.0
    }
}

/// Makes and checks tags (HMAC-SHA-256) for one purpose.
pub struct TagKey(hmac::Key);

impl TagKey {
    /// The tag of a message.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; 32] {
        let tag = hmac::sign(&self.0, message);
        tag.as_ref().try_into().expect("an HMAC-SHA-256 has 32 bytes")
    }

    /// Whether `tag` is that of `message`; in constant time.
    #[must_use]
    pub fn verify(&self, message: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.0, message, tag).is_ok()
    }
}

impl std::fmt::Debug for TagKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TagKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unseal_key_comes_back_from_its_keeper_only() {
        let (keeper, other) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let key = UnsealKey::generate().unwrap();
        let wrapped = key.wrap(&keeper).unwrap();
        assert_eq!(UnsealKey::unwrap(&wrapped, &keeper).unwrap().expose(), key.expose());
        assert_eq!(UnsealKey::unwrap(&wrapped, &other).unwrap_err(), Error::WrongKey);
        // What one purpose sealed opens for no other.
        assert_eq!(RootKey::unwrap(&wrapped, &keeper.into()).unwrap_err(), Error::WrongKey);
    }

    #[test]
    fn the_root_key_comes_back_by_enough_shares_and_by_nothing_else() {
        let unseal_key = UnsealKey::generate().unwrap();
        let root_key = RootKey::generate().unwrap();
        let wrapped = root_key.wrap(&unseal_key).unwrap();
        let shares = unseal_key.split(5, 3).unwrap();

        let combined = UnsealKey::combine(&shares[1..4]).unwrap();
        let unwrapped = RootKey::unwrap(&wrapped, &combined).unwrap();
        assert_eq!(unwrapped.0.expose(), root_key.0.expose());

        let combined = UnsealKey::combine(&shares[1..3]).unwrap();
        assert_eq!(RootKey::unwrap(&wrapped, &combined).err(), Some(Error::WrongKey));
        let other = UnsealKey::generate().unwrap();
        assert_eq!(RootKey::unwrap(&wrapped, &other).err(), Some(Error::WrongKey));
    }

    #[test]
    fn tags_are_of_one_key_one_label_and_one_message() {
        let (one, other) = (RootKey::generate().unwrap(), RootKey::generate().unwrap());
        let key = one.tag_key(b"label").unwrap();
        let tag = key.sign(b"message");
        assert!(key.verify(b"message", &tag));
        assert!(!key.verify(b"massage", &tag) && !key.verify(b"message", &tag[..31]));
        assert!(!one.tag_key(b"other").unwrap().verify(b"message", &tag));
        assert!(!other.tag_key(b"label").unwrap().verify(b"message", &tag));
    }

    #[test]
    fn rekeying_leaves_the_old_shares_useless_for_the_new_bytes() {
        let (old, new) = (UnsealKey::generate().unwrap(), UnsealKey::generate().unwrap());
        let root_key = RootKey::generate().unwrap();
        let wrapped = root_key.wrap(&new).unwrap();
        assert_eq!(RootKey::unwrap(&wrapped, &old).err(), Some(Error::WrongKey));
        assert!(RootKey::unwrap(&wrapped, &new).is_ok());
    }
}
