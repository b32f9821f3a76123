//! Calls to other servers, for the login methods: key servers and Kubernetes API servers.
//!
//! TLS is the client commands'; a call follows no redirect, takes no proxy from the environment, goes to no address that is
//! link-local or of a cloud's metadata (whoever may configure a login method may not ask those through us), reads a bounded
//! answer, and ends within its deadline.

use std::time::{Duration, Instant};

use data_encoding::BASE64;
use kallisto_core::{ANSWER_BYTES_MAX, Authorization, OutboundAnswer, OutboundCall, OutboundCalls};
use secrecy::ExposeSecret;
use ureq::http::HeaderValue;
use ureq::http::header::LINK;
use zeroize::Zeroizing;

use super::http_agent;

/// Most bytes of `Link` headers that are passed on.
const LINK_BYTES_MAX: usize = 16 << 10;

/// Sends calls over HTTP.
pub(super) struct Calls {
    began: Instant,
}

impl Calls {
    #[expect(
        clippy::disallowed_methods,
        reason = "calls to other servers are measured here, where they are sent"
    )]
    pub(super) fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl OutboundCalls for Calls {
    fn send(&self, call: &OutboundCall, time: Duration) -> Result<OutboundAnswer, String> {
        let agent = http_agent::make(&call.authorities, time)?;
        let failed = |error: ureq::Error| format!("{}: {error}", call.url);
        let authorization = header(&call.authorization);
        // Either kind of request of the client has headers of its own type.
        macro_rules! with_headers {
            ($request:expr) => {{
                let mut request = $request.header("Accept", "application/json");
                if let Some(value) = &authorization {
                    request = request.header("Authorization", value.as_str());
                }
                request
            }};
        }
        let url = &call.url;
        let response = match call.payload.encode() {
            None => with_headers!(agent.get(url)).call(),
            Some((kind, body)) => with_headers!(agent.post(url)).content_type(kind).send(&body[..]),
        };
        let mut response = response.map_err(failed)?;
        let status = response.status().as_u16();
        let link = link(response.headers().get_all(LINK).iter());
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX as u64).read_to_vec();
        Ok(OutboundAnswer { status, link, body: body.map_err(failed)? })
    }

    fn clock(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The headers that name other pages, as one.
fn link<'h>(headers: impl Iterator<Item = &'h HeaderValue>) -> String {
    let texts: Vec<&str> = headers.filter_map(|value| value.to_str().ok()).collect();
    let all = texts.join(", ");
    if all.len() > LINK_BYTES_MAX { String::new() } else { all }
}

/// The header that shows who asks.
fn header(authorization: &Authorization) -> Option<Zeroizing<String>> {
    match authorization {
        Authorization::None => None,
        Authorization::Bearer(token) => {
            Some(Zeroizing::new(format!("Bearer {}", token.expose_secret())))
        }
        Authorization::Ssws(token) => {
            Some(Zeroizing::new(format!("SSWS {}", token.expose_secret())))
        }
        Authorization::Basic(name, password) => {
            let pair = Zeroizing::new(format!("{name}:{}", password.expose_secret()));
            Some(Zeroizing::new(format!("Basic {}", BASE64.encode(pair.as_bytes()))))
        }
    }
}
