//! Secrets as a Redis client sees them: a key is a path, a secret is a hash of fields.
//!
//! Everything goes through the core's pipeline as an HTTP request would: the same token, the same decision,
//! the same limits. A change of some fields is a read and a write that expects what was read; version 1
//! of the engine has no such expectation, so there the last writer wins.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use kallisto_core::admission::{Cost, Flow};
use kallisto_core::json::{self, Json, Map, member};
use kallisto_core::limits::CONFLICT_RETRIES_MAX;
use kallisto_core::{
    AuditBatch, BodyKind, Core, EngineKind, Error, ExpectedVersion, FastPathCaller, FastReads,
    FieldsWrite, Operation, Path, Request, RequestId, Response, TokenText, Weight, deletion_body,
    fields_body,
};
use memchr::memchr;
use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use super::reply::Replies;
use super::session::{RespSession, engine_of};
use super::unescape::{unescape_into, unescape_to_quote};
use crate::http::admit::{WRITE, cost_of};

/// Requests of a command that are answered before others get their turn.
const ASKED_PER_TURN: usize = 16;

/// A secret that was read.
pub(super) struct ReadSecret {
    /// The reply's data.
    text: Vec<u8>,
    engine: EngineKind,
}

/// What was found under a key.
pub(super) enum FoundSecret {
    /// A secret.
    Live(ReadSecret),
    /// None, and the version that the next one follows.
    Nothing(u64),
}

/// What becomes of a hash that was looked at.
pub(super) enum SecretChange {
    Keep,
    Put,
    Delete,
}

impl ReadSecret {
    /// The fields, as the text of a JSON object.
    pub(super) fn fields(&self) -> &[u8] {
        if self.engine.has_versions() {
            return member(&self.text, "data").unwrap_or_default();
        }
        &self.text
    }

    /// The raw text of one field.
    pub(super) fn field(&self, name: &str) -> Option<&[u8]> {
        member(self.fields(), name)
    }

    fn metadata(&self, name: &str) -> Option<&[u8]> {
        member(member(&self.text, "metadata")?, name)
    }

    pub(super) fn version(&self) -> u64 {
        let digits = self.metadata("version").and_then(|raw| std::str::from_utf8(raw).ok());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
    }

    /// When it ends, if it does.
    pub(super) fn ends_at(&self) -> Option<jiff::Timestamp> {
        let raw = std::str::from_utf8(self.metadata("deletion_time")?).ok()?;
        raw.trim_matches('"').parse().ok()
    }
}

impl RespSession {
    /// Asks the core; `path` is below `/v1/`.
    pub(super) async fn ask(
        &self,
        operation: Operation,
        path: &str,
        query: &[(&str, String)],
        body: &[u8],
    ) -> Result<Response, Error> {
        let path = Path::literal(path).map_err(|error| Error::invalid(error.to_string()))?;
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let now = self.shared.clock.now();
        let request = Request { query, body, now, ..self.request(operation, path) };
        self.let_others_in(cost_of(operation, request.path.as_str())).await;
        match self.shared.core.weigh(&request) {
            Weight::Light => self.shared.core.handle(&request).await,
            // Boxed, so that the future of a light command stays small.
            Weight::Heavy(cost) => Box::pin(self.ask_elsewhere(&request, cost)).await,
        }
    }

    /// Has a heavy request answered beside the workers.
    async fn ask_elsewhere(&self, request: &Request<'_>, cost: Cost) -> Result<Response, Error> {
        let core = Arc::clone(&self.shared.core);
        let (id, now, operation) = (request.id, request.now, request.operation);
        let (path, query) = (request.path.clone().into_owned(), request.query.clone());
        let body = Zeroizing::new(request.body.to_vec());
        let (token, remote) = (self.token.clone(), self.remote);
        let asking = async move {
            let token = token.as_ref().map(|token| TokenText::new(token.expose_secret()));
            let plain = plain(operation, path, token, remote);
            core.handle(&Request { id, now, query, body: &body, ..plain }).await
        };
        self.shared.core.offload(self.flow(), cost, asking).await?
    }

