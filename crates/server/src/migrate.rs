//! `operator migrate`: moves all records from one storage to the other while no server runs on either.
//!
//! They go as a backup does: read as of one moment, staged beside what the target holds (which is nothing), taken into use as one,
//! and then read again and compared, record by record. What breaks off before the target uses them leaves it without records, and is begun
//! anew; what breaks off later is compared by the same command.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use kallisto_lsm::disk::RealDisk;
use kallisto_store::{
    BackupReader, Error as StoreError, NoPeers, OnFatal, RaftOptions, RaftStore, Store, Visit,
};
use kallisto_store_postgres::{
    MissingTables, PostgresOptions, PostgresStore, PostgresUrl, Sharing, is_table_name,
};
use secrecy::{ExposeSecret, SecretString};

use super::build_settings::database_tls;
use super::config::TABLE_DEFAULT;
use super::directory;
use kallisto_command::config::Environment;
use kallisto_command::error::Error;
use kallisto_command::outcome::Outcome;

/// How often a target is asked to begin that has not found out yet that it leads.
const BEGINNINGS_MAX: u32 = 100;
const BEGINNING_PAUSE: Duration = Duration::from_millis(100);

/// Where records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoragePlace {
    /// The directory that `-path` names.
    Raft,
    /// The database that `-connection-url` or the environment names.
    Postgresql,
}

/// Move all records from one storage to another, while no server runs
///
/// The target has to be empty, or to hold the same records already. Every record is read again from the target and compared. The source
/// stays as it is. The servers of the target unseal with the same keys. Of a cluster, name the directory of the server that led last.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    BAO_PG_CONNECTION_URL=postgres://.. kallisto operator migrate -from=raft -to=postgresql -path=/var/lib/kallisto\n  \
    BAO_PG_CONNECTION_URL=postgres://.. kallisto operator migrate -from=postgresql -to=raft -path=/var/lib/kallisto\n\n\
    What breaks off is brought to its end by the same command.\n\
    To move from a Vault or an OpenBao, see kallisto migrate.")]
pub struct Migrate {
    /// Where the records are
    #[arg(long, value_name = "STORAGE", value_enum)]
    from: StoragePlace,
    /// Where they are to be
    #[arg(long, value_name = "STORAGE", value_enum)]
    to: StoragePlace,
    /// The directory of storage "raft" or "file"
    #[arg(long, value_name = "DIR")]
    path: PathBuf,
    /// URL of the database; better said by BAO_PG_CONNECTION_URL, which others do not see
    #[arg(long, value_name = "URL")]
    connection_url: Option<SecretString>,
    /// Its table of records
    #[arg(long, value_name = "NAME", default_value = TABLE_DEFAULT)]
    table: String,
}

impl Migrate {
    /// Moves the records.
    ///
    /// # Errors
    /// What is in the way, or differs.
    pub fn run(self) -> Result<Outcome, Error> {
        if self.from == self.to {
            return Err(Error::usage("-from and -to name the same storage"));
        }
        let (source, target) = (self.open_source()?, self.open_target()?);
        let outcome = moved(&*source, &*target);
        let closed = [source.close(), target.close()];
        let records = outcome.map_err(Error::usage)?;
        for closed in closed {
            closed.map_err(|error| Error::usage(format!("closing: {error}")))?;
        }
        Ok(Outcome::line(format!("Moved and compared {records} records.")))
    }

    fn open_source(&self) -> Result<Arc<dyn Store>, Error> {
        match self.from {
            StoragePlace::Raft if !self.path.is_dir() => {
                let path = self.path.display();
                Err(Error::usage(format!("storage at {path}: there is no such directory")))
            }
            StoragePlace::Raft => {
                let files = self.directory()?;
                check_decided(files.undecided()).map_err(Error::usage)?;
                Ok(files)
            }
            StoragePlace::Postgresql => Ok(self.database(&Environment::process())?),
        }
    }

    fn open_target(&self) -> Result<Arc<dyn Store>, Error> {
        match self.to {
            StoragePlace::Raft => Ok(self.directory()?),
            StoragePlace::Postgresql => Ok(self.database(&Environment::process())?),
        }
    }

    fn directory(&self) -> Result<Arc<RaftStore>, Error> {
        directory::prepare(&self.path)?;
        let options = RaftOptions { seed: fastrand::u64(..), ..RaftOptions::default() };
        let store = RaftStore::open(Arc::new(RealDisk), &self.path, options);
        let path = self.path.display();
        store.map_err(|error| Error::usage(format!("storage at {path}: {error}")))
    }

