//! The login methods.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use super::Kind::{Flag, Map, Span, Text, Texts, Whole};
use super::{AFTER, Admits, Family, Field, LIMIT, Route, field};

const NAME: Field = field("name", Text, "The user's name.");
const PASSWORD: Field = field("password", Text, "The password.");
const PASSWORD_HASH: Field = field("password_hash", Text, "A bcrypt hash of the password instead.");

/// Fields of one's own, then those that every role and user has.
macro_rules! with_token_fields {
    ($($own:expr),* $(,)?) => {
        &[
            $($own,)*
            field("token_bound_cidrs", Texts, "Where the tokens may be used from."),
            field("token_explicit_max_ttl", Span, "How long a token lives, whatever is tuned."),
            field("token_max_ttl", Span, "How long a token lives with all its renewals."),
            field("token_no_default_policy", Flag, "Whether the policy `default` is left out."),
            field("token_num_uses", Whole, "How many requests a token is good for."),
            field("token_period", Span, "What each renewal gives."),
            field("token_policies", Texts, "The policies of the tokens."),
            field("token_strictly_bind_ip", Flag, "Whether only the login's address may use them."),
            field("token_ttl", Span, "How long a token lives at first."),
            field("token_type", Text, "`service`, `batch` or `default`."),
        ]
    };
}

/// `auth/userpass/`.
pub(super) static USERPASS: Family = Family {
    name: "userpass",
    tag: "auth",
    about: "Users log in with their name and password.",
    groups: &[&[
        Route::new("users", &[(List, "List the users.")], &[AFTER, LIMIT]),
        Route::new(
            "users/{name}",
            &[
                (Read, "Read a user."),
                (Update, "Make or change a user."),
                (Delete, "Delete a user."),
            ],
            with_token_fields![NAME, PASSWORD, PASSWORD_HASH],
        ),
        Route::new(
            "users/{name}/password",
            &[(Update, "Set a user's password.")],
            &[NAME, PASSWORD, PASSWORD_HASH],
        ),
        Route::new(
            "users/{name}/policies",
            &[(Update, "Set a user's policies.")],
            &[NAME, field("token_policies", Texts, "The policies of the tokens.")],
        ),
        Route::new("login/{name}", &[(Update, "Log in.")], &[NAME, PASSWORD])
            .admitting(Admits::Anyone),
    ]],
};

const ROLE: Field = field("role", Text, "The role's name.");
const ROLE_ID: Field = field("role_id", Text, "What machines call the role.");
const SECRET_ID: Field = field("secret_id", Text, "The secret id.");
const ACCESSOR: Field = field("secret_id_accessor", Text, "The accessor of the secret id.");
const SECRET_ID_FIELDS: [Field; 5] = [
    field("metadata", Text, "Written on the tokens, as JSON text."),
    field("cidr_list", Texts, "Where it may be used from."),
    field("token_bound_cidrs", Texts, "Where the tokens may be used from."),
    field("num_uses", Whole, "How many logins it is good for."),
    field("ttl", Span, "How long it is good."),
];

/// The row of a part of a role.
macro_rules! part {
    ($route:literal, $field:literal, $kind:ident, $about:literal) => {
        Route::new(
            concat!("role/{role}/", $route),
            &[
                (Read, concat!("Read ", $about, ".")),
                (Update, concat!("Set ", $about, ".")),
                (Delete, concat!("Unset ", $about, ".")),
            ],
            &[ROLE, field($field, $kind, "The new value.")],
        )
    };
}

/// `auth/approle/`.
pub(super) static APPROLE: Family = Family {
    name: "approle",
    tag: "auth",
    about: "Machines log in with a role's id and a secret id.",
    groups: &[ROLES, PARTS, SECRET_IDS],
};

const ROLES: &[Route] = &[
    Route::new("role", &[(List, "List the roles.")], &[AFTER, LIMIT]),
    Route::new(
        "role/{role}",
        &[
            (Read, "Read a role."),
            (Update, "Make or change a role."),
            (Delete, "Delete a role and its secret ids."),
        ],
        with_token_fields![
            ROLE,
            ROLE_ID,
            field("bind_secret_id", Flag, "Whether a login takes a secret id."),
            field("local_secret_ids", Flag, "Shown back."),
            field("secret_id_bound_cidrs", Texts, "Where logins may come from."),
            field("secret_id_num_uses", Whole, "How many logins a secret id is good for."),
            field("secret_id_ttl", Span, "How long a secret id is good."),
        ],
    ),
    Route::new(
        "role/{role}/role-id",
        &[(Read, "Read a role's id."), (Update, "Set a role's id.")],
        &[ROLE, ROLE_ID],
    ),
    Route::new(
        "role/{role}/local-secret-ids",
        &[(Read, "Read whether secret ids were asked to be local.")],
        &[ROLE],
    ),
    Route::new("login", &[(Update, "Log in.")], &[ROLE_ID, SECRET_ID]).admitting(Admits::Anyone),
    Route::new("tidy/secret-id", &[(Update, "Delete expired secret ids.")], &[]),
];

