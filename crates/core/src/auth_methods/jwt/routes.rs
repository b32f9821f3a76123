//! The routes of logins with a JWT.

use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, Route, field};

use crate::auth_methods::routes::with_token_fields;
use crate::auth_methods::routes::{LOGIN_FIELDS, ROLE};

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
pub(crate) static JWT: Family = Family {
    name: "jwt",
    tag: "auth",
    about: "Bearers of a JWT that a trusted issuer signed log in with it.",
    groups: &[&[
        Route::new(
            "config",
            &[(Read, "Read where keys come from."), (Update, "Set where keys come from.")],
            &CONFIG_JWT,
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
                    "How long before its end one without a start is good."
                ),
                field("clock_skew_leeway", Span, "How far clocks may be apart."),
            ],
        ),
        Route::new("login", &[(Update, "Log in.")], &LOGIN_FIELDS).admitting(Admits::Anyone),
    ]],
};
