//! Roles: what they say, and the routes that read and change them whole or by parts.

use super::import::ForeignKey;
use super::{Approle, ID_BYTES_MAX, no_role, role_for, role_record};
use kallisto_api::error::Error;
use kallisto_api::fields::{Fields, sorted_in_lower_case};
use kallisto_api::json::{self, Json, Map};
use kallisto_api::response::{Logical, Response};
use kallisto_engine::TokenParams;
use kallisto_engine::address::{AddressRange, RANGES_MAX};
use kallisto_engine::storage::Transaction;
use kallisto_engine::time::seconds;
use kallisto_engine::{Call, Random};

/// A role as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppRole {
    /// Under which its secret ids are.
    pub(super) uid: String,
    pub(super) role_id: String,
    pub(super) bind_secret_id: bool,
    pub(super) local_secret_ids: bool,
    pub(super) secret_id_bound_cidrs: Vec<AddressRange>,
    pub(super) secret_id_num_uses: i64,
    pub(super) secret_id_ttl_secs: u64,
    pub(super) params: TokenParams,
    /// Under which another server made HMACs of the secret ids that came from there.
    pub(super) foreign_key: Option<ForeignKey>,
}

impl AppRole {
    fn make(random: &dyn Random) -> Result<Self, Error> {
        Ok(Self {
            uid: random.make_uuid()?,
            role_id: random.make_uuid()?,
            bind_secret_id: true,
            local_secret_ids: false,
            secret_id_bound_cidrs: Vec::new(),
            secret_id_num_uses: 0,
            secret_id_ttl_secs: 0,
            params: TokenParams::default(),
            foreign_key: None,
        })
    }

    /// Applies the fields of a request that are there.
    fn update(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        self.take(fields)?;
        self.params.update(fields)?;
        self.check()
    }

    /// Applies the fields that are there and are not those of all login methods.
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        if let Some(bind) = fields.boolean("bind_secret_id")? {
            self.bind_secret_id = bind;
        }
        let ranges = match fields.strings("secret_id_bound_cidrs")? {
            None => fields.strings("bound_cidr_list")?,
            given => given,
        };
        if let Some(ranges) = ranges {
            self.secret_id_bound_cidrs = parse_blocks(&ranges)?;
        }
        if let Some(uses) = fields.int("secret_id_num_uses")? {
            if uses < 0 {
                return Err(Error::invalid("secret_id_num_uses cannot be negative"));
            }
            self.secret_id_num_uses = uses;
        }
        if let Some(ttl) = seconds(fields, "secret_id_ttl")? {
            self.secret_id_ttl_secs = ttl;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        let bound = !self.secret_id_bound_cidrs.is_empty() || !self.params.bound_cidrs.is_empty();
        if !self.bind_secret_id && !bound {
            return Err(Error::invalid("at least one constraint should be enabled on the role"));
        }
        Ok(())
    }

    /// The role as it is shown.
    fn to_map(&self) -> Map {
        let mut map = self.params.to_map();
        let blocks = match &self.secret_id_bound_cidrs[..] {
            [] => Json::Null,
            ranges => Json::strings(ranges.iter().map(|range| range.block_text())),
        };
        map.insert("bind_secret_id".into(), self.bind_secret_id.into());
        map.insert("local_secret_ids".into(), self.local_secret_ids.into());
        map.insert("secret_id_bound_cidrs".into(), blocks);
        map.insert("secret_id_num_uses".into(), self.secret_id_num_uses.into());
        map.insert("secret_id_ttl".into(), self.secret_id_ttl_secs.into());
        map
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut map = self.to_map();
        if let Some(key) = &self.foreign_key {
            map.insert("foreign_key".into(), key.expose().into());
        }
        map.insert("uid".into(), self.uid.as_str().into());
        map.insert("role_id".into(), self.role_id.as_str().into());
        Json::Object(map).to_text()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let mut role = Self {
            uid: map.get("uid")?.as_str()?.to_owned(),
            role_id: map.get("role_id")?.as_str()?.to_owned(),
            bind_secret_id: true,
            local_secret_ids: matches!(map.get("local_secret_ids"), Some(Json::Bool(true))),
            secret_id_bound_cidrs: Vec::new(),
            secret_id_num_uses: 0,
            secret_id_ttl_secs: 0,
            params: TokenParams::default(),
            foreign_key: match map.get("foreign_key") {
                Some(key) => Some(ForeignKey::parse(key.as_str()?)?),
                None => None,
            },
        };
        role.take(Fields::new(&map)).ok()?;
        role.params = TokenParams::decode(&map).ok()?;
        role.check().ok()?;
        Some(role)
    }
}

