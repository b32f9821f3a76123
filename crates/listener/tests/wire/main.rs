//! The server as a client meets it: sockets, bytes, replies.
//!
//! - [`golden`] replays exchanges recorded from a reference server and compares every reply;
//! - [`hostile`] sends what no honest client sends;
//! - [`admission`] fills the server and asks whether others still get in;
//! - [`direct`] asks the same of both readers of HTTP/1.1;
//! - [`concurrency`] lets clients race and checks what came of it;
//! - [`web`] asks as the pages of a browser do;
//! - [`support`] starts a real server in this process and speaks to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admission;
mod concurrency;
mod direct;
mod follow;
mod golden;
mod hostile;
mod resp;
mod support;
mod web;
