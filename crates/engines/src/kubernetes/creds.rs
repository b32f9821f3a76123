//! `creds`: a token of a service account that ends with its lease.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use jiff::{SignedDuration, Timestamp};
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{BoxFuture, Error, Fields, Response};
use kallisto_engine::far_end::{CALL_SECS_MAX, HttpWorkVerb};
use kallisto_engine::outbound::form_component;
use kallisto_engine::{
    Call, FarEndFailure, LeaseCall, Leftover, MadeCredential, MakeFailure, NewLease,
};

use super::account_name;
use super::cluster::{self, ApiFailure, CALL_SECS, Cluster, SERVER_SECS, is_token};
use super::object_name::check_namespace;
use super::objects::{self, ObjectKind, ObjectNames, Revocation};
use super::role::{self, ClusterAccess, go_text};
use crate::leased;

/// Requests of one creation: a role, its binding, the account, its token.
const CREATION_CALLS: u64 = 4;
const _: () = assert!(CREATION_CALLS * CALL_SECS <= CALL_SECS_MAX);
/// Shortest token that an API server gives, in seconds.
const TOKEN_SECS_MIN: u64 = 600;
/// Most audiences of a token.
const AUDIENCES_MAX: usize = 64;

/// How long a token is to live, and for whom it is.
#[derive(Debug)]
struct TokenTerms {
    secs: u64,
    audiences: Vec<String>,
    warnings: Vec<String>,
}

impl TokenTerms {
    fn decide(
        role: &ClusterAccess,
        fields: Fields<'_>,
        default_secs: u64,
        max_secs: u64,
    ) -> Result<Self, Error> {
        let asked = fields.span("ttl")?.map_or(0, |span| span.secs());
        let asked = u64::try_from(asked).map_err(|_| Error::invalid("ttl is negative"))?;
        let given = [asked, role.token_default_secs, default_secs];
        let mut secs = given.into_iter().find(|secs| *secs > 0).unwrap_or(default_secs);
        let mut warnings = Vec::new();
        for (most, whose) in [
            (role.token_max_secs, "the role's token_max_ttl"),
            (max_secs, "the mount's max_lease_ttl"),
        ] {
            if most > 0 && secs > most {
                warnings.push(format!(
                    "ttl of {} is greater than {whose} of {}; capping accordingly",
                    go_text(secs),
                    go_text(most)
                ));
                secs = most;
            }
        }
        if secs < TOKEN_SECS_MIN {
            return Err(Error::invalid(format!(
                "ttl of {} is less than the {} that a Kubernetes API server gives a token at the least",
                go_text(secs),
                go_text(TOKEN_SECS_MIN)
            )));
        }
        let given = fields.strings("audiences")?.filter(|given| !given.is_empty());
        let audiences = given.unwrap_or_else(|| role.audiences.clone());
        if audiences.len() > AUDIENCES_MAX {
            return Err(Error::invalid(format!("audiences has more than {AUDIENCES_MAX} names")));
        }
        Ok(Self { secs, audiences, warnings })
    }
}

/// The namespace that is asked for, if the role may be used there.
async fn namespace(
    call: &Call<'_>,
    cluster: &Cluster,
    role: &ClusterAccess,
    fields: Fields<'_>,
) -> Result<String, Error> {
    let given = fields.string("kubernetes_namespace")?.filter(|given| !given.is_empty());
    let namespace = given.or_else(|| role.only_namespace().map(str::to_owned)).ok_or_else(|| {
        Error::invalid(
            "'kubernetes_namespace' is required unless the role has a single namespace specified",
        )
    })?;
    check_namespace(&namespace)?;
    let is_admitted = match role.admits(&namespace) {
        Some(is_admitted) => is_admitted,
        None => {
            let mut path = b"/api/v1/namespaces/".to_vec();
            form_component(&namespace, &mut path);
            let path = String::from_utf8_lossy(&path);
            let answer = cluster.ask(call, HttpWorkVerb::Get, &path, None).await;
            let told = answer.map_err(|failure| {
                cluster.error(&format!("failed to read the namespace {namespace}"), &failure)
            })?;
            role.admits_labels(&labels(&told, &namespace))?
        }
    };
    if is_admitted {
        return Ok(namespace);
    }
    Err(Error::invalid(format!(
        "kubernetes_namespace '{namespace}' is not present in role's allowed_kubernetes_namespaces or \
         does not match role's label selector allowed_kubernetes_namespace_selector"
    )))
}

