//! Connections to peers: dialling, the lane of messages, and fetching a snapshot.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use kallisto_store::{ChunkSink, Peer};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::frame::{self, FrameKind, Hello, LinkPurpose};
use crate::identity::PeerTls;
use crate::limits::{
    CHUNK_TIMEOUT, CHUNKS_MAX, DIAL_PAUSE, DIAL_TIMEOUT, MESSAGES_BYTES_MAX, MESSAGES_MAX,
    SMALL_MESSAGE_BYTES, UNREAD_TIMEOUT, WRITE_BYTES,
};
use crate::port::PortShared;
use crate::reach::PeerReach;
use crate::socket;

/// Connects to a peer and says hello.
pub(crate) async fn dial(
    shared: &PortShared,
    to: u64,
    lane: LinkPurpose,
) -> io::Result<TlsStream<TcpStream>> {
    let tls = shared.tls.load_full();
    let tls = tls.ok_or_else(|| io::Error::other("this server has no certificate yet"))?;
    let address = shared.address_of(to).ok_or_else(|| io::Error::other("no member"))?;
    let dialling = async {
        let mut stream = connect(&tls, to, &address, lane).await?;
        let from = Peer { id: tls.node_id, ..shared.own.clone() };
        let hello = Hello { lane, store_id: tls.store_id, to, from };
        let mut out = BytesMut::new();
        frame::put(&mut out, FrameKind::Hello, &[&hello.encode()]);
        stream.write_all(&out).await?;
        stream.flush().await?;
        Ok(stream)
    };
    timeout(DIAL_TIMEOUT, dialling).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether a server answers at an address that proves to be that peer.
pub(crate) async fn connect_to(shared: &PortShared, to: u64, address: &str) -> io::Result<()> {
    let tls = shared.tls.load_full();
    let tls = tls.ok_or_else(|| io::Error::other("this server has no certificate yet"))?;
    let dialling = connect(&tls, to, address, LinkPurpose::Requests);
    let connected = timeout(DIAL_TIMEOUT, dialling).await;
    connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map(drop)
}

/// A connection to the server at an address, which proves that it is that peer.
async fn connect(
    tls: &PeerTls,
    to: u64,
    address: &str,
    lane: LinkPurpose,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    socket::configure(&stream, lane);
    let name = tls.name_of(to).map_err(io::Error::other)?;
    TlsConnector::from(Arc::clone(&tls.client)).connect(name, stream).await
}

/// Where messages to a peer wait for its lane.
pub(crate) struct PeerLink {
    messages: mpsc::Sender<Vec<u8>>,
    bytes: Arc<AtomicUsize>,
}

/// The lane's end of it.
struct LinkQueue {
    messages: mpsc::Receiver<Vec<u8>>,
    bytes: Arc<AtomicUsize>,
}

impl PeerLink {
    fn new() -> (Self, LinkQueue) {
        let (sender, messages) = mpsc::channel(MESSAGES_MAX);
        let bytes = Arc::<AtomicUsize>::default();
        (Self { messages: sender, bytes: Arc::clone(&bytes) }, LinkQueue { messages, bytes })
    }

    /// Has a message wait. A full queue loses it: the peer is slow or gone, and Raft sends what it still needs again.
    pub(crate) fn send(&self, message: Vec<u8>) {
        let len = message.len();
        // A counter, which orders nothing.
        let waiting = self.bytes.fetch_add(len, Ordering::Relaxed);
        let is_full = waiting > 0 && waiting + len > MESSAGES_BYTES_MAX;
        if (is_full && len > SMALL_MESSAGE_BYTES) || self.messages.try_send(message).is_err() {
            self.bytes.fetch_sub(len, Ordering::Relaxed);
        }
    }
}

impl LinkQueue {
    async fn recv(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.recv().await?;
        self.bytes.fetch_sub(message.len(), Ordering::Relaxed);
        Some(message)
    }

    fn try_recv(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.try_recv().ok()?;
        self.bytes.fetch_sub(message.len(), Ordering::Relaxed);
        Some(message)
    }
}

/// Starts the lane of messages to a peer; it ends when the link is dropped.
pub(crate) fn start(shared: &Arc<PortShared>, to: u64) -> PeerLink {
    let (link, mut messages) = PeerLink::new();
    let shared_task = Arc::clone(shared);
    shared.handle.spawn(async move {
        let (began, mut reach) = (Instant::now(), PeerReach::default());
        while let Some(first) = messages.recv().await {
            match dial(&shared_task, to, LinkPurpose::Messages).await {
                Ok(stream) => {
                    if reach.reached() {
                        tracing::info!(peer = shared_task.name_of(to), "a peer is reached again");
                    }
                    let (reader, mut writer) = tokio::io::split(stream);
                    let ended = tokio::select! {
                        ended = pour(&mut writer, first, &mut messages) => ended,
                        heard = hear(reader, &shared_task) => {
                            heard.and_then(|_| Err(io::ErrorKind::UnexpectedEof.into()))
                        }
                    };
                    if let Err(error) = ended {
                        tracing::debug!(peer = to, %error, "a peer's connection ended");
                        tokio::time::sleep(DIAL_PAUSE).await;
                    }
                }
                Err(error) => {
                    // One that was removed is not missed.
                    if shared_task.is_member(to) && reach.failed(began.elapsed()) {
                        let address = shared_task.address_of(to).unwrap_or_default();
                        let peer = shared_task.name_of(to);
                        tracing::warn!(peer, address, %error, "a peer is not reached");
                    }
                    tokio::time::sleep(DIAL_PAUSE).await;
                    // They are of the past now.
                    while messages.try_recv().is_some() {}
                }
            }
        }
    });
    link
}

/// Writes messages as they come, many at a time when many wait.
async fn pour(
    stream: &mut WriteHalf<TlsStream<TcpStream>>,
    first: Vec<u8>,
    messages: &mut LinkQueue,
) -> io::Result<()> {
    let mut out = BytesMut::new();
    let mut next = Some(first);
    while let Some(message) = next {
        frame::put(&mut out, FrameKind::Message, &[&message]);
        while out.len() < WRITE_BYTES
            && let Some(message) = messages.try_recv()
        {
            frame::put(&mut out, FrameKind::Message, &[&message]);
        }
        write(stream, &mut out).await?;
        next = messages.recv().await;
    }
    Ok(())
}

/// What a peer said on the lane of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// This server was removed.
    Removed,
    /// Nothing, and it closed the connection.
    End,
}

