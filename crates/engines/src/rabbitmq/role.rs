//! Roles, and `creds`: a user of the broker for as long as its lease lives.
//!
//! The broker makes and changes users by one request. So it is asked for the user first, before there is a lease: one that it knows is
//! never changed or deleted.

use jiff::Timestamp;
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{BoxFuture, Error, Fields, Response};
use kallisto_engine::far_end::HttpWorkVerb;
use kallisto_engine::{Call, EngineContext, LeaseCall, NewLease};
use secrecy::{ExposeSecret, SecretString};

use super::broker::{Broker, BrokerCall, is_done};
use crate::passwords::make_password;
use crate::username::{self, cut, plain};

/// Most characters of a display name in the name of a user.
const DISPLAY_CHARS_MAX: usize = 64;
/// Most permissions of a role.
const PERMISSIONS_MAX: usize = 64;

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BrokerRole {
    tags: String,
    /// By virtual host.
    vhosts: Map,
    /// By virtual host, then by exchange.
    topics: Map,
}

/// JSON in a text, or JSON itself.
fn nested(fields: Fields<'_>, name: &str) -> Result<Option<Map>, Error> {
    match fields.raw(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Object(map)) => Ok(Some(map.clone())),
        Some(Json::String(text)) if text.is_empty() => Ok(Some(Map::new())),
        Some(Json::String(text)) => json::parse_object(text.as_bytes()).map(Some).map_err(|_| {
            Error::invalid(format!("failed to unmarshal {name}: it is no JSON object"))
        }),
        Some(_) => Err(Error::invalid(format!("failed to unmarshal {name}: it is no JSON object"))),
    }
}

/// Permissions: these texts, each a regular expression, and no others.
fn permissions(value: &Json, known: &[&str], of: &str) -> Result<Map, Error> {
    let map = value.as_object();
    let bad = || Error::invalid(format!("{of}: permissions are {}", known.join(", ")));
    let map = map.ok_or_else(bad)?;
    if map.iter().any(|(name, value)| !known.contains(&name.as_str()) || value.as_str().is_none()) {
        return Err(bad());
    }
    let of = |name: &&str| {
        let given = map.get(*name).and_then(Json::as_str).unwrap_or_default();
        ((*name).to_owned(), Json::from(given))
    };
    Ok(known.iter().map(of).collect())
}

impl BrokerRole {
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        if let Some(given) = fields.string("tags")? {
            self.tags = given;
        }
        if let Some(given) = nested(fields, "vhosts")? {
            let checked = given.iter().map(|(vhost, value)| {
                let of = format!("vhosts {vhost:?}");
                let known = ["configure", "write", "read"];
                Ok((vhost.clone(), permissions(value, &known, &of)?.into()))
            });
            self.vhosts = checked.collect::<Result<_, Error>>()?;
        }
        if let Some(given) = nested(fields, "vhost_topics")? {
            let mut topics = Map::new();
            for (vhost, exchanges) in &given {
                let bad =
                    || Error::invalid(format!("vhost_topics {vhost:?} is no object of exchanges"));
                let checked =
                    exchanges.as_object().ok_or_else(bad)?.iter().map(|(exchange, value)| {
                        let of = format!("vhost_topics {vhost:?} {exchange:?}");
                        Ok((exchange.clone(), permissions(value, &["write", "read"], &of)?.into()))
                    });
                let checked: Map = checked.collect::<Result<_, Error>>()?;
                topics.insert(vhost.clone(), checked.into());
            }
            self.topics = topics;
        }
        let topics = self.topics.values().filter_map(Json::as_object).map(Map::len).sum::<usize>();
        if self.vhosts.len() + topics > PERMISSIONS_MAX {
            return Err(Error::invalid(format!("more than {PERMISSIONS_MAX} permissions")));
        }
        if self.tags.is_empty() && self.vhosts.is_empty() && self.topics.is_empty() {
            return Err(Error::invalid("both tags and vhosts not specified"));
        }
        Ok(())
    }

    fn shown(&self) -> Json {
        Json::object([
            ("tags", self.tags.as_str().into()),
            ("vhost_topics", self.topics.clone().into()),
            ("vhosts", self.vhosts.clone().into()),
        ])
    }
}

fn record_name(name: &str) -> String {
    format!("role/{name}")
}

fn find(context: &EngineContext<'_>, name: &str) -> Result<Option<BrokerRole>, Error> {
    let found = context.storage.get(&record_name(name))?;
    let decode = |map: &Map| {
        let mut role = BrokerRole::default();
        role.take(Fields::new(map)).map(|()| role)
    };
    found.map(|found| found.decode_object(decode)).transpose()
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let body = call.request.object()?;
    let mut role = BrokerRole::default();
    role.take(Fields::new(&body))?;
    call.storage.put(&record_name(name), role.shown().to_text()).await?;
    Ok(Response::Empty)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    Ok(Response::data(&find(&call, name)?.ok_or(Error::NotFound)?.shown()))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("role/")
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    call.storage.delete(&record_name(name)).await?;
    Ok(Response::Empty)
}

