//! Secret ids: made, looked up, spent and destroyed.

use data_encoding::BASE64;
use jiff::Timestamp;
use kallisto_engine::route::Operation;

use super::role::{AppRole, parse_blocks};
use super::{Approle, ID_BYTES_MAX, WRONG, no_role, role_for, source};
use kallisto_api::error::Error;
use kallisto_api::expected::Expected;
use kallisto_api::fields::{Fields, scalar_text};
use kallisto_api::json::{self, Json, Map};
use kallisto_api::request::Request;
use kallisto_api::response::{Logical, Response};
use kallisto_engine::Call;
use kallisto_engine::address::{self, AddressRange};
use kallisto_engine::storage::{Stored, Transaction};
use kallisto_engine::time::{after, seconds};

/// Most fields of metadata on a secret id.
const METADATA_FIELDS_MAX: usize = 64;
/// What stands for a time that never comes.
pub(super) const NEVER: &str = "0001-01-01T00:00:00Z";

/// A secret id as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretId {
    pub(super) accessor: String,
    /// Logins left; 0 for any number.
    pub(super) num_uses: i64,
    pub(super) ttl_secs: u64,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) metadata: Map,
    pub(super) cidr_list: Vec<AddressRange>,
    pub(super) token_bound_cidrs: Vec<AddressRange>,
}

