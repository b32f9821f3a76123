//! What is served by HTTP at a place: requests, redirects, and bodies that end early.
//!
//! Called by the crate for http-01 (RFC 8555, 8.3).
//!
//! Invariants:
//! - A redirect goes to port 80 by `http` or to port 443 by `https`, or it is refused; where its name resolves to is judged like the first.
//! - No more than [`PROBE_BODY_BYTES_MAX`] bytes of a body are kept, and of heads no more than [`HEAD_BYTES_MAX`].

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, LOCATION, USER_AGENT};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use kallisto_engine::probe::{PROBE_BODY_BYTES_MAX, PROBE_REDIRECTS_MAX};
use kallisto_engine::{Probe, ProbeFailure, ProbeHost};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Ports, connect, tls};

/// Most bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest text of a redirect.
const LOCATION_BYTES_MAX: usize = 2048;

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestTarget {
    is_tls: bool,
    host: ProbeHost,
    /// Path and query.
    path: String,
}

impl RequestTarget {
    fn port(&self, ports: Ports) -> u16 {
        if self.is_tls { ports.https } else { ports.http }
    }

    /// The host as a URL and the header `Host` have it.
    fn authority(&self) -> String {
        match &self.host {
            ProbeHost::Name(name) => name.clone(),
            ProbeHost::Address(address) if address.is_ipv6() => format!("[{address}]"),
            ProbeHost::Address(address) => address.to_string(),
        }
    }

    /// Path and query of a redirect that names neither a scheme nor a host (RFC 3986, 5.2); `None` for one that does, and for none.
    fn below(&self, location: &str) -> Option<String> {
        let own = self.path.split('?').next().unwrap_or_default();
        let (path, query) = match location.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (location, String::new()),
        };
        let first = path.split('/').next().unwrap_or_default();
        if location.is_empty() || first.contains(':') {
            return None;
        }
        let merged = match path {
            "" => return Some(format!("{own}{query}")),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("{}/{path}", own.rsplit_once('/').map_or("", |(folder, _)| folder)),
        };
        let mut segments = Vec::new();
        let mut parts = merged.split('/').skip(1).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            match part {
                "." | ".." => {
                    if part == ".." {
                        segments.pop();
                    }
                    if is_last {
                        segments.push("");
                    }
                }
                part => segments.push(part),
            }
        }
        Some(format!("/{}{query}", segments.join("/")))
    }

    /// Where a redirect from here goes.
    fn redirected(&self, location: &str, ports: Ports) -> Result<Self, ProbeFailure> {
        let bad = || ProbeFailure::BadRedirect;
        if location.len() > LOCATION_BYTES_MAX {
            return Err(bad());
        }
        let location = location.split('#').next().unwrap_or_default();
        let scheme = if self.is_tls { "https" } else { "http" };
        let url = if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if let Some(path) = self.below(location) {
            return Ok(Self { path, ..self.clone() });
        } else {
            location.to_owned()
        };
        let url: Uri = url.parse().map_err(|_| bad())?;
        let is_tls = match url.scheme_str() {
            Some(scheme) if scheme.eq_ignore_ascii_case("http") => false,
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => true,
            _ => return Err(bad()),
        };
        let authority = url.authority().ok_or_else(bad)?;
        let port = if is_tls { ports.https } else { ports.http };
        let is_usual = match authority.port() {
            None => true,
            Some(given) => given.as_u16() == port,
        };
        if authority.as_str().contains('@') || !is_usual {
            return Err(bad());
        }
        let host = host(authority.host()).ok_or_else(bad)?;
        let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { is_tls, host, path })
    }
}

fn host(text: &str) -> Option<ProbeHost> {
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address.parse().ok().map(ProbeHost::Address);
    }
    if text.is_empty() {
        return None;
    }
    Some(match text.parse() {
        Ok(address) => ProbeHost::Address(address),
        Err(_) => ProbeHost::Name(text.to_ascii_lowercase()),
    })
}

/// What is served at a path, after redirects.
pub(super) async fn get(probe: &Probe, ports: Ports, path: &str) -> Result<Vec<u8>, ProbeFailure> {
    let mut place =
        RequestTarget { is_tls: false, host: probe.host.clone(), path: path.to_owned() };
    for _ in 0..=PROBE_REDIRECTS_MAX {
        let stream = connect::open(probe, &place.host, place.port(ports)).await?;
        let answer = if place.is_tls {
            let name = place.authority();
            let name = name.trim_start_matches('[').trim_end_matches(']');
            ask(tls::open(stream, name, &[b"http/1.1"]).await?, &place).await?
        } else {
            ask(stream, &place).await?
        };
        match answer.status() {
            StatusCode::OK => return body(answer).await,
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => {
                let location = answer.headers().get(LOCATION);
                let location = location.and_then(|value| value.to_str().ok());
                place = place.redirected(location.ok_or(ProbeFailure::BadRedirect)?, ports)?;
            }
            other => return Err(ProbeFailure::Status(other.as_u16())),
        }
    }
    Err(ProbeFailure::TooManyRedirects)
}

/// Asks over a connection.
async fn ask<S>(stream: S, place: &RequestTarget) -> Result<Response<Incoming>, ProbeFailure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let no_http = |_| ProbeFailure::NoHttp;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) =
        builder.handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.map_err(no_http)?;
    // It ends with the deadline of the probe at the latest: with the answer dropped, there is nobody to read for.
    tokio::spawn(connection);
    let request = Request::get(&place.path)
        .header(HOST, place.authority())
        .header(USER_AGENT, "kallisto-acme")
        .header(hyper::header::CONNECTION, "close")
        .body(Empty::new())
        .map_err(|_| ProbeFailure::BadRedirect)?;
    sender.send_request(request).await.map_err(no_http)
}

async fn body(answer: Response<Incoming>) -> Result<Vec<u8>, ProbeFailure> {
    let mut incoming = answer.into_body();
    let mut kept = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|_| ProbeFailure::NoHttp)?;
        if let Some(bytes) = frame.data_ref() {
            if kept.len() + bytes.len() > PROBE_BODY_BYTES_MAX {
                return Err(ProbeFailure::TooLong);
            }
            kept.extend_from_slice(bytes);
        }
    }
    Ok(kept)
}
