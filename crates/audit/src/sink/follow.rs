//! Reading an audit file forwards while its device writes it, for who follows or verifies it.
//!
//! Whole lines only: what is behind the last newline waits for the rest. A file that was moved away is read on until its device writes the one
//! in its place: the device opens that at its next `SIGHUP`, and writes the moved one until then, whether the other exists already or not. So an
//! empty file in its place is waited for, and the moved one is looked at until the other has grown. A reader takes no lock.
//!
//! Invariants:
//! - One call reads no more than [`BLOCK_BYTES`], and keeps no more than one line of each of two files besides.
//! - A file that became shorter than what was read of it is an error: lines were lost.
//! - No line is passed over, whenever the file was moved and whatever was put in its place.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::look::open_to_read;
use crate::limits::LINE_BYTES_MAX;

/// Bytes read at once.
pub const BLOCK_BYTES: usize = 256 << 10;

/// The lines of a file, the first one first.
#[derive(Debug)]
pub struct LinesAhead {
    path: PathBuf,
    current: OpenFile,
    /// The file that was moved away, as long as its device may write it.
    moved: Option<MovedFile>,
}

/// A file that is read.
#[derive(Debug)]
struct OpenFile {
    file: File,
    /// Device and inode of the file.
    identity: (u64, u64),
    /// Bytes that were read of it.
    at: u64,
    /// The beginning of a line whose end is not there yet.
    rest: Vec<u8>,
}

#[derive(Debug)]
struct MovedFile {
    file: OpenFile,
    /// Whether the one in its place was read to its end.
    is_at_end: bool,
    /// Whether that one has grown since: its device writes there.
    has_successor: bool,
}

impl LinesAhead {
    /// Opens a file at its first line.
    ///
    /// # Errors
    /// What the operating system says, and [`ErrorKind::InvalidInput`] when it is no regular file.
    pub fn from_start(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), current: OpenFile::open(path)?, moved: None })
    }

    /// Opens a file behind its last whole line.
    ///
    /// # Errors
    /// As [`LinesAhead::from_start`].
    pub fn from_end(path: &Path) -> io::Result<Self> {
        let mut lines = Self::from_start(path)?;
        let current = &mut lines.current;
        let len = current.file.metadata()?.len();
        current.at = last_line_end(&mut current.file, len)?;
        current.file.seek(SeekFrom::Start(current.at))?;
        Ok(lines)
    }

    /// Bytes of lines whose ends are not there yet.
    pub fn kept_bytes(&self) -> usize {
        let moved = self.moved.as_ref().map_or(0, |moved| moved.file.rest.len());
        self.current.rest.len() + moved
    }

    /// The next whole lines, each with its newline; `None` when there are none yet.
    ///
    /// # Errors
    /// What reading says; [`ErrorKind::UnexpectedEof`] for a file that was cut, [`ErrorKind::InvalidData`] for a line without an end.
    pub fn next_lines(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(lines) = self.current.read()? {
            if let Some(moved) = &mut self.moved {
                moved.has_successor |= moved.is_at_end;
            }
            return Ok(Some(lines));
        }
        if self.current.file.metadata()?.len() < self.current.at {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if let Some(moved) = &mut self.moved {
            if let Some(late) = moved.file.read()? {
                return Ok(Some(late));
            }
            moved.is_at_end = true;
            if moved.has_successor {
                self.moved = None;
            }
        }
        self.turn_over()
    }

    /// At the end of the file: goes on with the one in its place once there is a record in that.
    fn turn_over(&mut self) -> io::Result<Option<Vec<u8>>> {
        let next = match OpenFile::open(&self.path) {
            Ok(next) => next,
            // Moved away, and nothing is in its place yet.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if next.identity == self.current.identity || next.file.metadata()?.len() == 0 {
            return Ok(None);
        }
        let file = std::mem::replace(&mut self.current, next);
        // Lines may have been written to it between the last read and the first record of the other.
        let mut moved = MovedFile { file, is_at_end: false, has_successor: false };
        let late = moved.file.read()?.unwrap_or_default();
        self.moved = Some(moved);
        Ok(Some(late))
    }
}

impl OpenFile {
    fn open(path: &Path) -> io::Result<Self> {
        let (file, metadata) = open_to_read(path)?;
        Ok(Self { file, identity: (metadata.dev(), metadata.ino()), at: 0, rest: Vec::new() })
    }

