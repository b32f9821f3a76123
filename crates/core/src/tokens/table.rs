//! The routes of tokens, at `auth/token/`.

use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Texts, Whole};
use kallisto_engine::route::{Field, ServedBy, field};
use kallisto_engine::{RouteRows, Row, RowIndex, row};

use super::revoke::Children;
use super::roles;
use super::routes::{
    create_by_role, create_child, create_orphan, list_accessors, look_up_accessor, look_up_given,
    look_up_own, renew_accessor, renew_given, renew_own, revoke_accessor, revoke_given, revoke_own,
    tidy,
};
use crate::dispatch::route_handler::{RouteHandler, RouteTable, runs};

/// `auth/token/`.
pub(crate) static TOKEN: RouteTable = RouteRows {
    index: RowIndex::new(),
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

const CREATION: &[Row<RouteHandler>] = &[
    row!("create", OF_A_NEW_TOKEN, {
        Update => "Make a token, child of the one that asks.",
            runs!(async |run| create_child(&run).await);
    }),
    row!("create-orphan", OF_A_NEW_TOKEN, {
        Update => "Make a token that has no parent.", runs!(async |run| create_orphan(&run).await);
    }),
    row!("create/{role_name}", OF_A_NEW_TOKEN, {
        Update => "Make a token within the bounds of a role.",
            runs!(async |run| create_by_role(&run).await);
    }),
];

const LIFE: &[Row<RouteHandler>] = &[
    row!("lookup", &[TOKEN_FIELD], {
        Read => "Describe the token that asks.", runs!(|run| look_up_own(&run));
        Update => "Describe a token; without one, the token that asks.",
            runs!(|run| look_up_given(&run));
    } .served_by(ServedBy::AnyServer)),
    row!("lookup-self", &[], {
        Read => "Describe the token that asks.", runs!(|run| look_up_own(&run));
        Update => "Describe the token that asks.",
            runs!(|run| run.call.object().and_then(|_| look_up_own(&run)));
    } .served_by(ServedBy::AnyServer).about_caller()),
    row!("lookup-accessor", &[ACCESSOR], {
        Update => "Describe the token of an accessor, without its text.",
            runs!(|run| look_up_accessor(&run));
    } .served_by(ServedBy::AnyServer)),
    row!("renew", &[TOKEN_FIELD, INCREMENT], {
        Update => "Renew a token.", runs!(async |run| renew_given(&run).await);
    }),
    row!("renew-self", &[INCREMENT], {
        Update => "Renew the token that asks.", runs!(async |run| renew_own(&run).await);
    } .about_caller()),
    row!("renew-accessor", &[ACCESSOR, INCREMENT], {
        Update => "Renew the token of an accessor.", runs!(async |run| renew_accessor(&run).await);
    }),
    row!("revoke", &[TOKEN_FIELD], {
        Update => "Revoke a token and its children.",
            runs!(async |run| revoke_given(&run, Children::Revoke).await);
    }),
    row!("revoke-self", &[], {
        Update => "Revoke the token that asks and its children.",
            runs!(async |run| revoke_own(&run).await);
    } .about_caller()),
    row!("revoke-orphan", &[TOKEN_FIELD], {
        Update => "Revoke a token and leave its children as orphans.",
            runs!(async |run| revoke_given(&run, Children::Orphan).await);
    } .with_sudo()),
    row!("revoke-accessor", &[
        ACCESSOR,
        field("dry_run", Flag, "Only count the tokens that would end."),
    ], {
        Update => "Revoke the token of an accessor and its children.",
            runs!(async |run| revoke_accessor(&run).await);
    }),
    row!("accessors", &[], {
        List => "List the accessors of all tokens.", runs!(|run| list_accessors(&run));
    } .with_sudo()),
    row!("tidy", &[], {
        Update => "Accepted; there is never anything to tidy.", runs!(|_run| tidy());
    }),
];

const ROLES: &[Row<RouteHandler>] = &[
    row!("roles", &[], {
        List => "List the roles.", runs!(|run| roles::list(&run.context));
    }),
    row!("roles/{name}", &[
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
    ], {
        Read => "Read a role.", runs!(|run| roles::read(&run.context, run.params.get("name")));
        Update => "Write a role.",
            runs!(async |run| roles::write(&run.context, run.call, run.params.get("name")).await);
        Delete => "Delete a role.",
            runs!(async |run| roles::delete(&run.context, run.params.get("name")).await);
    }.creating_as_engine_tells()),
];
