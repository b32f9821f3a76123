//! The manifest: the log of edits that says which files are live, and `CURRENT`, which names the live manifest.
//!
//! ```text
//! manifest := magic 8 bytes | format u32 | checksum u32 | record*
//! record   := checksum u32 | length u32 | edit | zeros up to a multiple of 8
//! CURRENT  := "kallisto-lsm 1 <manifest number, 16 hex digits> <checksum, 8 hex digits>\n"
//! ```
//!
//! A record's checksum covers its length and its edit in the context of the manifest's number and the record's offset.
//!
//! Invariants:
//! - every record is synced before the next one is written, so a bad record with a good one behind it is damage, and
//!   one with nothing behind it is a torn tail;
//! - every file that a record names is complete, synced and has a synced name before the record is written;
//! - `CURRENT` changes by rename after the new manifest is synced: a crash leaves the old or the new one;
//! - a manifest that is written on ([`Manifest::resume`]) is durable as it was read, and the next record takes the place of
//!   a torn one.

mod edit;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use self::edit::Edit;
use kallisto_codec::ByteReader;

use crate::checksum::checksum;
use crate::disk::{Disk, DiskFile, OpenFor, read_all, write_all_at};
use crate::error::{Error, Result};
use crate::limits::{EDIT_BYTES_MAX, MANIFEST_BYTES_MAX, MANIFEST_BYTES_ROTATE};
use crate::names::{self, CURRENT, CURRENT_NEW};

const MAGIC: [u8; 8] = *b"KALLMAN\n";
/// The number of this layout, of `CURRENT` too.
const MANIFEST_FORMAT: u32 = 1;
const HEADER_BYTES: usize = 16;
const RECORD_HEADER_BYTES: usize = 8;
const ALIGN_BYTES: usize = 8;
/// The first word of `CURRENT`.
const CURRENT_WORD: &str = "kallisto-lsm";
/// The largest `CURRENT` that is read, in bytes.
const CURRENT_BYTES_MAX: u64 = 256;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    number: u64,
    file: Arc<dyn DiskFile>,
    end: u64,
}

