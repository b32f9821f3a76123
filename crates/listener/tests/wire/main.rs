//! The server as a client meets it: sockets, bytes, replies.
//!
//! - [`golden`] replays exchanges recorded from a reference server and compares every reply; [`golden_pki`] those with certificates,
//!   [`golden_far_ends`] those of engines that make credentials at other servers, which [`far_ends`] and [`directory`]
//!   stand in for;
//!   [`golden_oidc`] those of identity tokens and logins by them, [`golden_ssh`] those with keys; [`replay`] is for recordings of any engine;
//! - [`frames`] speaks HTTP/2 by hand, and agrees on a version within TLS;
//! - [`hostile`] sends what no honest client sends;
//! - [`admission`] fills the server and asks whether others still get in;
//! - [`direct`] asks the same of both readers of HTTP/1.1;
//! - [`heavy`] asks what takes long, and whether others are served meanwhile;
//! - [`cut`] takes replies that fail half-way;
//! - [`follower`] asks a server that another one leads;
//! - [`forwarded`] asks through proxies;
//! - [`canaries`] is what tests share that look for secrets in what an audit device hears;
//! - [`concurrency`] lets clients race and checks what came of it;
//! - [`oidc_canaries`] looks for secrets of logins in what an audit device hears;
//! - [`oidc_provider`] logs a user in to an application;
//! - [`open_reads`] reads what anyone may, by the short way and the long way;
//! - [`pki_canaries`] looks for private keys of certificates there;
//! - [`web`] asks as the pages of a browser do;
//! - [`recover`] names loaded snapshots to recover from, in every way;
//! - [`resp`] speaks the Redis protocol, [`resp_commands`] its rarer commands, [`resp_audit`] with audit devices, [`resp_states`] when there is no answer to give;
//! - [`ssh_canaries`] looks for secrets of SSH in what an audit device hears;
//! - [`traced`] looks at the spans of requests and commands;
//! - [`support`] starts a real server in this process and speaks to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod admission;
#[expect(dead_code, reason = "the tests of the core ask more of it")]
#[path = "../../../core/tests/core/aged.rs"]
mod aged;
mod canaries;
mod concurrency;
mod cut;
mod direct;
mod directory;
mod far_ends;
mod follow;
mod follower;
mod forwarded;
mod frames;
mod golden;
mod golden_far_ends;
mod golden_oidc;
mod golden_pki;
mod golden_ssh;
mod heavy;
mod hostile;
mod oidc_canaries;
mod oidc_provider;
mod open_reads;
mod pki_canaries;
mod pki_decoded;
mod proxy_protocol;
mod recover;
mod replay;
mod resp;
mod resp_audit;
mod resp_commands;
mod resp_pipelines;
mod resp_states;
mod ssh_canaries;
mod support;
mod traced;
#[path = "../../../otlp/tests/delivery/tracer.rs"]
mod tracer;
mod web;
