//! The API server of a cluster: where it is, what shows who asks, and how its answers are taken.
//!
//! Invariants:
//! - An answer counts as a refusal only where it is one of an API server, a `Status` of `meta/v1`: what a proxy says in its stead tells
//!   nothing of what the server did.
//! - The stored token is sent to the host that it was given for, and to no other; that of the server's own pod to its own cluster's API server.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::{
    HttpLogin, HttpWork, HttpWorkAnswer, HttpWorkVerb, SessionUse, without_secrets,
};
use kallisto_engine::{
    Call, EngineContext, FarEnd, FarEndAnswer, FarEndCall, FarEndFailure, FarEndWork, Pod, Stored,
};
use secrecy::{ExposeSecret, SecretString};

use crate::base_url::BaseUrl;

pub(super) const RECORD: &str = "config";
/// What the far end is called in its mount.
const FAR_END: &str = "cluster";
/// Longest that a call may take, in seconds.
pub(super) const CALL_SECS: u64 = 10;
/// Longest that the API server may work on a request, in seconds: it is over before we stop waiting, so that nothing is made behind our back.
pub(super) const SERVER_SECS: u64 = 8;
const _: () = assert!(SERVER_SECS < CALL_SECS);
/// Longest token, in bytes.
pub(super) const TOKEN_BYTES_MAX: usize = 64 << 10;

/// A cluster.
#[derive(Clone, Default)]
pub(super) struct Cluster {
    pub(super) url: BaseUrl,
    authorities: String,
    token: SecretString,
    disable_local_ca_jwt: bool,
    revision: u64,
}

/// Why an API server did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiFailure {
    /// It refused: nothing was done.
    Refused {
        /// The status code.
        status: u16,
        /// Its own words.
        words: String,
    },
    /// It was not asked, or what it did is not known.
    FarEnd(FarEndFailure),
}

impl ApiFailure {
    /// Whether nothing can have been done, now or later.
    pub(super) const fn is_definite(&self) -> bool {
        !matches!(self, Self::FarEnd(FarEndFailure::Unknown(_)))
    }

    /// Whether what was asked for is not there.
    pub(super) const fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }
}

