//! The routes of logins with a name and a password.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, field};
use kallisto_engine::{Handler, RouteRows, RowIndex, handler, row};

use super::{UserPart, canonical, delete, list, log_in, read, record, write};
use crate::routes::with_token_fields;

const NAME: Field = field("name", Text, "The user's name.");
const PASSWORD: Field = field("password", Text, "The password.");
const PASSWORD_HASH: Field = field("password_hash", Text, "A bcrypt hash of the password instead.");

/// `auth/userpass/`.
pub(super) static USERPASS: RouteRows<Handler> = RouteRows {
    index: RowIndex::new(),
    name: "userpass",
    tag: "auth",
    about: "Users log in with their name and password.",
    groups: &[&[
        row!("users", &[AFTER, LIMIT], {
            List => "List the users.", handler!(|run| list(&run));
        }),
        row!("users/{name}", with_token_fields![NAME, PASSWORD, PASSWORD_HASH], {
            Read => "Read a user.", handler!(|run| read(&run));
            Update => "Make or change a user.", handler!(async |run| write(&run, UserPart::User).await);
            Delete => "Delete a user.", handler!(async |run| delete(&run).await);
        } .light().creating(|to| Some(record(&canonical(to.params.get("name"))?)))),
        row!("users/{name}/password", &[NAME, PASSWORD, PASSWORD_HASH], {
            Update => "Set a user's password.",
                handler!(async |run| write(&run, UserPart::Password).await);
        } .light()),
        row!("users/{name}/policies", &[
            NAME,
            field("token_policies", Texts, "The policies of the tokens."),
        ], {
            Update => "Set a user's policies.",
                handler!(async |run| write(&run, UserPart::Policies).await);
        } .light()),
        row!("login/{name..}", &[NAME, PASSWORD], {
            Update => "Log in.", handler!(log_in);
        } .admitting(Admits::Anyone).light()),
    ]],
};
