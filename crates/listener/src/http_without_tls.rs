//! HTTP that comes to a listener with TLS, as where a client was given `http://` for `https://`.
//!
//! The first byte tells: a handshake begins with the type of its record, a request with a capital letter. `tls` asks here before it
//! shakes hands. An alert of TLS would be no HTTP to such a client, which would not show what is wrong.
//!
//! Invariant: nothing of the request is looked at but its first byte, which is not taken off the stream before it is known.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use tokio::io::AsyncWriteExt;

use crate::linger::Linger;
use crate::socket::ClientStream;

/// What such a client hears; OpenBao and Vault have the same words for it.
const REPLY: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 62\r\n\
connection: close\r\n\r\n{\"errors\":[\"Client sent an HTTP request to an HTTPS server.\"]}";

/// Waits for the first byte, and tells a client what is wrong that speaks HTTP. True if that was so: then the connection is over.
///
/// # Errors
/// What the operating system says.
pub(crate) async fn turn_away(stream: &mut impl ClientStream) -> io::Result<bool> {
    if !stream.peek().await?.is_some_and(|byte| byte.is_ascii_uppercase()) {
        return Ok(false);
    }
    stream.write_all(REPLY).await?;
    stream.shutdown().await?;
    let mut linger = Linger::new();
    poll_fn(|cx| linger.poll(Pin::new(&mut *stream), cx)).await;
    Ok(true)
}
