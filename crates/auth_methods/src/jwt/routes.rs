//! The routes of logins with a JWT.

use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, field};
use kallisto_engine::{Handler, RouteRows, RowGroup, RowIndex, ServedBy, handler, row};

use super::{JwtRole, ROLES, log_in, oidc, read_config, write_config};
use crate::routes::with_token_fields;
use crate::routes::{LOGIN_FIELDS, ROLE};

const CONFIG_JWT: [Field; 15] = [
    field("oidc_discovery_url", Text, "Where a provider describes itself."),
    field("oidc_discovery_ca_pem", Text, "The authorities to believe there."),
    field("jwks_url", Text, "Where a set of keys is."),
    field("jwks_ca_pem", Text, "The authorities to believe there."),
    field("jwt_validation_pubkeys", Texts, "Public keys or certificates, as PEM."),
    field("bound_issuer", Text, "The issuer a JWT must name."),
    field("default_role", Text, "The role of a login that names none."),
    field(
        "jwt_supported_algs",
        Texts,
        "The algorithms taken; when empty all, and RS256 through a browser.",
    ),
    field("oidc_client_id", Text, "Who this server is to the provider."),
    field("oidc_client_secret", Text, "What shows that; never read back."),
    field("oidc_response_mode", Text, "`query`, or `form_post` to have browsers post."),
    field("oidc_response_types", Texts, "`code`, `id_token` or both; the first when empty."),
    field("namespace_in_state", Flag, "Whether the state says the namespace, not the URI."),
    field("skip_jwks_validation", Flag, "Whether the provider is not asked when it is written."),
    field("provider_config", Map, "`provider`: `azure`, `secureauth` or `ibmisam`."),
];

/// `auth/jwt/`.
pub(super) static JWT: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "jwt",
    tag: "auth",
    about: "Bearers of a JWT that a trusted issuer signed log in with it, and people through a browser.",
    groups: GROUPS,
};

/// `auth/oidc/`.
pub(super) static OIDC: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "oidc",
    tag: "auth",
    about: "People log in through a browser at a provider, and bearers of a JWT that it signed with that.",
    groups: GROUPS,
};

const STATE: Field = field("state", Text, "The login, as its address says it.");
const CLIENT_NONCE: Field = field("client_nonce", Text, "What the client showed when it began.");

const GROUPS: &[RowGroup<Handler>] = &[&[
    row!("config", &CONFIG_JWT, {
        Read => "Read where keys come from.", handler!(read_config);
        Update => "Set where keys come from.", handler!(write_config);
    }),
    row!("role", &[AFTER, LIMIT], {
        List => "List the roles.", handler!(|run| ROLES.list(&run));
    }),
    row!("role/{role}", with_token_fields![
        ROLE,
        field("role_type", Text, "`oidc` for logins through a browser, or `jwt`."),
        field("allowed_redirect_uris", Texts, "Where a browser may come back to, exactly."),
        field("oidc_scopes", Texts, "What is asked for besides `openid`."),
        field("max_age", Span, "How long ago users may have logged in at the provider."),
        field("callback_mode", Text, "`client`, `direct` or `device`: who hears of it."),
        field("poll_interval", Span, "How long clients wait between two questions."),
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
        Read => "Read a role.", handler!(|run| ROLES.read::<JwtRole>(&run));
        Update => "Make or change a role.", handler!(async |run| ROLES.write::<JwtRole>(&run).await);
        Delete => "Delete a role.", handler!(async |run| ROLES.delete(&run).await);
    }.creating(|to| ROLES.record(to.params).ok())),
    row!("login", &LOGIN_FIELDS, {
            Update => "Log in.",
                handler!(log_in);
        } .admitting(Admits::Anyone)),
    row!("oidc/auth_url", &[
            field("role", Text, "The role to log in by."),
            field("redirect_uri", Text, "Where the browser is to come back to."),
            field("client_nonce", Text, "What the client will show again."),
        ], {
            Update => "Begin a login through a browser.", handler!(oidc::auth_url);
        } .admitting(Admits::Anyone)),
    row!("oidc/callback", &[
            STATE,
            CLIENT_NONCE,
            field("code", Text, "The code of the provider."),
            field("id_token", Text, "The token of the provider, where it gives no code."),
            field("error", Text, "What the provider says instead."),
            field("error_description", Text, "Not looked at."),
            field("iss", Text, "Who the provider says it is."),
            field("confirm", Text, "The secret of the page that asks for a confirmation."),
        ], {
            Read => "Finish a login through a browser.", handler!(oidc::callback);
            Update => "Take what a browser posts.", handler!(oidc::callback);
        } .admitting(Admits::Anyone).served_by(ServedBy::Leader)),
    row!("oidc/poll", &[STATE, CLIENT_NONCE], {
            Update => "Ask whether a login is done.", handler!(oidc::poll);
        } .admitting(Admits::Anyone)),
]];
