//! The routes of logins of service accounts.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, LIMIT, field};
use kallisto_engine::{Handler, RouteRows, RowIndex, handler, row};

use super::{KubernetesConfig, KubernetesRole, ROLES, log_in};
use crate::records;
use crate::routes::with_token_fields;
use crate::routes::{LOGIN_FIELDS, ROLE};

/// `auth/kubernetes/`.
pub(super) static KUBERNETES: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "kubernetes",
    tag: "auth",
    about: "Service accounts of a Kubernetes cluster log in with their token.",
    groups: &[&[
        row!("config", &[
            field("kubernetes_host", Text, "Where its API server is."),
            field("kubernetes_ca_cert", Text, "The authorities to believe there, as PEM; without, that of the pod for the API server of its own cluster."),
            field("token_reviewer_jwt", Text, "Shown when a token is reviewed; without, the token of the server's pod at the API server of its own cluster, or else the login's own."),
            field("pem_keys", Texts, "Public keys that tokens are checked with first."),
            field("issuer", Text, "The issuer a token must name, if that is asked for."),
            field("disable_iss_validation", Flag, "Whether the issuer is not looked at."),
            field("disable_local_ca_jwt", Flag, "Whether token and authority of the server's own pod are not used."),
        ], {
            Read => "Read how the cluster is asked.",
                handler!(|run| records::read_config::<KubernetesConfig>(&run));
            Update => "Set how the cluster is asked.",
                handler!(async |run| records::write_config::<KubernetesConfig>(&run).await);
        }),
        row!("role", &[AFTER, LIMIT], {
            List => "List the roles.", handler!(|run| ROLES.list(&run));
        }),
        row!("role/{role}", with_token_fields![
            ROLE,
            field("bound_service_account_names", Texts, "The accounts; `*` stands for any text."),
            field("bound_service_account_namespaces", Texts, "Their namespaces; `*` stands for any text."),
            field(
                "bound_service_account_namespace_selector",
                Text,
                "Labels of namespaces besides, as `{\"matchLabels\":{..}}`.",
            ),
            field("audience", Text, "The audience a token must be for."),
            field("alias_name_source", Text, "`serviceaccount_uid` or `serviceaccount_name`."),
        ], {
            Read => "Read a role.", handler!(|run| ROLES.read::<KubernetesRole>(&run));
            Update => "Make or change a role.", handler!(async |run| ROLES.write::<KubernetesRole>(&run).await);
            Delete => "Delete a role.", handler!(async |run| ROLES.delete(&run).await);
        }.creating(|to| ROLES.record(to.params).ok())),
        row!("login", &LOGIN_FIELDS, {
            Update => "Log in.",
                handler!(log_in);
        } .admitting(Admits::Anyone)),
    ]],
};
