//! The end of a connection whose client may still be sending.
//!
//! A request is refused without its body when that is too large, and a client that is refused reads why only after it has sent
//! everything: most clients write first and read then. To close at once with bytes unread makes the kernel answer them
//! with a reset, which takes the reply back before the client has read it (RFC 9112, section 9.6). So our side is
//! closed, and what still comes is read and thrown away: for a while, and up to an amount.
//!
//! `client_timeouts` asks for it when a request with a body was refused, or the client's last bytes were no whole request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::buffer_pool;
use crate::limits::{LINGER_BYTES_MAX, LINGER_SILENCE, LINGER_TIMEOUT};

/// Bytes thrown away at once.
const PIECE_BYTES: usize = 16 << 10;

/// A connection that is read to its end, or to the end of our patience.
pub(crate) struct Linger {
    bytes_left: usize,
    end: Instant,
    /// The next look: whoever has sent nothing until then is done.
    silence: Pin<Box<Sleep>>,
}

impl Linger {
    pub(crate) fn new() -> Self {
        Self {
            bytes_left: LINGER_BYTES_MAX,
            end: Instant::now() + LINGER_TIMEOUT,
            silence: Box::pin(tokio::time::sleep(LINGER_SILENCE)),
        }
    }

    /// Ready when the client has nothing more to say, or may say no more.
    pub(crate) fn poll(
        &mut self,
        mut stream: Pin<&mut impl AsyncRead>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut piece = [0; PIECE_BYTES];
        while self.bytes_left > 0 {
            let mut buffer = ReadBuf::new(&mut piece);
            let read = stream.as_mut().poll_read(cx, &mut buffer);
            let came = buffer.filled().len();
            // It may be a part of a secret.
            buffer_pool::wipe(buffer.filled_mut());
            match read {
                Poll::Pending => return self.silence.as_mut().poll(cx),
                Poll::Ready(Ok::<(), io::Error>(())) if came > 0 => {}
                Poll::Ready(_) => break,
            }
            self.bytes_left = self.bytes_left.saturating_sub(came);
            let now = Instant::now();
            if now >= self.end {
                break;
            }
            self.silence.as_mut().reset(self.end.min(now + LINGER_SILENCE));
        }
        Poll::Ready(())
    }
}