/// Hears what a peer has to say on the lane of messages: that this server was removed, and nothing else. Its certificate says
/// that it belongs to the same cluster.
pub(crate) async fn hear(
    mut reader: ReadHalf<TlsStream<TcpStream>>,
    shared: &PortShared,
) -> io::Result<Heard> {
    let mut buffer = BytesMut::new();
    if let Some((FrameKind::Removed, _)) = frame::read(&mut reader, &mut buffer).await?
        && let Some(upper) = shared.upper.get()
    {
        upper.removed();
        return Ok(Heard::Removed);
    }
    Ok(Heard::End)
}

/// What becomes of a step in which the other end has to take something.
async fn in_time<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(UNREAD_TIMEOUT, step).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Writes and empties a buffer. However long all of it takes: the largest messages take a slow wire longer than a peer may
/// take nothing.
pub(crate) async fn write(
    stream: &mut (impl AsyncWriteExt + Unpin),
    out: &mut BytesMut,
) -> io::Result<()> {
    let mut rest = &out[..];
    while !rest.is_empty() {
        let taken = in_time(stream.write(rest)).await?;
        if taken == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    in_time(stream.flush()).await?;
    // A large message is no reason to keep so much memory.
    if out.capacity() > 2 * WRITE_BYTES {
        *out = BytesMut::new();
    }
    out.clear();
    Ok(())
}

/// What comes of a snapshot.
enum SnapshotOutcome {
    Chunk(Bytes),
    /// There are no more chunks.
    End,
    /// Its sender does not hold it any more.
    Gone,
}

/// Fetches a snapshot, or the rest of one: chunks are taken on a thread of their own, since that writes to the disk.
pub(crate) fn fetch(shared: &Arc<PortShared>, from: u64, mut sink: Box<dyn ChunkSink>) {
    let place = sink.place();
    let (sender, mut chunks) = mpsc::channel::<SnapshotOutcome>(CHUNKS_MAX);
    let peer = shared.name_of(from);
    let take = move || {
        let mut bytes = 0;
        while let Some(came) = chunks.blocking_recv() {
            let taken = match came {
                SnapshotOutcome::Chunk(chunk) => {
                    bytes += chunk.len();
                    sink.take(chunk)
                }
                SnapshotOutcome::End => {
                    match sink.finish() {
                        Ok(()) => tracing::info!(peer, bytes, "a snapshot was taken"),
                        Err(error) => tracing::error!(%error, "a snapshot was not taken"),
                    }
                    return;
                }
                SnapshotOutcome::Gone => {
                    tracing::info!(peer = from, "the rest of a snapshot is gone, fetched anew");
                    sink.gone();
                    return;
                }
            };
            if let Err(error) = taken {
                tracing::error!(%error, "a snapshot was not taken");
                return;
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("snapshot-in".into()).spawn(take) {
        tracing::error!(%error, "no thread to take a snapshot on");
        return;
    }
    let shared_task = Arc::clone(shared);
    shared.handle.spawn(async move {
        if let Err(error) = copy(&shared_task, from, place, &sender).await {
            tracing::warn!(peer = from, %error, "a snapshot was not fetched to its end");
        }
    });
}

async fn copy(
    shared: &PortShared,
    from: u64,
    place: Option<Vec<u8>>,
    chunks: &mpsc::Sender<SnapshotOutcome>,
) -> io::Result<()> {
    let lane = if place.is_some() { LinkPurpose::Rest } else { LinkPurpose::Snapshot };
    let mut stream = dial(shared, from, lane).await?;
    let mut buffer = BytesMut::new();
    if let Some(place) = place {
        frame::put(&mut buffer, FrameKind::Place, &[&place]);
        write(&mut stream, &mut buffer).await?;
        tracing::info!(peer = from, "the rest of a snapshot is fetched");
    }
    loop {
        let read = timeout(CHUNK_TIMEOUT, frame::read(&mut stream, &mut buffer)).await;
        let frame = read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let (came, last) = match frame {
            Some((FrameKind::Chunk, chunk)) => (SnapshotOutcome::Chunk(chunk), false),
            Some((FrameKind::End, _)) => (SnapshotOutcome::End, true),
            Some((FrameKind::Gone, _)) => (SnapshotOutcome::Gone, true),
            Some(_) | None => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        if chunks.send(came).await.is_err() || last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use tokio::io::AsyncWrite;
    use tokio::time::{Sleep, sleep};

    use super::*;

    /// Takes so many bytes in a second.
    struct SlowWire {
        bytes: usize,
        taken: usize,
        pause: Pin<Box<Sleep>>,
    }

    impl AsyncWrite for SlowWire {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            if self.pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.pause = Box::pin(sleep(Duration::from_secs(1)));
            let taken = bytes.len().min(self.bytes);
            if taken == 0 {
                return Poll::Pending;
            }
            self.taken += taken;
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// It would be sent again, and take as long again, for ever.
    #[tokio::test(start_paused = true)]
    async fn a_message_takes_as_long_as_its_peer_takes_something_and_no_longer() {
        let began = Instant::now();
        let pause = || Box::pin(sleep(Duration::ZERO));
        let mut wire = SlowWire { bytes: 1 << 10, taken: 0, pause: pause() };
        let mut out = BytesMut::zeroed(60 << 10);
        write(&mut wire, &mut out).await.unwrap();
        assert_eq!((wire.taken, out.len()), (60 << 10, 0));
        assert!(began.elapsed() >= Duration::from_secs(59));

        let (began, mut wire) = (Instant::now(), SlowWire { bytes: 0, taken: 0, pause: pause() });
        let mut out = BytesMut::zeroed(1);
        let refused = write(&mut wire, &mut out).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), UNREAD_TIMEOUT.as_secs());
    }

    /// Appends of four megabytes, of which Raft has 256 under way, would take a gigabyte.
    #[tokio::test]
    async fn what_waits_for_a_slow_peer_is_bounded_in_bytes_and_heartbeats_wait_beyond() {
        let (link, mut queue) = PeerLink::new();
        for _ in 0..40 {
            link.send(vec![0; 4 << 20]);
        }
        link.send(vec![0; SMALL_MESSAGE_BYTES]);
        let mut waiting = Vec::new();
        while let Some(message) = queue.try_recv() {
            waiting.push(message.len());
        }
        assert_eq!(waiting.len(), 17, "{waiting:?}");
        assert_eq!(waiting.pop(), Some(SMALL_MESSAGE_BYTES));
        assert_eq!(waiting.iter().sum::<usize>(), MESSAGES_BYTES_MAX);
        // There is room again, also for one that is larger than all.
        link.send(vec![0; MESSAGES_BYTES_MAX + 1]);
        assert_eq!(queue.recv().await.map(|message| message.len()), Some(MESSAGES_BYTES_MAX + 1));
    }
}