impl SecretId {
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// The secret id as a lookup shows it, and as it is stored.
    fn to_map(&self) -> Map {
        let time = |at: Timestamp| Json::from(at.to_string());
        let blocks = self.cidr_list.iter().map(|range| range.block_text());
        [
            ("cidr_list", Json::strings(blocks)),
            ("creation_time", time(self.created_at)),
            ("expiration_time", self.expires_at.map_or_else(|| NEVER.into(), time)),
            ("last_updated_time", time(self.updated_at)),
            ("metadata", self.metadata.clone().into()),
            ("secret_id_accessor", self.accessor.as_str().into()),
            ("secret_id_num_uses", self.num_uses.into()),
            ("secret_id_ttl", self.ttl_secs.into()),
            ("token_bound_cidrs", address::shown(&self.token_bound_cidrs)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn encode(&self) -> Vec<u8> {
        Json::Object(self.to_map()).to_text()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let fields = Fields::new(&map);
        let time = |name: &str| map.get(name)?.as_str()?.parse::<Timestamp>().ok();
        Some(Self {
            accessor: map.get("secret_id_accessor")?.as_str()?.to_owned(),
            num_uses: fields.int("secret_id_num_uses").ok()??,
            ttl_secs: seconds(fields, "secret_id_ttl").ok()??,
            created_at: time("creation_time")?,
            updated_at: time("last_updated_time")?,
            expires_at: match map.get("expiration_time")?.as_str()? {
                NEVER => None,
                _ => Some(time("expiration_time")?),
            },
            metadata: map.get("metadata")?.as_object()?.clone(),
            cidr_list: address::stored(&map, "cidr_list")?,
            token_bound_cidrs: address::stored(&map, "token_bound_cidrs")?,
        })
    }
}

pub(super) fn secret_record(uid: &str, hash: &str) -> String {
    format!("secret/{uid}/{hash}")
}

pub(super) fn accessor_record(uid: &str, accessor: &str) -> String {
    format!("accessor/{uid}/{accessor}")
}

/// Seconds are written with as many digits as it takes to sort them.
pub(super) fn due_record(end: Timestamp, uid: &str, hash: &str) -> String {
    format!("due/{:012}/{uid}/{hash}", end.as_second().max(0))
}

/// What a new secret id is asked to be, within what its role and the mount allow: one that ends, ends within the mount's longest lease.
fn plan(
    role: &AppRole,
    fields: Fields<'_>,
    mount_max_secs: u64,
    (now, accessor): (Timestamp, String),
) -> Result<SecretId, Error> {
    let num_uses = match fields.int("num_uses")? {
        None => role.secret_id_num_uses,
        Some(uses) if uses < 0 => return Err(Error::invalid("num_uses cannot be negative")),
        Some(uses)
            if role.secret_id_num_uses > 0 && (uses == 0 || uses > role.secret_id_num_uses) =>
        {
            return Err(Error::invalid(
                "num_uses cannot be higher than the role's secret_id_num_uses",
            ));
        }
        Some(uses) => uses,
    };
    let ttl_secs = match seconds(fields, "ttl")? {
        None => role.secret_id_ttl_secs,
        Some(ttl) if role.secret_id_ttl_secs > 0 && (ttl == 0 || ttl > role.secret_id_ttl_secs) => {
            return Err(Error::invalid("ttl cannot be longer than the role's secret_id_ttl"));
        }
        Some(ttl) => ttl,
    };
    let ttl_secs = ttl_secs.min(mount_max_secs);
    let (cidr_list, token_bound_cidrs) = bounds(role, fields)?;
    Ok(SecretId {
        accessor,
        num_uses,
        ttl_secs,
        created_at: now,
        updated_at: now,
        expires_at: (ttl_secs > 0).then(|| after(now, ttl_secs)),
        metadata: metadata(fields)?,
        cidr_list,
        token_bound_cidrs,
    })
}

/// From where a secret id may log in, and its tokens may be used: within what its role allows.
pub(super) fn bounds(
    role: &AppRole,
    fields: Fields<'_>,
) -> Result<(Vec<AddressRange>, Vec<AddressRange>), Error> {
    let cidr_list = parse_blocks(&fields.strings("cidr_list")?.unwrap_or_default())?;
    check_within("secret ID", &role.secret_id_bound_cidrs, &cidr_list)?;
    let bound = fields.strings("token_bound_cidrs")?.unwrap_or_default();
    let token_bound_cidrs = address::parse_all(&bound)?;
    check_within("token", &role.params.bound_cidrs, &token_bound_cidrs)?;
    Ok((cidr_list, token_bound_cidrs))
}

/// Refuses ranges that reach beyond those of the role.
fn check_within(whose: &str, role: &[AddressRange], own: &[AddressRange]) -> Result<(), Error> {
    let covered = |range: &AddressRange| role.iter().any(|wider| wider.covers(*range));
    if role.is_empty() || own.iter().all(covered) {
        return Ok(());
    }
    let texts = |ranges: &[AddressRange]| -> Vec<String> {
        ranges.iter().map(|range| range.block_text()).collect()
    };
    Err(Error::invalid(format!(
        "failed to verify subset relationship between CIDR blocks on the role {:?} and CIDR blocks \
         on the {whose} {:?}",
        texts(role),
        texts(own)
    )))
}

/// Metadata: an object, its JSON text, or pairs, the texts also in base 64; values become text.
pub(super) fn metadata(fields: Fields<'_>) -> Result<Map, Error> {
    let refuse = |why: &str| Error::invalid(format!("failed to parse metadata: {why}"));
    let given = match fields.raw("metadata") {
        None | Some(Json::Null) => return Ok(Map::new()),
        Some(Json::Object(map)) => map.clone(),
        Some(Json::String(text)) if text.trim().is_empty() => return Ok(Map::new()),
        Some(Json::String(text)) => {
            let plain = plain(text);
            match plain.trim_start().starts_with('{') {
                true => json::parse_object(plain.as_bytes())
                    .map_err(|error| refuse(&error.to_string()))?,
                false => pairs(&plain).ok_or_else(|| {
                    refuse("failed to parse the input: invalid <key,value> format")
                })?,
            }
        }
        Some(_) => return Err(refuse("it is no object and no text of one")),
    };
    if given.len() > METADATA_FIELDS_MAX {
        return Err(refuse(&format!("more than {METADATA_FIELDS_MAX} fields")));
    }
    let text = |(name, value): (String, Json)| {
        let text = match value {
            Json::Null => String::new(),
            value => scalar_text(&value).ok_or_else(|| refuse("a value is no text"))?,
        };
        Ok((name, text.into()))
    };
    given.into_iter().map(text).collect()
}

/// The text of metadata, which may have come in base 64: an object, or pairs.
fn plain(text: &str) -> String {
    let joined: String = text.trim().lines().collect();
    let decoded = BASE64.decode(joined.as_bytes()).ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let is_meant = |text: &String| text.trim_start().starts_with('{') || pairs(text).is_some();
    decoded.filter(is_meant).unwrap_or_else(|| text.to_owned())
}

/// Names with values: `a=b, c=d`.
fn pairs(text: &str) -> Option<Map> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim().to_owned(), Json::from(value.trim())))
    };
    text.split(',').map(pair).collect()
}

