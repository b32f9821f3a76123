//! What the store asks of a database, operation by operation, and of time: the seam between its protocol and what keeps its rows.
//!
//! Above it, `driver`, `follow`, `keeper` and `restore` are the protocol. Below it are PostgreSQL (`sql`, the only place that knows
//! statements, sockets and timers) and the simulated database of `kallisto-sim`. An operation is one transaction; those that say
//! whether they took hold changed nothing where they say no. A session runs one operation at a time for each of its callers.
//!
//! Invariants:
//! - what changes anything but the list of servers names the epoch of who asks, and is judged on it in its own transaction;
//! - [`DatabaseFailure::Lost`] says nothing: the operation happened, did not, or happens later.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kallisto_store::{Batch, Error, Peer, Position};
pub use tokio::sync::Notify;

pub use crate::group::GroupEffects;
pub use crate::lease::LeaseLook;
pub use crate::records::{KeyedRecord, RecordMap};

/// Why an operation has no result.
#[derive(Debug)]
pub enum DatabaseFailure {
    /// The database refused it: nothing happened.
    Refused(Error),
    /// The database gave it up because of others: nothing happened, and the same may go through now.
    Again(String),
    /// The connection ended or took too long: nobody knows.
    Lost(String),
}

impl DatabaseFailure {
    /// What a caller hears to whom it does not matter.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Again(why) | Self::Lost(why) => Error::Unavailable(why),
        }
    }
}

/// Whether an operation took hold, or what it found.
pub type DatabaseResult<T> = Result<T, DatabaseFailure>;

/// A database, and the time and threads of who uses it.
pub trait StoreDatabase: Clone + Send + Sync + 'static {
    /// A connection to it. Dropping it ends it.
    type Session: DatabaseSession;

    /// Opens a connection, in bounded time; `wake` is told of what others commit, and of its end.
    fn open(
        &self,
        wake: &Arc<Notify>,
    ) -> impl Future<Output = DatabaseResult<Self::Session>> + Send;

    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// Waits until it is woken, for at most so long.
    fn rest(&self, longest: Duration, wake: &Notify) -> impl Future<Output = ()> + Send;

    /// Does what keeps its thread for a while.
    fn occupy<T>(&self, work: impl FnOnce() -> T) -> T;
}

/// The lease as it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenLease {
    /// Whoever wrote before can not write any more.
    pub epoch: u64,
    /// Up to where everything was committed.
    pub position: u64,
}

/// A group that is to be committed.
#[derive(Clone, Copy, Debug)]
pub struct CommitOrder<'c> {
    /// The epoch in which it was judged.
    pub epoch: u64,
    /// The position behind which it was judged.
    pub before: u64,
    /// The position of its last batch.
    pub last: u64,
    /// What it leaves of the records.
    pub effects: &'c GroupEffects<'c>,
    /// Its batches, for those who follow.
    pub body: &'c [u8],
}

/// A row of the change table.
#[derive(Clone, Debug)]
pub struct ChangeRow {
    /// The position of its first batch.
    pub first: u64,
    /// That of its last.
    pub last: u64,
    /// Who wrote it.
    pub epoch: u64,
    /// Its batches; `None` if its bytes are none.
    pub batches: Option<Vec<(Position, Batch)>>,
}

/// What there is behind a position.
#[derive(Clone, Debug)]
pub struct PolledChanges {
    /// The epoch now.
    pub epoch: u64,
    /// The position of the last commit.
    pub tip: u64,
    /// The last restore.
    pub generation: u64,
    /// Rows up to there are gone.
    pub trimmed: u64,
    /// Who holds the lease; 0 for nobody.
    pub holder: u64,
    /// Rows behind the position, in order.
    pub rows: Vec<ChangeRow>,
    /// There may be more rows than were fetched.
    pub has_more: bool,
}

/// All records, and what they are as of.
#[derive(Clone, Debug)]
pub struct LoadedRecords {
    /// By key.
    pub records: RecordMap,
    /// As of this position.
    pub position: u64,
    /// The last restore.
    pub generation: u64,
    /// The epoch then.
    pub epoch: u64,
}

/// A server of the list.
#[derive(Clone, Debug)]
pub struct ListedServer {
    /// As it says.
    pub peer: Peer,
    /// Whether it would lead.
    pub is_willing: bool,
    /// For how long it has said nothing, by the database's clock.
    pub silent_ms: u64,
}

/// A step of a restore that moves the position.
#[derive(Clone, Copy, Debug)]
pub struct RestoreOrder {
    /// The epoch of who restores.
    pub epoch: u64,
    /// The position now.
    pub before: u64,
    /// The generation of the restore.
    pub generation: u64,
}

