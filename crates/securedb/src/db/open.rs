//! Opening: the key first, then the files, then the order of the names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};

use arc_swap::ArcSwap;
use kallisto_barrier::{Keyring, RootKey, UnsealKey};
use kallisto_index::PathIndex;
use kallisto_lsm::disk::{Disk, create_dir_durably, directory_of};
use kallisto_lsm::{Engine, Error as StoreError};
use zeroize::{Zeroize, Zeroizing};

use super::{STRIPES, SecureDb};
use crate::error::{Error, Result};
use crate::keys::{KeysFile, StoreKeys};
use crate::options::{DbOptions, WriteDurability};
use crate::record::{KIND, storage_key, take_apart};

/// The directory of the engine, within that of the store.
const ENGINE_DIR: &str = "data";
const LOCK_NAME: &str = "LOCK";

impl SecureDb {
    /// Opens the store in `dir` with its key, making it if there is none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that is empty, short or blank; [`Error::WrongKey`] before anything is touched;
    /// [`Error::Store`] if another process has the store open or the disk refuses; [`Error::KeysMissing`] and
    /// [`Error::Damaged`] as they say.
    pub fn open(dir: impl Into<PathBuf>, key: &[u8]) -> Result<Self> {
        Self::open_with(dir, key, &DbOptions::default())
    }

    /// Opens the store in `dir` as `options` say.
    ///
    /// # Errors
    /// As [`SecureDb::open`].
    pub fn open_with(dir: impl Into<PathBuf>, key: &[u8], options: &DbOptions) -> Result<Self> {
        let key = UnsealKey::from_bytes(key)?;
        let dir = dir.into();
        let held = hold(&*options.disk, &dir)?;
        let keys_file = KeysFile::new(options.disk.clone(), dir.clone());
        let engine_dir = dir.join(ENGINE_DIR);
        let keys = match keys_file.read(&key)? {
            Some(keys) => keys,
            None if has_files(&*options.disk, &engine_dir)? => {
                return Err(Error::KeysMissing(keys_file.path()));
            }
            None => {
                prepare(&*options.disk, &dir, &engine_dir)?;
                make_keys(&keys_file, &key, (options.now_unix)())?
            }
        };
        let engine = Engine::open(options.disk.clone(), engine_dir, options.for_engine())?;
        let index = read_names(&engine, &keys.keyring)?;
        Ok(Self {
            engine,
            index,
            keyring: ArcSwap::new(Arc::new(keys.keyring)),
            keys: Mutex::new(keys.root_key),
            keys_file,
            writers: RwLock::new(()),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            strict: AtomicBool::new(options.durability == WriteDurability::Strict),
            now_unix: options.now_unix,
            _lock: held,
        })
    }
}

/// Makes the directory and takes its lock: two processes that both find no keys would make two sets of them.
fn hold(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn kallisto_lsm::disk::DiskLock>> {
    let path = dir.join(LOCK_NAME);
    let held = create_dir_durably(disk, dir).and_then(|()| disk.lock(&path));
    held.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::Store(StoreError::Locked(dir.to_owned())),
        _ => Error::Store(StoreError::Io(format!("lock {}: {error}", path.display()))),
    })
}

fn has_files(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    match disk.list(dir) {
        Ok(names) => Ok(!names.is_empty()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::Store(StoreError::Io(format!("list {}: {error}", dir.display())))),
    }
}

/// Makes the engine's directory, and the name of the store's own durable. The file of keys, which comes next, does that for
/// the engine's directory.
fn prepare(disk: &dyn Disk, dir: &Path, engine_dir: &Path) -> Result<()> {
    let done = disk.create_dir(engine_dir).and_then(|()| disk.sync_dir(directory_of(dir)));
    done.map_err(|error| Error::Store(StoreError::Io(format!("make {}: {error}", dir.display()))))
}

fn make_keys(file: &KeysFile, key: &UnsealKey, now_unix: i64) -> Result<StoreKeys> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| Error::Machine("no random bytes from the system"))?;
    let root_key = RootKey::generate()?;
    let keyring = Keyring::generate(id, now_unix)?;
    file.write(&root_key.wrap(key)?, &keyring.seal(&root_key)?)?;
    Ok(StoreKeys { root_key, keyring })
}

/// The names of all records, in order: one scan that opens each of them.
fn read_names(engine: &Engine, keyring: &Keyring) -> Result<PathIndex> {
    let mut names: Vec<Box<str>> = Vec::new();
    let mut plain = Zeroizing::new(Vec::new());
    let mut scan = engine.prefix(&[KIND])?;
    while let Some((key, envelope)) = scan.next_entry()? {
        plain.zeroize();
        // Before it is filled: a buffer that grew would leave what was in it behind.
        plain.reserve(envelope.len());
        keyring.open_record(key, envelope, &mut plain)?;
        let (_, name) = take_apart(&plain).ok_or(Error::Damaged("a record is not one of ours"))?;
        if storage_key(keyring, name) != key {
            return Err(Error::Damaged("a record says another name than the one it lies under"));
        }
        names.push(name.into());
    }
    names.sort_unstable();
    Ok(PathIndex::from_sorted(&names)?)
}
