//! The records of the provider, by name.
//!
//! | record | what |
//! |---|---|
//! | `oidc/config` | the issuer of identity tokens |
//! | `oidc/key/NAME`, `oidc/role/NAME`, `oidc/scope/NAME`, `oidc/assignment/NAME`, `oidc/provider/NAME`, `oidc/client/NAME` | what operators wrote |
//! | `oidc/client-id/ID` | the name of the client with that id |
//! | `oidc/grant/HOUR/ID` | a grant, of which nothing is good from that hour on |
//! | `oidc/uses` | written whenever anything comes to refer to a key, a scope or an assignment |

use kallisto_api::{Error, Fields, Json, Map, Response};
use kallisto_engine::route::UpdateTarget;
use kallisto_engine::{Call, EngineContext, Profile, Storage, Stored, Transaction, names};
use kallisto_identity_tokens::client::OauthClient;
use kallisto_identity_tokens::named_key::{self, NamedKey, NamedKeySettings};
use kallisto_identity_tokens::settings::{self, Assignment, ClaimsScope, OidcProvider, TokenRole};
use kallisto_identity_tokens::subject::{SubjectAlias, SubjectGroup, TokenSubject};

pub(super) const CONFIG: &str = "oidc/config";
pub(super) const KEYS: &str = "oidc/key/";
pub(super) const ROLES: &str = "oidc/role/";
pub(super) const SCOPES: &str = "oidc/scope/";
pub(super) const ASSIGNMENTS: &str = "oidc/assignment/";
pub(super) const PROVIDERS: &str = "oidc/provider/";
pub(super) const CLIENTS: &str = "oidc/client/";
pub(super) const CLIENT_IDS: &str = "oidc/client-id/";
pub(super) const GRANTS: &str = "oidc/grant/";
/// Whoever comes to refer to something writes it, and whoever deletes something depends on it.
pub(super) const USES: &str = "oidc/uses";

/// Most objects of one kind.
pub(super) const OBJECTS_MAX: usize = 64 << 10;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The name that stands in the path.
pub(super) fn name_of<'a>(call: &Call<'a>) -> Result<&'a str, Error> {
    let name = call.name("name")?;
    Ok(name)
}

/// The seconds of the time.
pub(super) fn now(context: &EngineContext<'_>) -> i64 {
    context.now.as_second()
}

/// Says that something refers to something else.
pub(super) fn count_use(transaction: &mut Transaction<'_>) -> Result<(), Error> {
    transaction.put(USES, vec![1])
}

/// Refuses one object too many of a kind.
pub(super) fn admit(storage: Storage<'_>, folder: &str) -> Result<(), Error> {
    if storage.list_some(folder, OBJECTS_MAX).len() < OBJECTS_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!("there are {OBJECTS_MAX} already at {folder}")))
}

fn decoded<T>(stored: Option<Stored>, decode: fn(&[u8]) -> Option<T>) -> Result<Option<T>, Error> {
    stored.map(|record| record.decode(decode)).transpose()
}

/// A record, or what is there while nobody wrote one.
pub(super) trait RecordOrDefault: Sized {
    /// The folder of its records.
    const FOLDER: &'static str;

    /// Reads a record.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// What there is under a name when there is no record.
    fn unwritten(_name: &str, _now: i64) -> Option<Self> {
        None
    }

    /// The object of a name.
    fn find(context: &EngineContext<'_>, name: &str) -> Result<Option<Self>, Error> {
        let stored = context.storage.get(&format!("{}{name}", Self::FOLDER))?;
        Ok(decoded(stored, Self::decode)?.or_else(|| Self::unwritten(name, now(context))))
    }

    /// The same, on which the transaction depends.
    fn find_in(
        transaction: &mut Transaction<'_>,
        name: &str,
        now: i64,
    ) -> Result<Option<Self>, Error> {
        let stored = transaction.get(&format!("{}{name}", Self::FOLDER))?;
        Ok(decoded(stored, Self::decode)?.or_else(|| Self::unwritten(name, now)))
    }

    /// Every object that was written, by name.
    fn all(context: &EngineContext<'_>) -> Result<Vec<(String, Self)>, Error> {
        let names = context.storage.list_some(Self::FOLDER, OBJECTS_MAX);
        let found = names.into_iter().map(|name| Ok((Self::find(context, &name)?, name)));
        let found = found.filter_map(|one| match one {
            Ok((object, name)) => object.map(|object| Ok((name, object))),
            Err(error) => Some(Err(error)),
        });
        found.collect()
    }
}

/// The record that an update of an object makes, unless it is there without one.
pub(super) fn made<T: RecordOrDefault>(to: &UpdateTarget<'_>) -> Option<String> {
    let name = to.name("name")?;
    let is_there = T::unwritten(name, 0).is_some();
    (!is_there).then(|| format!("{}{name}", T::FOLDER))
}

impl RecordOrDefault for NamedKey {
    const FOLDER: &'static str = KEYS;

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes)
    }

    /// The default key has no versions until something is signed with it.
    fn unwritten(name: &str, now: i64) -> Option<Self> {
        (name == named_key::DEFAULT).then(|| Self::new(NamedKeySettings::of_default(), now))
    }
}

impl RecordOrDefault for TokenRole {
    const FOLDER: &'static str = ROLES;

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes)
    }
}

impl RecordOrDefault for ClaimsScope {
    const FOLDER: &'static str = SCOPES;

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes)
    }
}

