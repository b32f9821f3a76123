//! How far the log was synced, written down beside it, so that a log that comes back shorter is noticed.
//!
//! A log by itself cannot distinguish these: a lost last segment, or one that is cut between two frames, looks as a crash before they
//! were written does. The mark is a lower bound of what was synced. It is never written before the sync that it speaks of,
//! and not within it: the keeper brings it up to date at most [`MARK_PAUSE`] later, and a close leaves it exact. So a
//! power cut, whatever it takes, never takes what a mark names, and a loss is missed only of what was synced after the
//! last mark was written. A directory that was put back as a whole brings its old mark with it and looks sound.
//!
//! ```text
//! file := slot | zeros up to 4096 | slot | zeros up to 8192
//! slot := checksum u32 (CRC-32C of the rest) | format u32 (1) | turn u64 | frame u64 | segment u64 | offset u64 | index u64 | term u64
//! ```
//!
//! Slots are written in turns, and the sound one of the highest turn counts: a torn write leaves the other. What cannot
//! be read is no mark.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kallisto_codec::ByteReader;
use kallisto_lsm::disk::{Disk, DiskFile, OpenFor, read_full_at, write_all_at};
use kallisto_lsm::segment_log::LogEnd;

use crate::Error;

/// How old the oldest sync may get that no mark speaks of, and the time of one write more.
pub(crate) const MARK_PAUSE: Duration = Duration::from_millis(100);

/// The number of this layout.
const MARK_FORMAT: u32 = 1;
/// Where the second slot is: a page of its own.
const SLOT_STRIDE: usize = 4096;
/// The length of the file, in bytes.
const FILE_BYTES: usize = 2 * SLOT_STRIDE;
/// Bytes of a slot.
const SLOT_BYTES: usize = 4 + 4 + 6 * 8;

/// How far a log reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogReach {
    /// Where in its segments.
    pub(crate) end: LogEnd,
    /// The last entry there.
    pub(crate) index: u64,
    /// Its term.
    pub(crate) term: u64,
}

/// A log that comes back shorter than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    found: LogReach,
    synced: LogReach,
}

/// The file, and what it says.
pub(crate) struct Mark {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
    turn: u64,
    reach: LogReach,
    written_at: Option<Duration>,
    /// Why it is written no more: what the file holds after a failure is unknown, and a second sync would be believed.
    failure: Option<Error>,
}

impl Mark {
    /// Reads the mark of the store in `dir`; one that is not there says nothing.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, Error> {
        let mut this = Self {
            disk,
            dir: dir.to_owned(),
            file: None,
            turn: 0,
            reach: LogReach::default(),
            written_at: None,
            failure: None,
        };
        let path = this.path();
        let file = match this.disk.open(&path, OpenFor::ReadWrite) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(this),
            Err(error) => return Err(super::super::failed("open", &path, &error)),
        };
        let mut bytes = vec![0; FILE_BYTES];
        let read = read_full_at(&*file, &mut bytes, 0)
            .map_err(|error| super::super::failed("read", &path, &error))?;
        bytes.truncate(read);
        let bytes = Bytes::from(bytes);
        let slots = [0, SLOT_STRIDE].into_iter().filter_map(|at| read_slot(&bytes, at));
        if let Some((turn, reach)) = slots.max_by_key(|(turn, _)| *turn) {
            (this.turn, this.reach) = (turn, reach);
        }
        this.file = (read == FILE_BYTES).then_some(file);
        Ok(this)
    }

    /// What a log that was read up to `found` lacks.
    pub(crate) fn loss(&self, found: LogReach) -> Option<Loss> {
        let synced = self.reach;
        (found.end.frame < synced.end.frame).then_some(Loss { found, synced })
    }

    /// Writes that the log is synced up to `reach`, if that is news and the last time is long enough ago. Returns whether
    /// there will be more to write.
    pub(crate) fn follow(&mut self, reach: LogReach, now: Duration) -> Result<Followed, Error> {
        if reach.end.frame <= self.reach.end.frame {
            return Ok(Followed::Level);
        }
        if self.written_at.is_some_and(|at| now < at + MARK_PAUSE) {
            return Ok(Followed::Behind);
        }
        self.write(reach)?;
        self.written_at = Some(now);
        Ok(Followed::Behind)
    }

    /// The same at once.
    pub(crate) fn catch_up(&mut self, reach: LogReach) -> Result<(), Error> {
        if reach.end.frame <= self.reach.end.frame { Ok(()) } else { self.write(reach) }
    }

    /// Writes that the log reaches to `reach` and no further: what is missing was given up.
    pub(crate) fn give_up(&mut self, reach: LogReach) -> Result<(), Error> {
        self.write(reach)
    }

    /// A full disk leaves the mark as it was: it says less, and nothing wrong.
    fn write(&mut self, reach: LogReach) -> Result<(), Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        match self.try_write(reach) {
            Err(Error::Full(_)) => Ok(()),
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn try_write(&mut self, reach: LogReach) -> Result<(), Error> {
        let path = self.path();
        let failed = |doing, error: &std::io::Error| {
            if kallisto_lsm::is_full(error) {
                return Error::Full(format!("{doing} {}", path.display()));
            }
            Error::Poisoned(format!("{doing} {}: {error}", path.display()))
        };
        let turn = self.turn + 1;
        let at = if turn.is_multiple_of(2) { 0 } else { SLOT_STRIDE };
        let slot = slot_bytes(turn, reach);
        let (file, fresh) = match &self.file {
            Some(file) => (Arc::clone(file), false),
            None => (self.disk.create(&path).map_err(|error| failed("create", &error))?, true),
        };
        if fresh {
            write_all_at(&*file, &vec![0; FILE_BYTES], 0)
                .map_err(|error| failed("write", &error))?;
        }
        write_all_at(&*file, &slot, at as u64).map_err(|error| failed("write", &error))?;
        file.sync_data().map_err(|error| failed("sync", &error))?;
        if fresh {
            self.disk.sync_dir(&self.dir).map_err(|error| failed("sync", &error))?;
        }
        (self.file, self.turn, self.reach) = (Some(file), turn, reach);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.dir.join("SYNCED")
    }
}

