//! The routes of logins with a name and a password.

use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, field};
use kallisto_engine::{RowIndex, Table, row};

use super::{Part, delete, list, log_in, read, write};
use crate::auth_methods::routes::with_token_fields;
use crate::engines::route_handler::{RouteTable, opens, runs};

const NAME: Field = field("name", Text, "The user's name.");
const PASSWORD: Field = field("password", Text, "The password.");
const PASSWORD_HASH: Field = field("password_hash", Text, "A bcrypt hash of the password instead.");

/// `auth/userpass/`.
pub(crate) static USERPASS: RouteTable = Table {
    index: RowIndex::new(),
    name: "userpass",
    tag: "auth",
    about: "Users log in with their name and password.",
    groups: &[&[
        row!("users", &[AFTER, LIMIT], {
            List => "List the users.", runs!(|run| list(&run));
        }),
        row!("users/{name}", with_token_fields![NAME, PASSWORD, PASSWORD_HASH], {
            Read => "Read a user.", runs!(|run| read(&run));
            Update => "Make or change a user.", runs!(async |run| write(&run, Part::User).await);
            Delete => "Delete a user.", runs!(async |run| delete(&run).await);
        }),
        row!("users/{name}/password", &[NAME, PASSWORD, PASSWORD_HASH], {
            Update => "Set a user's password.",
                runs!(async |run| write(&run, Part::Password).await);
        }),
        row!("users/{name}/policies", &[
            NAME,
            field("token_policies", Texts, "The policies of the tokens."),
        ], {
            Update => "Set a user's policies.",
                runs!(async |run| write(&run, Part::Policies).await);
        }),
        row!("login/{name..}", &[NAME, PASSWORD], {
            Update => "Log in.", opens!(async |run| log_in(&run).await);
        } .admitting(Admits::Anyone)),
    ]],
};