impl Manifest {
    /// Writes a fresh manifest that starts with `snapshot` and makes it the live one.
    ///
    /// # Errors
    /// [`Error::Full`] leaves the live manifest live, and takes back what was written; after anything else, what is live is
    /// unknown.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        number: u64,
        snapshot: &Edit,
    ) -> Result<Self> {
        Self::try_create(disk.clone(), dir, number, snapshot).inspect_err(|error| {
            if let Error::Full(_) = error {
                // The next open removes what stays. Room is tried for again and again, each time under a new number.
                let _ = disk.remove(&names::manifest(dir, number));
                let _ = disk.remove(&dir.join(CURRENT_NEW));
            }
        })
    }

    fn try_create(disk: Arc<dyn Disk>, dir: &Path, number: u64, snapshot: &Edit) -> Result<Self> {
        let path = names::manifest(dir, number);
        let file = disk.create(&path).map_err(|e| Error::io("create", &path, &e))?;
        let mut bytes = header(number);
        append_record(&mut bytes, number, 0, snapshot);
        write_all_at(&*file, &bytes, 0).map_err(|e| Error::io("write", &path, &e))?;
        file.sync_data().map_err(|e| Error::poison("sync", &path, &e))?;
        let this = Self { disk, dir: dir.to_owned(), number, file, end: bytes.len() as u64 };
        this.make_current()?;
        Ok(this)
    }

    /// Goes on with the live manifest, as it was read. A process that died leaves edits that are readable and not
    /// durable, and so is the name that `CURRENT` got: both are made durable before anything builds on them.
    pub(crate) fn resume(disk: Arc<dyn Disk>, dir: &Path, live: &LiveManifest) -> Result<Self> {
        let path = names::manifest(dir, live.number);
        let file =
            disk.open(&path, OpenFor::ReadWrite).map_err(|e| Error::io("open", &path, &e))?;
        file.sync_data().map_err(|e| Error::poison("sync", &path, &e))?;
        disk.sync_dir(dir).map_err(|e| Error::poison("sync", dir, &e))?;
        Ok(Self { disk, dir: dir.to_owned(), number: live.number, file, end: live.end })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it has grown enough to be replaced.
    pub(crate) fn wants_rotation(&self) -> bool {
        self.end > MANIFEST_BYTES_ROTATE
    }

    /// Appends an edit and makes it durable.
    ///
    /// # Errors
    /// [`Error::Full`] leaves the manifest as it was; after anything else its state is unknown.
    pub(crate) fn append(&mut self, edit: &Edit) -> Result<()> {
        let path = names::manifest(&self.dir, self.number);
        let mut bytes = Vec::new();
        append_record(&mut bytes, self.number, self.end, edit);
        write_all_at(&*self.file, &bytes, self.end).map_err(|error| {
            match Error::io("write", &path, &error) {
                full @ Error::Full(_) => full,
                _ => Error::poison("write", &path, &error),
            }
        })?;
        self.file.sync_data().map_err(|e| Error::poison("sync", &path, &e))?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn make_current(&self) -> Result<()> {
        let new = self.dir.join(CURRENT_NEW);
        let text = current_text(self.number);
        let file = self.disk.create(&new).map_err(|e| Error::io("create", &new, &e))?;
        write_all_at(&*file, text.as_bytes(), 0).map_err(|e| Error::io("write", &new, &e))?;
        file.sync_data().map_err(|e| Error::poison("sync", &new, &e))?;
        // The manifest's own name must be durable before CURRENT can lead to it.
        let synced = |e| Error::poison("sync", &self.dir, &e);
        self.disk.sync_dir(&self.dir).map_err(synced)?;
        let current = self.dir.join(CURRENT);
        self.disk.rename(&new, &current).map_err(|e| Error::io("rename", &new, &e))?;
        self.disk.sync_dir(&self.dir).map_err(synced)
    }
}

/// A manifest as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveManifest {
    /// Its number.
    pub(crate) number: u64,
    /// Where its last sound record ends, in bytes.
    pub(crate) end: u64,
    /// Everything its edits say, as one.
    pub(crate) known: Edit,
}

/// The number of the live manifest, or `None` if the directory has no `CURRENT`.
pub(crate) fn current(disk: &dyn Disk, dir: &Path) -> Result<Option<u64>> {
    let path = dir.join(CURRENT);
    let bytes = match read_all(disk, &path, CURRENT_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", &path, &error)),
    };
    let damaged = || Error::corrupt(&path, 0, "name of the manifest");
    let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
    let mut words = text.split_ascii_whitespace();
    let (word, format, number) = (words.next(), words.next(), words.next());
    let format: u32 = format.and_then(|format| format.parse().ok()).ok_or_else(damaged)?;
    if word == Some(CURRENT_WORD) && format > MANIFEST_FORMAT && current_sum_holds(text) {
        return Err(Error::Unsupported { file: path, format });
    }
    let number = number.and_then(|hex| u64::from_str_radix(hex, 16).ok()).ok_or_else(damaged)?;
    if text == current_text(number) { Ok(Some(number)) } else { Err(damaged()) }
}

/// Reads manifest `number`. The caller has it from `CURRENT`.
pub(crate) fn read(disk: &dyn Disk, dir: &Path, number: u64) -> Result<LiveManifest> {
    let path = names::manifest(dir, number);
    let bytes = match read_all(disk, &path, MANIFEST_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::corrupt(&path, 0, "the manifest is missing"));
        }
        Err(error) => return Err(Error::io("read", &path, &error)),
    };
    let (known, end) = decode(&bytes, number, &path)?;
    Ok(LiveManifest { number, end: end as u64, known })
}

