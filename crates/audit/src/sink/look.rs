//! Looking through an audit file from its end, for who asks what was written down.
//!
//! The device that writes the file holds a lock on it; a reader takes none, so it never stands in the way of a record. A group that is
//! being written may be cut off where the reader begins: what is behind the last newline is no line yet.
//!
//! Invariant: no more than the budget is read, whatever the file holds. A link in the last place of the path is not followed.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Bytes read at once.
const BLOCK_BYTES: u64 = 256 << 10;

/// The lines of a file, the last one first.
#[derive(Debug)]
pub struct LinesBack<R = File> {
    file: R,
    /// What was read and not looked at: the bytes from `start` on.
    buffer: Vec<u8>,
    start: u64,
    /// Bytes that may still be read.
    budget: u64,
}

/// What comes before the lines that were seen.
#[derive(Debug, PartialEq, Eq)]
pub enum LineBack {
    /// A line without its newline, and where it begins.
    Line(Vec<u8>, u64),
    /// The beginning of the file.
    Beginning,
    /// More than may be read.
    BudgetSpent,
}

impl LinesBack {
    /// Opens a file, to be looked at from `end` backwards, or from its end.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an end that is not where a line begins, or when it is no regular file.
    pub fn open(path: &Path, end: Option<u64>, budget: u64) -> io::Result<Self> {
        let (file, metadata) = open_to_read(path)?;
        Self::of(file, metadata.len(), end, budget)
    }
}

/// Opens an audit file beside the device that writes it.
#[expect(clippy::disallowed_methods, reason = "the seam: audit files are opened here only")]
pub(super) fn open_to_read(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    Ok((file, metadata))
}

impl<R: Read + Seek> LinesBack<R> {
    fn of(file: R, len: u64, end: Option<u64>, budget: u64) -> io::Result<Self> {
        let mut lines = Self { file, buffer: Vec::new(), start: end.unwrap_or(len), budget };
        match end {
            None => lines.drop_unfinished()?,
            Some(end) if end > len => return Err(ErrorKind::InvalidInput.into()),
            Some(0) => {}
            Some(_) => {
                lines.read_block()?;
                if lines.buffer.last() != Some(&b'\n') {
                    return Err(ErrorKind::InvalidInput.into());
                }
            }
        }
        Ok(lines)
    }

    /// Passes over what is behind the last newline.
    fn drop_unfinished(&mut self) -> io::Result<()> {
        while self.read_block()? {
            if let Some(at) = self.buffer.iter().rposition(|&byte| byte == b'\n') {
                self.buffer.truncate(at + 1);
                return Ok(());
            }
            self.buffer.clear();
        }
        Ok(())
    }

    /// Reads the block in front of what was read; false when there is none, or the budget is spent.
    fn read_block(&mut self) -> io::Result<bool> {
        // As much again as is there: what a long line costs grows with its length, and not with the square of it.
        let bytes = BLOCK_BYTES.max(self.buffer.len() as u64).min(self.start).min(self.budget);
        if bytes == 0 {
            return Ok(false);
        }
        self.file.seek(SeekFrom::Start(self.start - bytes))?;
        let mut block = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        self.file.read_exact(&mut block)?;
        block.append(&mut self.buffer);
        self.buffer = block;
        self.start -= bytes;
        self.budget -= bytes;
        Ok(true)
    }

    /// The line before those that were seen.
    ///
    /// # Errors
    /// What reading the file says.
    pub fn previous(&mut self) -> io::Result<LineBack> {
        loop {
            // The buffer ends behind the newline of the line that is looked for.
            let body = self.buffer.len().saturating_sub(1);
            if let Some(at) = self.buffer[..body].iter().rposition(|&byte| byte == b'\n') {
                return Ok(self.take_from(at + 1));
            }
            if self.start == 0 {
                return Ok(match self.buffer.is_empty() {
                    true => LineBack::Beginning,
                    false => self.take_from(0),
                });
            }
            if !self.read_block()? {
                return Ok(LineBack::BudgetSpent);
            }
        }
    }

