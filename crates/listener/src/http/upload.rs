//! Files that are sent with a request: a backup to be restored.
//!
//! Such a body is no JSON and has no bound but its own; so the request is judged first, without it, and then the file is
//! taken as it comes. It is not relayed: a follower refuses and says where the leader is. It does not redirect, since a client that
//! does not follow with a file takes the redirect for success. What is refused is read on for a while: a client that still sends reads no answer.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use kallisto_core::admission::{Cost, Flow};
use kallisto_core::{Error, Response as CoreResponse, Upload, takes_upload};

use super::elsewhere::Unfinished;
use super::target::HttpVerb;
use super::{HttpReply, HttpService, Leader, SentBody, admit, error, request, response};

/// How often and how long a restore waits for the view of what was restored.
const VIEW_CHECKS: u32 = 6000;
const VIEW_PAUSE: Duration = Duration::from_millis(10);

/// What it costs to take what came of a file at once.
const TAKE: Cost = 1;

/// How long the rest of what is refused is read.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// A file that is on its way, or a small one that is here.
type SentFile = Either<Incoming, Full<Bytes>>;

/// Whether what is sent to this path is a file.
pub(super) fn is_upload(path: &str, verb: HttpVerb) -> bool {
    verb == HttpVerb::Write && takes_upload(path)
}

impl HttpService {
    /// Answers a request whose body is a file.
    pub(super) async fn serve_upload(
        &self,
        head: &Parts,
        path: &str,
        verb: HttpVerb,
        body: SentBody,
        arrival: request::Arrival<'_>,
    ) -> HttpReply {
        let mut file = match body {
            SentBody::Coming(body) => Either::Left(body),
            SentBody::Here(bytes) => Either::Right(Full::new(bytes)),
        };
        let request = match request::parse(head, path, verb, b"", arrival) {
            Ok(request) => request,
            Err(refusal) => return error::render(&refusal),
        };
        self.describe(head, &request);
        let reply = match self.execute(head, &request, &Bytes::new()).await.answer {
            Err(Unfinished::Upload(upload)) => {
                let flow = admit::known_flow(&self.core, &request);
                match self.receive(flow, upload, &mut file).await {
                    Ok(answer) => response::render(answer, request.id),
                    Err(Error::NotLeader) => self.name_leader(&request),
                    Err(refusal) => error::render(&refusal),
                }
            }
            Err(Unfinished::NotLeader) => self.name_leader(&request),
            Err(other) => other.into_refusal(),
            Ok(reply) => reply,
        };
        if !reply.status().is_success() {
            // It is refused whether the rest comes or not.
            let _ = tokio::time::timeout(DRAIN_MAX, drain(&mut file)).await;
        }
        reply
    }

    fn name_leader(&self, request: &kallisto_core::Request<'_>) -> HttpReply {
        error::render(&match &self.relay {
            Some(relay) if let Leader::There(id) = relay.leader() => {
                let api = relay.api_address(id);
                Error::invalid(format!(
                    "this server follows: send the snapshot to the leader, {api}"
                ))
            }
            _ => self.core.leaderless(request),
        })
    }

    /// Takes the file, beside the workers: it is decompressed, hashed and read as records.
    async fn receive(
        &self,
        flow: Flow,
        mut upload: Box<dyn Upload>,
        file: &mut SentFile,
    ) -> Result<CoreResponse, Error> {
        let cut = |_| Error::invalid("the snapshot did not arrive in time");
        while let Some(frame) =
            tokio::time::timeout(self.timeouts.body, file.frame()).await.map_err(cut)?
        {
            let frame = frame.map_err(|_| Error::invalid("the snapshot is cut short"))?;
            if let Ok(bytes) = frame.into_data() {
                let taking = async move { upload.take(&bytes).await.map(|()| upload) };
                upload = self.core.offload(flow, TAKE, taking).await??;
            }
        }
        let answer = upload.finish().await?;
        for _ in 0..VIEW_CHECKS {
            if self.core.follows_restore() {
                break;
            }
            tokio::time::sleep(VIEW_PAUSE).await;
        }
        Ok(answer)
    }
}

async fn drain(file: &mut SentFile) {
    while let Some(Ok(_)) = file.frame().await {}
}