/// What a request about one secret id names it by: a DELETE has parameters and no body.
fn named(call: &Call<'_>, name: &str) -> Result<String, Error> {
    match call.request.operation {
        Operation::Delete => given(Fields::new(&call.request.query_fields()), name),
        _ => given(Fields::new(&call.request.object()?), name),
    }
}

pub(super) fn given(fields: Fields<'_>, name: &str) -> Result<String, Error> {
    let text = super::given_id(fields, name)?;
    if text.len() > ID_BYTES_MAX {
        return Err(Error::invalid(format!("{name} is over {ID_BYTES_MAX} bytes")));
    }
    Ok(text)
}

impl Approle<'_> {
    fn secret(
        &self,
        role: &AppRole,
        hash: &str,
        now: Timestamp,
    ) -> Result<Option<SecretId>, Error> {
        alive(self.storage().get(&secret_record(&role.uid, hash))?, now)
    }

    /// The role below which a secret id is looked for.
    fn role_of_secret_id(&self, name: &str) -> Result<AppRole, Error> {
        let missing = || Error::Expected(Expected::NoRoleOfSecretId(name.to_owned()));
        self.role(name)?.ok_or_else(missing)
    }

    fn secret_hash(&self, role: &AppRole, secret_id: &str) -> Result<String, Error> {
        self.hash("secret-id", &format!("{}/{secret_id}", role.uid))
    }

    /// The hash below which a secret id is kept: that of this server, unless the role has secret ids of another one and it is not here.
    fn kept_hash(&self, role: &AppRole, secret_id: &str) -> Result<String, Error> {
        let own = self.secret_hash(role, secret_id)?;
        match &role.foreign_key {
            Some(key) if self.storage().get(&secret_record(&role.uid, &own))?.is_none() => {
                self.foreign_hash(role, &key.hmac(secret_id))
            }
            _ => Ok(own),
        }
    }

    pub(super) async fn draw_secret_id(
        &self,
        call: &Call<'_>,
        name: &str,
    ) -> Result<Response, Error> {
        let body = call.request.object()?;
        self.add(name, &self.0.random.make_uuid()?, Fields::new(&body)).await
    }

    pub(super) async fn take_secret_id(
        &self,
        call: &Call<'_>,
        name: &str,
    ) -> Result<Response, Error> {
        let body = call.request.object()?;
        let fields = Fields::new(&body);
        self.add(name, &given(fields, "secret_id")?, fields).await
    }

    /// Adds a secret id to a role.
    ///
    /// # Errors
    /// What the role refuses, and [`Error::Invalid`] for one that is there already.
    async fn add(
        &self,
        name: &str,
        secret_id: &str,
        fields: Fields<'_>,
    ) -> Result<Response, Error> {
        let (now, mount_max_secs) = (self.0.now, self.0.mount.max_lease_secs);
        let role = self.role(name)?.ok_or_else(|| no_role(name))?;
        let record = secret_record(&role.uid, &self.secret_hash(&role, secret_id)?);
        let accessor = self.0.random.make_uuid()?;
        let adding = self.storage().transact(&record, |transaction| {
            let role = role_for(transaction, name)?.ok_or_else(|| no_role(name))?;
            if !role.bind_secret_id {
                return Err(Error::invalid("bind_secret_id is not set on the role"));
            }
            let secret = plan(&role, fields, mount_max_secs, (now, accessor.clone()))?;
            let hash = self.secret_hash(&role, secret_id)?;
            let record = secret_record(&role.uid, &hash);
            let mut known = alive(transaction.get(&record)?, now)?;
            if let Some(key) = &role.foreign_key {
                let foreign = self.foreign_hash(&role, &key.hmac(secret_id))?;
                let foreign = transaction.get(&secret_record(&role.uid, &foreign))?;
                known = known.or(alive(foreign, now)?);
            }
            if known.is_some() {
                return Err(Error::invalid(
                    "failed to store secret_id: SecretID is already registered",
                ));
            }
            put_in(transaction, &role.uid, &hash, &secret)?;
            Ok(secret)
        });
        let secret = adding.await?;
        Ok(Response::data(&Json::object([
            ("secret_id", secret_id.into()),
            ("secret_id_accessor", secret.accessor.into()),
            ("secret_id_num_uses", secret.num_uses.into()),
            ("secret_id_ttl", secret.ttl_secs.into()),
        ])))
    }

    pub(super) fn list_accessors(&self, call: &Call<'_>, name: &str) -> Result<Response, Error> {
        let missing = || Error::invalid(Expected::NoRole(name.to_owned()).to_string());
        let role = self.role(name)?.ok_or_else(missing)?;
        call.list(&format!("accessor/{}/", role.uid))
    }

    pub(super) fn look_up(&self, call: &Call<'_>, name: &str) -> Result<Response, Error> {
        let secret_id = named(call, "secret_id")?;
        let role = self.role_of_secret_id(name)?;
        let hash = self.kept_hash(&role, &secret_id)?;
        Ok(match self.secret(&role, &hash, call.now)? {
            Some(secret) => Response::data(&Json::Object(secret.to_map())),
            None => Response::Empty,
        })
    }

    pub(super) fn look_up_accessor(&self, call: &Call<'_>, name: &str) -> Result<Response, Error> {
        let accessor = named(call, "secret_id_accessor")?;
        let role = self.role_of_secret_id(name)?;
        let found = match self.hash_of_accessor(&role, &accessor)? {
            Some(hash) => self.secret(&role, &hash, call.now)?,
            None => None,
        };
        Ok(match found {
            Some(secret) => Response::data(&Json::Object(secret.to_map())),
            None => {
                let data = Json::object([("error", no_accessor(&accessor).into())]).to_text();
                Response::Missing(Logical { data, ..Logical::default() })
            }
        })
    }

    pub(super) fn hash_of_accessor(
        &self,
        role: &AppRole,
        accessor: &str,
    ) -> Result<Option<String>, Error> {
        let record = match kallisto_index::check_path(accessor) {
            Ok(_) => self.storage().get(&accessor_record(&role.uid, accessor))?,
            Err(_) => None,
        };
        let Some(record) = record else { return Ok(None) };
        record.decode(|bytes| String::from_utf8(bytes.to_vec()).ok()).map(Some)
    }

    pub(super) async fn destroy(&self, call: &Call<'_>, name: &str) -> Result<Response, Error> {
        let secret_id = named(call, "secret_id")?;
        let role = self.role_of_secret_id(name)?;
        self.remove(&role.uid, &self.kept_hash(&role, &secret_id)?).await?;
        Ok(Response::Empty)
    }

    pub(super) async fn destroy_accessor(
        &self,
        call: &Call<'_>,
        name: &str,
    ) -> Result<Response, Error> {
        let accessor = named(call, "secret_id_accessor")?;
        let role = self.role_of_secret_id(name)?;
        let hash = self.hash_of_accessor(&role, &accessor)?;
        let hash = hash.ok_or_else(|| Error::invalid(no_accessor(&accessor)))?;
        self.remove(&role.uid, &hash).await?;
        Ok(Response::Empty)
    }

    /// Deletes a secret id with all that leads to it.
    pub(super) async fn remove(&self, uid: &str, hash: &str) -> Result<(), Error> {
        let secret_id = secret_record(uid, hash);
        let removing = self.storage().transact(&secret_id, |transaction| {
            let Some(record) = transaction.get(&secret_id)? else { return Ok(()) };
            let secret = record.decode(SecretId::decode)?;
            remove_in(transaction, uid, hash, &secret)
        });
        removing.await
    }

    /// Takes a use off the secret id of a login, if it is a good one.
    ///
    /// # Errors
    /// [`Error::Invalid`]: one text for all that is wrong with it but the address.
    pub(super) async fn spend(
        &self,
        role: &AppRole,
        secret_id: &str,
        request: &Request<'_>,
    ) -> Result<SecretId, Error> {
        let wrong = || Error::invalid(WRONG);
        if secret_id.len() > ID_BYTES_MAX {
            return Err(wrong());
        }
        let hash = self.kept_hash(role, secret_id)?;
        let record = secret_record(&role.uid, &hash);
        let spending = self.storage().transact(&record, |transaction| {
            let secret = alive(transaction.get(&record)?, request.now)?.ok_or_else(wrong)?;
            if !address::allows(&secret.cidr_list, request.remote) {
                return Err(Error::invalid(format!(
                    "source address {:?} unauthorized through CIDR restrictions on the secret ID",
                    source(request)
                )));
            }
            super::check_role_address(role, request)?;
            if secret.num_uses == 1 {
                remove_in(transaction, &role.uid, &hash, &secret)?;
            } else if secret.num_uses > 1 {
                let num_uses = secret.num_uses - 1;
                let spent = SecretId { num_uses, updated_at: request.now, ..secret.clone() };
                transaction.put(&record, spent.encode())?;
            }
            Ok(secret)
        });
        spending.await
    }
}

