//! Admission: who gets in when there is not room for all.
//!
//! Whatever a client can make the server hold (connections, handshakes, bytes of bodies and replies,
//! requests under way, logins that hash, long lists, heavy requests) is taken from a [`SharedAmount`], which is bounded as a
//! whole and leaves nobody more than their part. What waits for a processor waits in a [`FairQueue`].
//! Both know clients as a [`Flow`]: an address, and a token that this server knows. Listeners ask before
//! any work is done; `metrics` shows what is held and what was refused. Why it is done like this:
//! `docs/decisions/0098-admission.md`.
//!
//! Invariants:
//! - Nothing here waits or locks for longer than a few instructions.
//! - A flow that takes as much as it can leaves room for the next one.
//! - What operators need to see and stop a server is taken from a part that is reserved for it.

mod fair;
mod limits;
mod shares;

pub use crate::api::crowd::Crowd;
pub use crate::api::flow::Flow;
pub(crate) use crate::api::flow::network;
pub use fair::{Cost, FairQueue};
pub use limits::AdmissionLimits;
pub use shares::{Held, SharedAmount};

use std::sync::Arc;

/// What clients may make a server hold, all listeners together.
#[derive(Debug)]
pub struct Admission {
    /// Open connections.
    pub connections: Arc<SharedAmount>,
    /// TLS handshakes between a client's first message and its last.
    pub handshakes: Arc<SharedAmount>,
    /// Bytes of request bodies, and of commands of the Redis protocol.
    pub body_bytes: Arc<SharedAmount>,
    /// Bytes of large replies that clients have not taken yet.
    pub reply_bytes: Arc<SharedAmount>,
    /// Requests that wait for their turn, for the disk, or for another server.
    pub requests: Arc<SharedAmount>,
    /// Logins and changes of passwords that wait for a hashing thread.
    pub hashes: Arc<SharedAmount>,
    /// Lists that are too long to be made in one go.
    pub lists: Arc<SharedAmount>,
    /// Requests that wait for a view that is recent enough.
    pub behind: Arc<SharedAmount>,
    /// The same of tokens that this server does not know.
    pub strangers: Arc<SharedAmount>,
    /// Requests that are answered beside the workers ([`crate::Core::offload`]).
    pub computations: Arc<SharedAmount>,
}

impl Admission {
    /// Nothing held yet, within these limits.
    pub fn new(limits: &AdmissionLimits) -> Self {
        let shares = |max, reserve| Arc::new(SharedAmount::new(max, reserve));
        Self {
            connections: shares(limits.connections_max, limits.connections_reserved),
            handshakes: shares(limits.handshakes_max, 0),
            body_bytes: shares(limits.body_bytes_max, 0),
            reply_bytes: shares(limits.reply_bytes_max, 0),
            requests: shares(limits.requests_max, limits.requests_reserved),
            hashes: shares(limits.hashes_max, 0),
            lists: shares(limits.lists_max, 0),
            behind: shares(limits.behind_max, 0),
            strangers: shares(limits.strangers_max, 0),
            computations: shares(limits.computations_max, 0),
        }
    }

    /// Every share by the name that metrics give it.
    pub(crate) fn all(&self) -> [(&'static str, &SharedAmount); 10] {
        [
            ("connections", &self.connections),
            ("handshakes", &self.handshakes),
            ("body_bytes", &self.body_bytes),
            ("reply_bytes", &self.reply_bytes),
            ("requests", &self.requests),
            ("hashes", &self.hashes),
            ("lists", &self.lists),
            ("behind", &self.behind),
            ("strangers", &self.strangers),
            ("computations", &self.computations),
        ]
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self::new(&AdmissionLimits::default())
    }
}
