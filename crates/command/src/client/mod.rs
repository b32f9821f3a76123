//! The HTTP client: one request to a server, and what came of it.
//!
//! Commands build a [`ClientRequest`] and get a [`Secret`] or a [`ClientError`]. In between are the
//! rules that all of them share: the headers of every request, one redirect with method and body
//! kept, retries as `retry` decides, an answer of at most `ANSWER_BYTES_MAX` bytes.
//!
//! Lists go out as `GET ?list=true`, as Vault's own client sends them, so no proxy on the way sees
//! an unknown method. A token never leaves for a server that a redirect names over plain HTTP when
//! the first address was HTTPS.

mod curl;
pub mod error;
mod policy;
pub mod reach;
mod resolve;
pub mod retry;
pub mod sudo;
mod tls;
pub mod url;
mod waiting;

use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use kallisto_tls_client::HttpsConnector;
use secrecy::{ExposeSecret, SecretString};
use ureq::http::{self, Response, Uri};
use ureq::{Agent, Body, Proxy, SendBody};

use self::error::{ApiError, ClientError, TransportKind};
use self::retry::Try;
use self::waiting::WaitingLine;
use super::config::{Config, Sending};
use super::error::Error;
use super::json::{Json, Map};
use super::secret::Secret;

/// Most bytes of one answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of one answer's header.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// What is written here comes back wrapped, for so long when nobody says otherwise.
const WRAP_PATH: &str = "sys/wrapping/wrap";
const WRAP_TTL_DEFAULT: &str = "5m";
/// What we call ourselves.
const USER_AGENT: &str = concat!("Kallisto/", env!("CARGO_PKG_VERSION"));

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Read or list.
    Get,
    /// Write, as Vault's client does for most endpoints.
    Put,
    /// Write, as it does for the rest.
    Post,
    /// Merge into what is there.
    Patch,
    /// Remove.
    Delete,
}

impl Method {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    const fn has_no_body(self) -> bool {
        matches!(self, Self::Get | Self::Delete)
    }

    const fn only_reads(self) -> bool {
        matches!(self, Self::Get)
    }
}

/// What a command does with an answer, which decides whether that may come wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerUse {
    /// Prints it as it is: it is asked for wrapped where the flag or the environment says so.
    Printed,
    /// Reads it, where the flag is about another request of the command, or there is no secret to wrap.
    Unwrapped,
    /// Reads it: a flag that asks for wrapping is a mistake.
    Read,
}

/// One request: a clean path below `/v1/`, a query, a body.
#[derive(Clone)]
pub struct ClientRequest {
    /// How it asks.
    pub method: Method,
    /// What it is about, below `/v1/`.
    pub path: String,
    query: Vec<(String, String)>,
    /// The bytes it sends, if any.
    pub body: Option<Vec<u8>>,
    answer_use: AnswerUse,
}

impl ClientRequest {
    /// A request without query or body.
    pub fn new(method: Method, path: &str) -> Self {
        let answer_use = AnswerUse::Read;
        Self { method, path: path.to_owned(), query: Vec::new(), body: None, answer_use }
    }

    /// A read.
    pub fn get(path: &str) -> Self {
        Self::new(Method::Get, path)
    }

    /// A list of what is below a path.
    pub fn list(path: &str) -> Self {
        Self::get(path).with_query("list", "true")
    }

    /// A list of everything below a path.
    pub fn scan(path: &str) -> Self {
        Self::get(path).with_query("scan", "true")
    }

    /// Whether the query says so.
    fn asks(&self, name: &str) -> bool {
        self.query.iter().any(|(known, value)| known == name && value == "true")
    }

    /// A write of `object`.
    pub fn put(path: &str, object: Map) -> Self {
        Self::new(Method::Put, path).with_body(&Json::Object(object))
    }

    /// The same request with another part of the query.
    pub fn with_query(mut self, key: &str, value: impl Into<String>) -> Self {
        self.query.push((key.to_owned(), value.into()));
        self
    }

    /// The same request with this query.
    pub fn with_queries(self, query: Vec<(String, String)>) -> Self {
        Self { query, ..self }
    }

