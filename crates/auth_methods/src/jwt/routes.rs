//! The routes of logins with a JWT.

use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, field};
use kallisto_engine::{Handler, RowIndex, Table, handler, row};

use super::{Config, ROLES, Role, log_in};
use crate::records;
use crate::routes::with_token_fields;
use crate::routes::{LOGIN_FIELDS, ROLE};

const CONFIG_JWT: [Field; 8] = [
    field("oidc_discovery_url", Text, "Where a provider describes itself."),
    field("oidc_discovery_ca_pem", Text, "The authorities to believe there."),
    field("jwks_url", Text, "Where a set of keys is."),
    field("jwks_ca_pem", Text, "The authorities to believe there."),
    field("jwt_validation_pubkeys", Texts, "Public keys or certificates, as PEM."),
    field("bound_issuer", Text, "The issuer a JWT must name."),
    field("default_role", Text, "The role of a login that names none."),
    field("jwt_supported_algs", Texts, "The algorithms taken; all when empty."),
];

/// `auth/jwt/`.
pub(super) static JWT: Table<Handler> = Table {
    index: RowIndex::new(),
    name: "jwt",
    tag: "auth",
    about: "Bearers of a JWT that a trusted issuer signed log in with it.",
    groups: &[&[
        row!("config", &CONFIG_JWT, {
            Read => "Read where keys come from.", handler!(|run| records::read_config::<Config>(&run));
            Update => "Set where keys come from.",
                handler!(async |run| records::write_config::<Config>(&run).await);
        }),
        row!("role", &[AFTER, LIMIT], {
            List => "List the roles.", handler!(|run| ROLES.list(&run));
        }),
        row!("role/{role}", with_token_fields![
            ROLE,
            field("role_type", Text, "`jwt`."),
            field("user_claim", Text, "The claim that says who it is."),
            field("user_claim_json_pointer", Flag, "Whether `user_claim` is a JSON pointer."),
            field("verbose_oidc_logging", Flag, "Shown back."),
            field("groups_claim", Text, "The claim that lists groups."),
            field("bound_audiences", Texts, "The audiences of which one must be claimed."),
            field("bound_subject", Text, "The subject that must be claimed."),
            field("bound_claims", Map, "Claims that must be there, with their values."),
            field("bound_claims_type", Text, "`string`, or `glob` to let `*` stand for text."),
            field("claim_mappings", Map, "Claims, and the metadata they become."),
            field("expiration_leeway", Span, "Lifetime of a JWT that claims no end."),
            field(
                "not_before_leeway",
                Span,
                "How long before its end one without a start is good.",
            ),
            field("clock_skew_leeway", Span, "How far clocks may be apart."),
        ], {
            Read => "Read a role.", handler!(|run| ROLES.read::<Role>(&run));
            Update => "Make or change a role.", handler!(async |run| ROLES.write::<Role>(&run).await);
            Delete => "Delete a role.", handler!(async |run| ROLES.delete(&run).await);
        }),
        row!("login", &LOGIN_FIELDS, {
            Update => "Log in.",
                handler!(log_in);
        } .admitting(Admits::Anyone)),
    ]],
};
