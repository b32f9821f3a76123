//! The file of keys: the wrapped root key and the sealed keyring.
//!
//! ```text
//! KEYS := magic "KALLKEYS" | format u32 (1) | root key length u32 | keyring length u32 | wrapped root key | sealed keyring
//!       | checksum u32 (CRC-32C of all before it)
//! ```
//!
//! Integers are little-endian. It is read before anything else of the store and written whole: `KEYS.new`, synced, renamed,
//! the directory synced. So a crash leaves the old file or the new one. The checksum tells damage from a wrong key.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kallisto_barrier::{Keyring, RootKey, UnsealKey};
use kallisto_lsm::Error as StoreError;
use kallisto_lsm::disk::{Disk, read_all, write_all_at};

use crate::error::{Error, Result};

const NAME: &str = "KEYS";
const NAME_NEW: &str = "KEYS.new";
const MAGIC: &[u8; 8] = b"KALLKEYS";
const FORMAT: u32 = 1;
/// The largest file that is read, in bytes: a full keyring takes 735 KiB.
const BYTES_MAX: u64 = 1 << 20;

/// Where the keys of a store are.
#[derive(Debug)]
pub(crate) struct KeysFile {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

/// What a store is opened with once its key was the right one.
pub(crate) struct StoreKeys {
    pub(crate) root_key: RootKey,
    pub(crate) keyring: Keyring,
}

impl KeysFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// The keys, if there is a file of them.
    pub(crate) fn read(&self, key: &UnsealKey) -> Result<Option<StoreKeys>> {
        let path = self.path();
        let bytes = match read_all(&*self.disk, &path, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("read", &path, &error)),
        };
        let (wrapped, sealed) = decode(&bytes)?;
        let root_key = RootKey::unwrap(wrapped, key)?;
        let keyring = Keyring::open(sealed, &root_key).map_err(|error| match error {
            // The key was right, so a keyring of another root key is not ours.
            kallisto_barrier::Error::WrongKey => {
                Error::Damaged("the keyring is of another root key")
            }
            other => other.into(),
        })?;
        Ok(Some(StoreKeys { root_key, keyring }))
    }

    /// Replaces the file; durable when this returns.
    pub(crate) fn write(&self, wrapped: &[u8], sealed: &[u8]) -> Result<()> {
        let (path, path_new) = (self.path(), self.dir.join(NAME_NEW));
        let bytes = encode(wrapped, sealed);
        let write = || {
            let file = self.disk.create(&path_new)?;
            write_all_at(&*file, &bytes, 0)?;
            file.sync_data()?;
            self.disk.rename(&path_new, &path)?;
            self.disk.sync_dir(&self.dir)
        };
        write().map_err(|error| cannot("write", &path, &error))
    }

    /// The wrapped root key in the file, as it stands there.
    pub(crate) fn wrapped_root_key(&self) -> Result<Vec<u8>> {
        let path = self.path();
        let bytes = read_all(&*self.disk, &path, BYTES_MAX);
        let bytes = bytes.map_err(|error| cannot("read", &path, &error))?;
        decode(&bytes).map(|(wrapped, _)| wrapped.to_vec())
    }
}

fn cannot(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::Store(StoreError::Io(format!("{doing} {}: {error}", path.display())))
}

fn encode(wrapped: &[u8], sealed: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("keys are short").to_le_bytes();
    let head = [FORMAT.to_le_bytes(), length(wrapped), length(sealed)].concat();
    let mut bytes = [MAGIC.as_slice(), &head, wrapped, sealed].concat();
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// The wrapped root key and the sealed keyring.
fn decode(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    const BAD: Error = Error::Damaged("the file of keys is not what was written");
    let (body, checksum) = bytes.split_last_chunk().ok_or(BAD)?;
    let rest = body.strip_prefix(MAGIC).ok_or(BAD)?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return Err(BAD);
    }
    let ([format, wrapped, sealed], rest) = rest
        .as_chunks::<4>()
        .0
        .split_first_chunk()
        .map(|(head, _)| (head.map(u32::from_le_bytes), &rest[12..]))
        .ok_or(BAD)?;
    if format != FORMAT {
        return Err(Error::Damaged("the file of keys has an unknown format"));
    }
    let (wrapped, sealed) = (wrapped as usize, sealed as usize);
    if wrapped.checked_add(sealed) != Some(rest.len()) {
        return Err(BAD);
    }
    Ok(rest.split_at(wrapped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_what_was_put_in_and_nothing_else() {
        let bytes = encode(b"root key", b"a keyring");
        assert_eq!(decode(&bytes).unwrap(), (b"root key".as_slice(), b"a keyring".as_slice()));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
