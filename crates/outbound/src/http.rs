//! Servers of HTTP 1.1 that speak JSON, such as the API server of a Kubernetes cluster.
//!
//! A session is a connection. Whether a request can have reached the server is what tells [`FarEndFailure::Unreachable`] from
//! [`FarEndFailure::Unknown`].
//!
//! Invariants:
//! - No redirect is followed: an answer is an answer, whatever its status.
//! - An answer that is not whole, or over its limit, is none.
//! - A connection that waited for a while is not used again: its server may have closed it, and a request over it would have an unknown fate.

use bytes::Bytes;
use data_encoding::BASE64;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use kallisto_engine::far_end::{
    FAR_END_ANSWER_BYTES_MAX, FarEndLogin, HttpLogin, HttpWork, HttpWorkAnswer, HttpWorkVerb,
};
use kallisto_engine::{BoxFuture, FarEnd, FarEndAnswer, FarEndFailure, FarEndWork};
use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use crate::connect::{self, Wired};
use crate::driver::{FarEndSession, no_such_work};

/// Most bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// What we are called.
const AGENT: &str = concat!("kallisto/", env!("CARGO_PKG_VERSION"));

struct HttpSession {
    sender: SendRequest<Full<Bytes>>,
    /// Host and port, as the header `Host` has them.
    authority: String,
    authorization: Option<HeaderValue>,
}

pub(crate) async fn open(
    far_end: &FarEnd,
    login: &HttpLogin,
) -> Result<Box<dyn FarEndSession>, FarEndFailure> {
    let authorization = authorization(login)?;
    let Wired { wire, host, port } = connect::open_wire(far_end).await?;
    let handshake =
        http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(wire)).await;
    let (sender, connection) =
        handshake.map_err(|error| FarEndFailure::Unreachable(words(&error)))?;
    // It ends when the session is dropped, or the server closes it; what went wrong is told to whoever waits for an answer.
    tokio::spawn(async move { drop(connection.await) });
    let authority =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    Ok(Box::new(HttpSession { sender, authority, authorization }))
}

fn authorization(login: &HttpLogin) -> Result<Option<HeaderValue>, FarEndFailure> {
    let value = match login {
        HttpLogin::Bearer(token) if token.expose_secret().is_empty() => return Ok(None),
        HttpLogin::Bearer(token) => Zeroizing::new(format!("Bearer {}", token.expose_secret())),
        HttpLogin::Basic(FarEndLogin { user, password }) => {
            let pair = Zeroizing::new(format!("{user}:{}", password.expose_secret()));
            Zeroizing::new(format!("Basic {}", BASE64.encode(pair.as_bytes())))
        }
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| {
        FarEndFailure::LoginRefused("the token has characters that no token has".into())
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// What went wrong, with its causes.
fn words(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

impl HttpSession {
    async fn ask(&mut self, work: &HttpWork) -> Result<HttpWorkAnswer, FarEndFailure> {
        let request = self.request(work)?;
        let unreachable = |error: &hyper::Error| FarEndFailure::Unreachable(words(error));
        self.sender.ready().await.map_err(|error| unreachable(&error))?;
        let answer =
            self.sender.try_send_request(request).await.map_err(|mut failed| {
                match failed.take_message() {
                    Some(_unsent) => unreachable(failed.error()),
                    None => FarEndFailure::Unknown(words(failed.error())),
                }
            })?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), FAR_END_ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| {
            FarEndFailure::Unknown(format!("its answer with status {status} is not whole: {error}"))
        })?;
        Ok(HttpWorkAnswer { status, body: body.to_bytes().to_vec() })
    }

    fn request(&self, work: &HttpWork) -> Result<Request<Full<Bytes>>, FarEndFailure> {
        let method = match work.verb {
            HttpWorkVerb::Get => Method::GET,
            HttpWorkVerb::Post => Method::POST,
            HttpWorkVerb::Put => Method::PUT,
            HttpWorkVerb::Delete => Method::DELETE,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(&work.path)
            .header(HOST, &self.authority)
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "application/json");
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if !work.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        // Nothing was sent.
        let failed = |_| FarEndFailure::Refused("this is no request of HTTP".into());
        request.body(Full::new(Bytes::from(work.body.clone()))).map_err(failed)
    }
}

impl FarEndSession for HttpSession {
    fn run<'a>(
        &'a mut self,
        work: &'a FarEndWork,
    ) -> BoxFuture<'a, Result<FarEndAnswer, FarEndFailure>> {
        Box::pin(async move {
            match work {
                // Whoever is connected to was there a moment ago.
                FarEndWork::Check => Ok(FarEndAnswer::Done),
                _ => {
                    let work = work.http().ok_or_else(no_such_work)?;
                    self.ask(work).await.map(FarEndAnswer::Http)
                }
            }
        })
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}

#[cfg(test)]
mod tests;