    fn take_from(&mut self, at: usize) -> LineBack {
        let mut line = self.buffer.split_off(at);
        line.pop();
        LineBack::Line(line, self.start + at as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn lines(bytes: &[u8], end: Option<u64>, budget: u64) -> io::Result<LinesBack<Cursor<&[u8]>>> {
        LinesBack::of(Cursor::new(bytes), bytes.len() as u64, end, budget)
    }

    #[test]
    fn lines_come_back_as_a_split_of_the_whole_would_give_them() {
        let mut random = 7_u32;
        for _ in 0..200 {
            let mut bytes = Vec::new();
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            for at in 0..random >> 27 {
                bytes.extend(vec![b'a' + (at % 26) as u8; (random >> (at % 20)) as usize % 70_000]);
                bytes.push(b'\n');
            }
            let whole = bytes.len();
            bytes.extend_from_slice(b"unfinished");
            let mut expected: Vec<&[u8]> = bytes[..whole].split(|&byte| byte == b'\n').collect();
            expected.pop();
            let mut found = lines(&bytes, None, u64::MAX).unwrap();
            for line in expected.iter().rev() {
                let LineBack::Line(text, start) = found.previous().unwrap() else {
                    panic!("no line")
                };
                assert_eq!(&text, line);
                let at = usize::try_from(start).unwrap();
                assert_eq!(&bytes[at..at + line.len()], *line);
                // Going on from there gives what comes before.
                let again = lines(&bytes, Some(start), u64::MAX).unwrap().previous().unwrap();
                assert!(matches!(again, LineBack::Beginning if at == 0) || at > 0);
            }
            assert_eq!(found.previous().unwrap(), LineBack::Beginning);
        }
    }

    #[test]
    fn no_more_than_the_budget_is_read_and_no_place_within_a_line_is_an_end() {
        let bytes = [vec![b'x'; 1 << 20], b"\n".to_vec(), b"last\n".to_vec()].concat();
        let mut few = lines(&bytes, None, 300 << 10).unwrap();
        assert!(matches!(few.previous().unwrap(), LineBack::Line(text, _) if text == b"last"));
        assert_eq!(few.previous().unwrap(), LineBack::BudgetSpent);
        for wrong in [3, bytes.len() as u64 + 1] {
            assert!(lines(&bytes, Some(wrong), u64::MAX).is_err(), "{wrong}");
        }
        assert_eq!(lines(b"", None, 9).unwrap().previous().unwrap(), LineBack::Beginning);
        assert_eq!(lines(b"cut", None, 9).unwrap().previous().unwrap(), LineBack::Beginning);
    }

    #[test]
    fn a_line_longer_than_what_is_read_at_once_comes_back_whole() {
        let long = vec![b'x'; 3 * BLOCK_BYTES as usize];
        let bytes = [b"first\n", long.as_slice(), b"\n"].concat();
        let mut found = lines(&bytes, None, u64::MAX).unwrap();
        assert_eq!(found.previous().unwrap(), LineBack::Line(long, 6));
        assert_eq!(found.previous().unwrap(), LineBack::Line(b"first".to_vec(), 0));
        assert_eq!(found.previous().unwrap(), LineBack::Beginning);
    }

    #[test]
    fn each_line_is_told_with_the_place_where_it_begins() {
        let bytes = b"a\nbc\n\ndef\ncut";
        let all_before = |end: Option<u64>| {
            let mut found = lines(bytes, end, u64::MAX).unwrap();
            let mut told = Vec::new();
            while let LineBack::Line(text, start) = found.previous().unwrap() {
                told.push((String::from_utf8(text).unwrap(), start));
            }
            told
        };
        let told = [("def", 6), ("", 5), ("bc", 2), ("a", 0)];
        let told = told.map(|(text, start)| (text.to_owned(), start));
        assert_eq!(all_before(None), told);
        for (end, passed) in [(10, 0), (6, 1), (5, 2), (2, 3), (0, 4)] {
            assert_eq!(all_before(Some(end)), told[passed..], "{end}");
        }
        assert!(lines(bytes, Some(bytes.len() as u64), u64::MAX).is_err(), "a part of a line");
        let whole = &bytes[..10];
        assert!(lines(whole, Some(10), u64::MAX).is_ok());
        for beyond in [11, 1000] {
            let error = lines(whole, Some(beyond), u64::MAX).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{beyond}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test writes the file that is read")]
    fn a_link_and_a_folder_are_not_read() {
        let folder =
            std::env::temp_dir().join(format!("kallisto-look-link-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("a.log"), folder.join("link.log"));
        std::fs::write(&file, "one\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(LinesBack::open(&file, None, 9).is_ok());
        assert!(LinesBack::open(&link, None, 9).is_err());
        assert!(LinesBack::open(&folder, None, 9).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
