//! The routes of roles with secret ids.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, field};
use kallisto_engine::{Handler, RouteRows, Row, RowIndex, handler, row};

use super::role::RolePart;
use super::{Approle, list, log_in, role_in, role_record, tidy};
use crate::names::role_name;
use crate::routes::ROLE;
use crate::routes::with_token_fields;

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
    ($route:literal, $field:literal, $part:ident, $kind:ident, $about:literal) => {
        row!(concat!("role/{role}/", $route), &[ROLE, field($field, $kind, "The new value.")], {
            Read => concat!("Read ", $about, "."),
                handler!(|run| Approle::at(&run).read_part(&role_in(&run)?, RolePart::$part));
            Update => concat!("Set ", $about, "."),
                handler!(async |run| {
                    Approle::at(&run).write_part(&run, &role_in(&run)?, RolePart::$part).await
                });
            Delete => concat!("Unset ", $about, "."),
                handler!(async |run| Approle::at(&run).reset_part(&role_in(&run)?, RolePart::$part).await);
        }.light())
    };
}

/// `auth/approle/`.
pub(super) static APPROLE: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "approle",
    tag: "auth",
    about: "Machines log in with a role's id and a secret id.",
    groups: &[ROLES, PARTS, SECRET_IDS],
};

const ROLES: &[Row<Handler>] = &[
    row!("role", &[AFTER, LIMIT], {
        List => "List the roles.", handler!(|run| list(&run));
    }),
    row!("role/{role}", with_token_fields![
        ROLE,
        ROLE_ID,
        field("bind_secret_id", Flag, "Whether a login takes a secret id."),
        field("local_secret_ids", Flag, "Shown back."),
        field("secret_id_bound_cidrs", Texts, "Where logins may come from."),
        field("secret_id_num_uses", Whole, "How many logins a secret id is good for."),
        field("secret_id_ttl", Span, "How long a secret id is good."),
    ], {
        Read => "Read a role.", handler!(|run| Approle::at(&run).read(&role_in(&run)?));
        Update => "Make or change a role.",
            handler!(async |run| Approle::at(&run).write(&run, &role_in(&run)?).await);
        Delete => "Delete a role and its secret ids.",
            handler!(async |run| Approle::at(&run).delete(&role_in(&run)?).await);
    }.light().creating(|to| Some(role_record(&role_name(to.params.get("role")).ok()?)))),
    row!("role/{role}/role-id", &[ROLE, ROLE_ID], {
        Read => "Read a role's id.", handler!(|run| Approle::at(&run).read_role_id(&role_in(&run)?));
        Update => "Set a role's id.",
            handler!(async |run| Approle::at(&run).write_role_id(&run, &role_in(&run)?).await);
    }.light()),
    row!("role/{role}/local-secret-ids", &[ROLE], {
        Read => "Read whether secret ids were asked to be local.",
            handler!(|run| Approle::at(&run).read_part(&role_in(&run)?, RolePart::LOCAL_SECRET_IDS));
    }.light()),
    row!("login", &[ROLE_ID, SECRET_ID], {
        Update => "Log in.", handler!(log_in);
    } .admitting(Admits::Anyone).light()),
    row!("tidy/secret-id", &[], {
        Update => "Delete expired secret ids.", handler!(async |run| tidy(&run).await);
    }),
];

const PARTS: &[Row<Handler>] = &[
    part!("policies", "token_policies", POLICIES, Texts, "the policies of a role's tokens"),
    part!("token-ttl", "token_ttl", TOKEN_TTL, Span, "how long a role's tokens live at first"),
    part!(
        "token-max-ttl",
        "token_max_ttl",
        TOKEN_MAX_TTL,
        Span,
        "how long they live with all renewals"
    ),
    part!(
        "token-num-uses",
        "token_num_uses",
        TOKEN_NUM_USES,
        Whole,
        "how many requests they are good for"
    ),
    part!(
        "token-bound-cidrs",
        "token_bound_cidrs",
        TOKEN_BOUND_CIDRS,
        Texts,
        "where they may be used from"
    ),
    part!("period", "token_period", PERIOD, Span, "what each renewal gives"),
    part!(
        "bind-secret-id",
        "bind_secret_id",
        BIND_SECRET_ID,
        Flag,
        "whether a login takes a secret id"
    ),
    part!(
        "secret-id-num-uses",
        "secret_id_num_uses",
        SECRET_ID_NUM_USES,
        Whole,
        "a secret id's number of logins"
    ),
    part!("secret-id-ttl", "secret_id_ttl", SECRET_ID_TTL, Span, "how long a secret id is good"),
    part!(
        "secret-id-bound-cidrs",
        "secret_id_bound_cidrs",
        SECRET_ID_BOUND_CIDRS,
        Texts,
        "where logins come from"
    ),
    part!(
        "bound-cidr-list",
        "bound_cidr_list",
        BOUND_CIDR_LIST,
        Texts,
        "the same, by its older name"
    ),
];

