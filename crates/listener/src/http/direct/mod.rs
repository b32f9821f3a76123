//! HTTP/1.1 as most clients speak it, with no library between the socket and the core.
//!
//! hyper spends more on the framing of a small request than the core does on its answer, and sends each
//! reply by itself however many requests came together (docs/decisions/0096-direct-http.md has the
//! figures). Here every request that came with one read is answered, and the replies leave with one write.
//!
//! Only what is plain is served here ([`find`]). Whatever else comes first, a framing header, a large body, HTTP/2,
//! bytes that are no request, is hyper's: the connection is handed over with every byte that was not
//! used, and stays there. So bad framing is judged in one place, which is not this one.
//!
//! A read of a secret that memory answers is served without making the types of an HTTP library first;
//! every other plain request goes the way that all others go, through [`HttpService::serve_whole`].
//!
//! Invariants:
//! - A request is answered here or none of its bytes was used: nothing is done twice.
//! - Input and replies are bounded by [`plain::INPUT_BYTES_MAX`] and [`REPLIES_BYTES`] (a reply may be longer).
//! - A connection that waits for a request holds no buffer: room to read into and room for replies is the
//!   worker's, and lent to whoever has its turn. One that does not take its replies holds what is left
//!   of them, and a share of what all may hold ([`crate::write_backpressure`]).
//! - Who was sent much waits for its turn before it is answered again.
//! - Reads pass the worker's gate by the handful; what else a client asks passes it as everybody's does.
//! - With an audit device, no byte of an answer is sent before its read was written down ([`HttpWire::settle`]).

#[cfg(any(test, feature = "fuzz"))]
mod beside_hyper;
mod plain;
mod reply;
mod wire;

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::http::request::Parts;
use jiff::Timestamp;
use kallisto_core::admission::Flow;
use kallisto_core::{
    AuditBatch, Operation, Path, Request as CoreRequest, Response, TokenText, is_for_operators,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

#[cfg(any(test, feature = "fuzz"))]
pub(super) use self::beside_hyper::check as check_beside_hyper;
#[cfg(any(test, feature = "fuzz"))]
pub(super) use self::plain::check;
use self::plain::{HEADERS_MAX, HeaderRoom, PlainHead, find};
use self::reply::{write_found, write_head, write_text};
use self::wire::{DirectFilled, HttpWire, PendingReply, REPLIES_BYTES};
use super::{HttpReply, HttpService, admit, error, response};
use crate::buffer_pool;
use crate::client_timeouts::Activity;
use crate::gate::GateClient;
use crate::stop;
use crate::turn_end::let_others_answer;
use crate::write_backpressure::WriteBackpressure;

/// Pieces of [`REPLIES_BYTES`] of a long reply that are encrypted and sent before others are served.
const PIECES_PER_TURN: usize = 4;
/// Reads that are answered before others get their turn, if others wait.
const READS_PER_PASS: usize = 16;
/// How often a request that has not come whole is looked at before it is hyper's.
const LOOKS_MAX: u32 = 16;

/// The other end of a connection.
pub(crate) struct WireClient {
    pub(crate) remote: SocketAddr,
    /// The certificates it presented.
    pub(crate) client_chain: Arc<[Vec<u8>]>,
    /// What its stream is told of its requests.
    pub(crate) activity: Arc<Activity>,
}

/// A connection on which the next request is not plain.
pub(crate) struct Handed<S> {
    pub(crate) stream: S,
    /// What was read and not used.
    pub(crate) read: Bytes,
}

/// Serves plain requests until the connection ends (`None`) or one comes that is not. How long a client may
/// take is the stream's to say (`client_timeouts`).
pub(crate) async fn serve<S>(
    stream: S,
    client: &WireClient,
    service: &HttpService,
    stopped: watch::Receiver<bool>,
) -> Option<Handed<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let flow = Flow::of_address(client.remote.ip());
    let unsent = WriteBackpressure::new(service.admission(), flow);
    let mut wire = HttpWire {
        service,
        remote: client.remote,
        stream,
        input: BytesMut::new(),
        has_come: false,
        replies: Vec::new(),
        gathered: AuditBatch::default(),
        held: Vec::new(),
        unsent,
    };
    let mut stop = Box::pin(stop::said(stopped));
    let mut looks = 0;
    loop {
        // What came while an answer was waited for is looked at before anything is waited for.
        let filled = match std::mem::take(&mut wire.has_come) {
            true => DirectFilled::More,
            false => wire.fill(stop.as_mut()).await,
        };
        match filled {
            DirectFilled::More => {}
            // What to say to a client that stops in the middle of a request is not for us to know.
            DirectFilled::End if !wire.input.is_empty() => return Some(wire.hand_over()),
            DirectFilled::End | DirectFilled::Over => return None,
        }
        let mut input = std::mem::take(&mut wire.input);
        wire.replies = buffer_pool::borrow();
        let mut turn = RequestTurn { service, client, flow, now: service.clock.now() };
        let (used, next) = turn.serve(&input, &mut wire).await.ok()?;
        if used < input.len() {
            input.advance(used);
            // Behind it comes what was read while an answer was waited for.
            input.extend_from_slice(&wire.input);
            wire.input = input;
        }
        if wire.gathered.is_empty() {
            let_others_answer(wire.replies.len()).await;
        }
        turn.send(&mut wire).await.ok()?;
        buffer_pool::give_back(std::mem::take(&mut wire.replies));
        looks += 1;
        if used > 0 {
            looks = 0;
            // The stream sees that something was asked, and counts its patience anew.
            drop(client.activity.begin());
        }
        if next == AfterRequests::HandOver || looks > LOOKS_MAX {
            return Some(wire.hand_over());
        }
    }
}

