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
//! every other plain request goes the way that all others go, through [`Service::call_whole`].
//!
//! Invariants:
//! - A request is answered here or none of its bytes was used: nothing is done twice.
//! - Input and replies are bounded by [`INPUT_BYTES_MAX`] and [`REPLIES_BYTES`] (a reply may be longer).
//! - A connection that waits for a request holds no buffer: room to read into and room for replies is the
//!   worker's, and lent to whoever has its turn.
//! - Reads pass the worker's gate by the handful; what else a client asks passes it as everybody's does.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Uri};
use jiff::Timestamp;
use kallisto_core::json::write_u64;
use kallisto_core::{
    BodyKind, Headers, Logical, Operation, Path, Request as Asked, RequestId, Response, TokenText,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use zeroize::Zeroize;

use super::{Reply, Service, error, response};
use crate::pace::Activity;

/// Bytes read at once, into room that all connections of a worker share.
const READ_BYTES: usize = 16 << 10;
/// Most bytes of input; a request that does not fit is hyper's.
const INPUT_BYTES_MAX: usize = 32 << 10;
/// Bytes of replies that are sent although more requests wait.
const REPLIES_BYTES: usize = 64 << 10;
/// Room for replies that a worker keeps for the connection that is next.
const SPARE_BYTES_MAX: usize = 2 * REPLIES_BYTES;
/// Header fields of a plain request.
const HEADERS_MAX: usize = 32;
/// Largest body of a plain request: larger ones have to take their share of a budget.
const BODY_BYTES_MAX: usize = 16 << 10;
/// Reads that are answered before others get their turn, if others wait.
const READS_PER_PASS: usize = 16;
/// Where bodies are files, which are taken as they come.
const FILES: &str = "/v1/sys/storage/raft/snapshot";
/// How often a request that has not come whole is looked at before it is hyper's.
const LOOKS_MAX: u32 = 16;

const _: () = assert!(BODY_BYTES_MAX < INPUT_BYTES_MAX);

/// What the input starts with.
#[derive(Debug)]
pub(super) enum Found<'h, 'b> {
    /// A whole plain request.
    Plain(Plain<'h, 'b>),
    /// A part of what may become one.
    Part,
    /// Something that is not served here.
    Other,
}

/// A request that has no say in its framing but the length of its body.
#[derive(Debug)]
pub(super) struct Plain<'h, 'b> {
    method: &'b str,
    target: &'b str,
    headers: &'h [httparse::Header<'b>],
    body: &'b [u8],
    /// Bytes of the whole request.
    length: usize,
    token: Option<&'b [u8]>,
    /// No header means anything but for the token.
    is_simple: bool,
}

/// Room for the headers of one request.
type Room<'b> = [MaybeUninit<httparse::Header<'b>>; HEADERS_MAX];

/// What a header is to whoever frames and reads a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Token,
    Length,
    /// Says how the connection or the body is framed, or asks for what is not done here.
    Framing,
    /// None for a read.
    Nothing,
    /// Something to the service.
    Other,
}

fn meaning(header: &httparse::Header<'_>) -> Meaning {
    let is = |name: &str| header.name.eq_ignore_ascii_case(name);
    match header.name.len() {
        2 if is("te") => Meaning::Framing,
        4 if is("host") => Meaning::Nothing,
        6 if is("expect") => Meaning::Framing,
        6 if is("accept") => Meaning::Nothing,
        7 if is("upgrade") || is("trailer") => Meaning::Framing,
        10 if is("connection") => {
            // What every connection is by itself.
            let stays = header.value.eq_ignore_ascii_case(b"keep-alive");
            if stays { Meaning::Nothing } else { Meaning::Framing }
        }
        10 if is("user-agent") => Meaning::Nothing,
        12 if is("content-type") => Meaning::Nothing,
        13 if is("x-vault-token") => Meaning::Token,
        14 if is("content-length") => Meaning::Length,
        14 if is("http2-settings") => Meaning::Framing,
        15 if is("accept-encoding") || is("accept-language") || is("x-vault-request") => {
            Meaning::Nothing
        }
        16 if is("content-encoding") || is("proxy-connection") => Meaning::Framing,
        17 if is("transfer-encoding") => Meaning::Framing,
        _ => Meaning::Other,
    }
}

