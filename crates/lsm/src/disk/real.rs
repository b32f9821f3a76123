//! The real disk: `std::fs` behind the seam.
//!
//! Files are made with mode 0600 and directories with 0700: a store holds ciphertext, and still no other user's
//! business. The lock is `flock`, which the kernel frees when the process dies, however it dies.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::{Disk, DiskFile, DiskLock, OpenFor};

/// What Linux calls the file systems of other machines (`linux/magic.h` and their own headers): NFS, SMB, CIFS, SMB 2,
/// 9P, Ceph, AFS, Coda, NCP, Lustre, GPFS.
#[cfg(target_os = "linux")]
const REMOTE_KINDS: [u32; 11] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x00c3_6400,
    0x5346_414f,
    0x7375_7245,
    0x564c,
    0x0bd0_0bd0,
    0x4750_4653,
];

/// A directory tree of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The disk of this machine, ready to share.
    #[must_use]
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(Self)
    }
}

/// Opens with owner-only permissions for files it has to make.
#[expect(clippy::disallowed_methods, reason = "this is the disk seam")]
fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.mode(0o600).open(path)
}

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = open_with(options.read(true).write(true).create(true).truncate(true), path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, path: &Path, access: OpenFor) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(access == OpenFor::ReadWrite);
        Ok(Arc::new(RealFile(open_with(&mut options, path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        open_with(OpenOptions::new().read(true), dir)?.sync_all()
    }

    #[cfg(target_os = "linux")]
    fn is_remote(&self, dir: &Path) -> io::Result<bool> {
        let kind = rustix::fs::statfs(dir)?.f_type;
        // The kernel's numbers have 32 bits, in a field whose width and sign differ between machines.
        Ok(REMOTE_KINDS.contains(&((kind as u64 & u64::from(u32::MAX)) as u32)))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut options = OpenOptions::new();
        let file = open_with(options.read(true).write(true).create(true).truncate(false), path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(RealLock { _file: file })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(&self.0, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }
}

/// Closing the file frees the lock.
#[derive(Debug)]
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

#[cfg(test)]
mod tests {
    use super::super::{read_full_at, write_all_at};
    use super::*;

    #[test]
    fn files_are_private_and_locks_exclude() {
        use std::os::unix::fs::PermissionsExt;
        let dir = std::env::temp_dir().join(format!("kallisto-lsm-real-{}", std::process::id()));
        let disk = RealDisk;
        disk.create_dir(&dir).unwrap();
        let path = dir.join("file");
        let file = disk.create(&path).unwrap();
        write_all_at(&*file, b"hello", 3).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(&dir).unwrap();
        let mut bytes = [1; 9];
        assert_eq!(read_full_at(&*file, &mut bytes, 0).unwrap(), 8);
        assert_eq!(&bytes[..8], b"\0\0\0hello");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!disk.is_remote(&dir).unwrap(), "the temporary folder is this machine's");
        let held = disk.lock(&dir.join("LOCK")).unwrap();
        let second = disk.lock(&dir.join("LOCK")).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        disk.lock(&dir.join("LOCK")).unwrap();
        disk.link(&path, &dir.join("second")).unwrap();
        disk.remove(&path).unwrap();
        let mut names = disk.list(&dir).unwrap();
        names.sort();
        assert_eq!(names, ["LOCK", "second"]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
