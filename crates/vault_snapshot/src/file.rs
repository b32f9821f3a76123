//! The file: a tar in a gzip, read once from front to back, with a sum over each member.
//!
//! Records are kept as they are, sealed, in memory, as much of it as the caller gives. Those of tokens and leases, which never move, are counted and not
//! kept, and counters of requests are dropped. A file that expands as no encrypted records do is refused as soon as it does.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::HEXLOWER_PERMISSIVE;
use flate2::bufread::GzDecoder;

use crate::error::{Error, Result};
use crate::limits::{
    ENTRIES_MAX, ENTRY_BYTES_MAX, ENTRY_OVERHEAD_BYTES, EXPANSION_FREE_BYTES, EXPANSION_MAX,
    FILL_BYTES_MAX, MEMORY_BYTES_DEFAULT, SMALL_MEMBER_BYTES_MAX,
};
use crate::protobuf::{fields, varint};

const META: &str = "meta.json";
const STATE: &str = "state.bin";
const SUMS: &str = "SHA256SUMS";
const SEALED_SUMS: &str = "SHA256SUMS.sealed";
/// Most sums that are read.
const SUMS_MAX: usize = 64;
/// The layout of `state.bin`, as `meta.json` names it.
const LAYOUT: &str = "bolt-snapshot";
/// What the names of members begin with that a snapshot of Kallisto has, behind a `meta.json` of its own.
const STATE_OF_KALLISTO: &str = "state/";
/// Where namespaces but the first have theirs.
const NAMESPACES: &str = "namespaces/";

/// What is counted and not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedBy {
    /// Tokens.
    pub tokens: u64,
    /// Leases, those of tokens too.
    pub leases: u64,
}

/// A snapshot whose file is whole. Its records are sealed.
pub struct SnapshotFile {
    pub(crate) records: BTreeMap<Box<str>, Box<[u8]>>,
    /// Sums of members by their names.
    pub(crate) sums: BTreeMap<String, String>,
    pub(crate) sealed_sums: Vec<u8>,
    /// What it holds that is not kept.
    pub passed_by: PassedBy,
}

impl SnapshotFile {
    /// Reads a file, with [`MEMORY_BYTES_DEFAULT`] for its records.
    ///
    /// # Errors
    /// As [`Self::read_within`].
    pub fn read(input: impl Read) -> Result<Self> {
        Self::read_within(input, MEMORY_BYTES_DEFAULT)
    }

    /// Reads a file whose records take `memory_bytes` at the most.
    ///
    /// # Errors
    /// [`Error::File`] saying why it is no whole snapshot, [`Error::Memory`] where its records take more.
    pub fn read_within(input: impl Read, memory_bytes: u64) -> Result<Self> {
        let expansion = FileExpansion::default();
        let read = Self::read_expanding(input, memory_bytes, &expansion);
        // Whoever reads through the guard hears of it as of any failed read.
        if expansion.is_over.get() {
            return Err(Error::file(format!(
                "it is no snapshot: it expands more than {EXPANSION_MAX}-fold, which encrypted records do not"
            )));
        }
        read
    }

    fn read_expanding(
        input: impl Read,
        memory_bytes: u64,
        expansion: &FileExpansion,
    ) -> Result<Self> {
        let input = CountedInput { from: input, count: Rc::clone(&expansion.read_bytes) };
        let input = io::BufReader::with_capacity(1 << 16, input);
        let expanded = ExpandedInput { from: GzDecoder::new(input), expansion, bytes: 0 };
        let mut archive = tar::Archive::new(expanded);
        let mut read = ReadMembers { memory_bytes, ..ReadMembers::default() };
        let unreadable = |error: io::Error| Error::file(format!("it is no snapshot: {error}"));
        // As they stand in the file: names and sizes that extensions would tell are none of a snapshot's.
        for member in archive.entries().map_err(unreadable)?.raw(true) {
            read.take(member.map_err(unreadable)?)?;
        }
        // The checksum of the gzip is behind all that the tar needs.
        let mut rest = archive.into_inner();
        read_fill(&mut rest)?;
        let mut behind = rest.from.into_inner();
        if !behind.fill_buf().map_err(|error| cut_off(&error))?.is_empty() {
            return Err(follows_its_end());
        }
        read.check()
    }

    /// A record, as it is sealed.
    pub(crate) fn record(&self, path: &str) -> Option<&[u8]> {
        self.records.get(path).map(|value| &**value)
    }
}

