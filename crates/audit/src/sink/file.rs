//! Records in a file: appended, never rewritten.
//!
//! Invariants:
//! - The file is ours alone: locked while it is open, and never one whose last line is not a record
//!   of ours, or whose only line does not begin as one. So a path that was mistaken, or chosen by somebody who may enable devices, harms no
//!   other file: in Vault, a chosen path led to the execution of code (CVE-2025-6000).
//! - A symbolic link in the last place of the path is not followed.
//! - A group is there whole or not at all: when a write fails, what it left is cut off again.
//! - A file that was removed is noticed before the next group, and made anew: records in an unlinked file are lost
//!   without anybody noticing.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::{LineGroup, Sink, lies_within};
use crate::anchor::Sought;
use crate::chain::{self, ChainHead};
use crate::limits::LINE_BYTES_MAX;

/// Bytes looked at first for the last line.
const TAIL_BYTES: u64 = 64 << 10;
/// Bytes looked at in the end: the longest line, and the newline before it.
const TAIL_BYTES_MAX: u64 = LINE_BYTES_MAX as u64 + 1;

pub(super) struct FileSink {
    path: PathBuf,
    mode: Option<u32>,
    /// What stands before every record.
    prefix: String,
    file: Option<File>,
}

/// Refuses a path that lies outside of `directories`, that is relative or that climbs.
///
/// # Errors
/// What is wrong with it.
pub fn check_path(path: &Path, directories: &[PathBuf]) -> Result<(), String> {
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(plain) || path.file_name().is_none() {
        return Err("file_path must be absolute, without . and ..".to_owned());
    }
    let known: Vec<PathBuf> =
        directories.iter().filter_map(|directory| directory.canonicalize().ok()).collect();
    let parent = path.parent().map(Path::canonicalize);
    match parent {
        Some(Ok(parent)) if lies_within(&parent, &known) => Ok(()),
        Some(Err(error)) if directories.iter().any(|directory| path.starts_with(directory)) => {
            Err(format!("the directory of file_path cannot be used: {}", error.kind()))
        }
        _ => Err(format!(
            "file_path is outside of the directories that audit_directories names: {}",
            directories.iter().map(|d| d.display().to_string()).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// The path with its directory resolved, where that is there.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

impl FileSink {
    pub(super) fn new(path: PathBuf, mode: Option<u32>) -> Self {
        Self { path, mode, prefix: String::new(), file: None }
    }

    pub(super) fn with_prefix(self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..self }
    }

    #[expect(clippy::disallowed_methods, reason = "the seam: audit files are opened here only")]
    fn open_file(&self) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(self.mode.unwrap_or(0o600))
            .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
            .open(&self.path)?;
        // A pipe or a device would take records and keep none.
        if !file.metadata()?.is_file() {
            return Err(no_regular_file());
        }
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            io::Error::new(ErrorKind::ResourceBusy, "another device or server writes it")
        })?;
        Ok(file)
    }
}

impl Sink for FileSink {
    fn open(&mut self) -> io::Result<Option<ChainHead>> {
        // The old file's lock has to go first: it may be the same file.
        self.file = None;
        let mut file = self.open_file()?;
        let head = recover(&mut file, &self.prefix, TAIL_BYTES_MAX)?;
        if let Some(mode) = self.mode
            && file.metadata()?.mode() & 0o777 != mode
        {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        self.file = Some(file);
        Ok(head)
    }

    fn seek(&mut self, seq: u64) -> io::Result<Sought> {
        let file = self.file.as_mut().ok_or(ErrorKind::NotConnected)?;
        seek_back(file, seq, TAIL_BYTES_MAX)
    }

    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        let mut file = self.file.take().ok_or(ErrorKind::NotConnected)?;
        let mut found = file.metadata()?;
        if found.nlink() == 0 {
            tracing::error!(path = %self.path.display(), "the audit file was removed; made anew");
            self.open()?;
            file = self.file.take().ok_or(ErrorKind::NotFound)?;
            found = file.metadata()?;
        }
        let before = found.len();
        match (&file).write_all(group.bytes) {
            Ok(()) => {
                self.file = Some(file);
                Ok(())
            }
            Err(error) => {
                // The file stays closed either way; opening cuts a torn line off as well.
                if let Err(error) = file.set_len(before) {
                    tracing::error!(%error, "a group that was cut short stays in the audit file");
                }
                Err(error)
            }
        }
    }
}

