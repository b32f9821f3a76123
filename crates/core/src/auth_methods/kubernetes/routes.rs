//! The routes of logins of service accounts.

use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, LIMIT, Route, field};

use crate::auth_methods::routes::with_token_fields;
use crate::auth_methods::routes::{LOGIN_FIELDS, ROLE};

/// `auth/kubernetes/`.
pub(crate) static KUBERNETES: Family = Family {
    name: "kubernetes",
    tag: "auth",
    about: "Service accounts of a Kubernetes cluster log in with their token.",
    groups: &[&[
        Route::new(
            "config",
            &[(Read, "Read how the cluster is asked."), (Update, "Set how the cluster is asked.")],
            &[
                field("kubernetes_host", Text, "Where its API server is."),
                field("kubernetes_ca_cert", Text, "The authorities to believe there, as PEM."),
                field("token_reviewer_jwt", Text, "Shown when a token is reviewed."),
                field("pem_keys", Texts, "Public keys that tokens are checked with first."),
                field("issuer", Text, "The issuer a token must name, if that is asked for."),
                field("disable_iss_validation", Flag, "Whether the issuer is not looked at."),
                field("disable_local_ca_jwt", Flag, "Shown back."),
            ],
        ),
        Route::new("role", &[(List, "List the roles.")], &[AFTER, LIMIT]),
        Route::new(
            "role/{role}",
            &[
                (Read, "Read a role."),
                (Update, "Make or change a role."),
                (Delete, "Delete a role."),
            ],
            with_token_fields![
                ROLE,
                field("bound_service_account_names", Texts, "The accounts; `*` for any."),
                field("bound_service_account_namespaces", Texts, "Their namespaces; `*` for any."),
                field(
                    "bound_service_account_namespace_selector",
                    Text,
                    "Labels of namespaces besides, as `{\"matchLabels\":{..}}`."
                ),
                field("audience", Text, "The audience a token must be for."),
                field("alias_name_source", Text, "`serviceaccount_uid` or `serviceaccount_name`."),
            ],
        ),
        Route::new("login", &[(Update, "Log in.")], &LOGIN_FIELDS).admitting(Admits::Anyone),
    ]],
};
