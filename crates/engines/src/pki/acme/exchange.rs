//! What every request of ACME goes through: which directory it is for, who signed it, whether its nonce is good, and the form of its answer.
//!
//! [`open`] serves what nobody signs, [`signed`] the rest; both run a function of the other modules in between and know nothing of what it does.
//!
//! Invariants:
//! - A function behind [`signed`] runs only for a request that is whole: its URL is the one that was asked, its nonce was good and is used up, its
//!   signature verifies with the key that it names, and the account, where one is named, is valid and of this directory.
//! - Every answer, good or bad, has a fresh nonce and the link to its directory.

use std::sync::Arc;

use kallisto_api::json::{Json, Map};
use kallisto_api::{BodyKind, BoxFuture, Error, Response};
use kallisto_engine::{Call, names};

use super::accounts::{self, AcmeAccount};
use super::config::{AcmeConfig, DefaultPolicy, EabPolicy};
use super::jws::{Jwk, Jws, JwsSigner};
use super::nonces;
use super::problem::{Failure, Kind, Problem, fail, malformed};
use crate::pki::authority::SigningAuthority;
use crate::pki::memory::{Pki, PkiState};
use crate::pki::role::PkiRole;

/// What requests are sent as (RFC 8555, 6.2).
const JOSE: &str = "application/jose+json";
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// A directory: below it stands whatever its clients make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AcmeDirectory {
    /// Its path inside the mount, without a slash at its end.
    pub(super) path: String,
    /// Its URL, likewise.
    pub(super) url: String,
    role: String,
    issuer: String,
}

impl AcmeDirectory {
    fn of(call: &Call<'_>, state: &PkiState) -> Self {
        let (role, issuer) = (call.params.get("role"), call.params.get("ref"));
        let path = match (issuer, role) {
            ("", "") => "acme".to_owned(),
            ("", role) => format!("roles/{role}/acme"),
            (issuer, "") => format!("issuer/{issuer}/acme"),
            (issuer, role) => format!("issuer/{issuer}/roles/{role}/acme"),
        };
        Self {
            url: format!("{}/{path}", state.cluster.path),
            path,
            role: role.to_owned(),
            issuer: issuer.to_owned(),
        }
    }

    /// The URL of something below it.
    pub(super) fn at(&self, what: &str) -> String {
        format!("{}/{what}", self.url)
    }
}

/// What a directory issues by, and who signs.
pub(super) struct IssuingPolicy {
    pub(super) role: Arc<PkiRole>,
    /// What the role is called; empty where any name will do.
    pub(super) role_name: String,
    pub(super) authority: SigningAuthority,
}

/// A request that is being served.
pub(super) struct AcmeCall<'a> {
    pub(super) call: Call<'a>,
    pub(super) config: Arc<AcmeConfig>,
    pub(super) directory: AcmeDirectory,
}

/// What a signed request says.
pub(super) struct SignedRequest {
    pub(super) key: Jwk,
    /// Who signed, where the request names an account.
    account: Option<AcmeAccount>,
    jws: Jws,
}

impl SignedRequest {
    /// Whether it only reads (POST-as-GET).
    pub(super) fn only_reads(&self) -> bool {
        self.jws.payload.is_empty()
    }

    /// What it brings.
    pub(super) fn object(&self) -> Result<Map, Failure> {
        self.jws.object()
    }

    /// The account that signed.
    pub(super) fn account(&self) -> Result<&AcmeAccount, Failure> {
        self.account.as_ref().ok_or_else(|| malformed("the request is to be signed by an account"))
    }

    pub(super) const fn account_if_any(&self) -> Option<&AcmeAccount> {
        self.account.as_ref()
    }

    pub(super) fn url(&self) -> &str {
        &self.jws.url
    }
}

/// By what a request may be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignedBy {
    /// An account.
    Account,
    /// A key that it brings along.
    Key,
    /// Either.
    AccountOrKey,
}

/// A good answer.
pub(super) struct AcmeReply {
    code: u16,
    content_type: &'static str,
    body: Vec<u8>,
    location: Option<String>,
    links: Vec<String>,
}

impl AcmeReply {
    pub(super) fn json(code: u16, body: Map) -> Self {
        Self::bytes(code, JSON, Json::Object(body).to_text())
    }

    pub(super) const fn bytes(code: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { code, content_type, body, location: None, links: Vec::new() }
    }

