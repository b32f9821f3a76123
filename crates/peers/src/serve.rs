//! Connections from peers: who they are is settled first, then their lane decides what happens.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use kallisto_store::Peer;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::announce;
use crate::frame::{self, FrameKind, Hello, LinkPurpose};
use crate::limits::{
    ANSWERING_MAX, CHUNKS_MAX, CONNECTIONS_MAX, OPENING_TIMEOUT, REQUESTS_MAX, WRITE_BYTES,
};
use crate::link::write;
use crate::openings::{OpeningPlace, Openings};
use crate::port::{PortShared, Upper};
use crate::socket;

/// How long the accept loop rests after an error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts peers; ends with the port.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<PortShared>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cluster port not registered");
            return;
        }
    };
    let (openings, places) =
        (Arc::<Openings>::default(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    loop {
        let (stream, remote) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept on the cluster port failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Closed at once, so that those behind it are accepted.
        let Some(opening) = openings.enter(remote.ip()) else { continue };
        let (shared, places) = (Arc::clone(&shared), Arc::clone(&places));
        tokio::spawn(async move {
            // What ends a connection early is the peer's affair, or a stranger's.
            if let Err(error) = serve(stream, opening, &places, &shared).await {
                tracing::debug!(%error, "a connection to the cluster port ended");
            }
        });
    }
}

async fn serve(
    stream: TcpStream,
    place: OpeningPlace,
    places: &Semaphore,
    shared: &Arc<PortShared>,
) -> io::Result<()> {
    let (Some(tls), Some(upper)) = (shared.tls.load_full(), shared.upper.get()) else {
        return Err(io::Error::other("this server is no member yet"));
    };
    // Until its hello says what for; who only reads here hears by the keepalive when the other end is gone.
    socket::configure(&stream, LinkPurpose::Requests);
    let mut buffer = BytesMut::new();
    let opening = async {
        let mut stream = TlsAcceptor::from(Arc::clone(&tls.server)).accept(stream).await?;
        let first = frame::read(&mut stream, &mut buffer).await?;
        Ok::<_, io::Error>((stream, first))
    };
    let opened = timeout(OPENING_TIMEOUT, opening).await;
    let (stream, first) = opened.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let hello = match first {
        Some((FrameKind::Hello, payload)) => Hello::decode(&payload),
        Some(_) | None => None,
    };
    let hello = hello.ok_or_else(|| io::Error::other("no hello"))?;
    let certificates = stream.get_ref().1.peer_certificates();
    let from = hello.from.id;
    let known = certificates
        .and_then(|chain| chain.first())
        .is_some_and(|certificate| tls.belongs_to(certificate, from));
    if !known || hello.store_id != tls.store_id || hello.to != tls.node_id {
        return Err(io::Error::other("a hello that its certificate does not bear out"));
    }
    let full = |_| io::Error::other("too many connections from peers");
    let _place = places.try_acquire().map_err(full)?;
    drop(place);
    let lane = hello.lane;
    let (mut reader, mut writer) = tokio::io::split(stream);
    if !shared.is_member(from) {
        tell_removed(&mut writer, from, upper).await?;
        return Err(io::Error::other("a server that is no member"));
    }
    announce::hear(shared, upper, Peer { id: from, ..hello.from });
    match lane {
        LinkPurpose::Messages => {
            messages(reader, buffer, shared, from, upper).await?;
            tell_removed(&mut writer, from, upper).await
        }
        LinkPurpose::Snapshot => snapshot(writer, upper, None, shared.name_of(from)).await,
        LinkPurpose::Rest => {
            let place = timeout(OPENING_TIMEOUT, frame::read(&mut reader, &mut buffer)).await;
            match place.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
                Some((FrameKind::Place, place)) => {
                    snapshot(writer, upper, Some(place), shared.name_of(from)).await
                }
                Some(_) | None => Err(io::Error::other("no place in a snapshot")),
            }
        }
        LinkPurpose::Requests => requests(reader, writer, buffer, from, shared).await,
    }
}

