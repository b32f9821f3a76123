//! The policies of teams and of people.
//!
//! A name is called as it is in [`crate::local`], in any case; what it maps to is a text of policies with commas between, shown as it was
//! given. What `default` maps to everybody has.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields, Logical, Response};
use kallisto_engine::pattern::Params;
use kallisto_engine::token_params::clean_policy_names;
use kallisto_engine::{Call, Storage};

use crate::local::{LocalGroups, LocalNames, NameCase, spelled};

/// The name that everybody has.
const EVERYBODY: &str = "default";

/// One of the two mappings.
#[derive(Clone, Copy)]
pub(super) struct PolicyMapping(LocalNames);

const fn mapping(folder: &'static str) -> PolicyMapping {
    let case_of = |_: &Storage<'_>| Ok(NameCase::Folded);
    PolicyMapping(LocalNames { folder, groups: LocalGroups::Nothing, case_of })
}

/// By teams.
pub(super) const TEAMS: PolicyMapping = mapping("map/teams/");
/// By people.
pub(super) const USERS: PolicyMapping = mapping("map/users/");

/// The text that a record has.
fn decode(bytes: &[u8]) -> Option<String> {
    json::parse_object(bytes).ok()?.get("value")?.as_str().map(str::to_owned)
}

/// The policies of a text.
fn policies_of(value: &str) -> Result<Vec<String>, Error> {
    clean_policy_names(value.split(',').map(|name| name.trim().to_owned()).collect())
}

impl PolicyMapping {
    /// The policies of whoever goes by these names.
    pub(super) fn policies(
        self,
        storage: &Storage<'_>,
        names: &[String],
    ) -> Result<Vec<String>, Error> {
        let mut policies = Vec::new();
        for name in names.iter().map(String::as_str).chain([EVERYBODY]) {
            let record = self.0.record(&NameCase::Folded.spelled(name));
            if let Some(found) = storage.get(&record)? {
                policies.extend(policies_of(&found.decode(decode)?)?);
            }
        }
        Ok(policies)
    }

    /// The record of the name that a path has.
    pub(super) fn record(self, params: Params<'_>) -> Option<String> {
        Some(self.0.record(&spelled(NameCase::Folded, params.get("key"))?))
    }

    /// Shows what a name maps to; of one that maps to nothing, nothing, as Vault does.
    pub(super) fn read(self, run: &Call<'_>) -> Result<Response, Error> {
        let (record, name) = self.0.named(run, "key")?;
        let Some(found) = run.storage.get(&record)? else {
            return Ok(Response::Logical(Logical::default()));
        };
        let value = found.decode(decode)?;
        Ok(Response::data(&Json::object([("key", name.into()), ("value", value.into())])))
    }

    pub(super) async fn write(self, run: &Call<'_>) -> Result<Response, Error> {
        let (record, _) = self.0.named(run, "key")?;
        let body = run.request.object()?;
        let fields = Fields::new(&body);
        let value = match fields.raw("value") {
            Some(Json::Array(_)) => fields.strings("value")?.unwrap_or_default().join(","),
            _ => fields.string("value")?.unwrap_or_default(),
        };
        policies_of(&value)?;
        let record_map = Map::from([("value".to_owned(), value.into())]);
        run.storage.put(&record, Json::Object(record_map).to_text()).await?;
        Ok(Response::Empty)
    }

    pub(super) async fn delete(self, run: &Call<'_>) -> Result<Response, Error> {
        self.0.delete(run, "key").await
    }

    pub(super) fn list(self, run: &Call<'_>) -> Result<Response, Error> {
        self.0.list(run)
    }
}
