//! A crash as a value: what a power cut leaves of a recorded run.
//!
//! [`CrashReplay`] walks a record of [`DiskEvent`]s. At any point it can say what the disk may hold if the power went
//! right there, in five ways ([`UnsyncedTail`]). Synced bytes and names are always there; the rest is decided by the variant
//! and, where it needs dice, by a seed. Pages are 512 bytes, the smallest unit that a disk writes whole.
//!
//! The model is as strict as POSIX allows: syncing a file does not sync its name, and syncing a directory does not sync
//! the files in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mem::overwrite;
use super::{DiskEvent, MemDisk};

/// The unit that is written whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What happens to what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsyncedTail {
    /// All of it is lost.
    Lost,
    /// All of it is there.
    Kept,
    /// Bytes are kept, names are lost.
    NamesLost,
    /// A prefix is there; the last write is cut at a random byte.
    Torn,
    /// Each sector and each name operation is there or not, by dice.
    Reordered,
}

impl UnsyncedTail {
    /// Every variant.
    pub const ALL: [Self; 5] =
        [Self::Lost, Self::Kept, Self::NamesLost, Self::Torn, Self::Reordered];
}

/// A walk along a record.
#[derive(Debug)]
pub struct CrashReplay<'a> {
    events: std::slice::Iter<'a, DiskEvent>,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<PathBuf, u64>,
    names_pending: Vec<(PathBuf, NameChange)>,
    names_live: BTreeMap<PathBuf, u64>,
}

#[derive(Debug, Default)]
struct Inode {
    durable: Arc<Vec<u8>>,
    pending: Vec<(usize, Arc<[u8]>)>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Set { path: PathBuf, inode: u64 },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

impl<'a> CrashReplay<'a> {
    /// Starts before the first event, on an empty disk.
    #[must_use]
    pub fn new(events: &'a [DiskEvent]) -> Self {
        Self {
            events: events.iter(),
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            names_pending: Vec::new(),
            names_live: BTreeMap::new(),
        }
    }

    /// Takes the next event; false at the end of the record.
    pub fn advance(&mut self) -> bool {
        let Some(event) = self.events.next() else { return false };
        match event {
            DiskEvent::Create { path, inode } => {
                self.inodes.insert(*inode, Inode::default());
                self.names_live.insert(path.clone(), *inode);
                self.change(path, NameChange::Set { path: path.clone(), inode: *inode });
            }
            DiskEvent::Write { inode, offset, bytes } => {
                let offset = usize::try_from(*offset).expect("offsets in memory fit");
                self.inode(*inode).pending.push((offset, bytes.clone()));
            }
            DiskEvent::Sync { inode } => self.inode(*inode).settle(),
            DiskEvent::Rename { from, to } => {
                let inode = self.names_live.remove(from).expect("a recorded rename had a source");
                self.names_live.insert(to.clone(), inode);
                let change = NameChange::Rename { from: from.clone(), to: to.clone(), inode };
                self.change(to, change);
            }
            DiskEvent::Remove { path } => {
                self.names_live.remove(path);
                self.change(path, NameChange::Remove { path: path.clone() });
            }
            DiskEvent::Link { from, to } => {
                let inode = self.names_live[from];
                self.names_live.insert(to.clone(), inode);
                self.change(to, NameChange::Set { path: to.clone(), inode });
            }
            DiskEvent::SyncDir { dir } => self.settle_names(dir),
        }
        true
    }

    /// What a crash at this point may leave.
    #[must_use]
    pub fn image(&self, tail: UnsyncedTail, seed: u64) -> MemDisk {
        let mut dice = CrashRandom(seed ^ 0x9e37_79b9_7f4a_7c15);
        let names = self.surviving_names(tail, &mut dice);
        let mut contents = BTreeMap::new();
        let files = names.into_iter().map(|(path, inode)| {
            let bytes = contents
                .entry(inode)
                .or_insert_with(|| self.inodes[&inode].surviving(tail, &mut dice))
                .clone();
            (path, bytes)
        });
        MemDisk::from_files(files.collect::<Vec<_>>())
    }

    fn inode(&mut self, inode: u64) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("a recorded write has a file")
    }

    fn change(&mut self, path: &Path, change: NameChange) {
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        self.names_pending.push((dir, change));
    }

    fn settle_names(&mut self, dir: &Path) {
        let pending = std::mem::take(&mut self.names_pending);
        for (parent, change) in pending {
            if parent == dir {
                change.apply(&mut self.names);
            } else {
                self.names_pending.push((parent, change));
            }
        }
        let live: std::collections::BTreeSet<u64> =
            self.names.values().chain(self.names_live.values()).copied().collect();
        self.inodes.retain(|inode, _| live.contains(inode));
    }

    fn surviving_names(
        &self,
        tail: UnsyncedTail,
        dice: &mut CrashRandom,
    ) -> BTreeMap<PathBuf, u64> {
        let mut names = self.names.clone();
        let kept = match tail {
            UnsyncedTail::Lost | UnsyncedTail::NamesLost => 0,
            UnsyncedTail::Kept | UnsyncedTail::Reordered => self.names_pending.len(),
            UnsyncedTail::Torn => dice.below(self.names_pending.len() + 1),
        };
        for (_, change) in &self.names_pending[..kept] {
            if tail != UnsyncedTail::Reordered || dice.below(2) == 0 {
                change.apply(&mut names);
            }
        }
        // A removed file's inode may be forgotten already; then its old name is durable nowhere.
        names.retain(|_, inode| self.inodes.contains_key(inode));
        names
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Set { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            Self::Remove { path } => {
                names.remove(path);
            }
            Self::Rename { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
        }
    }
}

impl Inode {
    fn settle(&mut self) {
        let durable = Arc::make_mut(&mut self.durable);
        for (offset, bytes) in self.pending.drain(..) {
            overwrite(durable, &bytes, offset);
        }
    }

