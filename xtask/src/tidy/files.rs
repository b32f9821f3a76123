//! The text files of the tree, read once.

use std::fs;
use std::io;
use std::path::Path;

/// Folders that hold nothing we wrote: builds, git's own, corpora and finds of the fuzzer.
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "failures", "node_modules"];
/// Endings of the files that are read.
const ENDINGS: [&str; 6] = ["rs", "toml", "md", "sh", "txt", "lock"];
/// Deepest nesting of folders.
const DEPTH_MAX: usize = 16;

/// A file: its path from the root with `/` between the parts, and its text.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

/// Every text file below `root`, sorted by path.
pub(super) fn read(root: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    visit(root, "", 0, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn visit(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<File>) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other(format!("folders nest deeper than {DEPTH_MAX} at {prefix}")));
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            visit(&entry.path(), &format!("{path}/"), depth + 1, files)?;
        } else if kind.is_file() && is_text(&name) {
            files.push(File { path, text: fs::read_to_string(entry.path())? });
        }
    }
    Ok(())
}

fn is_text(name: &str) -> bool {
    name == "run" || name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}
