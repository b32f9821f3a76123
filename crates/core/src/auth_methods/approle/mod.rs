//! AppRole: machines log in with a role's id and a secret id.
//!
//! ```text
//! role/NAME                     the role; `uid` is drawn when it is made, and never again
//! role-id/HASH                  the name of the role with that role id
//! secret/UID/HASH               a secret id of the role with that uid
//! accessor/UID/ACCESSOR         the hash of the secret id with that accessor
//! due/SECONDS/UID/HASH          a secret id that expires then, for the sweep
//! ```
//! Hashes are HMACs under a key of the cluster, so neither a secret id nor a role id is in the store.
//!
//! Invariants:
//! - What belongs to a role is found below its uid and nowhere else: a secret id of
//!   another role, or of an earlier role of the same name, does not exist.
//! - A secret id with a number of uses is spent under a condition, so that of any number of logins
//!   at once exactly that many are let in; its last use deletes it.
//! - Every wrong role id and secret id is told the same.

mod role;
mod routes;
mod secret_id;
mod sweep;

use crate::api::BoxFuture;
use crate::engines::jobs::MountJob;
use crate::engines::route_handler::{self, RouteCall};
use crate::engines::server_engine::{
    Answer, EngineFacts, OpenRun, Renewal, Run, ServerEngine, Weighed,
};
use kallisto_engine::{Class, Routes};
use kallisto_store::{Batch, Seqno};

use super::{Login, grant};
use crate::api::error::Error;
use crate::api::expected::Expected;
use crate::api::fields::Fields;
use crate::api::json::{Json, Map};
use crate::api::request::Request;
use crate::api::response::Response;
use crate::pipeline::address;
use crate::pipeline::state::NamespaceContext;
use crate::pipeline::unheard::Unheard;
use crate::storage::cluster_identity::Cluster;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::transact::transact;
use crate::view::Mount;

use role::Role;

/// Longest role id or secret id, in bytes.
const ID_BYTES_MAX: usize = 1024;

/// What every wrong role id and secret id is told.
const WRONG: &str = "invalid role or secret ID";

/// Where the records of one mount are.
struct Approle<'u> {
    unsealed: &'u NamespaceContext,
    storage: EngineStorage<'u>,
    mount: &'u Mount,
}

impl<'u> Approle<'u> {
    fn of(unsealed: &'u NamespaceContext, mount: &'u Mount) -> Self {
        Self { unsealed, storage: EngineStorage::of(unsealed, mount), mount }
    }

    /// Those of the mount that a request is for.
    fn at(run: &'u RouteCall<'_>) -> Self {
        Self::of(&run.unsealed, run.mount)
    }

    /// The keyed hash of an id, apart for each mount and purpose.
    fn hash(&self, purpose: &str, id: &str) -> Result<String, Error> {
        let cluster: &Cluster = self.unsealed.view.cluster().ok_or(Error::Sealed)?;
        let text =
            zeroize::Zeroizing::new(format!("approle/{}/{purpose}/{id}", self.mount.entry.uuid));
        Ok(data_encoding::HEXLOWER.encode(cluster.token_key.hash(&text).as_ref()))
    }

    fn role_id_record(&self, role_id: &str) -> Result<String, Error> {
        Ok(format!("role-id/{}", self.hash("role-id", role_id)?))
    }

    /// The role of a name, with the sequence number of its record.
    fn role(&self, name: &str) -> Result<Option<(Role, Seqno)>, Error> {
        let Some(record) = self.storage.get(&role_record(name))? else { return Ok(None) };
        Ok(Some((Role::decode(&record.value)?, record.seqno)))
    }

    /// The role of a role id, and its name.
    fn role_of_id(&self, role_id: &str) -> Result<Option<(String, Role, Seqno)>, Error> {
        let Some(record) = self.storage.get(&self.role_id_record(role_id)?)? else {
            return Ok(None);
        };
        let name = std::str::from_utf8(&record.value);
        let name = name.map_err(|_| Error::internal(&"the name behind a role id is damaged"))?;
        let found = self.role(name)?.filter(|(role, _)| role.role_id == role_id);
        Ok(found.map(|(role, seqno)| (name.to_owned(), role, seqno)))
    }

    /// Commits what `decide` adds to a batch, and lets it decide again while others are faster. An
    /// empty batch is not committed.
    async fn commit<T>(
        &self,
        decide: impl FnMut(&mut Batch) -> Result<T, Error>,
    ) -> Result<T, Error> {
        transact(&self.unsealed.store, decide).await
    }
}

fn role_record(name: &str) -> String {
    format!("role/{name}")
}

fn no_role(name: &str) -> Error {
    Error::Expected(Expected::NoRole(name.to_owned()))
}

/// The role that a path names.
fn role_in(run: &RouteCall<'_>) -> Result<String, Error> {
    super::role_name(run.params.get("role"))
}

