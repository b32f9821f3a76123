//! A cluster as the core sees it: how servers join, who leads, what belongs to the leader.
//!
//! The store replicates by itself, sealed or not, and what it replicates is ciphertext. What the core adds:
//! - [`admit()`] takes a server in that proves to hold the unseal key, and issues its certificate;
//! - [`join`] is the other side of that;
//! - [`leading`] says which requests only the leader may answer; the listener relays those.
//!
//! Certificates and connections are the cluster port's matter ([`ClusterPort`], which the binary implements). The
//! cluster's authority is a record behind the barrier, made by the first leader that needs it.
//!
//! ```text
//! joiner                                            leader
//!   challenge?                        ------->
//!             <-------   challenge (time, nonce, tag), seal configuration
//!   unwraps the root key with the unseal key, from shares or from the seal
//!   answer: challenge, description, public key, and a tag over them under the root key
//!                                     ------->      checks both tags; takes the joiner in as a learner
//!             <-------   number, store, certificate, authority, peers, and a tag over them
//! ```
//!
//! No key goes over the wire in either direction, and neither side trusts the transport: what each says is bound to the
//! root key, which only the unseal key opens.

mod admit;
mod attempts;
mod join;
pub(crate) mod leading;
pub(crate) mod quorum;
pub(crate) mod removed;
mod seen;
mod token;
pub(crate) mod watch;

use kallisto_store::Peer;
use zeroize::Zeroizing;

pub(crate) use admit::{admit, challenge, change, ensure_identity, rotate_certificate};
pub(crate) use join::Joining;
pub use join::{JoinOrigin, JoinTarget};
pub use seen::Seen;
#[cfg(test)]
pub(crate) use token::join_token_record;
pub(crate) use token::{
    JOIN_TOKEN, end_join_tokens, forget_join_token, make_join_token, read_admission,
    write_admission,
};

use crate::api::json::Json;

/// What a challenge's tag is for.
const CHALLENGE: &[u8] = b"cluster/challenge/v1";
/// What an answer's tag is for.
const ANSWER: &[u8] = b"cluster/answer/v1";
/// What a welcome's tag is for.
const WELCOME: &[u8] = b"cluster/welcome/v1";

/// The cluster's authority: its certificate, and its private key.
pub struct AuthorityKeys {
    /// The certificate, DER.
    pub certificate: Vec<u8>,
    /// The private key, PKCS #8.
    pub key: Zeroizing<Vec<u8>>,
}

/// Who this server is to its peers, once the cluster says so.
#[derive(Debug)]
pub struct Membership {
    /// Its number.
    pub node_id: u64,
    /// Which store the cluster keeps.
    pub store_id: [u8; 16],
    /// This server's certificate, DER, for the public key it gave.
    pub certificate: Vec<u8>,
    /// The authority's certificate, DER.
    pub authority: Vec<u8>,
}

/// The cluster port, and the errands outside that joining needs. Nothing here runs on a listener's thread, except what is
/// said to be quick.
pub trait ClusterPort: Send + Sync {
    /// Whether this server has a certificate. Quick.
    fn has_identity(&self) -> bool;

    /// This server as it wants to be known; its number is not looked at. Quick.
    fn own(&self) -> Peer;

    /// The public half of this server's key, which is made if there is none.
    ///
    /// # Errors
    /// What went wrong, without the key.
    fn public_key(&self) -> Result<Vec<u8>, String>;

    /// Keeps who this server is, and takes it into use.
    ///
    /// # Errors
    /// What went wrong.
    fn install(&self, membership: &Membership) -> Result<(), String>;

    /// The certificate of the authority that this server's own is of. Quick.
    fn authority(&self) -> Option<Vec<u8>>;

    /// Takes a new key into use, with what `issue` says of its public half. What breaks off leaves the old one or the new.
    ///
    /// # Errors
    /// What went wrong.
    fn renew(&self, issue: &dyn Fn(&[u8]) -> Result<Membership, String>) -> Result<(), String>;

    /// Makes an authority.
    ///
    /// # Errors
    /// What went wrong.
    fn make_authority(&self) -> Result<AuthorityKeys, String>;

    /// Issues a certificate.
    ///
    /// # Errors
    /// What went wrong.
    fn issue(
        &self,
        authority: &AuthorityKeys,
        node_id: u64,
        store_id: &[u8; 16],
        public_key: &[u8],
    ) -> Result<Vec<u8>, String>;

    /// Sends a request without a token to another server's API and gives the `data` of its answer. Where a request said
    /// whom to ask, it goes to servers only: no other scheme, path or address than one of those can have.
    ///
    /// # Errors
    /// What went wrong.
    fn ask(&self, target: &JoinTarget, path: &str, body: &Json) -> Result<Json, String>;
}

/// The bytes that a tag covers: each part with its length, so that no two lists of parts read the same.
fn covered(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        out.extend_from_slice(&(part.len() as u64).to_le_bytes());
        out.extend_from_slice(part);
    }
    out
}

/// A list of peers as JSON.
fn peers_to_json(peers: &[Peer]) -> Json {
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

fn peers_from_json(json: &Json) -> Option<Vec<Peer>> {
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
