//! The types of keys: their names on the wire, their numbers in records and backups, what they can.

/// A type of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// AES-128 in GCM with nonces of 96 bits.
    Aes128Gcm96,
    /// AES-256 in GCM with nonces of 96 bits.
    Aes256Gcm96,
    /// ChaCha20-Poly1305 with nonces of 96 bits.
    ChaCha20Poly1305,
    /// XChaCha20-Poly1305 with nonces of 192 bits.
    XChaCha20Poly1305,
    /// Ed25519 signatures.
    Ed25519,
    /// ECDSA over NIST P-256.
    EcdsaP256,
    /// ECDSA over NIST P-384.
    EcdsaP384,
    /// ECDSA over NIST P-521.
    EcdsaP521,
    /// RSA with a modulus of 2048 bits.
    Rsa2048,
    /// RSA with a modulus of 3072 bits.
    Rsa3072,
    /// RSA with a modulus of 4096 bits.
    Rsa4096,
    /// A key for HMACs only.
    Hmac,
}

/// Name on the wire, number in records and backups (the number is the contract's too, so that
/// backups go both ways). Never reuse a number.
const KINDS: [(KeyKind, &str, u8); 12] = [
    (KeyKind::Aes256Gcm96, "aes256-gcm96", 0),
    (KeyKind::EcdsaP256, "ecdsa-p256", 1),
    (KeyKind::Ed25519, "ed25519", 2),
    (KeyKind::Rsa2048, "rsa-2048", 3),
    (KeyKind::Rsa4096, "rsa-4096", 4),
    (KeyKind::ChaCha20Poly1305, "chacha20-poly1305", 5),
    (KeyKind::EcdsaP384, "ecdsa-p384", 6),
    (KeyKind::EcdsaP521, "ecdsa-p521", 7),
    (KeyKind::Aes128Gcm96, "aes128-gcm96", 8),
    (KeyKind::Rsa3072, "rsa-3072", 9),
    (KeyKind::Hmac, "hmac", 10),
    (KeyKind::XChaCha20Poly1305, "xchacha20-poly1305", 11),
];

/// What keys of a type are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFamily {
    /// A key of an authenticated cipher, of so many bytes.
    Aead(usize),
    Ed25519,
    Ecdsa,
    Rsa,
    Hmac,
}

impl KeyKind {
    /// The type with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known, _)| *known == name).map(|&(kind, ..)| kind)
    }

    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The type with this number.
    pub(crate) fn numbered(number: u8) -> Option<Self> {
        KINDS.iter().find(|(.., known)| *known == number).map(|&(kind, ..)| kind)
    }

    /// The number in records and backups.
    pub(crate) fn number(self) -> u8 {
        self.row().2
    }

    fn row(self) -> &'static (Self, &'static str, u8) {
        KINDS.iter().find(|(kind, ..)| *kind == self).expect("every type has its row")
    }

    /// What keys of this type are made of.
    pub(crate) const fn family(self) -> KeyFamily {
        match self {
            Self::Aes128Gcm96 => KeyFamily::Aead(16),
            Self::Aes256Gcm96 | Self::ChaCha20Poly1305 | Self::XChaCha20Poly1305 => {
                KeyFamily::Aead(32)
            }
            Self::Ed25519 => KeyFamily::Ed25519,
            Self::EcdsaP256 | Self::EcdsaP384 | Self::EcdsaP521 => KeyFamily::Ecdsa,
            Self::Rsa2048 | Self::Rsa3072 | Self::Rsa4096 => KeyFamily::Rsa,
            Self::Hmac => KeyFamily::Hmac,
        }
    }

    /// Whether these keys encrypt and decrypt.
    #[must_use]
    pub const fn encrypts(self) -> bool {
        matches!(self.family(), KeyFamily::Aead(_) | KeyFamily::Rsa)
    }

    /// Whether these are RSA keys, which take long to make and sign by a padding.
    #[must_use]
    pub const fn is_rsa(self) -> bool {
        matches!(self.family(), KeyFamily::Rsa)
    }

    /// Whether these keys sign.
    #[must_use]
    pub const fn signs(self) -> bool {
        matches!(self.family(), KeyFamily::Ed25519 | KeyFamily::Ecdsa | KeyFamily::Rsa)
    }

    /// Whether keys can be derived of these by a context.
    #[must_use]
    pub const fn derives(self) -> bool {
        matches!(self.family(), KeyFamily::Aead(_) | KeyFamily::Ed25519)
    }

    /// Whether a ciphertext can vouch for data beside it.
    #[must_use]
    pub const fn takes_associated_data(self) -> bool {
        matches!(self.family(), KeyFamily::Aead(_))
    }

    /// Whether it is a digest of the input that is signed, and not the input itself.
    pub const fn signs_digests(self) -> bool {
        matches!(self.family(), KeyFamily::Ecdsa | KeyFamily::Rsa)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for (kind, name, number) in KINDS {
            assert_eq!(KeyKind::named(name), Some(kind));
            assert_eq!(KeyKind::numbered(number), Some(kind));
            assert_eq!((kind.name(), kind.number()), (name, number));
        }
        assert_eq!(KeyKind::named("managed_key"), None);
        assert_eq!(KeyKind::numbered(200), None);
    }
}
