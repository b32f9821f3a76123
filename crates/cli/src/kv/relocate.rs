//! `kv copy` and `kv move`: secrets and folders to another place, with all their versions.
//!
//! Kallisto's alone. No value leaves the server, and all of it happens or nothing.

use clap::Args;

use super::counted;
use super::place::{KvPath, MountFlag};
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat};
use kallisto_command::secret::{Secret, as_u64};

/// From where to where.
#[derive(Args, Debug)]
pub(crate) struct Route {
    /// A secret, or a folder by a final /
    from: String,
    /// Where it goes; nothing is overwritten
    to: String,
    /// Check and print everything, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    mount: MountFlag,
    #[command(flatten)]
    common: CommonFlags,
}

/// Copies a secret or a folder.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv copy secret/app/db secret/app/db2\n  kallisto kv copy -mount=secret -dry-run app/ old/app/\n\n\
    Exit codes: 0 done, 1 a mistake in the call, 2 the server refused and nothing was done"
)]
pub(crate) struct Copy {
    #[command(flatten)]
    route: Route,
}

/// Moves a secret or a folder.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto kv move secret/app/db secret/app/database\n  kallisto kv move -dry-run secret/app/ team/app/\n\n\
    Exit codes: 0 done, 1 a mistake in the call, 2 the server refused and nothing was done"
)]
pub(crate) struct Move {
    #[command(flatten)]
    route: Route,
}

impl Copy {
    /// Copies.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        self.route.send("copy", "Copied")
    }
}

impl Move {
    /// Moves.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        self.route.send("move", "Moved")
    }
}

impl Route {
    fn send(self, verb: &str, done: &str) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let is_folder = self.from.ends_with('/') || self.to.ends_with('/');
        let full = |path: &str| {
            let place = KvPath::find(&client, &self.mount, path)?;
            Ok::<_, Error>(if is_folder { place.folder() } else { place.full() })
        };
        let (from, to) = (full(&self.from)?, full(&self.to)?);
        let body = Map::from([
            ("from".to_owned(), Json::from(from.as_str())),
            ("to".to_owned(), Json::from(to.as_str())),
            ("dry_run".to_owned(), Json::from(self.dry_run)),
        ]);
        let request = ClientRequest::put(&format!("sys/kallisto/kv/{verb}"), body);
        let doing = Error::doing_at(format!("Error: cannot {verb} {from} to {to}"), &from);
        let answer = client.send(&request).map_err(doing)?;
        let answer = Secret::with_data(answer, &format!("Error: cannot {verb} {from} to {to}"))?;
        if config.format != OutputFormat::Table {
            return output::secret(&answer, &config, None);
        }
        let count = counted(answer.datum("count").and_then(as_u64).unwrap_or_default());
        let sentence = match self.dry_run {
            true => format!("Nothing was done. Would {verb} {count}:"),
            false => format!("Success! {done} {count}:"),
        };
        Ok(Outcome::print(format!("{sentence}\n{}", pairs(&answer))))
    }
}

/// A line for each secret.
fn pairs(answer: &Secret) -> String {
    let Some(Json::Array(pairs)) = answer.datum("secrets") else { return String::new() };
    let line = |pair: &Json| {
        let map = pair.as_object()?;
        Some(format!("  {} -> {}\n", map.get("from")?.as_str()?, map.get("to")?.as_str()?))
    };
    pairs.iter().filter_map(line).collect()
}
