//! Sockets and wire forms: bytes in, core requests; core responses, bytes out.
//!
//! [`Server`] owns one listening socket and one single-threaded runtime per worker; every
//! connection is served by [`http`] or [`resp`]. This crate bounds what a client may send and for how long it
//! may take, translates, and decides nothing about secrets.
//!
//! Invariants:
//! - The accept loop ends only at shutdown, never on an error: running out of descriptors must not stop a server.
//! - What a client makes us hold is bounded, by itself and over all, before any work is done for it
//!   ([`kallisto_core::admission`]), and so is the time it may take ([`limits`], `client_timeouts`).
//! - On a worker that cannot keep up clients take turns (`gate`).
//! - Every core error has its wire form in one exhaustive `match`, `http::error`.
#![forbid(unsafe_code)]

mod buffer_pool;
mod client_key;
mod client_timeouts;
mod clock;
mod gate;
pub mod hostile;
pub mod http;
mod http_without_tls;
pub mod limits;
mod linger;
mod pass_writes;
mod pending_replies;
mod prefixed_stream;
mod proxy_protocol;
pub mod resp;
mod server;
mod socket;
mod stop;
mod tls;
mod wake_queue;
mod write_backpressure;

pub use clock::{SystemClock, WallClock};
pub use limits::Timeouts;
pub use proxy_protocol::ProxyProtocol;
pub use server::{Frontend, ListenSettings, Server};
pub use socket::ListenAddress;
pub use tls::{ClientAuth, ListenerTls, TlsError, TlsFiles, TlsVersions};