/// A secret id that is there. One that has expired is not, whether the sweep has come by or not.
fn alive(record: Option<Stored>, now: Timestamp) -> Result<Option<SecretId>, Error> {
    let secret = record.map(|record| record.decode(SecretId::decode)).transpose()?;
    Ok(secret.filter(|secret| !secret.is_expired(now)))
}

/// Writes all records of a secret id that is new.
pub(super) fn put_in(
    transaction: &mut Transaction<'_>,
    uid: &str,
    hash: &str,
    secret: &SecretId,
) -> Result<(), Error> {
    transaction.put(&secret_record(uid, hash), secret.encode())?;
    transaction.put(&accessor_record(uid, &secret.accessor), hash.as_bytes().to_vec())?;
    match secret.expires_at {
        Some(end) => transaction.put(&due_record(end, uid, hash), Vec::new()),
        None => Ok(()),
    }
}

/// Deletes all records of a secret id.
fn remove_in(
    transaction: &mut Transaction<'_>,
    uid: &str,
    hash: &str,
    secret: &SecretId,
) -> Result<(), Error> {
    transaction.delete(&secret_record(uid, hash))?;
    transaction.delete(&accessor_record(uid, &secret.accessor))?;
    match secret.expires_at {
        Some(end) => transaction.delete(&due_record(end, uid, hash)),
        None => Ok(()),
    }
}

