//! Executes a request where that is best done.
//!
//! A light request is answered on the worker it came to. A heavy one ([`Core::weigh`]) is answered beside the workers,
//! as a whole: it is moved there with everything it borrows, read again from its head, and comes back as a reply.
//! Its worker does nothing for it meanwhile. When the client goes away hyper, or `direct`, drops what waits for it, and
//! that ends its work.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::http::request::Parts;
use jiff::Timestamp;
use kallisto_core::{
    Allowance, Core, Error, Operation, Request as CoreRequest, RequestId, Response as CoreResponse,
    RouteAccess, ServedRequest, Stream, Upload, Waiting, Weight,
};

use super::{HttpReply, HttpService, admit, consistency, error, request, response, target};

/// What the core said.
pub(super) struct Execution {
    pub(super) answer: Result<HttpReply, Unfinished>,
    /// What rate limits leave to who asked, where clients are told.
    pub(super) allowance: Option<Allowance>,
}

/// What is no reply yet.
pub(super) enum Unfinished {
    /// It waits for what others do.
    Waiting(Waiting),
    /// Its body is made as it comes.
    Stream(Stream),
    /// It takes a file first.
    Upload(Box<dyn Upload>),
    /// Only the leader can answer.
    NotLeader,
}

impl Unfinished {
    /// The reply where nothing but a reply may come.
    pub(super) fn into_refusal(self) -> HttpReply {
        error::render(&match self {
            Self::NotLeader => Error::NotLeader,
            Self::Waiting(_) | Self::Stream(_) | Self::Upload(_) => Error::invalid(
                "an answer that takes time is not relayed: ask the server that leads",
            ),
        })
    }
}

/// A request with everything that it borrows.
struct MovedRequest {
    id: RequestId,
    head: Parts,
    operation: Operation,
    query: Vec<(String, String)>,
    body: Bytes,
    client_chain: Vec<Vec<u8>>,
    remote: SocketAddr,
    now: Timestamp,
}

impl HttpService {
    /// Executes a request; `body` is its own.
    pub(super) async fn execute(
        &self,
        head: &Parts,
        request: &CoreRequest<'_>,
        body: &Bytes,
    ) -> Execution {
        self.execute_as(CoreTask::Execution(self.metrics), head, request, body).await
    }

    /// Has the core refuse what nobody serves.
    pub(super) async fn refuse(
        &self,
        refusal: Error,
        head: &Parts,
        request: &CoreRequest<'_>,
        body: &Bytes,
    ) -> HttpReply {
        let outcome = self.execute_as(CoreTask::Refusal(refusal), head, request, body).await;
        outcome.answer.unwrap_or_else(Unfinished::into_refusal)
    }

    async fn execute_as(
        &self,
        wanted: CoreTask,
        head: &Parts,
        request: &CoreRequest<'_>,
        body: &Bytes,
    ) -> Execution {
        match self.core.weigh(request) {
            Weight::Heavy(cost) if let Some(moved) = MovedRequest::new(head, request, body) => {
                let core = Arc::clone(&self.core);
                let flow = admit::known_flow(&self.core, request);
                // Boxed, so that the future of a light request stays small.
                let executing = self.core.offload(flow, cost, moved.execute(core, wanted));
                Box::pin(executing).await.unwrap_or_else(|refusal| Execution::refused(&refusal))
            }
            _ => wanted.run(&self.core, request).await,
        }
    }
}

/// What the core is to do about a request.
enum CoreTask {
    /// Execute it, at a listener with metrics for these.
    Execution(RouteAccess),
    /// Refuse it, and write that down.
    Refusal(Error),
}

impl CoreTask {
    /// Has the core do it here and now.
    async fn run(self, core: &Core, request: &CoreRequest<'_>) -> Execution {
        match self {
            Self::Execution(RouteAccess::Open) if Core::is_for_open_metrics(request) => {
                let served = ServedRequest { answer: core.open_metrics(request), allowance: None };
                Execution::of(core, served, request)
            }
            Self::Execution(_) => Execution::of(core, core.serve(request).await, request),
            Self::Refusal(refusal) => {
                Execution::refused(&core.refuse_unserved(request, refusal).await)
            }
        }
    }
}

impl Execution {
    fn of(core: &Core, served: ServedRequest, request: &CoreRequest<'_>) -> Self {
        let answer = match served.answer {
            Ok(CoreResponse::Waiting(waiting)) => Err(Unfinished::Waiting(waiting)),
            Ok(CoreResponse::Stream(stream)) => Err(Unfinished::Stream(stream)),
            Ok(CoreResponse::Upload(upload)) => Err(Unfinished::Upload(upload)),
            Ok(answer) => Ok(render(core, answer, request)),
            Err(Error::NotLeader) => Err(Unfinished::NotLeader),
            Err(refusal) => Ok(error::render(&refusal)),
        };
        Self { answer, allowance: served.allowance }
    }

    fn refused(refusal: &Error) -> Self {
        Self { answer: Ok(error::render(refusal)), allowance: None }
    }
}

/// An answer's form; one to a write says where the order of writes goes with it.
fn render(core: &Core, answer: CoreResponse, request: &CoreRequest<'_>) -> HttpReply {
    let reply = response::render(answer, request.id);
    if request.operation.writes() { consistency::stamp(core, reply) } else { reply }
}

impl MovedRequest {
    /// `None` for a request that came over no wire.
    fn new(head: &Parts, request: &CoreRequest<'_>, body: &Bytes) -> Option<Self> {
        Some(Self {
            id: request.id,
            head: head.clone(),
            operation: request.operation,
            query: request.query.clone(),
            body: body.clone(),
            client_chain: request.client_chain.to_vec(),
            remote: request.remote?,
            now: request.now,
        })
    }

    async fn execute(self, core: Arc<Core>, wanted: CoreTask) -> Execution {
        let headers = request::InHead(&self.head.headers);
        let arrival = request::Arrival {
            now: self.now,
            remote: self.remote,
            client_chain: &self.client_chain,
            headers: &headers,
        };
        let target::ResolvedTarget::Api { path, method } =
            target::resolve(&self.head, core.serves_ui())
        else {
            unreachable!("what was resolved once is resolved again");
        };
        match request::parse(&self.head, &path, method, &self.body, arrival) {
            Ok(parsed) => {
                let Self { id, operation, query, .. } = self;
                let request = CoreRequest { id, operation, query, ..parsed };
                wanted.run(&core, &request).await
            }
            Err(refusal) => Execution::refused(&refusal),
        }
    }
}
