//! What a handler takes.

use std::any::Any;
use std::fmt;

use jiff::Timestamp;
use kallisto_api::{BoxFuture, Error, Json, Map, Request, Response};

use crate::lease::{Leases, NewLease};
use crate::memory::Memory;
use crate::pattern::Params;
use crate::storage::{Page, Storage};

/// What runs for an operation of a route.
pub type Handler = for<'a> fn(Call<'a>) -> BoxFuture<'a, Result<Response, Error>>;

/// A request that may run, and what the engine may use to answer it.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The request. Its path is that of the whole server.
    pub request: &'a Request<'a>,
    /// What the path has in the places of the route's parameters.
    pub params: Params<'a>,
    /// Whether the request makes something new and the caller may do just that; false where an engine does not tell.
    pub creates: bool,
    /// Most names of a list that the caller may see at a time.
    pub page_entries_max: Option<u64>,
    /// Who asks; `None` where a route admits anyone.
    pub caller: Option<&'a Caller>,
    /// What templates of identity say of who asks.
    pub identity: &'a dyn TemplateValues,
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
    /// Credentials with leases; `None` where a route admits anyone.
    pub leases: Option<&'a dyn Leases>,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// What people see of them, such as `userpass-bob`.
    pub display_name: String,
    /// Their entity; empty for none.
    pub entity_id: String,
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

/// What templates of identity stand for, such as `identity.entity.name`.
pub trait TemplateValues: Sync {
    /// What a name stands for; `None` for what who asks has not, or nobody has.
    fn value(&self, name: &str) -> Option<String>;
}

/// Nobody: no template stands for anything.
#[derive(Clone, Copy, Debug)]
pub struct NoTemplateValues;

impl TemplateValues for NoTemplateValues {
    fn value(&self, _: &str) -> Option<String> {
        None
    }
}

/// Randomness: secrets, straight from the operating system.
pub trait Random: Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is none to give.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error>;
}

/// What is made by work that takes long.
pub type Made = Box<dyn Any + Send>;
/// Work that takes long.
pub type Work = Box<dyn FnOnce() -> Made + Send>;

/// Threads for work that takes up to seconds, such as making keys of RSA.
pub trait Heavy: Sync {
    /// Runs `work`, in the turns of whoever asks.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits there already.
    fn run(&self, work: Work) -> BoxFuture<'_, Result<Made, Error>>;
}

impl<'a> Call<'a> {
    /// Makes a credential by `make`, which is told when it ends, and hands it out with a lease: [`Leases::issue`].
    ///
    /// # Errors
    /// What `make` says; [`Error::Internal`] at a route that admits anyone.
    pub async fn issue(
        &self,
        lease: NewLease,
        make: impl FnOnce(Timestamp) -> BoxFuture<'a, Result<Json, Error>> + Send + 'a,
    ) -> Result<Response, Error> {
        let leases = self.leases.ok_or_else(|| Error::internal(&"a lease without an owner"))?;
        leases.issue(lease, Box::new(make)).await
    }

    /// When the request arrived.
    pub const fn now(&self) -> Timestamp {
        self.request.now
    }

    /// The page of a list that is asked for.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the limit is no number.
    pub fn page(&self) -> Result<Page, Error> {
        Page::asked(self.request, self.page_entries_max)
    }

    /// What the engine keeps decoded of its mount.
    ///
    /// # Errors
    /// [`Error::Internal`] when it keeps something else.
    pub fn memory<M: Memory>(&self) -> Result<&M, Error> {
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

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("path", &self.request.path).finish_non_exhaustive()
    }
}
