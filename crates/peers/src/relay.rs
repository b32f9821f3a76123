//! Requests that one server relays to another: many at a time over one connection.
//!
//! What matters to a caller that fails is whether the peer may have seen the request. [`Unanswered::NotSent`] says that it
//! did not; [`Unanswered::Lost`] that nobody knows.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::client::TlsStream;

use crate::frame::{self, FrameKind, LinkPurpose};
use crate::limits::{REQUESTS_MAX, WRITE_BYTES};
use crate::link::{dial, write};
use crate::port::PortShared;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The peer has not seen the request.
    NotSent,
    /// The connection ended, and the peer may have seen it.
    Lost,
}

/// A request on its way, and where its answer goes.
pub(crate) struct RelayedRequest {
    request: Bytes,
    answer: oneshot::Sender<Result<Bytes, Unanswered>>,
}

/// An answer to come.
#[derive(Debug)]
pub struct Answering(Result<oneshot::Receiver<Result<Bytes, Unanswered>>, Unanswered>);

impl Answering {
    pub(crate) const fn refused(why: Unanswered) -> Self {
        Self(Err(why))
    }

    pub(crate) fn sent(lane: &mpsc::Sender<RelayedRequest>, request: Bytes) -> Self {
        let (answer, answered) = oneshot::channel();
        match lane.try_send(RelayedRequest { request, answer }) {
            Ok(()) => Self(Ok(answered)),
            Err(_) => Self(Err(Unanswered::NotSent)),
        }
    }
}

impl Future for Answering {
    type Output = Result<Bytes, Unanswered>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Err(why) => Poll::Ready(Err(*why)),
            Ok(answered) => Pin::new(answered)
                .poll(context)
                .map(|answered| answered.unwrap_or(Err(Unanswered::Lost))),
        }
    }
}

/// Starts the lane of requests to a peer; it ends with its connection, and a new one is started for the next request.
pub(crate) fn start(shared: &Arc<PortShared>, to: u64) -> mpsc::Sender<RelayedRequest> {
    let (sender, asked) = mpsc::channel(REQUESTS_MAX);
    let shared_task = Arc::clone(shared);
    shared.handle.spawn(async move {
        match dial(&shared_task, to, LinkPurpose::Requests).await {
            Ok(stream) => {
                let (reader, writer) = tokio::io::split(stream);
                converse(reader, writer, asked).await;
            }
            Err(error) => {
                tracing::debug!(peer = to, %error, "a peer is not reached");
                refuse_all(asked);
            }
        }
    });
    sender
}

fn refuse_all(mut asked: mpsc::Receiver<RelayedRequest>) {
    asked.close();
    while let Ok(RelayedRequest { answer, .. }) = asked.try_recv() {
        // Whoever asked may have gone.
        let _ = answer.send(Err(Unanswered::NotSent));
    }
}

async fn converse(
    mut reader: ReadHalf<TlsStream<TcpStream>>,
    mut writer: WriteHalf<TlsStream<TcpStream>>,
    mut asked: mpsc::Receiver<RelayedRequest>,
) {
    let mut open: HashMap<u64, oneshot::Sender<Result<Bytes, Unanswered>>> = HashMap::new();
    let (answers, mut answered) = mpsc::channel(REQUESTS_MAX);
    let reading = tokio::spawn(async move {
        let mut buffer = BytesMut::new();
        // An error is an end as well.
        while let Ok(Some((FrameKind::Answer, payload))) =
            frame::read(&mut reader, &mut buffer).await
        {
            if answers.send(payload).await.is_err() {
                return;
            }
        }
    });
    let mut number = 0_u64;
    let mut out = BytesMut::new();
    let ended: io::Result<()> = loop {
        tokio::select! {
            answer = answered.recv() => {
                let Some(mut answer) = answer else { break Ok(()) };
                let Ok(number) = answer.try_get_u64_le() else { break Ok(()) };
                if let Some(waits) = open.remove(&number) {
                    // Whoever asked may have gone.
                    let _ = waits.send(Ok(answer));
                }
            }
            next = asked.recv() => {
                let Some(mut next) = next else { break Ok(()) };
                loop {
                    number += 1;
                    frame::put(&mut out, FrameKind::Request, &[&number.to_le_bytes(), &next.request]);
                    open.insert(number, next.answer);
                    if out.len() >= WRITE_BYTES {
                        break;
                    }
                    let Ok(more) = asked.try_recv() else { break };
                    next = more;
                }
                if let Err(error) = write(&mut writer, &mut out).await {
                    break Err(error);
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a lane of requests ended");
    }
    reading.abort();
    refuse_all(asked);
    // The rest may have been seen: dropping their senders says so.
}