/// Whether a mark says all there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    Level,
    /// There was more lately: look again after [`MARK_PAUSE`].
    Behind,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, synced } = self;
        let entries = synced.index.saturating_sub(found.index);
        let frames = synced.end.frame - found.end.frame;
        write!(
            f,
            "the raft log lost what was on the disk: at least {entries} entries in {frames} frames are missing; it ends at {}, and \
             was synced up to {}",
            found, synced
        )
    }
}

impl fmt::Display for LogReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, index, term } = self;
        let LogEnd { frame, segment, offset } = end;
        write!(
            f,
            "entry {index} of term {term} (frame {frame}, segment {segment:016x} byte {offset})"
        )
    }
}

fn slot_bytes(turn: u64, reach: LogReach) -> Vec<u8> {
    let LogReach { end, index, term } = reach;
    let mut rest = MARK_FORMAT.to_le_bytes().to_vec();
    for number in [turn, end.frame, end.segment, end.offset, index, term] {
        rest.extend_from_slice(&number.to_le_bytes());
    }
    let mut slot = crc32c::crc32c(&rest).to_le_bytes().to_vec();
    slot.append(&mut rest);
    slot
}

fn read_slot(file: &Bytes, at: usize) -> Option<(u64, LogReach)> {
    let slot = (at + SLOT_BYTES <= file.len()).then(|| file.slice(at..at + SLOT_BYTES))?;
    let mut reader = ByteReader::new(&slot);
    let checksum = reader.u32()?;
    if checksum != crc32c::crc32c(slot.get(4..)?) || reader.u32()? != MARK_FORMAT {
        return None;
    }
    let turn = reader.u64()?;
    let end = LogEnd { frame: reader.u64()?, segment: reader.u64()?, offset: reader.u64()? };
    Some((turn, LogReach { end, index: reader.u64()?, term: reader.u64()? }))
}

#[cfg(test)]
mod tests {
    use kallisto_lsm::disk::{DiskFault, FaultKind, FaultyDisk};

    use super::*;

    fn reach(frame: u64) -> LogReach {
        LogReach { end: LogEnd { frame, segment: 1, offset: 64 * frame }, index: frame, term: 1 }
    }

    #[test]
    fn a_mark_whose_sync_failed_is_not_written_again() {
        let disk = FaultyDisk::shared();
        disk.create_dir(Path::new("store")).unwrap();
        let open = || Mark::open(disk.clone(), Path::new("store")).unwrap();
        let mut mark = open();
        mark.catch_up(reach(1)).unwrap();
        disk.plan(Some(DiskFault { kind: FaultKind::SyncFails, from: 0, until: u64::MAX }));
        let failed = mark.catch_up(reach(2));
        assert!(matches!(failed, Err(Error::Poisoned(_))), "{failed:?}");
        disk.plan(None);
        assert_eq!(mark.catch_up(reach(3)), failed, "a second sync would be believed");
        assert!(open().reach.end.frame < 3, "nothing was written");
    }

