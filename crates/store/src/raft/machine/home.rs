//! Where a store's engines are: each in a directory with its number, of which the log names the one in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kallisto_lsm::Engine;
use kallisto_lsm::disk::Disk;

use crate::Error;

/// Where a store's engines are, and how they are opened.
#[derive(Debug)]
pub(crate) struct EngineHome {
    pub(crate) disk: Arc<dyn Disk>,
    /// The store's directory.
    pub(crate) dir: PathBuf,
    pub(crate) options: kallisto_lsm::Options,
}

impl EngineHome {
    /// The directory of an engine.
    pub(crate) fn engine_dir(&self, engine: u64) -> PathBuf {
        engine_dir(&self.dir, engine)
    }

    /// Opens an engine that is filled from a snapshot: nothing above it keeps a log.
    pub(crate) fn open_apart(&self, engine: u64) -> Result<Engine, Error> {
        let options = kallisto_lsm::Options { outer_log: None, ..self.options.clone() };
        self.disk
            .create_dir(&self.engine_dir(engine))
            .and_then(|()| self.disk.sync_dir(&self.dir))
            .map_err(|error| match kallisto_lsm::is_full(&error) {
                true => Error::Full(format!("make an engine: {error}")),
                false => Error::Io(format!("make an engine: {error}")),
            })?;
        Ok(Engine::open(Arc::clone(&self.disk), self.engine_dir(engine), options)?)
    }

    /// Opens the engine that the log goes with.
    pub(crate) fn open(&self, engine: u64) -> Result<Engine, Error> {
        let dir = self.engine_dir(engine);
        Ok(Engine::open(Arc::clone(&self.disk), dir, self.options.clone())?)
    }

    /// Removes the files of an engine that nobody has open. The empty directory stays.
    pub(crate) fn remove(&self, engine: u64) {
        let dir = self.engine_dir(engine);
        let Ok(names) = self.disk.list(&dir) else { return };
        for name in names {
            // What cannot be removed now is removed by the next start.
            let _ = self.disk.remove(&dir.join(name));
        }
    }
}

/// The directory of an engine of the store in `dir`.
pub(crate) fn engine_dir(dir: &Path, engine: u64) -> PathBuf {
    match engine {
        0 => dir.join("engine"),
        number => dir.join(format!("engine-{number}")),
    }
}
