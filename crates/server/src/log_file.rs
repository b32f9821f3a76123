//! The log in a file, besides standard error, and when its next file begins (`log_file`, `log_rotate_*`).
//!
//! The file that is written has the name that was configured; older ones have the time at which they were put aside in it, as Vault names
//! them: `kallisto-1764000000000000000.log`. Only files of such names are ever deleted.
//!
//! Invariants:
//! - A line is whole, in one file.
//! - A file that cannot be written keeps no request waiting and no event from standard error: that is told there, once.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use kallisto_command::error::Error;
use kallisto_core::LogForm;
use kallisto_listener::{SystemClock, WallClock};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::config::{LogFile, LogFormat};
use super::log_line::LogLine;

/// Mode of the file: others learn nothing of paths and addresses.
const MODE: u32 = 0o640;

/// A file of the log that is written.
pub(super) struct LogFileWriter {
    settings: LogFile,
    /// Bytes that are in it.
    bytes: u64,
    began: Timestamp,
    file: File,
    has_failed: bool,
}

impl LogFileWriter {
    /// Opens the file, or goes on in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn open(settings: &LogFile) -> Result<Self, Error> {
        let failed = |error: io::Error| {
            Error::usage(format!("log_file {}: {error}", settings.path.display()))
        };
        let (file, bytes) = append_to(&settings.path).map_err(failed)?;
        let began = SystemClock.now();
        Ok(Self { settings: settings.clone(), bytes, began, file, has_failed: false })
    }

    fn write(&mut self, line: &str, now: Timestamp) {
        let written =
            self.rotate_if_due(line.len(), now).and_then(|()| self.file.write_all(line.as_bytes()));
        match written {
            Ok(()) => self.bytes += line.len() as u64,
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                let path = self.settings.path.display();
                let _ =
                    writeln!(io::stderr(), "log_file {path}: {error}: the log goes on without it");
            }
            Err(_) => {}
        }
    }

    /// Begins the next file when this one is full or old enough.
    fn rotate_if_due(&mut self, more: usize, now: Timestamp) -> io::Result<()> {
        let is_full = |max: u64| self.bytes > 0 && self.bytes + more as u64 > max;
        let age = now.duration_since(self.began).unsigned_abs();
        if !self.settings.bytes_max.is_some_and(is_full) && age < self.settings.period {
            return Ok(());
        }
        // By now the process makes files for its own user alone; who may read the log is not changed by that.
        let permissions = self.file.metadata()?.permissions();
        let (stem, extension) = split(&self.settings.path);
        let aside = format!("{stem}-{}{extension}", now.as_nanosecond());
        match std::fs::rename(&self.settings.path, self.settings.path.with_file_name(aside)) {
            // Somebody else put it aside, as logrotate does.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        (self.file, self.bytes) = append_to(&self.settings.path)?;
        self.file.set_permissions(permissions)?;
        self.began = now;
        self.delete_old()
    }

    /// Deletes the oldest of the files that were put aside, until as many are left as are to be kept.
    fn delete_old(&self) -> io::Result<()> {
        let Some(kept) = self.settings.kept else { return Ok(()) };
        let mut old = put_aside(&self.settings.path)?;
        old.sort();
        let surplus = old.len().saturating_sub(kept);
        old.into_iter().take(surplus).try_for_each(|(_, path)| std::fs::remove_file(path))
    }
}

/// Name and extension of a file of the log, the latter with its dot.
fn split(path: &Path) -> (String, String) {
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = match text(path.extension()) {
        none if none.is_empty() => none,
        some => format!(".{some}"),
    };
    (text(path.file_stem()), extension)
}

/// The files that were put aside, with the time of each.
fn put_aside(path: &Path) -> io::Result<Vec<(u128, PathBuf)>> {
    let (stem, extension) = split(path);
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let middle =
            name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
        if let Some(time) = middle.and_then(|middle| middle.parse().ok()) {
            found.push((time, path));
        }
    }
    Ok(found)
}

