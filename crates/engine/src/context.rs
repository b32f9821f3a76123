//! What an engine may use, wherever it runs: at a request, at the end of a lease, by the clock.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_api::request_id::uuid_text;
use kallisto_api::{BoxFuture, Error, Map};

use crate::far_end::FarEnds;
use crate::memory::Memory;
use crate::outbound::Outbound;
use crate::people::People;
use crate::pod::Pod;
use crate::probe::ProbeRunner;
use crate::storage::Storage;

/// What an engine may use.
#[derive(Clone, Copy)]
pub struct EngineContext<'a> {
    /// The time: when the request arrived, or the job began.
    pub now: Timestamp,
    /// How the engine was mounted.
    pub mount: MountInfo<'a>,
    /// The records of the mount.
    pub storage: Storage<'a>,
    /// What the engine keeps decoded of them.
    pub memory: Option<&'a dyn Memory>,
    /// Randomness.
    pub random: &'a dyn Random,
    /// Threads for work that takes long.
    pub heavy: &'a dyn Heavy,
    /// Other servers.
    pub outbound: &'a dyn Outbound,
    /// Looks at what stands at names and addresses.
    pub probes: &'a dyn ProbeRunner,
    /// Databases, directories and brokers.
    pub far_ends: &'a dyn FarEnds,
    /// The pod that the server runs in.
    pub pod: &'a dyn Pod,
    /// Passwords by the policies of the namespace.
    pub passwords: &'a dyn Passwords,
    /// Hashes under a key of the cluster.
    pub keyed_hash: &'a dyn KeyedHash,
    /// Entities and their groups.
    pub people: &'a dyn People,
    /// Where the mount is.
    pub place: Place<'a>,
    /// How clients ask the mount for what changed; `None` where it was not tuned for it.
    pub conditional_reads: Option<ConditionalReads>,
}

/// A mount that was tuned to hear of `If-Modified-Since` (RFC 9110, 13.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionalReads {
    /// Whether answers may bear `Last-Modified`.
    pub tells_date: bool,
    /// How far in the past the view of a server may be that answers.
    pub staleness_max: Duration,
}

/// Where a mount is: what clients reach it by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// The URL at which clients reach this server; empty when it was not told.
    pub api_addr: &'a str,
    /// The id of the namespace of the mount.
    pub namespace_id: &'a str,
    /// Its path, with an ending slash; empty for the root one.
    pub namespace_path: &'a str,
}

/// How an engine was mounted.
#[derive(Clone, Copy, Debug)]
pub struct MountInfo<'a> {
    /// The path, with an ending slash.
    pub path: &'a str,
    /// The public handle of the mount.
    pub accessor: &'a str,
    /// How long what it hands out lives when nobody says, in seconds; the server's word where the mount has none.
    pub default_lease_secs: u64,
    /// How long that lives at the most, in seconds.
    pub max_lease_secs: u64,
    /// The options it was mounted with.
    pub options: Option<&'a Map>,
}

/// Randomness: secrets, straight from the operating system.
pub trait Random: Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is none to give.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error>;
}

impl dyn Random + '_ {
    /// A random (version 4) UUID, RFC 9562 section 5.4.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is no randomness to give.
    pub fn make_uuid(&self) -> Result<String, Error> {
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        Ok(uuid_text(u128::from_be_bytes(bytes)))
    }
}

/// Makes passwords by `sys/policies/password/*`.
pub trait Passwords: Sync {
    /// A password by a policy.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such policy; [`Error::Unavailable`] when there is no randomness to give.
    fn make(&self, policy: &str) -> Result<String, Error>;
}

/// Hashes under a key that never leaves the cluster, so that what is hashed cannot be guessed from a stored hash.
pub trait KeyedHash: Sync {
    /// HMAC-SHA-256 of `text`; it differs from mount to mount.
    ///
    /// # Errors
    /// [`Error::Sealed`] when the key is gone.
    fn hash(&self, text: &str) -> Result<[u8; 32], Error>;
}

/// What is made by work that takes long.
pub type WorkResult = Box<dyn Any + Send>;
/// Work that takes long.
pub type LongWork = Box<dyn FnOnce() -> WorkResult + Send>;

/// Threads for work that takes up to seconds, such as making keys of RSA. Login methods have those that hash passwords.
pub trait Heavy: Sync {
    /// Runs `work`, in the turns of whoever asks.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits there already.
    fn run(&self, work: LongWork) -> BoxFuture<'_, Result<WorkResult, Error>>;
}

impl<'a> EngineContext<'a> {
    /// What the engine keeps decoded of its mount.
    ///
    /// # Errors
    /// [`Error::Internal`] when it keeps something else.
    pub fn memory<M: Memory>(&self) -> Result<&'a M, Error> {
        let memory = self.memory.and_then(|memory| (memory as &dyn Any).downcast_ref());
        memory.ok_or_else(|| Error::internal(&"a mount has not the memory of its engine"))
    }

    /// Runs work that takes long beside those who answer requests.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits there already.
    pub async fn run_heavy<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let made = self.heavy.run(Box::new(|| Box::new(work()))).await?;
        let made = made.downcast().map_err(|_| Error::internal(&"work made something else"))?;
        Ok(*made)
    }
}

impl fmt::Debug for EngineContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineContext").field("mount", &self.mount.path).finish_non_exhaustive()
    }
}
