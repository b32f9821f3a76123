//! `operator durability` and `operator save`: when writes are acknowledged. Ours alone.
//!
//! Strict: acknowledged is on the disk. Batch: acknowledged is with the operating system, and on
//! the disk every so many operations or so many milliseconds, or when `save` asks for it.

use clap::{Args, ValueEnum};

use super::print::{self, MissingMember, ShownMembers, row, text};
use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::duration;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, OutputFormat, table};

const PATH: &str = "sys/durability";
const MEMBERS: &ShownMembers = &[
    ("mode", MissingMember::Text),
    ("ops", MissingMember::Absent),
    ("interval_ms", MissingMember::Absent),
];

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// When it is on the disk
    Strict,
    /// When the operating system has it
    Batch,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Batch => "batch",
        }
    }
}

/// Prints when writes are acknowledged, or changes it until the server starts again.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto operator durability\n  kallisto operator durability strict\n  kallisto operator durability batch -ops=10000 -interval=100ms\n\nWith batch, a power cut takes the writes since the last sync"
)]
pub(crate) struct Durability {
    /// What it shall be; without it, what it is
    #[arg(value_enum)]
    mode: Option<Mode>,
    /// Operations between two syncs, with batch
    #[arg(long, value_name = "COUNT")]
    ops: Option<u64>,
    /// Time between two syncs, with batch, e.g. 100ms
    #[arg(long, value_name = "DURATION")]
    interval: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

impl Durability {
    /// Prints or changes it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let change = self.change()?;
        let client = Client::new(&config)?;
        match change {
            None => show(&client, &config),
            Some((mode, body)) => {
                let request = ClientRequest::put(PATH, body);
                client.send(&request).map_err(Error::doing("Error changing the durability"))?;
                let name = mode.name();
                Ok(output::done(&config, &format!("Success! The durability is {name}.")))
            }
        }
    }

    fn change(&self) -> Result<Option<(Mode, Map)>, Error> {
        let bounded = self.ops.is_some() || self.interval.is_some();
        let mode = match self.mode {
            Some(Mode::Batch) => Mode::Batch,
            Some(Mode::Strict) | None if bounded => {
                return Err(Error::usage("-ops and -interval go with batch"));
            }
            Some(mode) => mode,
            None => return Ok(None),
        };
        let mut body = Map::from([("mode".to_owned(), Json::from(mode.name()))]);
        if let Some(ops) = self.ops {
            body.insert("ops".to_owned(), Json::from(ops));
        }
        if let Some(text) = &self.interval {
            let interval = duration::parse(text)
                .map_err(|why| Error::usage(format!("flag -interval: {why}")))?;
            body.insert("interval".to_owned(), Json::from(duration::wire(interval)));
        }
        Ok(Some((mode, body)))
    }
}

fn show(client: &Client<'_>, config: &Config) -> Result<Outcome, Error> {
    let doing = "Error reading the durability";
    let answer = client.send(&ClientRequest::get(PATH)).map_err(Error::doing(doing))?;
    let object = print::object(answer, doing)?;
    if config.format != OutputFormat::Table {
        return print::document(&object, MEMBERS, config);
    }
    let mut rows = vec![row("Durability", text(&object, "mode"))];
    if text(&object, "mode") == Mode::Batch.name() {
        rows.push(row("Operations", text(&object, "ops")));
        rows.push(row("Interval", format!("{}ms", text(&object, "interval_ms"))));
    }
    Ok(Outcome::print(table::plain(&rows)))
}

/// Returns when everything acknowledged before the call is on the disk.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  kallisto operator save")]
pub(crate) struct Save {
    #[command(flatten)]
    common: CommonFlags,
}

impl Save {
    /// Waits for it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Put, "sys/save");
        client.send(&request).map_err(Error::doing("Error saving"))?;
        Ok(output::done(&config, "Success! Everything acknowledged is on the disk."))
    }
}
