//! `secrets`: where engines are mounted.

use clap::{Args, Subcommand};

use super::mount_flags::{MountFlags, NewMountFlags};
use super::mounted::{self, cell};
use super::remount::Move;
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, parse_duration};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;

/// What can be done with secrets engines.
#[derive(Subcommand, Debug)]
pub(crate) enum Secrets {
    /// Print the mounted engines
    List(List),
    /// Mount an engine
    Enable(Enable),
    /// Unmount an engine and delete what is in it
    Disable(Disable),
    /// Mount an engine at another path
    Move(Move),
    /// Change how a mounted engine behaves
    Tune(Tune),
}

impl Secrets {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::List(list) => list.run(),
            Self::Enable(enable) => enable.run(),
            Self::Disable(disable) => disable.run(),
            Self::Move(movement) => movement.run(),
            Self::Tune(tune) => tune.run(),
        }
    }
}

/// Prints the mounted engines.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto secrets list\n  kallisto secrets list -detailed\n  kallisto secrets list -format=json"
)]
pub(crate) struct List {
    /// Print lifetimes, options and ids too
    #[arg(long)]
    detailed: bool,
    #[command(flatten)]
    common: CommonFlags,
}

impl List {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let data = mounted::read_all(&config, "sys/mounts", "Error listing secrets engines")?;
        let mut heads = mounted::MOUNT_HEADS.to_vec();
        if self.detailed {
            heads.extend(["Default TTL", "Max TTL", "Options", "Local", "Seal Wrap", "UUID"]);
        }
        mounted::print_all(&config, &data, &heads, |path, mount| self.row(path, mount))
    }

    fn row(&self, path: &str, mount: &Map) -> Option<Vec<String>> {
        let mut row = mounted::mount_row(path, mount);
        if self.detailed {
            let settings = mount.get("config")?.as_object()?;
            row.extend(mounted::lifetimes(settings));
            row.extend([
                cell(mount, "options"),
                cell(mount, "local"),
                cell(mount, "seal_wrap"),
                cell(mount, "uuid"),
            ]);
        }
        Some(row)
    }
}

/// How an engine behaves.
#[derive(Args, Debug)]
struct EngineSettings {
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Lease of what is read from it, e.g. 1h
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = parse_duration)]
    default_lease_ttl: Option<String>,
    /// Longest lease
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = parse_duration)]
    max_lease_ttl: Option<String>,
    /// Who is told of it: hidden or unauth
    #[arg(long, value_name = "WHO")]
    listing_visibility: Option<String>,
}

impl EngineSettings {
    /// What is given, but for the description.
    fn given(&self) -> Map {
        mounted::given(&[
            ("default_lease_ttl", &self.default_lease_ttl),
            ("max_lease_ttl", &self.max_lease_ttl),
            ("listing_visibility", &self.listing_visibility),
        ])
    }

    fn add_description(&self, body: &mut Map) {
        body.extend(mounted::given(&[("description", &self.description)]));
    }
}

/// Mounts an engine.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto secrets enable -path=secret -version=2 kv\n  kallisto secrets enable kv-v2\n  kallisto secrets enable -path=certificates -max-lease-ttl=8760h pki"
)]
pub(crate) struct Enable {
    /// Its kind: database, kubernetes, kv (kv-v1, kv-v2), ldap, pki, rabbitmq, ssh, totp or transit
    kind: String,
    /// Where; the kind's name when absent
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// The version of a kv engine
    #[arg(long, value_name = "NUMBER")]
    version: Option<u32>,
    #[command(flatten)]
    settings: EngineSettings,
    /// Keep none of its records in memory
    #[arg(long)]
    force_no_cache: bool,
    #[command(flatten)]
    new: NewMountFlags,
    #[command(flatten)]
    flags: MountFlags,
    #[command(flatten)]
    common: CommonFlags,
}

impl Enable {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = self.path.as_deref().unwrap_or(&self.kind).trim_matches('/').to_owned();
        let mut body = Map::from([("type".to_owned(), Json::from(self.kind.as_str()))]);
        self.settings.add_description(&mut body);
        self.new.add(&mut body);
        self.flags.add_options(&mut body, self.version)?;
        let mut settings = self.settings.given();
        if self.force_no_cache {
            settings.insert("force_no_cache".to_owned(), true.into());
        }
        self.flags.add_settings(&mut settings);
        if !settings.is_empty() {
            body.insert("config".into(), Json::Object(settings));
        }
        let done = format!("Success! Enabled the {} secrets engine at: {path}/", self.kind);
        let doing = "Error enabling".to_owned();
        mounted::put(&config, &format!("sys/mounts/{path}"), body, doing, &done)
    }
}

/// Unmounts an engine and deletes what is in it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto secrets disable old/")]
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
        let doing = "Error disabling secrets engine";
        let done = format!("Success! Disabled the secrets engine (if it existed) at: {path}/");
        mounted::remove(&config, &format!("sys/mounts/{path}"), doing, &done)
    }
}

/// Changes how a mounted engine behaves.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto secrets tune -default-lease-ttl=1h secret/")]
pub(crate) struct Tune {
    /// Where it is mounted
    path: String,
    #[command(flatten)]
    settings: EngineSettings,
    /// The version of a kv engine: 2 makes one of version 1 keep versions
    #[arg(long, value_name = "NUMBER")]
    version: Option<u32>,
    #[command(flatten)]
    flags: MountFlags,
    #[command(flatten)]
    common: CommonFlags,
}

impl Tune {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let mut body = self.settings.given();
        self.settings.add_description(&mut body);
        self.flags.add_settings(&mut body);
        self.flags.add_options(&mut body, self.version)?;
        let path = self.path.trim_matches('/');
        let doing = format!("Error tuning secrets engine {path}/");
        let done = format!("Success! Tuned the secrets engine at: {path}/");
        mounted::put(&config, &format!("sys/mounts/{path}/tune"), body, doing, &done)
    }
}
