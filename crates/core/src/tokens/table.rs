//! The routes of tokens, at `auth/token/`.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Texts, Whole};
use kallisto_engine::route::{Field, Route, ServedBy, field};

/// `auth/token/`.
pub(crate) static TOKEN: Family = Family {
    name: "token",
    tag: "auth",
    about: "Tokens: making them, asking about them, renewing and revoking them.",
    groups: &[CREATION, LIFE, ROLES],
};

const TOKEN_FIELD: Field = field("token", Text, "The token.");
const ACCESSOR: Field = field("accessor", Text, "The accessor of the token.");
const INCREMENT: Field = field("increment", Span, "The lifetime asked for.");
const ROLE_NAME: Field = field("name", Text, "Name of the role.");

const OF_A_NEW_TOKEN: &[Field] = &[
    field("role_name", Text, "Name of the role."),
    field("id", Text, "The token's text; drawn when absent. Needs sudo."),
    field("policies", Texts, "Names of its policies; those of the asking token when absent."),
    field("meta", Map, "Names and texts that stand in audit records."),
    field("no_parent", Flag, "Make it an orphan. Needs sudo."),
    field("no_default_policy", Flag, "Leave out the default policy."),
    field("renewable", Flag, "Whether it can be renewed."),
    field("ttl", Span, "Its lifetime."),
    field("explicit_max_ttl", Span, "The lifetime past which it cannot be renewed."),
    field("display_name", Text, "A name for people."),
    field("num_uses", Whole, "How often it can be used; 0 for any number."),
    field("period", Span, "The lifetime each renewal gives. Needs sudo."),
    field("type", Text, "`service` or `batch`."),
    field("entity_alias", Text, "Name of the entity alias; with a role that allows it."),
];

const CREATION: &[Route] = &[
    Route::new("create", &[(Update, "Make a token, child of the one that asks.")], OF_A_NEW_TOKEN),
    Route::new("create-orphan", &[(Update, "Make a token that has no parent.")], OF_A_NEW_TOKEN),
    Route::new(
        "create/{role_name}",
        &[(Update, "Make a token within the bounds of a role.")],
        OF_A_NEW_TOKEN,
    ),
];

const LIFE: &[Route] = &[
    Route::new(
        "lookup",
        &[
            (Read, "Describe the token that asks."),
            (Update, "Describe a token; without one, the token that asks."),
        ],
        &[TOKEN_FIELD],
    )
    .served_by(ServedBy::AnyServer),
    Route::new(
        "lookup-self",
        &[(Read, "Describe the token that asks."), (Update, "Describe the token that asks.")],
        &[],
    )
    .served_by(ServedBy::AnyServer)
    .about_caller(),
    Route::new(
        "lookup-accessor",
        &[(Update, "Describe the token of an accessor, without its text.")],
        &[ACCESSOR],
    )
    .served_by(ServedBy::AnyServer),
    Route::new("renew", &[(Update, "Renew a token.")], &[TOKEN_FIELD, INCREMENT]),
    Route::new("renew-self", &[(Update, "Renew the token that asks.")], &[INCREMENT])
        .about_caller(),
    Route::new(
        "renew-accessor",
        &[(Update, "Renew the token of an accessor.")],
        &[ACCESSOR, INCREMENT],
    ),
    Route::new("revoke", &[(Update, "Revoke a token and its children.")], &[TOKEN_FIELD]),
    Route::new("revoke-self", &[(Update, "Revoke the token that asks and its children.")], &[])
        .about_caller(),
    Route::new(
        "revoke-orphan",
        &[(Update, "Revoke a token and leave its children as orphans.")],
        &[TOKEN_FIELD],
    )
    .with_sudo(),
    Route::new(
        "revoke-accessor",
        &[(Update, "Revoke the token of an accessor and its children.")],
        &[ACCESSOR],
    ),
    Route::new("accessors", &[(List, "List the accessors of all tokens.")], &[]).with_sudo(),
    Route::new("tidy", &[(Update, "Accepted; there is never anything to tidy.")], &[]),
];

const ROLES: &[Route] = &[
    Route::new("roles", &[(List, "List the roles.")], &[]),
    Route::new(
        "roles/{name}",
        &[(Read, "Read a role."), (Update, "Write a role."), (Delete, "Delete a role.")],
        &[
            ROLE_NAME,
            field("allowed_policies", Texts, "Policies its tokens may have."),
            field("disallowed_policies", Texts, "Policies they may not have."),
            field("allowed_policies_glob", Texts, "The same, with `*`."),
            field("disallowed_policies_glob", Texts, "The same, with `*`."),
            field("allowed_entity_aliases", Texts, "Entity aliases they may be made for."),
            field("orphan", Flag, "Its tokens have no parent."),
            field("renewable", Flag, "Whether its tokens can be renewed."),
            field("path_suffix", Text, "Put at the end of the path that made a token."),
            field("token_period", Span, "The lifetime each renewal gives."),
            field("token_explicit_max_ttl", Span, "The lifetime past which none is renewed."),
            field("token_bound_cidrs", Texts, "Addresses its tokens may be used from."),
            field("token_no_default_policy", Flag, "Leave out the default policy."),
            field("token_num_uses", Whole, "How often its tokens can be used."),
            field("token_type", Text, "`service`, `batch` or a default of these."),
        ],
    ),
];
