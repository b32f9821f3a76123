//! The objects of a cluster that are made for a lease: their places, what they say, and how they are taken back.

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields};
use kallisto_engine::EngineContext;
use kallisto_engine::far_end::HttpWorkVerb;
use kallisto_engine::outbound::form_component;

use super::cluster::{ApiFailure, Cluster, SERVER_SECS};
use super::role::{ClusterAccess, OWN_LABELS};

/// How long an object may appear after its creation was asked for without an answer, in seconds: an API server ends every request by itself
/// after a minute at the latest.
const SETTLE_SECS: i64 = 60;
/// Longest UID of an object, in bytes.
const UID_BYTES_MAX: usize = 128;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
    ServiceAccount,
}

/// The names of what is made for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectNames {
    pub(super) namespace: String,
    /// Of each object.
    pub(super) name: String,
}

/// The object that the others belong to: the cluster deletes them with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnerObject {
    kind: ObjectKind,
    uid: String,
}

/// What takes back what was made for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revocation {
    pub(super) names: ObjectNames,
    pub(super) kinds: Vec<ObjectKind>,
    /// When they were asked for, in seconds since 1970, where one of them may still appear.
    pub(super) asked_secs: Option<i64>,
}

impl ObjectKind {
    const ALL: [Self; 5] = [
        Self::Role,
        Self::ClusterRole,
        Self::RoleBinding,
        Self::ClusterRoleBinding,
        Self::ServiceAccount,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::ServiceAccount => "ServiceAccount",
        }
    }

    const fn api_version(self) -> &'static str {
        match self {
            Self::ServiceAccount => "v1",
            _ => "rbac.authorization.k8s.io/v1",
        }
    }

    /// The path of all of the kind.
    fn folder(self, namespace: &str) -> String {
        let mut path = b"/api/v1".to_vec();
        if self != Self::ServiceAccount {
            path = b"/apis/rbac.authorization.k8s.io/v1".to_vec();
        }
        if self.is_namespaced() {
            path.extend_from_slice(b"/namespaces/");
            form_component(namespace, &mut path);
        }
        let plural = match self {
            Self::Role => "/roles",
            Self::ClusterRole => "/clusterroles",
            Self::RoleBinding => "/rolebindings",
            Self::ClusterRoleBinding => "/clusterrolebindings",
            Self::ServiceAccount => "/serviceaccounts",
        };
        path.extend_from_slice(plural.as_bytes());
        String::from_utf8_lossy(&path).into_owned()
    }

    const fn is_namespaced(self) -> bool {
        !matches!(self, Self::ClusterRole | Self::ClusterRoleBinding)
    }

    /// The path of one of the kind.
    pub(super) fn path(self, names: &ObjectNames) -> String {
        let mut path = self.folder(&names.namespace).into_bytes();
        path.push(b'/');
        form_component(&names.name, &mut path);
        String::from_utf8_lossy(&path).into_owned()
    }
}

/// What is made by a role, in this order: the first owns the others.
pub(super) fn kinds(role: &ClusterAccess, is_cluster_binding: bool) -> Vec<ObjectKind> {
    if !role.service_account.is_empty() {
        return Vec::new();
    }
    let binding =
        if is_cluster_binding { ObjectKind::ClusterRoleBinding } else { ObjectKind::RoleBinding };
    let own = if role.is_cluster_role { ObjectKind::ClusterRole } else { ObjectKind::Role };
    let made_role = role.kubernetes_role.is_empty().then_some(own);
    made_role.into_iter().chain([binding, ObjectKind::ServiceAccount]).collect()
}

/// What an object says.
fn body(
    kind: ObjectKind,
    names: &ObjectNames,
    role: &ClusterAccess,
    owner: Option<&OwnerObject>,
) -> Result<Json, Error> {
    let own = OWN_LABELS.map(|(name, value)| (name.to_owned(), value.into()));
    let labels: Map = role.labels.clone().into_iter().chain(own).collect();
    let mut metadata = Map::from([
        ("name".to_owned(), names.name.as_str().into()),
        ("labels".to_owned(), labels.into()),
    ]);
    if kind.is_namespaced() {
        metadata.insert("namespace".into(), names.namespace.as_str().into());
    }
    if !role.annotations.is_empty() {
        metadata.insert("annotations".into(), role.annotations.clone().into());
    }
    if let Some(owner) = owner {
        let reference = Json::object([
            ("apiVersion", owner.kind.api_version().into()),
            ("kind", owner.kind.name().into()),
            ("name", names.name.as_str().into()),
            ("uid", owner.uid.as_str().into()),
        ]);
        metadata.insert("ownerReferences".into(), Json::Array(vec![reference]));
    }
    let mut object = Map::from([
        ("apiVersion".to_owned(), kind.api_version().into()),
        ("kind".to_owned(), kind.name().into()),
        ("metadata".to_owned(), metadata.into()),
    ]);
    match kind {
        ObjectKind::Role | ObjectKind::ClusterRole => {
            object.insert("rules".into(), role.rules()?);
        }
        ObjectKind::RoleBinding | ObjectKind::ClusterRoleBinding => {
            let bound = match role.kubernetes_role.as_str() {
                "" => names.name.as_str(),
                there => there,
            };
            let role_kind =
                if role.is_cluster_role { ObjectKind::ClusterRole } else { ObjectKind::Role };
            object.insert(
                "roleRef".into(),
                Json::object([
                    ("apiGroup", "rbac.authorization.k8s.io".into()),
                    ("kind", role_kind.name().into()),
                    ("name", bound.into()),
                ]),
            );
            let subject = Json::object([
                ("kind", ObjectKind::ServiceAccount.name().into()),
                ("name", names.name.as_str().into()),
                ("namespace", names.namespace.as_str().into()),
            ]);
            object.insert("subjects".into(), Json::Array(vec![subject]));
        }
        ObjectKind::ServiceAccount => {}
    }
    Ok(object.into())
}