/// Looks at what `input` starts with.
pub(super) fn find<'h, 'b>(input: &'b [u8], room: &'h mut Room<'b>) -> Found<'h, 'b> {
    let mut request = httparse::Request::new(&mut []);
    let head = match request.parse_with_uninit_headers(input, room) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() < INPUT_BYTES_MAX => return Found::Part,
        Ok(httparse::Status::Partial) | Err(_) => return Found::Other,
    };
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version)
    else {
        return Found::Other;
    };
    let is_ours = target.starts_with('/') && !target.starts_with(FILES);
    if !is_ours || matches!(method, "HEAD" | "CONNECT") {
        return Found::Other;
    }
    let headers: &'h [httparse::Header<'b>] = request.headers;
    let (mut token, mut body, mut is_simple) = (None, None, true);
    for header in headers {
        match meaning(header) {
            Meaning::Framing => return Found::Other,
            Meaning::Nothing => {}
            Meaning::Token if token.is_none() => token = Some(header.value),
            Meaning::Length if body.is_none() => match length(header.value) {
                Some(bytes) => body = Some(bytes),
                None => return Found::Other,
            },
            Meaning::Length => return Found::Other,
            Meaning::Token | Meaning::Other => is_simple = false,
        }
    }
    let length = head + body.unwrap_or_default();
    match input.get(head..length) {
        Some(body) => {
            Found::Plain(Plain { method, target, headers, body, length, token, is_simple })
        }
        // A body has a time of its own to come in.
        None => Found::Other,
    }
}

/// A length in digits and nothing else, of a body that is small.
fn length(digits: &[u8]) -> Option<usize> {
    // No small body has a longer one.
    const DIGITS_MAX: usize = 6;
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let bytes = digits.iter().try_fold(0, |sum: usize, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + usize::from(digit - b'0'))
    });
    bytes.filter(|&bytes| bytes <= BODY_BYTES_MAX)
}

impl<'b> Plain<'_, 'b> {
    /// Path and token of a read that asks for nothing else.
    fn as_read(&self) -> Option<(&'b str, &'b str)> {
        let is_read = self.is_simple && self.method == "GET" && self.body.is_empty();
        let path = self.target.strip_prefix("/v1/").filter(|_| is_read)?;
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.');
        let token = self.token.filter(|token| token.iter().all(u8::is_ascii_graphic))?;
        let token = std::str::from_utf8(token).ok().filter(|token| !token.is_empty())?;
        let is_clean = path.bytes().all(is_plain) && !self.target.contains("//");
        is_clean.then_some((path, token))
    }

    /// The head in the types of the HTTP library; `None` for what it does not take.
    fn to_parts(&self) -> Option<Parts> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = Method::from_bytes(self.method.as_bytes()).ok()?;
        parts.uri = Uri::try_from(self.target).ok()?;
        parts.headers.reserve(self.headers.len());
        for header in self.headers {
            let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
            parts.headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
        }
        Some(parts)
    }
}

/// The other end of a connection.
pub(crate) struct Client {
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
/// take is the stream's to say (`pace`).
pub(crate) async fn serve<S>(
    stream: S,
    client: &Client,
    service: &Service,
    stopped: watch::Receiver<bool>,
) -> Option<Handed<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut wire = Wire { stream, input: BytesMut::new(), replies: Vec::new() };
    let mut stop = Box::pin(stop_said(stopped));
    let mut looks = 0;
    loop {
        match wire.fill(stop.as_mut()).await {
            Filled::More => {}
            // What to say to a client that stops in the middle of a request is not for us to know.
            Filled::End if !wire.input.is_empty() => return Some(wire.hand_over()),
            Filled::End | Filled::Over => return None,
        }
        let mut input = std::mem::take(&mut wire.input);
        wire.borrow_room();
        let turn = Turn { service, client, now: service.clock.now() };
        let (used, next) = turn.answer(&input, &mut wire).await.ok()?;
        if used < input.len() {
            input.advance(used);
            wire.input = input;
        }
        wire.flush().await.ok()?;
        wire.return_room();
        looks += 1;
        if used > 0 {
            looks = 0;
            // The stream sees that something was asked, and counts its patience anew.
            drop(client.activity.begin());
        }
        if next == Next::HandOver || looks > LOOKS_MAX {
            return Some(wire.hand_over());
        }
    }
}

/// Resolves when the server stops; never when nobody can say so.
async fn stop_said(mut stopped: watch::Receiver<bool>) {
    if stopped.wait_for(|&stop| stop).await.is_err() {
        std::future::pending().await
    }
}

thread_local! {
    /// Room for replies that no connection of this worker uses now.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Empties room that others will use: what was in it is nobody else's.
fn wipe(room: &mut Vec<u8>) {
    room.as_mut_slice().zeroize();
    room.clear();
}

/// What comes after the requests that were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// More input.
    Read,
    /// A request that is not plain.
    HandOver,
}

