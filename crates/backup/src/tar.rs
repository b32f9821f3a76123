//! tar, as much of it as a backup needs: regular files with short names (POSIX ustar).
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use kallisto_store::CHUNK_BYTES_MAX;

/// Bytes of a block: a header is one, a file is filled up to one.
const BLOCK_BYTES: usize = 512;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 99;
/// Where a header has what, and how long it is.
const MODE: usize = 100;
const SIZE: std::ops::Range<usize> = 124..135;
const TIME: usize = 136;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const KIND: usize = 156;
const MAGIC: usize = 257;
/// What is said of a file that cannot be read.
const DAMAGED: &str = "it is damaged";

/// Appends a file.
pub(crate) fn put(name: &str, bytes: &[u8], out: &mut Vec<u8>) {
    assert!(name.len() <= NAME_BYTES_MAX, "names are ours");
    let mut head = [0; BLOCK_BYTES];
    let mut set = |at: usize, text: &[u8]| {
        head.iter_mut().skip(at).zip(text).for_each(|(to, from)| *to = *from);
    };
    set(0, name.as_bytes());
    set(MODE, b"0000600\x000000000\x000000000\0");
    set(SIZE.start, format!("{:011o}", bytes.len()).as_bytes());
    set(TIME, b"00000000000");
    set(KIND, b"0");
    set(MAGIC, b"ustar\x0000");
    let checksum = format!("{:06o}\0 ", checksum(&head));
    head.iter_mut()
        .skip(CHECKSUM.start)
        .zip(checksum.as_bytes())
        .for_each(|(to, from)| *to = *from);
    out.extend_from_slice(&head);
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(BLOCK_BYTES), 0);
}

/// Appends the end.
pub(crate) fn end(out: &mut Vec<u8>) {
    out.resize(out.len() + 2 * BLOCK_BYTES, 0);
}

/// The sum of a header's bytes, with spaces for the sum itself.
fn checksum(head: &[u8; BLOCK_BYTES]) -> u32 {
    let byte = |(at, byte): (usize, &u8)| if CHECKSUM.contains(&at) { b' ' } else { *byte };
    head.iter().enumerate().map(byte).map(u32::from).sum()
}

/// A file that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TarMember {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Reads files as their bytes come.
#[derive(Default)]
pub(crate) struct TarReader {
    /// What came.
    held: Vec<u8>,
    /// Up to where it is read: less than the next file, or its header, is left.
    at: usize,
    over: bool,
}

impl TarReader {
    /// Whether the end was read.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Takes what came.
    pub(crate) fn feed(&mut self, input: &[u8]) {
        if self.over {
            return;
        }
        self.held.drain(..self.at);
        self.at = 0;
        self.held.extend_from_slice(input);
    }

    /// The next file, once it is whole: of at most [`CHUNK_BYTES_MAX`] bytes, or what `bytes_max` says of its name, if that is more.
    ///
    /// # Errors
    /// What is wrong with the file, or with its name, as `bytes_max` says.
    pub(crate) fn next(
        &mut self,
        bytes_max: impl FnOnce(&str) -> Result<usize, &'static str>,
    ) -> Result<Option<TarMember>, &'static str> {
        let rest = self.held.get(self.at..).unwrap_or_default();
        let Some((head, rest)) = rest.split_first_chunk::<BLOCK_BYTES>().filter(|_| !self.over)
        else {
            return Ok(None);
        };
        if head.iter().all(|&byte| byte == 0) {
            self.over = true;
            (self.held, self.at) = (Vec::new(), 0);
            return Ok(None);
        }
        let (name, len) = read_head(head)?;
        if len > bytes_max(&name)?.max(CHUNK_BYTES_MAX) {
            return Err(DAMAGED);
        }
        let filled = len.next_multiple_of(BLOCK_BYTES);
        let Some(bytes) = rest.get(..filled) else { return Ok(None) };
        let bytes = bytes.get(..len).unwrap_or_default().to_vec();
        self.at += BLOCK_BYTES + filled;
        Ok(Some(TarMember { name, bytes }))
    }
}

fn read_head(head: &[u8; BLOCK_BYTES]) -> Result<(String, usize), &'static str> {
    let octal = |range: std::ops::Range<usize>| {
        let text = std::str::from_utf8(head.get(range)?).ok()?;
        usize::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
    };
    if octal(CHECKSUM) != usize::try_from(checksum(head)).ok() {
        return Err(DAMAGED);
    }
    let len = octal(SIZE).ok_or(DAMAGED)?;
    let name = head.split(|&byte| byte == 0).next().unwrap_or_default();
    let is_file = matches!(head.get(KIND), Some(b'0' | 0)) && name.len() <= NAME_BYTES_MAX;
    let name = std::str::from_utf8(name).ok().filter(|_| is_file).ok_or(DAMAGED)?;
    Ok((name.to_owned(), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(reader: &mut TarReader, input: &[u8]) -> Result<Vec<TarMember>, &'static str> {
        reader.feed(input);
        std::iter::from_fn(|| reader.next(|_| Ok(0)).transpose()).collect()
    }

    #[test]
    fn files_come_back_in_any_pieces() {
        let files = [("a", vec![1; 511]), ("state/1", vec![2; 1024]), ("empty", Vec::new())];
        let mut tar = Vec::new();
        files.iter().for_each(|(name, bytes)| put(name, bytes, &mut tar));
        end(&mut tar);
        for piece in [1, 100, 512, tar.len()] {
            let mut reader = TarReader::default();
            let mut read = Vec::new();
            for piece in tar.chunks(piece) {
                read.extend(take(&mut reader, piece).unwrap());
            }
            assert!(reader.is_over());
            let read: Vec<_> = read.into_iter().map(|member| (member.name, member.bytes)).collect();
            let expected = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone()));
            assert_eq!(read, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_changed_header_or_an_immense_file_is_refused() {
        let mut tar = Vec::new();
        put("a", b"bytes", &mut tar);
        let mut changed = tar.clone();
        changed.iter_mut().take(1).for_each(|byte| *byte = b'b');
        assert!(take(&mut TarReader::default(), &changed).is_err());
        let mut immense = [0; BLOCK_BYTES];
        immense.iter_mut().zip(&tar).for_each(|(to, from)| *to = *from);
        immense.iter_mut().skip(SIZE.start).take(11).for_each(|byte| *byte = b'7');
        let sum = format!("{:06o}\0 ", checksum(&immense));
        immense
            .iter_mut()
            .skip(CHECKSUM.start)
            .zip(sum.as_bytes())
            .for_each(|(to, from)| *to = *from);
        assert!(take(&mut TarReader::default(), &immense).is_err());
    }
}