/// What came of the switch of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchOutcome {
    /// It took hold.
    Switched,
    /// Epoch or position were others.
    Deposed,
    /// Not as many records were staged as it says.
    Incomplete,
}

/// A connection to a database.
pub trait DatabaseSession: Send + Sync + 'static {
    /// Whether it has ended.
    fn is_closed(&self) -> bool;

    /// Has it hear of what others commit.
    fn listen(&self) -> impl Future<Output = DatabaseResult<()>> + Send;

    /// Makes sure that the tables are there and says which store they hold.
    fn prepare(&self) -> impl Future<Output = DatabaseResult<[u8; 16]>> + Send;

    /// Why the database may forget what it acknowledged; `None` if it does not.
    fn forgets(&self) -> impl Future<Output = DatabaseResult<Option<String>>> + Send;

    /// Reads everything, as of one moment.
    fn load(&self) -> impl Future<Output = DatabaseResult<LoadedRecords>> + Send;

    /// Commits a group; whether epoch and position were what it says.
    fn commit(&self, order: &CommitOrder<'_>) -> impl Future<Output = DatabaseResult<bool>> + Send;

    /// Reads what was committed behind a position.
    fn poll(&self, behind: u64) -> impl Future<Output = DatabaseResult<PolledChanges>> + Send;

    /// Forgets change rows up to a position.
    fn trim(&self, epoch: u64, to: u64) -> impl Future<Output = DatabaseResult<()>> + Send;

    /// Looks who holds the lease.
    fn look(&self) -> impl Future<Output = DatabaseResult<LeaseLook>> + Send;

    /// Takes a lease that is still as it was seen.
    fn take(
        &self,
        own: u64,
        seen: &LeaseLook,
    ) -> impl Future<Output = DatabaseResult<Option<TakenLease>>> + Send;

    /// Takes the lease of a database without anything, whoever holds it.
    fn take_blank(
        &self,
        own: u64,
    ) -> impl Future<Output = DatabaseResult<Option<TakenLease>>> + Send;

    /// Takes the next epoch of an own lease: nothing of the one before commits behind it.
    fn refence(
        &self,
        own: u64,
        epoch: u64,
    ) -> impl Future<Output = DatabaseResult<Option<TakenLease>>> + Send;

    /// Renews an own lease; whether it still is one.
    fn renew(&self, own: u64, epoch: u64) -> impl Future<Output = DatabaseResult<bool>> + Send;

    /// Gives an own lease away: to `wanted` first, if that is not 0.
    fn release(
        &self,
        own: u64,
        epoch: u64,
        wanted: u64,
    ) -> impl Future<Output = DatabaseResult<()>> + Send;

    /// Says that this server is there.
    fn be_there(
        &self,
        own: &Peer,
        is_willing: bool,
    ) -> impl Future<Output = DatabaseResult<()>> + Send;

    /// Takes the place of the process that was this server before and could not say that it went.
    fn supersede(&self, own: &Peer) -> impl Future<Output = DatabaseResult<()>> + Send;

    /// Who is there.
    fn servers(&self) -> impl Future<Output = DatabaseResult<Vec<ListedServer>>> + Send;

    /// Takes those off the list that have said nothing for long.
    fn forget_servers(&self) -> impl Future<Output = DatabaseResult<()>> + Send;

    /// Takes this server off the list.
    fn leave(&self, own: u64) -> impl Future<Output = DatabaseResult<()>> + Send;

    /// Drops what restores of up to a generation have staged, in the epoch of who restores.
    fn clear_staged(
        &self,
        epoch: u64,
        up_to: u64,
    ) -> impl Future<Output = DatabaseResult<()>> + Send;

    /// Begins a restore at its generation, which is the position behind `before`; `body` is the batch that changes nothing. Whether
    /// epoch and position were what it says.
    fn begin_restore(
        &self,
        order: &RestoreOrder,
        body: &[u8],
    ) -> impl Future<Output = DatabaseResult<bool>> + Send;

    /// Stages records beside those in use; whether the epoch was the one it says.
    fn stage(
        &self,
        epoch: u64,
        generation: u64,
        records: &[(Bytes, Bytes)],
    ) -> impl Future<Output = DatabaseResult<bool>> + Send;

    /// Has what was staged take the place of all records, at the position behind `before`, if it is as many `records`: counted where they
    /// are taken, since others may have dropped some until then. Whether epoch and position were what it says.
    fn switch(
        &self,
        order: &RestoreOrder,
        records: u64,
    ) -> impl Future<Output = DatabaseResult<SwitchOutcome>> + Send;
}
