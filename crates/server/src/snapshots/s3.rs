//! Snapshots in a bucket, by S3's REST API: parts of a multipart upload, which appear as one object or not at all.
//!
//! Every request ends within [`REQUEST_TIMEOUT`]; a snapshot is read back by ranges, so that this bounds it too. No redirect is
//! followed, and no address is asked that only this machine or its cloud can reach, loopback aside.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kallisto_core::{S3Target, SnapshotSink, StoredSnapshot, form_component};
use kallisto_listener::{SystemClock, WallClock};
use secrecy::ExposeSecret;
use ureq::Agent;
use ureq::http::Request;

use super::super::http_agent;
use super::sigv4::{ToSign, authorization, digest_of};

/// Bytes of a part; S3 wants five MiB at least.
const PART_BYTES: usize = 8 << 20;
/// Parts of an object, as S3 bounds them: a snapshot of 80 GB.
const PARTS_MAX: usize = 10_000;
/// Longest that a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// An upload that began longer ago is one that a leader has left.
const UPLOAD_TIME_MAX: SignedDuration = SignedDuration::from_hours(24);
/// Objects that were begun and not finished which a server remembers.
const UNFINISHED_MAX: usize = 64;
/// Most bytes of an answer that is not an object.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Pages of a list, of a thousand objects each.
const PAGES_MAX: usize = 100;
/// Longest excerpt of a refusal that is told, in bytes.
const REFUSAL_BYTES_MAX: usize = 200;

/// Addresses of objects that this server has begun and not finished. Nobody else makes them, so that their uploads may be given up at once:
/// the request that should have done it may not have arrived, or a part on its way may have brought the upload back.
#[derive(Default)]
pub(super) struct UnfinishedObjects(Mutex<VecDeque<String>>);

impl UnfinishedObjects {
    fn begin(&self, address: &str) {
        let mut addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() == UNFINISHED_MAX {
            addresses.pop_front();
        }
        addresses.push_back(address.to_owned());
    }

    fn finish(&self, address: &str) {
        let mut addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.retain(|begun| begun != address);
    }

    fn holds(&self, address: &str) -> bool {
        let addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.iter().any(|begun| begun == address)
    }
}

/// An answer that was read.
struct S3Answer {
    etag: String,
    body: Vec<u8>,
}

/// Asks a bucket.
#[derive(Clone)]
struct S3Bucket {
    agent: Agent,
    target: S3Target,
    base: String,
    host: String,
    /// What stands before the key in the path.
    root: String,
}

impl S3Bucket {
    fn of(target: &S3Target) -> Result<Self, String> {
        let endpoint = match target.endpoint.as_str() {
            "" => format!("https://s3.{}.amazonaws.com", target.region),
            given => given.to_owned(),
        };
        let (scheme, host) = endpoint.split_once("://").ok_or("the endpoint is no URL")?;
        if host.is_empty() || host.contains(['/', '?', '#', '@']) {
            return Err("the endpoint has more than a scheme, a host and a port".to_owned());
        }
        let (host, root) = match target.path_style {
            true => (host.to_owned(), format!("/{}/", target.bucket)),
            false => (format!("{}.{host}", target.bucket), "/".to_owned()),
        };
        let base = format!("{scheme}://{host}");
        let agent = http_agent::make("", REQUEST_TIMEOUT)?;
        Ok(Self { agent, target: target.clone(), base, host, root })
    }

