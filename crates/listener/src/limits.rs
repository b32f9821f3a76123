//! The named limits of the listeners.

use std::time::Duration;

/// Bytes of request line and headers.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Header fields in a request.
pub const HEADERS_MAX: usize = 64;
/// Time for a request's headers to arrive, from their first byte; for the first request of a connection
/// from connecting on.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time a connection may be idle between two requests.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The same, and that for the first request, while most connections are taken.
pub const CROWDED_PATIENCE: Duration = Duration::from_secs(3);
/// How often a connection looks at its deadlines; they are kept that exactly.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time for a TLS handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a request's body to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time sent bytes may stay unacknowledged, which ends clients that never read.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence after which the kernel asks whether a client is still there, as Redis does. An idle connection of its protocol may stay, and
/// one whose client has vanished says nothing either.
pub const KEEPALIVE_TIME: Duration = Duration::from_secs(300);
/// Bytes that a client takes in that time of a reply it does not take at once.
pub const TAKEN_BYTES_MIN: usize = 256 << 10;
/// Bytes of replies that a client may leave untaken without a share of what is held for all: with all
/// connections there may be, less than the share itself.
pub const SMALL_REPLY_BYTES_MAX: usize = 4 << 10;
/// Bytes that a stream hands to its connection at once. What it makes in one go may be more and is sent in such pieces; until all of it was
/// taken it holds a share of what is held for all, and nothing is made after it.
pub const STREAM_PIECE_BYTES_MAX: usize = 64 << 10;
/// Bytes of replies that the kernel takes for a connection beyond what it has sent. By itself it takes megabytes, and
/// when it has no more memory for sockets it drops the packets of everybody.
pub const KERNEL_UNSENT_BYTES_MAX: u32 = 128 << 10;
/// When a client is to come again that was turned away, in seconds.
pub const RETRY_AFTER_SECS: u64 = 1;
/// Time open connections get to finish at shutdown.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a stream that has nothing to say shows that it lives, and a token that ended is
/// noticed.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Pause of a stream or a waiting request after it was woken: what happens meanwhile comes in one go.
pub const COALESCE_PAUSE: Duration = Duration::from_millis(20);
/// Pause of an accept loop after an error, such as too many open files.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Bytes read and thrown away of what a client still sends that was refused: the largest body, twice.
pub const LINGER_BYTES_MAX: usize = 64 << 20;
/// Time for that.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(30);
/// Silence after which a client that was refused is taken to have said everything.
pub const LINGER_SILENCE: Duration = Duration::from_secs(2);
/// Connections the kernel may queue before they are accepted.
pub const BACKLOG: i32 = 4096;
/// Longest header of the PROXY protocol, with what a proxy adds about TLS and itself.
pub const PROXY_HEADER_BYTES_MAX: usize = 4096;
/// How long a proxy may take to send it.
pub const PROXY_HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests in flight on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 128;
/// Interval of HTTP/2 pings, and the time a peer has to answer one.
pub const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long a client may take to send a request. A test shortens the times; a server has the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the headers, and for the first request of a connection.
    pub head: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// For the body.
    pub body: Duration,
}

impl Timeouts {
    /// How often deadlines are looked at.
    pub(crate) fn look(self) -> Duration {
        LOOK_INTERVAL.min(self.head).min(self.idle)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { head: HEAD_TIMEOUT, idle: IDLE_TIMEOUT, body: BODY_TIMEOUT }
    }
}

const _: () = assert!(RETRY_AFTER_SECS > 0);
