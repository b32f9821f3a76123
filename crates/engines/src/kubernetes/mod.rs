//! Kubernetes: tokens of service accounts that end with their leases, and the accounts, roles and bindings that are made for them.
//!
//! In the mount's storage, a record each, as JSON:
//!
//! ```text
//! config      where the API server is, and with which token it is asked
//! role/NAME   for whom what is made
//! ```
//!
//! ```text
//! cluster        the API server: where it is, how it is asked, what its answers mean
//! role           roles; `yaml`, `rules` and `selector` read what they say of namespaces and rules
//! account_name   names of what is made
//! objects        the objects that are made, and how they are taken back
//! creds          a token, and all that is made for it
//! ```
//!
//! Invariants:
//! - What deletes an object is committed before the API server is asked to make it.
//! - An object that was there before is neither taken over nor deleted: names have a part that is drawn.
//! - A lease is forgotten when the API server said of each object that it is gone, and none can appear any more.
//! - No answer and no error has the token of the configuration.

mod account_name;
mod cluster;
mod creds;
#[cfg(any(test, feature = "fuzz"))]
mod hostile;
mod object_name;
mod objects;
mod role;
mod rules;
mod selector;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "fuzz"))]
pub use hostile::read_hostile;
use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Texts};
use kallisto_engine::route::{AFTER, Field, LIMIT, field, query};
use kallisto_engine::{
    EngineLeases, EngineSpec, Handler, RoleTtl, RouteRows, RowIndex, handler, row,
};

use crate::leased;

const NAME: Field = field("name", Text, "The name.");

static ROUTES: RouteRows<Handler> = RouteRows {
    name: "kubernetes",
    tag: "secrets",
    about: "Tokens of Kubernetes service accounts that end with their leases.",
    index: RowIndex::new(),
    groups: &[&[
        row!("config", &[
            field("kubernetes_host", Text, "Where the API server is: `https` or `http`, host and port, and a path if it has one; that of the server's own cluster without, in a pod."),
            field("kubernetes_ca_cert", Text, "The authorities to believe there, as PEM; without, that of the pod for the API server of its own cluster, or those of the machine."),
            field("service_account_jwt", Text, "The token it is asked with; never shown. Without, that of the server's pod, for the API server of its own cluster alone."),
            field("disable_local_ca_jwt", Flag, "Whether token and authority of the server's own pod are not used."),
            query("force", Flag, leased::FORCE),
        ], {
            Read => "Read how the cluster is asked.", handler!(cluster::read);
            Update => "Set how the cluster is asked.", handler!(cluster::write);
            Delete => "Forget how the cluster is asked.", handler!(creds::delete_config);
        }),
        row!("check", &[], { Read => "Ask the API server with the token of the configuration.", handler!(cluster::check) }),
        row!("roles", &[AFTER, LIMIT], { List => "List the roles.", handler!(role::list) }),
        row!("roles/{name}", &[
            NAME,
            field("allowed_kubernetes_namespaces", Texts, "The namespaces it may be used in; `*` for all."),
            field("allowed_kubernetes_namespace_selector", Text, "Namespaces besides, by their labels: a `LabelSelector` as JSON or YAML."),
            field("token_default_ttl", Span, "How long a token lives; 0 for what the mount says."),
            field("token_max_ttl", Span, "How long at the most; 0 for what the mount says."),
            field("token_default_audiences", Texts, "Whom a token is for when nobody says; the API server itself without."),
            field("service_account_name", Text, "An account that is there: tokens are its own."),
            field("kubernetes_role_name", Text, "A role that is there: each token is of a new account that is bound to it."),
            field("generated_role_rules", Text, "The rules of a new role, as JSON or YAML: each token is of a new account that is bound to one."),
            field("kubernetes_role_type", Text, "`Role` or `ClusterRole`."),
            field("name_template", Text, "How what is made is called; 8 random characters at the least."),
            field("extra_labels", Map, "Labels of what is made."),
            field("extra_annotations", Map, "Annotations of what is made."),
        ], {
            Read => "Read a role.", handler!(role::read);
            Update => "Make or change a role.", handler!(role::write);
            Delete => "Delete a role.", handler!(role::delete);
        }.creating(|to| Some(role::record_name(to.name("name")?)))),
        row!("creds/{name}", &[
            NAME,
            field("kubernetes_namespace", Text, "The namespace; needed unless the role has just one."),
            field("cluster_role_binding", Flag, "Whether the account is bound in the whole cluster, not in the namespace."),
            field("ttl", Span, "How long the token shall live."),
            field("audiences", Texts, "Whom the token is for."),
        ], { Update => "Make a token of a service account, with a lease.", handler!(creds::make) }),
    ]],
};

/// The engine.
pub(crate) static ENGINE: EngineSpec = EngineSpec {
    leases: Some(EngineLeases {
        revoke: |call| Box::pin(creds::end_lease(call)),
        // Its leases are not renewable.
        renew: |_, _| Box::pin(std::future::ready(Ok(()))),
        role_ttl: |_| Ok(RoleTtl::default()),
    }),
    ..EngineSpec::secret("kubernetes", &ROUTES)
};