    fn surviving(&self, tail: UnsyncedTail, dice: &mut CrashRandom) -> Arc<Vec<u8>> {
        if self.pending.is_empty() || tail == UnsyncedTail::Lost {
            return self.durable.clone();
        }
        let mut bytes = self.durable.to_vec();
        match tail {
            UnsyncedTail::Lost => {}
            UnsyncedTail::Kept | UnsyncedTail::NamesLost => {
                for (offset, written) in &self.pending {
                    overwrite(&mut bytes, written, *offset);
                }
            }
            UnsyncedTail::Torn => {
                let last = dice.below(self.pending.len());
                for (offset, written) in &self.pending[..last] {
                    overwrite(&mut bytes, written, *offset);
                }
                let (offset, written) = &self.pending[last];
                overwrite(&mut bytes, &written[..dice.below(written.len() + 1)], *offset);
            }
            UnsyncedTail::Reordered => {
                for (offset, written) in &self.pending {
                    self.scatter(&mut bytes, *offset, written, dice);
                }
            }
        }
        Arc::new(bytes)
    }

    fn scatter(&self, bytes: &mut Vec<u8>, offset: usize, written: &[u8], dice: &mut CrashRandom) {
        let mut start = 0;
        while start < written.len() {
            let end_of_sector = (offset + start) / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES;
            let end = written.len().min(end_of_sector - offset);
            if dice.below(2) == 0 {
                overwrite(bytes, &written[start..end], offset + start);
            }
            start = end;
        }
    }
}

/// A small generator (xorshift64*): crash images must be the same on every machine for one seed.
#[derive(Debug)]
struct CrashRandom(u64);

impl CrashRandom {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let roll = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(roll).expect("31 bits fit") % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Disk, FaultyDisk};
    use super::*;

    fn image_at_end(
        disk: &FaultyDisk,
        tail: UnsyncedTail,
        seed: u64,
    ) -> BTreeMap<PathBuf, Arc<Vec<u8>>> {
        let events = disk.events();
        let mut replay = CrashReplay::new(&events);
        while replay.advance() {}
        replay.image(tail, seed).files()
    }

    #[test]
    fn synced_bytes_and_names_survive_every_tail() {
        let disk = FaultyDisk::shared();
        let file = disk.create(Path::new("d/a")).unwrap();
        file.write_at(b"durable", 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        for tail in UnsyncedTail::ALL {
            let files = image_at_end(&disk, tail, 7);
            assert_eq!(files[Path::new("d/a")].as_slice(), b"durable");
        }
    }

    #[test]
    fn a_synced_file_without_a_synced_name_may_be_lost() {
        let disk = FaultyDisk::shared();
        let file = disk.create(Path::new("d/a")).unwrap();
        file.write_at(b"x", 0).unwrap();
        file.sync_data().unwrap();
        assert!(image_at_end(&disk, UnsyncedTail::Lost, 0).is_empty());
        assert_eq!(image_at_end(&disk, UnsyncedTail::Kept, 0).len(), 1);
    }

    #[test]
    fn an_unsynced_write_is_lost_kept_torn_or_scattered() {
        let disk = FaultyDisk::shared();
        let file = disk.create(Path::new("d/a")).unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        file.write_at(&[1; 4 * SECTOR_BYTES], 0).unwrap();
        assert!(image_at_end(&disk, UnsyncedTail::Lost, 0)[Path::new("d/a")].is_empty());
        assert_eq!(image_at_end(&disk, UnsyncedTail::Kept, 0)[Path::new("d/a")].len(), 2048);
        let mut holes = 0;
        let mut cuts = 0;
        for seed in 0..64 {
            let torn = image_at_end(&disk, UnsyncedTail::Torn, seed);
            let len = torn[Path::new("d/a")].len();
            cuts += u32::from(!len.is_multiple_of(SECTOR_BYTES));
            let scattered = image_at_end(&disk, UnsyncedTail::Reordered, seed);
            let bytes = &scattered[Path::new("d/a")];
            holes += u32::from(bytes.contains(&0) && bytes.contains(&1));
        }
        assert!(holes > 10, "{holes} of 64 images have a hole");
        assert!(cuts > 10, "{cuts} of 64 images are cut inside a sector");
    }

    #[test]
    fn a_rename_without_a_directory_sync_may_be_undone() {
        let disk = FaultyDisk::shared();
        disk.create(Path::new("d/old")).unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        disk.rename(Path::new("d/old"), Path::new("d/new")).unwrap();
        assert!(image_at_end(&disk, UnsyncedTail::Lost, 0).contains_key(Path::new("d/old")));
        assert!(image_at_end(&disk, UnsyncedTail::Kept, 0).contains_key(Path::new("d/new")));
    }
}
