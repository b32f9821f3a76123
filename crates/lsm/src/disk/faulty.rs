//! A disk that fails on demand and records its operations.
//!
//! It wraps a [`MemDisk`]. Every operation that changes the disk is counted and, when it succeeds, recorded as a
//! [`DiskEvent`]; [`super::CrashReplay`] turns a record into what a power cut would have left. A [`DiskFault`] makes the
//! n-th changing operation (or every one from the n-th on) fail in a chosen way.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Disk, DiskFile, DiskLock, MemDisk, OpenFor};
use crate::sync::lock;

/// The error number of a full disk on Linux.
const ENOSPC: i32 = 28;
/// The error number of a failed device on Linux.
const EIO: i32 = 5;

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A write, sync or name operation fails with EIO.
    Eio,
    /// A create, of a directory too, or a write that makes a file longer, fails with ENOSPC; bytes that a file has can be written anew, and
    /// syncs and removals work.
    NoSpace,
    /// A write stores half of its bytes and says so.
    ShortWrite,
    /// A `sync_data` or `sync_dir` fails with EIO; writes work.
    SyncFails,
    /// The machine is gone: nothing works any more, reads included.
    Crash,
}

/// A plan for one failure.
#[derive(Clone, Copy, Debug)]
pub struct DiskFault {
    /// How it fails.
    pub kind: FaultKind,
    /// The first changing operation that may fail, counted from 0.
    pub from: u64,
    /// The first changing operation that works again; `u64::MAX` for never.
    pub until: u64,
}

/// One change of the disk, in the order it happened. `inode` numbers stay with a file through renames.
#[derive(Clone, Debug)]
pub enum DiskEvent {
    /// An empty file appeared.
    Create {
        /// Where.
        path: PathBuf,
        /// The new file.
        inode: u64,
    },
    /// Bytes were written.
    Write {
        /// To which file.
        inode: u64,
        /// At which offset.
        offset: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// A file was synced.
    Sync {
        /// Which file.
        inode: u64,
    },
    /// A file changed its name.
    Rename {
        /// Its old name.
        from: PathBuf,
        /// Its new name.
        to: PathBuf,
    },
    /// A name was removed.
    Remove {
        /// Which.
        path: PathBuf,
    },
    /// A file got a second name.
    Link {
        /// Its first name.
        from: PathBuf,
        /// Its second name.
        to: PathBuf,
    },
    /// A directory was synced.
    SyncDir {
        /// Which.
        dir: PathBuf,
    },
}

/// A recording disk in memory that fails on order.
#[derive(Debug, Default)]
pub struct FaultyDisk {
    inner: MemDisk,
    state: Arc<Mutex<FaultyState>>,
}

#[derive(Debug, Default)]
struct FaultyState {
    operations: u64,
    fault: Option<DiskFault>,
    crashed: bool,
    remote: bool,
    events: Vec<DiskEvent>,
    inodes: BTreeMap<PathBuf, u64>,
    inode_next: u64,
    /// Directories that were made.
    dirs: BTreeSet<PathBuf>,
}

/// What kind of operation asks for permission.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DiskOperation {
    Write,
    Grow,
    Name,
    Remove,
    Sync,
}

/// What the plan says about an operation.
#[derive(PartialEq, Eq)]
enum WriteFate {
    Go,
    Half,
}

impl FaultyDisk {
    /// An empty disk without a plan, ready to share.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        Arc::default()
    }

    /// Pretends to be another machine's disk.
    pub fn pretend_remote(&self) {
        lock(&self.state).remote = true;
    }

    /// Plans a failure, or none; replaces the last plan.
    pub fn plan(&self, fault: Option<DiskFault>) {
        lock(&self.state).fault = fault;
    }

    /// Whether a planned crash has happened: nothing works any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        lock(&self.state).crashed
    }

    /// How many changing operations were asked for so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        lock(&self.state).operations
    }

    /// How many changes were recorded so far.
    #[must_use]
    pub fn events_len(&self) -> usize {
        lock(&self.state).events.len()
    }

    /// A copy of the record.
    #[must_use]
    pub fn events(&self) -> Vec<DiskEvent> {
        lock(&self.state).events.clone()
    }

    /// The files as a running process sees them (not as a crash leaves them).
    #[must_use]
    pub fn memory(&self) -> &MemDisk {
        &self.inner
    }
}

impl FaultyState {
    fn admit(&mut self, operation: DiskOperation) -> io::Result<WriteFate> {
        let number = self.operations;
        self.operations += 1;
        if self.crashed {
            return Err(crash_error());
        }
        let Some(fault) = self.fault else { return Ok(WriteFate::Go) };
        if number < fault.from || number >= fault.until {
            return Ok(WriteFate::Go);
        }
        match (fault.kind, operation) {
            (FaultKind::Crash, _) => {
                self.crashed = true;
                Err(crash_error())
            }
            (FaultKind::Eio, _) | (FaultKind::SyncFails, DiskOperation::Sync) => {
                Err(io::Error::from_raw_os_error(EIO))
            }
            (FaultKind::NoSpace, DiskOperation::Grow | DiskOperation::Name) => {
                Err(io::Error::from_raw_os_error(ENOSPC))
            }
            (FaultKind::ShortWrite, DiskOperation::Write | DiskOperation::Grow) => {
                Ok(WriteFate::Half)
            }
            _ => Ok(WriteFate::Go),
        }
    }

