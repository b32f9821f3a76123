//! `migrate`: everything that can move from a Vault, an OpenBao or another Kallisto, over their APIs or out of a snapshot.
//!
//! A pass goes through all there is at the source, kind by kind, and makes the target say the same: what is the same already stays as it is, so a
//! pass that broke off is done again, and one after the first moves only what changed since (the delta). Moving, trying (`-dry-run`) and comparing
//! (`-compare`) are the same walk with another end ([`pass`]).
//!
//! The source may be a raft snapshot of Vault or OpenBao as well ([`snapshot`]), which has what no API tells: passwords' hashes, secret ids, any
//! transit key, data of deleted versions.
//!
//! - [`endpoint`] asks one of the two servers; what it refuses is one item's failure or the end of the pass;
//! - [`namespaces`], [`mounts`], [`login_methods`], [`identity`], [`policies`], [`kv`], [`transit`] and [`authorities`] know how things are kept;
//! - [`translations`] says what an id of the source is at the target;
//! - [`state`] remembers what arrived, as hashes, so that a later pass need not ask the target for it;
//! - [`report`] counts, and says what did not move and why.

mod authorities;
mod endpoint;
mod identity;
mod kv;
mod login_methods;
mod mounts;
mod namespaces;
mod pass;
mod pkcs8;
mod policies;
mod pool;
mod report;
mod scope;
mod secret_ids;
mod snapshot;
mod source;
mod state;
#[cfg(test)]
mod testing;
mod transit;
mod translations;

use std::path::PathBuf;

use clap::Args;

use self::endpoint::Endpoint;
use self::pass::{Migration, MigrationPass};
use self::report::MigrationReport;
use self::scope::ContentKind;
use self::source::SourceFlags;
use self::state::StateFile;
use crate::progress::Progress;
use kallisto_command::client::Client;
use kallisto_command::config::{Config, Environment};
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::outcome::Outcome;

/// Items in progress at once when nobody says otherwise, and at the most.
const WORKERS_DEFAULT: u16 = 8;
const WORKERS_MAX: u16 = 64;
/// Tries of one request when nobody says otherwise: a pass is long, and servers restart.
const RETRIES_MIN: u32 = 5;

/// Moves what another Vault, OpenBao or Kallisto has to this one, over their APIs or out of a raft snapshot.
///
/// The target is the server of -address and VAULT_ADDR, as for every command. The source's token comes from VAULT_SOURCE_TOKEN or a file, the unseal
/// shares of a snapshot from a file or a prompt. Run it again to go on after a stop, or to move what changed since.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    kallisto migrate -source-address=https://vault:8200 -source-token-file=token -dry-run\n  \
    kallisto migrate -source-address=https://vault:8200 -source-token-file=token -state-file=moved.json\n  \
    kallisto migrate -source-address=https://vault:8200 -source-token-file=token -compare\n  \
    kallisto migrate -source-address=https://vault:8200 -source-token-file=token -only=secrets -path=secret/team/\n  \
    kallisto migrate -from-snapshot=vault.snap -state-file=moved.json\n\n\
    To move the records of one Kallisto to another storage, see kallisto operator migrate.\n\n\
    Exit codes: 0 all moved or equal, 1 a mistake in the call, 2 something did not move or differs, or a server failed")]
pub(crate) struct Migrate {
    /// Say what would move, and change nothing
    #[arg(long, conflicts_with = "compare")]
    dry_run: bool,
    /// Read both sides and say what differs, and change nothing
    #[arg(long)]
    compare: bool,
    /// Move these kinds only; may be repeated or joined with commas
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    only: Vec<ContentKind>,
    /// Move secrets of this mount or folder only; may be repeated
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Replace secrets at the target that have other versions
    #[arg(long)]
    overwrite: bool,
    /// Delete secrets at the target that came from the source, are deleted there since and were not changed here; needs -state-file
    #[arg(long, requires = "state_file")]
    prune: bool,
    /// Remember here what arrived, so that the next pass asks the target for nothing of it
    #[arg(long, value_name = "FILE")]
    state_file: Option<PathBuf>,
    /// Items in progress at once
    #[arg(long, value_name = "NUMBER", default_value_t = WORKERS_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(WORKERS_MAX)))]
    concurrency: u16,
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    common: CommonFlags,
}

impl Migrate {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let environment = Environment::process();
        let mut config = Config::load(&self.common)?;
        config.retries_max = config.retries_max.max(RETRIES_MIN);
        let snapshot = self.source.snapshot(&environment, &config)?;
        let from = match &snapshot {
            Some(_) => None,
            None => {
                let mut from = self.source.config(&environment, config.audience)?;
                from.retries_max = from.retries_max.max(RETRIES_MIN);
                Some(from)
            }
        };
        let pass = match (self.dry_run, self.compare) {
            (true, _) => MigrationPass::DryRun,
            (false, true) => MigrationPass::Compare,
            (false, false) => MigrationPass::Move,
        };
        let source = match (snapshot, &from) {
            (Some(snapshot), _) => Endpoint::of_snapshot(snapshot),
            (None, Some(from)) => Endpoint::new("source", Client::new(from)?.without_line()),
            (None, None) => return Err(Error::usage("nothing to move from")),
        };
        let target = Endpoint::new("target", Client::new(&config)?.without_line());
        let ends = endpoint::identify(&source, &target)?;
        let state = match &self.state_file {
            Some(path) => Some(StateFile::open(path, &ends)?),
            None => None,
        };
        if let (Some(state), MigrationPass::Move) = (&state, pass) {
            // What cannot be written is better known now than after an hour.
            state.save()?;
        }
        let migration = Migration {
            source,
            target,
            pass,
            scope: scope::MigrationScope::new(&self.only, &self.path)?,
            overwrites: self.overwrite,
            prunes: self.prune,
            workers: usize::from(self.concurrency),
            report: MigrationReport::new(pass),
            progress: Progress::start(),
            state,
        };
        if self.only.is_empty() && self.path.is_empty() {
            migration.tell_leftovers();
        }
        let ended = migration.run();
        migration.progress.end();
        if let (Some(state), MigrationPass::Move) = (&migration.state, pass) {
            state.save()?;
        }
        ended?;
        migration.report.outcome(&config)
    }
}