/// The labels of a namespace; none where the answer is about another one.
fn labels<'a>(told: &'a Map, namespace: &str) -> BTreeMap<&'a str, &'a str> {
    let metadata = told.get("metadata").and_then(Json::as_object);
    let is_meant = |metadata: &&Map| metadata.get("name").and_then(Json::as_str) == Some(namespace);
    let labels = metadata.filter(is_meant).and_then(|metadata| metadata.get("labels")?.as_object());
    let pairs = labels.into_iter().flatten();
    pairs.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
}

/// What is made for a request.
struct ClusterCreation {
    cluster: Cluster,
    role: ClusterAccess,
    names: ObjectNames,
    kinds: Vec<ObjectKind>,
    terms: TokenTerms,
}

pub(super) async fn make(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let role = role::find(&call, name)?;
    let role = role.ok_or_else(|| Error::invalid(format!("role '{name}' does not exist")))?;
    let body = call.request.object()?;
    let fields = Fields::new(&body);
    let terms = TokenTerms::decide(
        &role,
        fields,
        call.mount.default_lease_secs,
        call.mount.max_lease_secs,
    )?;
    let is_cluster_binding = fields.boolean("cluster_role_binding")?.unwrap_or(false);
    if is_cluster_binding && !role.is_cluster_role && role.service_account.is_empty() {
        return Err(Error::invalid(
            "cluster_role_binding needs a role with kubernetes_role_type 'ClusterRole'",
        ));
    }
    let cluster = Cluster::find(&call)?;
    let namespace = namespace(&call, &cluster, &role, fields).await?;
    let name = match role.service_account.is_empty() {
        true => account_name::make(&call, name, &role.name_template)?,
        false => role.service_account.clone(),
    };
    let kinds = objects::kinds(&role, is_cluster_binding);
    let names = ObjectNames { namespace, name };
    let creation = ClusterCreation { cluster, role, names, kinds, terms };
    let lease = NewLease {
        ttl_secs: creation.terms.secs,
        // A token has its end in it: nothing can move that.
        renewable: false,
        revocation: creation.revocation(creation.kinds.len(), Some(call.now)).encode(),
        ..NewLease::default()
    };
    call.issue_credential(lease, move |ends| -> BoxFuture<'_, _> {
        Box::pin(async move { creation.run(&call, ends).await })
    })
    .await
}

impl ClusterCreation {
    /// What takes back the first `count` objects, one of which may still appear after it was asked for.
    fn revocation(&self, count: usize, asked: Option<Timestamp>) -> Revocation {
        Revocation {
            names: self.names.clone(),
            kinds: self.kinds[..count].to_vec(),
            asked_secs: asked.map(|asked| asked.as_second()),
        }
    }

    async fn run(self, call: &Call<'_>, ends: Timestamp) -> Result<MadeCredential, MakeFailure> {
        // Behind the lease: see `leased`.
        Cluster::find(call).map_err(|error| MakeFailure { error, left: Leftover::Nothing })?;
        let mut owner = None;
        for (made, kind) in self.kinds.iter().enumerate() {
            let created = objects::create(
                call,
                &self.cluster,
                &self.role,
                &self.names,
                *kind,
                owner.as_ref(),
            );
            match created.await {
                Ok(object) => {
                    owner.get_or_insert(object);
                }
                Err(failure) => {
                    let doing = format!("failed to create the {} {}", kind.name(), self.names.name);
                    let rest = match (failure.is_definite(), made) {
                        (true, 0) => Leftover::Nothing,
                        (true, _) => Leftover::Only(self.revocation(made, None).encode()),
                        (false, _) => {
                            let rest = self.revocation(made + 1, Some(call.now));
                            Leftover::Only(rest.encode())
                        }
                    };
                    return Err(MakeFailure {
                        error: self.cluster.error(&doing, &failure),
                        left: rest,
                    });
                }
            }
        }
        let all = self.revocation(self.kinds.len(), None).encode();
        let token = self.token(call, ends).await;
        let (token, secs) = token.map_err(|failure| {
            let ObjectNames { namespace, name } = &self.names;
            let doing = format!("failed to create a service account token for {namespace}/{name}");
            let error = self.cluster.error(&doing, &failure);
            MakeFailure { error, left: Leftover::Only(all.clone()) }
        })?;
        Ok(self.credential(call.now, ends, all, &token, secs))
    }

