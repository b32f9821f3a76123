//! AppRole: machines log in with a role's id and a secret id.
//!
//! ```text
//! role/NAME                     the role; `uid` is drawn when it is made, and never again
//! role-id/HASH                  the name of the role with that role id
//! secret/UID/HASH               a secret id of the role with that uid
//! accessor/UID/ACCESSOR         the hash of the secret id with that accessor
//! due/SECONDS/UID/HASH          a secret id that expires then, for the sweep
//! ```
//! Hashes are HMACs under a key of the cluster, so neither a secret id nor a role id is in the store. Secret ids that came from another server
//! are below a hash of the HMAC which that server kept ([`import`]).
//!
//! Invariants:
//! - What belongs to a role is found below its uid and nowhere else: a secret id of
//!   another role, or of an earlier role of the same name, does not exist.
//! - A secret id with a number of uses is spent under a condition, so that of any number of logins
//!   at once exactly that many are let in; its last use deletes it.
//! - Every wrong role id and secret id is told the same.

mod import;
mod role;
mod routes;
mod secret_id;
mod sweep;

use std::future::ready;

use kallisto_api::{BoxFuture, Denial, Error, Expected, Fields, Json, Map, Request, Response};
use kallisto_engine::storage::Transaction;
use kallisto_engine::{
    Call, EngineContext, EngineSpec, Login, LoginMethod, Renewal, RenewalCall, Storage,
    UnheardCall, address,
};

use crate::names::role_name;
use role::AppRole;

/// Longest role id or secret id, in bytes.
const ID_BYTES_MAX: usize = 1024;

/// What every wrong role id and secret id is told.
const WRONG: &str = "invalid role or secret ID";

/// The records of one mount.
struct Approle<'a>(EngineContext<'a>);

impl<'a> Approle<'a> {
    const fn of(context: EngineContext<'a>) -> Self {
        Self(context)
    }

    /// Those of the mount that a request is for.
    const fn at(run: &Call<'a>) -> Self {
        Self(run.context)
    }

    const fn storage(&self) -> Storage<'a> {
        self.0.storage
    }

    /// The keyed hash of an id, apart for each mount and purpose.
    fn hash(&self, purpose: &str, id: &str) -> Result<String, Error> {
        let text = zeroize::Zeroizing::new(format!("{purpose}/{id}"));
        Ok(data_encoding::HEXLOWER.encode(&self.0.keyed_hash.hash(&text)?))
    }

    fn role_id_record(&self, role_id: &str) -> Result<String, Error> {
        Ok(format!("role-id/{}", self.hash("role-id", role_id)?))
    }

    /// The role of a name.
    fn role(&self, name: &str) -> Result<Option<AppRole>, Error> {
        let record = self.storage().get(&role_record(name))?;
        record.map(|record| record.decode(AppRole::decode)).transpose()
    }

    /// The role of a role id, and its name.
    fn role_of_id(&self, role_id: &str) -> Result<Option<(String, AppRole)>, Error> {
        let Some(record) = self.storage().get(&self.role_id_record(role_id)?)? else {
            return Ok(None);
        };
        let name = std::str::from_utf8(&record.value).map_err(|_| record.damaged())?;
        let found = self.role(name)?.filter(|role| role.role_id == role_id);
        Ok(found.map(|role| (name.to_owned(), role)))
    }
}

/// The role of a name, on which a transaction depends then.
fn role_for(transaction: &mut Transaction<'_>, name: &str) -> Result<Option<AppRole>, Error> {
    let record = transaction.get(&role_record(name))?;
    record.map(|record| record.decode(AppRole::decode)).transpose()
}

fn role_record(name: &str) -> String {
    format!("role/{name}")
}

fn no_role(name: &str) -> Error {
    Error::Expected(Expected::NoRole(name.to_owned()))
}

/// The role that a path names.
fn role_in(run: &Call<'_>) -> Result<String, Error> {
    role_name(run.params.get("role"))
}

fn list(run: &Call<'_>) -> Result<Response, Error> {
    run.list("role/")
}

async fn tidy(run: &Call<'_>) -> Result<Response, Error> {
    run.request.object()?;
    Approle::at(run).tidy(run.now).await
}

/// Destroys the secret id that a request for `path` made, of which its answer tells.
///
/// # Errors
/// What the store says.
async fn forget_secret_id(call: UnheardCall<'_>) -> Result<(), Error> {
    let UnheardCall { context, path, data } = call;
    let approle = Approle::of(context);
    let accessor = data.get("secret_id_accessor").and_then(Json::as_str);
    let Some((name, "secret-id" | "custom-secret-id")) =
        path.strip_prefix("role/").and_then(|path| path.split_once('/'))
    else {
        return Ok(());
    };
    let role = approle.role(&role_name(name)?)?;
    let (Some(role), Some(accessor)) = (role, accessor) else { return Ok(()) };
    match approle.hash_of_accessor(&role, accessor)? {
        Some(hash) => approle.remove(&role.uid, &hash).await,
        None => Ok(()),
    }
}