    /// The same request with a body.
    pub fn with_body(mut self, body: &Json) -> Self {
        self.body = Some(body.to_text());
        self
    }

    /// The same request of a command that prints the answer as it is, so that it may as well print the token that the answer
    /// is wrapped in. What a command reads in any other way is never asked for wrapped, and `-wrap-ttl` is refused there.
    pub const fn wrappable(mut self) -> Self {
        self.answer_use = AnswerUse::Printed;
        self
    }

    /// The same request of a command that takes `-wrap-ttl` and reads this answer: another request is [`Self::wrappable`], or
    /// what is printed is no secret (`status`, the token that a user logs in with), as with Vault's command line.
    pub const fn unwrapped(mut self) -> Self {
        self.answer_use = AnswerUse::Unwrapped;
        self
    }
}

/// An answer of the server, whatever its status.
pub struct HttpAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The bytes that came.
    pub body: Vec<u8>,
    url: String,
    location: Option<String>,
    retry_after: Option<Duration>,
}

/// A connection to one server, by the rules of one [`Config`].
pub struct Client<'a> {
    agent: Agent,
    config: &'a Config,
    identity: ClientIdentity,
    /// Whether a terminal is told that an answer is long in coming.
    tells_of_waiting: bool,
}

/// Whose token goes with a request.
enum ClientIdentity {
    /// The configured one, if there is one.
    Configured,
    /// This one: `login` tries it, `unwrap` uses it up.
    Other(SecretString),
    /// None: a login proves who one is by other means.
    Nobody,
}

impl<'a> Client<'a> {
    /// Prepares a client; nothing is sent yet.
    pub fn new(config: &'a Config) -> Result<Self, Error> {
        let agent = make_agent(config).map_err(|error| Error::Unusable(error.to_string()))?;
        Ok(Self { agent, config, identity: ClientIdentity::Configured, tells_of_waiting: true })
    }

    /// The same client with another token.
    pub fn with_token(self, token: &str) -> Self {
        Self { identity: ClientIdentity::Other(SecretString::from(token)), ..self }
    }

    /// The same client without any token.
    pub fn without_token(self) -> Self {
        Self { identity: ClientIdentity::Nobody, ..self }
    }

    /// The same client for who has a line of their own at the terminal.
    pub fn without_line(self) -> Self {
        Self { tells_of_waiting: false, ..self }
    }

    /// The namespace that requests are for, as it goes on the wire; none for the root.
    pub fn namespace(&self) -> Option<&str> {
        self.config.namespace.as_deref()
    }

    fn expose_token(&self) -> Option<&str> {
        match &self.identity {
            ClientIdentity::Configured => self.config.expose_token(),
            ClientIdentity::Other(token) => Some(token.expose_secret()),
            ClientIdentity::Nobody => None,
        }
    }

    /// Sends a request and reads the answer as a secret; nothing there is `None`.
    ///
    /// A 404 to a read is `None` too, unless it says something: the metadata of a deleted version,
    /// or a warning. One that says why is an error: where the namespace or the route is unknown, nobody knows what is there.
    pub fn send(&self, request: &ClientRequest) -> Result<Option<Secret>, ClientError> {
        self.show_instead(request)?;
        self.send_really(request)
    }

    /// Sends a request whose answer a command needs to go on, even when it only shows requests.
    pub fn send_really(&self, request: &ClientRequest) -> Result<Option<Secret>, ClientError> {
        self.refuse_unused_wrapping(request)?;
        let answer = self.exchange(request)?;
        if answer.status != 404 || !request.method.only_reads() {
            return self.secret_of(request, answer);
        }
        let said = Secret::parse(&answer.body).ok().flatten().filter(Secret::says_something);
        match (said, self.refuse_errors(request, answer)) {
            (Some(said), _) => Ok(Some(said)),
            (None, Err(ClientError::Api(error))) if error.is_bare_not_found() => Ok(None),
            (None, refused) => refused.map(|_| None),
        }
    }

