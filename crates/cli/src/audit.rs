//! `audit`: audit devices, and whether their files are as they were written.
//!
//! `enable`, `disable` and `list` ask a server, as Vault's command line does. `verify` reads files; the server's
//! word about its last record and its public key are given to it by hand (`-head`, `-public-key`), so that a
//! person can keep them where the files are not, or asked of the server (`-device`).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use kallisto_audit::{ChainHead, DevicePublicKey, VerifiedChain, Verifier};

use super::mounted::{self, cell};
use super::pairs::{self, PairInputs};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::files;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};

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
    /// Print the public key that a device's checkpoints are verified by
    Key(Key),
}

impl Audit {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::List(list) => list.run(),
            Self::Enable(enable) => enable.run(),
            Self::Disable(disable) => disable.run(),
            Self::Verify(verify) => verify.run(),
            Self::Key(key) => key.run(),
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
        if data.is_empty() && config.format == OutputFormat::Table {
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
    /// Options of the device, as KEY=VALUE
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
        let options = pairs::parse(&self.options, &mut PairInputs::process())?;
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
/// first; the first may begin in the middle of the chain. -public-key finds a chain that somebody else wrote: only the
/// device signs its checkpoints. -head finds that the end was cut off: it is what `sys/audit-head` said at any time while
/// the files were written. -device asks the server for both.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto audit verify /var/log/kallisto/audit.log\n  \
    kallisto audit verify audit.log.1 audit.log\n  \
    kallisto audit verify -public-key=@audit.pub audit.log\n  \
    kallisto audit verify -device=file audit.log\n  \
    kallisto audit verify -head=4711:9f86d081... audit.log\n\n\
    Exit codes: 0 the files are sound, 1 a mistake in the call, 2 they are not")]
pub(crate) struct Verify {
    /// The files, oldest first
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A record that must be there, as `kallisto read sys/audit-head/file` tells it
    #[arg(long, value_name = "SEQ:HASH")]
    head: Option<String>,
    /// What checkpoints must be signed by, as `kallisto audit key` prints it, or @FILE with it
    #[arg(long, value_name = "KEY")]
    public_key: Option<String>,
    /// Ask the server for the last record of this device, and for its key unless -public-key is given
    #[arg(long, value_name = "PATH", conflicts_with = "head")]
    device: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
}

/// What the files have to agree with.
#[derive(Default)]
struct ExpectedChain {
    head: Option<ChainHead>,
    key: Option<DevicePublicKey>,
}

impl Verify {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let wanted = self.wanted(&config)?;
        let mut verifier = Verifier::wanting(wanted.head).trusting(wanted.key);
        let mut lines = 0;
        for path in &self.files {
            let mut reader = files::open_lines(path)
                .map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
            match verifier.take_file(&mut reader) {
                Ok(taken) => lines += taken,
                Err(failure) => return Ok(unsound(&config, path, &failure.to_string())),
            }
        }
        let last = self.files.last().map_or(Path::new(""), PathBuf::as_path);
        if !verifier.met_head() {
            let why = "the record that the server told is missing: the end was cut off";
            return Ok(unsound(&config, last, why));
        }
        let Some(verified) = verifier.verified() else {
            return Ok(unsound(&config, &self.files[0], "there is no record"));
        };
        if let Some(count) = verifier.too_many_unsigned() {
            let why = format!("its last {count} records are signed by no checkpoint");
            return Ok(unsound(&config, last, &why));
        }
        sound(&config, lines, &verified)
    }

    fn wanted(&self, config: &Config) -> Result<ExpectedChain, Error> {
        let mut wanted = match &self.device {
            Some(device) => chain_on_server(config, device)?,
            None => ExpectedChain::default(),
        };
        if let Some(text) = &self.head {
            let head = ChainHead::parse(text);
            let head = head.ok_or_else(|| Error::usage("-head must be like 12:9f86d081..."))?;
            wanted.head = Some(head);
        }
        if let Some(given) = &self.public_key {
            let text = match given.strip_prefix('@') {
                Some(path) => files::read(Path::new(path))
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                    .map_err(|error| Error::usage(format!("{path}: {error}")))?,
                None => given.clone(),
            };
            let key = DevicePublicKey::parse(&text);
            let key = key.ok_or_else(|| Error::usage("-public-key must be like ed25519:..."))?;
            wanted.key = Some(key);
        }
        Ok(wanted)
    }
}

/// The head and the public key of a device, as the server has them.
fn chain_on_server(config: &Config, device: &str) -> Result<ExpectedChain, Error> {
    let path = format!("sys/audit-head/{}", device.trim_matches('/'));
    let doing = "Error asking for the audit device's head";
    let data = mounted::read_all(config, &path, doing)?;
    let head = ChainHead::parse(&format!("{}:{}", cell(&data, "seq"), cell(&data, "hash")));
    let key = DevicePublicKey::parse(&cell(&data, "public_key"));
    // Without both, files would be called sound that were never compared with the server's word.
    match (head, key) {
        (Some(head), Some(key)) => Ok(ExpectedChain { head: Some(head), key: Some(key) }),
        _ => Err(Error::Absent(format!("{doing}: the answer has no head, or no key"))),
    }
}

fn sound(config: &Config, lines: u64, verified: &VerifiedChain) -> Result<Outcome, Error> {
    let hash = verified.head.hash_text();
    if config.format == OutputFormat::Json {
        let report = Json::object([
            ("sound", true.into()),
            ("records", lines.into()),
            ("first", verified.first.into()),
            ("last", verified.head.seq.into()),
            ("hash", hash.into()),
            ("signed", verified.signed.map_or(Json::Null, Json::from)),
        ]);
        return Ok(Outcome::print(Document::Value(&report).to_text(OutputFormat::Json)?));
    }
    let (first, last) = (verified.first, verified.head.seq);
    let signed = match verified.signed {
        Some(seq) if seq == last => "\nSigned: all of them".to_owned(),
        Some(seq) => format!("\nSigned: up to {seq}"),
        None => String::new(),
    };
    Ok(Outcome::line(format!(
        "Sound: {lines} records, {first} to {last}\nHead: {last}:{hash}{signed}"
    )))
}

fn unsound(config: &Config, path: &Path, why: &str) -> Outcome {
    let text = format!("{}: {why}", path.display());
    if config.format == OutputFormat::Json {
        let report = Json::object([("sound", false.into()), ("fault", text.into())]);
        let text = Document::Value(&report).to_text(OutputFormat::Json).unwrap_or_default();
        return Outcome::print(text).with_code(2);
    }
    Outcome::default().with_notice(&format!("Not sound: {text}\n")).with_code(2)
}

/// Prints the public key of an audit device.
///
/// Keep it where the audit files are not: with it anybody can tell whether a chain is the device's.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto audit key file > audit.pub")]
pub(crate) struct Key {
    /// Where the device is enabled
    path: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Key {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let key = chain_on_server(&config, &self.path)?.key;
        let key = key.ok_or_else(|| Error::Absent("The server told no key.".to_owned()))?;
        Ok(Outcome::line(key.to_text()))
    }
}
