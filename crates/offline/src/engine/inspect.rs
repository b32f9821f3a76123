//! `kallisto engine check`, `stats`, `compact` and `dump`: looking into a store and tidying it.
//!
//! Each opens the store as a server would: it takes the lock, replays the log and may finish what
//! a crash left half done. None makes a store where there is none, and none prints a value.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use kallisto_lsm::disk::RealDisk;
use kallisto_lsm::{Engine, LevelStats, Options, Stats};

use super::failure::EngineFailure;
use super::files;
use super::keys::KeyFormat;
use super::kind;
use kallisto_command::outcome::Outcome;

/// Lines of a dump are gathered up to this many bytes.
const LINES_BYTES: usize = 64 << 10;

/// Read every file of a store and check all it says
///
/// Checksums of log and files, order, counts, bounds and filters. Names file and offset of
/// everything that is damaged, up to a thousand places; a damaged log stops it at once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto engine check kallisto-engine\n\n\
    Exit codes: 0 clean, 1 a mistake in the call or the store is in use, 2 damaged or unreadable")]
pub struct CheckArgs {
    /// Directory of the store
    #[arg(value_name = "DIR", value_parser = files::path)]
    dir: PathBuf,
}

/// Print what a store consists of
///
/// Files, bytes, entries and deletes of each level, and what is in the log and not yet in a file.
/// Entries count old versions that no compaction has dropped yet.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto engine stats kallisto-engine\n  \
    kallisto engine stats kallisto-engine --json\n\n\
    Exit codes: 0 done, 1 a mistake in the call or the store is in use, 2 damaged or unreadable")]
pub struct StatsArgs {
    /// Directory of the store
    #[arg(value_name = "DIR", value_parser = files::path)]
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Merge a store down to one level
///
/// Drops what was overwritten or deleted. Takes as much free space as the store is large.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto engine compact kallisto-engine\n\n\
    Exit codes: 0 done, 1 a mistake in the call or the store is in use, 2 damaged or failed")]
pub struct CompactArgs {
    /// Directory of the store
    #[arg(value_name = "DIR", value_parser = files::path)]
    dir: PathBuf,
}

/// Print every key and the size of its value
///
/// One line a key, in order: the key, a tab, the bytes of the value. Bytes that are not printable
/// ASCII are escaped. Values are never printed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto engine dump kallisto-engine\n  \
    kallisto engine dump numbers --keys u64 | head\n\n\
    Exit codes: 0 done, 1 a mistake in the call or the store is in use, 2 damaged or unreadable")]
pub struct DumpArgs {
    /// Directory of the store
    #[arg(value_name = "DIR", value_parser = files::path)]
    dir: PathBuf,
    /// What keys are
    #[arg(long, value_name = "KIND", value_enum, default_value = "bytes")]
    keys: KeyFormat,
}

impl CheckArgs {
    /// Checks; damage is a failure that names its place.
    pub(super) fn run(self) -> Result<Outcome, EngineFailure> {
        let mut damage = Vec::new();
        let report = open(&self.dir)?.check_all(|error| damage.push(error));
        if let Some(last) = damage.pop() {
            let before: String = damage.iter().map(|error| format!("{error}\n")).collect();
            let count = damage.len() + 1;
            let failure = Outcome::from(EngineFailure::from(last));
            let counted = format!("{count} damaged places; {} files are clean\n", report.files);
            return Ok(failure.with_notice(&(before + &counted)));
        }
        Ok(Outcome::line(format!(
            "clean: {} files, {} entries, {} bytes",
            report.files, report.entries, report.bytes
        )))
    }
}

impl StatsArgs {
    /// Prints the levels.
    pub(super) fn run(self) -> Result<Outcome, EngineFailure> {
        let stats = open(&self.dir)?.stats();
        Ok(Outcome::print(if self.json { json(&stats) } else { table(&stats) }))
    }
}

impl CompactArgs {
    /// Compacts and says what it brought.
    pub(super) fn run(self) -> Result<Outcome, EngineFailure> {
        let engine = open(&self.dir)?;
        // Not before: what is in the log only is no part of the files that are compared.
        engine.flush()?;
        let before = total(&engine.stats());
        engine.compact()?;
        let after = total(&engine.stats());
        engine.close()?;
        Ok(Outcome::line(format!(
            "{} files, {} entries, {} bytes before; {} files, {} entries, {} bytes after",
            before.files, before.entries, before.bytes, after.files, after.entries, after.bytes
        )))
    }
}

impl DumpArgs {
    /// Streams the keys to standard output.
    pub(super) fn run(self) -> Result<Outcome, EngineFailure> {
        let engine = open(&self.dir)?;
        kind::require_readable(&self.dir, self.keys)?;
        let mut out = io::stdout().lock();
        let mut scan = engine.scan(..)?;
        let mut lines = Vec::new();
        let mut reader = OutputReader::Listens;
        while let Some((key, value)) = scan.next_entry()? {
            if let Err(wrong) = self.keys.escape(key, &mut lines) {
                // What came before is right and is shown.
                write_out(&mut out, &mut lines)?;
                return Err(wrong.into());
            }
            lines.extend_from_slice(format!("\t{}\n", value.len()).as_bytes());
            if lines.len() >= LINES_BYTES {
                reader = write_out(&mut out, &mut lines)?;
            }
            if reader == OutputReader::Left {
                break;
            }
        }
        write_out(&mut out, &mut lines)?;
        Ok(Outcome::default())
    }
}

/// Whether somebody still reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputReader {
    Listens,
    /// It closed the pipe (`| head`): it has what it wanted.
    Left,
}

