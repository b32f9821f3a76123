//! Every limit of the store on PostgreSQL.

use std::time::Duration;

/// How long a server leads after the database last heard of it.
pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// How long a lease that was left to one server waits for it.
pub(crate) const WANTED: Duration = Duration::from_secs(1);
/// How often a server says that it is there, and looks who leads.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// How long a server that says nothing is listed.
pub const SILENT_MAX: Duration = Duration::from_secs(60);
/// A server that said nothing for so long is not waited for by one that is not willing to lead.
pub const ALIVE: Duration = Duration::from_secs(4);
/// How long a statement may take before its connection is given up.
pub const STATEMENT: Duration = Duration::from_secs(4);
/// How long everything may take that is long by its nature: loading, and the switch of a restore.
pub const LONG_STATEMENT: Duration = Duration::from_secs(600);
/// How long a write waits for a database that is away, before its client is told so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before the first try to connect anew, and the longest.
pub(crate) const PAUSE_FIRST: Duration = Duration::from_millis(50);
pub(crate) const PAUSE_LONGEST: Duration = Duration::from_secs(1);
/// How long a connection may take to come up, where the URL says nothing of it.
pub(crate) const CONNECT: Duration = Duration::from_secs(3);
/// How long a hand-over waits for another server to lead.
pub(crate) const HAND_OVER: Duration = Duration::from_secs(3);
/// Batches of one transaction.
pub(crate) const GROUP_BATCHES_MAX: usize = 1024;
/// A group ends once it has so many bytes of batches.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;
/// Batches and steps of a restore that may wait.
pub(crate) const WAITING_MAX: usize = 64 << 10;
/// Bytes of batches that may wait.
pub(crate) const WAITING_BYTES_MAX: usize = 256 << 20;
/// Change rows that are fetched at once.
pub const POLL_ROWS: usize = 16;
/// Change rows are fetched at once until they take so many bytes: all of them have to come in the time of a statement.
pub(crate) const POLL_BYTES: i64 = 1 << 20;
/// A leader forgets change rows that are so many batches behind; who is further behind loads the records.
pub(crate) const CHANGES_KEPT: u64 = 20_000;
/// Batches between two times that it does.
pub(crate) const TRIM_EVERY: u64 = 2_000;
/// Records that a scan takes out at a time: the lock is not held while they are looked at.
pub(crate) const SCAN_CHUNK: usize = 512;
/// Servers that are listed.
pub const SERVERS_MAX: i64 = 256;

const _: () = assert!(BEAT.as_millis() * 4 < LEASE.as_millis());
const _: () = assert!(STATEMENT.as_millis() < LEASE.as_millis());
const _: () = assert!(TRIM_EVERY < CHANGES_KEPT);
