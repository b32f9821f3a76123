//! Options of connections between peers.
//!
//! A machine that lost its power, or a wire that was cut, says nothing. Without these options a connection to it lasts for a quarter of an
//! hour for who writes, and for ever for who reads; and once the wire is back the system waits up to two minutes more before it tries again.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use crate::frame::LinkPurpose;
use crate::limits::{KEEPALIVE_TIME, UNHEARD_TIMEOUT, UNREAD_TIMEOUT};

/// How long the other end of a connection may acknowledge nothing.
const fn patience(purpose: LinkPurpose) -> Duration {
    match purpose {
        LinkPurpose::Messages => UNHEARD_TIMEOUT,
        LinkPurpose::Snapshot | LinkPurpose::Requests | LinkPurpose::Rest => UNREAD_TIMEOUT,
    }
}

/// Sends small frames at once, and notices when the other end has vanished. A socket that refuses an option still serves.
pub(crate) fn configure(stream: &TcpStream, purpose: LinkPurpose) {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(UNHEARD_TIMEOUT);
    let set = socket
        .set_tcp_nodelay(true)
        .and_then(|()| socket.set_tcp_user_timeout(Some(patience(purpose))))
        .and_then(|()| socket.set_tcp_keepalive(&keepalive));
    if let Err(error) = set {
        tracing::debug!(%error, "socket option refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_vanished_is_noticed_and_soonest_where_messages_go() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            for (purpose, patience) in
                [(LinkPurpose::Requests, UNREAD_TIMEOUT), (LinkPurpose::Messages, UNHEARD_TIMEOUT)]
            {
                configure(&stream, purpose);
                let socket = SockRef::from(&stream);
                assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
                assert_eq!(socket.tcp_user_timeout().unwrap(), Some(patience));
            }
        });
    }
}