    fn database(&self, environment: &Environment<'_>) -> Result<Arc<PostgresStore>, Error> {
        let said =
            environment.setting("PG_CONNECTION_URL").map(|(_, text)| SecretString::from(text));
        let text = self.connection_url.clone().or(said).ok_or_else(|| {
            Error::usage("no database is named: set BAO_PG_CONNECTION_URL, or -connection-url")
        })?;
        let refuse = |why: String| Error::usage(format!("connection URL: {why}"));
        let url = PostgresUrl::parse(text.expose_secret()).map_err(refuse)?;
        if !is_table_name(&self.table) {
            return Err(Error::usage("-table is no name of a table"));
        }
        let (tls, shown) = (database_tls(&url)?, url.shown());
        let store = PostgresStore::open(PostgresOptions {
            url,
            tls,
            table: self.table.clone(),
            ha_table: "kallisto_servers".to_owned(),
            sharing: Sharing::Stopped,
            missing: MissingTables::Make,
            connects_max: 1,
            peer: Default::default(),
            transport: Arc::new(NoPeers),
            confirm_every: Duration::from_secs(1),
            on_fatal: OnFatal::default(),
        });
        store.map_err(|error| Error::usage(format!("storage at {shown}: {error}")))
    }
}

/// Refuses a source that does not know itself what was acknowledged.
fn check_decided(undecided: u64) -> Result<(), String> {
    if undecided == 0 {
        return Ok(());
    }
    Err(format!(
        "the source is of a cluster of several servers that were not stopped in order: of its last {undecided} writes only the others \
         know whether they were acknowledged. Start the servers again, and stop them with SIGTERM; or make this one a cluster of one \
         first (raft/peers.json)"
    ))
}

/// Moves everything, and compares it; how many records there were.
fn moved(source: &dyn Store, target: &dyn Store) -> Result<u64, String> {
    let taken = |what: &str| format!("{what} is not a storage that can be moved");
    let from = source.replicated().ok_or_else(|| taken("the source"))?;
    let to = target.replicated().ok_or_else(|| taken("the target"))?;
    let mut is_empty = true;
    let looked = target.scan_borrowed(b"", None, &mut |_, _, _| {
        is_empty = false;
        Visit::Stop
    });
    looked.map_err(|error| format!("the target: {error}"))?;
    if !is_empty {
        // They may be these, moved by a command that was killed while it compared.
        return compare(source, target).map_err(|why| {
            format!("the target holds other records already, nothing was moved: {why}")
        });
    }
    let generation = begun(|| to.begin_restore().wait())?;
    let (_, mut chunks) = from.backup().map_err(|error| format!("the source: {error}"))?;
    let mut reader = BackupReader::default();
    let of_target = |error: StoreError| format!("the target: {error}");
    while let Some(chunk) = chunks.next_chunk().map_err(|error| format!("the source: {error}"))? {
        let records = reader.take(&Bytes::from(chunk)).map_err(|error| error.to_string())?;
        if !records.is_empty() {
            to.stage(generation, records).wait().map_err(of_target)?;
        }
    }
    let records = reader.records().ok_or("the source ended early")?;
    to.finish_restore(generation, records).wait().map_err(of_target)?;
    match compare(source, target)? {
        compared if compared == records => Ok(records),
        compared => Err(format!("{records} records were sent, {compared} are there")),
    }
}

/// Begins; a target that was just opened finds out only then that it leads.
fn begun<T>(mut begin: impl FnMut() -> Result<T, StoreError>) -> Result<T, String> {
    for _ in 1..BEGINNINGS_MAX {
        match begin() {
            Err(StoreError::NotLeader) => std::thread::sleep(BEGINNING_PAUSE),
            other => return other.map_err(|error| format!("the target: {error}")),
        }
    }
    Err("the target: another server uses it".to_owned())
}

/// Reads every record again, on both sides; how many there are.
fn compare(source: &dyn Store, target: &dyn Store) -> Result<u64, String> {
    let (mut equal, mut wrong) = (0_u64, None);
    let looked = source.scan_borrowed(b"", None, &mut |key, _, value| {
        match target.get(key) {
            Ok(Some(found)) if found.value == value => equal += 1,
            Ok(_) => wrong = Some("a record differs in the target".to_owned()),
            Err(error) => wrong = Some(format!("the target: {error}")),
        }
        if wrong.is_none() { Visit::Continue } else { Visit::Stop }
    });
    looked.map_err(|error| format!("the source: {error}"))?;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    let mut there = 0_u64;
    let counted = target.scan_borrowed(b"", None, &mut |_, _, _| {
        there += 1;
        Visit::Continue
    });
    counted.map_err(|error| format!("the target: {error}"))?;
    match there == equal {
        true => Ok(equal),
        false => Err(format!("the source holds {equal} records, the target {there}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_lsm::disk::MemDisk;
    use kallisto_store::Batch;

    fn raft() -> Arc<RaftStore> {
        RaftStore::open(MemDisk::shared(), "/d", RaftOptions::default()).unwrap()
    }

    #[test]
    fn everything_is_moved_once_and_compared() {
        let (source, target) = (raft(), raft());
        for number in 0..100_u32 {
            let mut batch = Batch::new();
            batch.put(number.to_be_bytes().to_vec(), vec![7; 5000]);
            source.commit(batch).wait().unwrap();
        }
        assert_eq!(moved(&*source, &*target), Ok(100));
        // As after a command that was killed while it compared.
        assert_eq!(moved(&*source, &*target), Ok(100));
        let mut other = Batch::new();
        other.put(b"more".to_vec(), b"v".to_vec());
        target.commit(other).wait().unwrap();
        let refused = moved(&*source, &*target).unwrap_err();
        assert!(refused.contains("holds other records already"), "{refused}");
    }
}