/// Whether a file that is there could be gone on with. It is left as it is, and not locked, so that a server may be writing it.
pub(super) fn check_file(path: &Path, prefix: &str) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::APPEND;
    let mut file = File::from(rustix::fs::open(path, flags | OFlags::RDWR, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(no_regular_file());
    }
    last_record(&mut file, prefix, TAIL_BYTES_MAX).map(drop)
}

/// The last record of a file. A torn line behind it, which nobody was answered for, is cut off.
fn recover(file: &mut File, prefix: &str, tail_bytes_max: u64) -> io::Result<Option<ChainHead>> {
    let (head, whole) = last_record(file, prefix, tail_bytes_max)?;
    cut(file, whole, file.metadata()?.len())?;
    Ok(head)
}

/// The last record of a file, which is looked for in that many bytes at its end, and where it ends.
fn last_record(
    file: &mut File,
    prefix: &str,
    tail_bytes_max: u64,
) -> io::Result<(Option<ChainHead>, u64)> {
    let len = file.metadata()?.len();
    let mut window = TAIL_BYTES;
    loop {
        let start = len.saturating_sub(window);
        let tail = read_from(file, start, len)?;
        let Some(end) = tail.iter().rposition(|&byte| byte == b'\n') else {
            if start > 0 && window < tail_bytes_max {
                window = (window * 8).min(tail_bytes_max);
                continue;
            }
            if start > 0 || !chain::begins_a_record(&tail, prefix) {
                return Err(not_ours());
            }
            return Ok((None, 0));
        };
        let line = &tail[..end];
        let begin = line.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if begin == 0 && start > 0 && window < tail_bytes_max {
            window = (window * 8).min(tail_bytes_max);
            continue;
        }
        let links = chain::read(&line[begin..]).filter(|links| links.sound).ok_or_else(not_ours)?;
        return Ok((Some(links.head), start + end as u64 + 1));
    }
}

/// Cuts off what stands behind the last whole line.
fn cut(file: &File, whole: u64, len: u64) -> io::Result<()> {
    if whole < len {
        tracing::warn!(bytes = len - whole, "cut a torn line off the audit file");
        file.set_len(whole)?;
    }
    Ok(())
}

/// Looks for a record from the end of a file backwards, as far as numbers go down to it and no line is longer than `line_bytes_max`.
fn seek_back(file: &mut File, seq: u64, line_bytes_max: u64) -> io::Result<Sought> {
    let mut end = file.metadata()?.len();
    let (mut window, mut newest) = (TAIL_BYTES, None);
    while end > 0 {
        let start = end.saturating_sub(window);
        let bytes = read_from(file, start, end)?;
        // What the window begins with may be a part of a line.
        let whole = match start {
            0 => 0,
            _ => bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1),
        };
        let lines = bytes[whole..].split(|&byte| byte == b'\n').rev();
        for line in lines.filter(|line| !line.is_empty()) {
            let Some(links) = chain::read(line).filter(|links| links.sound) else {
                return Ok(Sought::Absent);
            };
            newest = newest.or_else(|| chain::time(line));
            if links.head.seq == seq {
                let passed = newest.zip(chain::time(line));
                let newest_secs =
                    passed.map_or(0, |(newest, time)| newest.as_second() - time.as_second());
                return Ok(Sought::Found { head: links.head, newest_secs });
            }
            if links.head.seq < seq {
                return Ok(Sought::Absent);
            }
        }
        if whole < bytes.len() {
            (end, window) = (start + whole as u64, TAIL_BYTES);
        } else if window >= line_bytes_max {
            break;
        } else {
            window = (window * 8).min(line_bytes_max);
        }
    }
    Ok(Sought::Absent)
}