/// What came of waiting for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    More,
    /// The client says no more.
    End,
    /// The connection broke, its client was too slow, or the server stops.
    Over,
}

/// A connection's stream, and what came in and goes out.
struct Wire<S> {
    stream: S,
    input: BytesMut,
    replies: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    fn hand_over(self) -> Handed<S> {
        Handed { stream: self.stream, read: self.input.freeze() }
    }

    /// Reads once.
    async fn fill(&mut self, mut stop: Pin<&mut impl Future<Output = ()>>) -> Filled {
        poll_fn(|cx| {
            let read = self.poll_read(cx);
            if read.is_ready() {
                return read;
            }
            stop.as_mut().poll(cx).map(|()| Filled::Over)
        })
        .await
    }

    /// Reads into the worker's room, and takes what came.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Filled> {
        thread_local! {
            static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
        }
        ROOM.with_borrow_mut(|room| {
            let mut buffer = ReadBuf::new(room);
            Pin::new(&mut self.stream).poll_read(cx, &mut buffer).map(|read| {
                let came = buffer.filled_mut();
                self.input.extend_from_slice(came);
                let filled = match read {
                    Ok(()) if came.is_empty() => Filled::End,
                    Ok(()) => Filled::More,
                    Err(_) => Filled::Over,
                };
                // It held a token, and perhaps a secret.
                came.zeroize();
                filled
            })
        })
    }

    /// Takes the room for replies that the worker has to spare.
    fn borrow_room(&mut self) {
        self.replies = SPARE.take();
    }

    /// Gives it back, with nothing in it.
    fn return_room(&mut self) {
        let room = std::mem::take(&mut self.replies);
        assert!(room.is_empty(), "replies are sent before their room is given back");
        if room.capacity() <= SPARE_BYTES_MAX {
            SPARE.set(room);
        }
    }

    /// Sends the replies.
    async fn flush(&mut self) -> io::Result<()> {
        if self.replies.is_empty() {
            return Ok(());
        }
        self.stream.write_all(&self.replies).await?;
        self.stream.flush().await?;
        wipe(&mut self.replies);
        Ok(())
    }
}

/// What was taken off the front of the input.
enum Taken {
    /// A read that was answered, so many bytes long.
    Read(usize),
    /// A request for the service: its length, its head and its body.
    Request(usize, Box<Parts>, Bytes),
    /// A part of a request.
    Part,
    /// Something that is not plain.
    Other,
}

/// The requests that came with one read.
struct Turn<'a> {
    service: &'a Service,
    client: &'a Client,
    now: Timestamp,
}