/// What comes after the requests that were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterRequests {
    /// More input.
    Read,
    /// A request that is not plain.
    HandOver,
}

/// What was taken off the front of the input.
enum TakenInput {
    /// A read that was answered, so many bytes long.
    Read(usize),
    /// A request for the service: its length, its head and its body.
    Request(usize, Box<Parts>, Bytes),
    /// A read of this flow that has to wait for its turn.
    Wait(GateClient, Flow),
    /// A part of a request.
    Part,
    /// Something that is not plain.
    Other,
}

/// Whether the next few reads may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GatePass {
    /// If the gate says so.
    Ask,
    /// Yes: they waited for it.
    Given,
    /// Not here: there was no place to wait in.
    Refused,
}

/// The requests that came with one read.
struct RequestTurn<'a> {
    service: &'a HttpService,
    client: &'a WireClient,
    /// Its address.
    flow: Flow,
    /// When what is answered next is judged: since whatever was waited for last.
    now: Timestamp,
}

impl RequestTurn<'_> {
    /// Answers the whole plain requests that `input` starts with; how many bytes they were.
    async fn serve<S>(
        &mut self,
        input: &[u8],
        wire: &mut HttpWire<'_, S>,
    ) -> io::Result<(usize, AfterRequests)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut used, mut reads, mut pass) = (0_usize, 0_usize, GatePass::Ask);
        while used < input.len() {
            // One pass is for a few reads, as it is for a few commands of the Redis protocol.
            if pass == GatePass::Ask && !reads.is_multiple_of(READS_PER_PASS) {
                pass = GatePass::Given;
            }
            match self.take(&input[used..], pass, wire) {
                TakenInput::Read(length) => {
                    used += length;
                    reads += 1;
                    pass = GatePass::Ask;
                }
                TakenInput::Wait(asker, flow) => {
                    self.send(wire).await?;
                    // Who waits holds no room.
                    buffer_pool::give_back(std::mem::take(&mut wire.replies));
                    // Boxed, so that the future of a connection that need not wait stays small.
                    let may = Box::pin(self.service.wait_to_read(asker, flow)).await;
                    pass = if may { GatePass::Given } else { GatePass::Refused };
                    wire.replies = buffer_pool::borrow();
                    self.now = self.service.clock.now();
                }
                TakenInput::Request(length, mut parts, body) => {
                    used += length;
                    pass = GatePass::Ask;
                    // What was read before it is written down before it.
                    wire.settle().await;
                    // Boxed, so that the future of a connection that only reads stays small.
                    Box::pin(self.serve_one(&mut parts, body, wire)).await?;
                    self.now = self.service.clock.now();
                }
                TakenInput::Part => return Ok((used, AfterRequests::Read)),
                TakenInput::Other => return Ok((used, AfterRequests::HandOver)),
            }
            if wire.has_many() {
                self.send(wire).await?;
                self.now = self.service.clock.now();
            }
        }
        Ok((used, AfterRequests::Read))
    }

    /// Sends the replies. Many or large ones took time that others wait for: whoever got them goes on when it is
    /// their turn again.
    async fn send<S>(&self, wire: &mut HttpWire<'_, S>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let bytes = wire.replies.len();
        wire.flush().await?;
        if bytes >= REPLIES_BYTES {
            Box::pin(self.service.settle(bytes, self.client.remote)).await;
        }
        Ok(())
    }

    /// Takes a request off the front of the input, and answers it if that needs no waiting.
    fn take<S>(&self, input: &[u8], pass: GatePass, wire: &mut HttpWire<'_, S>) -> TakenInput {
        let mut room: HeaderRoom<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let plain = match find(input, &mut room) {
            PlainHead::Plain(plain) => plain,
            PlainHead::Part => return TakenInput::Part,
            PlainHead::Other => return TakenInput::Other,
        };
        // Without a header to say so, its client is the peer.
        if let Some((path, token)) = plain.as_read()
            && self.service.forwarded.takes_peers()
        {
            let token = token.map(TokenText::new);
            let asker = admit::asker(self.flow, token);
            let may = match pass {
                GatePass::Ask => self.service.lets_read(asker),
                GatePass::Given => true,
                GatePass::Refused => false,
            };
            if may && self.read(path, token, plain.headers, wire) {
                return TakenInput::Read(plain.length);
            }
            if !may && pass == GatePass::Ask && !is_for_operators(path) {
                let core = &self.service.core;
                let flow = token.map_or(self.flow, |token| admit::known(core, self.flow, token));
                return TakenInput::Wait(asker, flow);
            }
        }
        match plain.to_parts() {
            Some(parts) => TakenInput::Request(
                plain.length,
                Box::new(parts),
                Bytes::copy_from_slice(plain.body),
            ),
            None => TakenInput::Other,
        }
    }

    /// Has the service answer. Replies that are there already do not wait for it.
    async fn serve_one<S>(
        &self,
        parts: &mut Parts,
        body: Bytes,
        wire: &mut HttpWire<'_, S>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let WireClient { remote, client_chain, activity } = self.client;
        let underway = activity.begin();
        // Pinned where it is made: a future that is moved takes its room twice.
        let mut serving =
            pin!(self.service.serve_whole(parts, body, *remote, client_chain, underway));
        let reply = match poll_fn(|cx| Poll::Ready(serving.as_mut().poll(cx))).await {
            Poll::Ready(reply) => reply,
            Poll::Pending => {
                wire.flush().await?;
                wire.unless_gone(serving).await?
            }
        };
        self.send_reply(reply, wire).await
    }

    /// Answers a read that memory answers; false when it is none, and nothing was done.
    fn read<S>(
        &self,
        path: &str,
        token: Option<TokenText<'_>>,
        headers: &[httparse::Header<'_>],
        wire: &mut HttpWire<'_, S>,
    ) -> bool {
        let sent = path;
        let Ok(path) = Path::decode(sent) else { return false };
        let begin = self.service.clock.instant();
        let request = CoreRequest {
            token,
            remote: Some(self.client.remote),
            client_chain: &self.client.client_chain,
            ..CoreRequest::new(Operation::Read, path, self.now)
        };
        let (gathered, start) = (wire.gathered.len(), wire.replies.len());
        let answer = self.service.core.read_fast(&request, &mut wire.gathered);
        let Some(answer) = answer else { return false };
        let (now, replies) = (self.now, &mut wire.replies);
        let status = match answer {
            Ok(Response::Logical(logical)) => {
                write_found(&logical, request.id, now, replies);
                StatusCode::OK
            }
            Ok(Response::Text { code: 200, content_type, body }) => {
                write_text(content_type, &body, now, replies);
                StatusCode::OK
            }
            Ok(other) => write_whole(response::render(other, request.id), now, replies),
            Err(refusal) => write_whole(error::render(&refusal), now, replies),
        };
        let observed = self.service.observe_read(sent, begin, &request, headers);
        if wire.gathered.len() > gathered {
            let range = start..wire.replies.len();
            wire.held.push(PendingReply { range, status, begin, observed });
        } else {
            if let Some(observed) = observed {
                observed.ended(status, self.client.remote);
            }
            self.service.count_reply(status);
            self.service.count_duration(begin);
        }
        true
    }

    /// Writes a reply, and sends one whose body is still being made as it comes.
    async fn send_reply<S>(&self, reply: HttpReply, wire: &mut HttpWire<'_, S>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match reply.body().size_hint().exact() {
            Some(bytes) if bytes <= REPLIES_BYTES as u64 => {
                write_whole(reply, self.now, &mut wire.replies);
                return Ok(());
            }
            Some(_) => return self.send_in_pieces(reply, wire).await,
            None => {}
        }
        write_head(&reply, self.now, &mut wire.replies);
        wire.flush().await?;
        let mut body = reply.into_body();
        // Who hangs up while there is nothing to send is noticed, however long that lasts.
        while let Some(frame) = wire.unless_gone(pin!(body.frame())).await? {
            // Without its last chunk the reply is no whole one, and the connection ends with it.
            let frame = frame.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))?;
            let Ok(data) = frame.into_data() else { continue };
            wire.replies.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            wire.replies.extend_from_slice(&data);
            wire.replies.extend_from_slice(b"\r\n");
            wire.flush().await?;
        }
        wire.replies.extend_from_slice(b"0\r\n\r\n");
        Ok(())
    }
}

impl RequestTurn<'_> {
    /// Sends a long reply whose body is there, a piece at a time: copying all of it at once would take long.
    async fn send_in_pieces<S>(
        &self,
        reply: HttpReply,
        wire: &mut HttpWire<'_, S>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        write_head(&reply, self.now, &mut wire.replies);
        let mut body = reply.into_body();
        if let Some(Ok(frame)) = body.frame().await
            && let Ok(data) = frame.into_data()
        {
            for (at, piece) in data.chunks(REPLIES_BYTES).enumerate() {
                if at % PIECES_PER_TURN == PIECES_PER_TURN - 1 {
                    tokio::task::yield_now().await;
                }
                wire.replies.extend_from_slice(piece);
                wire.flush().await?;
            }
        }
        Ok(())
    }
}

/// Writes a reply whose body is there.
fn write_whole(reply: HttpReply, now: Timestamp, replies: &mut Vec<u8>) -> StatusCode {
    let status = reply.status();
    write_head(&reply, now, replies);
    if let Some(Some(Ok(frame))) = now_or_never(reply.into_body().frame())
        && let Ok(data) = frame.into_data()
    {
        replies.extend_from_slice(&data);
    }
    status
}

fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
