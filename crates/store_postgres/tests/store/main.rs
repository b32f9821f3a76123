//! The store on a real PostgreSQL, over a wire with faults: what is refused and how, who writes, who follows, and what comes of
//! commits that are cut off.
//!
//! Where PostgreSQL is not installed each test says so and is none. Several stores in one process are several servers: they share
//! nothing but the database ([`site`]).

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a test may touch disk and ask for the time")]
#![expect(clippy::print_stdout, reason = "what is skipped is for people")]

mod encrypted;
mod followers;
mod opening;
mod pooled;
#[path = "../../../kallisto/tests/support/ports.rs"]
mod ports;
mod postgres;
mod probing;
mod proxy;
mod site;
mod standby;
mod writers;
