//! gzip without compression: a header, stored blocks, a checksum and a length (RFC 1951, 1952).
//!
//! What is inside is ciphertext, which does not get smaller. The reader takes what the writer makes, with nothing in the
//! header, and refuses compressed blocks.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

/// Bytes of a stored block at the most.
const BLOCK_BYTES_MAX: usize = 65_535;
/// The magic, deflate, no flags, no time, no hint, an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
const LAST: u8 = 1;
/// A block's first byte, its length and the complement of that.
const BLOCK_HEAD_BYTES: usize = 5;
const TRAILER_BYTES: usize = 8;

/// The checksum of gzip, a byte at a time.
#[derive(Clone, Copy, Debug)]
struct Crc32(u32);

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the compiler makes it, and counts to 256"
)]
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut value = at as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
};

impl Crc32 {
    const fn new() -> Self {
        Self(u32::MAX)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let [low, ..] = self.0.to_le_bytes();
            let entry = TABLE.get(usize::from(low ^ byte)).copied().unwrap_or_default();
            self.0 = entry ^ (self.0 >> 8);
        }
    }

    const fn sum(self) -> u32 {
        !self.0
    }
}

/// Wraps bytes.
pub(crate) struct GzipWriter {
    crc: Crc32,
    /// Modulo 2^32, as gzip counts.
    len: u32,
}

impl GzipWriter {
    /// Begins a file in `out`.
    pub(crate) fn begin(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&HEAD);
        Self { crc: Crc32::new(), len: 0 }
    }

    /// Adds bytes.
    pub(crate) fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.crc.add(bytes);
        for block in bytes.chunks(BLOCK_BYTES_MAX) {
            let len = u16::try_from(block.len()).unwrap_or(u16::MAX);
            self.len = self.len.wrapping_add(u32::from(len));
            put_block(0, len, out);
            out.extend_from_slice(block);
        }
    }

    /// Ends the file.
    pub(crate) fn end(self, out: &mut Vec<u8>) {
        put_block(LAST, 0, out);
        out.extend_from_slice(&self.crc.sum().to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
    }
}

fn put_block(last: u8, len: u16, out: &mut Vec<u8>) {
    out.push(last);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
}

/// Unwraps bytes as they come.
pub(crate) struct GzipReader {
    expects: Expects,
    /// The beginning of what is expected.
    held: Vec<u8>,
    crc: Crc32,
    len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Head,
    Block,
    /// So many bytes of a block, the last one or not.
    Bytes(usize, u8),
    Trailer,
    Nothing,
}

impl GzipReader {
    pub(crate) fn new() -> Self {
        Self { expects: Expects::Head, held: Vec::new(), crc: Crc32::new(), len: 0 }
    }

    /// Whether the file has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.expects == Expects::Nothing
    }

    /// Appends what `input` goes on with to `out`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn take(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        while !input.is_empty() {
            if let Expects::Bytes(left, last) = self.expects {
                let (now, rest) = input.split_at(left.min(input.len()));
                self.crc.add(now);
                self.len = self.len.wrapping_add(u32::try_from(now.len()).unwrap_or(u32::MAX));
                out.extend_from_slice(now);
                self.expects = match left - now.len() {
                    0 if last == LAST => Expects::Trailer,
                    0 => Expects::Block,
                    left => Expects::Bytes(left, last),
                };
                input = rest;
                continue;
            }
            let wanted = match self.expects {
                Expects::Head => HEAD.len(),
                Expects::Block => BLOCK_HEAD_BYTES,
                Expects::Trailer => TRAILER_BYTES,
                Expects::Bytes(..) | Expects::Nothing => return Err("something follows its end"),
            };
            let (now, rest) = input.split_at((wanted - self.held.len()).min(input.len()));
            self.held.extend_from_slice(now);
            input = rest;
            if self.held.len() == wanted {
                let held = std::mem::take(&mut self.held);
                self.expects = self.next(&held)?;
            }
        }
        Ok(())
    }

    fn next(&self, held: &[u8]) -> Result<Expects, &'static str> {
        match (self.expects, held) {
            // What the last two bytes hint at is of no matter.
            (Expects::Head, [0x1f, 0x8b, 8, 0, ..]) => Ok(Expects::Block),
            (Expects::Head, _) => Err("it is no backup"),
            (Expects::Block, [last @ (0 | LAST), a, b, c, d]) => {
                let len = u16::from_le_bytes([*a, *b]);
                if len != !u16::from_le_bytes([*c, *d]) {
                    return Err("it is damaged");
                }
                Ok(match (len, *last) {
                    (0, LAST) => Expects::Trailer,
                    (0, _) => Expects::Block,
                    (len, last) => Expects::Bytes(usize::from(len), last),
                })
            }
            (Expects::Block, _) => Err(
                "it is compressed: move from a snapshot of Vault or OpenBao with kallisto migrate -from-snapshot, and give one of Kallisto as it was saved",
            ),
            (Expects::Trailer, [a, b, c, d, e, f, g, h]) => {
                let sums =
                    (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
                match sums == (self.crc.sum(), self.len) {
                    true => Ok(Expects::Nothing),
                    false => Err("it is damaged"),
                }
            }
            _ => Err("it is damaged"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    fn wrapped(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = GzipWriter::begin(&mut out);
        writer.put(bytes, &mut out);
        writer.end(&mut out);
        out
    }

    #[test]
    fn the_checksum_is_the_known_one() {
        let mut crc = Crc32::new();
        crc.add(b"123456789");
        assert_eq!(crc.sum(), 0xcbf4_3926);
    }

    #[test]
    fn bytes_come_back_in_any_pieces() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let file = wrapped(&bytes);
        for piece in [1, 7, 4096, file.len()] {
            let (mut reader, mut out) = (GzipReader::new(), Vec::new());
            for piece in file.chunks(piece) {
                assert!(!reader.is_over());
                reader.take(piece, &mut out).unwrap();
            }
            assert!(reader.is_over() && out == bytes);
        }
    }

    #[test]
    fn damage_and_compression_are_refused() {
        let file = wrapped(b"some bytes");
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 0x40;
            let mut reader = GzipReader::new();
            let taken = reader.take(&bad, &mut Vec::new());
            // Time, hint and system say nothing of what is inside.
            let says_nothing = (4..10).contains(&at);
            assert_eq!(taken.is_ok() && reader.is_over(), says_nothing, "{at}");
        }
        let mut deflated = HEAD.to_vec();
        deflated.extend_from_slice(&[0x4b, 0x04, 0x00, 0x43, 0xbe]);
        let told = GzipReader::new().take(&deflated, &mut Vec::new());
        assert!(told.unwrap_err().contains("migrate -from-snapshot"));
    }
}
