//! A stream of which something was read already: whoever reads it next gets that first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use crate::pass_writes::pass_writes;

/// The stream, and what is to be read before it.
pub(crate) struct PrefixedStream<S> {
    read: Bytes,
    stream: S,
}

impl<S> PrefixedStream<S> {
    pub(crate) const fn new(read: Bytes, stream: S) -> Self {
        Self { read, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let count = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read[..count]);
        self.read.advance(count);
        if self.read.is_empty() {
            // What it shared with the buffer it came from can go.
            self.read = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

pass_writes!(PrefixedStream);

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn what_was_read_comes_first_and_the_stream_after_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut client, server) = tokio::io::duplex(64);
            client.write_all(b"defg").await.unwrap();
            let mut rewound = PrefixedStream::new(Bytes::from_static(b"abc"), server);
            let mut two = [0; 2];
            rewound.read_exact(&mut two).await.unwrap();
            assert_eq!(&two, b"ab");
            let mut five = [0; 5];
            rewound.read_exact(&mut five).await.unwrap();
            assert_eq!(&five, b"cdefg");
        });
    }
}