    /// The next whole lines, which are empty within a long one; `None` at the end.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut block = std::mem::take(&mut self.rest);
        let kept = block.len();
        let read = self.file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        self.at += read as u64;
        if read == 0 {
            self.rest = block;
            return Ok(None);
        }
        match block[kept..].iter().rposition(|&byte| byte == b'\n') {
            Some(end) => {
                self.rest = block.split_off(kept + end + 1);
                Ok(Some(block))
            }
            None if block.len() > LINE_BYTES_MAX => Err(ErrorKind::InvalidData.into()),
            None => {
                self.rest = block;
                Ok(Some(Vec::new()))
            }
        }
    }
}

/// Where the last whole line of a file ends.
fn last_line_end(file: &mut File, len: u64) -> io::Result<u64> {
    let mut end = len;
    let mut block = vec![0; BLOCK_BYTES];
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES as u64);
        let bytes = usize::try_from(end - start).map_err(io::Error::other)?;
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block[..bytes])?;
        if let Some(at) = block[..bytes].iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests write the files that are read")]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("kallisto-follow-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn append(path: &Path, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Everything that is there now.
    fn all(lines: &mut LinesAhead) -> String {
        let mut text = Vec::new();
        while let Some(more) = lines.next_lines().unwrap() {
            text.extend(more);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn lines_come_whole_and_once_from_the_start_and_from_the_end() {
        let folder = folder("whole");
        let path = folder.join("audit.log");
        append(&path, "one\ntwo\nhal");
        let (mut first, mut last) =
            (LinesAhead::from_start(&path).unwrap(), LinesAhead::from_end(&path).unwrap());
        assert_eq!((all(&mut first), all(&mut last)), ("one\ntwo\n".to_owned(), String::new()));
        append(&path, "f\nthree\n");
        assert_eq!(all(&mut first), "half\nthree\n");
        assert_eq!(all(&mut last), "half\nthree\n");
        let long = "x".repeat(3 * BLOCK_BYTES);
        append(&path, &long);
        assert_eq!(all(&mut first), "");
        append(&path, "\n");
        assert_eq!(all(&mut first), format!("{long}\n"));
        fs::remove_dir_all(folder).unwrap();
    }

    /// A listing of a million names is such a record.
    #[test]
    fn a_line_is_waited_for_as_long_as_a_device_may_write_one() {
        const LONG: usize = 80 << 20;
        let folder = folder("longest");
        let path = folder.join("audit.log");
        append(&path, "");
        // A hole, which costs no disk.
        OpenOptions::new().write(true).open(&path).unwrap().set_len(LONG as u64).unwrap();
        append(&path, "\nshort\n");
        let mut lines = LinesAhead::from_start(&path).unwrap();
        let mut found = 0;
        while let Some(more) = lines.next_lines().unwrap() {
            found += more.len();
        }
        assert_eq!(found, LONG + "\nshort\n".len());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_was_moved_is_read_to_its_end_and_then_the_one_in_its_place() {
        let folder = folder("moved");
        let path = folder.join("audit.log");
        append(&path, "one\n");
        let mut lines = LinesAhead::from_start(&path).unwrap();
        assert_eq!(all(&mut lines), "one\n");
        let aside = folder.join("audit.log.1");
        fs::rename(&path, &aside).unwrap();
        append(&aside, "two\n");
        assert_eq!(all(&mut lines), "two\n");
        append(&path, "three\n");
        assert_eq!(all(&mut lines), "three\n");
        fs::remove_dir_all(folder).unwrap();
    }

    /// As `logrotate` does it: the new file is there before the device hears of it.
    #[test]
    fn what_a_device_writes_to_a_moved_file_is_read_whatever_is_in_its_place() {
        for before in ["", "older\n"] {
            let folder = folder(if before.is_empty() { "created" } else { "filled" });
            let (path, aside) = (folder.join("audit.log"), folder.join("audit.log.1"));
            append(&path, "one\n");
            let mut lines = LinesAhead::from_start(&path).unwrap();
            assert_eq!(all(&mut lines), "one\n");
            fs::rename(&path, &aside).unwrap();
            append(&path, before);
            assert_eq!(all(&mut lines), before);
            for late in ["two\n", "three\nfo", "ur\n"] {
                append(&aside, late);
                let whole = if late.ends_with("fo") { "three\n" } else { late };
                assert_eq!(all(&mut lines), whole.replace("ur", "four"));
            }
            // The device writes once more while nobody looks, is told, and writes the other.
            append(&aside, "five\n");
            append(&path, "six\n");
            let mut found: Vec<String> = all(&mut lines).lines().map(str::to_owned).collect();
            found.sort();
            assert_eq!(found, ["five", "six"], "after {before:?}");
            append(&path, "seven\n");
            assert_eq!(all(&mut lines), "seven\n");
            assert_eq!(all(&mut lines), "");
            append(&path, "eight\n");
            assert_eq!(all(&mut lines), "eight\n");
            assert!(lines.moved.is_none(), "it is let go of, and its place on the disk with it");
            // Twice in a row, with a single line in between.
            for (at, line) in ["nine\n", "ten\n", "eleven\n"].into_iter().enumerate() {
                fs::rename(&path, folder.join(format!("audit.log.{}", at + 2))).unwrap();
                append(&path, line);
                assert_eq!(all(&mut lines), line);
            }
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn a_file_that_was_cut_is_an_error_and_a_folder_none_to_follow() {
        let folder = folder("cut");
        let path = folder.join("audit.log");
        append(&path, "one\ntwo\n");
        let mut lines = LinesAhead::from_start(&path).unwrap();
        assert_eq!(all(&mut lines), "one\ntwo\n");
        OpenOptions::new().write(true).open(&path).unwrap().set_len(2).unwrap();
        assert_eq!(lines.next_lines().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(LinesAhead::from_start(&folder).is_err());
        assert_eq!(
            LinesAhead::from_end(&folder.join("none")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_moved_file_is_let_go_of_when_the_other_has_grown_by_however_much() {
        let folder = folder("grown");
        let (path, aside) = (folder.join("audit.log"), folder.join("audit.log.1"));
        append(&path, "one\n");
        let mut lines = LinesAhead::from_start(&path).unwrap();
        assert_eq!(all(&mut lines), "one\n");
        fs::rename(&path, &aside).unwrap();
        append(&path, "two\n");
        assert_eq!(all(&mut lines), "two\n");
        assert!(lines.moved.is_some(), "its device may write it still");
        let much = format!("{}\n", "x".repeat(99)).repeat(2 * BLOCK_BYTES / 100);
        append(&path, &much);
        assert_eq!(all(&mut lines), much);
        assert!(lines.moved.is_none());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_in_the_place_of_a_moved_file_is_an_error() {
        let folder = folder("replaced");
        let path = folder.join("audit.log");
        append(&path, "one\n");
        let mut lines = LinesAhead::from_start(&path).unwrap();
        assert_eq!(all(&mut lines), "one\n");
        fs::rename(&path, folder.join("audit.log.1")).unwrap();
        assert_eq!(lines.next_lines().unwrap(), None, "nothing is there yet");
        fs::create_dir(&path).unwrap();
        assert_eq!(lines.next_lines().unwrap_err().kind(), ErrorKind::InvalidInput);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_longer_than_any_record_is_an_error() {
        let folder = folder("endless");
        let path = folder.join("audit.log");
        append(&path, "x");
        // As many bytes as were read before; memory that nobody touches.
        let after = |kept: usize| {
            let mut lines = LinesAhead::from_start(&path).unwrap();
            lines.current.rest = vec![0; kept];
            lines.next_lines().map(|more| more.map(|more| more.len()))
        };
        assert_eq!(after(LINE_BYTES_MAX - 1).unwrap(), Some(0));
        assert_eq!(after(LINE_BYTES_MAX).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(after(LINE_BYTES_MAX + 1).unwrap_err().kind(), ErrorKind::InvalidData);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_beginning_of_a_line_is_kept_and_counted_until_its_end_comes() {
        let folder = folder("kept");
        let path = folder.join("audit.log");
        append(&path, "one\nhal");
        let mut first = LinesAhead::from_start(&path).unwrap();
        assert_eq!((first.kept_bytes(), all(&mut first).as_str()), (0, "one\n"));
        assert_eq!(first.kept_bytes(), 3);
        let moved = folder.join("audit.log.1");
        fs::rename(&path, &moved).unwrap();
        append(&path, "two\nun");
        assert_eq!((all(&mut first).as_str(), first.kept_bytes()), ("two\n", 5));
        append(&moved, "f\n");
        append(&path, "done\n");
        let text = all(&mut first);
        assert!(text.contains("half\n") && text.contains("undone\n"), "{text}");
        assert_eq!(first.kept_bytes(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_end_is_behind_the_last_whole_line_however_much_follows_it() {
        let folder = folder("behind");
        for (name, before) in [("none", ""), ("some", "one\ntwo\n")] {
            let path = folder.join(name);
            let cut = "x".repeat(BLOCK_BYTES + 7);
            append(&path, &format!("{before}{cut}"));
            let mut lines = LinesAhead::from_end(&path).unwrap();
            assert_eq!(all(&mut lines), "");
            append(&path, "\n");
            assert_eq!(all(&mut lines), format!("{cut}\n"), "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