fn no_accessor(accessor: &str) -> String {
    format!("failed to find accessor entry for secret_id_accessor: {accessor:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Map, Error> {
        metadata(Fields::new(&json::parse_object(body.as_bytes()).unwrap()))
    }

    #[test]
    fn metadata_comes_as_an_object_as_its_text_or_as_pairs() {
        let expected = Map::from([("a".to_owned(), "b".into()), ("n".to_owned(), "1".into())]);
        for body in [
            r#"{"metadata":{"a":"b","n":1}}"#,
            r#"{"metadata":"{\"a\":\"b\",\"n\":\"1\"}"}"#,
            r#"{"metadata":"a=b, n=1"}"#,
            r#"{"metadata":"eyJhIjoiYiIsIm4iOiIxIn0="}"#,
            r#"{"metadata":"YT1iLG49MQ==\n"}"#,
        ] {
            assert_eq!(read(body), Ok(expected.clone()), "{body}");
        }
        // What can be read as base 64 and says nothing then is what it is.
        assert_eq!(read(r#"{"metadata":"abc="}"#).unwrap(), [("abc".to_owned(), "".into())].into());
        assert_eq!(read(r#"{"metadata":{"a":null}}"#).unwrap()["a"], "".into());
        for bad in [r#"{"metadata":"bogus"}"#, r#"{"metadata":[1]}"#, r#"{"metadata":{"a":{}}}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_id_reads_back() {
        let at = Timestamp::from_second(5).unwrap();
        let secret = SecretId {
            accessor: "a".into(),
            num_uses: 3,
            ttl_secs: 60,
            created_at: at,
            updated_at: at,
            expires_at: Some(after(at, 60)),
            metadata: Map::from([("k".to_owned(), "v".into())]),
            cidr_list: parse_blocks(&["10.0.0.0/8".into()]).unwrap(),
            token_bound_cidrs: Vec::new(),
        };
        assert_eq!(SecretId::decode(&secret.encode()), Some(secret.clone()));
        let forever = SecretId { expires_at: None, ..secret };
        assert_eq!(SecretId::decode(&forever.encode()), Some(forever));
        assert!(SecretId::decode(b"{}").is_none());
    }
}
