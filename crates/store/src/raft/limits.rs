//! Every limit of the Raft store, with the relations between them.

use std::time::Duration;

use kallisto_lsm::segment_log::PAYLOAD_BYTES_MAX;

use super::machine::ENGINE_KEY_OVERHEAD;
use crate::batch::{BATCH_BYTES_MAX, BATCH_OPS_MAX, KEY_BYTES_MAX};

/// Commits that may wait to be proposed; one more is refused as busy.
pub(crate) const WAITING_MAX: usize = 16 << 10;
/// Their bytes; a single batch may be as large as it likes within its own limits.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 20;
/// Commits that are proposed, and written and synced, as one group.
pub(crate) const GROUP_MAX: usize = 4096;
/// A group takes no further commit once it has so many bytes.
pub(crate) const GROUP_BYTES_MAX: usize = 1 << 20;
/// The part of a log segment that is kept for essential batches and for what Raft must write down: no other batch is taken
/// that would leave less of the last segment there is room for.
pub(crate) const RESERVE_PART: u64 = 32;
/// The largest batch that is essential, in bytes encoded.
pub(crate) const ESSENTIAL_BYTES_MAX: usize = 128 << 10;
/// Most bytes of an encoded batch that is kept as it was given, too, until it is applied.
pub(crate) const BATCH_KEPT_BYTES_MAX: usize = 256 << 10;
/// Ticks between two looks for room by a server that had none.
pub(crate) const SHORT_LOOK_TICKS: u32 = 20;
/// A member that was not heard for so many ticks is not counted among those that have room.
pub(crate) const HEARD_TICKS: u32 = 3 * ELECTION_TICKS as u32;
/// The longest wait for a group to gather.
pub(crate) const GATHER_MAX: Duration = Duration::from_millis(1);
/// Commits that are applied before the first of them is resolved: each resolving wakes somebody, and waking pays more
/// at a time.
pub(crate) const RESOLVE_MAX: usize = 128;
/// Committed entries that may wait to be applied before no more are proposed.
pub(crate) const APPLY_WAITING_MAX: usize = 8 << 10;
/// Their bytes.
pub(crate) const APPLY_WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of committed entries that Raft hands out at a time, and of one message to a peer.
pub(crate) const HAND_OUT_BYTES_MAX: u64 = 4 << 20;
/// Appends to one peer that may be under way.
pub(crate) const INFLIGHT_MAX: usize = 256;
/// Bytes of recent entries kept in memory; older ones are read from the log. Every server has them for as long
/// as it runs, and only a member that is a little behind asks for more than the last few.
pub(crate) const CACHE_BYTES_MAX: usize = 4 << 20;
/// The largest encoded batch, and so the largest entry, in bytes.
pub(crate) const ENTRY_BYTES_MAX: usize = BATCH_BYTES_MAX + 2 * 11 * (BATCH_OPS_MAX + 1);
/// What a group's frame needs beside the entries: their headers, and a state.
pub(crate) const FRAME_OVERHEAD_MAX: usize = GROUP_MAX * FRAME_OVERHEAD_BYTES + 2 * STATE_BYTES_MAX;
/// What one more frame takes: its header, a hard state, padding. A group has one, and one more for each save in it.
pub(crate) const FRAME_OVERHEAD_BYTES: usize = 80;
/// The largest state record, in bytes.
pub(crate) const STATE_BYTES_MAX: usize = 8 << 10;
/// Members of a cluster, of each kind.
pub(crate) const MEMBERS_MAX: usize = 64;
/// Ticks of a leader's heartbeat, and of the shortest election timeout; the longest is twice that.
pub(crate) const HEARTBEAT_TICKS: usize = 3;
/// See [`HEARTBEAT_TICKS`].
pub(crate) const ELECTION_TICKS: usize = 15;
/// A snapshot's chunk ends once it has so many bytes.
pub(crate) const SNAPSHOT_CHUNK_BYTES: usize = 256 << 10;
/// Records in a chunk: each takes at least its two lengths.
pub(crate) const SNAPSHOT_RECORDS_MAX: usize = SNAPSHOT_CHUNK_BYTES / 8 + 1;
/// How long a snapshot of which nothing more is asked for is held for a member whose fetch broke off, and how long that
/// member keeps what it has of it.
pub(crate) const SNAPSHOT_HELD: Duration = Duration::from_secs(60);
/// Snapshots that are held at a time; the oldest goes for another.
pub(crate) const SNAPSHOTS_HELD_MAX: usize = 4;
/// Bytes of messages from peers that may wait for the driver; more are lost, as messages may be.
pub(crate) const MESSAGES_BYTES_MAX: usize = 128 << 20;
/// Messages that may wait.
pub(crate) const MESSAGES_MAX: usize = 16 << 10;
/// The log is kept for a member that is behind until it takes this many bytes.
pub(crate) const LOG_KEPT_BYTES: u64 = 256 << 20;
/// An election timeout that no server lives to see.
pub(crate) const NEVER_TICKS: usize = 1 << 40;
/// A learner that lacks at most so many entries has caught up.
pub(crate) const PROMOTED_WITHIN: u64 = 256;
/// How long a proposal may stay undecided after its leader lost its place, before whoever waits is told so.
pub(crate) const UNDECIDED_MAX: Duration = Duration::from_secs(10);
/// How long a read that the leader answered waits for the entry that it named, before whoever asked is told to ask again.
pub(crate) const ADMITTED_MAX: Duration = Duration::from_secs(10);
/// How many ticks a read waits for the word of a leader before whoever asked is told to ask again.
pub(crate) const READ_TICKS_MAX: u32 = ELECTION_TICKS as u32;
/// How often a server that has peers asks whether its state holds everything, unless it is told otherwise.
pub(crate) const CONFIRM_EVERY: Duration = Duration::from_secs(1);
/// So many confirmations have to fail before a member believes that it is none any more.
pub(crate) const SILENCES: u32 = 2;
/// How many ticks a server that gave its place away waits for another to lead: two elections.
pub(crate) const TRANSFER_TICKS_MAX: u32 = 4 * ELECTION_TICKS as u32;
/// A memtable of the engine freezes at about this size. What is in it is in the view above as well, so it only spares
/// compaction, and a quarter of the engine's own default spares nearly as much.
pub(crate) const MEMTABLE_BYTES: usize = 16 << 20;
/// The engine's block cache: the view answers most reads, and the system keeps the files' pages besides.
pub(crate) const BLOCK_CACHE_BYTES: u64 = 16 << 20;
/// How often the keeper looks whether anything was applied since it last looked.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// A store where nothing was writes what is in memory to files, if it takes so many bytes.
pub(crate) const RESTING_BYTES_MAX: usize = 2 << 20;
/// How long no snapshot is fetched after one that found no room on the disk; each further one doubles it.
pub(crate) const FETCH_PAUSE_MIN: Duration = Duration::from_secs(5);
/// The longest such pause.
pub(crate) const FETCH_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long the applier waits before it asks a full disk again.
pub(crate) const FULL_RETRY: Duration = Duration::from_millis(50);

const _: () = assert!(GROUP_BYTES_MAX + ENTRY_BYTES_MAX + FRAME_OVERHEAD_MAX < PAYLOAD_BYTES_MAX);
const _: () = assert!(SNAPSHOT_CHUNK_BYTES + ENTRY_BYTES_MAX < crate::CHUNK_BYTES_MAX);
const _: () = assert!(HAND_OUT_BYTES_MAX as usize + ENTRY_BYTES_MAX < crate::MESSAGE_BYTES_MAX);
const _: () = assert!(WAITING_BYTES_MAX >= ENTRY_BYTES_MAX);
const _: () = assert!(ENTRY_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(KEY_BYTES_MAX + ENGINE_KEY_OVERHEAD <= kallisto_lsm::limits::KEY_BYTES_MAX);
const _: () = assert!(4 * 8 * MEMBERS_MAX + 256 < STATE_BYTES_MAX);
const _: () = assert!(RESTING_BYTES_MAX < MEMTABLE_BYTES);
const _: () = assert!(ELECTION_TICKS > HEARTBEAT_TICKS);
