//! The client commands: everything a person or a script asks of a server over HTTP.
//!
//! One file per verb. A command is a clap struct with a `run` that takes a [`client::Client`] and
//! returns an [`outcome::Outcome`]; only `main` writes to the terminal. Flags, environment,
//! output layout, streams and exit codes are those of Vault's command line, so that scripts made
//! for it run unchanged; where we differ on purpose, the file that differs says why.
//!
//! - [`args`] turns `-flag` into `--flag` before clap sees it;
//! - [`config`] is the only reader of the environment;
//! - [`files`] is the only reader and writer of disk and standard input;
//! - [`client`] is the only one to open a connection;
//! - [`output`] turns answers into text.
//!
//! Exit codes: 0 done, 1 a mistake in the call, 2 the server refused or was not reached (for
//! `status`: 0 unsealed, 2 sealed, 1 anything else).

pub(crate) mod args;
pub(crate) mod audit;
pub(crate) mod auth;
mod auth_help;
pub(crate) mod client;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod delete;
pub(crate) mod duration;
pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod flags;
pub(crate) mod json;
pub(crate) mod kv;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod monitor;
mod mount_flags;
mod mounted;
pub(crate) mod namespace;
pub(crate) mod operator;
pub(crate) mod outcome;
pub(crate) mod output;
pub(crate) mod pairs;
pub(crate) mod patch;
pub(crate) mod path_help;
pub(crate) mod plugin;
pub(crate) mod policy;
pub(crate) mod print;
pub(crate) mod read;
pub(crate) mod remount;
pub(crate) mod scan;
pub(crate) mod secret;
pub(crate) mod secrets;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod unwrap;
pub(crate) mod version;
pub(crate) mod version_history;
pub(crate) mod write;