    /// Sends one request and reads its answer; a status other than 2xx is an error.
    fn send(
        &self,
        (method, key, query): (&str, &str, &[(&str, &str)]),
        payload: &[u8],
        range: Option<(u64, u64)>,
    ) -> Result<S3Answer, String> {
        let path = format!("{}{key}", self.root);
        let query = encode(query);
        let time = SystemClock.now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let host = self.host.as_str();
        let to_sign = ToSign { method, host, path: &path, query: &query, time: &time, payload };
        let separator = if query.is_empty() { "" } else { "?" };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}{separator}{query}", self.base))
            .header("x-amz-date", &time)
            .header("x-amz-content-sha256", digest_of(payload))
            .header("authorization", authorization(&self.target, &to_sign));
        let token = self.target.session_token.expose_secret();
        if !token.is_empty() {
            request = request.header("x-amz-security-token", token);
        }
        if let Some((from, to)) = range {
            request = request.header("range", format!("bytes={from}-{to}"));
        }
        let place = format!("{method} {}/{key}", self.base);
        let failed = |error: &dyn std::fmt::Display| format!("{place}: {error}");
        let sent = match payload.is_empty() && matches!(method, "GET" | "DELETE") {
            true => self.agent.run(request.body(()).map_err(|error| failed(&error))?),
            false => self.agent.run(request.body(payload).map_err(|error| failed(&error))?),
        };
        let mut response = sent.map_err(|error| failed(&error))?;
        let status = response.status();
        let etag = response.headers().get("etag").and_then(|etag| etag.to_str().ok());
        let etag = etag.unwrap_or_default().to_owned();
        let bytes_max = range.map_or(ANSWER_BYTES_MAX, |(from, to)| to - from + 2);
        let body = response.body_mut().with_config().limit(bytes_max).read_to_vec();
        let body = body.map_err(|error| failed(&error))?;
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body);
            let why = element(&text, "Code").unwrap_or_default();
            let why: String = why.chars().take(REFUSAL_BYTES_MAX).collect();
            return Err(failed(&format!("{} {why}", status.as_u16())));
        }
        Ok(S3Answer { etag, body })
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.target.prefix)
    }

    fn address(&self, key: &str) -> String {
        format!("{}{}{key}", self.base, self.root)
    }

    /// Gives up uploads of names that begin so which this server, or a leader that was lost, has left.
    fn give_up_uploads(&self, prefix: &str, own: &UnfinishedObjects) -> Result<(), String> {
        let query = [("prefix", prefix), ("uploads", "")];
        let answer = self.send(("GET", "", &query), b"", None)?;
        let text = String::from_utf8_lossy(&answer.body);
        let is_own = |key: &str| own.holds(&self.address(key));
        for (key, id) in left_uploads(&text, prefix, SystemClock.now(), is_own) {
            self.send(("DELETE", key, &[("uploadId", id)]), b"", None)?;
        }
        Ok(())
    }
}

/// Keys and ids of the uploads in a list that nobody goes on with. Another cluster may be about to make one that began a moment ago: a
/// copy of this one, with the same schedules.
fn left_uploads<'t>(
    text: &'t str,
    prefix: &str,
    now: Timestamp,
    is_own: impl Fn(&str) -> bool,
) -> Vec<(&'t str, &'t str)> {
    let left = elements(text, "Upload").filter_map(|upload| {
        let begun = element(upload, "Initiated").and_then(|time| time.parse::<Timestamp>().ok());
        let is_old = begun.is_none_or(|begun| now.duration_since(begun) >= UPLOAD_TIME_MAX);
        let key = element(upload, "Key").filter(|key| key.starts_with(prefix))?;
        if !is_old && !is_own(key) {
            return None;
        }
        Some((key, element(upload, "UploadId")?))
    });
    left.collect()
}

/// A query as it is signed and sent: sorted by name, encoded.
fn encode(query: &[(&str, &str)]) -> String {
    let mut out = Vec::new();
    for (at, (name, value)) in query.iter().enumerate() {
        if at > 0 {
            out.push(b'&');
        }
        form_component(name, &mut out);
        out.push(b'=');
        form_component(value, &mut out);
    }
    String::from_utf8(out).unwrap_or_default()
}

/// The text of the first element of this name. Names of ours have nothing that XML escapes.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    elements(text, name).next()
}

fn elements<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&open)?;
        let (inner, after) = after.split_once(&close)?;
        rest = after;
        Some(inner)
    })
}