fn write_out(out: &mut impl Write, lines: &mut Vec<u8>) -> Result<OutputReader, EngineFailure> {
    let written = out.write_all(lines).and_then(|()| out.flush());
    lines.clear();
    match written {
        Ok(()) => Ok(OutputReader::Listens),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(OutputReader::Left),
        Err(error) => {
            Err(EngineFailure::mistake(format!("cannot write to standard output: {error}")))
        }
    }
}

/// Opens a store that is there already.
fn open(dir: &Path) -> Result<Engine, EngineFailure> {
    files::require_store(dir)?;
    Ok(Engine::open(RealDisk::shared(), dir, Options::default())?)
}

/// All levels together.
fn total(stats: &Stats) -> LevelStats {
    stats.levels.iter().fold(LevelStats::default(), |sum, level| LevelStats {
        files: sum.files + level.files,
        bytes: sum.bytes + level.bytes,
        entries: sum.entries + level.entries,
        deletes: sum.deletes + level.deletes,
    })
}

fn table(stats: &Stats) -> String {
    let row = |name: &str, level: &LevelStats| {
        let LevelStats { files, bytes, entries, deletes } = level;
        format!("{name:<8}{files:>8}{bytes:>16}{entries:>14}{deletes:>12}\n")
    };
    let mut text =
        format!("{:<8}{:>8}{:>16}{:>14}{:>12}\n", "level", "files", "bytes", "entries", "deletes");
    for (number, level) in stats.levels.iter().enumerate().filter(|(_, level)| level.files > 0) {
        text.push_str(&row(&format!("L{number}"), level));
    }
    text.push_str(&row("all", &total(stats)));
    text.push_str(&format!(
        "\nlog {} bytes   memory {} bytes   last commit {}\n",
        stats.wal_bytes_in_use, stats.memtable_bytes, stats.seqno
    ));
    text
}

/// One JSON object on a line; every level has its place, empty or not.
fn json(stats: &Stats) -> String {
    let level = |level: &LevelStats| {
        let LevelStats { files, bytes, entries, deletes } = level;
        format!(
            "{{\"files\":{files},\"bytes\":{bytes},\"entries\":{entries},\"deletes\":{deletes}}}"
        )
    };
    let levels: Vec<String> = stats.levels.iter().map(level).collect();
    format!(
        "{{\"levels\":[{}],\"all\":{},\"wal_bytes\":{},\"memtable_bytes\":{},\"seqno\":{}}}\n",
        levels.join(","),
        level(&total(stats)),
        stats.wal_bytes_in_use,
        stats.memtable_bytes,
        stats.seqno
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> Stats {
        let level = |files, bytes| LevelStats { files, bytes, entries: 3, deletes: 1 };
        let levels = vec![level(2, 10), LevelStats::default(), level(1, 20)];
        Stats { levels, wal_bytes_in_use: 5, memtable_bytes: 6, seqno: 7, ..Stats::default() }
    }

    #[test]
    fn the_table_shows_the_levels_that_have_files() {
        let text = table(&stats());
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["L0", "2", "10", "3", "1"]);
        assert_eq!(words[2], ["L2", "1", "20", "3", "1"]);
        assert_eq!(words[3], ["all", "3", "30", "6", "2"]);
        assert_eq!(text.lines().last(), Some("log 5 bytes   memory 6 bytes   last commit 7"));
    }

    #[test]
    fn the_json_shows_every_level() {
        let text = json(&stats());
        let empty = "{\"files\":0,\"bytes\":0,\"entries\":0,\"deletes\":0}";
        assert!(text.contains(empty) && text.ends_with("\"seqno\":7}\n"), "{text}");
        assert!(text.contains("\"all\":{\"files\":3,\"bytes\":30,\"entries\":6,\"deletes\":2}"));
    }
}