/// An id that a request has to give. One that was read from a file may have a line end behind it, so blanks at its ends are none of it.
fn given_id(fields: Fields<'_>, name: &str) -> Result<String, Error> {
    let given = fields.string(name)?.unwrap_or_default();
    match given.trim() {
        "" => Err(Error::invalid(format!("missing {name}"))),
        id => Ok(id.to_owned()),
    }
}

/// The name of the role with this role id.
fn role_of(context: &EngineContext<'_>, _: &Request<'_>, fields: Fields<'_>) -> Option<String> {
    let id = given_id(fields, "role_id").ok().filter(|id| id.len() <= ID_BYTES_MAX)?;
    Approle::of(*context).role_of_id(&id).ok()?.map(|(name, _)| name)
}

/// Logs in.
async fn log_in(run: Call<'_>) -> Result<Response, Error> {
    let (approle, request) = (Approle::at(&run), run.request);
    let body = request.object()?;
    let fields = Fields::new(&body);
    let role_id = given_id(fields, "role_id")?;
    let wrong = || Error::invalid(WRONG);
    if role_id.len() > ID_BYTES_MAX {
        return Err(wrong());
    }
    // Counted as OpenBao does: wrong secret ids of a role that is there, by its id.
    let attempts = run.logins()?.attempts(&role_id);
    if attempts.is_locked() {
        return Err(Error::Denied(Denial::BadToken));
    }
    let (name, role) = approle.role_of_id(&role_id)?.ok_or_else(wrong)?;
    let mut metadata = Map::new();
    let mut params = role.params.clone();
    if role.bind_secret_id {
        let given = given_id(fields, "secret_id")?;
        let spent = approle.spend(&role, &given, request).await;
        match &spent {
            Ok(_) => attempts.forget(),
            Err(refusal) if *refusal == wrong() => attempts.fail(true),
            Err(_) => {}
        }
        let secret = spent?;
        metadata = secret.metadata;
        if !secret.token_bound_cidrs.is_empty() {
            params.bound_cidrs = secret.token_bound_cidrs;
        }
    }
    check_role_address(&role, request)?;
    metadata.insert("role_name".into(), name.as_str().into());
    let login = Login {
        alias: role_id,
        display_name: String::new(),
        metadata,
        groups: Vec::new(),
        params,
        kept: Map::from([("role".to_owned(), name.into())]),
    };
    run.logins()?.grant(login).await
}

fn check_role_address(role: &AppRole, request: &Request<'_>) -> Result<(), Error> {
    if address::allows(&role.secret_id_bound_cidrs, request.remote) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "source address {:?} unauthorized by CIDR restrictions on the role",
        source(request)
    )))
}

/// The address a request came from, for the message that refuses it.
fn source(request: &Request<'_>) -> String {
    request.remote.map_or_else(String::new, |remote| remote.ip().to_canonical().to_string())
}

/// A role that is gone renews no token.
///
/// # Errors
/// [`Error::Invalid`] saying so.
fn check_renewal(renewal: &RenewalCall<'_>) -> Result<Renewal, Error> {
    let name = renewal.kept.get("role").and_then(Json::as_str).unwrap_or_default();
    match Approle::of(renewal.context).role(name)? {
        Some(role) => Ok(Renewal::by(role.params)),
        None => Err(Error::invalid("role does not exist during renewal")),
    }
}

/// Roles with secret ids.
pub(crate) const METHOD: EngineSpec = EngineSpec {
    caseless_folders: &["role/"],
    jobs: &[sweep::SECRET_ID_EXPIRY],
    unheard: Some(|call| -> BoxFuture<'_, Result<(), Error>> { Box::pin(forget_secret_id(call)) }),
    ..EngineSpec::login_method(
        "approle",
        &routes::APPROLE,
        LoginMethod {
            check_renewal: |call| Box::pin(ready(check_renewal(&call))),
            role_of: Some(role_of),
        },
    )
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_an_id_are_none_of_it() {
        let read =
            |given: Json| given_id(Fields::new(&Map::from([("role_id".into(), given)])), "role_id");
        for given in ["a-b", "a-b\n", " a-b\r\n"] {
            assert_eq!(read(given.into()), Ok("a-b".to_owned()), "{given:?}");
        }
        for given in [Json::Null, "".into(), " \n".into()] {
            assert_eq!(read(given), Err(Error::invalid("missing role_id")));
        }
    }
}
