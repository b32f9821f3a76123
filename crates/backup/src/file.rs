//! The order of a backup's files, for who writes one and who reads one; both stream.

use std::fmt;

use bytes::Bytes;
use kallisto_store::BackupReader;

use crate::{META, SEALED, SUMS, chunk_name, gzip, sum_line, tar};

/// The member that a snapshot of Vault or OpenBao has, behind a `meta.json` of its own.
const STATE_OF_VAULT: &str = "state.bin";

/// Why a file is not a whole backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotWhole(String);

impl NotWhole {
    /// That it is none, and why: the rest of a sentence that begins with the file.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl From<&str> for NotWhole {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl fmt::Display for NotWhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotWhole {}

/// Writes a backup.
pub struct FileWriter {
    gzip: gzip::GzipWriter,
    sums: String,
    /// What of the tar is not wrapped yet.
    pending: Vec<u8>,
    number: u64,
}

impl FileWriter {
    /// Begins a file in `out` with what it says of itself.
    pub fn begin(meta: &[u8], out: &mut Vec<u8>) -> Self {
        let gzip = gzip::GzipWriter::begin(out);
        let mut pending = Vec::new();
        tar::put(META, meta, &mut pending);
        Self { gzip, sums: sum_line(META, meta), pending, number: 0 }
    }

    /// Adds the store's next chunk.
    pub fn put_chunk(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.number += 1;
        let name = chunk_name(self.number);
        self.sums.push_str(&sum_line(&name, chunk));
        tar::put(&name, chunk, &mut self.pending);
        self.gzip.put(&self.pending, out);
        self.pending.clear();
    }

    /// Ends the file with its sums and the tag that `sign` makes of them.
    pub fn end(mut self, sign: impl FnOnce(&[u8]) -> [u8; 32], out: &mut Vec<u8>) {
        tar::put(SUMS, self.sums.as_bytes(), &mut self.pending);
        tar::put(SEALED, &sign(self.sums.as_bytes()), &mut self.pending);
        tar::end(&mut self.pending);
        self.gzip.put(&self.pending, out);
        self.gzip.end(out);
    }
}

/// What was read of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum FilePart {
    /// What it says of itself, as JSON: the first.
    Meta(Vec<u8>),
    /// Records, in order: storage keys and what is under them.
    Records(Vec<(Bytes, Bytes)>),
    /// The tag over [`FileReader::sums`]: the last.
    Tag(Vec<u8>),
}

/// Which file comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileStage {
    Meta,
    State,
    Sealed,
    End,
}

/// Reads a backup as its bytes come.
pub struct FileReader {
    gzip: gzip::GzipReader,
    tar: tar::TarReader,
    chunks: BackupReader,
    number: u64,
    stage: FileStage,
    sums: String,
}

impl Default for FileReader {
    fn default() -> Self {
        Self {
            gzip: gzip::GzipReader::new(),
            tar: tar::TarReader::default(),
            chunks: BackupReader::default(),
            number: 0,
            stage: FileStage::Meta,
            sums: String::new(),
        }
    }
}

