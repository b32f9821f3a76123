//! Snapshots in a directory: written beside their names, synced, then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kallisto_core::{SnapshotSink, StoredSnapshot};

/// What the name of a file ends in that is not whole yet.
const UNFINISHED: &str = ".part";
/// Longest that who makes a file goes without writing to it.
const WRITE_PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 100_000;

struct LocalSink {
    file: File,
    unfinished: PathBuf,
    path: PathBuf,
    finished: bool,
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// Begins a file; what one that was cut short has left behind is removed. What was written to a moment ago is not left behind: another
/// cluster makes it, a copy of this one with the same schedules.
pub(super) fn create(directory: &str, name: &str) -> Result<Box<dyn SnapshotSink>, String> {
    let directory = Path::new(directory);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed(directory))?;
    let stem = name.rsplit_once('-').map_or(name, |(stem, _)| stem);
    let stem = stem.rsplit_once('-').map_or(stem, |(stem, _)| stem);
    for left in entries(directory, &format!("{stem}-"))? {
        let path = directory.join(&left.name);
        if left.name.ends_with(UNFINISHED) && is_left(&path) {
            fs::remove_file(&path).map_err(failed(&path))?;
        }
    }
    let unfinished = directory.join(format!("{name}{UNFINISHED}"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    #[expect(clippy::disallowed_methods, reason = "the process gives the core its disk")]
    let file = options.open(&unfinished).map_err(failed(&unfinished))?;
    let path = directory.join(name);
    Ok(Box::new(LocalSink { file, unfinished, path, finished: false }))
}

/// Whether nobody has written to a file for a while.
fn is_left(path: &Path) -> bool {
    let written = fs::metadata(path).and_then(|facts| facts.modified());
    // One that is gone, or of a time to come, is left where it is.
    written.is_ok_and(|written| written.elapsed().is_ok_and(|since| since >= WRITE_PAUSE_MAX))
}

impl SnapshotSink for LocalSink {
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.file.write_all(bytes).map_err(failed(&self.unfinished))
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        self.file.sync_all().map_err(failed(&self.unfinished))?;
        fs::rename(&self.unfinished, &self.path).map_err(failed(&self.path))?;
        self.finished = true;
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        #[expect(clippy::disallowed_methods, reason = "the process gives the core its disk")]
        let directory_file = File::open(directory).map_err(failed(directory))?;
        directory_file.sync_all().map_err(failed(directory))
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        if !self.finished {
            // The next one of this schedule removes it otherwise.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// The directory that a path leads to: links are followed as far as it is there, and the rest is as it is written.
pub(super) fn place(directory: &str) -> PathBuf {
    let written = Path::new(directory);
    let found = written.ancestors().find_map(|part| {
        let there = fs::canonicalize(part).ok()?;
        Some(there.join(written.strip_prefix(part).ok()?))
    });
    found.unwrap_or_else(|| written.to_owned())
}

pub(super) fn open(directory: &str, name: &str) -> Result<Box<dyn Read + Send>, String> {
    let path = Path::new(directory).join(name);
    #[expect(clippy::disallowed_methods, reason = "the process gives the core its disk")]
    let file = File::open(&path).map_err(failed(&path))?;
    Ok(Box::new(file))
}

pub(super) fn list(directory: &str, prefix: &str) -> Result<Vec<StoredSnapshot>, String> {
    let directory = Path::new(directory);
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let mut files = entries(directory, prefix)?;
    files.retain(|file| !file.name.ends_with(UNFINISHED));
    Ok(files)
}

fn entries(directory: &Path, prefix: &str) -> Result<Vec<StoredSnapshot>, String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))?.take(ENTRIES_MAX) {
        let entry = entry.map_err(failed(directory))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(facts) = entry.metadata() else { continue };
        if facts.is_file() && name.starts_with(prefix) {
            files.push(StoredSnapshot { name, bytes: facts.len() });
        }
    }
    Ok(files)
}

pub(super) fn delete(directory: &str, name: &str) -> Result<(), String> {
    let path = Path::new(directory).join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_file_goes_when_nobody_writes_to_it_any_more() {
        let directory =
            std::env::temp_dir().join(format!("kallisto-unfinished-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let [old, young, other] =
            ["p-20261127T120000Z-1", "p-20261129T115500Z-2", "q-20261127T120000Z-1"]
                .map(|name| directory.join(format!("{name}.snap.part")));
        #[expect(clippy::disallowed_methods, reason = "files of the test's own folder")]
        for (path, hours) in [(&old, 25), (&young, 0), (&other, 25)] {
            let file = File::create(path).unwrap();
            let now = std::time::SystemTime::now();
            file.set_modified(now - Duration::from_secs(hours * 3600)).unwrap();
        }
        let sink = create(directory.to_str().unwrap(), "p-20261129T120000Z-3.snap").unwrap();
        assert_eq!([&old, &young, &other].map(|path| path.exists()), [false, true, true]);
        sink.finish().unwrap();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_directory_is_the_same_by_its_links_and_before_it_is_there() {
        let root = std::env::temp_dir().join(format!("kallisto-places-{}", std::process::id()));
        let (real, link) = (root.join("real"), root.join("link"));
        fs::create_dir_all(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let place = |path: PathBuf| place(path.to_str().unwrap());
        assert_eq!(place(link.clone()), place(real.clone()));
        assert_eq!(place(link.join("later/there")), place(real.join("later/there")));
        assert_ne!(place(link.join("later")), place(real.join("other")));
        fs::remove_dir_all(root).unwrap();
    }
}