    /// The same, saying where what it is about is found.
    pub(super) fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// The same with a link.
    pub(super) fn linked(mut self, url: &str, relation: &str) -> Self {
        self.links.push(format!("<{url}>;rel=\"{relation}\""));
        self
    }
}

/// What serves a request.
pub(super) type Serving<'d> = BoxFuture<'d, Result<AcmeReply, Failure>>;
/// A function that serves signed requests.
pub(super) type Serve = for<'d> fn(&'d AcmeCall<'d>, &'d SignedRequest) -> Serving<'d>;

impl<'a> AcmeCall<'a> {
    /// What a request is for.
    fn new(call: Call<'a>) -> Result<Self, Failure> {
        // They stand in the headers of every answer.
        for name in [call.params.get("role"), call.params.get("ref")] {
            if !name.is_empty() {
                names::check(name)?;
            }
        }
        let memory: &Pki = call.memory()?;
        let state = memory.read();
        if !state.acme.is_enabled || state.cluster.path.is_empty() {
            return Err(Failure::Disabled);
        }
        let directory = AcmeDirectory::of(&call, &state);
        Ok(Self { call, config: Arc::clone(&state.acme), directory })
    }

    pub(super) fn memory(&self) -> Result<&'a Pki, Failure> {
        Ok(self.call.context.memory()?)
    }

    pub(super) fn now(&self) -> i64 {
        self.call.context.now.as_second()
    }

    /// What the directory issues by.
    ///
    /// # Errors
    /// When there is no such directory, or the settings do not allow it.
    pub(super) fn policy(&self) -> Result<IssuingPolicy, Failure> {
        let memory = self.memory()?;
        let state = memory.read();
        let role_name = match self.directory.role.as_str() {
            "" => match &self.config.default_policy {
                DefaultPolicy::Verbatim => "",
                DefaultPolicy::Role(role) => role,
                DefaultPolicy::Forbid => {
                    let why = "the default directory is forbidden by the ACME policy of this mount";
                    return Err(fail(Kind::Unauthorized, why));
                }
            },
            role => role,
        };
        let role = match role_name {
            "" => Arc::new(PkiRole::verbatim()?),
            name if !self.config.allows_role(name) => {
                let why =
                    format!("the role {name} is not allowed by the ACME policy of this mount");
                return Err(fail(Kind::Unauthorized, why));
            }
            name => {
                let found = state.roles.get(name).cloned();
                found.ok_or_else(|| malformed(format!("unknown role: {name}")))?
            }
        };
        let reference = match self.directory.issuer.as_str() {
            "" => &role.issuer_ref,
            issuer => issuer,
        };
        let authority = SigningAuthority::of(&state, reference)?;
        let id = authority.issuer.id.to_string();
        if !self.config.allows_issuer(&[reference, &id, &authority.issuer.name]) {
            let why =
                format!("the issuer {reference} is not allowed by the ACME policy of this mount");
            return Err(fail(Kind::Unauthorized, why));
        }
        Ok(IssuingPolicy { role, role_name: role_name.to_owned(), authority })
    }

    /// Reads what was signed, and checks that it is whole.
    async fn read(&self, by: SignedBy) -> Result<SignedRequest, Failure> {
        let request = self.call.request;
        if !matches!(request.body_kind, BodyKind::Other(kind) if is_jose(kind)) {
            let problem = Problem::new(Kind::Malformed, format!("requests are sent as {JOSE}"));
            return Err(problem.with_code(415).into());
        }
        let jws = Jws::read(request.body)?;
        let expected = self.asked_url();
        if jws.url != expected {
            let why = format!(
                "invalid value for 'url' in 'protected': got '{}' expected '{expected}'",
                jws.url
            );
            return Err(fail(Kind::Unauthorized, why));
        }
        let (key, account) = match (&jws.signer, by) {
            (JwsSigner::Key(key), SignedBy::Key | SignedBy::AccountOrKey) => (key.clone(), None),
            (JwsSigner::Account(url), SignedBy::Account | SignedBy::AccountOrKey) => {
                let account = accounts::by_url(self, url)?;
                (account.key.clone(), Some(account))
            }
            (JwsSigner::Key(_), SignedBy::Account) => {
                return Err(malformed("this request is signed by an account, named by kid"));
            }
            (JwsSigner::Account(_), SignedBy::Key) => {
                return Err(malformed("this request is signed by a key, given as jwk"));
            }
        };
        jws.verify(&key)?;
        let nonce = jws.nonce.as_deref().unwrap_or_default();
        nonces::take(&self.call.context, nonce).await?;
        if let Some(account) = &account {
            self.check(account)?;
        }
        Ok(SignedRequest { key, account, jws })
    }

    /// Whether an account may ask for anything.
    pub(super) fn check(&self, account: &AcmeAccount) -> Result<(), Failure> {
        if !account.is_valid {
            return Err(fail(Kind::Unauthorized, "the account is deactivated"));
        }
        if self.config.eab == EabPolicy::Always && account.eab.is_empty() {
            let why = "the account has no external account binding";
            return Err(fail(Kind::ExternalAccountRequired, why));
        }
        Ok(())
    }

    /// The URL that was asked, as the directory has it.
    fn asked_url(&self) -> String {
        let (path, mount) = (self.call.request.path.as_str(), self.call.context.mount.path);
        let inside =
            path.strip_prefix(mount).or_else(|| path.split_once(mount).map(|(_, rest)| rest));
        let below = inside.and_then(|inside| inside.strip_prefix(self.directory.path.as_str()));
        self.directory.at(below.map_or("", |below| below.trim_start_matches('/')))
    }

    fn answer(&self, result: Result<AcmeReply, Failure>) -> Result<Response, Error> {
        let (code, content_type, body, location, links) = match result {
            Ok(AcmeReply { code, content_type, body, location, links }) => {
                (code, content_type, body, location, links)
            }
            Err(Failure::Problem(problem)) => {
                let text = Json::Object(problem.to_json()).to_text();
                (problem.code(), PROBLEM, text, problem.location.clone(), Vec::new())
            }
            Err(Failure::Disabled) => return Ok(Response::MissingEmpty),
            Err(Failure::Server(error)) => return Err(error),
        };
        let directory = self.directory.at("directory");
        let mut headers = vec![
            ("replay-nonce", nonces::make(&self.call.context)?),
            ("link", format!("<{directory}>;rel=\"index\"")),
        ];
        headers.extend(links.into_iter().map(|link| ("link", link)));
        headers.extend(location.map(|location| ("location", location)));
        Ok(Response::Foreign { code, content_type, headers, body })
    }
}