/// Reads ranges that must say how many of their bits count.
pub(super) fn parse_blocks(texts: &[String]) -> Result<Vec<AddressRange>, Error> {
    if texts.len() > RANGES_MAX {
        return Err(Error::invalid(format!("more than {RANGES_MAX} CIDR blocks")));
    }
    let parse = |text: &String| {
        let range = AddressRange::parse(text).filter(|_| text.contains('/'));
        range.ok_or_else(|| {
            Error::invalid(format!("failed to validate CIDR blocks: invalid CIDR address: {text}"))
        })
    };
    texts.iter().map(parse).collect()
}

/// A part of a role with a route of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RolePart {
    /// The field, and what it was called before.
    pub(super) fields: &'static [&'static str],
    /// What it is without a value, as JSON.
    pub(super) unset: &'static str,
}

impl RolePart {
    pub(super) const POLICIES: Self = Self { fields: &["token_policies", "policies"], unset: "[]" };
    pub(super) const TOKEN_TTL: Self = Self { fields: &["token_ttl"], unset: "0" };
    pub(super) const TOKEN_MAX_TTL: Self = Self { fields: &["token_max_ttl"], unset: "0" };
    pub(super) const TOKEN_NUM_USES: Self = Self { fields: &["token_num_uses"], unset: "0" };
    pub(super) const TOKEN_BOUND_CIDRS: Self = Self { fields: &["token_bound_cidrs"], unset: "[]" };
    pub(super) const PERIOD: Self = Self { fields: &["token_period", "period"], unset: "0" };
    pub(super) const BIND_SECRET_ID: Self = Self { fields: &["bind_secret_id"], unset: "true" };
    pub(super) const SECRET_ID_NUM_USES: Self =
        Self { fields: &["secret_id_num_uses"], unset: "0" };
    pub(super) const SECRET_ID_TTL: Self = Self { fields: &["secret_id_ttl"], unset: "0" };
    pub(super) const SECRET_ID_BOUND_CIDRS: Self =
        Self { fields: &["secret_id_bound_cidrs"], unset: "[]" };
    pub(super) const BOUND_CIDR_LIST: Self = Self { fields: &["bound_cidr_list"], unset: "[]" };
    /// What a role is made with, and never changed.
    pub(super) const LOCAL_SECRET_IDS: Self = Self { fields: &["local_secret_ids"], unset: "" };
    /// Those that can be changed once the role is made.
    #[cfg(test)]
    const CHANGING: [Self; 11] = [
        Self::POLICIES,
        Self::TOKEN_TTL,
        Self::TOKEN_MAX_TTL,
        Self::TOKEN_NUM_USES,
        Self::TOKEN_BOUND_CIDRS,
        Self::PERIOD,
        Self::BIND_SECRET_ID,
        Self::SECRET_ID_NUM_USES,
        Self::SECRET_ID_TTL,
        Self::SECRET_ID_BOUND_CIDRS,
        Self::BOUND_CIDR_LIST,
    ];
}

