//! What joining servers and leaders say to each other, as bytes and JSON.

use kallisto_store::Peer;

use crate::api::json::Json;

/// What a challenge's tag is for.
pub(crate) const CHALLENGE: &[u8] = b"cluster/challenge/v1";

/// What an answer's tag is for.
pub(crate) const ANSWER: &[u8] = b"cluster/answer/v1";

/// What a welcome's tag is for.
pub(crate) const WELCOME: &[u8] = b"cluster/welcome/v1";

/// What the number of a server is made for.
pub(crate) const NUMBER: &[u8] = b"cluster/number/v1";

/// The bytes that a tag covers: each part with its length, so that no two lists of parts read the same.
pub(crate) fn covered(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

/// A list of peers as JSON.
pub(crate) fn peers_to_json(peers: &[Peer]) -> Json {
    let one = |peer: &Peer| {
        Json::object([
            ("id", format!("{:016x}", peer.id).into()),
            ("name", peer.name.as_str().into()),
            ("cluster_address", peer.cluster_address.as_str().into()),
            ("api_address", peer.api_address.as_str().into()),
        ])
    };
    Json::Array(peers.iter().map(one).collect())
}

pub(crate) fn peers_from_json(json: &Json) -> Option<Vec<Peer>> {
    let Json::Array(peers) = json else { return None };
    let one = |json: &Json| {
        let Json::Object(map) = json else { return None };
        let text = |name: &str| map.get(name).and_then(Json::as_str).map(str::to_owned);
        Some(Peer {
            id: u64::from_str_radix(&text("id")?, 16).ok()?,
            name: text("name")?,
            cluster_address: text("cluster_address")?,
            api_address: text("api_address")?,
            ..Peer::default()
        })
    };
    peers.iter().map(one).collect()
}
