//! A cluster as the core sees it: how servers join, who leads, what belongs to the leader.
//!
//! The store replicates by itself, sealed or not, and what it replicates is ciphertext. What the core adds:
//! - [`admit()`] takes a server in that proves to hold the unseal key, and issues its certificate;
//! - [`join`] is the other side of that;
//! - [`leading`] says which requests only the leader may answer; the listener relays those.
//!
//! Certificates and connections are the cluster port's matter ([`ClusterPort`](crate::platform::cluster_port::ClusterPort), which the binary implements). The
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
mod join;
pub(crate) mod leading;
pub(crate) mod observe;
mod protocol;
pub(crate) mod quorum;
pub(crate) mod removed;
pub(crate) mod report;
mod seen;
mod token;

pub(crate) use admit::{
    admit, challenge, change, check_own_records, keep_identity, rotate_certificate,
};
pub(crate) use join::{unsent, without_seal};
pub use seen::SeenIndex;
#[cfg(test)]
pub(crate) use token::join_token_record;
pub(crate) use token::{
    JOIN_TOKEN, end_join_tokens, forget_join_token, make_join_token, read_admission,
    write_admission,
};
