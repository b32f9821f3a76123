//! The algorithms that tokens are signed with (RFC 7518, 3.1; RFC 8037, 3.1).

use aws_lc_rs::digest;
use data_encoding::BASE64URL_NOPAD;

/// An algorithm of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningAlgorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256, under a key of 2048 bits.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// ECDSA over P-384 with SHA-384.
    Es384,
    /// ECDSA over P-521 with SHA-512.
    Es512,
    /// Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// Every algorithm, in the order in which discovery lists them.
    pub const ALL: [Self; 7] =
        [Self::Rs256, Self::Rs384, Self::Rs512, Self::Es256, Self::Es384, Self::Es512, Self::EdDsa];

    /// Its name in tokens, key sets and requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of this name; names have a case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether making a key takes tens of milliseconds.
    pub const fn is_slow_to_make(self) -> bool {
        matches!(self, Self::Rs256 | Self::Rs384 | Self::Rs512)
    }

    /// The left half of the hash of `text`, by which an ID token names an access token or a code
    /// (OpenID Connect Core, 3.1.3.6). The hash is the signature's; Ed25519 hashes with SHA-512.
    pub fn half_hash(self, text: &str) -> String {
        let hash = match self {
            Self::Rs256 | Self::Es256 => &digest::SHA256,
            Self::Rs384 | Self::Es384 => &digest::SHA384,
            Self::Rs512 | Self::Es512 | Self::EdDsa => &digest::SHA512,
        };
        let hash = digest::digest(hash, text.as_bytes());
        let (left, _) = hash.as_ref().split_at(hash.as_ref().len() / 2);
        BASE64URL_NOPAD.encode(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_algorithm_and_has_a_case() {
        for algorithm in SigningAlgorithm::ALL {
            assert_eq!(SigningAlgorithm::named(algorithm.name()), Some(algorithm));
        }
        for name in ["", "none", "HS256", "PS256", "rs256", "EDDSA", "RS256 "] {
            assert_eq!(SigningAlgorithm::named(name), None, "{name}");
        }
    }

    #[test]
    fn half_a_hash_is_that_of_the_specifications_example() {
        // OpenID Connect Core, A.4: this code, signed with RS256.
        let code = "Qcb0Orv1zh30vL1MPRsbm-diHiMwcLyZvn1arpZv-Jxf_11jnpEX3Tgfvk";
        assert_eq!(SigningAlgorithm::Rs256.half_hash(code), "LDktKdoQak3Pk0cnXxCltA");
    }
}