const PARTS: &[Route] = &[
    part!("policies", "token_policies", Texts, "the policies of a role's tokens"),
    part!("token-ttl", "token_ttl", Span, "how long a role's tokens live at first"),
    part!("token-max-ttl", "token_max_ttl", Span, "how long they live with all renewals"),
    part!("token-num-uses", "token_num_uses", Whole, "how many requests they are good for"),
    part!("token-bound-cidrs", "token_bound_cidrs", Texts, "where they may be used from"),
    part!("period", "token_period", Span, "what each renewal gives"),
    part!("bind-secret-id", "bind_secret_id", Flag, "whether a login takes a secret id"),
    part!("secret-id-num-uses", "secret_id_num_uses", Whole, "a secret id's number of logins"),
    part!("secret-id-ttl", "secret_id_ttl", Span, "how long a secret id is good"),
    part!("secret-id-bound-cidrs", "secret_id_bound_cidrs", Texts, "where logins come from"),
    part!("bound-cidr-list", "bound_cidr_list", Texts, "the same, by its older name"),
];

const SECRET_IDS: &[Route] = &[
    Route::new(
        "role/{role}/secret-id",
        &[(Update, "Make a secret id."), (List, "List the accessors of secret ids.")],
        &[
            ROLE,
            SECRET_ID_FIELDS[0],
            SECRET_ID_FIELDS[1],
            SECRET_ID_FIELDS[2],
            SECRET_ID_FIELDS[3],
            SECRET_ID_FIELDS[4],
            AFTER,
            LIMIT,
        ],
    ),
    Route::new(
        "role/{role}/custom-secret-id",
        &[(Update, "Take a given text as a secret id.")],
        &[
            ROLE,
            SECRET_ID,
            SECRET_ID_FIELDS[0],
            SECRET_ID_FIELDS[1],
            SECRET_ID_FIELDS[2],
            SECRET_ID_FIELDS[3],
            SECRET_ID_FIELDS[4],
        ],
    ),
    Route::new(
        "role/{role}/secret-id/lookup",
        &[(Update, "Describe a secret id.")],
        &[ROLE, SECRET_ID],
    ),
    Route::new(
        "role/{role}/secret-id/destroy",
        &[(Update, "Destroy a secret id."), (Delete, "Destroy a secret id.")],
        &[ROLE, SECRET_ID],
    ),
    Route::new(
        "role/{role}/secret-id-accessor/lookup",
        &[(Update, "Describe the secret id of an accessor.")],
        &[ROLE, ACCESSOR],
    ),
    Route::new(
        "role/{role}/secret-id-accessor/destroy",
        &[
            (Update, "Destroy the secret id of an accessor."),
            (Delete, "Destroy the secret id of an accessor."),
        ],
        &[ROLE, ACCESSOR],
    ),
];

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
const LOGIN_FIELDS: [Field; 2] =
    [field("role", Text, "The role to log in by."), field("jwt", Text, "The signed JWT.")];

/// `auth/jwt/`.
pub(super) static JWT: Family = Family {
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

/// `auth/kubernetes/`.
pub(super) static KUBERNETES: Family = Family {
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

/// `auth/cert/`.
pub(super) static CERT: Family = Family {
    name: "cert",
    tag: "auth",
    about: "Clients log in with the certificate of their connection.",
    groups: &[&[
        Route::new(
            "config",
            &[
                (Read, "Read what holds for all logins."),
                (Update, "Set what holds for all logins."),
            ],
            &[field("disable_binding", Flag, "Renew tokens without their certificate.")],
        ),
        Route::new(
            "crls",
            &[(List, "List the lists of certificates that were taken back.")],
            &[AFTER, LIMIT],
        ),
        Route::new(
            "crls/{name}",
            &[
                (Read, "Read the serial numbers of a list."),
                (Update, "Bring a list; a login with a certificate on it is refused."),
                (Delete, "Forget a list."),
            ],
            &[field("name", Text, "Name of the list."), field("crl", Text, "The list as PEM.")],
        ),
        Route::new("certs", &[(List, "List whose certificates log in.")], &[AFTER, LIMIT]),
        Route::new(
            "certs/{role}",
            &[
                (Read, "Read whose certificates log in."),
                (Update, "Set whose certificates log in."),
                (Delete, "Let them log in no more."),
            ],
            with_token_fields![
                ROLE,
                field("certificate", Text, "Authorities, or clients' own certificates, as PEM."),
                field("display_name", Text, "What people see of a login."),
                field("allowed_names", Texts, "Common names, DNS names or mail addresses."),
                field("allowed_common_names", Texts, "Common names; `*` stands for any text."),
                field("allowed_dns_sans", Texts, "DNS names."),
                field("allowed_email_sans", Texts, "Mail addresses."),
                field("allowed_uri_sans", Texts, "URIs."),
                field("allowed_organizational_units", Texts, "Units."),
                field("required_extensions", Texts, "`oid:pattern`, or `hex:oid:pattern`."),
                field("allowed_metadata_extensions", Texts, "Extensions noted with a login."),
            ],
        ),
        Route::new(
            "login",
            &[(Update, "Log in.")],
            &[field("name", Text, "Whose certificate it is; found when absent.")],
        )
        .admitting(Admits::Anyone),
    ]],
};
