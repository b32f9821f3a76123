//! Requests that another server answers: a follower relays what belongs to the leader.
//!
//! The whole request travels, as it came, to be handled by the leader under the same limits; so does the address it
//! came from. While nobody leads, it waits, for at most [`WAIT_MAX`]: a client sees latency and not an error. Once nobody has led for
//! that long and no majority of the voters was heard in that time, to wait would be in vain, and it is refused at once. What may
//! have been seen by a leader that died is not sent again unless it only reads.
//!
//! ```text
//! request := format u8 (1) | method length u8 | method | target length u16 | target | address length u8 | address
//!            | headers u8 | (name length u8 | name | value length u16 | value)*
//!            | certificates u8 | (length u16 | DER)* | body        the chain that the client showed, first its own
//! answer  := format u8 (1) | status u16 | headers u8 | (name length u8 | name | value length u16 | value)* | body
//! ```
//!
//! Integers are little-endian. A status of 0 says that the server asked does not lead. Both decoders are total.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http_body_util::BodyExt;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Uri};
use kallisto_core::limits::BODY_BYTES_MAX;
use kallisto_traces::{PARENT_HEADER, STATE_HEADER, TraceContext};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{HttpReply, ReplyBody, response};
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX};

/// How long a request waits for somebody to lead, and for its answer.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long it leaves a leader's answer alone.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(60);
/// How long an answer to what only reads is waited for once the server that was asked leads no more: another can be
/// asked. It may be making a credential, which takes about a second.
pub(super) const READ_GRACE: Duration = Duration::from_secs(3);
/// The same for what writes: a leader that lost its place says within this time what became of it.
pub(super) const WRITE_GRACE: Duration = Duration::from_secs(10);
/// How long it waits at the most, without news of who leads, before it tries again where nobody answered.
pub(super) const NEWS_MAX: Duration = Duration::from_millis(50);
/// How long before it asks a leader again that did not know yet that it leads.
pub(super) const AGAIN_PAUSE: Duration = Duration::from_millis(2);
const FORMAT: u8 = 1;
/// The status that says "not me".
const NOT_LEADER: u16 = 0;
/// The longest address of a client, in bytes.
const ADDRESS_BYTES_MAX: usize = 64;

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leader {
    /// This server does.
    Here,
    /// Another does: its number.
    There(u64),
    /// Nobody does for now.
    Nobody,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrelayed {
    /// The other server has not seen the request.
    NotSent,
    /// It may have.
    Lost,
}

/// How a server reaches the one that leads.
pub trait Relay: Send + Sync {
    /// Who leads, as far as this server knows.
    fn leader(&self) -> Leader;

    /// How long nobody has led; `None` while somebody does.
    fn leaderless(&self) -> Option<Duration>;

    /// The URL of a server's API; empty if it says none.
    fn api_address(&self, id: u64) -> String;

    /// Changes whenever [`Relay::leader`] does.
    fn news(&self) -> watch::Receiver<()>;

    /// Sends an encoded request to a server.
    fn send(
        &self,
        to: u64,
        request: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, Unrelayed>> + Send>>;
}

/// A request that came over the cluster port.
pub(super) struct Relayed {
    pub(super) head: Parts,
    /// The certificates that the client showed.
    pub(super) chain: Vec<Vec<u8>>,
    pub(super) body: Bytes,
    pub(super) remote: SocketAddr,
}

/// Returns when somebody else leads than when `news` was last looked at, and after `patience` at the latest.
pub(super) async fn wait(news: &mut watch::Receiver<()>, patience: Duration) {
    let heard = tokio::time::timeout(patience, news.changed()).await;
    if let Ok(Err(_)) = heard {
        // There will be no news any more.
        tokio::time::sleep(patience).await;
    }
}

/// The answer of a server that is asked because it leads. Once it leads no more, it is waited for only `grace` longer: a server that is
/// paused keeps its connections, and says nothing.
pub(super) async fn answer_of(
    relay: &dyn Relay,
    asked: u64,
    answering: impl Future<Output = Result<Bytes, Unrelayed>>,
    grace: Duration,
) -> Result<RelayedReply, NoAnswer> {
    let mut news = relay.news();
    let given_up = async {
        let mut until = None;
        loop {
            news.mark_unchanged();
            until = match relay.leader() == Leader::There(asked) {
                true => None,
                false => until.or_else(|| Some(Instant::now() + grace)),
            };
            let changed = async {
                if news.changed().await.is_err() {
                    // There will be no news any more.
                    std::future::pending().await
                }
            };
            match until {
                None => changed.await,
                Some(until) if tokio::time::timeout_at(until, changed).await.is_err() => return,
                Some(_) => {}
            }
        }
    };
    tokio::select! {
        answered = tokio::time::timeout(ANSWER_MAX, answering) => match answered {
            // One that cannot be read answers a request that was served all the same.
            Ok(Ok(answer)) => decode_reply(&answer).ok_or(NoAnswer::Lost),
            Ok(Err(Unrelayed::NotSent)) => Err(NoAnswer::NotSent),
            Ok(Err(Unrelayed::Lost)) => Err(NoAnswer::Lost),
            Err(_) => Err(NoAnswer::Late),
        },
        () = given_up => Err(NoAnswer::Lost),
    }
}

/// Why a server that was asked did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// It has not seen the request.
    NotSent,
    /// It may have, and will not say.
    Lost,
    /// It leads, and takes longer than [`ANSWER_MAX`].
    Late,
}

/// What an answer says.
pub(super) enum RelayedReply {
    NotLeader,
    Reply(HttpReply),
}

/// A request as it travels; `None` if it is over what the layout holds, which the listener's limits do not let happen.
/// Its place in a trace is `trace`, where that is given, and what it came with otherwise.
pub(super) fn encode(
    head: &Parts,
    chain: &[Vec<u8>],
    body: &[u8],
    remote: SocketAddr,
    trace: Option<&TraceContext>,
) -> Option<Bytes> {
    let target = head.uri.path_and_query()?.as_str().as_bytes();
    let mut out = Vec::with_capacity(256 + target.len() + body.len());
    out.push(FORMAT);
    put_short(&mut out, head.method.as_str().as_bytes())?;
    put_long(&mut out, target)?;
    put_short(&mut out, remote.to_string().as_bytes())?;
    match trace {
        None => put_headers(&mut out, &head.headers)?,
        Some(trace) => put_headers(&mut out, &traced(&head.headers, trace))?,
    }
    out.push(u8::try_from(chain.len()).ok()?);
    for certificate in chain {
        put_long(&mut out, certificate)?;
    }
    out.extend_from_slice(body);
    Some(out.into())
}

/// The request in `bytes`; `None` if they are none.
pub(super) fn decode(bytes: &Bytes) -> Option<Relayed> {
    let mut rest = bytes.clone();
    if rest.try_get_u8().ok()? != FORMAT {
        return None;
    }
    let method = Method::from_bytes(&take_short(&mut rest)?).ok()?;
    let target = take_long(&mut rest, HEAD_BYTES_MAX)?;
    let uri = Uri::try_from(&target[..]).ok().filter(|uri| uri.path().starts_with('/'))?;
    let address = take_short(&mut rest).filter(|text| text.len() <= ADDRESS_BYTES_MAX)?;
    let remote = std::str::from_utf8(&address).ok()?.parse().ok()?;
    let mut head = Request::builder().method(method).uri(uri).body(()).ok()?.into_parts().0;
    read_headers(&mut rest, &mut head.headers)?;
    let count = usize::from(rest.try_get_u8().ok()?);
    let chain = (0..count)
        .map(|_| take_long(&mut rest, usize::from(u16::MAX)).map(|der| der.to_vec()))
        .collect::<Option<Vec<_>>>()?;
    (rest.len() <= BODY_BYTES_MAX).then_some(Relayed { head, chain, body: rest, remote })
}

/// An answer as it travels.
pub(super) async fn encode_reply(reply: HttpReply) -> Bytes {
    let (head, body) = reply.into_parts();
    // A body in memory cannot fail.
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut out = Vec::with_capacity(256 + body.len());
    out.push(FORMAT);
    out.put_u16_le(head.status.as_u16());
    if put_headers(&mut out, &head.headers).is_none() {
        out.truncate(3);
        out.push(0);
    }
    out.extend_from_slice(&body);
    out.into()
}

/// The answer of a server that does not lead.
pub(super) fn not_leader() -> Bytes {
    let mut out = vec![FORMAT];
    out.put_u16_le(NOT_LEADER);
    out.push(0);
    out.into()
}

/// The answer in `bytes`; `None` if they are none.
pub(super) fn decode_reply(bytes: &Bytes) -> Option<RelayedReply> {
    let mut rest = bytes.clone();
    if rest.try_get_u8().ok()? != FORMAT {
        return None;
    }
    let status = rest.try_get_u16_le().ok()?;
    if status == NOT_LEADER {
        return Some(RelayedReply::NotLeader);
    }
    let mut reply = Response::new(ReplyBody::empty());
    *reply.status_mut() = StatusCode::from_u16(status).ok()?;
    read_headers(&mut rest, reply.headers_mut())?;
    // A leader of 0.2.0 sends one with a status that has none.
    *reply.body_mut() = response::body_of(reply.status(), rest);
    Some(RelayedReply::Reply(reply))
}

/// The headers of a request with its place in a trace, unless there are as many as a request may have.
fn traced(headers: &hyper::HeaderMap, trace: &TraceContext) -> hyper::HeaderMap {
    let mut all = headers.clone();
    all.remove(PARENT_HEADER);
    all.remove(STATE_HEADER);
    let mut put = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value)
            && all.len() < HEADERS_MAX
        {
            all.insert(HeaderName::from_static(name), value);
        }
    };
    put(PARENT_HEADER, &trace.to_parent());
    if let Some(state) = &trace.state {
        put(STATE_HEADER, state);
    }
    all
}

