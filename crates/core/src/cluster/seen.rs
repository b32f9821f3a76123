//! What a client has seen: a cluster and a place in its order of writes, as `X-Vault-Index` carries them.
//!
//! A write is answered with it; a read that shows it again is answered only from a state that holds that write. It is
//! base64 of `{"cluster":"<id>","value":"<index>"}`.

use data_encoding::BASE64;

use crate::api::json::{self, Json};

/// Longest text of one, in bytes.
const TEXT_BYTES_MAX: usize = 512;

/// A place in a cluster's order of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenIndex {
    /// The cluster's id.
    pub cluster: String,
    /// Everything up to there was seen.
    pub index: u64,
}

impl SeenIndex {
    /// As it travels.
    pub fn encode(&self) -> String {
        // Written piece by piece: every write is answered with one, and a tree of it is a dozen allocations.
        let mut text = b"{\"cluster\":".to_vec();
        json::write_string(&self.cluster, &mut text);
        text.extend_from_slice(b",\"value\":\"");
        json::write_u64(self.index, &mut text);
        text.extend_from_slice(b"\"}");
        BASE64.encode(&text)
    }

    /// What [`SeenIndex::encode`] made; `None` for anything else.
    pub fn decode(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let map = json::parse_object(&BASE64.decode(text.trim().as_bytes()).ok()?).ok()?;
        let field = |name: &str| map.get(name).and_then(Json::as_str);
        Some(Self { cluster: field("cluster")?.to_owned(), index: field("value")?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_comes_back_and_other_texts_do_not() {
        let seen = SeenIndex { cluster: "c".into(), index: u64::MAX };
        assert_eq!(SeenIndex::decode(&seen.encode()), Some(seen));
        for junk in ["", "x", "e30=", "eyJjbHVzdGVyIjoiYyIsInZhbHVlIjoiLTEifQ=="] {
            assert_eq!(SeenIndex::decode(junk), None, "{junk}");
        }
        assert_eq!(SeenIndex::decode(&"A".repeat(TEXT_BYTES_MAX + 4)), None);
    }
}
