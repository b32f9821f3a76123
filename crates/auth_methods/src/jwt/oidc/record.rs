//! The records of logins through a browser, in the storage of the mount.
//!
//! ```text
//! used/ID      {"ends"}                                             a state that a login was granted for
//! posted/ID    {"ends","id_token"}                                  what a provider posted, until the client comes with the state
//! request/ID   {"ends","device_code","interval"}                    a login by device
//! request/ID   {"ends","alias","groups","metadata","confirm"}       a login by direct callback, proven and not confirmed
//! request/ID   {"ends","alias","groups","metadata"}                 and confirmed
//! request/ID   {"ends","failed"}                                    or refused, with what its client is told
//! ```
//!
//! ID is the id of the login's [`LoginUnderWay`](super::state::LoginUnderWay). A record is of no use after it `ends`, in seconds since 1970, and is then
//! deleted by the clock.

use kallisto_api::{Error, Json, Map, json};
use kallisto_engine::{Storage, Stored, Transaction};

/// States that logins were granted for.
pub(in super::super) const USED: &str = "used/";
/// Tokens that were posted.
pub(super) const POSTED: &str = "posted/";
/// Logins that wait for somebody.
pub(super) const REQUEST: &str = "request/";

/// Whether a record is of a login on its way.
pub(in super::super) fn is_login(name: &str) -> bool {
    [USED, POSTED, REQUEST].iter().any(|folder| name.starts_with(folder))
}

/// When a record ends, in seconds since 1970; `None` for what is damaged.
pub(in super::super) fn end_of(value: &[u8]) -> Option<i64> {
    match json::parse_object(value).ok()?.get("ends")? {
        Json::Number(digits) => digits.parse().ok(),
        _ => None,
    }
}

/// A record, if it is there and has not ended.
///
/// # Errors
/// When it cannot be read.
pub(super) fn load(storage: &Storage<'_>, name: &str, now: i64) -> Result<Option<Map>, Error> {
    storage.get(name)?.map(|found| decode(&found, now)).transpose().map(Option::flatten)
}

/// The same within a transaction.
///
/// # Errors
/// When it cannot be read.
pub(super) fn get(
    transaction: &mut Transaction<'_>,
    name: &str,
    now: i64,
) -> Result<Option<Map>, Error> {
    transaction.get(name)?.map(|found| decode(&found, now)).transpose().map(Option::flatten)
}

fn decode(found: &Stored, now: i64) -> Result<Option<Map>, Error> {
    let map = found.object()?;
    let ends = found.decode(end_of)?;
    Ok((now < ends).then_some(map))
}

/// A record of these members.
pub(super) fn encode(
    ends: i64,
    members: impl IntoIterator<Item = (&'static str, Json)>,
) -> Vec<u8> {
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut map: Map = members.collect();
    map.insert("ends".to_owned(), ends.into());
    Json::Object(map).to_text()
}

/// A member that is a text; empty where there is none.
pub(super) fn text<'r>(record: &'r Map, name: &str) -> &'r str {
    record.get(name).and_then(Json::as_str).unwrap_or_default()
}
