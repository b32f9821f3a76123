//! The client commands: everything a person or a script asks of a server over HTTP.
//!
//! One file per verb. A command is a clap struct with a `run` that takes a [`kallisto_command::client::Client`] and
//! returns an [`kallisto_command::outcome::Outcome`]; only `main` writes to the terminal. Flags, environment,
//! output layout, streams and exit codes are those of Vault's command line, so that scripts made
//! for it run unchanged; where we differ on purpose, the file that differs says why.
//!
//! Exit codes: 0 done, 1 a wrong argument or flag, 2 what the command works with cannot be used: settings, a file, or the
//! server, which refused or was not reached. `kallisto_command::error` has the rule.

#![forbid(unsafe_code)]

mod audit;
mod auth;
mod auth_help;
pub mod completion;
mod delete;
mod kv;
mod lease;
mod list;
mod login;
mod login_kind;
mod login_mfa;
pub mod man;
mod migrate;
mod monitor;
mod mount_flags;
mod mounted;
mod namespace;
mod oidc_login;
mod operator;
mod pairs;
mod patch;
mod path_help;
mod pki;
mod plugin;
mod policy;
mod policy_format;
mod print;
mod progress;
mod read;
mod recover;
mod remount;
mod scan;
mod secrets;
mod ssh;
mod status;
mod token;
mod transit;
mod unwrap;
pub mod version;
mod version_history;
mod wrapped_key;
mod write;

use clap::{ArgMatches, FromArgMatches, Subcommand};
use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// A command that asks a server.
#[derive(Debug)]
pub struct ClientCommand(Box<Verb>);

/// The verbs.
#[derive(Subcommand, Debug)]
enum Verb {
    /// Store, read and version secrets
    #[command(subcommand, arg_required_else_help = true)]
    Kv(kv::Kv),
    /// Read data and secrets at a path
    Read(read::Read),
    /// Take secrets out of a loaded snapshot
    Recover(recover::Recover),
    /// Write data, configuration and secrets at a path
    Write(write::Write),
    /// Delete what is at a path
    Delete(delete::Delete),
    /// List what is below a path
    List(list::List),
    /// List everything below a path
    Scan(scan::Scan),
    /// Change some fields of what is at a path
    Patch(patch::Patch),
    /// Have a key signed or a password made, and run ssh with it
    Ssh(Box<ssh::Ssh>),
    /// Print what a path is for
    PathHelp(path_help::PathHelp),
    /// Print whether the server is sealed, and who leads
    Status(status::Status),
    /// Log in and keep the token for later commands
    Login(login::Login),
    /// Enable audit devices, and check what they wrote
    #[command(subcommand, arg_required_else_help = true)]
    Audit(audit::Audit),
    /// Mount and unmount login methods
    #[command(subcommand, arg_required_else_help = true)]
    Auth(auth::Auth),
    /// Make and delete namespaces
    #[command(subcommand, arg_required_else_help = true)]
    Namespace(namespace::Namespace),
    /// Write, read and list policies
    #[command(subcommand, arg_required_else_help = true)]
    Policy(policy::Policy),
    /// Mount and unmount secrets engines
    #[command(subcommand, arg_required_else_help = true)]
    Secrets(secrets::Secrets),
    /// Make tokens, ask about them, and end them
    #[command(subcommand, arg_required_else_help = true)]
    Token(token::Token),
    /// Bring keys of one's own to a transit mount
    #[command(subcommand, arg_required_else_help = true)]
    Transit(transit::Transit),
    /// Take a wrapped answer out of its single-use token
    Unwrap(unwrap::Unwrap),
    /// Ask about leases, renew them, and end them
    #[command(subcommand, arg_required_else_help = true)]
    Lease(lease::Lease),
    /// Look at certificate authorities, relate them, and make intermediate ones
    #[command(subcommand, arg_required_else_help = true)]
    Pki(pki::Pki),
    /// Print the engines that a server has
    #[command(subcommand, arg_required_else_help = true)]
    Plugin(plugin::Plugin),
    /// Move everything from a Vault, an OpenBao or another Kallisto to a server
    Migrate(Box<migrate::Migrate>),
    /// Follow the log of a server
    Monitor(monitor::Monitor),
    /// Print the versions that served the server's storage
    VersionHistory(version_history::VersionHistory),
    /// Print what commands will use
    #[command(subcommand, arg_required_else_help = true)]
    Print(print::Print),
}

