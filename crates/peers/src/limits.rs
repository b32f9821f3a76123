//! Every limit of the cluster port.

use std::time::Duration;

use kallisto_store::{CHUNK_BYTES_MAX, MESSAGE_BYTES_MAX};

/// The largest frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 48 << 20;
/// Connections from peers at a time.
pub const CONNECTIONS_MAX: usize = 256;
/// Connections at a time that have not shown yet that a peer makes them.
pub const OPENINGS_MAX: usize = 256;
/// Time for a connection, its handshake and its first frame.
pub const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a connection to a peer, which is near or not there.
pub const DIAL_TIMEOUT: Duration = Duration::from_millis(1000);
/// How long to leave a peer alone that could not be reached.
pub const DIAL_PAUSE: Duration = Duration::from_millis(30);
/// Messages that wait for one peer.
pub const MESSAGES_MAX: usize = 4096;
/// Their bytes; one message may be as large as it likes within its own limit.
pub const MESSAGES_BYTES_MAX: usize = 64 << 20;
/// Messages of at most so many bytes, such as heartbeats, wait beyond [`MESSAGES_BYTES_MAX`] too.
pub const SMALL_MESSAGE_BYTES: usize = 1 << 10;
/// Bytes of messages that are written at a time.
pub const WRITE_BYTES: usize = 1 << 20;
/// Requests that wait to be sent to one peer.
pub const REQUESTS_MAX: usize = 4096;
/// Requests of one peer that are answered at a time.
pub const ANSWERING_MAX: usize = 2048;
/// Chunks of a snapshot that wait between disk and wire.
pub const CHUNKS_MAX: usize = 4;
/// How long a peer may take nothing before its connection ends.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may acknowledge nothing of Raft's messages before their connection ends: what is lost is sent again, and a connection that
/// waited out a cut wire tries again only after about as long as the cut was.
pub const UNHEARD_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a connection may be silent before the system asks whether its other end is still there.
pub const KEEPALIVE_TIME: Duration = Duration::from_secs(10);
/// How long a server hears no message before it asks a member whether it is one, and how often it asks. Leaders send ten in that time.
pub const SILENCE: Duration = Duration::from_secs(1);
/// Time for the answer to that, which a member gives that was let go, and that the others have to find out first.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest pause of one that was told, before it asks again.
pub const TOLD_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often a member is tried at a new address before it counts as not reached there.
pub const REACH_TRIES: u32 = 3;
/// Time between two tries.
pub const REACH_PAUSE: Duration = Duration::from_millis(500);
/// How often a server looks whether its peers know it as it says, and says so again if not.
pub const ANNOUNCE_PAUSE: Duration = Duration::from_secs(5);
/// Of so many passes on which it says so again one is logged.
pub const ANNOUNCE_PASSES_TOLD: u32 = 12;
/// Least time between two lines about the same name or address that is not taken.
pub const TOLD_PAUSE: Duration = Duration::from_secs(60);
/// Time between two chunks of a snapshot.
pub const CHUNK_TIMEOUT: Duration = Duration::from_secs(60);

const _: () = assert!(MESSAGE_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(MESSAGE_BYTES_MAX < MESSAGES_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MAX < FRAME_BYTES_MAX);