fn is_jose(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(JOSE)
}

/// Serves a request that nobody signs.
pub(super) async fn open(
    call: Call<'_>,
    serve: for<'d> fn(&'d AcmeCall<'d>) -> Result<AcmeReply, Failure>,
) -> Result<Response, Error> {
    match AcmeCall::new(call) {
        Ok(acme) => acme.answer(serve(&acme)),
        Err(Failure::Server(error)) => Err(error),
        Err(_) => Ok(Response::MissingEmpty),
    }
}

/// Serves a signed request.
pub(super) async fn signed(call: Call<'_>, by: SignedBy, serve: Serve) -> Result<Response, Error> {
    let acme = match AcmeCall::new(call) {
        Ok(acme) => acme,
        Err(Failure::Server(error)) => return Err(error),
        Err(_) => return Ok(Response::MissingEmpty),
    };
    let result = match acme.read(by).await {
        Ok(signed) => serve(&acme, &signed).await,
        Err(failure) => Err(failure),
    };
    acme.answer(result)
}

/// The directory itself (RFC 8555, 7.1.1).
pub(super) fn directory(acme: &AcmeCall<'_>) -> Result<AcmeReply, Failure> {
    acme.policy()?;
    let at = |what: &str| Json::from(acme.directory.at(what));
    let is_required = acme.config.eab != EabPolicy::NotRequired;
    Ok(AcmeReply::json(
        200,
        crate::pki::given::object([
            ("keyChange", at("key-change")),
            ("meta", Json::object([("externalAccountRequired", is_required.into())])),
            ("newAccount", at("new-account")),
            ("newNonce", at("new-nonce")),
            ("newOrder", at("new-order")),
            ("revokeCert", at("revoke-cert")),
        ]),
    ))
}

/// A fresh nonce (RFC 8555, 7.2): every answer has one.
pub(super) fn new_nonce(_: &AcmeCall<'_>) -> Result<AcmeReply, Failure> {
    Ok(AcmeReply::bytes(204, "", Vec::new()))
}

/// What is read by POST-as-GET alone (RFC 8555, 6.3).
pub(super) fn refuse_get(_: &AcmeCall<'_>) -> Result<AcmeReply, Failure> {
    Err(Problem::new(Kind::Malformed, "resources are read by POST-as-GET").with_code(405).into())
}
