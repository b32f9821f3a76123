//! Groups and users that policies are given to.
//!
//! A record is called `group/NAME` or `user/NAME`, the name with `%`, `/` and what is no printable ASCII as `%` and two digits: groups of
//! directories are called by any text.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::storage::Page;
use kallisto_engine::token_params::clean_policy_names;
use kallisto_engine::{Call, Storage};

use super::config::{self, LdapConfig};

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// What is kept of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalKind {
    Group,
    User,
}

impl LocalKind {
    const fn folder(self) -> &'static str {
        match self {
            Self::Group => "group/",
            Self::User => "user/",
        }
    }
}

/// A user that is known here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LocalUser {
    pub(super) policies: Vec<String>,
    pub(super) groups: Vec<String>,
}

fn record(kind: LocalKind, name: &str) -> String {
    format!("{}{}", kind.folder(), record_inside(name))
}

/// The same without its folder.
fn record_inside(name: &str) -> String {
    let mut record = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'%' | b'/' | 0..=0x1f | 0x7f.. => record.push_str(&format!("%{byte:02x}")),
            _ => record.push(char::from(byte)),
        }
    }
    record
}

/// The name that a record is of.
fn name_of(record: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(record.len());
    let mut rest = record.as_bytes();
    while let [first, more @ ..] = rest {
        let (byte, after) = match (*first, more) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?, after)
            }
            (byte, after) => (byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

fn decode(bytes: &[u8]) -> Result<LocalUser, Error> {
    let read = || -> Option<LocalUser> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let policies = fields.strings("policies").ok()??;
        Some(LocalUser { policies, groups: fields.strings("groups").ok()?.unwrap_or_default() })
    };
    read().ok_or_else(|| Error::internal(&"the record of a group or user is damaged"))
}

fn encode(user: &LocalUser) -> Vec<u8> {
    Json::object([
        ("groups", Json::strings(user.groups.iter().cloned())),
        ("policies", Json::strings(user.policies.iter().cloned())),
    ])
    .to_text()
}

/// A user that is known here.
pub(super) fn user(
    storage: &Storage<'_>,
    config: &LdapConfig,
    name: &str,
) -> Result<Option<LocalUser>, Error> {
    let name = config.spelled(name);
    storage.get(&record(LocalKind::User, &name))?.map(|found| decode(&found.value)).transpose()
}

/// The policies of a group.
pub(super) fn group(
    storage: &Storage<'_>,
    config: &LdapConfig,
    name: &str,
) -> Result<Option<Vec<String>>, Error> {
    let found = storage.get(&record(LocalKind::Group, &config.spelled(name)))?;
    found.map(|found| decode(&found.value).map(|group| group.policies)).transpose()
}

/// The record that the path names.
fn named(run: &Call<'_>, kind: LocalKind) -> Result<String, Error> {
    let config = config::find(&run.storage)?.unwrap_or_default();
    let name = config.spelled(run.params.get("name"));
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    match is_name && !name.contains(char::is_control) {
        true => Ok(record(kind, &name)),
        false => Err(Error::UnsupportedPath),
    }
}

pub(super) fn read(run: &Call<'_>, kind: LocalKind) -> Result<Response, Error> {
    let found = run.storage.get(&named(run, kind)?)?.ok_or(Error::NotFound)?;
    let user = decode(&found.value)?;
    let mut shown = Map::from([("policies".to_owned(), Json::strings(user.policies))]);
    if kind == LocalKind::User {
        shown.insert("groups".to_owned(), user.groups.join(",").into());
    }
    Ok(Response::data(&Json::Object(shown)))
}

pub(super) async fn write(run: &Call<'_>, kind: LocalKind) -> Result<Response, Error> {
    let record = named(run, kind)?;
    let config = config::find(&run.storage)?.unwrap_or_default();
    let body = run.request.object()?;
    let fields = Fields::new(&body);
    let policies = clean_policy_names(fields.strings("policies")?.unwrap_or_default())?;
    let groups = match kind {
        LocalKind::User => fields.strings("groups")?.unwrap_or_default(),
        LocalKind::Group => Vec::new(),
    };
    let groups = groups.iter().map(|name| config.spelled(name)).collect();
    run.storage.put(&record, encode(&LocalUser { policies, groups })).await?;
    Ok(Response::Empty)
}

pub(super) async fn delete(run: &Call<'_>, kind: LocalKind) -> Result<Response, Error> {
    run.storage.delete(&named(run, kind)?).await?;
    Ok(Response::Empty)
}

pub(super) fn list(run: &Call<'_>, kind: LocalKind) -> Result<Response, Error> {
    let page = run.page()?;
    // Records are listed in the order of their names, so that is where it goes on.
    let after = page.after.map(|name| record_inside(&name));
    let records = run.storage.list_page(kind.folder(), &Page { after, ..page })?;
    let names: Vec<String> = records.iter().filter_map(|record| name_of(record)).collect();
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_record_of_its_own() {
        for name in ["engineers", "all staff", "a/b", "100%", "%2f", "größe", "*()\\", "a,b=c"] {
            let record = record(LocalKind::Group, name);
            let inside = record.strip_prefix("group/").unwrap();
            assert!(!inside.contains('/'), "{record}");
            assert_eq!(name_of(inside).as_deref(), Some(name));
        }
    }
}
