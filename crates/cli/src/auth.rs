//! `auth`: where login methods are mounted.

use clap::{Args, Subcommand};

use super::auth_help::Help;
use super::mount_flags::{MountFlags, NewMountFlags};
use super::mounted::{self, cell};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, parse_duration};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;

/// What can be done with login methods.
#[derive(Subcommand, Debug)]
pub(crate) enum Auth {
    /// Print the login methods
    List(List),
    /// Mount a login method
    Enable(Enable),
    /// Unmount a login method and end the tokens it made
    Disable(Disable),
    /// Change how a login method behaves
    Tune(Tune),
    /// Move a login method to another path
    Move(Move),
    /// Print how to log in by a method
    Help(Help),
}

impl Auth {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::List(list) => list.run(),
            Self::Enable(enable) => enable.run(),
            Self::Disable(disable) => disable.run(),
            Self::Tune(tune) => tune.run(),
            Self::Move(moving) => moving.run(),
            Self::Help(help) => help.run(),
        }
    }
}

/// Prints the login methods.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto auth list\n  kallisto auth list -detailed")]
pub(crate) struct List {
    /// Print lifetimes and kinds of tokens too
    #[arg(long)]
    detailed: bool,
    #[command(flatten)]
    common: CommonFlags,
}

impl List {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let data = mounted::read_all(&config, "sys/auth", "Error listing enabled authentications")?;
        let mut heads = mounted::MOUNT_HEADS.to_vec();
        if self.detailed {
            heads.extend(["Default TTL", "Max TTL", "Token Type", "UUID"]);
        }
        mounted::print_all(&config, &data, &heads, |path, mount| self.row(path, mount))
    }

    fn row(&self, path: &str, mount: &Map) -> Option<Vec<String>> {
        let mut row = mounted::mount_row(path, mount);
        if self.detailed {
            let settings = mount.get("config")?.as_object()?;
            row.extend(mounted::lifetimes(settings));
            row.extend([cell(settings, "token_type"), cell(mount, "uuid")]);
        }
        Some(row)
    }
}

/// How a login method behaves.
#[derive(Args, Debug)]
struct MethodSettings {
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Lifetime of its tokens, e.g. 1h
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = parse_duration)]
    default_lease_ttl: Option<String>,
    /// Longest lifetime of its tokens
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = parse_duration)]
    max_lease_ttl: Option<String>,
    /// Who is told of it: hidden or unauth
    #[arg(long, value_name = "WHO")]
    listing_visibility: Option<String>,
    /// What kind of tokens: default-service, default-batch, service or batch
    #[arg(long, value_name = "KIND")]
    token_type: Option<String>,
    #[command(flatten)]
    flags: MountFlags,
}

impl MethodSettings {
    /// What is given, but for the description and the options.
    fn given(&self) -> Map {
        let mut given = mounted::given(&[
            ("default_lease_ttl", &self.default_lease_ttl),
            ("max_lease_ttl", &self.max_lease_ttl),
            ("listing_visibility", &self.listing_visibility),
            ("token_type", &self.token_type),
        ]);
        self.flags.add_settings(&mut given);
        given
    }
}

/// Mounts a login method.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto auth enable userpass\n  kallisto auth enable -path=machines approle"
)]
pub(crate) struct Enable {
    /// Its kind: approle, cert, github, jwt, kubernetes, ldap, oidc, okta or userpass
    kind: String,
    /// Where; the kind's name when absent
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    #[command(flatten)]
    settings: MethodSettings,
    #[command(flatten)]
    new: NewMountFlags,
    #[command(flatten)]
    common: CommonFlags,
}

impl Enable {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = self.path.as_deref().unwrap_or(&self.kind).trim_matches('/').to_owned();
        let mut body = Map::from([("type".to_owned(), Json::from(self.kind.as_str()))]);
        if let Some(text) = &self.settings.description {
            body.insert("description".into(), text.as_str().into());
        }
        self.new.add(&mut body);
        self.settings.flags.add_options(&mut body, None)?;
        let settings = self.settings.given();
        if !settings.is_empty() {
            body.insert("config".into(), Json::Object(settings));
        }
        let doing = format!("Error enabling {} auth", self.kind);
        let done = format!("Success! Enabled {} auth method at: {path}/", self.kind);
        mounted::put(&config, &format!("sys/auth/{path}"), body, doing, &done)
    }
}

/// Unmounts a login method and ends the tokens it made.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto auth disable userpass/")]
pub(crate) struct Disable {
    /// Where it is mounted
    path: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Disable {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = self.path.trim_matches('/');
        let done = format!("Success! Disabled the auth method (if it existed) at: {path}/");
        mounted::remove(&config, &format!("sys/auth/{path}"), "Error disabling auth method", &done)
    }
}

/// Changes how a login method behaves.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto auth tune -user-lockout-threshold=3 userpass/")]
pub(crate) struct Tune {
    /// Where it is mounted
    path: String,
    /// Wrong passwords until a name is locked out
    #[arg(long, value_name = "NUMBER")]
    user_lockout_threshold: Option<u32>,
    /// For how long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    user_lockout_duration: Option<String>,
    /// After how long without one the count begins anew
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    user_lockout_counter_reset_duration: Option<String>,
    /// Whether names are never locked out
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    user_lockout_disable: Option<bool>,
    #[command(flatten)]
    settings: MethodSettings,
    #[command(flatten)]
    common: CommonFlags,
}

impl Tune {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let mut body = self.settings.given();
        self.settings.flags.add_options(&mut body, None)?;
        if let Some(text) = &self.settings.description {
            body.insert("description".into(), text.as_str().into());
        }
        let threshold = self.user_lockout_threshold.map(|number| number.to_string());
        let disable = self.user_lockout_disable.map(|disable| disable.to_string());
        let lockout = mounted::given(&[
            ("lockout_threshold", &threshold),
            ("lockout_duration", &self.user_lockout_duration),
            ("lockout_counter_reset_duration", &self.user_lockout_counter_reset_duration),
            ("lockout_disable", &disable),
        ]);
        if !lockout.is_empty() {
            body.insert("user_lockout_config".into(), Json::Object(lockout));
        }
        let path = self.path.trim_matches('/');
        let doing = format!("Error tuning auth method {path}/");
        let done = format!("Success! Tuned the auth method at: {path}/");
        mounted::put(&config, &format!("sys/mounts/auth/{path}/tune"), body, doing, &done)
    }
}

/// Moves a login method to another path.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto auth move auth/userpass/ auth/people/")]
pub(crate) struct Move {
    /// Where it is mounted, with its auth/
    from: String,
    /// Where it shall be, with its auth/
    to: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Move {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let whole = |path: &str| format!("{}/", path.trim_matches('/'));
        let (from, to) = (whole(&self.from), whole(&self.to));
        let body = Map::from([
            ("from".to_owned(), Json::from(from.as_str())),
            ("to".to_owned(), Json::from(to.as_str())),
        ]);
        let doing = "Error moving auth method".to_owned();
        let done = format!("Success! Moved the auth method from {from} to {to}");
        mounted::put(&config, "sys/remount", body, doing, &done)
    }
}
