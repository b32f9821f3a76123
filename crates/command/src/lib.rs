//! What every command of `kallisto` shares, whatever it does.
//!
//! - [`config`] is the only reader of the environment;
//! - [`files`] is the only reader and writer of disk and standard input for commands;
//! - [`client`] is the only one to open a connection to a server;
//! - [`outcome`] is what a command leaves behind, [`error`] why it failed;
//! - [`output`] turns answers into text.
//!
//! The command line (`kallisto-cli`), the server's process (`kallisto-server`, a client of other servers where it joins a
//! cluster or unseals itself by one), the load generator and the offline commands stand on it; it knows none of them.
//!
//! Exit codes: 0 done, 1 a wrong argument or flag, 2 what the command works with cannot be used: settings, a file, or the
//! server, which refused or was not reached. [`error`] has the rule.

#![forbid(unsafe_code)]

pub mod client;
pub mod config;
pub mod duration;
pub mod error;
pub mod files;
pub mod flags;
pub mod json;
pub mod outcome;
pub mod output;
pub mod secret;

/// What this build of the HTTP API calls itself: clients made for Vault parse it and turn
/// features on by it, so it follows Vault's numbers and not those of this crate.
pub const VAULT_API_VERSION: &str = "1.18.3";
