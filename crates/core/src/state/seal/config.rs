//! The record of the seal: its scheme and the wrapped root key.

use data_encoding::HEXLOWER;

use crate::api::json::{self, Json, Map};

/// How the unseal key is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SealScheme {
    /// In shares, by people.
    Shamir,
    /// Wrapped by something that gives it back without people.
    Auto {
        /// The name of what wraps it, such as `static`.
        name: String,
        /// The unseal key as that wraps it.
        wrapped: Vec<u8>,
        /// A throw-away key wrapped under the recovery key: proves recovery shares, opens nothing.
        proof: Vec<u8>,
    },
}

/// How the root key is wrapped, and by whom it is unwrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealConfig {
    /// How the unseal key is kept.
    pub(crate) scheme: SealScheme,
    /// Shares there are; recovery shares where the unseal key is not shared out.
    pub(crate) shares: u8,
    /// Shares that are enough.
    pub(crate) threshold: u8,
    /// The root key, wrapped under the unseal key.
    pub(crate) root: Vec<u8>,
}

impl SealConfig {
    /// The name clients know the scheme by.
    pub(crate) fn name(&self) -> &str {
        match &self.scheme {
            SealScheme::Shamir => "shamir",
            SealScheme::Auto { name, .. } => name,
        }
    }

    /// The wrapped key that the shares prove themselves on.
    pub(crate) fn proof(&self) -> &[u8] {
        match &self.scheme {
            SealScheme::Shamir => &self.root,
            SealScheme::Auto { proof, .. } => proof,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let hex = |bytes: &[u8]| Json::from(HEXLOWER.encode(bytes));
        let mut map: Map = [
            ("type".to_owned(), Json::from(self.name())),
            ("shares".to_owned(), u64::from(self.shares).into()),
            ("threshold".to_owned(), u64::from(self.threshold).into()),
            ("root".to_owned(), hex(&self.root)),
        ]
        .into_iter()
        .collect();
        if let SealScheme::Auto { wrapped, proof, .. } = &self.scheme {
            map.insert("wrapped".into(), hex(wrapped));
            map.insert("proof".into(), hex(proof));
        }
        Json::Object(map).to_text()
    }

    /// Reads the record back; `None` when the bytes are no seal configuration.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let hex = |name: &str| HEXLOWER.decode(map.get(name)?.as_str()?.as_bytes()).ok();
        let count = |name: &str| match map.get(name)? {
            Json::Number(text) => text.parse().ok(),
            _ => None,
        };
        let scheme = match map.get("type")?.as_str()? {
            "shamir" => SealScheme::Shamir,
            name => SealScheme::Auto {
                name: name.to_owned(),
                wrapped: hex("wrapped")?,
                proof: hex("proof")?,
            },
        };
        Some(Self {
            scheme,
            shares: count("shares")?,
            threshold: count("threshold")?,
            root: hex("root")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_read_back() {
        let auto = SealScheme::Auto { name: "static".into(), wrapped: vec![1, 2], proof: vec![3] };
        for scheme in [SealScheme::Shamir, auto] {
            let config = SealConfig { scheme, shares: 5, threshold: 3, root: vec![0xab; 40] };
            assert_eq!(SealConfig::decode(&config.encode()), Some(config));
        }
        assert_eq!(SealConfig::decode(b"{}"), None);
        assert_eq!(
            SealConfig::decode(br#"{"type":"shamir","shares":300,"threshold":1,"root":""}"#),
            None
        );
    }
}
