//! The cluster's identity, made once at initialisation and stored as the first record.

use crate::api::json::{self, Json};

/// Who this cluster is.
pub struct ClusterIdentity {
    /// A random UUID.
    pub id: String,
    /// `vault-cluster-` and eight hexadecimal digits, as clients know it.
    pub name: String,
    /// The key under which tokens are hashed before they are looked up.
    pub(crate) token_key: TokenKey,
}

/// The 32-byte key of the token hash. Never printed.
pub(crate) struct TokenKey(aws_lc_rs::hmac::Key, zeroize::Zeroizing<[u8; 32]>);

impl TokenKey {
    pub(crate) fn new(bytes: zeroize::Zeroizing<[u8; 32]>) -> Self {
        Self(aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &*bytes), bytes)
    }

    /// HMAC-SHA-256 of a token's text: the key it is stored and looked up by.
    pub(crate) fn hash(&self, token: &str) -> aws_lc_rs::hmac::Tag {
        aws_lc_rs::hmac::sign(&self.0, token.as_bytes())
    }
}

impl ClusterIdentity {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let hex: String = self.token_key.1.iter().map(|byte| format!("{byte:02x}")).collect();
        Json::object([
            ("id", self.id.as_str().into()),
            ("name", self.name.as_str().into()),
            ("token_key", hex.into()),
        ])
        .to_text()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let text = |name: &str| map.get(name).and_then(Json::as_str);
        let hex = text("token_key").filter(|hex| hex.len() == 64 && hex.is_ascii())?;
        let mut key = zeroize::Zeroizing::new([0; 32]);
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self {
            id: text("id")?.to_owned(),
            name: text("name")?.to_owned(),
            token_key: TokenKey::new(key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back_and_one_with_another_key_does_not() {
        let token_key = TokenKey::new(zeroize::Zeroizing::new([0x5a; 32]));
        let identity = ClusterIdentity { id: "i".into(), name: "n".into(), token_key };
        let text = String::from_utf8(identity.encode()).unwrap();
        let read = |text: &str| ClusterIdentity::decode(text.as_bytes());
        let back = read(&text).unwrap();
        assert_eq!((back.id.as_str(), back.name.as_str()), ("i", "n"));
        assert_eq!(back.token_key.hash("t").as_ref(), identity.token_key.hash("t").as_ref());
        let key = "5a".repeat(32);
        for wrong in ["5a".repeat(31), "5a".repeat(33), "\u{20ac}a".repeat(16), "zz".repeat(32)] {
            assert!(read(&text.replace(&key, &wrong)).is_none(), "{wrong}");
        }
    }
}