impl Approle<'_> {
    fn expect_role(&self, name: &str) -> Result<AppRole, Error> {
        self.role(name)?.ok_or(Error::NotFound)
    }

    pub(super) fn read(&self, name: &str) -> Result<Response, Error> {
        let role = self.expect_role(name)?;
        Ok(Response::data(&Json::Object(role.to_map())))
    }

    pub(super) async fn write(&self, call: &Call<'_>, name: &str) -> Result<Response, Error> {
        let mut body = call.request.object()?;
        let warnings = replace_token_type(&mut body);
        let fields = Fields::new(&body);
        let role_id = given_role_id(fields)?;
        let changing = self.change(name, |found| {
            let mut role = match found {
                Some(role) => role.clone(),
                None => {
                    let mut role = AppRole::make(self.0.random)?;
                    role.local_secret_ids = fields.boolean("local_secret_ids")?.unwrap_or(false);
                    role
                }
            };
            if found.is_some()
                && fields.boolean("local_secret_ids")?.is_some_and(|it| it != role.local_secret_ids)
            {
                return Err(Error::invalid(
                    "local_secret_ids can only be modified during role creation",
                ));
            }
            if let Some(role_id) = &role_id {
                role.role_id.clone_from(role_id);
            }
            role.update(fields)?;
            Ok(role)
        });
        let done = changing.await?;
        if warnings.is_empty() {
            return Ok(done);
        }
        Ok(Response::Logical(Logical { warnings, ..Logical::default() }))
    }

    /// Replaces a role by what `decide` makes of it, and keeps the way from its role id.
    async fn change(
        &self,
        name: &str,
        mut decide: impl FnMut(Option<&AppRole>) -> Result<AppRole, Error> + Send,
    ) -> Result<Response, Error> {
        let record = role_record(name);
        let changing = self.storage().transact(&record, |transaction| {
            let old = role_for(transaction, name)?;
            let role = decide(old.as_ref())?;
            if old.as_ref().is_none_or(|old| old.role_id != role.role_id) {
                self.move_role_id(transaction, name, old.as_ref(), &role)?;
            }
            transaction.put(&record, role.encode())
        });
        changing.await.map(|()| Response::Empty)
    }

    fn move_role_id(
        &self,
        transaction: &mut Transaction<'_>,
        name: &str,
        old: Option<&AppRole>,
        new: &AppRole,
    ) -> Result<(), Error> {
        let record = self.role_id_record(&new.role_id)?;
        if transaction.get(&record)?.is_some() {
            return Err(Error::invalid("role_id already in use"));
        }
        transaction.put(&record, name.as_bytes().to_vec())?;
        if let Some(old) = old {
            transaction.delete(&self.role_id_record(&old.role_id)?)?;
        }
        Ok(())
    }

    pub(super) async fn delete(&self, name: &str) -> Result<Response, Error> {
        let record = role_record(name);
        let deleting = self.storage().transact(&record, |transaction| {
            let Some(role) = role_for(transaction, name)? else { return Ok(None) };
            transaction.delete(&record)?;
            transaction.delete(&self.role_id_record(&role.role_id)?)?;
            Ok(Some(role))
        });
        let gone = deleting.await?;
        // From here on nobody logs in; what is left over after a crash, the sweep finds.
        if let Some(role) = gone {
            self.forget(&role.uid).await?;
        }
        Ok(Response::Empty)
    }

    /// Deletes all secret ids below a uid.
    pub(super) async fn forget(&self, uid: &str) -> Result<(), Error> {
        // There may be more of them than a list returns.
        self.storage().delete_below(&format!("secret/{uid}/")).await?;
        self.storage().delete_below(&format!("accessor/{uid}/")).await
    }

    pub(super) fn read_role_id(&self, name: &str) -> Result<Response, Error> {
        let role = self.expect_role(name)?;
        Ok(Response::data(&Json::object([("role_id", role.role_id.into())])))
    }

    pub(super) async fn write_role_id(
        &self,
        call: &Call<'_>,
        name: &str,
    ) -> Result<Response, Error> {
        let body = call.request.object()?;
        let role_id = given_role_id(Fields::new(&body))?;
        let role_id = role_id.ok_or_else(|| Error::invalid("missing role_id"))?;
        self.change(name, |found| {
            let role = found.ok_or_else(|| no_role(name))?.clone();
            Ok(AppRole { role_id: role_id.clone(), ..role })
        })
        .await
    }

    pub(super) fn read_part(&self, name: &str, part: RolePart) -> Result<Response, Error> {
        let role = self.expect_role(name)?;
        let mut map = role.to_map();
        let mut warnings = Vec::new();
        if part == RolePart::BOUND_CIDR_LIST {
            let blocks = map.get("secret_id_bound_cidrs").cloned().unwrap_or(Json::Null);
            map.insert("bound_cidr_list".into(), blocks);
            warnings.push(
                "The \"bound_cidr_list\" field is deprecated and will be removed. Please use \
                 \"secret_id_bound_cidrs\" instead."
                    .to_owned(),
            );
        }
        map.retain(|field, _| part.fields.contains(&field.as_str()));
        let data = Json::Object(map).to_text();
        Ok(Response::Logical(Logical { data, warnings, ..Logical::default() }))
    }

    pub(super) async fn write_part(
        &self,
        call: &Call<'_>,
        name: &str,
        part: RolePart,
    ) -> Result<Response, Error> {
        let mut body = call.request.object()?;
        body.retain(|field, _| part.fields.contains(&field.as_str()));
        if body.is_empty() {
            return Err(Error::invalid(format!("missing {}", part.fields[0])));
        }
        self.change_part(name, &body).await
    }

    pub(super) async fn reset_part(&self, name: &str, part: RolePart) -> Result<Response, Error> {
        if self.role(name)?.is_none() {
            return Ok(Response::Empty);
        }
        let unset = json::parse(part.unset.as_bytes());
        let unset = unset.map_err(|_| Error::internal(&"a part of a role has no default"))?;
        self.change_part(name, &Map::from([(part.fields[0].to_owned(), unset)])).await
    }

    async fn change_part(&self, name: &str, fields: &Map) -> Result<Response, Error> {
        self.change(name, |found| {
            let mut role = found.ok_or_else(|| no_role(name))?.clone();
            role.update(Fields::new(fields))?;
            // Policies that come alone are kept in their one spelling; with a whole role, as they came.
            if RolePart::POLICIES.fields.iter().any(|name| fields.contains_key(*name)) {
                role.params.policies = sorted_in_lower_case(&role.params.policies);
            }
            Ok(role)
        })
        .await
    }
}

