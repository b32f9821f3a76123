//! Reading an audit file forwards while its device writes it, for who follows or verifies it.
//!
//! Whole lines only: what is behind the last newline waits for the rest. A file that was moved away (`SIGHUP` opens another in its place) is
//! read to its end, then the one in its place from its beginning. A reader takes no lock.
//!
//! Invariants:
//! - One call reads no more than [`BLOCK_BYTES`], and keeps no more than one line besides.
//! - A file that became shorter than what was read of it is an error: lines were lost.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::look::open_to_read;

/// Bytes read at once.
const BLOCK_BYTES: usize = 256 << 10;
/// Longest line that is waited for; a device writes none that is longer.
const LINE_BYTES_MAX: usize = 64 << 20;

/// The lines of a file, the first one first.
#[derive(Debug)]
pub struct LinesAhead {
    path: PathBuf,
    file: File,
    /// Device and inode of the file.
    identity: (u64, u64),
    /// Bytes that were read of it.
    at: u64,
    /// The beginning of a line whose end is not there yet.
    rest: Vec<u8>,
}

impl LinesAhead {
    /// Opens a file at its first line.
    ///
    /// # Errors
    /// What the operating system says, and [`ErrorKind::InvalidInput`] when it is no regular file.
    pub fn from_start(path: &Path) -> io::Result<Self> {
        let (file, metadata) = open_to_read(path)?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Self { path: path.to_owned(), file, identity, at: 0, rest: Vec::new() })
    }

    /// Opens a file behind its last whole line.
    ///
    /// # Errors
    /// As [`LinesAhead::from_start`].
    pub fn from_end(path: &Path) -> io::Result<Self> {
        let mut lines = Self::from_start(path)?;
        let len = lines.file.metadata()?.len();
        lines.at = last_line_end(&mut lines.file, len)?;
        lines.file.seek(SeekFrom::Start(lines.at))?;
        Ok(lines)
    }

    /// The next whole lines, each with its newline; `None` when there are none yet.
    ///
    /// # Errors
    /// What reading says; [`ErrorKind::UnexpectedEof`] for a file that was cut, [`ErrorKind::InvalidData`] for a line without an end.
    pub fn next_lines(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut block = std::mem::take(&mut self.rest);
        let kept = block.len();
        let mut part = self.file.by_ref().take(BLOCK_BYTES as u64);
        let read = part.read_to_end(&mut block)?;
        self.at += read as u64;
        match block[kept..].iter().rposition(|&byte| byte == b'\n') {
            Some(end) => {
                self.rest = block.split_off(kept + end + 1);
                return Ok(Some(block));
            }
            None if block.len() > LINE_BYTES_MAX => return Err(ErrorKind::InvalidData.into()),
            None => self.rest = block,
        }
        if read == 0 {
            return self.turn_over();
        }
        Ok(Some(Vec::new()))
    }

    /// At the end of the file: goes on with the one that took its place, if another did.
    fn turn_over(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.file.metadata()?.len() < self.at {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let (file, metadata) = match open_to_read(&self.path) {
            Ok(opened) => opened,
            // Moved away, and nothing is in its place yet.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let identity = (metadata.dev(), metadata.ino());
        if identity == self.identity {
            return Ok(None);
        }
        // Lines may have been written between the last read and the move.
        let mut late = Vec::new();
        self.file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut late)?;
        if !late.is_empty() {
            self.at += late.len() as u64;
            self.rest.extend_from_slice(&late);
            return Ok(Some(match self.rest.iter().rposition(|&byte| byte == b'\n') {
                Some(end) => {
                    let rest = self.rest.split_off(end + 1);
                    std::mem::replace(&mut self.rest, rest)
                }
                None => Vec::new(),
            }));
        }
        (self.file, self.identity, self.at) = (file, identity, 0);
        self.rest.clear();
        Ok(Some(Vec::new()))
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
}
