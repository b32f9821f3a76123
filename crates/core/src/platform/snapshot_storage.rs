//! Where scheduled snapshots are put: a directory of this machine, or a bucket of an S3 service.
//!
//! The core does no I/O: whoever runs it gives it something that stores. It is called on a thread that is the snapshot's alone,
//! so a far end that hangs delays no other call; each call ends within a time that the storage bounds.

use std::io::Read;

use secrecy::SecretString;

/// A place for snapshots.
#[derive(Clone, Debug)]
pub enum SnapshotTarget {
    /// A directory of the server that leads.
    Local {
        /// Its absolute path.
        directory: String,
    },
    /// A bucket.
    S3(Box<S3Target>),
}

/// A bucket of an S3 service, and who asks.
#[derive(Clone, Debug)]
pub struct S3Target {
    /// URL of the service; empty for that of Amazon.
    pub endpoint: String,
    /// Its region.
    pub region: String,
    /// The bucket.
    pub bucket: String,
    /// What stands before the names of objects; empty, or ending in a slash.
    pub prefix: String,
    /// Who asks.
    pub access_key_id: String,
    /// What proves it.
    pub secret_access_key: SecretString,
    /// What goes with keys that end; empty for those that do not.
    pub session_token: SecretString,
    /// Whether the bucket stands in the path, not in the name of the host.
    pub path_style: bool,
}

/// Something that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    /// Its name, without the directory or prefix.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// A snapshot on its way. Dropped before [`SnapshotSink::finish`] it leaves nothing that is taken for one.
pub trait SnapshotSink: Send {
    /// Takes more of it.
    ///
    /// # Errors
    /// What went wrong, without secrets.
    fn write(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// Makes it appear, whole and durable.
    ///
    /// # Errors
    /// What went wrong, without secrets.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// Stores snapshots. Errors say what went wrong, without secrets.
pub trait SnapshotStorage: Send + Sync {
    /// Begins one.
    ///
    /// # Errors
    /// What went wrong.
    fn create(&self, target: &SnapshotTarget, name: &str) -> Result<Box<dyn SnapshotSink>, String>;

    /// Reads one of so many bytes.
    ///
    /// # Errors
    /// What went wrong.
    fn open(
        &self,
        target: &SnapshotTarget,
        name: &str,
        bytes: u64,
    ) -> Result<Box<dyn Read + Send>, String>;

    /// Those whose names begin with `prefix`, sorted by name.
    ///
    /// # Errors
    /// What went wrong.
    fn list(&self, target: &SnapshotTarget, prefix: &str) -> Result<Vec<StoredSnapshot>, String>;

    /// Deletes one, if it is there.
    ///
    /// # Errors
    /// What went wrong.
    fn delete(&self, target: &SnapshotTarget, name: &str) -> Result<(), String>;
}
