//! The named limits of the listeners.

use std::time::Duration;

/// Connections served at once, over all workers.
pub const CONNECTIONS_MAX: usize = 12_000;
/// Bytes of request line and headers.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Header fields in a request.
pub const HEADERS_MAX: usize = 64;
/// Bytes of request bodies held at once, over all connections.
pub const BODIES_BYTES_MAX: usize = 512 << 20;
/// Time for a request's headers to arrive, counted from the end of the request before: an idle
/// connection is closed after it too.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a TLS handshake, waiting for its turn included.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// TLS handshakes a listener works on at once: they cost a signature each.
pub const HANDSHAKES_MAX: usize = 256;
/// Time for a request's body to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time sent bytes may stay unacknowledged, which ends clients that never read.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time open connections get to finish at shutdown.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a stream that has nothing to say shows that it lives, and a token that ended is
/// noticed.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Pause of a stream or a waiting request after it was woken: what happens meanwhile comes in one go.
pub const COALESCE_PAUSE: Duration = Duration::from_millis(20);
/// Pause of an accept loop after an error, such as too many open files.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections the kernel may queue before they are accepted.
pub const BACKLOG: i32 = 4096;
/// Requests in flight on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 128;
/// Interval of HTTP/2 pings, and the time a peer has to answer one.
pub const PING_INTERVAL: Duration = Duration::from_secs(20);

/// How long a client may take to send a request. A test shortens the times; a server has the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the headers, and for the first bytes of a connection.
    pub head: Duration,
    /// For the body.
    pub body: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { head: HEAD_TIMEOUT, body: BODY_TIMEOUT }
    }
}

const _: () = assert!(kallisto_core::limits::BODY_BYTES_MAX <= BODIES_BYTES_MAX);
