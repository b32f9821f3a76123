//! The routes of logins with a name and a password.

use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Span, Text, Texts, Whole};
use kallisto_engine::route::{AFTER, Admits, Field, LIMIT, Route, field};

use crate::auth_methods::routes::with_token_fields;

const NAME: Field = field("name", Text, "The user's name.");
const PASSWORD: Field = field("password", Text, "The password.");
const PASSWORD_HASH: Field = field("password_hash", Text, "A bcrypt hash of the password instead.");

/// `auth/userpass/`.
pub(crate) static USERPASS: Family = Family {
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
