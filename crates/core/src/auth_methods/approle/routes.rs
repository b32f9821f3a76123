//! The routes of roles with secret ids.

use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, Route, field};

use crate::auth_methods::routes::ROLE;
use crate::auth_methods::routes::with_token_fields;

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
pub(crate) static APPROLE: Family = Family {
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