    /// Whether there is no room for anything new.
    fn is_full(&self) -> bool {
        self.fault.is_some_and(|fault| {
            let is_now = (fault.from..fault.until).contains(&self.operations);
            fault.kind == FaultKind::NoSpace && is_now
        })
    }

    fn inode_of(&self, path: &Path) -> u64 {
        *self.inodes.get(path).expect("the recorded disk knows each file it made")
    }
}

fn crash_error() -> io::Error {
    io::Error::other("the disk is gone")
}

impl Disk for FaultyDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        let is_there = state.dirs.contains(dir) || state.inodes.keys().any(|p| p.starts_with(dir));
        if !is_there && state.is_full() {
            // One that is made is not counted among the operations, since nothing fails that makes one but this.
            state.operations += 1;
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        self.inner.create_dir(dir)?;
        state.dirs.insert(dir.to_owned());
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = lock(&self.state);
        state.admit(DiskOperation::Name)?;
        let file = self.inner.create(path)?;
        let inode = state.inode_next;
        state.inode_next += 1;
        state.inodes.insert(path.to_owned(), inode);
        state.events.push(DiskEvent::Create { path: path.to_owned(), inode });
        Ok(Arc::new(FaultyFile { inner: file, inode, state: self.state.clone() }))
    }

    fn open(&self, path: &Path, access: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
        let state = lock(&self.state);
        if state.crashed {
            return Err(crash_error());
        }
        let file = self.inner.open(path, access)?;
        let inode = state.inode_of(path);
        Ok(Arc::new(FaultyFile { inner: file, inode, state: self.state.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.admit(DiskOperation::Name)?;
        self.inner.rename(from, to)?;
        let inode = state.inode_of(from);
        state.inodes.remove(from);
        state.inodes.insert(to.to_owned(), inode);
        state.events.push(DiskEvent::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.admit(DiskOperation::Remove)?;
        self.inner.remove(path)?;
        state.inodes.remove(path);
        state.events.push(DiskEvent::Remove { path: path.to_owned() });
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.admit(DiskOperation::Name)?;
        self.inner.link(from, to)?;
        let inode = state.inode_of(from);
        state.inodes.insert(to.to_owned(), inode);
        state.events.push(DiskEvent::Link { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.admit(DiskOperation::Sync)?;
        state.events.push(DiskEvent::SyncDir { dir: dir.to_owned() });
        Ok(())
    }

    fn is_remote(&self, _dir: &Path) -> io::Result<bool> {
        Ok(lock(&self.state).remote)
    }

    /// The lock file leaves no event: its bytes and its name mean nothing after a crash.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.inner.lock(path)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn DiskFile>,
    inode: u64,
    state: Arc<Mutex<FaultyState>>,
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if lock(&self.state).crashed {
            return Err(crash_error());
        }
        self.inner.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = lock(&self.state);
        let grows = offset + bytes.len() as u64 > self.inner.len()?;
        let operation = if grows { DiskOperation::Grow } else { DiskOperation::Write };
        let bytes = match state.admit(operation)? {
            WriteFate::Half => &bytes[..bytes.len().div_ceil(2)],
            WriteFate::Go => bytes,
        };
        let n = self.inner.write_at(bytes, offset)?;
        let event = DiskEvent::Write { inode: self.inode, offset, bytes: bytes[..n].into() };
        state.events.push(event);
        Ok(n)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.admit(DiskOperation::Sync)?;
        state.events.push(DiskEvent::Sync { inode: self.inode });
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_all_at;
    use super::*;

    fn fault(kind: FaultKind, from: u64, until: u64) -> Option<DiskFault> {
        Some(DiskFault { kind, from, until })
    }

    #[test]
    fn each_kind_fails_what_it_names() {
        let disk = FaultyDisk::shared();
        let file = disk.create(Path::new("d/a")).unwrap();
        disk.plan(fault(FaultKind::SyncFails, 0, u64::MAX));
        write_all_at(&*file, b"abc", 0).unwrap();
        assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(EIO));
        disk.plan(fault(FaultKind::NoSpace, 0, u64::MAX));
        assert_eq!(file.write_at(b"abc", 1).unwrap_err().raw_os_error(), Some(ENOSPC));
        assert_eq!(file.write_at(b"abc", 0).unwrap(), 3, "the place is there");
        file.sync_data().unwrap();
        disk.plan(fault(FaultKind::ShortWrite, 0, u64::MAX));
        assert_eq!(file.write_at(b"abcd", 0).unwrap(), 2);
        write_all_at(&*file, b"wxyz", 0).unwrap();
        disk.plan(fault(FaultKind::Crash, 0, u64::MAX));
        assert!(file.sync_data().is_err());
        disk.plan(None);
        assert!(file.read_at(&mut [0; 4], 0).is_err(), "a crash is for ever");
    }
}