/// Members as they come.
#[derive(Default)]
struct ReadMembers {
    records: BTreeMap<Box<str>, Box<[u8]>>,
    /// Memory that records may take, and what they take.
    memory_bytes: u64,
    kept_bytes: u64,
    passed_by: PassedBy,
    /// Sums of members, as lower-case hex.
    found: BTreeMap<&'static str, String>,
    small: BTreeMap<&'static str, Vec<u8>>,
}

impl ReadMembers {
    fn take(&mut self, member: tar::Entry<'_, impl Read>) -> Result<()> {
        let name = member.path().ok().and_then(|path| path.to_str().map(str::to_owned));
        let name = name.unwrap_or_default();
        if name.starts_with(STATE_OF_KALLISTO) {
            return Err(Error::file(
                "it is a snapshot of Kallisto, which kallisto operator raft snapshot restore takes",
            ));
        }
        let known = [META, STATE, SUMS, SEALED_SUMS].into_iter().find(|known| *known == name);
        let Some(known) = known.filter(|_| member.header().entry_type().is_file()) else {
            return Err(Error::file("it is no snapshot: it has members that are none of one"));
        };
        if self.found.contains_key(known) {
            return Err(Error::file(format!("it has {known} twice")));
        }
        let mut member = Summed { from: member, sum: Context::new(&SHA256) };
        match known {
            STATE => self.take_state(&mut member)?,
            _ => {
                let mut bytes = Vec::new();
                (&mut member)
                    .take(SMALL_MEMBER_BYTES_MAX + 1)
                    .read_to_end(&mut bytes)
                    .map_err(|error| cut_off(&error))?;
                if u64::try_from(bytes.len()).is_ok_and(|len| len > SMALL_MEMBER_BYTES_MAX) {
                    return Err(Error::file(format!("its {known} is too long")));
                }
                self.small.insert(known, bytes);
            }
        }
        let sum = data_encoding::HEXLOWER.encode(member.sum.finish().as_ref());
        self.found.insert(known, sum);
        Ok(())
    }

    fn take_state(&mut self, from: &mut impl Read) -> Result<()> {
        while let Some(len) = read_length(from)? {
            if len > ENTRY_BYTES_MAX {
                return Err(Error::file(format!(
                    "an entry of its state is longer than {ENTRY_BYTES_MAX} bytes"
                )));
            }
            let mut entry = Vec::new();
            from.take(len).read_to_end(&mut entry).map_err(|error| cut_off(&error))?;
            if u64::try_from(entry.len()).ok() != Some(len) {
                return Err(Error::file("its state ends in the middle of an entry"));
            }
            self.take_entry(&entry)?;
        }
        Ok(())
    }

    fn take_entry(&mut self, entry: &[u8]) -> Result<()> {
        let damaged = || Error::file("an entry of its state is damaged, or not understood");
        let (mut path, mut value) = (None, &[][..]);
        for field in fields(entry).map_err(|_| damaged())? {
            match field.number {
                1 => path = Some(field.text().map_err(|_| damaged())?),
                2 => value = field.bytes().map_err(|_| damaged())?,
                _ => return Err(damaged()),
            }
        }
        let path = path.filter(|path| !path.is_empty()).ok_or_else(damaged)?;
        if self.passed_by.take(&path) {
            return Ok(());
        }
        let bytes = u64::try_from(path.len() + value.len()).unwrap_or(u64::MAX);
        self.kept_bytes =
            self.kept_bytes.saturating_add(bytes).saturating_add(ENTRY_OVERHEAD_BYTES);
        if self.kept_bytes > self.memory_bytes {
            return Err(Error::Memory(self.memory_bytes));
        }
        if self.records.len() >= ENTRIES_MAX {
            return Err(Error::file(format!("it has more than {ENTRIES_MAX} entries")));
        }
        match self.records.insert(path.into(), value.into()) {
            None => Ok(()),
            Some(_) => Err(Error::file("its state has a path twice")),
        }
    }

    /// Checks that every member is there and as its sum says.
    fn check(mut self) -> Result<SnapshotFile> {
        for member in [META, STATE, SUMS, SEALED_SUMS] {
            if !self.found.contains_key(member) {
                return Err(Error::file(format!("it is no snapshot, or was cut off: no {member}")));
            }
        }
        let sums = sums_of(&self.small.remove(SUMS).unwrap_or_default());
        for member in [META, STATE] {
            if sums.get(member) != self.found.get(member) {
                return Err(Error::file(format!("its {member} is not as its sum says")));
            }
        }
        let meta = self.small.remove(META).unwrap_or_default();
        let meta = kallisto_api::json::parse_object(&meta).ok();
        let layout = meta.as_ref().and_then(|meta| meta.get("ID")).and_then(|id| id.as_str());
        if layout != Some(LAYOUT) {
            return Err(Error::file(format!("its {META} names another layout than {LAYOUT:?}")));
        }
        let sealed_sums = self.small.remove(SEALED_SUMS).unwrap_or_default();
        let Self { records, passed_by, .. } = self;
        Ok(SnapshotFile { records, sums, sealed_sums, passed_by })
    }
}

