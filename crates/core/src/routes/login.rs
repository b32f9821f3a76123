//! The login methods.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use super::Kind::{Flag, Span, Text, Texts, Whole};
use super::{Admits, Family, Field, Route, field};

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
        Route::new("users", &[(List, "List the users.")], &[]),
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