impl ClientCommand {
    /// Does it.
    ///
    /// # Errors
    /// What was wrong with the call, or what the server said.
    pub fn run(self) -> Result<Outcome, Error> {
        match *self.0 {
            Verb::Kv(kv) => kv.run(),
            Verb::Read(read) => read.run(),
            Verb::Recover(recover) => recover.run(),
            Verb::Write(write) => write.run(),
            Verb::Delete(delete) => delete.run(),
            Verb::List(list) => list.run(),
            Verb::Scan(scan) => scan.run(),
            Verb::Patch(patch) => patch.run(),
            Verb::Ssh(ssh) => ssh.run(),
            Verb::PathHelp(path_help) => path_help.run(),
            Verb::Status(status) => status.run(),
            Verb::Login(login) => login.run(),
            Verb::Audit(audit) => audit.run(),
            Verb::Auth(auth) => auth.run(),
            Verb::Namespace(namespace) => namespace.run(),
            Verb::Policy(policy) => policy.run(),
            Verb::Secrets(secrets) => secrets.run(),
            Verb::Token(token) => token.run(),
            Verb::Transit(transit) => transit.run(),
            Verb::Unwrap(unwrap) => unwrap.run(),
            Verb::Lease(lease) => lease.run(),
            Verb::Pki(pki) => pki.run(),
            Verb::Plugin(plugin) => plugin.run(),
            Verb::Migrate(migrate) => migrate.run(),
            Verb::Monitor(monitor) => monitor.run(),
            Verb::VersionHistory(history) => history.run(),
            Verb::Print(print) => print.run(),
        }
    }
}

/// The verbs of `operator` that ask a server.
#[derive(Debug)]
pub struct OperatorCommand(Box<operator::Operator>);

impl OperatorCommand {
    /// Does it.
    ///
    /// # Errors
    /// What was wrong with the call, or what the server said.
    pub fn run(self) -> Result<Outcome, Error> {
        self.0.run()
    }
}

/// The verbs of `operator raft` that ask a server.
#[derive(Debug)]
pub struct RaftCommand(Box<operator::raft::Raft>);

impl RaftCommand {
    /// Does it.
    ///
    /// # Errors
    /// What was wrong with the call, or what the server said.
    pub fn run(self) -> Result<Outcome, Error> {
        self.0.run()
    }
}

/// The verbs of `operator raft snapshot` that ask a server.
#[derive(Debug)]
pub struct SnapshotCommand(Box<operator::snapshot::Snapshot>);

impl SnapshotCommand {
    /// Does it.
    ///
    /// # Errors
    /// What was wrong with the call, or what the server said.
    pub fn run(self) -> Result<Outcome, Error> {
        self.0.run()
    }
}

/// Makes a public name of a set of verbs, so that what they are made of stays private.
macro_rules! verbs_of {
    ($name:ident, $verbs:ty) => {
        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                <$verbs>::from_arg_matches(matches).map(|verbs| Self(Box::new(verbs)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                self.0.update_from_arg_matches(matches)
            }
        }

        impl Subcommand for $name {
            fn augment_subcommands(command: clap::Command) -> clap::Command {
                <$verbs>::augment_subcommands(command)
            }

            fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
                <$verbs>::augment_subcommands_for_update(command)
            }

            fn has_subcommand(name: &str) -> bool {
                <$verbs>::has_subcommand(name)
            }
        }
    };
}

verbs_of!(ClientCommand, Verb);
verbs_of!(OperatorCommand, operator::Operator);
verbs_of!(RaftCommand, operator::raft::Raft);
verbs_of!(SnapshotCommand, operator::snapshot::Snapshot);
