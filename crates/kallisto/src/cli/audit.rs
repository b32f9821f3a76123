//! `audit`: audit devices, and whether their files are as they were written.
//!
//! `enable`, `disable` and `list` ask a server, as Vault's command line does. `verify` reads files and
//! asks nobody; the server's word about its last record is given to it by hand (`-head`), so that a
//! person can keep that word where the files are not.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use kallisto_audit::{Head, Verifier};

use super::config::Config;
use super::error::Error;
use super::files;
use super::flags::CommonFlags;
use super::json::{Json, Map};
use super::mounted::{self, cell};
use super::outcome::Outcome;
use super::output::{Document, Format, table};
use super::pairs::{self, Inputs};

/// What can be done with audit devices.
#[derive(Subcommand, Debug)]
pub(crate) enum Audit {
    /// Print the enabled audit devices
    List(List),
    /// Enable an audit device
    Enable(Enable),
    /// Disable an audit device
    Disable(Disable),
    /// Check that audit files hold what was written, and all of it
    Verify(Verify),
}

impl Audit {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::List(list) => list.run(),
            Self::Enable(enable) => enable.run(),
            Self::Disable(disable) => disable.run(),
            Self::Verify(verify) => verify.run(),
        }
    }
}

/// Prints the enabled audit devices.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto audit list\n  kallisto audit list -detailed")]
pub(crate) struct List {
    /// Print options too
    #[arg(long)]
    detailed: bool,
    #[command(flatten)]
    common: CommonFlags,
}

impl List {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let data = mounted::read_all(&config, "sys/audit", "Error listing audits")?;
        if data.is_empty() && config.format == Format::Table {
            return Err(Error::Absent("No audit devices are enabled.".to_owned()));
        }
        let mut heads = vec!["Path", "Type", "Description"];
        if self.detailed {
            heads.extend(["Replication", "Options"]);
        }
        mounted::print_all(&config, &data, &heads, |path, device| self.row(path, device))
    }

    fn row(&self, path: &str, device: &Map) -> Option<Vec<String>> {
        let mut row = vec![path.to_owned(), cell(device, "type"), mounted::description(device)];
        if self.detailed {
            let is_local = matches!(device.get("local"), Some(Json::Bool(true)));
            row.push(if is_local { "local" } else { "replicated" }.to_owned());
            let options = device.get("options").and_then(Json::as_object)?;
            let options: Vec<String> = options
                .iter()
                .map(|(name, text)| format!("{name}={}", table::show(text)))
                .collect();
            row.push(options.join(" "));
        }
        Some(row)
    }
}

/// Enables an audit device.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto audit enable file file_path=/var/log/kallisto/audit.log\n  \
    kallisto audit enable -path=siem socket address=127.0.0.1:9090 socket_type=tcp\n  \
    kallisto audit enable syslog tag=kallisto facility=AUTH"
)]
pub(crate) struct Enable {
    /// Its kind: file, socket or syslog
    kind: String,
    /// What it is told, as KEY=VALUE
    options: Vec<String>,
    /// Where; the kind's name when absent
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Never replicated elsewhere
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    common: CommonFlags,
}

impl Enable {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = self.path.as_deref().unwrap_or(&self.kind).trim_matches('/').to_owned();
        let options = pairs::parse(&self.options, &mut Inputs::process())?;
        let body = Map::from([
            ("type".to_owned(), Json::from(self.kind.as_str())),
            ("description".to_owned(), self.description.as_deref().unwrap_or_default().into()),
            ("local".to_owned(), self.local.into()),
            ("options".to_owned(), options.into()),
        ]);
        let doing = "Error enabling audit device".to_owned();
        let done = format!("Success! Enabled the {} audit device at: {path}/", self.kind);
        mounted::put(&config, &format!("sys/audit/{path}"), body, doing, &done)
    }
}

/// Disables an audit device.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto audit disable file/")]
pub(crate) struct Disable {
    /// Where it is enabled
    path: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Disable {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = self.path.trim_matches('/');
        let done = format!("Success! Disabled audit device (if it was enabled) at: {path}/");
        mounted::remove(
            &config,
            &format!("sys/audit/{path}"),
            "Error disabling audit device",
            &done,
        )
    }
}

/// Checks that audit files hold what was written, and all of it.
///
/// Finds a line that was edited, removed, inserted or moved. Files of one device are given oldest
/// first; the first may begin in the middle of the chain. That the end was not cut off, and that the
/// whole is not another chain, is shown by -head: what `sys/audit-head` said at any time while the
/// files were written.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto audit verify /var/log/kallisto/audit.log\n  \
    kallisto audit verify audit.log.1 audit.log\n  \
    kallisto audit verify -head=4711:9f86d081... audit.log\n\n\
    Exit codes: 0 the files are sound, 1 a mistake in the call, 2 they are not")]
pub(crate) struct Verify {
    /// The files, oldest first
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A record that must be there, as `kallisto read sys/audit-head/file` tells it
    #[arg(long, value_name = "SEQ:HASH")]
    head: Option<String>,
    /// Print format: table or json
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = ["table", "json"])]
    format: String,
}

impl Verify {
    fn run(self) -> Result<Outcome, Error> {
        let wanted = self.head.as_deref().map(|text| {
            Head::parse(text).ok_or_else(|| Error::usage("-head must be like 12:9f86d081..."))
        });
        let mut verifier = Verifier::wanting(wanted.transpose()?);
        let mut lines = 0;
        for path in &self.files {
            let mut reader = files::open_lines(path)
                .map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
            match verifier.take_file(&mut reader) {
                Ok(taken) => lines += taken,
                Err(failure) => return Ok(self.unsound(path, &failure.to_string())),
            }
        }
        if !verifier.met_head() {
            let last = self.files.last().map_or(Path::new(""), PathBuf::as_path);
            return Ok(self.unsound(last, "the record of -head is missing: the end was cut off"));
        }
        let Some(verified) = verifier.verified() else {
            return Ok(self.unsound(&self.files[0], "there is no record"));
        };
        let hash = verified.head.hash_text();
        if self.format == "json" {
            let report = Json::object([
                ("sound", true.into()),
                ("records", lines.into()),
                ("first", verified.first.into()),
                ("last", verified.head.seq.into()),
                ("hash", hash.into()),
            ]);
            return Ok(Outcome::print(Document::Value(&report).to_text(Format::Json)?));
        }
        Ok(Outcome::line(format!(
            "Sound: {lines} records, {} to {}\nHead: {}:{hash}",
            verified.first, verified.head.seq, verified.head.seq
        )))
    }

    fn unsound(&self, path: &Path, why: &str) -> Outcome {
        let text = format!("{}: {why}", path.display());
        if self.format == "json" {
            let report = Json::object([("sound", false.into()), ("fault", text.into())]);
            let text = Document::Value(&report).to_text(Format::Json).unwrap_or_default();
            return Outcome::print(text).with_code(2);
        }
        Outcome::default().with_notice(&format!("Not sound: {text}\n")).with_code(2)
    }
}