impl Cluster {
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        let token = fields.string("service_account_jwt")?;
        if let Some(given) = fields.string("kubernetes_host")? {
            let malformed = "kubernetes_host is http:// or https:// with a host, and a port or a path where \
                it has them";
            let url = match given.is_empty() {
                // The API server of the pod, once it is asked.
                true => BaseUrl::default(),
                false => BaseUrl::parse(&given).ok_or_else(|| Error::invalid(malformed))?,
            };
            // Whoever may write the configuration must not have the stored token sent to a server of their own.
            let is_other = url != self.url && !self.token.expose_secret().is_empty();
            if is_other && token.is_none() {
                return Err(Error::invalid(
                    "service_account_jwt has to be given again with another kubernetes_host",
                ));
            }
            self.url = url;
        }
        if let Some(given) = fields.string("kubernetes_ca_cert")? {
            if !given.trim().is_empty() && !given.contains("-----BEGIN CERTIFICATE-----") {
                return Err(Error::invalid("kubernetes_ca_cert is no certificate in PEM"));
            }
            self.authorities = given;
        }
        if let Some(given) = token {
            let given = SecretString::from(given.trim());
            if !given.expose_secret().is_empty() && !is_token(given.expose_secret()) {
                return Err(Error::invalid("service_account_jwt has characters that no token has"));
            }
            self.token = given;
        }
        if let Some(given) = fields.boolean("disable_local_ca_jwt")? {
            self.disable_local_ca_jwt = given;
        }
        Ok(())
    }

    fn shown(&self) -> Map {
        [
            ("disable_local_ca_jwt", self.disable_local_ca_jwt.into()),
            ("kubernetes_ca_cert", self.authorities.as_str().into()),
            ("kubernetes_host", self.url.text.as_str().into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Takes from the server's own pod what the configuration leaves to it.
    fn fill_from(&mut self, pod: &dyn Pod) {
        if self.disable_local_ca_jwt {
            return;
        }
        let Some(account) = pod.account() else { return };
        if self.url == BaseUrl::default() {
            self.url = BaseUrl::parse(&account.api_server).unwrap_or_default();
        }
        if !account.is_api_server(&self.url.text) {
            return;
        }
        if self.token.expose_secret().is_empty() {
            self.token = account.token.clone();
            // A session that shows the token of before is not used any more.
            self.revision = self.revision.rotate_left(32) ^ u64::from(account.revision);
        }
        if self.authorities.is_empty() {
            self.authorities.clone_from(&account.authorities);
        }
    }

    /// What is missing to ask, if anything is.
    fn lack(&self) -> Option<Error> {
        if self.url == BaseUrl::default() {
            return Some(Error::invalid(
                "missing kubernetes_host: this server runs in no pod that could say it",
            ));
        }
        self.token.expose_secret().is_empty().then(|| {
            Error::invalid(
                "missing service_account_jwt: the token of a pod is for the API server of its own cluster, and \
                 this server has none for that one",
            )
        })
    }

    fn load(context: &EngineContext<'_>) -> Result<Option<Self>, Error> {
        context.storage.get(RECORD)?.map(|found| Self::decode(&found)).transpose()
    }

    fn decode(stored: &Stored) -> Result<Self, Error> {
        stored.decode_object(|map| {
            let mut cluster = Self { revision: stored.version.0, ..Self::default() };
            cluster.take(Fields::new(map)).map(|()| cluster)
        })
    }

    /// The cluster as it is configured, and as the pod fills it.
    ///
    /// # Errors
    /// [`Error::Invalid`] where it is not, or something is missing.
    pub(super) fn find(context: &EngineContext<'_>) -> Result<Self, Error> {
        let found = Self::load(context)?;
        let mut found = found.ok_or_else(|| {
            Error::invalid("the Kubernetes API server is not configured: write config first")
        })?;
        found.fill_from(context.pod);
        match found.lack() {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// Asks the API server; what it answers where it did what it was asked.
    pub(super) async fn ask(
        &self,
        context: &EngineContext<'_>,
        verb: HttpWorkVerb,
        path: &str,
        body: Option<Json>,
    ) -> Result<Map, ApiFailure> {
        let work = HttpWork {
            verb,
            path: format!("{}{path}", self.url.base),
            body: body.map(|body| body.to_text()).unwrap_or_default(),
        };
        let call = FarEndCall {
            far_end: self.far_end(context),
            work: FarEndWork::Http(work),
            session: SessionUse::Pooled,
            deadline_secs: CALL_SECS,
            secrets: Vec::new(),
        };
        match context.far_ends.ask(call).await {
            Ok(FarEndAnswer::Http(answer)) => self.judge(&answer),
            Ok(_) => {
                Err(ApiFailure::FarEnd(FarEndFailure::Unknown("it answers something else".into())))
            }
            Err(failure) => Err(ApiFailure::FarEnd(failure)),
        }
    }

    fn far_end(&self, context: &EngineContext<'_>) -> FarEnd {
        let login = HttpLogin::Bearer(self.token.clone());
        self.url.far_end(context, FAR_END, self.revision, login, &self.authorities)
    }

    /// Whether an answer is a success, a refusal, or neither.
    pub(super) fn judge(&self, answer: &HttpWorkAnswer) -> Result<Map, ApiFailure> {
        let HttpWorkAnswer { status, body } = answer;
        let told = json::parse_object(body);
        let unknown = |what: &str| {
            ApiFailure::FarEnd(FarEndFailure::Unknown(format!("it answers {status} {what}")))
        };
        let told = told.ok().filter(|_| !body.is_empty());
        let told = told.ok_or_else(|| unknown("and no JSON object"))?;
        let text = |name: &str| told.get(name).and_then(Json::as_str).unwrap_or_default();
        match status {
            200..=299 => Ok(told),
            400..=499 if text("kind") == "Status" => {
                let reason = text("reason");
                if *status == 404 && reason != "NotFound" {
                    return Err(unknown("that is not about an object"));
                }
                let words = match text("message") {
                    "" => reason,
                    message => message,
                };
                Err(ApiFailure::Refused {
                    status: *status,
                    words: without_secrets(words, &[&self.token]),
                })
            }
            _ => Err(unknown(&without_secrets(text("message"), &[&self.token]))),
        }
    }

    /// What who asks hears of a failure.
    pub(super) fn error(&self, doing: &str, failure: &ApiFailure) -> Error {
        let server = &self.url.text;
        match failure {
            ApiFailure::Refused { status, words } => {
                let text = format!(
                    "{doing}: the Kubernetes API server at {server} answers {status}: {words}"
                );
                match status {
                    429 | 500.. => Error::Unavailable(text),
                    _ => Error::invalid(text),
                }
            }
            ApiFailure::FarEnd(failure) => {
                failure.to_error(&format!("{doing}: the Kubernetes API server at {server}"))
            }
        }
    }
}

/// Whether a text can stand behind `Bearer` (RFC 6750, section 2.1), and is of a length that tokens have.
pub(super) fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let writing = call.storage.transact(RECORD, |transaction| {
        let before = transaction.get(RECORD)?.map(|found| Cluster::decode(&found));
        let mut cluster = before.transpose()?.unwrap_or_default();
        cluster.take(Fields::new(&body))?;
        // What comes from the pod is not stored: it is what it is when it is used.
        let mut filled = cluster.clone();
        filled.fill_from(call.pod);
        if let Some(lack) = filled.lack() {
            return Err(lack);
        }
        let mut record = cluster.shown();
        record.insert("service_account_jwt".into(), cluster.token.expose_secret().into());
        transaction.put(RECORD, Json::Object(record).to_text())
    });
    writing.await.map(|()| Response::Empty)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let cluster = Cluster::load(&call)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&cluster.shown().into()))
}

/// Ends the sessions with the cluster.
pub(super) fn close(call: &Call<'_>) {
    call.far_ends.close(call.mount.accessor, Some(FAR_END));
}

/// Asks the API server who it is, with the token: one that it does not know is refused whatever is asked.
pub(super) async fn check(call: Call<'_>) -> Result<Response, Error> {
    let cluster = Cluster::find(&call)?;
    match cluster.ask(&call, HttpWorkVerb::Get, "/version", None).await {
        Ok(_) => Ok(Response::Empty),
        Err(failure) => Err(cluster.error("failed to check the configuration", &failure)),
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("url", &self.url.text).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_only_in_the_words_of_an_api_server() {
        let cluster = Cluster { token: "a-canary-of-a-token".into(), ..Cluster::default() };
        let judge = |status: u16, body: &str| {
            cluster.judge(&HttpWorkAnswer { status, body: body.as_bytes().to_vec() })
        };
        assert!(judge(201, r#"{"a":"b"}"#).is_ok());
        let refused = judge(
            403,
            r#"{"kind":"Status","status":"Failure","message":"no: a-canary-of-a-token\nX","reason":"Forbidden","code":403}"#,
        );
        assert_eq!(
            refused.unwrap_err(),
            ApiFailure::Refused { status: 403, words: "no: *** X".into() }
        );
        assert!(judge(404, r#"{"kind":"Status","reason":"NotFound"}"#).unwrap_err().is_not_found());
        for (status, body) in [
            (200, ""),
            (201, "[]"),
            (201, r#"{"kind":"#),
            (302, "{}"),
            (403, "<html>"),
            (404, "{}"),
            (404, r#"{"kind":"Status","reason":"Gone"}"#),
            (500, r#"{"kind":"Status","message":"etcd"}"#),
            (504, r#"{"kind":"Status","reason":"Timeout"}"#),
        ] {
            let failure = judge(status, body).unwrap_err();
            assert!(!failure.is_definite(), "{status} {body}");
        }
    }
}