fn put_headers(out: &mut Vec<u8>, headers: &hyper::HeaderMap) -> Option<()> {
    out.push(u8::try_from(headers.len()).ok()?);
    for (name, value) in headers {
        put_short(out, name.as_str().as_bytes())?;
        put_long(out, value.as_bytes())?;
    }
    Some(())
}

fn read_headers(rest: &mut Bytes, headers: &mut hyper::HeaderMap) -> Option<()> {
    let count = usize::from(rest.try_get_u8().ok()?);
    if count > HEADERS_MAX {
        return None;
    }
    for _ in 0..count {
        let name = HeaderName::from_bytes(&take_short(rest)?).ok()?;
        let value = HeaderValue::from_bytes(&take_long(rest, HEAD_BYTES_MAX)?).ok()?;
        headers.append(name, value);
    }
    Some(())
}

fn put_short(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    out.push(u8::try_from(bytes.len()).ok()?);
    out.extend_from_slice(bytes);
    Some(())
}

fn put_long(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    out.put_u16_le(u16::try_from(bytes.len()).ok()?);
    out.extend_from_slice(bytes);
    Some(())
}

fn take_short(rest: &mut Bytes) -> Option<Bytes> {
    let len = usize::from(rest.try_get_u8().ok()?);
    (len <= rest.len()).then(|| rest.split_to(len))
}

