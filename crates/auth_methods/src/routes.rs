//! What the routes of login methods have in common.

use kallisto_engine::FieldKind::Text;
use kallisto_engine::route::{Field, field};

/// The role that a path names.
pub(super) const ROLE: Field = field("role", Text, "The role's name.");
/// What a login with a JWT takes.
pub(super) const LOGIN_FIELDS: [Field; 2] =
    [field("role", Text, "The role to log in by."), field("jwt", Text, "The signed JWT.")];

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

pub(super) use with_token_fields;
