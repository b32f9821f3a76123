//! What a load needs before it starts: a policy, a token under it, a login, and the secrets.
//!
//! Everything is asked of the server over its own API, so any server of this API will do. The token that
//! is measured is none of root's: the decision is part of what is measured.

use std::time::Duration;

use kallisto_core::json::{self, Json};
use secrecy::{ExposeSecret, SecretString};

use super::RunClock;
use super::connection::{LoadConnection, READ_BYTES, Received};
use super::herd::{ClientLogin, token_of};
use super::poll::Poll;
use super::protocol::{LoadReply, ReplyVerdict, http_reply};
use super::target::LoadTarget;
use kallisto_command::error::Error;

/// Longest wait for one answer while preparing.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The policy, the role and the prefix of what else is made.
const NAME: &str = "kallisto-bench";
/// Lifetime of the tokens that are made.
const TTL: &str = "2h";

/// What kind of token a login gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LoginToken {
    /// Written down, can be renewed and revoked
    Service,
    /// Carried by its holder alone: the login writes nothing
    Batch,
}

/// One who may prepare: an operator's token at a server.
pub(super) struct Operator<'a> {
    pub(super) target: &'a LoadTarget,
    pub(super) token: &'a SecretString,
}

/// An answer: its verdict and body.
struct PreparedReply {
    verdict: ReplyVerdict,
    body: Vec<u8>,
}

impl Operator<'_> {
    /// Makes the policy that allows what a load does, and a token that has it alone.
    pub(super) fn make_token(&self, pattern: &str) -> Result<SecretString, Error> {
        self.put_policy(pattern)?;
        let body = Json::object([
            ("policies", Json::strings([NAME])),
            ("no_default_policy", Json::Bool(true)),
            ("ttl", TTL.into()),
        ]);
        let answer = self.must_post("/v1/auth/token/create", &body)?;
        token_of(&answer).map(SecretString::from).ok_or_else(|| no("/v1/auth/token/create"))
    }

    /// Makes an AppRole that anyone with its ids may log in with as often as they like.
    pub(super) fn make_login(&self, pattern: &str, kind: LoginToken) -> Result<ClientLogin, Error> {
        self.put_policy(pattern)?;
        let mount = Json::object([("type", "approle".into())]);
        // Mounted before is as good.
        self.call("POST", "/v1/sys/auth/approle", Some(&mount))?;
        let kind = match kind {
            LoginToken::Service => "service",
            LoginToken::Batch => "batch",
        };
        let role = Json::object([
            ("token_policies", NAME.into()),
            ("token_no_default_policy", Json::Bool(true)),
            ("token_ttl", TTL.into()),
            ("token_type", kind.into()),
        ]);
        let path = format!("/v1/auth/approle/role/{NAME}");
        self.must_post(&path, &role)?;
        let role_id = self.call("GET", &format!("{path}/role-id"), None)?.body;
        let none = Json::object([]);
        let secret_id = self.must_post(&format!("{path}/secret-id"), &none)?;
        let role_id = field(&role_id, "role_id").ok_or_else(|| no(&path))?;
        let secret_id = field(&secret_id, "secret_id").ok_or_else(|| no(&path))?;
        let body =
            Json::object([("role_id", role_id.into()), ("secret_id", secret_id.into())]).to_text();
        Ok(ClientLogin::Login {
            path: "/v1/auth/approle/login".to_owned(),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    fn put_policy(&self, pattern: &str) -> Result<(), Error> {
        let prefix = pattern.split("{}").next().unwrap_or_default().trim_start_matches("/v1/");
        let rules =
            format!("path \"{prefix}*\" {{ capabilities = [\"create\",\"read\",\"update\"] }}");
        let path = format!("/v1/sys/policies/acl/{NAME}");
        self.must_post(&path, &Json::object([("policy", rules.as_str().into())])).map(|_| ())
    }

    /// Posts, and takes nothing but yes.
    fn must_post(&self, path: &str, body: &Json) -> Result<Vec<u8>, Error> {
        let answer = self.call("POST", path, Some(body))?;
        match answer.verdict {
            ReplyVerdict::Good => Ok(answer.body),
            ReplyVerdict::Status(status) => {
                Err(Error::unusable(format!("preparing: POST {path}: status {status}")))
            }
            ReplyVerdict::Error | ReplyVerdict::Null => Err(no(path)),
        }
    }

    fn call(&self, method: &str, path: &str, body: Option<&Json>) -> Result<PreparedReply, Error> {
        let body = body.map(Json::to_text).unwrap_or_default();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nX-Vault-Token: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.target.authority,
            self.token.expose_secret(),
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(&body);
        let answered = exchange(self.target, &request);
        let (reply, bytes) =
            answered.map_err(|error| Error::unusable(format!("preparing: {path}: {error}")))?;
        let body = bytes[reply.body..reply.bytes].to_vec();
        Ok(PreparedReply { verdict: reply.verdict, body })
    }
}

/// Sends one request over a connection of its own and waits for its reply.
fn exchange(target: &LoadTarget, request: &[u8]) -> std::io::Result<(LoadReply, Vec<u8>)> {
    let watch = RunClock::start();
    let mut poll = Poll::new()?;
    let mut connection = LoadConnection::open(target, &poll, 0)?;
    let mut scratch = vec![0; READ_BYTES];
    connection.output.extend_from_slice(request);
    let mut ready = Vec::new();
    while watch.nanos() < ANSWER_MAX.as_nanos() as u64 {
        connection.send(&poll)?;
        ready.clear();
        poll.wait(ANSWER_MAX, &mut ready)?;
        let received = connection.receive(&mut scratch)?;
        let reply = http_reply(&connection.input);
        if let Some(reply) = reply.map_err(|_| std::io::Error::other("not an HTTP reply"))? {
            return Ok((reply, connection.input));
        }
        if received == Received::End {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Err(std::io::ErrorKind::TimedOut.into())
}

fn field(body: &[u8], name: &str) -> Option<String> {
    match json::parse(json::member(json::member(body, "data")?, name)?) {
        Ok(Json::String(text)) => Some(text),
        _ => None,
    }
}

fn no(path: &str) -> Error {
    Error::unusable(format!("preparing: {path} did not answer as expected"))
}