fn take_long(rest: &mut Bytes, bytes_max: usize) -> Option<Bytes> {
    let len = usize::from(rest.try_get_u16_le().ok()?);
    (len <= rest.len() && len <= bytes_max).then(|| rest.split_to(len))
}

/// Decodes whatever it is given as a request and as an answer: a target of the fuzzers.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn check(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Some(relayed) = decode(&bytes) {
        let again = encode(&relayed.head, &relayed.chain, &relayed.body, relayed.remote, None);
        let again = again.as_ref().and_then(decode);
        assert!(again.is_some_and(|again| again.body == relayed.body
            && again.chain == relayed.chain
            && again.head.uri == relayed.head.uri
            && again.head.headers == relayed.head.headers));
    }
    let _ = decode_reply(&bytes);
}

#[cfg(test)]
mod tests {
    use hyper::body::Body;

    use super::*;

    #[test]
    fn a_request_comes_back_byte_for_byte() {
        let target = "/v1/secret/data/a%20b%26c%3Dd%25%2F?list=true&x=a+b%26";
        let head = Request::builder()
            .method("LIST")
            .uri(target)
            .header("X-Vault-Token", "t")
            .header("x-multi", "1")
            .header("x-multi", "two words & = % /")
            .body(())
            .unwrap()
            .into_parts()
            .0;
        let remote = "[::1]:8200".parse().unwrap();
        let chain = [b"leaf".to_vec(), b"issuer".to_vec()];
        let body = b"{\"k\":\"a b&c=d%e/f\"}";
        let bytes = encode(&head, &chain, body, remote, None).unwrap();
        let relayed = decode(&bytes).unwrap();
        assert_eq!(relayed.head.uri, target);
        assert_eq!(relayed.chain, chain);
        assert_eq!(relayed.head.method, "LIST");
        assert_eq!(relayed.head.headers, head.headers);
        assert_eq!((relayed.remote, &relayed.body[..]), (remote, &b"{\"k\":\"a b&c=d%e/f\"}"[..]));
        for cut in 0..bytes.len() - relayed.body.len() {
            assert!(decode(&bytes.slice(..cut)).is_none());
        }
    }