/// The sums that a text says, by the names of their members. Servers write the lines in any order, and in another one where they are sealed.
pub(crate) fn sums_of(text: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(text);
    let pairs = text.lines().take(SUMS_MAX).filter_map(|line| line.split_once("  "));
    let decoded = pairs.map(|(sum, name)| {
        let sum = HEXLOWER_PERMISSIVE.decode(sum.as_bytes()).unwrap_or_default();
        (name.to_owned(), data_encoding::HEXLOWER.encode(&sum))
    });
    decoded.collect()
}

impl PassedBy {
    /// Counts a record of a token or a lease; true for what is not kept.
    fn take(&mut self, path: &str) -> bool {
        let path = match path.strip_prefix(NAMESPACES).and_then(|rest| rest.split_once('/')) {
            Some((_, path)) => path,
            None => path,
        };
        if path.starts_with("sys/token/id/") {
            self.tokens += 1;
            return true;
        }
        if path.starts_with("sys/expire/id/") {
            self.leases += 1;
            return true;
        }
        ["sys/token/accessor/", "sys/token/parent/", "sys/expire/", "sys/counters/"]
            .iter()
            .any(|folder| path.starts_with(folder))
    }
}

/// The length in front of an entry; `None` at the end.
fn read_length(from: &mut impl Read) -> Result<Option<u64>> {
    let mut held = Vec::with_capacity(10);
    loop {
        let mut byte = [0];
        match from.read(&mut byte) {
            Ok(0) if held.is_empty() => return Ok(None),
            Ok(1..) => held.push(byte[0]),
            Ok(0) => return Err(Error::file("its state ends in the middle of a length")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(cut_off(&error)),
        }
        if byte[0] & 0x80 == 0 || held.len() >= 10 {
            let length = varint(&held).map(|(length, _)| length);
            return length.map(Some).ok_or_else(|| Error::file("a length in its state is damaged"));
        }
    }
}

/// Reads what is behind the last member to the end of the gzip: zeros, which fill the blocks of the tar.
fn read_fill(from: &mut impl Read) -> Result<()> {
    let mut buffer = [0; 1 << 12];
    let mut bytes = 0;
    loop {
        let len = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(cut_off(&error)),
        };
        bytes += u64::try_from(len).unwrap_or(u64::MAX);
        let is_fill = buffer.iter().take(len).all(|&byte| byte == 0);
        if !is_fill || bytes > FILL_BYTES_MAX {
            return Err(follows_its_end());
        }
    }
}

fn follows_its_end() -> Error {
    Error::file("it was changed: something follows its end")
}

fn cut_off(error: &io::Error) -> Error {
    Error::file(format!("it was cut off or changed: {error}"))
}

/// A member whose bytes are summed as they are read.
struct Summed<R> {
    from: R,
    sum: Context,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.from.read(out)?;
        self.sum.update(out.get(..len).unwrap_or_default());
        Ok(len)
    }
}

/// How far a file expands.
#[derive(Default)]
struct FileExpansion {
    /// Bytes of the file that were read.
    read_bytes: Rc<Cell<u64>>,
    is_over: Cell<bool>,
}

/// The file, counted as it is read.
struct CountedInput<R> {
    from: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountedInput<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.from.read(out)?;
        self.count.set(self.count.get().saturating_add(u64::try_from(len).unwrap_or(u64::MAX)));
        Ok(len)
    }
}

/// What comes out of the file, which ends with an error where it is too much of it.
struct ExpandedInput<'e, R> {
    from: R,
    expansion: &'e FileExpansion,
    bytes: u64,
}

impl<R: Read> Read for ExpandedInput<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.from.read(out)?;
        self.bytes = self.bytes.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        let most = self.expansion.read_bytes.get().saturating_mul(EXPANSION_MAX);
        if self.bytes > most.max(EXPANSION_FREE_BYTES) {
            self.expansion.is_over.set(true);
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(len)
    }
}