    /// Asks for a token of the account: the token, and how long it lives, in seconds.
    async fn token(&self, call: &Call<'_>, ends: Timestamp) -> Result<(String, u64), ApiFailure> {
        let lives = ends.duration_since(call.now).as_secs();
        let mut spec =
            Map::from([("expirationSeconds".to_owned(), u64::try_from(lives).unwrap_or(0).into())]);
        if !self.terms.audiences.is_empty() {
            spec.insert("audiences".into(), Json::strings(self.terms.audiences.iter().cloned()));
        }
        let body = Json::object([
            ("apiVersion", "authentication.k8s.io/v1".into()),
            ("kind", "TokenRequest".into()),
            ("spec", spec.into()),
        ]);
        let account = ObjectKind::ServiceAccount.path(&self.names);
        let path = format!("{account}/token?timeout={SERVER_SECS}s");
        let answer = self.cluster.ask(call, HttpWorkVerb::Post, &path, Some(body)).await?;
        issued(&answer, call.now).ok_or_else(|| {
            ApiFailure::FarEnd(FarEndFailure::Unknown("it answers without a token".into()))
        })
    }

    fn credential(
        self,
        now: Timestamp,
        ends: Timestamp,
        revocation: Vec<u8>,
        token: &str,
        token_secs: u64,
    ) -> MadeCredential {
        let lease_secs = u64::try_from(ends.duration_since(now).as_secs()).unwrap_or(0);
        let mut warnings = self.terms.warnings;
        let mut token_ends = None;
        let (short, long) = (go_text(token_secs), go_text(lease_secs));
        if token_secs > lease_secs {
            warnings.push(format!(
                "the created Kubernetes service account token TTL {short} is greater than the lease TTL \
                 {long}"
            ));
        } else if token_secs < lease_secs {
            warnings.push(format!(
                "the created Kubernetes service account token TTL {short} is less than the lease TTL \
                 {long}; capping the lease TTL accordingly"
            ));
            let lives = SignedDuration::from_secs(i64::try_from(token_secs).unwrap_or(i64::MAX));
            token_ends = now.checked_add(lives).ok();
        }
        let ObjectNames { namespace, name } = &self.names;
        MadeCredential {
            data: Json::object([
                ("service_account_name", name.as_str().into()),
                ("service_account_namespace", namespace.as_str().into()),
                ("service_account_token", token.into()),
            ]),
            ends: token_ends,
            revocation: Some(revocation),
            warnings,
        }
    }
}

/// The token of an answer, and how long it lives by its own claims; by what the answer says where it has none.
pub(super) fn issued(answer: &Map, now: Timestamp) -> Option<(String, u64)> {
    let status = answer.get("status")?.as_object()?;
    let token = status.get("token")?.as_str().filter(|token| is_token(token))?;
    let by_answer = || {
        let ends: Timestamp = status.get("expirationTimestamp")?.as_str()?.parse().ok()?;
        Some(ends.duration_since(now).as_secs())
    };
    let lives = lifetime(token).or_else(by_answer)?;
    let lives = u64::try_from(lives).ok().filter(|secs| *secs > 0)?;
    Some((token.to_owned(), lives))
}

/// How long a token lives by its claims, in seconds.
fn lifetime(token: &str) -> Option<i64> {
    let claims = BASE64URL_NOPAD.decode(token.split('.').nth(1)?.as_bytes()).ok()?;
    let claims = json::parse_object(&claims).ok()?;
    let secs = |name: &str| Fields::new(&claims).int(name).ok()?;
    secs("exp")?.checked_sub(secs("iat")?)
}

/// Deletes the configuration, but not while there are objects that only it can delete.
pub(super) async fn delete_config(call: Call<'_>) -> Result<Response, Error> {
    // Of an account that was there before, only the token ends, by itself.
    let is_of_it = |revocation: &[u8]| {
        Revocation::decode(revocation).is_some_and(|revocation| !revocation.kinds.is_empty())
    };
    let what = "objects of the cluster that only this configuration can delete";
    leased::delete(&call, cluster::RECORD, what, is_of_it).await?;
    cluster::close(&call);
    Ok(Response::Empty)
}

/// The end of a lease.
pub(super) async fn end_lease(call: LeaseCall<'_>) -> Result<(), Error> {
    let revocation = Revocation::decode(call.revocation);
    revocation.ok_or_else(|| call.damaged())?.run(&call).await
}
