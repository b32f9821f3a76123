//! `kallisto bench scale`: how a server starts, and what it weighs, when it holds much.
//!
//! A store in a directory of its own is filled in stages (secrets, tokens, mounts), each through the
//! core as a client's requests would come, without sockets. After each stage a real
//! server, this same program, is started on the directory: how long until it listens, until it is
//! unsealed and answers as active, and how much memory it then holds. On the last one the parent of
//! many children is revoked while others read.
//!
//! What a thing weighs is the difference between two servers, started before and after its stage, in what
//! unsealing adds; so what every server needs anyhow counts for nothing.

mod fill;
mod reads;
mod report;
mod served;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use fill::FillStage;
use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;
use reads::ReadFigures;
use served::{Ready, ServedProcess};

/// Most secrets or tokens of a run; bounds its disk and its time.
const MANY_MAX: u64 = 10_000_000;
/// Most mounts of a run.
const MOUNTS_MAX: u64 = 100_000;
/// Largest value of a secret, in bytes.
const VALUE_BYTES_MAX: u64 = 64 << 10;
/// The root token of the store; it opens nothing else.
const ROOT: &str = "bench-scale-root";

/// Measure start, memory and a large revocation over much data
///
/// Fills a store with secrets, tokens and mounts, starts a server on it after each, and measures how
/// long it takes to be ready and what it holds in memory. Then revokes the parent of many tokens
/// while others read. Everything happens in a temporary directory and on 127.0.0.1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto bench scale\n  \
    kallisto bench scale -secrets 1000000 -tokens 1000000 -mounts 10000 -children 100000 -json\n\n\
    Exit codes: 0 measured, 1 a mistake in the call or a server that did not start")]
pub(crate) struct ScaleArgs {
    /// Secrets, one version each
    #[arg(long, value_name = "COUNT", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1..=MANY_MAX))]
    secrets: u64,
    /// Bytes of each secret's value
    #[arg(long, value_name = "BYTES", default_value_t = 128,
          value_parser = clap::value_parser!(u64).range(1..=VALUE_BYTES_MAX))]
    value_bytes: u64,
    /// Live tokens besides the children
    #[arg(long, value_name = "COUNT", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1..=MANY_MAX))]
    tokens: u64,
    /// Children of the token that is revoked
    #[arg(long, value_name = "COUNT", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=MANY_MAX))]
    children: u64,
    /// Mounts of the key-value engine
    #[arg(long, value_name = "COUNT", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..=MOUNTS_MAX))]
    mounts: u64,
    /// Directory to work in, which must not exist; it is kept
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is put in.
#[derive(Clone, Copy)]
struct ScalePlan {
    secrets: u64,
    value_bytes: u64,
    tokens: u64,
    children: u64,
    mounts: u64,
}

/// What a server was like after a stage.
struct StagePoint {
    /// What was put in last; `None` for a fresh store.
    stage: Option<FillStage>,
    /// Things put in per second.
    filled_per_second: f64,
    ready: Ready,
}

/// The outcome of a run.
struct ScaleFigures {
    plan: ScalePlan,
    points: Vec<StagePoint>,
    reads: ReadFigures,
}

impl ScaleArgs {
    /// Fills, starts, measures and prints.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let plan = ScalePlan {
            secrets: self.secrets,
            value_bytes: self.value_bytes,
            tokens: self.tokens,
            children: self.children,
            mounts: self.mounts,
        };
        let place = WorkDirectory::make(self.directory)?;
        let watched = std::io::stderr().is_terminal() && !self.json;
        let figures = measure(plan, &place, watched)
            .map_err(|what| Error::unusable(format!("the measurement failed: {what}")))?;
        Ok(Outcome::print(if self.json { report::json(&figures) } else { report::table(&figures) }))
    }
}

fn measure(plan: ScalePlan, place: &WorkDirectory, watched: bool) -> Result<ScaleFigures, String> {
    let keys = fill::create(place.path())?;
    let (mut server, ready) = ServedProcess::start(place.path(), &keys)?;
    let mut points = vec![StagePoint { stage: None, filled_per_second: 0.0, ready }];
    for stage in FillStage::ALL {
        // One process at a time has the store open.
        server.stop()?;
        let took = fill::fill(place.path(), &keys, stage, plan, watched)?;
        let filled_per_second = stage.count(plan) as f64 / took.as_secs_f64();
        let ready;
        (server, ready) = ServedProcess::start(place.path(), &keys)?;
        points.push(StagePoint { stage: Some(stage), filled_per_second, ready });
    }
    let reads = reads::while_revoking(&server, plan)?;
    server.stop()?;
    Ok(ScaleFigures { plan, points, reads })
}

/// Where a run works: a directory that is made for it, and removed if nobody named it.
struct WorkDirectory {
    path: PathBuf,
    /// Whether it outlives the run.
    is_kept: bool,
}

impl WorkDirectory {
    fn make(named: Option<PathBuf>) -> Result<Self, Error> {
        let is_kept = named.is_some();
        let own = || std::env::temp_dir().join(format!("kallisto-scale-{}", std::process::id()));
        let path = named.unwrap_or_else(own);
        std::fs::create_dir(&path)
            .map_err(|error| Error::unusable(format!("cannot make {}: {error}", path.display())))?;
        Ok(Self { path, is_kept })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // What is left of a temporary directory harms nobody.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "measuring time is what this command does")]
fn clock() -> Instant {
    Instant::now()
}
