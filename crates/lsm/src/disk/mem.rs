//! A disk in memory: for `--dev` servers, for tests and for crash images.
//!
//! It is a plain file system without faults. Contents are shared copy-on-write (`Arc<Vec<u8>>`), so thousands of crash
//! images of the same store cost only what they differ in. Directories exist implicitly: a path is a name, and `list`
//! answers for the names directly under a directory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Disk, DiskFile, DiskLock, OpenFor};

/// A file system in memory.
#[derive(Debug, Default)]
pub struct MemDisk {
    names: RwLock<BTreeMap<PathBuf, Arc<MemFile>>>,
    locks: Arc<RwLock<BTreeSet<PathBuf>>>,
}

impl MemDisk {
    /// An empty disk, ready to share.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        Arc::default()
    }

    /// A disk that holds these files.
    #[must_use]
    pub fn from_files(files: impl IntoIterator<Item = (PathBuf, Arc<Vec<u8>>)>) -> Self {
        let names = files
            .into_iter()
            .map(|(path, bytes)| (path, Arc::new(MemFile { bytes: RwLock::new(bytes) })));
        Self { names: RwLock::new(names.collect()), locks: Arc::default() }
    }

    /// Every file with its bytes, all as of one moment: no write of another thread falls between two files.
    #[must_use]
    pub fn files(&self) -> BTreeMap<PathBuf, Arc<Vec<u8>>> {
        let names = read(&self.names);
        // One hold of each file, however many names it has: a second would wait for a writer that waits for the first.
        let mut held = HashMap::new();
        for file in names.values() {
            held.entry(Arc::as_ptr(file)).or_insert_with(|| read(&file.bytes));
        }
        let bytes = |file: &Arc<MemFile>| Arc::clone(&held[&Arc::as_ptr(file)]);
        names.iter().map(|(path, file)| (path.clone(), bytes(file))).collect()
    }

    /// A second disk with the same bytes, as a process that dies at this moment leaves them; neither sees the other's later
    /// writes.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::from_files(self.files())
    }

    /// Frees every lock, as the kernel does for processes that died.
    pub fn break_locks(&self) {
        write(&self.locks).clear();
    }

    fn find(&self, path: &Path) -> io::Result<Arc<MemFile>> {
        read(&self.names).get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for MemDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = Arc::<MemFile>::default();
        write(&self.names).insert(path.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, path: &Path, _access: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.find(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = write(&self.names);
        let file = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = write(&self.names).remove(path);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from)?;
        let mut names = write(&self.names);
        if names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        names.insert(to.to_owned(), file);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = read(&self.names);
        let here = names.keys().filter(|path| path.parent() == Some(dir));
        Ok(here.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        if !write(&self.locks).insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemLock { path: path.to_owned(), locks: self.locks.clone() }))
    }
}

#[derive(Debug, Default)]
struct MemFile {
    bytes: RwLock<Arc<Vec<u8>>>,
}

impl DiskFile for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = read(&self.bytes);
        let start = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
        let n = buf.len().min(bytes.len() - start);
        buf[..n].copy_from_slice(&bytes[start..start + n]);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut shared = write(&self.bytes);
        overwrite(
            Arc::make_mut(&mut shared),
            bytes,
            usize::try_from(offset).map_err(io::Error::other)?,
        );
        Ok(bytes.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(read(&self.bytes).len() as u64)
    }
}

/// Lays `bytes` over `target` at `offset`, filling a gap with zeros.
pub(super) fn overwrite(target: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[offset..end].copy_from_slice(bytes);
}

#[derive(Debug)]
struct MemLock {
    path: PathBuf,
    locks: Arc<RwLock<BTreeSet<PathBuf>>>,
}

impl DiskLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        write(&self.locks).remove(&self.path);
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect("no holder of this lock panics")
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect("no holder of this lock panics")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_does_not_see_later_writes() {
        let disk = MemDisk::default();
        let file = disk.create(Path::new("d/a")).unwrap();
        file.write_at(b"one", 0).unwrap();
        let fork = disk.fork();
        file.write_at(b"two", 0).unwrap();
        assert_eq!(fork.files()[Path::new("d/a")].as_slice(), b"one");
        assert_eq!(disk.files()[Path::new("d/a")].as_slice(), b"two");
    }

    #[test]
    fn a_fork_is_of_one_moment_while_another_thread_writes() {
        let disk = MemDisk::default();
        let first = disk.create(Path::new("d/a")).unwrap();
        disk.link(Path::new("d/a"), Path::new("d/z")).unwrap();
        let last = disk.create(Path::new("d/b")).unwrap();
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..=2_000_u64 {
                    first.write_at(&n.to_le_bytes(), 0).unwrap();
                    last.write_at(&n.to_le_bytes(), 0).unwrap();
                }
            });
            loop {
                let files = disk.files();
                let [a, b, z] = ["d/a", "d/b", "d/z"].map(|path| number(&files[Path::new(path)]));
                assert!(a == z && (b == a || b + 1 == a), "{a} {b} {z}");
                if b == 2_000 {
                    break;
                }
            }
        });
    }

    #[test]
    fn names_behave_like_a_directory() {
        let disk = MemDisk::default();
        disk.create(Path::new("d/a")).unwrap();
        disk.link(Path::new("d/a"), Path::new("e/b")).unwrap();
        disk.rename(Path::new("d/a"), Path::new("d/c")).unwrap();
        assert_eq!(disk.list(Path::new("d")).unwrap(), ["c"]);
        assert_eq!(disk.list(Path::new("e")).unwrap(), ["b"]);
        assert!(disk.link(Path::new("d/c"), Path::new("e/b")).is_err());
        disk.remove(Path::new("d/c")).unwrap();
        assert!(disk.open(Path::new("d/c"), OpenFor::Read).is_err());
    }
}
