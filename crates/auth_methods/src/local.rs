//! Names of another's users and groups that policies are given to here.
//!
//! A record is called by a folder and the name, with `%`, `/` and what is no printable ASCII as `%` and two digits: groups of
//! directories are called by any text.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Response};
use kallisto_engine::storage::Page;
use kallisto_engine::token_params::clean_policy_names;
use kallisto_engine::{Call, Storage};
use kallisto_ldap::text;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Which spellings are one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameCase {
    /// Those that differ in spaces.
    Kept,
    /// Those that differ in case or spaces.
    Folded,
}

impl NameCase {
    /// A name as it is kept and shown.
    pub(crate) fn spelled(self, name: &str) -> String {
        match self {
            Self::Kept => text::with_single_spaces(name),
            Self::Folded => text::canonical(name),
        }
    }
}

/// What is kept of a name besides its policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalGroups {
    /// Nothing: it is a group.
    Nothing,
    /// The groups of a user, shown as one text.
    Text,
    /// The groups of a user, shown as a list.
    List,
}

/// The names of one kind that a method gives policies to.
#[derive(Clone, Copy)]
pub(crate) struct LocalNames {
    /// Where they are in the storage of the mount, with its ending slash.
    pub(crate) folder: &'static str,
    pub(crate) groups: LocalGroups,
    /// Which spellings the mount takes for one name.
    pub(crate) case_of: fn(&Storage<'_>) -> Result<NameCase, Error>,
}

/// A user that is known here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalUser {
    pub(crate) policies: Vec<String>,
    pub(crate) groups: Vec<String>,
}

/// A name in a path as it is kept and shown; `None` for what is no name.
pub(crate) fn spelled(case: NameCase, given: &str) -> Option<String> {
    let name = case.spelled(given);
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    (is_name && !name.contains(char::is_control)).then_some(name)
}

/// The record of a name, without its folder.
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

fn decode(bytes: &[u8]) -> Option<LocalUser> {
    let map = json::parse_object(bytes).ok()?;
    let fields = Fields::new(&map);
    let policies = fields.strings("policies").ok()??;
    Some(LocalUser { policies, groups: fields.strings("groups").ok()?.unwrap_or_default() })
}

fn encode(user: &LocalUser) -> Vec<u8> {
    Json::object([
        ("groups", Json::strings(user.groups.iter().cloned())),
        ("policies", Json::strings(user.policies.iter().cloned())),
    ])
    .to_text()
}

impl LocalNames {
    /// The record of a name that is spelled.
    pub(crate) fn record(&self, name: &str) -> String {
        format!("{}{}", self.folder, record_inside(name))
    }

    /// What is kept of a name.
    pub(crate) fn find(
        &self,
        storage: &Storage<'_>,
        case: NameCase,
        name: &str,
    ) -> Result<Option<LocalUser>, Error> {
        let name = case.spelled(name);
        storage.get(&self.record(&name))?.map(|found| found.decode(decode)).transpose()
    }

    /// The name that a parameter of the path has, and its record.
    pub(crate) fn named(&self, run: &Call<'_>, param: &str) -> Result<(String, String), Error> {
        let name = spelled((self.case_of)(&run.storage)?, run.params.get(param));
        let name = name.ok_or(Error::UnsupportedPath)?;
        Ok((self.record(&name), name))
    }

    pub(crate) fn read(&self, run: &Call<'_>) -> Result<Response, Error> {
        let found = run.storage.get(&self.named(run, "name")?.0)?.ok_or(Error::NotFound)?;
        let user = found.decode(decode)?;
        let mut shown = Map::from([("policies".to_owned(), Json::strings(user.policies))]);
        let groups = match self.groups {
            LocalGroups::Nothing => None,
            LocalGroups::Text => Some(user.groups.join(",").into()),
            LocalGroups::List => Some(Json::strings(user.groups)),
        };
        if let Some(groups) = groups {
            shown.insert("groups".to_owned(), groups);
        }
        Ok(Response::data(&Json::Object(shown)))
    }

    pub(crate) async fn write(&self, run: &Call<'_>) -> Result<Response, Error> {
        let (record, _) = self.named(run, "name")?;
        let case = (self.case_of)(&run.storage)?;
        let body = run.request.object()?;
        let fields = Fields::new(&body);
        let policies = clean_policy_names(fields.strings("policies")?.unwrap_or_default())?;
        let groups = match self.groups {
            LocalGroups::Nothing => Vec::new(),
            LocalGroups::Text | LocalGroups::List => fields.strings("groups")?.unwrap_or_default(),
        };
        let groups = groups.iter().map(|name| case.spelled(name)).collect();
        run.storage.put(&record, encode(&LocalUser { policies, groups })).await?;
        Ok(Response::Empty)
    }

    pub(crate) async fn delete(&self, run: &Call<'_>, param: &str) -> Result<Response, Error> {
        run.storage.delete(&self.named(run, param)?.0).await?;
        Ok(Response::Empty)
    }

    pub(crate) fn list(&self, run: &Call<'_>) -> Result<Response, Error> {
        let page = run.page()?;
        // Records are listed in the order of their names, so that is where it goes on.
        let after = page.after.map(|name| record_inside(&name));
        let records = run.storage.list_page(self.folder, &Page { after, ..page })?;
        let names: Vec<String> = records.iter().filter_map(|record| name_of(record)).collect();
        if names.is_empty() {
            return Err(Error::NotFound);
        }
        Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_record_of_its_own() {
        for name in ["engineers", "all staff", "a/b", "100%", "%2f", "größe", "*()\\", "a,b=c"] {
            let record = record_inside(name);
            assert!(!record.contains('/'), "{record}");
            assert_eq!(name_of(&record).as_deref(), Some(name));
        }
    }
}