impl RecordOrDefault for Assignment {
    const FOLDER: &'static str = ASSIGNMENTS;

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes)
    }

    fn unwritten(name: &str, _: i64) -> Option<Self> {
        (name == settings::ALLOW_ALL).then(Self::of_all)
    }
}

impl RecordOrDefault for OidcProvider {
    const FOLDER: &'static str = PROVIDERS;

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes)
    }

    fn unwritten(name: &str, _: i64) -> Option<Self> {
        (name == settings::DEFAULT_PROVIDER).then(Self::of_default)
    }
}

impl RecordOrDefault for OauthClient {
    const FOLDER: &'static str = CLIENTS;

    fn decode(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes)
    }
}

/// The client with an id.
pub(super) fn client_with_id(
    context: &EngineContext<'_>,
    client_id: &str,
) -> Result<Option<OauthClient>, Error> {
    if names::check(client_id).is_err() {
        return Ok(None);
    }
    let Some(record) = context.storage.get(&format!("{CLIENT_IDS}{client_id}"))? else {
        return Ok(None);
    };
    let name = String::from_utf8_lossy(&record.value).into_owned();
    let found = OauthClient::find(context, &name)?;
    Ok(found.filter(|client| client.client_id == client_id))
}

/// The assignments of a client. Nobody is in one that is gone.
pub(super) fn assignments_of(
    context: &EngineContext<'_>,
    client: &OauthClient,
) -> Result<Vec<Assignment>, Error> {
    let found = client.assignments.iter().map(|name| Assignment::find(context, name));
    found.filter_map(Result::transpose).collect()
}

/// An entity, as templates name it.
pub(super) fn subject_of(person: Profile) -> TokenSubject {
    let groups = person.groups.into_iter().map(|group| SubjectGroup {
        id: group.id,
        name: group.name,
        metadata: group.metadata,
    });
    let aliases = person.aliases.into_iter().map(|alias| SubjectAlias {
        accessor: alias.accessor,
        id: alias.id,
        name: alias.name,
        metadata: alias.metadata,
        custom_metadata: alias.custom_metadata,
    });
    TokenSubject {
        groups: groups.collect(),
        aliases: aliases.collect(),
        id: person.id,
        name: person.name,
        metadata: person.metadata,
    }
}

/// Random letters and digits.
pub(super) fn make_base62(context: &EngineContext<'_>, count: usize) -> Result<String, Error> {
    let mut text = String::with_capacity(count);
    let mut pool = zeroize::Zeroizing::new([0_u8; 64]);
    while text.len() < count {
        context.random.fill(&mut *pool)?;
        // 248 is the largest multiple of 62 in a byte; bytes above it would favour the first digits.
        let fair = pool.iter().filter(|byte| **byte < 248);
        let digits = fair.take(count - text.len()).map(|byte| usize::from(*byte) % BASE62.len());
        text.extend(digits.map(|digit| char::from(BASE62[digit])));
    }
    Ok(text)
}

/// A list of texts, each once, in the order given; `None` when the request does not say.
pub(super) fn texts(fields: Fields<'_>, name: &str) -> Result<Option<Vec<String>>, Error> {
    let Some(given) = fields.strings(name)? else { return Ok(None) };
    let mut once: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for text in given {
        if seen.insert(text.clone()) {
            once.push(text);
        }
    }
    Ok(Some(once))
}

/// Seconds; `None` when the request does not say.
///
/// # Errors
/// [`Error::Invalid`] for what is below zero.
pub(super) fn seconds(fields: Fields<'_>, name: &str) -> Result<Option<u64>, Error> {
    let Some(span) = fields.span(name)? else { return Ok(None) };
    let secs = u64::try_from(span.secs());
    secs.map(Some).map_err(|_| Error::invalid(format!("{name} is below zero")))
}

/// Names alone.
pub(super) fn list(call: &Call<'_>, folder: &str, always: Option<&str>) -> Result<Response, Error> {
    let names = page(call, folder, always)?;
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

/// Names, with what is to be said of each.
pub(super) fn list_with_info<T: RecordOrDefault>(
    call: &Call<'_>,
    always: Option<&str>,
    info: impl Fn(&str, &T) -> Option<Json>,
) -> Result<Response, Error> {
    let mut infos = Map::new();
    for name in page(call, T::FOLDER, always)? {
        let Some(object) = T::find(&call.context, &name)? else { continue };
        if let Some(info) = info(&name, &object) {
            infos.insert(name, info);
        }
    }
    if infos.is_empty() {
        return Err(Error::NotFound);
    }
    let keys = Json::strings(infos.keys().cloned());
    Ok(Response::data(&Json::object([("keys", keys), ("key_info", Json::Object(infos))])))
}

/// The names that a list asks for, with the one that is there whether or not anybody wrote it.
fn page(call: &Call<'_>, folder: &str, always: Option<&str>) -> Result<Vec<String>, Error> {
    let page = call.page()?;
    let mut names = call.storage.list_page(folder, &page)?;
    if let Some(always) = always
        && page.after.as_deref().is_none_or(|after| always > after)
        && let Err(place) = names.binary_search_by(|name| name.as_str().cmp(always))
    {
        names.insert(place, always.to_owned());
        if let Some(limit) = page.limit {
            names.truncate(limit);
        }
    }
    if names.is_empty() { Err(Error::NotFound) } else { Ok(names) }
}
