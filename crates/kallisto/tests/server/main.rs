//! The durable server as an operator meets it: the real program, over sockets, files and signals.
//!
//! - [`kill`] ends it with SIGKILL under writers and asks for everything that was acknowledged;
//! - [`restart`] starts and stops it in every way, with good and bad configurations;
//! - [`tls`] changes certificates while it serves and tries who may connect;
//! - [`auto_unseal`] opens it without people, and refuses the wrong key;
//! - [`seal_upkeep`] has it look after a transit seal's token and key;
//! - [`damage`] starts it on files that were damaged;
//! - [`canary`] sends secrets everywhere and looks for them where they do not belong;
//! - [`restore`] restores what was saved before a rekey, and tries which shares count;
//! - [`raft_routes`] asks every route of its storage that the OpenAPI document has;
//! - [`rest`] looks for planted secrets in its files and in its memory;
//! - [`dev`] starts one for development, with and without a configuration;
//! - [`diagnose`] is asked before a start, and beside a running server;
//! - [`join`] has a new one connect where it should not;
//! - [`joining`] interrupts one that joins, by itself, in the middle;
//! - [`oidc`] logs in through a browser, at a provider that lies;
//! - [`self_init`] starts it on empty storage with a configuration that says what it shall hold;
//! - [`pair`] has two of them make a cluster, and takes one away;
//! - [`moved`] gives a member of two other addresses and names;
//! - [`durability`] switches modes while it runs;
//! - [`traces`] has it send spans of its requests to a collector that records;
//! - [`scale`] fills it with a little of everything, as `bench scale` does;
//! - [`support`] starts it, speaks to it, and ends it.
//!
//! Every wait is bounded, every port is the system's choice, every process is ended by its id.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "a test may touch disk and ask for the time")]
#![expect(clippy::print_stdout, reason = "what was skipped and what was counted is for people")]

mod auto_unseal;
mod canary;
#[path = "../../../otlp/tests/delivery/collector.rs"]
#[expect(dead_code, reason = "what an exporter meets by itself is tried with the exporter")]
mod collector;
mod damage;
mod dev;
mod diagnose;
mod durability;
mod golden;
mod join;
mod joining;
mod kill;
mod moved;
mod oidc;
mod pair;
#[path = "../support/ports.rs"]
mod ports;
mod raft_routes;
mod rest;
mod restart;
mod restore;
mod scale;
mod seal_upkeep;
mod self_init;
mod support;
mod tls;
mod traces;
