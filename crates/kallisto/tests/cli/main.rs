//! The command line as a user meets it: the real program, run against a server of the test's own.
//!
//! - [`transcripts`] holds it to the reference, byte for byte;
//! - [`client`] tests what happens on the way: redirects, retries, tokens, hints;
//! - [`exit_codes`] tells mistakes of the call from what cannot be used;
//! - [`operator`] takes a server through its keys and its seal;
//! - [`questions`] asks for leases, versions, engines, help, completion;
//! - [`ssh`] signs a key or makes a password, and runs a program in the place of ssh;
//! - [`walk`] takes a secret through its life on our own server;
//! - [`support`] runs it and plays the server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a test may touch disk")]

mod client;
mod exit_codes;
mod kv_many;
mod operator;
#[path = "../support/ports.rs"]
mod ports;
mod questions;
mod ssh;
mod support;
mod transcripts;
mod walk;