pub(super) async fn make(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let role = find(&call, name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("unknown role: {name}")))?;
    let broker = Broker::find(&call)?;
    let display_name = call.caller.map_or("", |caller| caller.display_name.as_str());
    let (now, random) = (call.now, call.random);
    let username = match broker.username_template.is_empty() {
        true => format!("{}-{}", cut(&plain(display_name), DISPLAY_CHARS_MAX), random.make_uuid()?),
        false => {
            let names = username::UsernameFacts { display_name, role_name: name, now, random };
            username::make(&broker.username_template, &names)?
        }
    };
    check_unused(&call, &broker, &username).await?;
    let password = make_password(&call, &broker.password_policy)?;
    let lives = super::lease_secs(&call.storage)?;
    let lease = NewLease {
        role_default_secs: lives.default_secs,
        role_max_secs: lives.max_secs,
        renewable: true,
        revocation: Json::object([("username", username.as_str().into())]).to_text(),
        ..NewLease::default()
    };
    call.issue(lease, move |_: Timestamp| -> BoxFuture<'_, Result<Json, Error>> {
        Box::pin(create(call, broker, role, username, password))
    })
    .await
}

/// Refuses a name that the broker knows: it would get another password now, and the end of the lease would delete it.
async fn check_unused(call: &Call<'_>, broker: &Broker, username: &str) -> Result<(), Error> {
    let known = Error::invalid(format!(
        "failed to make the user: the broker has a user {username:?} already, which is left as it is"
    ));
    if username == broker.user {
        return Err(known);
    }
    let look = BrokerCall { verb: HttpWorkVerb::Get, path: &["users", username], body: None };
    match broker.ask(call, look, &[]).await? {
        (404, _) => Ok(()),
        (status, _) if is_done(status) => Err(known),
        (status, words) => Err(broker.refused("failed to look for the user", status, &words)),
    }
}

async fn create(
    call: Call<'_>,
    broker: Broker,
    role: BrokerRole,
    username: String,
    password: SecretString,
) -> Result<Json, Error> {
    let user = Json::object([
        ("password", password.expose_secret().into()),
        ("tags", role.tags.as_str().into()),
    ]);
    let mut steps: Vec<(Vec<&str>, Json)> = vec![(vec!["users", &username], user)];
    for (vhost, permissions) in role.vhosts.iter() {
        steps.push((vec!["permissions", vhost, &username], permissions.clone()));
    }
    for (vhost, exchanges) in role.topics.iter() {
        for (exchange, permissions) in exchanges.as_object().into_iter().flat_map(Map::iter) {
            let mut body = permissions.as_object().cloned().unwrap_or_default();
            body.insert("exchange".into(), exchange.as_str().into());
            steps.push((vec!["topic-permissions", vhost, &username], body.into()));
        }
    }
    for (path, body) in steps {
        let step = BrokerCall { verb: HttpWorkVerb::Put, path: &path, body: Some(body) };
        let (status, words) = broker.ask(&call, step, &[&password]).await?;
        if !is_done(status) {
            // The revocation of the lease takes back what was made.
            return Err(broker.refused(
                &format!("failed to make the user ({})", path[0]),
                status,
                &words,
            ));
        }
    }
    Ok(Json::object([("password", password.expose_secret().into()), ("username", username.into())]))
}

/// The end of a lease: its user is deleted, if it is there.
pub(super) async fn end_lease(call: LeaseCall<'_>) -> Result<(), Error> {
    let map = json::parse_object(call.revocation).map_err(|_| call.damaged())?;
    let username = map.get("username").and_then(Json::as_str).unwrap_or_default();
    if username.is_empty() {
        return Err(call.damaged());
    }
    let broker = Broker::find(&call)?;
    let gone = BrokerCall { verb: HttpWorkVerb::Delete, path: &["users", username], body: None };
    match broker.ask(&call, gone, &[]).await? {
        (status, _) if is_done(status) || status == 404 => Ok(()),
        (status, words) => Err(broker.refused("failed to delete the user", status, &words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_back_and_says_what_it_cannot_be() {
        let read = |body: &str| {
            let map = json::parse_object(body.as_bytes()).unwrap();
            let mut role = BrokerRole::default();
            role.take(Fields::new(&map)).map(|()| role)
        };
        let role = read(
            r#"{"tags":"management","vhosts":"{\"/\":{\"configure\":\".*\",\"read\":\".*\"}}",
                "vhost_topics":{"/":{"amq.topic":{"write":".*","read":".*"}}}}"#,
        )
        .unwrap();
        let mut again = BrokerRole::default();
        again.take(Fields::new(&json::parse_object(&role.shown().to_text()).unwrap())).unwrap();
        assert_eq!(again, role);
        for bad in [
            "{}",
            r#"{"vhosts":"x"}"#,
            r#"{"vhosts":{"/":"x"}}"#,
            r#"{"vhosts":{"/":{"admin":".*"}}}"#,
            r#"{"vhosts":{"/":{"read":1}}}"#,
            r#"{"vhost_topics":{"/":{"x":{"configure":".*"}}}}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