struct S3Sink {
    bucket: S3Bucket,
    key: String,
    /// The upload, once one part was sent.
    upload: Option<String>,
    etags: Vec<String>,
    pending: Vec<u8>,
    unfinished: Arc<UnfinishedObjects>,
}

/// Begins an object. Schedules of a server make one at a time: what else it has begun is not being made any more.
pub(super) fn create(
    target: &S3Target,
    name: &str,
    unfinished: &Arc<UnfinishedObjects>,
) -> Result<Box<dyn SnapshotSink>, String> {
    let bucket = S3Bucket::of(target)?;
    let key = bucket.key(name);
    let stem = key.rsplit_once('-').map_or(key.as_str(), |(stem, _)| stem);
    let stem = stem.rsplit_once('-').map_or(stem, |(stem, _)| stem);
    bucket.give_up_uploads(&format!("{stem}-"), unfinished)?;
    unfinished.begin(&bucket.address(&key));
    Ok(Box::new(S3Sink {
        bucket,
        key,
        upload: None,
        etags: Vec::new(),
        pending: Vec::new(),
        unfinished: Arc::clone(unfinished),
    }))
}

impl S3Sink {
    fn send_part(&mut self, part: &[u8]) -> Result<(), String> {
        if self.etags.len() == PARTS_MAX {
            return Err("the snapshot is larger than an object may be".to_owned());
        }
        let id = match &self.upload {
            Some(id) => id.clone(),
            None => {
                let began = self.bucket.send(("POST", &self.key, &[("uploads", "")]), b"", None)?;
                let text = String::from_utf8_lossy(&began.body);
                let id = element(&text, "UploadId").ok_or("an upload began without an id")?;
                self.upload.insert(id.to_owned()).clone()
            }
        };
        let number = (self.etags.len() + 1).to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", id.as_str())];
        let answer = self.bucket.send(("PUT", &self.key, &query), part, None)?;
        self.etags.push(answer.etag);
        Ok(())
    }
}

impl SnapshotSink for S3Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.pending.extend_from_slice(bytes);
        while self.pending.len() >= PART_BYTES {
            let rest = self.pending.split_off(PART_BYTES);
            let part = std::mem::replace(&mut self.pending, rest);
            self.send_part(&part)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        let last = std::mem::take(&mut self.pending);
        if self.upload.is_none() {
            self.bucket.send(("PUT", &self.key, &[]), &last, None)?;
            self.unfinished.finish(&self.bucket.address(&self.key));
            return Ok(());
        }
        if !last.is_empty() {
            self.send_part(&last)?;
        }
        let id = self.upload.clone().unwrap_or_default();
        let mut list = String::from("<CompleteMultipartUpload>");
        for (at, etag) in self.etags.iter().enumerate() {
            let number = at + 1;
            list.push_str(&format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            ));
        }
        list.push_str("</CompleteMultipartUpload>");
        let query = [("uploadId", id.as_str())];
        let answer = self.bucket.send(("POST", &self.key, &query), list.as_bytes(), None)?;
        // A failure may come after the status was sent.
        if String::from_utf8_lossy(&answer.body).contains("<Error>") {
            return Err(format!("{}: the upload was not completed", self.key));
        }
        self.upload = None;
        self.unfinished.finish(&self.bucket.address(&self.key));
        Ok(())
    }
}

impl Drop for S3Sink {
    fn drop(&mut self) {
        if let Some(id) = self.upload.take() {
            // Where that fails, the next one of this schedule gives it up.
            let _ = self.bucket.send(("DELETE", &self.key, &[("uploadId", &id)]), b"", None);
        }
    }
}

/// Reads an object by ranges.
struct RangeReader {
    bucket: S3Bucket,
    key: String,
    at: u64,
    bytes: u64,
    held: io::Cursor<Vec<u8>>,
}

pub(super) fn open(
    target: &S3Target,
    name: &str,
    bytes: u64,
) -> Result<Box<dyn Read + Send>, String> {
    let bucket = S3Bucket::of(target)?;
    let key = bucket.key(name);
    Ok(Box::new(RangeReader { bucket, key, at: 0, bytes, held: io::Cursor::default() }))
}