/// Older clients send a mount's default as the `token_type` of a role: the kind that it names is
/// meant, and they are told so. Other methods refuse it.
fn replace_token_type(body: &mut Map) -> Vec<String> {
    let kind = match body.get("token_type").and_then(Json::as_str) {
        Some("default-service") => "service",
        Some("default-batch") => "batch",
        _ => return Vec::new(),
    };
    body.insert("token_type".to_owned(), kind.into());
    vec![format!("default-{kind} has no useful meaning; adjusting to {kind}")]
}

fn given_role_id(fields: Fields<'_>) -> Result<Option<String>, Error> {
    let given = fields.string("role_id")?.map(|id| id.trim().to_owned());
    let given = given.filter(|id| !id.is_empty());
    if given.as_ref().is_some_and(|id| id.len() > ID_BYTES_MAX) {
        return Err(Error::invalid(format!("role_id is over {ID_BYTES_MAX} bytes")));
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of zero: what is drawn does not matter here.
    struct Zeros;

    impl Random for Zeros {
        fn fill(&self, _: &mut [u8]) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn a_role_reads_back_and_every_part_has_a_default() {
        let body = json::parse_object(
            br#"{"secret_id_bound_cidrs":"10.0.0.7/8","secret_id_num_uses":2,"policies":"p",
                "secret_id_ttl":"1h","bind_secret_id":false,"token_ttl":60}"#,
        );
        let mut role = AppRole::make(&Zeros).unwrap();
        role.update(Fields::new(&body.unwrap())).unwrap();
        assert_eq!(AppRole::decode(&role.encode()), Some(role.clone()));
        role.foreign_key = ForeignKey::parse("key");
        assert_eq!(AppRole::decode(&role.encode()), Some(role.clone()));
        assert!(!role.to_map().contains_key("foreign_key"), "it is stored, and shown to nobody");
        assert!(AppRole::decode(b"{}").is_none());
        // Its last constraint cannot be taken off.
        for part in RolePart::CHANGING {
            let unset = json::parse(part.unset.as_bytes()).unwrap();
            let fields = Map::from([(part.fields[0].to_owned(), unset)]);
            let outcome = role.clone().update(Fields::new(&fields));
            let refused =
                [RolePart::SECRET_ID_BOUND_CIDRS, RolePart::BOUND_CIDR_LIST].contains(&part);
            assert_eq!(outcome.is_err(), refused, "{part:?}");
        }
    }
}