/// Hears messages; returns when their sender is no member any more.
async fn messages(
    mut reader: ReadHalf<TlsStream<TcpStream>>,
    mut buffer: BytesMut,
    shared: &PortShared,
    from: u64,
    upper: &Arc<dyn Upper>,
) -> io::Result<()> {
    while let Some((FrameKind::Message, message)) = frame::read(&mut reader, &mut buffer).await? {
        if !shared.is_member(from) {
            return Ok(());
        }
        // Relaxed: it says nothing about other memory.
        shared.has_heard.store(true, Ordering::Relaxed);
        upper.receive(from, message);
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Tells a server that it is no member any more, if that is so: it may not have heard it, and goes on with what it has.
async fn tell_removed(
    writer: &mut WriteHalf<TlsStream<TcpStream>>,
    from: u64,
    upper: &Arc<dyn Upper>,
) -> io::Result<()> {
    let left = timeout(OPENING_TIMEOUT, upper.has_left(from)).await;
    if !left.unwrap_or(false) {
        return Ok(());
    }
    tracing::debug!(peer = from, "told a server that it was removed");
    let mut out = BytesMut::new();
    frame::put(&mut out, FrameKind::Removed, &[]);
    write(writer, &mut out).await?;
    writer.shutdown().await
}

/// Sends `peer` the state, or what is behind a place in it; it is read on a thread of its own.
async fn snapshot(
    mut writer: WriteHalf<TlsStream<TcpStream>>,
    upper: &Arc<dyn Upper>,
    behind: Option<Bytes>,
    peer: String,
) -> io::Result<()> {
    let (sender, mut chunks) = mpsc::channel::<(FrameKind, Vec<u8>)>(CHUNKS_MAX);
    let upper = Arc::clone(upper);
    let read = move || -> Result<(), kallisto_store::Error> {
        let source = match behind {
            None => Some(upper.snapshot()?),
            Some(place) => upper.snapshot_behind(&place)?,
        };
        let last = match source {
            Some(mut source) => {
                while let Some(chunk) = source.next_chunk()? {
                    if sender.blocking_send((FrameKind::Chunk, chunk)).is_err() {
                        return Ok(());
                    }
                }
                FrameKind::End
            }
            None => FrameKind::Gone,
        };
        // Whoever waited for it may have gone.
        let _ = sender.blocking_send((last, Vec::new()));
        Ok(())
    };
    std::thread::Builder::new().name("snapshot-out".into()).spawn(move || {
        if let Err(error) = read() {
            tracing::error!(%error, "a snapshot could not be read");
        }
    })?;
    let (mut out, mut bytes) = (BytesMut::new(), 0);
    while let Some((kind, chunk)) = chunks.recv().await {
        bytes += chunk.len();
        frame::put(&mut out, kind, &[&chunk]);
        write(&mut writer, &mut out).await?;
        if kind == FrameKind::End {
            tracing::info!(peer, bytes, "a snapshot was sent");
        }
    }
    Ok(())
}

async fn requests(
    mut reader: ReadHalf<TlsStream<TcpStream>>,
    mut writer: WriteHalf<TlsStream<TcpStream>>,
    mut buffer: BytesMut,
    from: u64,
    shared: &PortShared,
) -> io::Result<()> {
    let (sender, mut answers) = mpsc::channel::<(u64, Bytes)>(REQUESTS_MAX);
    let writing = tokio::spawn(async move {
        let mut out = BytesMut::new();
        while let Some((number, answer)) = answers.recv().await {
            frame::put(&mut out, FrameKind::Answer, &[&number.to_le_bytes(), &answer]);
            while out.len() < WRITE_BYTES
                && let Ok((number, answer)) = answers.try_recv()
            {
                frame::put(&mut out, FrameKind::Answer, &[&number.to_le_bytes(), &answer]);
            }
            if write(&mut writer, &mut out).await.is_err() {
                return;
            }
        }
    });
    let places = Arc::new(Semaphore::new(ANSWERING_MAX));
    while let Some((FrameKind::Request, mut request)) =
        frame::read(&mut reader, &mut buffer).await?
    {
        if !shared.is_member(from) {
            // Whoever asked hears that there is no answer.
            break;
        }
        let number = request.try_get_u64_le().map_err(|_| io::Error::other("a short request"))?;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        let Some(upper) = shared.upper.get() else { break };
        let (sender, answering) = (sender.clone(), upper.answer(from, request));
        shared.answering.spawn(async move {
            let answer = answering.await;
            // The peer may have gone.
            let _ = sender.send((number, answer)).await;
            drop(place);
        });
    }
    drop(sender);
    let _ = writing.await;
    Ok(())
}
