//! `operator raft snapshot inspect` and `verify`: a file of a backup, read to its end without a server.
//!
//! Without a key, everything is checked that shows without one: the sums, the chain of checksums, the form of every
//! record. With the unseal key every record is opened, and the file's tag is checked. What is inside is never printed.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use data_encoding::{BASE64, BASE64_NOPAD, HEXLOWER_PERMISSIVE};
use indicatif::{ProgressBar, ProgressStyle};
use kallisto_backup::{Examiner, KeyGiven, NotWhole, Report};
use kallisto_barrier::UnsealKey;
use kallisto_barrier::shamir::Share;
use kallisto_command::error::{EXIT_SERVER, Error};
use kallisto_command::files;
use kallisto_command::flags::FormatFlag;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};
use zeroize::Zeroizing;

/// A file at least this long gets a progress bar, in bytes.
const PROGRESS_BYTES_MIN: u64 = 8 << 20;
/// Bytes of the unseal key, and of a share of it.
const KEY_BYTES: usize = 32;
const SHARE_BYTES: usize = 33;
/// Shares that are read at the most; there are never more.
const SHARES_MAX: usize = 255;

/// Say what a snapshot holds
///
/// Reads the whole file, without a server and without a key. Prints where the log stood, how the
/// storage is sealed, how many records of which kind there are, and under which data keys. Names and
/// values are encrypted in the file, and stay so. A file that is cut short or damaged is told, and the
/// exit code is 2.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto operator raft snapshot inspect backup.snap\n  \
    kallisto operator raft snapshot inspect -format=json backup.snap")]
pub struct Inspect {
    #[command(flatten)]
    /// How the answer is printed.
    format: FormatFlag,
    /// The file
    file: PathBuf,
}

/// Find out whether a snapshot is whole and can be restored
///
/// Reads the whole file without a server: its sums, the chain of checksums, and the form of every
/// record. With the shares of the unseal key it opens every record as well, so that a restore will find
/// what the cluster wrote. Shares come from a file, from standard input, or are asked for; never from
/// arguments, which every process of the machine could read.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto operator raft snapshot verify backup.snap\n  \
    kallisto operator raft snapshot verify -shares-file=shares.txt backup.snap\n  \
    kallisto operator raft snapshot verify -ask backup.snap\n\n\
    Exit codes: 0 whole, 1 a mistake in the call, 2 the file is damaged, or the key is not its key")]
pub struct Verify {
    #[command(flatten)]
    /// How the answer is printed.
    format: FormatFlag,
    /// File with the shares of the unseal key, one a line; - is standard input
    #[arg(long, value_name = "FILE")]
    shares_file: Option<PathBuf>,
    /// Ask for the shares, without echo
    #[arg(long, conflicts_with = "shares_file")]
    ask: bool,
    /// The file
    file: PathBuf,
}

impl Inspect {
    /// Does it.
    ///
    /// # Errors
    /// What was wrong with the call.
    pub fn run(self) -> Result<Outcome, Error> {
        let format = parse_format(&self.format)?;
        match examine(&self.file, KeyGiven::Nothing)? {
            Ok(report) => describe(&self.file, &report, format),
            Err(fault) => refused(&self.file, &fault, format),
        }
    }
}

impl Verify {
    /// Does it.
    ///
    /// # Errors
    /// What was wrong with the call.
    pub fn run(self) -> Result<Outcome, Error> {
        let format = parse_format(&self.format)?;
        let key = match (&self.shares_file, self.ask) {
            (Some(path), _) => KeyGiven::Unseal(combine(read_shares(path)?)?),
            (None, true) => KeyGiven::Unseal(combine(ask_for_shares()?)?),
            (None, false) => KeyGiven::Nothing,
        };
        let name = self.file.display();
        match examine(&self.file, key)? {
            Ok(report) if format != OutputFormat::Table => describe(&self.file, &report, format),
            Ok(report) => Ok(Outcome::line(match report.authenticated {
                Some(opened) => format!(
                    "Success! {name} is whole: {} records, of which {opened} are sealed and all opened",
                    report.records
                ),
                None => format!(
                    "Success! {name} is whole: {} records. They were not opened, as no key was given",
                    report.records
                ),
            })),
            Err(fault) => refused(&self.file, &fault, format),
        }
    }
}

fn parse_format(flag: &FormatFlag) -> Result<OutputFormat, Error> {
    flag.format.as_deref().map_or(Ok(OutputFormat::Table), OutputFormat::parse)
}

/// Reads the file to its end. The outer error is of the call, the inner one of the file.
fn examine(path: &Path, key: KeyGiven) -> Result<Result<Report, NotWhole>, Error> {
    let unreadable = |error| Error::usage(format!("{}: {error}", path.display()));
    let mut file = files::open_lines(path).map_err(unreadable)?;
    let bar = progress(file.get_ref().metadata().map_err(unreadable)?.len());
    let mut examiner = Examiner::new(key);
    loop {
        let bytes = file.fill_buf().map_err(unreadable)?;
        let taken = bytes.len();
        if taken == 0 {
            bar.finish_and_clear();
            return Ok(examiner.finish());
        }
        if let Err(fault) = examiner.take(bytes) {
            bar.finish_and_clear();
            return Ok(Err(fault));
        }
        file.consume(taken);
        bar.inc(taken as u64);
    }
}