const SECRET_IDS: &[Row<Handler>] = &[
    row!("role/{role}/secret-id", &[
        ROLE,
        SECRET_ID_FIELDS[0],
        SECRET_ID_FIELDS[1],
        SECRET_ID_FIELDS[2],
        SECRET_ID_FIELDS[3],
        SECRET_ID_FIELDS[4],
        AFTER,
        LIMIT,
    ], {
        Update => "Make a secret id.",
            handler!(async |run| Approle::at(&run).draw_secret_id(&run, &role_in(&run)?).await);
        List => "List the accessors of secret ids.",
            handler!(|run| Approle::at(&run).list_accessors(&run, &role_in(&run)?));
    }.light()),
    row!("role/{role}/custom-secret-id", &[
        ROLE,
        SECRET_ID,
        SECRET_ID_FIELDS[0],
        SECRET_ID_FIELDS[1],
        SECRET_ID_FIELDS[2],
        SECRET_ID_FIELDS[3],
        SECRET_ID_FIELDS[4],
    ], {
        Update => "Take a given text as a secret id.",
            handler!(async |run| Approle::at(&run).take_secret_id(&run, &role_in(&run)?).await);
    }.light()),
    row!("role/{role}/secret-id/import", &[
        ROLE,
        field("hmac_key", Text, "The key of the role's HMACs at the other server."),
        field("secret_id_hmac", Text, "The HMAC of the secret id under that key, in hex."),
        ACCESSOR,
        field("secret_id_num_uses", Whole, "How many logins it is good for yet; 0 for any number."),
        field("secret_id_ttl", Span, "How long it was good."),
        field("creation_time", Text, "When it was made."),
        field("last_updated_time", Text, "When it was last used."),
        field("expiration_time", Text, "When it expires."),
        SECRET_ID_FIELDS[0],
        SECRET_ID_FIELDS[1],
        SECRET_ID_FIELDS[2],
    ], {
        Update => "Take a secret id of another server by its HMAC.",
            handler!(async |run| Approle::at(&run).import_secret_id(&run, &role_in(&run)?).await);
    }.light().with_sudo().more(
        "The secret id goes on to log in here. One that is here already stays as it is, with the uses it has left.",
    )),
    row!("role/{role}/secret-id/lookup", &[ROLE, SECRET_ID], {
        Update => "Describe a secret id.",
            handler!(|run| Approle::at(&run).look_up(&run, &role_in(&run)?));
    }.light()),
    row!("role/{role}/secret-id/destroy", &[ROLE, SECRET_ID], {
        Update => "Destroy a secret id.",
            handler!(async |run| Approle::at(&run).destroy(&run, &role_in(&run)?).await);
        Delete => "Destroy a secret id.",
            handler!(async |run| Approle::at(&run).destroy(&run, &role_in(&run)?).await);
    }.light()),
    row!("role/{role}/secret-id-accessor/lookup", &[ROLE, ACCESSOR], {
        Update => "Describe the secret id of an accessor.",
            handler!(|run| Approle::at(&run).look_up_accessor(&run, &role_in(&run)?));
    }.light()),
    row!("role/{role}/secret-id-accessor/destroy", &[ROLE, ACCESSOR], {
        Update => "Destroy the secret id of an accessor.",
            handler!(async |run| Approle::at(&run).destroy_accessor(&run, &role_in(&run)?).await);
        Delete => "Destroy the secret id of an accessor.",
            handler!(async |run| Approle::at(&run).destroy_accessor(&run, &role_in(&run)?).await);
    }.light()),
];
