//! Secret ids of another server, by what that server keeps of them.
//!
//! Vault and OpenBao keep of a secret id its HMAC under a key that its role has. Whoever reads their storage has both, and the secret id itself
//! is with the machine that uses it. So a role here takes the key, once, and secret ids by their HMACs: a login is looked up by the hash of
//! this server first, and by the HMAC under that key then.
//!
//! Called by whoever has `sudo` there; `kallisto migrate` does, from a snapshot. The records are those of any other secret id, below another hash, so
//! that neither the HMAC nor the secret id is the name of anything.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;
use jiff::Timestamp;
use kallisto_api::error::Error;
use kallisto_api::fields::Fields;
use kallisto_api::json::Json;
use kallisto_api::response::Response;
use kallisto_engine::Call;
use kallisto_engine::time::seconds;
use zeroize::Zeroizing;

use super::role::AppRole;
use super::secret_id::{
    NEVER, SecretId, accessor_record, bounds, given, metadata, put_in, secret_record,
};
use super::{Approle, ID_BYTES_MAX, no_role, role_for, role_record};

/// Length of an HMAC in hex.
const HMAC_TEXT_BYTES: usize = 64;

/// The key under which another server made HMACs of the secret ids of a role. `Debug` shows none of it.
#[derive(Clone)]
pub(super) struct ForeignKey(Zeroizing<String>);

impl ForeignKey {
    /// A key that is given or was stored; `None` for one that can be none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let fits = !text.is_empty() && text.len() <= ID_BYTES_MAX;
        fits.then(|| Self(Zeroizing::new(text.to_owned())))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// What the other server keeps of a secret id.
    pub(super) fn hmac(&self, secret_id: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        HEXLOWER.encode(hmac::sign(&key, secret_id.as_bytes()).as_ref())
    }
}

impl PartialEq for ForeignKey {
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), other.0.as_bytes()).is_ok()
    }
}

impl Eq for ForeignKey {}

impl fmt::Debug for ForeignKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForeignKey")
    }
}

impl Approle<'_> {
    /// The hash below which a secret id of another server is kept.
    pub(super) fn foreign_hash(&self, role: &AppRole, hmac: &str) -> Result<String, Error> {
        self.hash("foreign-secret-id", &format!("{}/{hmac}", role.uid))
    }

    /// Takes a secret id by its HMAC. One that is here already stays as it is, with the uses it has left.
    pub(super) async fn import_secret_id(
        &self,
        call: &Call<'_>,
        name: &str,
    ) -> Result<Response, Error> {
        let body = call.request.object()?;
        let fields = Fields::new(&body);
        let key = ForeignKey::parse(&Zeroizing::new(given(fields, "hmac_key")?));
        let key = key.ok_or_else(|| Error::invalid("hmac_key is empty"))?;
        let hmac = given(fields, "secret_id_hmac")?.to_ascii_lowercase();
        if hmac.len() != HMAC_TEXT_BYTES || HEXLOWER.decode(hmac.as_bytes()).is_err() {
            return Err(Error::invalid("secret_id_hmac is no HMAC-SHA256 in hex"));
        }
        let role_name = role_record(name);
        let importing = self.storage().transact(&role_name, |transaction| {
            let mut role = role_for(transaction, name)?.ok_or_else(|| no_role(name))?;
            if role.foreign_key.as_ref().is_some_and(|known| *known != key) {
                return Err(Error::invalid(
                    "the role has secret ids of another server already, under another hmac_key",
                ));
            }
            let secret = read(&role, fields, call.now)?;
            let hash = self.foreign_hash(&role, &hmac)?;
            let record = secret_record(&role.uid, &hash);
            if transaction.get(&record)?.is_some() {
                return Ok(false);
            }
            let accessor = accessor_record(&role.uid, &secret.accessor);
            if transaction.get(&accessor)?.is_some() {
                return Err(Error::invalid("another secret id has this accessor"));
            }
            if role.foreign_key.is_none() {
                role.foreign_key = Some(key.clone());
                transaction.put(&role_name, role.encode())?;
            }
            put_in(transaction, &role.uid, &hash, &secret)?;
            Ok(true)
        });
        let has_changed = importing.await?;
        Ok(Response::data(&Json::object([("changed", has_changed.into())])))
    }
}

/// A secret id as another server shows it. How often and how long the role lets new ones log in is not asked: those that were given out before a role
/// was changed keep what they had there, and so they do here.
fn read(role: &AppRole, fields: Fields<'_>, now: Timestamp) -> Result<SecretId, Error> {
    let accessor = given(fields, "secret_id_accessor")?;
    if kallisto_index::check_path(&accessor).is_err() || accessor.contains('/') {
        return Err(Error::invalid("secret_id_accessor is none"));
    }
    let num_uses = fields.int("secret_id_num_uses")?.unwrap_or(0);
    if num_uses < 0 {
        return Err(Error::invalid("secret_id_num_uses cannot be negative"));
    }
    let created_at = time(fields, "creation_time")?.unwrap_or(now);
    let expires_at = time(fields, "expiration_time")?;
    if expires_at.is_some_and(|end| end <= now) {
        return Err(Error::invalid("the secret id has expired"));
    }
    let (cidr_list, token_bound_cidrs) = bounds(role, fields)?;
    Ok(SecretId {
        accessor,
        num_uses,
        ttl_secs: seconds(fields, "secret_id_ttl")?.unwrap_or(0),
        created_at,
        updated_at: time(fields, "last_updated_time")?.unwrap_or(created_at),
        expires_at,
        metadata: metadata(fields)?,
        cidr_list,
        token_bound_cidrs,
    })
}

/// A time, if one is said.
fn time(fields: Fields<'_>, name: &str) -> Result<Option<Timestamp>, Error> {
    let text = fields.string(name)?.filter(|text| !text.is_empty() && text != NEVER);
    let parse =
        |text: String| text.parse().map_err(|_| Error::invalid(format!("{name} is no time")));
    text.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key, the secret id and the HMAC of it that a server of release 2.7.2 wrote.
    #[test]
    fn hmacs_are_those_of_the_other_server() {
        let key = ForeignKey::parse("be937732-f1d8-7bb7-f315-bb08c66159f2").unwrap();
        assert_eq!(
            key.hmac("3c043175-f06a-990c-3321-a5db4c2c69a2"),
            "a9b78a27f23b26191d30ea82a8f59df714dc6cc25a7432f5a8706e3e74d02c0c"
        );
        assert_eq!(format!("{key:?}"), "ForeignKey");
        assert_eq!(ForeignKey::parse(""), None);
    }
}