    fn at(dir: &str) -> (Arc<kallisto_lsm::disk::MemDisk>, PathBuf) {
        (kallisto_lsm::disk::MemDisk::shared(), PathBuf::from(dir))
    }

    #[test]
    fn a_mark_follows_at_most_once_in_its_pause_and_never_back() {
        let (disk, dir) = at("store");
        let mut mark = Mark::open(disk.clone(), &dir).unwrap();
        let said = || Mark::open(disk.clone(), &dir).unwrap().reach;
        let secs = Duration::from_secs;
        assert_eq!(mark.follow(reach(0), secs(1)), Ok(Followed::Level), "there is no news");
        assert_eq!(mark.follow(reach(5), secs(1)), Ok(Followed::Behind));
        assert_eq!(said(), reach(5));
        assert_eq!(mark.follow(reach(5), secs(2)), Ok(Followed::Level));
        let early = secs(1) + MARK_PAUSE - Duration::from_nanos(1);
        assert_eq!(mark.follow(reach(7), early), Ok(Followed::Behind));
        assert_eq!(said(), reach(5), "it was written just now");
        assert_eq!(mark.follow(reach(6), secs(1) + MARK_PAUSE), Ok(Followed::Behind));
        assert_eq!(said(), reach(6));
        mark.catch_up(reach(5)).unwrap();
        assert_eq!(said(), reach(6), "less is no news");
        mark.catch_up(reach(8)).unwrap();
        assert_eq!(said(), reach(8), "at once");
        mark.give_up(reach(2)).unwrap();
        assert_eq!(said(), reach(2), "somebody decided so");
    }

    #[test]
    fn a_torn_slot_leaves_the_one_before() {
        let (disk, dir) = at("store");
        let path = dir.join("SYNCED");
        let mut mark = Mark::open(disk.clone(), &dir).unwrap();
        for frame in 1..6 {
            mark.catch_up(reach(frame)).unwrap();
            let good = disk.files().remove(&path).unwrap();
            assert_eq!(good.len(), FILE_BYTES);
            let newest = if frame % 2 == 0 { 0 } else { SLOT_STRIDE };
            for byte in 0..SLOT_BYTES {
                let torn = Arc::new(disk.fork());
                let file = torn.open(&path, OpenFor::ReadWrite).unwrap();
                let flipped = good.get(newest + byte).unwrap() ^ 1;
                file.write_at(&[flipped], (newest + byte) as u64).unwrap();
                let left = Mark::open(torn, &dir).unwrap();
                let before = if frame == 1 { LogReach::default() } else { reach(frame - 1) };
                assert_eq!((left.reach, left.turn), (before, frame - 1), "byte {byte} of {frame}");
            }
        }
    }

    #[test]
    fn what_a_log_lacks_is_counted() {
        let (disk, dir) = at("store");
        let mut mark = Mark::open(disk, &dir).unwrap();
        assert_eq!(mark.loss(reach(0)), None);
        let of = |frame, index| LogReach { index, ..reach(frame) };
        mark.catch_up(of(9, 20)).unwrap();
        assert_eq!((mark.loss(of(9, 20)), mark.loss(of(10, 21))), (None, None));
        let said = mark.loss(of(8, 17)).unwrap().to_string();
        let wanted = "at least 3 entries in 1 frames are missing; it ends at entry 17 of term 1 (frame 8, segment 0000000000000001 \
                      byte 512), and was synced up to entry 20 of term 1 (frame 9, segment 0000000000000001 byte 576)";
        assert!(said.ends_with(wanted), "{said}");
    }

    #[test]
    fn a_full_disk_leaves_the_mark_and_a_later_write_has_it() {
        let disk = FaultyDisk::shared();
        let open = || Mark::open(disk.clone(), Path::new("store")).unwrap();
        let mut mark = open();
        let full = DiskFault { kind: FaultKind::NoSpace, from: 0, until: u64::MAX };
        disk.plan(Some(full));
        assert_eq!(mark.catch_up(reach(1)), Ok(()));
        assert_eq!(mark.reach, LogReach::default(), "nothing is written");
        disk.plan(None);
        mark.catch_up(reach(2)).unwrap();
        disk.plan(Some(full));
        mark.catch_up(reach(3)).unwrap();
        assert_eq!(open().reach, reach(3), "its place is there");
    }
}
