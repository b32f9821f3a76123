//! Requests that another server relays to this one, because only the leader answers them.
//!
//! They come over the cluster port, in the form of [`relay`], and are answered as if they had come here, under the same limits.

use bytes::Bytes;
use kallisto_core::Error;

use super::elsewhere::Unfinished;
use super::{HttpReply, HttpService, consistency, error, relay, request, response, target};

impl HttpService {
    /// Serves a request that another server relays; the answer travels back the same way.
    pub async fn serve_relayed(&self, bytes: Bytes) -> Bytes {
        let Some(relayed) = relay::decode(&bytes) else {
            let refusal = error::render(&Error::invalid("a relayed request cannot be read"));
            return relay::encode_reply(refusal).await;
        };
        let observed = self.observe(&relayed.head, true);
        let remote = relayed.remote;
        let answering = self.answer_relayed(relayed);
        let reply = match observed {
            None => answering.await,
            Some(observed) => {
                let reply = Box::pin(observed.hearing(answering)).await;
                match &reply {
                    Some(reply) => observed.ended(reply.status(), remote),
                    None => observed.turned_away(remote),
                }
                reply
            }
        };
        match reply {
            Some(reply) => relay::encode_reply(reply).await,
            None => relay::not_leader(),
        }
    }

    /// Answers a request that another server relays; `None` when this one does not lead.
    async fn answer_relayed(&self, relayed: relay::Relayed) -> Option<HttpReply> {
        let relay::Relayed { head, chain, body, remote } = relayed;
        let now = self.clock.now();
        let headers = request::InHead(&head.headers);
        let arrival = request::Arrival { now, remote, client_chain: &chain, headers: &headers };
        Some(match target::resolve(&head, self.core.serves_ui()) {
            target::ResolvedTarget::Reply(reply) => reply,
            target::ResolvedTarget::Api { path, method } => {
                match request::parse(&head, &path, method, &body, arrival) {
                    Ok(request) => {
                        self.describe(&head, &request);
                        match consistency::hold(&self.core, &head.headers, &request).await {
                            Ok(()) => {}
                            Err(None) => return None,
                            Err(Some(refusal)) => return Some(refusal),
                        }
                        let outcome = self.execute(&head, &request, &body).await;
                        let mut reply = match outcome.answer {
                            Ok(reply) => reply,
                            Err(Unfinished::NotLeader) => return None,
                            Err(other) => other.into_refusal(),
                        };
                        if let Some(allowance) = outcome.allowance {
                            response::tell_allowance(&mut reply, allowance);
                        }
                        reply
                    }
                    Err(error) => error::render(&error),
                }
            }
        })
    }
}