impl Read for RangeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.held.read(buffer)?;
        if read > 0 || self.at >= self.bytes || buffer.is_empty() {
            return Ok(read);
        }
        let to = self.bytes.min(self.at + PART_BYTES as u64) - 1;
        let answer = self.bucket.send(("GET", &self.key, &[]), b"", Some((self.at, to)));
        let body = answer.map_err(io::Error::other)?.body;
        if body.is_empty() || body.len() as u64 > to - self.at + 1 {
            return Err(io::Error::other("a range is not as long as it was asked for"));
        }
        self.at += body.len() as u64;
        self.held = io::Cursor::new(body);
        self.held.read(buffer)
    }
}

pub(super) fn list(target: &S3Target, prefix: &str) -> Result<Vec<StoredSnapshot>, String> {
    let bucket = S3Bucket::of(target)?;
    let prefix = bucket.key(prefix);
    let mut files = Vec::new();
    let mut token = String::new();
    for _ in 0..PAGES_MAX {
        let mut query = vec![("list-type", "2"), ("prefix", prefix.as_str())];
        if !token.is_empty() {
            query.insert(0, ("continuation-token", token.as_str()));
        }
        let answer = bucket.send(("GET", "", &query), b"", None)?;
        let text = String::from_utf8_lossy(&answer.body);
        for object in elements(&text, "Contents") {
            let (Some(key), Some(size)) = (element(object, "Key"), element(object, "Size")) else {
                return Err("the list of a bucket cannot be read".to_owned());
            };
            if let Some(name) = key.strip_prefix(&target.prefix) {
                let bytes = size.parse().map_err(|_| "the list of a bucket cannot be read")?;
                files.push(StoredSnapshot { name: name.to_owned(), bytes });
            }
        }
        let next = element(&text, "NextContinuationToken").map(str::to_owned);
        match next {
            Some(next) => token = next,
            None => break,
        }
    }
    Ok(files)
}

pub(super) fn delete(target: &S3Target, name: &str) -> Result<(), String> {
    let bucket = S3Bucket::of(target)?;
    bucket.send(("DELETE", &bucket.key(name), &[]), b"", None).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_that_began_a_moment_ago_is_somebody_elses() {
        let upload = |key: &str, id: &str, begun: &str| {
            format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId>{begun}</Upload>")
        };
        let at = |time: &str| format!("<Initiated>{time}</Initiated>");
        let list = [
            upload("a/p-20261127T120000Z-1.snap", "old", &at("2026-11-27T12:00:00.000Z")),
            upload("a/p-20261129T115500Z-2.snap", "young", &at("2026-11-29T11:55:00.000Z")),
            upload("a/q-20261127T120000Z-1.snap", "other", &at("2026-11-27T12:00:00.000Z")),
            upload("a/p-20261128T120000Z-3.snap", "undated", ""),
        ]
        .concat();
        let now = "2026-11-29T12:00:00Z".parse().unwrap();
        let ids = |is_own: &dyn Fn(&str) -> bool| -> Vec<_> {
            let left = left_uploads(&list, "a/p-", now, is_own);
            left.into_iter().map(|(_, id)| id).collect()
        };
        assert_eq!(ids(&|_| false), ["old", "undated"]);
        assert_eq!(ids(&|key| key.ends_with("-2.snap")), ["old", "young", "undated"]);
    }

    #[test]
    fn what_a_server_did_not_finish_is_remembered_within_a_bound() {
        let own = UnfinishedObjects::default();
        own.begin("https://s3/a");
        own.begin("https://s3/b");
        own.finish("https://s3/b");
        assert_eq!(["a", "b"].map(|key| own.holds(&format!("https://s3/{key}"))), [true, false]);
        for at in 0..UNFINISHED_MAX {
            own.begin(&format!("https://s3/{at}"));
        }
        assert!(!own.holds("https://s3/a"), "the oldest goes first");
        assert!(own.holds("https://s3/0"));
    }
}