#[expect(clippy::disallowed_methods, reason = "the log is a file of the process's own")]
fn append_to(path: &Path) -> io::Result<(File, u64)> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().append(true).create(true).mode(MODE).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// Writes every event to a file, a line each.
pub(super) struct FileLines {
    file: Mutex<LogFileWriter>,
    form: LogForm,
}

impl FileLines {
    /// Lines in a format.
    pub(super) fn new(file: LogFileWriter, format: LogFormat) -> Self {
        let form = match format {
            LogFormat::Standard => LogForm::Standard,
            LogFormat::Json => LogForm::Json,
        };
        Self { file: Mutex::new(file), form }
    }
}

impl<S: Subscriber> Layer<S> for FileLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let now = SystemClock.now();
        let text = LogLine::of(event, now).to_text(self.form);
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write(&text, now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A folder that goes with its test.
    struct TestFolder(PathBuf);

    impl TestFolder {
        fn new() -> Self {
            static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let number = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let name = format!("kallisto-log-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    fn writer(folder: &Path, bytes_max: Option<u64>, kept: Option<usize>) -> LogFileWriter {
        let path = folder.join("k.log");
        let settings = LogFile { path, bytes_max, period: Duration::from_secs(60), kept };
        let mut writer = LogFileWriter::open(&settings).unwrap_or_else(|_| panic!("not opened"));
        writer.began = at(0);
        writer
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a file of the test's own folder")]
    fn a_file_that_is_full_or_old_is_put_aside_and_the_oldest_go() {
        let folder = TestFolder::new();
        std::fs::write(folder.0.join("k-mine.log"), "x").unwrap();
        let mut writer = writer(&folder.0, Some(20), Some(2));
        for secs in 1..=8 {
            writer.write("0123456789\n", at(secs));
        }
        let old = put_aside(&folder.0.join("k.log")).unwrap();
        assert_eq!(old.len(), 2, "{old:?}");
        writer.write("0123456789\n", at(9));
        assert!(folder.0.join("k-mine.log").exists(), "it is nobody's");
        let read = std::fs::read_to_string(folder.0.join("k.log")).unwrap();
        assert_eq!(read, "0123456789\n");
        writer.write("late\n", at(9 + 61));
        assert_eq!(std::fs::read_to_string(folder.0.join("k.log")).unwrap(), "late\n");
        assert!(!writer.has_failed);
    }

    #[test]
    fn a_log_goes_on_where_it_ended_and_keeps_all_unless_told_otherwise() {
        let folder = TestFolder::new();
        writer(&folder.0, None, None).write("one\n", at(1));
        writer(&folder.0, None, None).write("two\n", at(2));
        let path = folder.0.join("k.log");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        let mut writer = writer(&folder.0, Some(1), None);
        (3..9).for_each(|secs| writer.write("x\n", at(secs)));
        assert_eq!(put_aside(&path).unwrap().len(), 6);
    }

    #[test]
    fn a_log_goes_on_after_somebody_else_put_its_file_aside() {
        let folder = TestFolder::new();
        let path = folder.0.join("k.log");
        let mut writer = writer(&folder.0, None, None);
        writer.write("one\n", at(1));
        std::fs::rename(&path, folder.0.join("k.log.1")).unwrap();
        writer.write("two\n", at(61));
        assert!(!writer.has_failed);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(std::fs::read_to_string(folder.0.join("k.log.1")).unwrap(), "one\n");
    }

    #[test]
    fn the_next_file_has_the_mode_of_the_one_before() {
        use std::os::unix::fs::PermissionsExt;
        let folder = TestFolder::new();
        let path = folder.0.join("k.log");
        let mut writer = writer(&folder.0, None, None);
        // So that a program may read it which sends it elsewhere.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        writer.write("late\n", at(61));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(put_aside(&path).unwrap().len(), 1);
    }
}
