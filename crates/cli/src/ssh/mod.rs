//! `ssh`: a key signed or a password made for one session, and `ssh` run with it.
//!
//! - [`ca`] has the user's public key signed, and gives `ssh` the certificate;
//! - [`otp`] has a one-time password made for the address of the host, and gives it to `sshpass`, or to the user;
//! - [`session`] runs `ssh`, and takes away what was written for it.
//!
//! Flags are those of Vault's `ssh`. What is after the host is `ssh`'s, as it is. The exit code is that of `ssh`.

mod ca;
mod otp;
mod session;

use std::path::Path;

use clap::Args;

use kallisto_command::config::{Config, Environment};
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag};
use kallisto_command::outcome::Outcome;

/// Has a key signed or a password made, and runs ssh with it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto ssh -mode=ca -role=dev ada@host.example.com\n  kallisto ssh -mode=ca -role=dev -host-key-mount-point=ssh-host ada@host.example.com uptime\n  kallisto ssh -mode=otp -role=bastion ada@10.0.0.7 -p 2222\n  kallisto ssh -mode=ca -role=dev -no-exec -field=signed_key ada@host.example.com\n\nThe exit code is that of ssh, or 1 or 2 where it was not run."
)]
pub(crate) struct Ssh {
    /// Where to log in
    #[arg(value_name = "[USER@]HOST")]
    destination: String,
    /// Options for ssh and a command for the host, as they are
    #[arg(value_name = "SSH ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// ca or otp
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// The role; with -mode=otp it may be left out where one is good for the address
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Where the engine is mounted
    #[arg(long, value_name = "PATH", default_value = "ssh/")]
    mount_point: String,
    /// Print the answer of the server and do not run ssh
    #[arg(long)]
    no_exec: bool,
    /// The program that is run [env: VAULT_SSH_EXECUTABLE] [default: ssh]
    #[arg(long, value_name = "PATH")]
    ssh_executable: Option<String>,
    /// What ssh does about keys of hosts that it does not know: yes, no, ask or accept-new [env: VAULT_SSH_STRICT_HOST_KEY_CHECKING]
    #[arg(long, value_name = "WORD")]
    strict_host_key_checking: Option<String>,
    /// The file with the keys of hosts [env: VAULT_SSH_USER_KNOWN_HOSTS_FILE]
    #[arg(long, value_name = "PATH")]
    user_known_hosts_file: Option<String>,
    #[command(flatten)]
    ca: ca::Flags,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

/// Who logs in where.
struct SshDestination {
    user: String,
    host: String,
}

impl SshDestination {
    fn parse(text: &str, environment: &Environment<'_>) -> Result<Self, Error> {
        let (user, host) = match text.rsplit_once('@') {
            Some((user, host)) => (user.to_owned(), host),
            None => {
                let user = environment.plain("USER").ok_or_else(|| {
                    Error::usage("Who logs in is not known: write USER@HOST, or set USER")
                })?;
                (user, text)
            }
        };
        // What begins with a dash is an option to ssh, wherever it stands.
        if host.is_empty() || user.is_empty() || text.starts_with('-') || host.starts_with('-') {
            return Err(Error::usage(format!("{text:?} is no destination: write USER@HOST")));
        }
        Ok(Self { user, host: host.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }
}

impl Ssh {
    /// Does it.
    pub(crate) fn run(mut self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let environment = Environment::process();
        self.complete(&environment);
        let destination = SshDestination::parse(&self.destination, &environment)?;
        if (self.common.format.format.is_some() || self.field.field.is_some()) && !self.no_exec {
            return Err(Error::usage("-field and -format can be used with -no-exec only"));
        }
        match self.mode.as_deref() {
            Some("ca") => ca::run(&self, &config, &destination, &environment),
            Some("otp") => otp::run(&self, &config, &destination),
            Some("dynamic") => {
                Err(Error::usage("-mode=dynamic is no more: take -mode=ca or -mode=otp"))
            }
            Some(other) => {
                Err(Error::usage(format!("Unknown SSH mode {other:?}: take -mode=ca or -mode=otp")))
            }
            None => Err(Error::usage("-mode is missing: take -mode=ca or -mode=otp")),
        }
    }

    /// Takes from the environment what no flag says, and puts the home directory where a path has `~`: a shell does not after a `=`.
    fn complete(&mut self, environment: &Environment<'_>) {
        for (flag, name) in [
            (&mut self.ssh_executable, "SSH_EXECUTABLE"),
            (&mut self.strict_host_key_checking, "SSH_STRICT_HOST_KEY_CHECKING"),
            (&mut self.user_known_hosts_file, "SSH_USER_KNOWN_HOSTS_FILE"),
            (&mut self.ca.host_key_mount_point, "SSH_HOST_KEY_MOUNT_POINT"),
            (&mut self.ca.host_key_hostnames, "SSH_HOST_KEY_HOSTNAMES"),
        ] {
            *flag = flag.take().or_else(|| environment.value(name));
        }
        let Some(home) = environment.plain("HOME") else { return };
        if let Some(file) = &mut self.user_known_hosts_file
            && let Some(below) = file.strip_prefix("~/")
        {
            *file = format!("{home}/{below}");
        }
        for path in [&mut self.ca.public_key_path, &mut self.ca.private_key_path] {
            let below = path.as_deref().and_then(|path| path.strip_prefix("~").ok());
            if let Some(below) = below {
                *path = Some(Path::new(&home).join(below));
            }
        }
    }

    /// Where the engine is mounted, without slashes at the ends.
    fn mount(&self) -> &str {
        self.mount_point.trim_matches('/')
    }
}
