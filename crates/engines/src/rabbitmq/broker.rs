//! The management interface of a broker: where it is, and what is asked of it.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::far_end::without_secrets;
use kallisto_engine::outbound::{OutboundVerb, form_component};
use kallisto_engine::{Authorization, Call, EngineContext, OutboundAnswer, OutboundCall, Payload};
use secrecy::SecretString;

use crate::username;

const RECORD: &str = "config/connection";
const GIVEN: [&str; 6] =
    ["connection_uri", "username", "password", "ca_cert", "password_policy", "username_template"];

/// A broker.
#[derive(Clone)]
pub(super) struct Broker {
    uri: String,
    pub(super) user: String,
    password: SecretString,
    authorities: String,
    pub(super) password_policy: String,
    pub(super) username_template: String,
}

/// What is asked, of what: each part of the path without percent-encoding.
pub(super) struct BrokerCall<'a> {
    pub(super) verb: OutboundVerb,
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
        let place = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"));
        let is_place = place.is_some_and(|place| {
            !place.is_empty() && !place.contains(|c: char| "@?#".contains(c) || c.is_whitespace())
        });
        if !is_place {
            return Err(Error::invalid(
                "connection_uri is http:// or https:// with a host and a port, and no name or password",
            ));
        }
        Ok(Self {
            uri: uri.trim_end_matches('/').to_owned(),
            user,
            password,
            authorities: text("ca_cert")?,
            password_policy: text("password_policy")?,
            username_template: text("username_template")?,
        })
    }

    /// Asks; the status, and the broker's words where it refuses.
    pub(super) async fn ask(
        &self,
        context: &EngineContext<'_>,
        call: BrokerCall<'_>,
        secrets: &[&SecretString],
    ) -> Result<(u16, String), Error> {
        let mut url = format!("{}/api", self.uri).into_bytes();
        for part in call.path {
            url.push(b'/');
            form_component(part, &mut url);
        }
        let url = String::from_utf8(url).map_err(|error| Error::internal(&error))?;
        let asked = context.outbound.call(OutboundCall {
            url,
            verb: call.verb,
            authorization: Authorization::Basic(self.user.clone(), self.password.clone()),
            payload: call.body.map_or(Payload::Nothing, |body| Payload::Json(body.to_text())),
            authorities: self.authorities.clone(),
        });
        let OutboundAnswer { status, body, .. } = asked.await?;
        let told = json::parse_object(&body).ok();
        let told = told.as_ref().and_then(|map| map.get("reason").or_else(|| map.get("error")));
        let words = told.and_then(Json::as_str).unwrap_or_default();
        let mut secrets = secrets.to_vec();
        secrets.push(&self.password);
        Ok((status, without_secrets(words, &secrets)))
    }

    /// What is told of an answer that is no success.
    pub(super) fn refused(&self, doing: &str, status: u16, words: &str) -> Error {
        let text = format!("{doing}: the broker at {} answers {status} {words}", self.uri);
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
        let map = json::parse_object(&found.value)
            .map_err(|_| Error::internal(&"the record of a broker is damaged"))?;
        Self::read(&map)
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
        let whoami = BrokerCall { verb: OutboundVerb::Usual, path: &["whoami"], body: None };
        let (status, words) = broker.ask(&call, whoami, &[]).await?;
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
        f.debug_struct("Broker").field("uri", &self.uri).finish_non_exhaustive()
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