    /// Runs `work` on so many bytes: beside the workers when they are many.
    pub(super) async fn work_out<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        match self.shared.core.weigh_bytes(bytes) {
            Weight::Light => Ok(work()),
            Weight::Heavy(cost) => {
                self.shared.core.offload(self.flow(), cost, async move { work() }).await
            }
        }
    }

    /// Whom this connection is counted with.
    pub(super) fn flow(&self) -> Flow {
        let flow = Flow::of_address(self.remote.ip());
        // A token that the server took when it was said.
        self.token.as_ref().map_or(flow, |token| flow.with_token(token.expose_secret()))
    }

    /// Lets others of this worker in after some requests of one command, and counts what one more costs.
    async fn let_others_in(&self, cost: Cost) {
        self.owe(cost);
        // Relaxed: one task counts.
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if asked.is_multiple_of(ASKED_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }

    /// A request without query and body that came with the batch.
    pub(super) fn request<'a>(&'a self, operation: Operation, path: Path<'a>) -> Request<'a> {
        let token = self.token.as_ref().map(|token| TokenText::new(token.expose_secret()));
        Request { now: self.now, ..plain(operation, path, token, self.remote) }
    }

    /// The path of a secret's data.
    pub(super) fn data_path(&self, key: &str) -> String {
        let [mount, noun] = self.data_folder();
        [mount, noun, key].concat()
    }

    /// What stands before a key in the path of its data.
    fn data_folder(&self) -> [&str; 2] {
        [self.mount(), if self.engine.has_versions() { "data/" } else { "" }]
    }

    /// Reads what is under a key.
    pub(super) async fn read(&self, key: &str) -> Result<FoundSecret, Error> {
        let answer = self.ask(Operation::Read, &self.data_path(key), &[], &[]).await;
        self.found(answer)
    }

    /// Who asks in the batch; `None` when its commands have to go the long way.
    pub(super) fn find_bearer<'r>(
        &mut self,
        reads: &'r FastReads<'_>,
    ) -> Option<FastPathCaller<'r>> {
        let token = TokenText::new(self.token.as_ref()?.expose_secret());
        // What a token that is none is told, the long way tells.
        let bearer = reads.bearer(Some(token), Some(self.remote), self.now)?.ok()?;
        self.engine = engine_of(bearer.engine_at(self.mount()));
        Some(bearer)
    }

    /// The fields under a key when memory has the answer; `None` when the read may have to wait, and nothing was done.
    pub(super) fn read_fields(
        &mut self,
        bearer: &FastPathCaller<'_>,
        key: &str,
        gathered: &mut AuditBatch,
    ) -> Option<Result<Option<Vec<u8>>, Error>> {
        // The room of the last path is that of this one.
        let mut text = std::mem::take(&mut self.path);
        text.clear();
        let [mount, noun] = self.data_folder();
        text.extend([mount, noun, key]);
        let answer = Path::literal(&text)
            .ok()
            .and_then(|path| bearer.read_fields(&self.request(Operation::Read, path), gathered));
        self.path = text;
        Some(match answer? {
            Ok(Response::Logical(fields)) => Ok(Some(fields.data)),
            Ok(_) | Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn found(&self, answer: Result<Response, Error>) -> Result<FoundSecret, Error> {
        match answer {
            Ok(Response::Logical(reply)) => {
                Ok(FoundSecret::Live(ReadSecret { text: reply.data, engine: self.engine }))
            }
            Ok(Response::Missing(reply)) => {
                let gone = ReadSecret { text: reply.data, engine: self.engine };
                Ok(FoundSecret::Nothing(gone.version()))
            }
            Ok(_) | Err(Error::NotFound) => Ok(FoundSecret::Nothing(0)),
            Err(error) => Err(error),
        }
    }

    /// Whether there is a secret under a key.
    pub(super) async fn exists(&self, key: &str) -> Result<bool, Error> {
        Ok(matches!(self.read(key).await?, FoundSecret::Live(_)))
    }

    /// Replaces what is under a key, and lets others in before.
    pub(super) async fn write(
        &self,
        key: &str,
        fields: Map,
        expected: ExpectedVersion,
    ) -> Result<FieldsWrite, Error> {
        self.let_others_in(WRITE).await;
        self.write_in_turn(key, fields, expected).await
    }

    /// Replaces what is under a key, in the turn that the caller has.
    pub(super) async fn write_in_turn(
        &self,
        key: &str,
        fields: Map,
        expected: ExpectedVersion,
    ) -> Result<FieldsWrite, Error> {
        let body = fields_body(self.engine, fields, expected);
        self.change_in_turn(Operation::Update, key, body).await
    }

    /// Deletes what is under a key if it is at this version, and lets others in before.
    async fn delete_as_read(&self, key: &str, version: u64) -> Result<FieldsWrite, Error> {
        self.let_others_in(WRITE).await;
        let body = deletion_body(self.engine, ExpectedVersion::Version(version));
        self.change_in_turn(Operation::Delete, key, body).await
    }

    /// Writes or deletes what is under a key, in the turn that the caller has.
    async fn change_in_turn(
        &self,
        operation: Operation,
        key: &str,
        body: Map,
    ) -> Result<FieldsWrite, Error> {
        let path = self.data_path(key);
        let path = Path::literal(&path).map_err(|error| Error::invalid(error.to_string()))?;
        let now = self.shared.clock.now();
        let request =
            Request { body_kind: BodyKind::Fields(&body), now, ..self.request(operation, path) };
        match self.shared.core.weigh(&request) {
            Weight::Light => change_fields(&self.shared.core, &request, &body).await,
            Weight::Heavy(cost) => {
                let stamp = (request.id, now);
                let path = request.path.into_owned();
                Box::pin(self.change_elsewhere(stamp, (operation, path), body, cost)).await
            }
        }
    }

    /// Has a heavy change done beside the workers.
    async fn change_elsewhere(
        &self,
        (id, now): (RequestId, Timestamp),
        (operation, path): (Operation, Path<'static>),
        body: Map,
        cost: Cost,
    ) -> Result<FieldsWrite, Error> {
        let core = Arc::clone(&self.shared.core);
        let (token, remote) = (self.token.clone(), self.remote);
        let changing = async move {
            let token = token.as_ref().map(|token| TokenText::new(token.expose_secret()));
            let plain = plain(operation, path, token, remote);
            change_fields(&core, &Request { id, now, ..plain }, &body).await
        };
        self.shared.core.offload(self.flow(), cost, changing).await?
    }

    /// Deletes what is under a key.
    pub(super) async fn delete(&self, key: &str) -> Result<(), Error> {
        self.ask(Operation::Delete, &self.data_path(key), &[], &[]).await.map(|_| ())
    }

    /// Changes the fields under a key by what they are.
    pub(super) async fn change<T>(
        &self,
        key: &str,
        mut decide: impl FnMut(&mut Map) -> (SecretChange, T),
    ) -> Result<T, Error> {
        for _ in 0..CONFLICT_RETRIES_MAX {
            let (mut fields, version) = match self.read(key).await? {
                FoundSecret::Nothing(version) => (Map::new(), version),
                FoundSecret::Live(secret) => {
                    let bytes = secret.text.len();
                    let work = move || (json::parse_object(secret.fields()), secret.version());
                    let (fields, version) = self.work_out(bytes, work).await?;
                    let fields = fields.map_err(|_| Error::invalid("the secret has no fields"))?;
                    (fields, version)
                }
            };
            let (change, told) = decide(&mut fields);
            let done = match change {
                SecretChange::Keep => true,
                SecretChange::Put => {
                    let expected = ExpectedVersion::Version(version);
                    self.write(key, fields, expected).await? == FieldsWrite::Written
                }
                // What somebody added meanwhile stays.
                SecretChange::Delete => {
                    self.delete_as_read(key, version).await? == FieldsWrite::Written
                }
            };
            if done {
                return Ok(told);
            }
        }
        Err(Error::Conflict)
    }
}

/// Has the core write or delete, as the request says.
async fn change_fields(
    core: &Core,
    request: &Request<'_>,
    body: &Map,
) -> Result<FieldsWrite, Error> {
    match request.operation {
        Operation::Delete => core.delete_fields(request, body).await,
        _ => core.write_fields(request, body).await,
    }
}

/// A request without query and body.
fn plain<'a>(
    operation: Operation,
    path: Path<'a>,
    token: Option<TokenText<'a>>,
    remote: SocketAddr,
) -> Request<'a> {
    Request { token, remote: Some(remote), ..Request::new(operation, path, Timestamp::UNIX_EPOCH) }
}

/// Writes a field of the object that `fields` is, as [`field_bytes`] reads it; null for none. `name` is none of a client's: it is
/// compared with the object's text, so it must not need an escape in JSON.
pub(super) fn write_field_of(fields: &[u8], name: &'static str, replies: &mut Replies) {
    debug_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    // The end of a string that comes first, as the only one does, is found while it is copied.
    let begins = fields.strip_prefix(b"{\"").and_then(|rest| rest.strip_prefix(name.as_bytes()));
    if let Some(text) = begins.and_then(|rest| rest.strip_prefix(b"\":\""))
        && replies.bulk_with(text.len(), |out| unescape_to_quote(text, out)).is_some()
    {
        return;
    }
    match member(fields, name) {
        Some(raw) => write_field(raw, replies),
        None => replies.null(),
    }
}

/// Writes a field as [`field_bytes`] reads it.
pub(super) fn write_field(raw: &[u8], replies: &mut Replies) {
    if let [b'"', inner @ .., b'"'] = raw {
        if memchr(b'\\', inner).is_none() {
            return replies.bulk(inner);
        }
        if replies.bulk_with(inner.len(), |out| unescape_into(inner, out)).is_some() {
            return;
        }
    }
    replies.bulk(&field_bytes(raw));
}

/// What a field is to a Redis client: a string's characters, or the JSON text of anything else.
pub(super) fn field_bytes(raw: &[u8]) -> Vec<u8> {
    let [b'"', inner @ .., b'"'] = raw else { return raw.to_vec() };
    let mut out = Vec::new();
    match unescape_into(inner, &mut out) {
        Some(()) => out,
        // Half a surrogate pair, say, which the parser has an answer to.
        None => match json::parse(raw) {
            Ok(Json::String(text)) => text.into_bytes(),
            _ => raw.to_vec(),
        },
    }
}
