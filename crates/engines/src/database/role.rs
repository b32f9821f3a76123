//! Roles: how users are made at a database, and for how long.

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields, Logical, Response};
use kallisto_engine::{Call, EngineContext, Stored};

use super::connection::{self, Plugin, span_secs};
use super::credential::{self, CredentialPlan, credential_type};
use super::statements::statements;
use super::static_role;
use super::work::redis_rules;

/// A role.
#[derive(Clone, Default)]
pub(super) struct DatabaseRole {
    pub(super) db_name: String,
    pub(super) creation: Vec<String>,
    pub(super) revocation: Vec<String>,
    pub(super) rollback: Vec<String>,
    pub(super) renew: Vec<String>,
    pub(super) default_secs: u64,
    pub(super) max_secs: u64,
    pub(super) credential_type: String,
    pub(super) credential_config: Map,
}

pub(super) fn record_name(name: &str) -> String {
    format!("role/{name}")
}

impl DatabaseRole {
    fn read(fields: Fields<'_>, before: Self) -> Result<Self, Error> {
        let list = |name: &str, before: Vec<String>| {
            Ok::<_, Error>(statements(fields, name)?.unwrap_or(before))
        };
        let secs = |name: &str, before: u64| match fields.raw(name) {
            None | Some(Json::Null) => Ok(before),
            Some(_) => span_secs(fields, name),
        };
        Ok(Self {
            db_name: fields.string("db_name")?.unwrap_or(before.db_name),
            creation: list("creation_statements", before.creation)?,
            revocation: list("revocation_statements", before.revocation)?,
            rollback: list("rollback_statements", before.rollback)?,
            renew: list("renew_statements", before.renew)?,
            default_secs: secs("default_ttl", before.default_secs)?,
            max_secs: secs("max_ttl", before.max_secs)?,
            credential_type: fields.string("credential_type")?.unwrap_or(before.credential_type),
            credential_config: match fields.pairs("credential_config")? {
                Some(given) => credential::with_key_before(given, &before.credential_config),
                None => before.credential_config,
            },
        })
    }

    pub(super) fn decode(stored: &Stored) -> Result<Self, Error> {
        stored.decode_object(|map| Self::read(Fields::new(map), Self::default()))
    }

    fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_map(&self.credential_config)).to_text()
    }

    /// What is shown of it: all but keys.
    fn shown(&self) -> Json {
        Json::Object(
            self.to_map(&credential::shown(&self.credential_type, &self.credential_config)),
        )
    }

    fn to_map(&self, credential_config: &Map) -> Map {
        let list = |statements: &[String]| Json::strings(statements.iter().cloned());
        let mut shown = Map::new();
        shown.insert("creation_statements".into(), list(&self.creation));
        shown.insert("credential_type".into(), self.credential_type.as_str().into());
        shown.insert("db_name".into(), self.db_name.as_str().into());
        shown.insert("default_ttl".into(), self.default_secs.into());
        shown.insert("max_ttl".into(), self.max_secs.into());
        shown.insert("renew_statements".into(), list(&self.renew));
        shown.insert("revocation_statements".into(), list(&self.revocation));
        shown.insert("rollback_statements".into(), list(&self.rollback));
        if !credential_config.is_empty() {
            shown.insert("credential_config".into(), Json::Object(credential_config.clone()));
        }
        shown
    }
}

/// The role of a name.
pub(super) fn find(context: &EngineContext<'_>, name: &str) -> Result<Option<DatabaseRole>, Error> {
    let record = context.storage.get(&record_name(name))?;
    record.map(|record| DatabaseRole::decode(&record)).transpose()
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let key = record_name(name);
    let other = static_role::record_name(name);
    let role = call.storage.transact(&key, |transaction| {
        if transaction.get(&other)?.is_some() {
            return Err(Error::invalid("Role and Static Role names must be unique"));
        }
        let before = match transaction.get(&key)? {
            Some(record) => DatabaseRole::decode(&record)?,
            None => DatabaseRole::default(),
        };
        let mut role = DatabaseRole::read(fields, before)?;
        if role.db_name.is_empty() {
            return Err(Error::invalid("database name is required"));
        }
        role.credential_type = credential_type(&role.credential_type)?;
        CredentialPlan::read(&role.credential_type, &role.credential_config)?;
        let known = credential::config_fields(&role.credential_type);
        role.credential_config.retain(|name, _| known.contains(&name.as_str()));
        if role.max_secs > 0 && role.default_secs > role.max_secs {
            return Err(Error::invalid("default_ttl is longer than max_ttl"));
        }
        transaction.put(&key, role.encode())?;
        Ok(role)
    });
    let role = role.await?;
    let mut warnings = warnings(&call, &role);
    let given = fields.pairs("credential_config")?.unwrap_or_default();
    let known = credential::config_fields(&role.credential_type);
    let unknown = given.keys().filter(|name| !known.contains(&name.as_str()));
    warnings.extend(unknown.map(|name| {
        let of = &role.credential_type;
        format!("credential_config of type {of} has no field {name:?}: it is not kept")
    }));
    if warnings.is_empty() {
        return Ok(Response::Empty);
    }
    Ok(Response::Logical(Logical { warnings, ..Logical::default() }))
}

/// What will not work as it stands, and may be on its way.
fn warnings(call: &Call<'_>, role: &DatabaseRole) -> Vec<String> {
    let mut warnings = Vec::new();
    match connection::find(call, &role.db_name) {
        Err(_) => warnings.push(format!("there is no connection {:?} yet", role.db_name)),
        Ok(connection) => {
            if connection.plugin == Plugin::Redis
                && let Err(error) = redis_rules(&role.creation)
            {
                warnings.push(error.to_string());
            }
            if connection.plugin == Plugin::Redis && role.credential_type != "password" {
                warnings.push(format!(
                    "users of Redis log in with passwords: no credentials of type {:?} are made",
                    role.credential_type
                ));
            }
        }
    }
    warnings
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let role = find(&call, name)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&role.shown()))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("role/")
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    call.storage.delete(&record_name(name)).await?;
    Ok(Response::Empty)
}
