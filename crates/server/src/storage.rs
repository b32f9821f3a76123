//! Opens the storage that the settings choose, and the port by which its servers reach each other.
//!
//! A kind of storage is a variant of [`StorageChoice`], which says what the rest of the server has to know of it, and an arm of [`open_store`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kallisto_command::error::Error;
use kallisto_lsm::disk::RealDisk;
use kallisto_store::{
    Durability, Error as StoreError, Losses, MemoryStore, NoPeers, OnFatal, Peer, RaftOptions,
    RaftStore, Store, Transport,
};
use kallisto_store_postgres::{PostgresOptions, PostgresStore};

use super::cluster::{ClusterPortFiles, ClusterSettings};
use super::damage::EndOfDamaged;
use super::recovery::PeersFile;
use super::settings::{DatabaseSettings, ServerSettings, StorageChoice};
use super::signals::Signals;

/// What to do about a log that lost what was on the disk.
const LOST_ADVICE: &str = ". Look at the disk first. A server with others: remove it there (kallisto operator raft \
    remove-peer), empty its directory and let it join again. One that is alone: restore a backup, or start it once with -accept-log-loss, which gives up what is missing";

/// How often the view is confirmed in the time that it may be old.
const CONFIRMATIONS: u32 = 10;
/// How often a follower of a database asks at least whether it holds everything.
const DATABASE_CONFIRM: Duration = Duration::from_millis(250);

/// The cluster port, of storage that is replicated.
pub(super) fn open_cluster(
    storage: &StorageChoice,
) -> Result<Option<Arc<ClusterPortFiles>>, Error> {
    let settings = storage.cluster();
    settings.map(|settings| ClusterPortFiles::open(settings, storage.directory())).transpose()
}

/// What every kind of storage is opened with.
pub(super) struct StoreParts<'a> {
    pub(super) cluster: Option<&'a Arc<ClusterPortFiles>>,
    pub(super) losses: Losses,
    pub(super) signals: &'a Signals,
    pub(super) max_staleness: Duration,
}

impl StoreParts<'_> {
    fn peer(&self) -> Peer {
        self.cluster.map(|cluster| cluster.port.own().clone()).unwrap_or_default()
    }

    fn transport(&self) -> Arc<dyn Transport> {
        match self.cluster {
            Some(cluster) => Arc::clone(&cluster.port) as Arc<dyn Transport>,
            None => Arc::new(NoPeers),
        }
    }

    /// Ends the server when the storage cannot go on.
    fn on_fatal(&self) -> OnFatal {
        let failed = self.signals.failure_hook();
        OnFatal::new(move |error| failed(&error.to_string()))
    }
}

/// The store.
///
/// # Errors
/// Why it cannot be opened, and what to do about it.
pub(super) fn open_store(
    settings: &ServerSettings,
    parts: StoreParts<'_>,
) -> Result<Arc<dyn Store>, Error> {
    match &settings.storage {
        StorageChoice::Memory => Ok(Arc::new(MemoryStore::new())),
        StorageChoice::Database(database) => open_database(database, &parts),
        StorageChoice::Durable { directory, durability, cluster } => {
            let on_fatal = parts.on_fatal();
            let store = open_directory(directory, *durability, cluster.as_ref(), parts)?;
            Ok(EndOfDamaged::over(store, on_fatal))
        }
    }
}

fn open_directory(
    directory: &Path,
    durability: Durability,
    settings: Option<&ClusterSettings>,
    parts: StoreParts<'_>,
) -> Result<Arc<dyn Store>, Error> {
    let usual = RaftOptions::default();
    let asked = match parts.cluster {
        Some(cluster) => PeersFile::read(directory, cluster.port.own())?,
        None => None,
    };
    let options = RaftOptions {
        durability,
        only_member: asked.is_some(),
        // Ids need only differ; nothing secret comes of them.
        seed: fastrand::u64(..),
        tick: usual.tick * settings.map_or(1, |settings| settings.patience),
        confirm_every: (parts.max_staleness / CONFIRMATIONS).min(usual.confirm_every),
        peer: parts.peer(),
        transport: parts.transport(),
        on_fatal: parts.on_fatal(),
        losses: parts.losses,
        ..usual
    };
    let store = RaftStore::open(Arc::new(RealDisk), directory, options).map_err(|error| {
        let place = directory.display();
        let advice = if matches!(error, StoreError::Lost(_)) { LOST_ADVICE } else { "" };
        Error::usage(format!("storage at {place}: {error}{advice}"))
    })?;
    if let Some(asked) = asked {
        asked.done()?;
    }
    if let Some(lost) = store.lost() {
        tracing::error!("{lost}; started without it, as -accept-log-loss says");
    }
    Ok(store)
}

fn open_database(
    database: &DatabaseSettings,
    parts: &StoreParts<'_>,
) -> Result<Arc<dyn Store>, Error> {
    let config = &database.config;
    let store = PostgresStore::open(PostgresOptions {
        url: config.url.clone(),
        tls: database.tls.clone(),
        table: config.table.clone(),
        ha_table: config.ha_table.clone(),
        sharing: config.sharing(),
        missing: config.missing_tables(),
        connects_max: config.connects_max,
        peer: parts.peer(),
        transport: parts.transport(),
        confirm_every: (parts.max_staleness / CONFIRMATIONS).min(DATABASE_CONFIRM),
        on_fatal: parts.on_fatal(),
    });
    let shown = config.url.shown();
    let store = store.map_err(|error| Error::usage(format!("storage at {shown}: {error}")))?;
    Ok(store)
}
