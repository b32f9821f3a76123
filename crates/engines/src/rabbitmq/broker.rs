//! The management interface of a broker: where it is, and what is asked of it.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::{
    FarEndLogin, HttpLogin, HttpWork, HttpWorkAnswer, HttpWorkVerb, SessionUse, without_secrets,
};
use kallisto_engine::outbound::form_component;
use kallisto_engine::{Call, EngineContext, FarEnd, FarEndAnswer, FarEndCall, FarEndWork};
use secrecy::SecretString;

use crate::base_url::BaseUrl;
use crate::username;

const RECORD: &str = "config/connection";
/// What the far end is called in its mount.
const FAR_END: &str = "broker";
/// Longest that a call may take, in seconds.
const CALL_SECS: u64 = 10;
const GIVEN: [&str; 6] =
    ["connection_uri", "username", "password", "ca_cert", "password_policy", "username_template"];

/// A broker.
#[derive(Clone)]
pub(super) struct Broker {
    url: BaseUrl,
    pub(super) user: String,
    password: SecretString,
    authorities: String,
    pub(super) password_policy: String,
    pub(super) username_template: String,
    /// The version of the record that this is from.
    revision: u64,
    session: SessionUse,
}

/// What is asked, of what: each part of the path without percent-encoding.
pub(super) struct BrokerCall<'a> {
    pub(super) verb: HttpWorkVerb,
    pub(super) path: &'a [&'a str],
    pub(super) body: Option<Json>,
}

impl Broker {
    fn read(map: &Map) -> Result<Self, Error> {
        let fields = Fields::new(map);
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.unwrap_or_default());
        let needed = |name: &str| match text(name)? {
            empty if empty.is_empty() => Err(Error::invalid(format!("missing {name}"))),
            given => Ok(given),
        };
        let uri = needed("connection_uri")?;
        let (user, password) = (needed("username")?, SecretString::from(needed("password")?));
        let url = BaseUrl::parse(&uri).ok_or_else(|| {
            Error::invalid(
                "connection_uri is http:// or https:// with a host and a port, and no name or password",
            )
        })?;
        Ok(Self {
            url,
            user,
            password,
            authorities: text("ca_cert")?,
            password_policy: text("password_policy")?,
            username_template: text("username_template")?,
            revision: 0,
            session: SessionUse::Pooled,
        })
    }

    fn far_end(&self, context: &EngineContext<'_>) -> FarEnd {
        let login = FarEndLogin { user: self.user.clone(), password: self.password.clone() };
        let login = HttpLogin::Basic(login);
        self.url.far_end(context, FAR_END, self.revision, login, &self.authorities)
    }

    /// Asks; the status, and the broker's words where it refuses.
    pub(super) async fn ask(
        &self,
        context: &EngineContext<'_>,
        call: BrokerCall<'_>,
        secrets: &[&SecretString],
    ) -> Result<(u16, String), Error> {
        let mut path = format!("{}/api", self.url.base).into_bytes();
        for part in call.path {
            path.push(b'/');
            form_component(part, &mut path);
        }
        let path = String::from_utf8(path).map_err(|error| Error::internal(&error))?;
        let body = call.body.map(|body| body.to_text()).unwrap_or_default();
        let asked = context.far_ends.ask(FarEndCall {
            far_end: self.far_end(context),
            work: FarEndWork::Http(HttpWork { verb: call.verb, path, body }),
            session: self.session,
            deadline_secs: CALL_SECS,
            secrets: secrets.iter().map(|secret| (*secret).clone()).collect(),
        });
        let doing = format!("the broker at {}", self.url.text);
        let answer = asked.await.map_err(|failure| failure.to_error(&doing))?;
        let FarEndAnswer::Http(HttpWorkAnswer { status, body }) = answer else {
            return Err(Error::Unavailable(format!("{doing} answers something else")));
        };
        let told = json::parse_object(&body).ok();
        let told = told.as_ref().and_then(|map| map.get("reason").or_else(|| map.get("error")));
        let words = told.and_then(Json::as_str).unwrap_or_default();
        let mut secrets = secrets.to_vec();
        secrets.push(&self.password);
        Ok((status, without_secrets(words, &secrets)))
    }

    /// What is told of an answer that is no success.
    pub(super) fn refused(&self, doing: &str, status: u16, words: &str) -> Error {
        let text = format!("{doing}: the broker at {} answers {status} {words}", self.url.text);
        match status {
            500.. => Error::Unavailable(text),
            _ => Error::invalid(text),
        }
    }

    pub(super) fn find(context: &EngineContext<'_>) -> Result<Self, Error> {
        let found = context.storage.get(RECORD)?;
        let found = found.ok_or_else(|| {
            Error::invalid("the broker is not configured: write config/connection first")
        })?;
        Ok(Self { revision: found.version.0, ..found.decode_object(Self::read)? })
    }
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let broker = Broker::read(&body)?;
    if !broker.username_template.is_empty() {
        username::check(&broker.username_template)?;
    }
    if fields.boolean("verify_connection")?.unwrap_or(true) {
        let whoami = BrokerCall { verb: HttpWorkVerb::Get, path: &["whoami"], body: None };
        // Over a session of its own: those there are go on as they are configured.
        let revision = call.storage.get(RECORD)?.map_or(0, |found| found.version.0);
        let asking = Broker { revision, session: SessionUse::Fresh, ..broker.clone() };
        let (status, words) = asking.ask(&call, whoami, &[]).await?;
        if status != 200 {
            return Err(broker.refused("failed to validate the connection", status, &words));
        }
    }
    let given = body.iter().filter(|(name, _)| GIVEN.contains(&name.as_str()));
    let record: Map = given.map(|(name, value)| (name.clone(), value.clone())).collect();
    call.storage.put(RECORD, Json::Object(record).to_text()).await?;
    Ok(Response::Empty)
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("url", &self.url.text).finish_non_exhaustive()
    }
}

/// Whether the broker made or deleted what it was asked to.
pub(super) const fn is_done(status: u16) -> bool {
    matches!(status, 200..=299)
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    #[test]
    fn a_connection_says_what_is_missing_or_wrong() {
        let read = |body: &str| Broker::read(&json::parse_object(body.as_bytes()).unwrap());
        let text = read("{}").unwrap_err().to_string();
        assert_eq!(text, "missing connection_uri");
        for bad in ["ftp://h", "http://", "http://u:p@h", "h:15672", "http://h/?x"] {
            let body = format!(r#"{{"connection_uri":"{bad}","username":"u","password":"p"}}"#);
            assert!(read(&body).is_err(), "{bad}");
        }
        let good = r#"{"connection_uri":"http://h:15672/","username":"u","password":"canary"}"#;
        assert!(!format!("{:?}", read(good).unwrap()).contains("canary"));
        assert_eq!(read(good).unwrap().password.expose_secret(), "canary");
    }
}