fn read_from(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(end - start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn no_regular_file() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is no regular file")
}

fn not_ours() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        "the file exists and does not end with an audit record of this server: move it away",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("kallisto-audit-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn lines(mut head: ChainHead, count: usize) -> (Vec<u8>, Vec<usize>, ChainHead) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for at in 0..count {
            let start = bytes.len();
            bytes.extend_from_slice(format!("{{\"time\":\"{at}\"").as_bytes());
            head = head.link(start, &mut bytes);
            ends.push(bytes.len());
        }
        (bytes, ends, head)
    }

    #[expect(clippy::disallowed_methods, reason = "the test looks at the file from outside")]
    fn content(path: &Path) -> Vec<u8> {
        std::fs::read(path).unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "the test prepares the file from outside")]
    fn put(path: &Path, bytes: &[u8]) {
        std::fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_file_goes_on_where_it_ended_and_loses_a_torn_line() {
        let scratch = Scratch::new("torn");
        let path = scratch.0.join("a.log");
        let (bytes, ends, head) = lines(ChainHead::default(), 3);
        let mut sink = FileSink::new(path.clone(), Some(0o640));
        assert_eq!(sink.open().unwrap(), None);
        sink.write(&LineGroup { bytes: &bytes, ends: &ends }).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
        for torn in 0..40 {
            drop(sink.file.take());
            put(&path, &[&bytes[..], &bytes[..torn]].concat());
            assert_eq!(sink.open().unwrap(), Some(head), "{torn}");
            assert_eq!(content(&path), bytes, "{torn}");
        }
    }

    /// The file was made, and power failed before the first record was whole.
    #[test]
    fn a_torn_first_record_is_cut_off() {
        let scratch = Scratch::new("torn-first");
        let path = scratch.0.join("a.log");
        let record = br#"{"time":"2026-11-29T10:00:00.5Z","type":"request","auth":{"policies":[]}"#;
        for prefix in ["", "@cee: "] {
            let mut line = [prefix.as_bytes(), record].concat();
            let head = ChainHead::default().link(0, &mut line);
            let mut sink = FileSink::new(path.clone(), None).with_prefix(prefix);
            for torn in 0..line.len() {
                put(&path, &line[..torn]);
                assert_eq!(sink.open().unwrap(), None, "{torn}");
                assert_eq!(content(&path), b"", "{torn}");
            }
            put(&path, &line);
            assert_eq!(sink.open().unwrap(), Some(head));
        }
        let other = b"@cee: {\"time\":\"2026";
        put(&path, other);
        FileSink::new(path.clone(), None).open().unwrap_err();
        assert_eq!(content(&path), other, "of a device with another prefix");
    }

    #[test]
    fn long_records_are_found_at_the_end() {
        let scratch = Scratch::new("long");
        let path = scratch.0.join("a.log");
        let mut bytes = Vec::new();
        let mut head = ChainHead::default();
        for _ in 0..2 {
            let start = bytes.len();
            bytes.resize(start + 300_000, b'x');
            head = head.link(start, &mut bytes);
        }
        put(&path, &bytes);
        assert_eq!(FileSink::new(path, None).open().unwrap(), Some(head));
    }

    #[test]
    fn a_record_is_found_from_the_end_however_long_lines_are() {
        let scratch = Scratch::new("seek");
        let path = scratch.0.join("a.log");
        let (mut bytes, mut head, mut heads) =
            (Vec::new(), ChainHead { seq: 4, hash: [1; 32] }, vec![]);
        for long in [10, 70_000, 3, 200_000, 1, 600_000, 20, 20] {
            let start = bytes.len();
            bytes.resize(start + long, b'x');
            head = head.link(start, &mut bytes);
            heads.push(head);
        }
        put(&path, &bytes);
        let mut sink = FileSink::new(path.clone(), None);
        sink.open().unwrap();
        for head in heads {
            assert_eq!(sink.seek(head.seq).unwrap(), Sought::Found { head, newest_secs: 0 });
        }
        assert_eq!(sink.seek(4).unwrap(), Sought::Absent);
        assert_eq!(sink.seek(13).unwrap(), Sought::Absent);
        std::fs::remove_file(&path).unwrap();
        sink.open().unwrap();
        assert_eq!(sink.seek(5).unwrap(), Sought::Absent);
    }

    /// What stands for the longest record where a file has to be longer than that.
    const TAIL_MAX: u64 = 1 << 20;

    #[expect(clippy::disallowed_methods, reason = "the test opens the file as a device does")]
    fn opened(path: &Path) -> File {
        OpenOptions::new().read(true).append(true).open(path).unwrap()
    }

    #[test]
    fn no_more_of_a_file_is_looked_through_than_the_longest_record_may_have() {
        let scratch = Scratch::new("tail");
        let path = scratch.0.join("a.log");
        for end in ["", "\n"] {
            put(&path, &[&vec![b'x'; 3 << 20], end.as_bytes()].concat());
            let error = recover(&mut opened(&path), "", TAIL_MAX).unwrap_err();
            assert!(error.to_string().contains("move it away"), "{error}");
        }
        let (mut bytes, _, first) = lines(ChainHead::default(), 1);
        let start = bytes.len();
        bytes.resize(start + (2 << 20), b'x');
        let last = first.link(start, &mut bytes);
        put(&path, &bytes);
        let mut file = opened(&path);
        assert_eq!(seek_back(&mut file, first.seq, TAIL_MAX).unwrap(), Sought::Absent);
        let found = seek_back(&mut file, first.seq, 4 * TAIL_MAX).unwrap();
        assert_eq!(found, Sought::Found { head: first, newest_secs: 0 });
        assert_eq!(recover(&mut file, "", 4 * TAIL_MAX).unwrap(), Some(last));
    }

    #[test]
    fn a_record_is_found_behind_more_bytes_than_the_longest_has() {
        let scratch = Scratch::new("seek-far");
        let path = scratch.0.join("a.log");
        let (mut bytes, mut head, mut heads) = (Vec::new(), ChainHead::default(), vec![]);
        for _ in 0..12 {
            let start = bytes.len();
            bytes.resize(start + 200_000, b'x');
            head = head.link(start, &mut bytes);
            heads.push(head);
        }
        assert!(bytes.len() as u64 > 2 * TAIL_MAX);
        put(&path, &bytes);
        let mut file = opened(&path);
        for head in heads {
            let found = seek_back(&mut file, head.seq, TAIL_MAX).unwrap();
            assert_eq!(found, Sought::Found { head, newest_secs: 0 });
        }
    }

    #[test]
    fn a_record_is_not_looked_for_in_a_chain_before_the_last_one() {
        let scratch = Scratch::new("two-chains");
        let path = scratch.0.join("a.log");
        let ((first, ..), (second, _, last)) =
            (lines(ChainHead::default(), 7), lines(ChainHead::default(), 3));
        put(&path, &[first, second].concat());
        let mut sink = FileSink::new(path, None);
        assert_eq!(sink.open().unwrap(), Some(last));
        assert_eq!(sink.seek(5).unwrap(), Sought::Absent);
        assert!(matches!(sink.seek(2).unwrap(), Sought::Found { .. }));
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let scratch = Scratch::new("others");
        let path = scratch.0.join("a.log");
        let (bytes, ..) = lines(ChainHead::default(), 1);
        let mut edited = bytes;
        edited[9] ^= 1;
        for other in [
            &b"x"[..],
            b"{}\n",
            b"#!/bin/sh\n",
            &edited,
            br#"{"time":1}"#,
            br#"{"time":"noon","type":"request"}"#,
            br#"{"time":"2026-11-29T10:00:00Z","level":"info"}"#,
            br#"{"time":"2026-11-29T10:00:00Z","type":"event","id":1}"#,
        ] {
            put(&path, other);
            let error = FileSink::new(path.clone(), None).open().unwrap_err();
            assert!(error.to_string().contains("move it away"), "{error}");
            assert_eq!(content(&path), other);
        }
    }

    #[test]
    fn links_devices_and_files_in_use_are_refused() {
        let scratch = Scratch::new("links");
        let (path, link) = (scratch.0.join("a.log"), scratch.0.join("link.log"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(FileSink::new(link, None).open().is_err());
        assert!(FileSink::new("/dev/full".into(), None).open().is_err());
        let mut first = FileSink::new(path.clone(), None);
        first.open().unwrap();
        let error = FileSink::new(path, None).open().unwrap_err();
        assert!(error.to_string().contains("another device"), "{error}");
        assert_eq!(first.open().unwrap(), None);
    }

    #[test]
    fn a_removed_file_is_noticed_and_made_anew() {
        let scratch = Scratch::new("removed");
        let path = scratch.0.join("a.log");
        let mut sink = FileSink::new(path.clone(), None);
        sink.open().unwrap();
        let (bytes, ends, _) = lines(ChainHead::default(), 1);
        let group = LineGroup { bytes: &bytes, ends: &ends };
        sink.write(&group).unwrap();
        std::fs::remove_file(&path).unwrap();
        sink.write(&group).unwrap();
        assert_eq!(content(&path), bytes);
        // Replaced by another: noticed as well, since the old one has no name any more.
        let other = scratch.0.join("b.log");
        put(&other, b"");
        std::fs::rename(&other, &path).unwrap();
        sink.write(&group).unwrap();
        assert_eq!(content(&path), bytes);
    }

    #[test]
    fn paths_are_confined() {
        let scratch = Scratch::new("confined");
        let inside = scratch.0.join("in");
        std::fs::create_dir(&inside).unwrap();
        let out = scratch.0.join("out");
        std::os::unix::fs::symlink(&scratch.0, inside.join("up")).unwrap();
        let directories = [inside.clone(), scratch.0.join("missing")];
        assert_eq!(check_path(&inside.join("a.log"), &directories), Ok(()));
        for (path, why) in [
            (out, "outside"),
            (scratch.0.join("nowhere/a.log"), "outside"),
            (inside.join("../a.log"), "without . and .."),
            (inside.join("up/a.log"), "outside"),
            (inside.join("none/a.log"), "cannot be used"),
            (scratch.0.join("missing/a.log"), "cannot be used"),
            ("a.log".into(), "absolute"),
            ("/".into(), "absolute"),
        ] {
            let error = check_path(&path, &directories).unwrap_err();
            assert!(error.contains(why), "{}: {error}", path.display());
        }
    }

    #[test]
    fn a_torn_line_is_cut_off_however_long_it_is() {
        let scratch = Scratch::new("long-torn");
        let path = scratch.0.join("a.log");
        let (bytes, _, head) = lines(ChainHead::default(), 3);
        for torn in [70_000, 600_000] {
            put(&path, &[&bytes[..], &vec![b'x'; torn]].concat());
            assert_eq!(FileSink::new(path.clone(), None).open().unwrap(), Some(head), "{torn}");
            assert_eq!(content(&path), bytes, "{torn}");
        }
        put(&path, &vec![b'x'; 70_000]);
        assert!(FileSink::new(path, None).open().is_err(), "there is no line of ours");
    }

    #[test]
    fn a_file_has_the_permissions_that_were_asked_for_whatever_it_had() {
        let scratch = Scratch::new("mode");
        let path = scratch.0.join("a.log");
        let mode_with = |mode| {
            FileSink::new(path.clone(), mode).open().unwrap();
            path.metadata().unwrap().mode() & 0o777
        };
        // What is made without them has fewer, by the mask of the process.
        assert_eq!(mode_with(Some(0o666)), 0o666);
        assert_eq!(mode_with(Some(0o600)), 0o600);
        assert_eq!(mode_with(None), 0o600, "as it is");
    }

    #[test]
    fn a_file_is_the_same_by_every_path_to_its_directory() {
        let scratch = Scratch::new("resolved");
        let real = scratch.0.canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, scratch.0.join("link")).unwrap();
        assert_eq!(resolved(&scratch.0.join("link/a.log")), real.join("a.log"));
        let nowhere = scratch.0.join("nowhere/a.log");
        assert_eq!(resolved(&nowhere), nowhere);
    }
}
