//! The routes of logins of service accounts.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, LIMIT, field};
use kallisto_engine::{RowIndex, Table, row};

use super::{Config, ROLES, Role, log_in};
use crate::auth_methods::records;
use crate::auth_methods::routes::with_token_fields;
use crate::auth_methods::routes::{LOGIN_FIELDS, ROLE};
use crate::engines::route_handler::{RouteTable, opens, runs};

/// `auth/kubernetes/`.
pub(crate) static KUBERNETES: RouteTable = Table {
    index: RowIndex::new(),
    name: "kubernetes",
    tag: "auth",
    about: "Service accounts of a Kubernetes cluster log in with their token.",
    groups: &[&[
        row!("config", &[
            field("kubernetes_host", Text, "Where its API server is."),
            field("kubernetes_ca_cert", Text, "The authorities to believe there, as PEM."),
            field("token_reviewer_jwt", Text, "Shown when a token is reviewed."),
            field("pem_keys", Texts, "Public keys that tokens are checked with first."),
            field("issuer", Text, "The issuer a token must name, if that is asked for."),
            field("disable_iss_validation", Flag, "Whether the issuer is not looked at."),
            field("disable_local_ca_jwt", Flag, "Shown back."),
        ], {
            Read => "Read how the cluster is asked.",
                runs!(|run| records::read_config::<Config>(&run));
            Update => "Set how the cluster is asked.",
                runs!(async |run| records::write_config::<Config>(&run).await);
        }),
        row!("role", &[AFTER, LIMIT], {
            List => "List the roles.", runs!(|run| ROLES.list(&run));
        }),
        row!("role/{role}", with_token_fields![
            ROLE,
            field("bound_service_account_names", Texts, "The accounts; `*` for any."),
            field("bound_service_account_namespaces", Texts, "Their namespaces; `*` for any."),
            field(
                "bound_service_account_namespace_selector",
                Text,
                "Labels of namespaces besides, as `{\"matchLabels\":{..}}`.",
            ),
            field("audience", Text, "The audience a token must be for."),
            field("alias_name_source", Text, "`serviceaccount_uid` or `serviceaccount_name`."),
        ], {
            Read => "Read a role.", runs!(|run| ROLES.read::<Role>(&run));
            Update => "Make or change a role.", runs!(async |run| ROLES.write::<Role>(&run).await);
            Delete => "Delete a role.", runs!(async |run| ROLES.delete(&run).await);
        }),
        row!("login", &LOGIN_FIELDS, {
            Update => "Log in.",
                opens!(async |run| log_in(run.core, run.unsealed, run.request, run.mount).await);
        } .admitting(Admits::Anyone)),
    ]],
};