/// Makes an object, and says what owns the next ones.
pub(super) async fn create(
    context: &EngineContext<'_>,
    cluster: &Cluster,
    role: &ClusterAccess,
    names: &ObjectNames,
    kind: ObjectKind,
    owner: Option<&OwnerObject>,
) -> Result<OwnerObject, ApiFailure> {
    use kallisto_engine::FarEndFailure::{Refused, Unknown};
    let body = body(kind, names, role, owner);
    let body = body.map_err(|error| ApiFailure::FarEnd(Refused(error.to_string())))?;
    let path = format!("{}?timeout={SERVER_SECS}s", kind.folder(&names.namespace));
    let answer = cluster.ask(context, HttpWorkVerb::Post, &path, Some(body)).await?;
    match uid(&answer, names, kind) {
        Some(uid) => Ok(OwnerObject { kind, uid }),
        None => Err(ApiFailure::FarEnd(Unknown("it answers with another object".into()))),
    }
}

/// The UID of the object of an answer, if that is the object that was asked for.
pub(super) fn uid(answer: &Map, names: &ObjectNames, kind: ObjectKind) -> Option<String> {
    let metadata = answer.get("metadata")?.as_object()?;
    let text = |name: &str| metadata.get(name).and_then(Json::as_str);
    let is_meant = text("name") == Some(&names.name)
        && (!kind.is_namespaced() || text("namespace") == Some(&names.namespace))
        && answer.get("kind").is_none_or(|told| told.as_str() == Some(kind.name()));
    let uid = text("uid").filter(|uid| {
        (1..=UID_BYTES_MAX).contains(&uid.len()) && uid.bytes().all(|byte| byte.is_ascii_graphic())
    });
    uid.filter(|_| is_meant).map(str::to_owned)
}

impl Revocation {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut map = Map::from([
            ("namespace".to_owned(), self.names.namespace.as_str().into()),
            ("name".to_owned(), self.names.name.as_str().into()),
            ("objects".to_owned(), Json::strings(self.kinds.iter().map(|kind| kind.name()))),
        ]);
        if let Some(secs) = self.asked_secs.and_then(|secs| u64::try_from(secs).ok()) {
            map.insert("asked_at".into(), secs.into());
        }
        Json::Object(map).to_text()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let text = |name: &str| map.get(name)?.as_str().map(str::to_owned);
        let Some(Json::Array(objects)) = map.get("objects") else { return None };
        let kind = |object: &Json| {
            ObjectKind::ALL.into_iter().find(|kind| object.as_str() == Some(kind.name()))
        };
        let asked_secs = Fields::new(&map).int("asked_at").ok()?;
        if asked_secs.is_some_and(i64::is_negative) {
            return None;
        }
        Some(Self {
            names: ObjectNames { namespace: text("namespace")?, name: text("name")? },
            kinds: objects.iter().map(kind).collect::<Option<_>>()?,
            asked_secs,
        })
    }

    /// Deletes the objects, those that are there: the account first, whose token ends with it.
    ///
    /// # Errors
    /// The first failure, once each was tried; and [`Error::Unavailable`] while one that is not there may still appear.
    pub(super) async fn run(&self, context: &EngineContext<'_>) -> Result<(), Error> {
        if self.kinds.is_empty() {
            return Ok(());
        }
        let cluster = Cluster::find(context)?;
        let (mut failed, mut absent) = (None, None);
        for kind in self.kinds.iter().rev() {
            let path = format!("{}?propagationPolicy=Background", kind.path(&self.names));
            match cluster.ask(context, HttpWorkVerb::Delete, &path, None).await {
                Ok(_) => {}
                Err(failure) if failure.is_not_found() => absent = Some(kind),
                Err(failure) => {
                    let doing = format!("failed to delete the {} {}", kind.name(), self.names.name);
                    let is_refused = matches!(failure, ApiFailure::Refused { .. });
                    failed.get_or_insert(cluster.error(&doing, &failure));
                    if !is_refused {
                        // It does not answer: it is not asked for the others now.
                        break;
                    }
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let settled =
            self.asked_secs.is_none_or(|asked| context.now.as_second() >= asked + SETTLE_SECS);
        match absent {
            Some(kind) if !settled => Err(Error::Unavailable(format!(
                "the {} {} was asked for without an answer and may still appear: it is deleted later",
                kind.name(),
                self.names.name
            ))),
            _ => Ok(()),
        }
    }
}
