//! Sockets and protocols: turns bytes of clients into requests to the core, and its answers into bytes.
//!
//! A [`Server`] has one listening socket and one single-threaded runtime for each worker. [`http`] or [`resp`] (the Redis
//! protocol) serves a connection. This crate limits what a client may send and how long it may take, and translates;
//! it decides nothing about secrets.
//!
//! Invariants:
//! - The accept loop ends only at shutdown. An error, such as too few file descriptors, does not end it.
//! - What a client makes the server hold is bounded, per client and in total, before any work is done for it
//!   ([`kallisto_core::admission`]). So is the time that it may take ([`limits`], `client_timeouts`).
//! - On a worker that is overloaded, clients take turns (`gate`), also with what is no request (`frame_limits`).
//! - Each error of the core becomes a status and a body in one exhaustive `match`, `http::error`.
#![forbid(unsafe_code)]

mod buffer_pool;
mod client_key;
mod client_timeouts;
mod clock;
mod frame_limits;
mod gate;
#[cfg(any(test, feature = "fuzz"))]
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
mod turn_end;
mod wake_queue;
mod warning_rate;
mod write_backpressure;

pub use clock::{SystemClock, WallClock};
pub use limits::Timeouts;
pub use proxy_protocol::ProxyProtocol;
pub use server::{Frontend, ListenSettings, Server};
pub use socket::ListenAddress;
pub use tls::{ClientAuth, ListenerTls, TlsError, TlsFiles, TlsVersions};