    /// The secret of an answer. One that came wrapped (by a header of the user's own) has nothing in it to go on with.
    fn secret_of(
        &self,
        request: &ClientRequest,
        answer: HttpAnswer,
    ) -> Result<Option<Secret>, ClientError> {
        let answer = self.refuse_errors(request, answer)?;
        let wrong = |why: &str| ClientError::Answer(format!("{}: {why}", answer.url));
        let secret = Secret::parse(&answer.body).map_err(|why| wrong(&why))?;
        let is_wrapped = secret.as_ref().is_some_and(|secret| secret.wrap_info.is_some());
        if is_wrapped && request.answer_use != AnswerUse::Printed {
            return Err(wrong("the answer came wrapped, and this command has to read it"));
        }
        Ok(secret)
    }

    /// Sends a request and returns the answer's bytes as they came.
    pub fn send_raw(&self, request: &ClientRequest) -> Result<Vec<u8>, ClientError> {
        self.show_instead(request)?;
        let answer = self.exchange(request)?;
        self.refuse_errors(request, answer).map(|answer| answer.body)
    }

    /// Sends a request whose answer goes on for as long as it likes, and shows its lines to `take`
    /// until that says `false` or the answer ends. One that breaks off ends as well.
    pub fn stream(
        &self,
        request: &ClientRequest,
        mut take: impl FnMut(&str) -> bool,
    ) -> Result<(), ClientError> {
        let Some(response) = self.open(request)? else { return Ok(()) };
        let lines = BufReader::new(response.into_body().into_reader());
        for line in lines.lines() {
            // A stream that breaks off is opened again by who needs it.
            let Ok(line) = line else { return Ok(()) };
            if !take(&line) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends a request whose answer is a file, however long, and writes it to `to`. Returns how many bytes it had.
    pub fn download(
        &self,
        request: &ClientRequest,
        to: &mut dyn Write,
    ) -> Result<u64, ClientError> {
        let Some(response) = self.open(request)? else { return Ok(0) };
        std::io::copy(&mut response.into_body().into_reader(), to).map_err(|error| {
            transport_error(request.method, &self.url_of(request), &ureq::Error::Io(error))
        })
    }

    /// Sends a request whose answer may take as long as it likes once it has begun; `None` for an answer that has nothing to read.
    fn open(&self, request: &ClientRequest) -> Result<Option<Response<Body>>, ClientError> {
        self.show_instead(request)?;
        let url = self.url_of(request);
        let failed = |error: ureq::Error| transport_error(request.method, &url, &error);
        let asked = self.head(request, &url).body(()).map_err(|error| failed(error.into()))?;
        let patient = self.agent.configure_request(asked).timeout_global(None);
        let patient = patient.timeout_recv_response(Some(self.config.timeout)).build();
        let response = self.agent.run(patient).map_err(failed)?;
        if response.status().as_u16() != 200 {
            let answer = read_answer(response, &url).map_err(failed)?;
            return self.refuse_errors(request, answer).map(|_| None);
        }
        Ok(Some(response))
    }

    /// Sends a file as the body, and takes the answer if there is one.
    pub fn upload(
        &self,
        request: &ClientRequest,
        file: impl Read + 'static,
    ) -> Result<Option<Secret>, ClientError> {
        self.show_instead(request)?;
        let url = self.url_of(request);
        let failed = |error: ureq::Error| transport_error(request.method, &url, &error);
        let sent = self.head(request, &url).body(SendBody::from_owned_reader(file));
        let sent = sent.map_err(|error| failed(error.into()))?;
        let patient = self.agent.configure_request(sent).timeout_global(None).build();
        let response = self.agent.run(patient).map_err(failed)?;
        let answer = read_answer(response, &url).map_err(failed)?;
        self.secret_of(request, answer)
    }

    fn refuse_errors(
        &self,
        request: &ClientRequest,
        answer: HttpAnswer,
    ) -> Result<HttpAnswer, ClientError> {
        if (200..400).contains(&answer.status) {
            return Ok(answer);
        }
        let namespace = self.config.namespace.clone();
        let method = request.method.name();
        let HttpAnswer { status, url, body, .. } = answer;
        Err(ClientError::Api(Box::new(ApiError::new(method, url, namespace, status, &body))))
    }

    /// The request, again if [`retry`] says so, and on to where one redirect points.
    fn exchange(&self, request: &ClientRequest) -> Result<HttpAnswer, ClientError> {
        let url = self.url_of(request);
        let _waiting = self
            .tells_of_waiting
            .then(|| WaitingLine::begin(self.config.address.to_string().trim_end_matches('/')));
        let answer = self.exchange_with_retries(request, &url)?;
        let redirected = matches!(answer.status, 301 | 302 | 307 | 308);
        match &answer.location {
            Some(location) if redirected && self.config.follows_redirects => {
                let target = redirect_target(&url, location)?;
                self.exchange_with_retries(request, &target)
            }
            _ => Ok(answer),
        }
    }

    fn exchange_with_retries(
        &self,
        request: &ClientRequest,
        url: &str,
    ) -> Result<HttpAnswer, ClientError> {
        let mut attempt = 0;
        loop {
            let result = self.exchange_once(request, url);
            let last = match &result {
                Ok(answer) => {
                    Try::Answered { status: answer.status, retry_after: answer.retry_after }
                }
                Err(ClientError::Transport { kind, .. }) => Try::Failed(*kind),
                Err(_) => return result,
            };
            let jitter = fastrand::f64();
            let retries_max = self.config.retries_max;
            match retry::pause_before_retry(request.method, attempt, retries_max, last, jitter) {
                Some(pause) => std::thread::sleep(pause),
                None => return result,
            }
            attempt += 1;
        }
    }

    fn exchange_once(&self, request: &ClientRequest, url: &str) -> Result<HttpAnswer, ClientError> {
        let failed = |error: ureq::Error| transport_error(request.method, url, &error);
        let builder = self.head(request, url);
        // A write without a body has one of no bytes: a missing one would go out in chunks.
        let nothing = (!request.method.has_no_body()).then_some(&[][..]);
        let response = match request.body.as_deref().or(nothing) {
            Some(body) => {
                builder.body(body).map_err(ureq::Error::from).and_then(|r| self.agent.run(r))
            }
            None => builder.body(()).map_err(ureq::Error::from).and_then(|r| self.agent.run(r)),
        };
        read_answer(response.map_err(failed)?, url).map_err(failed)
    }

    /// Everything of a request but its body.
    fn head(&self, request: &ClientRequest, url: &str) -> http::request::Builder {
        let mut builder = http::Request::builder().method(request.method.name());
        builder = builder.uri(resolve::wire_url(url, self.config));
        for (name, value) in self.headers(request) {
            builder = builder.header(name, value);
        }
        if let Some(host) = resolve::host_header(url, self.config) {
            builder = builder.header("Host", host);
        }
        if let Some(token) = self.expose_token() {
            builder = builder.header("X-Vault-Token", token);
        }
        builder
    }

    fn headers(&self, request: &ClientRequest) -> Vec<(String, String)> {
        let mut headers = vec![("X-Vault-Request".to_owned(), "true".to_owned())];
        if let Some(namespace) = &self.config.namespace {
            headers.push(("X-Vault-Namespace".to_owned(), namespace.clone()));
        }
        if let Some(ttl) = self.wrap_ttl(request) {
            headers.push(("X-Vault-Wrap-TTL".to_owned(), ttl.to_owned()));
        }
        if request.method == Method::Patch {
            headers.push(("Content-Type".to_owned(), "application/merge-patch+json".to_owned()));
        }
        headers.extend(self.config.headers.iter().cloned());
        headers
    }

    /// How long the answer stays wrapped, if it is to be.
    fn wrap_ttl(&self, request: &ClientRequest) -> Option<&str> {
        if request.answer_use != AnswerUse::Printed {
            return None;
        }
        // There is nothing else that one can want of this path.
        let wraps = !request.method.has_no_body() && request.path == WRAP_PATH;
        self.config.wrap_ttl.as_deref().or(wraps.then_some(WRAP_TTL_DEFAULT))
    }

    fn url_of(&self, request: &ClientRequest) -> String {
        let mut url = self.config.address.to_string();
        if !url.ends_with('/') {
            url.push('/');
        }
        url.push_str("v1/");
        url.push_str(&url::encode_path(&request.path));
        if !request.query.is_empty() {
            url.push('?');
            url.push_str(&url::encode_query(&request.query));
        }
        url
    }

    /// Refuses `-wrap-ttl` where it would have no effect: who gives it must not get in the clear what was to be wrapped. The
    /// environment is for many commands, and no mistake at one.
    fn refuse_unused_wrapping(&self, request: &ClientRequest) -> Result<(), ClientError> {
        match request.answer_use {
            AnswerUse::Read if self.config.wraps_by_flag => Err(ClientError::Usage(
                "flag -wrap-ttl: this command does not print the answer as it came, so nothing would be wrapped"
                    .to_owned(),
            )),
            AnswerUse::Read | AnswerUse::Unwrapped | AnswerUse::Printed => Ok(()),
        }
    }

    /// Stops at a request that is shown instead of sent.
    fn show_instead(&self, request: &ClientRequest) -> Result<(), ClientError> {
        self.refuse_unused_wrapping(request)?;
        match self.config.sending {
            Sending::Real => Ok(()),
            Sending::Curl => {
                let headers = self.headers(request);
                let command = curl::command(request, &self.url_of(request), &headers);
                Err(ClientError::Shown(command))
            }
            Sending::Policy => Err(ClientError::Shown(policy::rule(request))),
        }
    }
}

fn make_agent(config: &Config) -> Result<Agent, ClientError> {
    let builder = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(HEADER_BYTES_MAX)
        .timeout_global(Some(config.timeout))
        .user_agent(USER_AGENT)
        .proxy(proxy(config)?);
    let tls_wanted =
        config.address.scheme_str() == Some("https") || config.tls != Default::default();
    // A redirect may lead from http to https.
    let connector =
        if tls_wanted { tls::connector(&config.tls)? } else { HttpsConnector::of_machine() };
    Ok(resolve::agent(builder.build(), connector, config))
}

fn proxy(config: &Config) -> Result<Option<Proxy>, ClientError> {
    let Some(text) = &config.proxy else { return Ok(None) };
    let bad = |_| ClientError::Settings("the proxy's address is not one".to_owned());
    Proxy::new(text).map(Some).map_err(bad)
}

fn read_answer(response: Response<Body>, url: &str) -> Result<HttpAnswer, ureq::Error> {
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let location = header("location");
    let retry_after =
        header("retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let status = response.status().as_u16();
    let body = response.into_body().into_with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
    Ok(HttpAnswer { status, body, url: url.to_owned(), location, retry_after })
}

/// Where a redirect points, if we may go there.
fn redirect_target(from: &str, location: &str) -> Result<String, ClientError> {
    let refused = |why: &str| ClientError::Answer(format!("redirected to {location:?}: {why}"));
    if location.starts_with('/') {
        let uri: Uri = from.parse().map_err(|_| refused("not a URL"))?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        return Ok(format!("{}://{authority}{location}", uri.scheme_str().unwrap_or("https")));
    }
    if from.starts_with("https://") && !location.starts_with("https://") {
        return Err(refused("the token would travel without encryption"));
    }
    if !location.starts_with("https://") && !location.starts_with("http://") {
        return Err(refused("neither http nor https"));
    }
    Ok(location.to_owned())
}

/// What happened on the way, told apart as far as retries and hints care.
fn transport_error(method: Method, url: &str, error: &ureq::Error) -> ClientError {
    use std::io::ErrorKind;
    let kind = match error {
        ureq::Error::Io(io) => match io.kind() {
            ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable => TransportKind::Connect,
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => TransportKind::Broken,
            ErrorKind::TimedOut => TransportKind::Timeout,
            // rustls hands its own errors on as invalid data.
            ErrorKind::InvalidData => TransportKind::Tls,
            _ => TransportKind::Other,
        },
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => TransportKind::Connect,
        ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
            TransportKind::Connect
        }
        ureq::Error::Timeout(_) => TransportKind::Timeout,
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => TransportKind::Tls,
        _ => TransportKind::Other,
    };
    let verb = method.name();
    ClientError::Transport { request: format!("{verb} {url}"), kind, text: error.to_string() }
}
