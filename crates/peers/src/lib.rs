//! The cluster port: mutual TLS between the servers of a cluster, frames, and what they carry.
//!
//! A [`Port`] listens for peers and dials them. It carries three things on connections of their own ("lanes"), so that none
//! waits behind another: Raft's messages, snapshots, and requests that one server relays to another. To all of them it is
//! a carrier of bytes: `kallisto-store` knows what a message is, the listener what a request is.
//!
//! Who may speak: certificates are issued by an authority that the cluster made for itself ([`ClusterAuthority`]), one for each
//! server, naming its number and the store. A server is heard if its certificate says the number that it claims *and* that
//! number is a member: who was removed is not heard any more, whatever it holds.
//!
//! Invariants:
//! - every frame, queue and connection count has a limit in [`limits`]; a frame over it ends the connection;
//! - nothing here waits for a peer on the caller's thread;
//! - messages are dropped when a queue is full (Raft expects loss); requests are refused, which says they were not sent.
#![forbid(unsafe_code)]

mod announce;
mod frame;
mod identity;
mod inquiry;
pub mod limits;
mod link;
mod openings;
mod port;
mod reach;
mod relay;
mod serve;
mod socket;

#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz {
    //! The body of the fuzz target: what a peer sends, as any bytes.
    pub use crate::frame::parse_hostile as frames;
}
pub use identity::{ClusterAuthority, NodeKey, PeerIdentity, PortError};
pub use port::{Port, Upper};
pub use relay::{Answering, Unanswered};