impl FileReader {
    /// The parts that are whole with `bytes`.
    ///
    /// # Errors
    /// What is wrong with the file; it is not to be read on then.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Vec<FilePart>, NotWhole> {
        let mut plain = Vec::with_capacity(bytes.len());
        let unpacked = self.gzip.take(bytes, &mut plain);
        let mut parts = Vec::new();
        self.tar.feed(&plain);
        // The sums grow with the state; they are as long as those of what was read.
        let bytes_max = |name: &str, sums: &str| match name {
            SUMS => Ok(sums.len()),
            STATE_OF_VAULT => Err(
                "it is a snapshot of Vault or OpenBao: kallisto migrate -from-snapshot moves from it",
            ),
            _ => Ok(0),
        };
        while let Some(member) = self.tar.next(|name| bytes_max(name, &self.sums))? {
            parts.extend(self.member(member)?);
        }
        // What came before may say better what the file is.
        unpacked?;
        Ok(parts)
    }

    /// The sums of what was read.
    pub fn sums(&self) -> &str {
        &self.sums
    }

    /// How many records there were, once the file was read to its end.
    ///
    /// # Errors
    /// That it was not.
    pub fn records(&self) -> Result<u64, NotWhole> {
        let over = self.stage == FileStage::End && self.tar.is_over() && self.gzip.is_over();
        self.chunks.records().filter(|_| over).ok_or_else(|| NotWhole::from("it is cut short"))
    }

    fn member(&mut self, member: tar::TarMember) -> Result<Option<FilePart>, NotWhole> {
        let tar::TarMember { name, bytes } = member;
        match (self.stage, name.as_str()) {
            (FileStage::Meta, META) => {
                self.sums.push_str(&sum_line(&name, &bytes));
                self.stage = FileStage::State;
                Ok(Some(FilePart::Meta(bytes)))
            }
            (FileStage::Meta, _) => Err("it is of another kind".into()),
            (FileStage::State, SUMS) => {
                if self.chunks.records().is_none() || bytes != self.sums.as_bytes() {
                    return Err("its sums do not agree with what it holds".into());
                }
                self.stage = FileStage::Sealed;
                Ok(None)
            }
            (FileStage::State, name) if name == chunk_name(self.number + 1) => {
                self.number += 1;
                self.sums.push_str(&sum_line(name, &bytes));
                let records = self.chunks.take(&Bytes::from(bytes));
                let records = records.map_err(|error| NotWhole::new(error.to_string()))?;
                Ok((!records.is_empty()).then_some(FilePart::Records(records)))
            }
            (FileStage::Sealed, SEALED) => {
                self.stage = FileStage::End;
                Ok(Some(FilePart::Tag(bytes)))
            }
            _ => Err("files are missing or out of order".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use kallisto_store::{BackupHead, BackupWriter, CHUNK_BYTES_MAX, Chunks, Record, Seqno};

    use super::*;

    /// Those of a state of some 130 GB are: it has half a million chunks.
    #[test]
    fn sums_that_are_longer_than_a_chunk_may_be_are_read() {
        let record = Record { value: Bytes::from_static(b"v"), seqno: Seqno(3) };
        let records = std::iter::once((Box::from(*b"k"), record));
        let head = BackupHead { store_id: [7; 16], index: 9, term: 2 };
        let mut chunks = BackupWriter::new(head, records);
        let mut file = Vec::new();
        let mut writer = FileWriter::begin(b"{}", &mut file);
        while let Some(chunk) = chunks.next_chunk().unwrap() {
            writer.put_chunk(&chunk, &mut file);
        }
        let mut reader = FileReader::default();
        // In place of the chunks that there would be before.
        let before = "0".repeat(CHUNK_BYTES_MAX);
        writer.sums.insert_str(0, &before);
        reader.sums.insert_str(0, &before);
        writer.end(|_| [7; 32], &mut file);
        let mut parts = Vec::new();
        for piece in file.chunks(1 << 20) {
            parts.extend(reader.take(piece).unwrap());
        }
        assert_eq!(parts.last(), Some(&FilePart::Tag(vec![7; 32])));
        assert_eq!(reader.records(), Ok(1));
    }

    /// Where nothing is gained by compression, theirs are not compressed either.
    #[test]
    fn a_snapshot_of_vault_is_told_from_one_that_is_damaged() {
        for len in [5, CHUNK_BYTES_MAX + 1] {
            let mut file = Vec::new();
            let mut writer = gzip::GzipWriter::begin(&mut file);
            let mut pending = Vec::new();
            tar::put(META, br#"{"Version":1,"ID":"bolt-snapshot"}"#, &mut pending);
            tar::put("state.bin", &vec![7; len], &mut pending);
            writer.put(&pending, &mut file);
            // Blocks behind the first are compressed, perhaps.
            for more in [&[][..], &[0x4b, 0x04, 0x00, 0x43, 0xbe]] {
                let file = [&file, more].concat();
                let told = FileReader::default().take(&file).unwrap_err().to_string();
                assert!(told.starts_with("it is a snapshot of Vault or OpenBao"), "{told}");
            }
        }
    }
}
