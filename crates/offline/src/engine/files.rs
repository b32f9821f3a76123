//! The disk seam of the engine commands: the files of commands and of answers.
//!
//! They are streamed and may be larger than memory, so they do not go through
//! [`kallisto_command::files`], which reads whole and bounded ones. `-` is standard input or output.
//! The store's own files are the business of `kallisto-lsm`; here it is only asked whether there
//! is a store, because opening one would make it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kallisto_lsm::disk::{Disk, RealDisk};

use super::failure::EngineFailure;

/// What stands for standard input or output.
const STANDARD: &str = "-";
/// How the names of files end that only a store has.
const STORE_FILES: [&str; 4] = ["CURRENT", ".wal", ".sst", ".manifest"];

/// Where commands come from.
pub(crate) struct CommandInput {
    /// The bytes.
    pub(crate) from: Box<dyn Read>,
    /// What messages call it.
    pub(crate) name: String,
    /// Its length in bytes, if it is a file.
    pub(crate) bytes: Option<u64>,
}

/// Opens the file of commands.
pub(super) fn open_source(path: &Path) -> Result<CommandInput, EngineFailure> {
    if path == Path::new(STANDARD) {
        let from = Box::new(io::stdin());
        return Ok(CommandInput { from, name: "standard input".to_owned(), bytes: None });
    }
    let name = path.display().to_string();
    let refuse = |error| EngineFailure::mistake(format!("cannot read {name}: {error}"));
    #[expect(clippy::disallowed_methods, reason = "this is the disk seam of the engine commands")]
    let file = File::open(path).map_err(refuse)?;
    let metadata = file.metadata().map_err(refuse)?;
    if metadata.is_dir() {
        return Err(EngineFailure::mistake(format!("cannot read {name}: it is a directory")));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok(CommandInput { from: Box::new(file), name, bytes })
}

/// Opens the file of answers and empties it.
pub(super) fn create_sink(path: &Path) -> Result<Box<dyn Write>, EngineFailure> {
    if path == Path::new(STANDARD) {
        return Ok(Box::new(io::stdout()));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[expect(clippy::disallowed_methods, reason = "this is the disk seam of the engine commands")]
    let file = options.open(path);
    match file {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => {
            Err(EngineFailure::mistake(format!("cannot write {}: {error}", path.display())))
        }
    }
}

/// Refuses to write answers over the commands, by whatever names the file goes.
pub(super) fn refuse_same(commands: &Path, answers: &Path) -> Result<(), EngineFailure> {
    let plain = |path: &Path| std::fs::metadata(path).ok().filter(Metadata::is_file);
    let (Some(one), Some(other)) = (plain(commands), plain(answers)) else { return Ok(()) };
    if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Err(EngineFailure::mistake("the input and the output are the same file"));
    }
    Ok(())
}

/// Refuses a directory without a store: a command that only looks must not make one.
pub(super) fn require_store(dir: &Path) -> Result<(), EngineFailure> {
    let names = RealDisk.list(dir).map_err(|error| {
        EngineFailure::mistake(format!("cannot read {}: {error}", dir.display()))
    })?;
    let ours = |name: &String| STORE_FILES.iter().any(|end| name.ends_with(end));
    if names.iter().any(ours) {
        return Ok(());
    }
    Err(EngineFailure::mistake(format!("no store in {}", dir.display())))
}

/// The path behind an argument; a flag's value and a positional one alike.
pub(crate) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a path is empty".to_owned()) } else { Ok(PathBuf::from(text)) }
}
