//! Token roles: what tokens made through one may be.

use kallisto_store::Batch;

use super::create::{clean_names, names_json, seconds};
use super::kind::TokenType;
use crate::address::{self, AddressRange};
use crate::error::Error;
use crate::fields::Fields;
use crate::json::{self, Json, Map};
use crate::keys;
use crate::response::Response;
use crate::state::{Call, Unsealed};

/// Longest name of a role, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Most entity aliases a role may allow.
const ALIASES_MAX: usize = 256;

/// A role as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) allowed_policies: Vec<String>,
    pub(crate) disallowed_policies: Vec<String>,
    pub(crate) allowed_policies_glob: Vec<String>,
    pub(crate) disallowed_policies_glob: Vec<String>,
    pub(crate) orphan: bool,
    pub(crate) renewable: bool,
    pub(crate) no_default_policy: bool,
    pub(crate) path_suffix: String,
    pub(crate) period_secs: u64,
    pub(crate) explicit_max_ttl_secs: u64,
    pub(crate) num_uses: i64,
    pub(crate) token_type: TokenType,
    pub(crate) bound_cidrs: Vec<AddressRange>,
    pub(crate) allowed_entity_aliases: Vec<String>,
}

impl Role {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            allowed_policies: Vec::new(),
            disallowed_policies: Vec::new(),
            allowed_policies_glob: Vec::new(),
            disallowed_policies_glob: Vec::new(),
            orphan: false,
            renewable: true,
            no_default_policy: false,
            path_suffix: String::new(),
            period_secs: 0,
            explicit_max_ttl_secs: 0,
            num_uses: 0,
            token_type: TokenType::DefaultService,
            bound_cidrs: Vec::new(),
            allowed_entity_aliases: Vec::new(),
        }
    }

    /// Refuses policies that the role does not let through.
    ///
    /// # Errors
    /// [`Error::Invalid`] in the words of the contract.
    pub(super) fn check(&self, policies: &[String]) -> Result<(), Error> {
        let listed = |names: &[String], globs: &[String], name: &String| {
            names.contains(name) || globs.iter().any(|glob| matches(glob, name))
        };
        let limited = !self.allowed_policies.is_empty() || !self.allowed_policies_glob.is_empty();
        let allowed = |name: &String| {
            name == kallisto_auth::policy::DEFAULT_NAME
                || listed(&self.allowed_policies, &self.allowed_policies_glob, name)
        };
        if limited && !policies.iter().all(allowed) {
            return Err(Error::invalid(format!(
                "token policies ({policies:?}) must be subset of the role's allowed policies ({:?})",
                self.allowed_policies
            )));
        }
        let refused = |name: &&String| {
            listed(&self.disallowed_policies, &self.disallowed_policies_glob, name)
        };
        match policies.iter().find(refused) {
            Some(name) => {
                Err(Error::invalid(format!("token policy \"{name}\" is disallowed by this role")))
            }
            None => Ok(()),
        }
    }

    /// Whether its tokens may be made for the entity with this alias.
    pub(super) fn allows_alias(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.allowed_entity_aliases.iter().any(|glob| matches(glob, &name))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_map()).to_text()
    }

    /// Reads a record back; `None` when the bytes are no role.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let mut role = Self::new(map.get("name")?.as_str()?);
        role.update(Fields::new(&map)).ok()?;
        Some(role)
    }

    /// Applies the fields that are there.
    fn update(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        for (name, list) in [
            ("allowed_policies", &mut self.allowed_policies),
            ("disallowed_policies", &mut self.disallowed_policies),
        ] {
            if let Some(names) = fields.strings(name)? {
                *list = clean_names(names)?;
            }
        }
        for (name, list) in [
            ("allowed_policies_glob", &mut self.allowed_policies_glob),
            ("disallowed_policies_glob", &mut self.disallowed_policies_glob),
        ] {
            if let Some(globs) = fields.strings(name)? {
                *list = globs.into_iter().map(|glob| glob.to_lowercase()).collect();
            }
        }
        for (name, flag) in [
            ("orphan", &mut self.orphan),
            ("renewable", &mut self.renewable),
            ("token_no_default_policy", &mut self.no_default_policy),
        ] {
            if let Some(value) = fields.boolean(name)? {
                *flag = value;
            }
        }
        if let Some(suffix) = fields.string("path_suffix")? {
            self.path_suffix = suffix;
        }
        for (names, secs) in [
            (["token_period", "period"], &mut self.period_secs),
            (["token_explicit_max_ttl", "explicit_max_ttl"], &mut self.explicit_max_ttl_secs),
        ] {
            for name in names {
                if fields.raw(name).is_some() {
                    *secs = seconds(fields, name)?;
                    break;
                }
            }
        }
        if let Some(uses) = fields.int("token_num_uses")? {
            if uses < 0 {
                return Err(Error::invalid("number of uses cannot be negative"));
            }
            self.num_uses = uses;
        }
        for name in ["token_bound_cidrs", "bound_cidrs"] {
            if let Some(ranges) = fields.strings(name)? {
                self.bound_cidrs = address::parse_all(&ranges)?;
                break;
            }
        }
        if let Some(names) = fields.strings("allowed_entity_aliases")? {
            if names.len() > ALIASES_MAX {
                return Err(Error::invalid(format!("more than {ALIASES_MAX} entity aliases")));
            }
            // Aliases are compared in lower case, as policies are.
            self.allowed_entity_aliases = names.iter().map(|name| name.to_lowercase()).collect();
        }
        if let Some(name) = fields.string("token_type")? {
            self.token_type = match TokenType::parse(&name)? {
                TokenType::Default => TokenType::DefaultService,
                given => given,
            };
        }
        self.check_type()
    }

    /// Refuses a role whose tokens could not be batch tokens.
    fn check_type(&self) -> Result<(), Error> {
        if self.token_type != TokenType::Batch {
            return Ok(());
        }
        let refused = [
            (!self.orphan, "non-orphan"),
            (self.period_secs > 0, "periodic"),
            (self.renewable, "renewable"),
        ];
        match refused.into_iter().find(|(refused, _)| *refused) {
            Some((_, what)) => Err(Error::invalid(format!(
                "'token_type' cannot be 'batch' when role is set to generate {what} tokens"
            ))),
            None => Ok(()),
        }
    }

    fn to_map(&self) -> Map {
        [
            ("allowed_entity_aliases", names_json(&self.allowed_entity_aliases)),
            ("allowed_policies", names_json(&self.allowed_policies)),
            ("allowed_policies_glob", names_json(&self.allowed_policies_glob)),
            ("disallowed_policies", names_json(&self.disallowed_policies)),
            ("disallowed_policies_glob", names_json(&self.disallowed_policies_glob)),
            ("explicit_max_ttl", self.explicit_max_ttl_secs.into()),
            ("name", self.name.as_str().into()),
            ("orphan", self.orphan.into()),
            ("path_suffix", self.path_suffix.as_str().into()),
            ("period", self.period_secs.into()),
            ("renewable", self.renewable.into()),
            ("token_bound_cidrs", address::shown(&self.bound_cidrs)),
            ("token_explicit_max_ttl", self.explicit_max_ttl_secs.into()),
            ("token_no_default_policy", self.no_default_policy.into()),
            ("token_num_uses", self.num_uses.into()),
            ("token_period", self.period_secs.into()),
            ("token_type", self.token_type.name().into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// A glob of policy names: `*` at the start or at the end.
fn matches(glob: &str, name: &str) -> bool {
    match (glob.strip_prefix('*'), glob.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(glob.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == glob,
    }
}

/// The role called `name`.
///
/// # Errors
/// When its record cannot be read.
pub(super) fn load(unsealed: &Unsealed, name: &str) -> Result<Option<Role>, Error> {
    let Some(record) = unsealed.store.get(&keys::token_role(name))? else { return Ok(None) };
    let role = Role::decode(&record.value);
    role.map(Some).ok_or_else(|| Error::internal(&"a token role is damaged"))
}

pub(super) async fn write(
    unsealed: &Unsealed,
    call: &Call<'_, '_>,
    name: &str,
) -> Result<Response, Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('/') {
        return Err(Error::invalid(format!(
            "a role's name has 1 to {NAME_BYTES_MAX} bytes and no '/'"
        )));
    }
    let body = call.object()?;
    let key = keys::token_role(name);
    let _latch = unsealed.latches.hold(&key).await;
    let mut role = load(unsealed, name)?.unwrap_or_else(|| Role::new(name));
    role.update(Fields::new(&body))?;
    let mut batch = Batch::new();
    batch.put(key, role.encode());
    unsealed.store.commit(batch).await?;
    Ok(Response::Empty)
}

pub(super) fn read(unsealed: &Unsealed, name: &str) -> Result<Response, Error> {
    let role = load(unsealed, name)?.ok_or(Error::NotFound)?;
    Ok(Response::data(&Json::Object(role.to_map())))
}

pub(super) async fn delete(unsealed: &Unsealed, name: &str) -> Result<Response, Error> {
    let mut batch = Batch::new();
    batch.delete(keys::token_role(name));
    unsealed.store.commit(batch).await?;
    Ok(Response::Empty)
}

pub(super) fn list(unsealed: &Unsealed) -> Result<Response, Error> {
    let names = unsealed.view.token_roles.names();
    if names.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(Response::data(&Json::object([("keys", Json::strings(names))])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_reads_back_and_lets_through_what_it_says() {
        let body = br#"{"allowed_policies":"App, web","disallowed_policies_glob":["adm*"],
            "token_period":"1h","orphan":true,"renewable":"false"}"#;
        let map = json::parse_object(body).unwrap();
        let mut role = Role::new("r");
        role.update(Fields::new(&map)).unwrap();
        assert_eq!(Role::decode(&role.encode()), Some(role.clone()));
        assert_eq!(role.allowed_policies, ["app", "web"]);
        assert_eq!(role.period_secs, 3600);
        assert!(role.orphan && !role.renewable);
        assert!(role.check(&["app".into(), "default".into()]).is_ok());
        assert!(role.check(&["db".into()]).is_err());
        role.allowed_policies.clear();
        assert!(role.check(&["admin".into()]).is_err());
        assert!(role.check(&["db".into()]).is_ok());
    }
}