/// Reads a manifest's bytes: everything its edits say, as one, and where the last of them ends.
pub(crate) fn decode(bytes: &[u8], number: u64, path: &Path) -> Result<(Edit, usize)> {
    let damaged = |at: usize, what| Error::corrupt(path, at as u64, what);
    check_header(bytes, number, path)?;
    let mut all = Edit::default();
    let mut at = HEADER_BYTES;
    let mut records = 0u64;
    while let Some((edit, next)) = record(bytes, number, at) {
        let edit = Edit::decode(edit).ok_or_else(|| damaged(at, "edit"))?;
        all.absorb(edit);
        at = next;
        records += 1;
    }
    if records == 0 {
        return Err(damaged(at, "the first record"));
    }
    let mut behind = at + ALIGN_BYTES;
    while behind < bytes.len() {
        if record(bytes, number, behind).is_some() {
            return Err(damaged(at, "record"));
        }
        behind += ALIGN_BYTES;
    }
    Ok((all, at))
}

fn header(number: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&MANIFEST_FORMAT.to_le_bytes());
    let sum = checksum([number, 0], &bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

fn check_header(bytes: &[u8], number: u64, path: &Path) -> Result<()> {
    if bytes.get(..HEADER_BYTES) == Some(header(number).as_slice()) {
        return Ok(());
    }
    let mut reader = ByteReader::new(bytes);
    let magic = reader.take(MAGIC.len());
    let (format, sum) = (reader.u32(), reader.u32());
    let covered = bytes.get(..MAGIC.len() + 4).unwrap_or_default();
    match format {
        Some(format) if magic == Some(&MAGIC) && sum == Some(checksum([number, 0], covered)) => {
            Err(Error::Unsupported { file: path.to_owned(), format })
        }
        _ => Err(Error::corrupt(path, 0, "header")),
    }
}

/// Appends a record whose manifest ends at `end` before `bytes`.
fn append_record(bytes: &mut Vec<u8>, number: u64, end: u64, edit: &Edit) {
    let at = end + bytes.len() as u64;
    let edit = edit.encode();
    assert!(edit.len() <= EDIT_BYTES_MAX, "an edit names a bounded number of files");
    let len = u32::try_from(edit.len()).expect("EDIT_BYTES_MAX is below 4 GiB");
    let mut covered = len.to_le_bytes().to_vec();
    covered.extend_from_slice(&edit);
    bytes.extend_from_slice(&checksum([number, at], &covered).to_le_bytes());
    bytes.extend_from_slice(&covered);
    bytes.resize(bytes.len().next_multiple_of(ALIGN_BYTES), 0);
}

/// The edit of the record at `at` and where the next record starts, if a sound one is there.
fn record(bytes: &[u8], number: u64, at: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(at..)?;
    let mut reader = ByteReader::new(rest);
    let sum = reader.u32()?;
    let len = reader.u32()? as usize;
    if len == 0 || len > EDIT_BYTES_MAX {
        return None;
    }
    let edit = reader.take(len)?;
    let covered = rest.get(4..RECORD_HEADER_BYTES + len)?;
    let next = (at + RECORD_HEADER_BYTES + len).next_multiple_of(ALIGN_BYTES);
    (checksum([number, at as u64], covered) == sum).then_some((edit, next))
}

fn current_text(number: u64) -> String {
    let words = format!("{CURRENT_WORD} {MANIFEST_FORMAT} {number:016x}");
    format!("{words} {:08x}\n", checksum([0, 0], words.as_bytes()))
}

fn current_sum_holds(text: &str) -> bool {
    text.trim_end().rsplit_once(' ').is_some_and(|(words, sum)| {
        u32::from_str_radix(sum, 16) == Ok(checksum([0, 0], words.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemDisk;

    fn edit(wal_floor: u64) -> Edit {
        Edit { wal_floor: Some(wal_floor), ..Edit::default() }
    }

    fn three_records() -> Vec<u8> {
        let mut bytes = header(7);
        (1..=3).for_each(|floor| append_record(&mut bytes, 7, 0, &edit(floor)));
        bytes
    }

    #[test]
    fn edits_come_back_through_current() {
        let disk = MemDisk::shared();
        let dir = Path::new("d");
        assert_eq!(current(&*disk, dir), Ok(None));
        let mut manifest = Manifest::create(disk.clone(), dir, 5, &edit(1)).unwrap();
        manifest.append(&edit(2)).unwrap();
        assert_eq!(current(&*disk, dir), Ok(Some(5)));
        assert_eq!(read(&*disk, dir, 5).unwrap().known, edit(2));
        Manifest::create(disk.clone(), dir, 6, &edit(3)).unwrap();
        assert_eq!(current(&*disk, dir), Ok(Some(6)));
    }

    #[test]
    fn a_torn_record_is_the_end_and_damage_before_a_good_one_is_loud() {
        let path = Path::new("m");
        let bytes = three_records();
        assert_eq!(decode(&bytes, 7, path), Ok((edit(3), bytes.len())));
        assert_eq!(decode(&bytes[..bytes.len() - 7], 7, path), Ok((edit(2), bytes.len() - 16)));
        let mut bad = bytes.clone();
        bad[HEADER_BYTES + 16 + 9] ^= 1;
        let want = Error::corrupt(path, (HEADER_BYTES + 16) as u64, "record");
        assert_eq!(decode(&bad, 7, path), Err(want));
    }

    #[test]
    fn a_manifest_goes_on_over_its_torn_end() {
        let (disk, dir) = (MemDisk::shared(), Path::new("d"));
        let mut manifest = Manifest::create(disk.clone(), dir, 5, &edit(1)).unwrap();
        manifest.append(&edit(2)).unwrap();
        let end = manifest.end;
        let torn = [[1; 8]; 9].concat();
        write_all_at(&*manifest.file, &torn, end).unwrap();
        let live = read(&*disk, dir, 5).unwrap();
        assert_eq!((&live.known, live.end), (&edit(2), end));
        let mut manifest = Manifest::resume(disk.clone(), dir, &live).unwrap();
        for floor in 3..9 {
            manifest.append(&edit(floor)).unwrap();
            assert_eq!(read(&*disk, dir, 5).unwrap().known, edit(floor));
        }
    }

    #[test]
    fn a_full_disk_leaves_the_live_manifest_and_nothing_of_the_new_one() {
        use crate::disk::{DiskFault, FaultKind, FaultyDisk};
        let (disk, dir) = (FaultyDisk::shared(), Path::new("d"));
        Manifest::create(disk.clone(), dir, 5, &edit(1)).unwrap();
        let names = disk.list(dir).unwrap();
        let mut refused = 0;
        loop {
            let from = disk.operations() + refused;
            disk.plan(Some(DiskFault { kind: FaultKind::NoSpace, from, until: u64::MAX }));
            let Err(error) = Manifest::create(disk.clone(), dir, 6, &edit(2)) else { break };
            assert!(matches!(error, Error::Full(_)), "{error}");
            assert_eq!(current(&*disk, dir), Ok(Some(5)));
            assert_eq!(disk.list(dir).unwrap(), names);
            refused += 1;
        }
        assert!(refused > 4, "both files are made and written, and one is renamed");
    }

    #[test]
    fn a_flipped_bit_is_seen_or_ends_the_log() {
        let path = Path::new("m");
        let good = three_records();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match decode(&bad, 7, path) {
                Ok((read, _)) => assert!(read == edit(2) || read == edit(3), "bit {bit}"),
                Err(Error::Corrupt { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let read = |text: String| {
            let disk = MemDisk::shared();
            let file = disk.create(Path::new("d/CURRENT")).unwrap();
            write_all_at(&*file, text.as_bytes(), 0).unwrap();
            current(&*disk, Path::new("d"))
        };
        let words = format!("{CURRENT_WORD} 2 {:016x}", 5);
        let sum = checksum([0, 0], words.as_bytes());
        let got = read(format!("{words} {sum:08x}\n"));
        assert!(matches!(got, Err(Error::Unsupported { format: 2, .. })));
        let got = read(format!("{words} {:08x}\n", sum ^ 1));
        assert!(matches!(got, Err(Error::Corrupt { offset: 0, .. })), "its sum does not hold");
    }

    #[test]
    fn a_manifest_of_a_newer_format_is_named_and_a_damaged_header_is_damage() {
        let path = Path::new("m");
        let mut newer = MAGIC.to_vec();
        newer.extend_from_slice(&2u32.to_le_bytes());
        let sum = checksum([7, 0], &newer);
        newer.extend_from_slice(&sum.to_le_bytes());
        let named = Error::Unsupported { file: path.to_owned(), format: 2 };
        assert_eq!(decode(&newer, 7, path), Err(named));
        let damage = Err(Error::corrupt(path, 0, "header"));
        assert_eq!(decode(&newer, 8, path), damage, "the header of another manifest");
        for good in [newer, three_records()] {
            for at in 0..HEADER_BYTES {
                let mut bad = good.clone();
                bad[at] ^= 1;
                assert_eq!(decode(&bad, 7, path), damage, "byte {at}");
                assert_eq!(decode(&good[..at], 7, path), damage, "cut at {at}");
            }
        }
    }

    #[test]
    fn records_of_every_length_follow_each_other() {
        let mut bytes = header(7);
        for bytes_of_number in 0..10u32 {
            let number = u64::MAX >> (63 - 7 * bytes_of_number.min(9));
            append_record(&mut bytes, 7, 0, &edit(number));
            assert_eq!(decode(&bytes, 7, Path::new("m")), Ok((edit(number), bytes.len())));
        }
    }

    /// The bytes of a record with `len` zeros for an edit, and a good checksum.
    fn record_of(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; RECORD_HEADER_BYTES + len];
        bytes[4..8].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
        let sum = checksum([7, 0], &bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_record_holds_something_and_no_more_than_its_limit() {
        let read = |len| record(&record_of(len), 7, 0).map(|(edit, next)| (edit.len(), next));
        assert_eq!(read(0), None);
        assert_eq!(read(1), Some((1, 16)));
        assert_eq!(read(EDIT_BYTES_MAX), Some((EDIT_BYTES_MAX, EDIT_BYTES_MAX + 8)));
        assert_eq!(read(EDIT_BYTES_MAX + 1), None);
    }

    #[test]
    fn it_is_replaced_once_it_is_longer_than_its_limit() {
        let mut manifest =
            Manifest::create(MemDisk::shared(), Path::new("d"), 5, &edit(1)).unwrap();
        manifest.end = MANIFEST_BYTES_ROTATE;
        assert!(!manifest.wants_rotation());
        manifest.append(&edit(2)).unwrap();
        assert_eq!(manifest.end, MANIFEST_BYTES_ROTATE + 16);
        assert!(manifest.wants_rotation());
    }

    /// A disk that refuses is no disk without a manifest: the store would begin anew.
    #[test]
    fn what_cannot_be_read_is_not_missing() {
        use crate::disk::{DiskFault, FaultKind, FaultyDisk};
        let (disk, dir) = (FaultyDisk::shared(), Path::new("d"));
        let missing = Error::corrupt(&names::manifest(dir, 5), 0, "the manifest is missing");
        assert_eq!(read(&*disk, dir, 5), Err(missing));
        Manifest::create(disk.clone(), dir, 5, &edit(1)).unwrap();
        let from = disk.operations();
        disk.plan(Some(DiskFault { kind: FaultKind::Crash, from, until: u64::MAX }));
        assert!(disk.sync_dir(dir).is_err(), "nothing works any more");
        assert!(matches!(current(&*disk, dir), Err(Error::Io(_))));
        assert!(matches!(read(&*disk, dir, 5), Err(Error::Io(_))));
    }
}
