//! tar, as much of it as a backup needs: regular files with short names (POSIX ustar).
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::collections::VecDeque;

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
    /// What is not read yet: less than the next file, or its header.
    held: Vec<u8>,
    over: bool,
}

impl TarReader {
    /// Whether the end was read.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The files that are whole with `input`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn take(&mut self, input: &[u8]) -> Result<VecDeque<TarMember>, &'static str> {
        let mut members = VecDeque::new();
        self.held.extend_from_slice(input);
        let mut at = 0;
        while !self.over {
            let rest = self.held.get(at..).unwrap_or_default();
            let Some((head, rest)) = rest.split_first_chunk::<BLOCK_BYTES>() else { break };
            if head.iter().all(|&byte| byte == 0) {
                self.over = true;
                break;
            }
            let (name, len) = read_head(head)?;
            let filled = len.next_multiple_of(BLOCK_BYTES);
            let Some(bytes) = rest.get(..filled) else { break };
            let bytes = bytes.get(..len).unwrap_or_default().to_vec();
            members.push_back(TarMember { name, bytes });
            at += BLOCK_BYTES + filled;
        }
        self.held.drain(..at);
        if self.over {
            self.held.clear();
        }
        Ok(members)
    }
}

fn read_head(head: &[u8; BLOCK_BYTES]) -> Result<(String, usize), &'static str> {
    let damaged = "it is damaged";
    let octal = |range: std::ops::Range<usize>| {
        let text = std::str::from_utf8(head.get(range)?).ok()?;
        usize::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
    };
    if octal(CHECKSUM) != usize::try_from(checksum(head)).ok() {
        return Err(damaged);
    }
    let len = octal(SIZE).filter(|&len| len <= CHUNK_BYTES_MAX).ok_or(damaged)?;
    let name = head.split(|&byte| byte == 0).next().unwrap_or_default();
    let is_file = matches!(head.get(KIND), Some(b'0' | 0)) && name.len() <= NAME_BYTES_MAX;
    let name = std::str::from_utf8(name).ok().filter(|_| is_file).ok_or(damaged)?;
    Ok((name.to_owned(), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_in_any_pieces() {
        let files = [("a", vec![1; 511]), ("state/1", vec![2; 1024]), ("empty", Vec::new())];
        let mut tar = Vec::new();
        files.iter().for_each(|(name, bytes)| put(name, bytes, &mut tar));
        end(&mut tar);
        for piece in [1, 100, 512, tar.len()] {
            let mut reader = TarReader::default();
            let read: Vec<TarMember> =
                tar.chunks(piece).flat_map(|piece| reader.take(piece).unwrap()).collect();
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
        assert!(TarReader::default().take(&changed).is_err());
        let mut immense = [0; BLOCK_BYTES];
        immense.iter_mut().zip(&tar).for_each(|(to, from)| *to = *from);
        immense.iter_mut().skip(SIZE.start).take(11).for_each(|byte| *byte = b'7');
        let sum = format!("{:06o}\0 ", checksum(&immense));
        immense
            .iter_mut()
            .skip(CHECKSUM.start)
            .zip(sum.as_bytes())
            .for_each(|(to, from)| *to = *from);
        assert!(TarReader::default().take(&immense).is_err());
    }
}
