//! The disk trait: the only way from the engine to a file system.
//!
//! Every other room of the crate is handed an `Arc<dyn Disk>` and names no file-system function, so the same engine
//! runs on a real directory ([`RealDisk`]), in memory ([`MemDisk`]) and under faults ([`FaultyDisk`]), and a crash is
//! a value ([`CrashReplay`]) and not an accident.
//!
//! What the engine may rely on, and what every disk must honour:
//! - bytes are durable only after `sync_data` of their file returned;
//! - a created, renamed, linked or removed name is durable only after `sync_dir` of its directory returned;
//! - `rename` replaces its target atomically;
//! - unsynced writes may be lost, kept, torn or reordered by a crash; synced ones are none of these.
//!
//! Short reads and short writes are allowed; callers use [`read_full_at`] and [`write_all_at`].

mod crash;
pub mod cuts;
mod faulty;
mod mem;
mod real;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use crash::{CrashReplay, UnsyncedTail};
pub use faulty::{DiskEvent, DiskFault, FaultKind, FaultyDisk};
pub use mem::MemDisk;
pub use real::RealDisk;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    /// Reads only; the file must exist.
    Read,
    /// Reads and writes; the file must exist and keeps its bytes.
    ReadWrite,
}

/// A file system as the engine sees it.
pub trait Disk: Send + Sync + Debug {
    /// Creates a directory and its parents; an existing one is fine.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Creates an empty file open for reading and writing; an existing one is emptied.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file.
    fn open(&self, path: &Path, access: OpenFor) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file, replacing the target atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name; open handles keep reading.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name. Fails if that name exists.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// The names of the files in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Whether a directory lies on another machine's disk, as far as this one can tell.
    fn is_remote(&self, _dir: &Path) -> io::Result<bool> {
        Ok(false)
    }
    /// Takes the exclusive lock behind `path`, creating the file if need be. Fails at once with
    /// [`io::ErrorKind::WouldBlock`] when someone else holds it. Dropping the guard frees it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
}

/// An open file. Offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads up to `buf.len()` bytes at `offset`; 0 means the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes up to `bytes.len()` bytes at `offset`, growing the file if need be.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes the bytes and the length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// The length of the file.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

/// A held lock; freed when dropped.
pub trait DiskLock: Send + Sync + Debug {}

/// The directory that has the name of `path`: that of the process for a bare name.
#[must_use]
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        // The root has no name.
        None => path,
    }
}

/// Creates a directory and its parents, and makes the names of those that were not there durable. Whoever finds one there makes
/// its name durable if that matters: the process that made it may have died before it did.
///
/// # Errors
/// What the disk said.
pub fn create_dir_durably(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let is_missing = |dir: &&Path| {
        let listed = if dir.as_os_str().is_empty() { Ok(Vec::new()) } else { disk.list(dir) };
        listed.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    disk.create_dir(dir)?;
    missing.into_iter().rev().try_for_each(|made| disk.sync_dir(directory_of(made)))
}

/// Reads until `buf` is full or the file ends; returns how many bytes were read.
pub fn read_full_at(file: &dyn DiskFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all of `bytes` at `offset`, however short the single writes are.
pub fn write_all_at(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a whole file of at most `bytes_max` bytes.
pub fn read_all(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenFor::Read)?;
    let len = file.len()?;
    if len > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "file is larger than its limit"));
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    let read = read_full_at(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;

    use super::*;

    /// A file that does one byte at a time and is interrupted before each.
    #[derive(Debug, Default)]
    struct Slow {
        bytes: Mutex<Vec<u8>>,
        is_ready: Mutex<bool>,
    }

    impl Slow {
        fn admit(&self) -> io::Result<()> {
            let mut is_ready = crate::sync::lock(&self.is_ready);
            *is_ready = !*is_ready;
            if *is_ready { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
        }
    }

    impl DiskFile for Slow {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.admit()?;
            let bytes = crate::sync::lock(&self.bytes);
            let Some(byte) = bytes.get(usize::try_from(offset).unwrap()) else { return Ok(0) };
            buf[0] = *byte;
            Ok(1)
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
            self.admit()?;
            let mut all = crate::sync::lock(&self.bytes);
            assert_eq!(all.len() as u64, offset);
            all.push(bytes[0]);
            Ok(1)
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(crate::sync::lock(&self.bytes).len() as u64)
        }
    }

    /// Directories that were made and synced, in this order. It has no files.
    #[derive(Debug, Default)]
    struct Directories {
        made: Mutex<Vec<PathBuf>>,
        synced: Mutex<Vec<PathBuf>>,
    }

    impl Disk for Directories {
        fn create_dir(&self, dir: &Path) -> io::Result<()> {
            crate::sync::lock(&self.made).extend(dir.ancestors().map(Path::to_owned));
            Ok(())
        }

        fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
            let is_made = crate::sync::lock(&self.made).iter().any(|made| made == dir);
            if is_made { Ok(Vec::new()) } else { Err(io::ErrorKind::NotFound.into()) }
        }

        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            crate::sync::lock(&self.synced).push(dir.to_owned());
            Ok(())
        }

        fn create(&self, _: &Path) -> io::Result<Arc<dyn DiskFile>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn open(&self, _: &Path, _: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn remove(&self, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn lock(&self, _: &Path) -> io::Result<Box<dyn DiskLock>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn every_directory_that_is_made_has_a_durable_name() {
        let made_by = |there: &str, dir: &str| {
            let disk = Directories::default();
            disk.create_dir(Path::new(there)).unwrap();
            create_dir_durably(&disk, Path::new(dir)).unwrap();
            assert!(disk.list(Path::new(dir)).is_ok());
            let synced = crate::sync::lock(&disk.synced).clone();
            synced.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(made_by("/srv", "/srv/a/b/c"), ["/srv", "/srv/a", "/srv/a/b"]);
        assert_eq!(made_by("/srv/a", "/srv/a"), [""; 0]);
        assert_eq!(made_by("/", "store"), ["."]);
        assert_eq!(made_by("/", "a/store"), [".", "a"]);
        assert_eq!(directory_of(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn what_is_short_or_interrupted_is_gone_on_with() {
        let file = Slow::default();
        assert!(file.is_empty().unwrap());
        write_all_at(&file, b"bytes", 0).unwrap();
        assert!(!file.is_empty().unwrap());
        let mut buf = [0; 9];
        assert_eq!(read_full_at(&file, &mut buf, 1).unwrap(), 4);
        assert_eq!(&buf, b"ytes\0\0\0\0\0");
        assert_eq!(read_full_at(&file, &mut buf[..2], 0).unwrap(), 2);
    }

    #[test]
    fn what_fails_is_not_tried_for_ever() {
        let disk = FaultyDisk::shared();
        let file = disk.create(Path::new("d/file")).unwrap();
        let fault = DiskFault { kind: FaultKind::Crash, from: 0, until: u64::MAX };
        disk.plan(Some(fault));
        assert!(write_all_at(&*file, b"bytes", 0).is_err());
        assert!(read_full_at(&*file, &mut [0], 0).is_err());
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let disk = MemDisk::shared();
        let path = Path::new("d/file");
        write_all_at(&*disk.create(path).unwrap(), b"bytes", 0).unwrap();
        assert_eq!(read_all(&*disk, path, 5).unwrap(), b"bytes");
        assert_eq!(read_all(&*disk, path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