    #[test]
    fn a_request_travels_with_its_place_in_a_trace() {
        let sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let head = |filled: usize| {
            let mut builder =
                Request::builder().uri("/v1/a").header(PARENT_HEADER, "what was sent");
            builder = builder.header(STATE_HEADER, "k=old").header(STATE_HEADER, "and more");
            for at in 0..filled {
                builder = builder.header(format!("x-{at}"), "v");
            }
            builder.body(()).unwrap().into_parts().0
        };
        let remote = "[::1]:8200".parse().unwrap();
        let relayed = |filled, state: Option<&str>| {
            let states = state.map(str::as_bytes);
            let context = TraceContext::parse(sent.as_bytes(), states).unwrap();
            let bytes = encode(&head(filled), &[], b"", remote, Some(&context)).unwrap();
            decode(&bytes).unwrap().head.headers
        };
        let headers = relayed(3, Some("k=new"));
        let parent = headers.get(PARENT_HEADER).map(HeaderValue::as_bytes);
        assert_eq!((headers.len(), parent), (5, Some(sent.as_bytes())));
        assert_eq!(headers.get_all(STATE_HEADER).iter().collect::<Vec<_>>(), ["k=new"]);
        assert!(!relayed(3, None).contains_key(STATE_HEADER));
        let full = relayed(HEADERS_MAX, Some("k=new"));
        assert_eq!(full.len(), HEADERS_MAX);
        assert!(!full.contains_key(PARENT_HEADER));
    }

    /// Knows that this server leads, or nobody.
    struct Knows(watch::Sender<u64>);

    impl Relay for Knows {
        fn leader(&self) -> Leader {
            match *self.0.borrow() {
                0 => Leader::Nobody,
                id => Leader::There(id),
            }
        }

        fn leaderless(&self) -> Option<Duration> {
            None
        }

        fn api_address(&self, _id: u64) -> String {
            String::new()
        }

        fn news(&self) -> watch::Receiver<()> {
            let (tell, news) = watch::channel(());
            let mut changes = self.0.subscribe();
            tokio::spawn(async move {
                while changes.changed().await.is_ok() {
                    tell.send_replace(());
                }
            });
            news
        }

        fn send(
            &self,
            _to: u64,
            _request: Bytes,
        ) -> Pin<Box<dyn Future<Output = Result<Bytes, Unrelayed>> + Send>> {
            Box::pin(std::future::pending())
        }
    }

    /// What comes of asking server 2, which answers after `answer` seconds, while these lead from these seconds on; and after how many.
    fn asked(answer: u64, leaders: &'static [(u64, u64)]) -> (Result<(), NoAnswer>, u64) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (began, relay) = (Instant::now(), Knows(watch::channel(2).0));
            let lead = relay.0.clone();
            tokio::spawn(async move {
                for (secs, id) in leaders {
                    tokio::time::sleep_until(began + Duration::from_secs(*secs)).await;
                    lead.send_replace(*id);
                }
                std::future::pending::<()>().await;
            });
            let answering = async {
                tokio::time::sleep(Duration::from_secs(answer)).await;
                Ok(not_leader())
            };
            let answered = answer_of(&relay, 2, answering, Duration::from_secs(5)).await;
            (answered.map(drop), began.elapsed().as_secs())
        })
    }

    #[test]
    fn an_answer_of_a_server_that_leads_no_more_is_waited_for_a_little() {
        let (whole, lost) = (Ok(()), Err(NoAnswer::Lost));
        assert_eq!(asked(50, &[]), (whole, 50));
        assert_eq!(asked(70, &[]), (Err(NoAnswer::Late), 60));
        assert_eq!(asked(50, &[(2, 0), (3, 7)]), (lost, 7), "another leads");
        assert_eq!(asked(50, &[(2, 0)]), (lost, 7), "nobody leads");
        assert_eq!(asked(6, &[(2, 7)]), (whole, 6), "it answers even so");
        assert_eq!(asked(50, &[(2, 0), (5, 2)]), (whole, 50), "it leads again");
    }

    #[test]
    fn an_answer_comes_back() {
        let mut reply = Response::new(ReplyBody::from(Bytes::from_static(b"{}")));
        *reply.status_mut() = StatusCode::NOT_FOUND;
        reply.headers_mut().insert("x-a", HeaderValue::from_static("b"));
        let bytes = pollster::block_on(encode_reply(reply));
        let Some(RelayedReply::Reply(reply)) = decode_reply(&bytes) else { panic!("no reply") };
        assert_eq!(
            (reply.status(), reply.headers()["x-a"].as_bytes()),
            (StatusCode::NOT_FOUND, &b"b"[..])
        );
        assert!(matches!(decode_reply(&not_leader()), Some(RelayedReply::NotLeader)));
        let bare = Bytes::from_static(&[FORMAT, 204, 0, 0, b'{', b'}']);
        let Some(RelayedReply::Reply(reply)) = decode_reply(&bare) else { panic!("no reply") };
        assert_eq!(
            (reply.status(), reply.body().size_hint().exact()),
            (StatusCode::NO_CONTENT, Some(0))
        );
    }
}
