//! Requests that only the leader answers, on a server that does not lead: it asks the leader, or says where it is.
//!
//! `dispatch` calls here with what it could not have executed on this server; `relay` has the forms on the wire and the waiting.
//!
//! Invariant: what may have been written is not sent again, and its client is told so.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use kallisto_core::{Error, Operation, Request, Weight};
use kallisto_traces::TraceContext;

use super::elsewhere::Unfinished;
use super::observed::ForwardSpan;
use super::relay::{self, Leader, NoAnswer, Relay, RelayedReply};
use super::{HttpReply, HttpService, admit, error, response};

static NO_FORWARDING: HeaderName = HeaderName::from_static("x-vault-no-request-forwarding");

impl HttpService {
    /// Has the leader answer, whoever that is by then; it may be this server.
    pub(super) async fn relay_to_leader(
        &self,
        relay: &dyn Relay,
        head: &Parts,
        request: &Request<'_>,
        body: &Bytes,
    ) -> HttpReply {
        // What nobody answers is written down by the server that says so.
        let refuse = async |refusal| self.refuse(refusal, head, request, body).await;
        let stays = head.headers.get(&NO_FORWARDING).is_some_and(|value| !value.is_empty());
        let mut span = ForwardSpan::begin();
        let encoded = match self.encode(head, request, body, span.context()).await {
            Ok(Some(encoded)) => encoded,
            Ok(None) => return refuse(Error::NotLeader).await,
            Err(refusal) => return refuse(refusal).await,
        };
        let began = self.clock.instant();
        let mut news = relay.news();
        let mut stood_in = false;
        while self.clock.instant().duration_since(began) < relay::WAIT_MAX {
            news.mark_unchanged();
            let leader = match relay.leader() {
                // What needs a leader after all, since it writes, is not begun again and again.
                Leader::Nobody if !stood_in && self.core.stands_in(request) => {
                    stood_in = true;
                    Leader::Here
                }
                leader => leader,
            };
            let answered = match leader {
                Leader::Here => match self.execute(head, request, body).await.answer {
                    Ok(reply) => return reply,
                    Err(Unfinished::NotLeader) => Some(RelayedReply::NotLeader),
                    Err(other) => return other.into_refusal(),
                },
                Leader::There(id) if stays => return redirect(&relay.api_address(id), head),
                Leader::There(id) => {
                    span.note_asked();
                    match self.ask_leader(relay, id, encoded.clone(), request.operation).await {
                        Ok(answered) => answered,
                        Err(refusal) => {
                            span.fail("lost");
                            return refuse(refusal).await;
                        }
                    }
                }
                Leader::Nobody if self.waits_in_vain(relay) => break,
                Leader::Nobody => None,
            };
            let patience = match answered {
                Some(RelayedReply::Reply(reply)) => return reply,
                Some(RelayedReply::NotLeader) => relay::AGAIN_PAUSE,
                None => relay::NEWS_MAX,
            };
            relay::wait(&mut news, patience).await;
        }
        span.fail("no leader");
        refuse(self.core.leaderless(request)).await
    }

    /// Asks the server that leads; `None` when it can be asked again, or another.
    async fn ask_leader(
        &self,
        relay: &dyn Relay,
        id: u64,
        encoded: Bytes,
        operation: Operation,
    ) -> Result<Option<RelayedReply>, Error> {
        let writes = operation.writes();
        let sent = self.clock.instant();
        let answering = relay.send(id, encoded);
        let grace = if writes { relay::WRITE_GRACE } else { relay::READ_GRACE };
        match relay::answer_of(relay, id, answering, grace).await {
            Ok(answer) => {
                self.core.count_forwarded(Some(self.clock.instant().duration_since(sent)));
                Ok(Some(answer))
            }
            Err(NoAnswer::NotSent) => Ok(None),
            Err(NoAnswer::Lost) if !writes => Ok(None),
            Err(why) => {
                self.core.count_forwarded(None);
                let is_late_read = why == NoAnswer::Late && !writes;
                Err(if is_late_read { late() } else { Error::outcome_unknown() })
            }
        }
    }

    /// Whether nobody can lead soon: an election takes about a second, and asks voters that are not there.
    fn waits_in_vain(&self, relay: &dyn Relay) -> bool {
        relay.leaderless().is_some_and(|since| since >= relay::WAIT_MAX)
            && self.core.lacks_quorum(relay::WAIT_MAX)
    }

    /// A request as it is relayed: a long one is copied beside the workers.
    async fn encode(
        &self,
        head: &Parts,
        request: &Request<'_>,
        body: &Bytes,
        trace: Option<&TraceContext>,
    ) -> Result<Option<Bytes>, Error> {
        let Some(remote) = request.remote else { return Ok(None) };
        match self.core.weigh_bytes(body.len()) {
            Weight::Light => Ok(relay::encode(head, request.client_chain, body, remote, trace)),
            Weight::Heavy(cost) => {
                let (head, chain) = (head.clone(), request.client_chain.to_vec());
                let (body, flow) = (body.clone(), admit::known_flow(&self.core, request));
                let trace = trace.cloned();
                let encoding =
                    async move { relay::encode(&head, &chain, &body, remote, trace.as_ref()) };
                self.core.offload(flow, cost, encoding).await
            }
        }
    }
}

/// Says where the leader is, to a client that does not want to be relayed.
fn redirect(api: &str, head: &Parts) -> HttpReply {
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let mut reply = response::json(StatusCode::TEMPORARY_REDIRECT, Vec::new());
    match HeaderValue::from_str(&format!("{}{target}", api.trim_end_matches('/'))) {
        Ok(location) if !api.is_empty() => {
            reply.headers_mut().insert(hyper::header::LOCATION, location);
            reply
        }
        _ => error::render(&Error::NotLeader),
    }
}

/// The leader takes too long to answer what only reads.
fn late() -> Error {
    Error::Unavailable("the server that leads did not answer in time".into())
}