fn progress(bytes: u64) -> ProgressBar {
    if bytes < PROGRESS_BYTES_MIN || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    match ProgressStyle::with_template("[{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn refused(path: &Path, fault: &NotWhole, format: OutputFormat) -> Result<Outcome, Error> {
    let text = fault.to_string();
    if format == OutputFormat::Table {
        let text = format!("{}: not a snapshot that can be restored: {text}\n", path.display());
        return Ok(Outcome::default().with_notice(&text).with_code(EXIT_SERVER));
    }
    let map: Map = [("whole".to_owned(), false.into()), ("error".to_owned(), text.into())].into();
    Ok(Outcome::print(Document::Object(&map).to_text(format)?).with_code(EXIT_SERVER))
}

fn describe(path: &Path, report: &Report, format: OutputFormat) -> Result<Outcome, Error> {
    let of = |name: &str| report.meta.get(name).cloned().unwrap_or(Json::Null);
    let contents = &report.contents;
    let kinds = contents.kinds.iter().map(|(name, count)| ((*name).to_owned(), (*count).into()));
    let kinds: Map = kinds.collect();
    let versions = contents.key_versions.iter();
    let versions: Map =
        versions.map(|(version, count)| (version.to_string(), (*count).into())).collect();
    if format != OutputFormat::Table {
        let seal = contents.seal.as_ref().map_or(Json::Null, |seal| {
            Json::object([
                ("type", seal.scheme.clone().into()),
                ("shares", seal.shares.into()),
                ("threshold", seal.threshold.into()),
            ])
        });
        let map: Map = [
            ("whole", true.into()),
            ("bytes", report.bytes.into()),
            ("records", report.records.into()),
            ("record_bytes", contents.bytes.into()),
            ("authenticated", report.authenticated.map_or(Json::Null, Json::from)),
            ("index", of("Index")),
            ("term", of("Term")),
            ("store", of("Store")),
            ("format", of("Format")),
            ("seal", seal),
            ("kinds", Json::Object(kinds)),
            ("key_versions", Json::Object(versions)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        return Ok(Outcome::print(Document::Object(&map).to_text(format)?));
    }
    let mut rows = vec![
        ("File".to_owned(), path.display().to_string()),
        ("Bytes".to_owned(), report.bytes.to_string()),
        ("Index".to_owned(), table::show(&of("Index"))),
        ("Term".to_owned(), table::show(&of("Term"))),
        ("Store".to_owned(), table::show(&of("Store"))),
        ("Layout".to_owned(), table::show(&of("Format"))),
    ];
    if let Some(seal) = &contents.seal {
        let shares = format!("{}, {} of {} shares", seal.scheme, seal.threshold, seal.shares);
        rows.push(("Seal".to_owned(), shares));
    }
    rows.push(("Records".to_owned(), report.records.to_string()));
    rows.extend(kinds.iter().map(|(name, count)| (format!("  {name}"), table::show(count))));
    let of_keys = versions.iter();
    rows.extend(
        of_keys.map(|(version, count)| (format!("  under data key {version}"), table::show(count))),
    );
    Ok(Outcome::print(table::rows(&rows)))
}

type ShareText = Zeroizing<Vec<u8>>;

fn read_shares(path: &Path) -> Result<Vec<ShareText>, Error> {
    let unreadable = |error| Error::usage(format!("{}: {error}", path.display()));
    let bytes = match path.as_os_str() == "-" {
        true => files::bounded(std::io::stdin().lock()),
        false => {
            files::warn_if_exposed(path, "the unseal shares");
            files::read(path)
        }
    };
    let bytes = Zeroizing::new(bytes.map_err(unreadable)?);
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| !line.is_empty()).take(SHARES_MAX + 1);
    let shares: Vec<_> = lines.map(parse_share).collect::<Result<_, _>>()?;
    if shares.is_empty() {
        return Err(Error::usage(format!("{}: it holds no share", path.display())));
    }
    Ok(shares)
}

fn ask_for_shares() -> Result<Vec<ShareText>, Error> {
    if !std::io::stdin().is_terminal() {
        return Err(Error::usage("there is no terminal to ask on; give -shares-file"));
    }
    let mut shares = Vec::new();
    while shares.len() < SHARES_MAX {
        let question = format!("Share {} (will be hidden; empty ends): ", shares.len() + 1);
        let answer = rpassword::prompt_password(question).map(Zeroizing::new);
        let answer = answer.map_err(|error| Error::usage(format!("cannot ask: {error}")))?;
        if answer.trim().is_empty() {
            break;
        }
        shares.push(parse_share(answer.trim().as_bytes())?);
    }
    if shares.is_empty() {
        return Err(Error::usage("no share was given"));
    }
    Ok(shares)
}

/// A share from its text. Hexadecimal digits are base64 too: what they are is told by how many there are.
fn parse_share(text: &[u8]) -> Result<ShareText, Error> {
    let encodings = [HEXLOWER_PERMISSIVE, BASE64, BASE64_NOPAD];
    let decoded = encodings.iter().filter_map(|code| code.decode(text).ok().map(Zeroizing::new));
    let mut fitting = decoded.filter(|bytes| matches!(bytes.len(), KEY_BYTES | SHARE_BYTES));
    fitting.next().ok_or_else(|| Error::usage("a share is 32 or 33 bytes in hex or base64"))
}

/// The key that shares make. A lone one is the key itself.
fn combine(mut shares: Vec<ShareText>) -> Result<UnsealKey, Error> {
    shares.dedup();
    let refused = |error: kallisto_barrier::Error| {
        Error::usage(format!("the shares do not fit together: {error}"))
    };
    if let [only] = shares.as_slice() {
        return UnsealKey::from_bytes(only.get(..KEY_BYTES).unwrap_or_default()).map_err(refused);
    }
    let shares = shares.iter().map(|share| Share::from_bytes(share));
    let shares = shares.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    UnsealKey::combine(&shares).map_err(refused)
}