fn list(run: &RouteCall<'_>) -> Result<Response, Error> {
    super::list(&run.storage(), run.call, "role/")
}

async fn tidy(run: &RouteCall<'_>) -> Result<Response, Error> {
    run.call.object()?;
    Approle::at(run).tidy(run.call.now).await
}

/// Destroys the secret id that a request for `path` made, of which its answer tells.
///
/// # Errors
/// What the store says.
async fn forget_secret_id(
    unsealed: &NamespaceContext,
    mount: &Mount,
    path: &str,
    answer: &Map,
) -> Result<(), Error> {
    let approle = Approle::of(unsealed, mount);
    let accessor = answer.get("secret_id_accessor").and_then(Json::as_str);
    let Some((name, "secret-id" | "custom-secret-id")) =
        path.strip_prefix("role/").and_then(|path| path.split_once('/'))
    else {
        return Ok(());
    };
    let role = approle.role(&super::role_name(name)?)?;
    let (Some((role, _)), Some(accessor)) = (role, accessor) else { return Ok(()) };
    match approle.hash_of_accessor(&role, accessor)? {
        Some(hash) => approle.remove(&role.uid, &hash).await,
        None => Ok(()),
    }
}

/// The name of the role with this role id.
fn role_of(unsealed: &NamespaceContext, mount: &Mount, role_id: &str) -> Option<String> {
    let id = Some(role_id).filter(|id| id.len() <= ID_BYTES_MAX)?;
    Approle::of(unsealed, mount).role_of_id(id).ok()?.map(|(name, ..)| name)
}

/// Logs in.
async fn log_in(
    unsealed: &NamespaceContext,
    request: &Request<'_>,
    mount: &Mount,
) -> Result<Response, Error> {
    let approle = Approle::of(unsealed, mount);
    let body = request.object()?;
    let fields = Fields::new(&body);
    let role_id = fields.string("role_id")?.filter(|id| !id.is_empty());
    let role_id = role_id.ok_or_else(|| Error::invalid("missing role_id"))?;
    let wrong = || Error::invalid(WRONG);
    if role_id.len() > ID_BYTES_MAX {
        return Err(wrong());
    }
    let (name, role, _) = approle.role_of_id(&role_id)?.ok_or_else(wrong)?;
    let mut metadata = Map::new();
    let mut params = role.params.clone();
    if role.bind_secret_id {
        let given = fields.string("secret_id")?.filter(|id| !id.is_empty());
        let given = given.ok_or_else(|| Error::invalid("missing secret_id"))?;
        let secret = approle.spend(&role, &given, request).await?;
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
    grant(unsealed, request, mount, login).await
}

fn check_role_address(role: &Role, request: &Request<'_>) -> Result<(), Error> {
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
fn check_renewal(renewal: &Renewal<'_, '_>) -> Result<(), Error> {
    let name = renewal.entry.kept.get("role").and_then(Json::as_str).unwrap_or_default();
    match Approle::of(renewal.unsealed, renewal.mount).role(name)? {
        Some(_) => Ok(()),
        None => Err(Error::invalid("role does not exist during renewal")),
    }
}

/// Roles with secret ids.
pub(crate) struct AppRole;

impl ServerEngine for AppRole {
    fn facts(&self) -> EngineFacts {
        let caseless_folders = &["role/"];
        EngineFacts { caseless_folders, ..EngineFacts::mountable("approle", Class::Auth) }
    }

    fn routes(&self) -> &'static dyn Routes {
        &routes::APPROLE
    }

    fn jobs(&self) -> Vec<MountJob> {
        vec![sweep::SECRET_ID_EXPIRY]
    }

    fn handle<'a>(&self, run: Run<'a>) -> Answer<'a> {
        route_handler::answer(&routes::APPROLE, run)
    }

    fn handle_open<'a>(&self, run: OpenRun<'a>) -> Answer<'a> {
        route_handler::answer_open(&routes::APPROLE, run)
    }

    fn check_renewal(&self, renewal: &Renewal<'_, '_>) -> Result<(), Error> {
        check_renewal(renewal)
    }

    fn has_roles(&self) -> bool {
        true
    }

    fn role_of(&self, login: &OpenRun<'_>, fields: Fields<'_>) -> Option<String> {
        let role_id = fields.string("role_id").ok()?.filter(|name| !name.is_empty())?;
        role_of(login.unsealed, login.mount, &role_id)
    }

    fn end_unheard<'a>(
        &self,
        unsealed: &'a NamespaceContext,
        mount: &'a Mount,
        path: &'a str,
        told: Unheard<'a>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(forget_secret_id(unsealed, mount, path, told.data))
    }

    /// What tidies looks at every record there is.
    fn is_light(&self, weighed: &Weighed<'_>) -> bool {
        !weighed.lists && !weighed.path.starts_with("tidy")
    }
}