impl Turn<'_> {
    /// Answers the whole plain requests that `input` starts with; how many bytes they were.
    async fn answer<S>(&self, input: &[u8], wire: &mut Wire<S>) -> io::Result<(usize, Next)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut used, mut reads) = (0, 0);
        while used < input.len() {
            match self.take(&input[used..], reads, &mut wire.replies) {
                Taken::Read(length) => {
                    used += length;
                    reads += 1;
                }
                Taken::Request(length, parts, body) => {
                    used += length;
                    // Boxed, so that the future of a connection that only reads stays small.
                    Box::pin(self.ask(&parts, body, wire)).await?;
                }
                Taken::Part => return Ok((used, Next::Read)),
                Taken::Other => return Ok((used, Next::HandOver)),
            }
            if wire.replies.len() >= REPLIES_BYTES {
                wire.flush().await?;
            }
        }
        Ok((used, Next::Read))
    }

    /// Takes a request off the front of the input, and answers it if that needs no waiting. `reads` were
    /// answered before it in this turn.
    fn take(&self, input: &[u8], reads: usize, replies: &mut Vec<u8>) -> Taken {
        let mut room: Room<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let plain = match find(input, &mut room) {
            Found::Plain(plain) => plain,
            Found::Part => return Taken::Part,
            Found::Other => return Taken::Other,
        };
        if let Some((path, token)) = plain.as_read() {
            // One pass is for a few reads, as it is for a few commands of the Redis protocol.
            let may = !reads.is_multiple_of(READS_PER_PASS) || self.service.lets_read();
            if may && self.read(path, token, replies) {
                return Taken::Read(plain.length);
            }
        }
        match plain.to_parts() {
            Some(parts) => {
                Taken::Request(plain.length, Box::new(parts), Bytes::copy_from_slice(plain.body))
            }
            None => Taken::Other,
        }
    }

    /// Has the service answer. Replies that are there already do not wait for it.
    async fn ask<S>(&self, parts: &Parts, body: Bytes, wire: &mut Wire<S>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Client { remote, client_chain, activity } = self.client;
        let underway = activity.begin();
        let answering = self.service.call_whole(parts, body, *remote, client_chain, underway);
        let mut answering = pin!(answering);
        let reply = match poll_fn(|cx| Poll::Ready(answering.as_mut().poll(cx))).await {
            Poll::Ready(reply) => reply,
            Poll::Pending => {
                wire.flush().await?;
                answering.await
            }
        };
        self.send_reply(reply, wire).await
    }

    /// Answers a read that memory answers; false when it is none, and nothing was done.
    fn read(&self, path: &str, token: &str, replies: &mut Vec<u8>) -> bool {
        let Ok(path) = Path::decode(path) else { return false };
        let begin = self.service.clock.instant();
        let request = Asked {
            id: RequestId::make(),
            operation: Operation::Read,
            path,
            namespace: "",
            token: Some(TokenText::new(token)),
            query: Vec::new(),
            body: b"",
            body_kind: BodyKind::Json,
            wrap_ttl_secs: 0,
            now: self.now,
            remote: Some(self.client.remote),
            client_chain: &self.client.client_chain,
            headers: Headers::default(),
        };
        let Some(answer) = self.service.core.read_at_once(&request) else { return false };
        let status = match answer {
            Ok(Response::Logical(logical)) => {
                write_found(&logical, request.id, self.now, replies);
                StatusCode::OK
            }
            Ok(other) => self.write_whole(response::render(other, request.id), replies),
            Err(refusal) => self.write_whole(error::render(&refusal), replies),
        };
        self.service.count_reply(status);
        self.service.count_duration(begin);
        true
    }

    /// Writes a reply whose body is there.
    fn write_whole(&self, reply: Reply, replies: &mut Vec<u8>) -> StatusCode {
        let status = reply.status();
        write_head(&reply, self.now, replies);
        if let Some(Some(Ok(frame))) = now_or_never(reply.into_body().frame())
            && let Ok(data) = frame.into_data()
        {
            replies.extend_from_slice(&data);
        }
        status
    }

    /// Writes a reply, and sends one whose body is still being made as it comes.
    async fn send_reply<S>(&self, reply: Reply, wire: &mut Wire<S>) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if reply.body().size_hint().exact().is_some() {
            self.write_whole(reply, &mut wire.replies);
            return Ok(());
        }
        write_head(&reply, self.now, &mut wire.replies);
        let mut body = reply.into_body();
        while let Some(Ok(frame)) = body.frame().await {
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

fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// The head and body of a read that found something: what [`response::render`] would say.
fn write_found(logical: &Logical, id: RequestId, now: Timestamp, out: &mut Vec<u8>) {
    thread_local! {
        static BODY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BODY.with_borrow_mut(|body| {
        body.clear();
        response::write_envelope(logical, id, b"", body);
        out.reserve(body.len() + HEAD_BYTES_USUAL);
        out.extend_from_slice(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\n\
            strict-transport-security: max-age=31536000; includeSubDomains\r\n",
        );
        if let Some(etag) = logical.etag {
            out.extend_from_slice(b"etag: ");
            etag.write(out);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(index) = logical.index {
            out.extend_from_slice(b"x-kallisto-index: ");
            write_u64(index, out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"content-length: ");
        write_u64(body.len() as u64, out);
        write_date(now, out);
        out.extend_from_slice(body);
        wipe(body);
    });
}

/// Bytes of a reply's head, as most have it.
const HEAD_BYTES_USUAL: usize = 320;

/// Status line and headers, up to and with the empty line.
fn write_head(reply: &Reply, now: Timestamp, out: &mut Vec<u8>) {
    let status = reply.status();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in reply.headers() {
        // How long a body is says its framing.
        if name != CONTENT_LENGTH && name != TRANSFER_ENCODING {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    match reply.body().size_hint().exact() {
        Some(length) if has_body => {
            out.extend_from_slice(b"content-length: ");
            write_u64(length, out);
        }
        Some(_) => {
            // What went before ends with its line.
            out.truncate(out.len() - 2);
        }
        None => out.extend_from_slice(b"transfer-encoding: chunked"),
    }
    write_date(now, out);
}

/// The date, and the end of the head. What stands before has no end of line yet.
fn write_date(now: Timestamp, out: &mut Vec<u8>) {
    thread_local! {
        static DATE: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    out.extend_from_slice(b"\r\ndate: ");
    DATE.with_borrow_mut(|(second, text)| {
        if *second != now.as_second() {
            *second = now.as_second();
            *text = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        }
        out.extend_from_slice(text.as_bytes());
    });
    out.extend_from_slice(b"\r\n\r\n");
}

/// What holds of any bytes: requests lie within them, a part of one is never a whole one, and what is
/// taken for a read is what the HTTP library would read too.
pub(super) fn check(bytes: &[u8]) {
    // Cuts looked at of each request.
    const CUTS_MAX: usize = 256;
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut room: Room<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let Found::Plain(plain) = find(rest, &mut room) else { return };
        assert!(plain.length > plain.body.len() && plain.length <= rest.len());
        assert!(plain.body.len() <= BODY_BYTES_MAX);
        if let Some((path, token)) = plain.as_read() {
            let parts = plain.to_parts().expect("a read has a method and path of letters");
            assert_eq!(parts.uri.path(), plain.target);
            assert_eq!(parts.uri.query(), None);
            assert!(parts.uri.path().ends_with(path));
            let first = parts.headers.get("x-vault-token").expect("a read has a token");
            assert_eq!(first.to_str().ok(), Some(token));
        }
        for cut in 0..plain.length.min(CUTS_MAX) {
            let mut room: Room<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
            let found = find(&rest[..cut], &mut room);
            let is_head = cut < plain.length - plain.body.len();
            assert_eq!(matches!(found, Found::Part), is_head, "{cut}");
            assert_eq!(matches!(found, Found::Other), !is_head, "{cut}");
        }
        rest = &rest[plain.length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(input: &[u8]) -> &'static str {
        let mut room: Room<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        check(input);
        match find(input, &mut room) {
            Found::Plain(plain) if plain.as_read().is_some() => "read",
            Found::Plain(_) => "plain",
            Found::Part => "part",
            Found::Other => "other",
        }
    }

    #[test]
    fn only_what_says_nothing_of_its_framing_is_plain() {
        let get = |headers: &str| {
            format!(
                "GET /v1/secret/data/a HTTP/1.1\r\nHost: h\r\nX-Vault-Token: t\r\n{headers}\r\n"
            )
        };
        for (headers, expected) in [
            ("", "read"),
            ("Connection: Keep-Alive\r\nAccept: */*\r\n", "read"),
            ("Content-Length: 0\r\n", "read"),
            ("X-Vault-Namespace: a\r\n", "plain"),
            ("X-Vault-Token: u\r\n", "plain"),
            ("Content-Length: 1\r\n", "other"),
            ("Connection: close\r\n", "other"),
            ("Transfer-Encoding: chunked\r\n", "other"),
            ("Transfer-Encoding: identity\r\n", "other"),
            ("Content-Length: 0\r\nContent-Length: 0\r\n", "other"),
            ("Content-Length: +1\r\n", "other"),
            ("Content-Length: 0x1\r\n", "other"),
            ("Content-Length: 16385\r\n", "other"),
            ("Content-Length:\r\n", "other"),
            ("Expect: 100-continue\r\n", "other"),
            ("Upgrade: h2c\r\n", "other"),
            ("A: b\r\n c\r\n", "other"),
            ("A : b\r\n", "other"),
        ] {
            assert_eq!(kind(get(headers).as_bytes()), expected, "{headers}");
        }
        for (line, expected) in [
            ("GET /v1/a?list=true HTTP/1.1", "plain"),
            ("GET /v1/a%20b HTTP/1.1", "plain"),
            ("GET /v1//a HTTP/1.1", "plain"),
            ("GET /ui/ HTTP/1.1", "plain"),
            ("POST /v1/a HTTP/1.1", "plain"),
            ("HEAD /v1/a HTTP/1.1", "other"),
            ("GET http://h/v1/a HTTP/1.1", "other"),
            ("GET /v1/a HTTP/1.0", "other"),
            ("PRI * HTTP/2.0", "other"),
            ("GET /v1/a", "other"),
        ] {
            assert_eq!(kind(format!("{line}\r\nX-Vault-Token: t\r\n\r\n").as_bytes()), expected);
        }
    }

    #[test]
    fn bodies_belong_to_their_requests() {
        let post = b"POST /v1/a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /";
        let mut room: Room<'_> = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let Found::Plain(plain) = find(post, &mut room) else { panic!("a plain request") };
        assert_eq!((plain.body, plain.length), (b"abc".as_slice(), post.len() - 5));
    }
}
