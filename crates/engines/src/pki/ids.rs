//! The ids of issuers and keys, and of who signs a revocation list.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use kallisto_api::Error;
use kallisto_engine::Random;

/// The id of an issuer or a key: a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct IssuerId([u8; 16]);

impl IssuerId {
    /// A new one.
    ///
    /// # Errors
    /// When there is no randomness.
    pub(super) fn make(random: &dyn Random) -> Result<Self, Error> {
        let mut bytes = [0; 16];
        random.fill(&mut bytes)?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(Self(bytes))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let dashes = [8, 13, 18, 23];
        let is_form = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| (byte == b'-') == dashes.contains(&at));
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?;
        is_form.then(|| <[u8; 16]>::try_from(bytes).ok().map(Self)).flatten()
    }
}

impl fmt::Display for IssuerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = data_encoding::HEXLOWER.encode(&self.0);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        f.write_str(&parts.join("-"))
    }
}

impl fmt::Debug for IssuerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Who signs a revocation list: a name and a key. Issuers that have both in common revoke for each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct ListScope([u8; 16]);

impl ListScope {
    pub(super) fn of(name: &[u8], spki: &[u8]) -> Self {
        let digest = digest(&SHA256, &[name, spki].concat());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.as_ref()[..16]);
        Self(bytes)
    }

    pub(super) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(super) const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
        <[u8; 16]>::try_from(bytes).ok().map(Self)
    }
}

impl fmt::Display for ListScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}
