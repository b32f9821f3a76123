//! Answers inside tokens that open once.

use kallisto_auth::Operation::{Read, Update};

use kallisto_engine::FieldKind::Text;
use kallisto_engine::route::{Admits, Field, Route, Scope, field};

const TOKEN: Field = field("token", Text, "The wrapping token; without it, the one that asks.");

pub(super) const WRAPPING: &[Route] = &[
    Route::new("wrapping/wrap", &[(Update, "Give the body back inside a wrapping token.")], &[])
        .scope(Scope::Namespace)
        .more("Takes any fields. The header X-Vault-Wrap-TTL says for how long the token lives."),
    Route::new(
        "wrapping/lookup",
        &[
            (Update, "Say how and when a wrapping token was made, without opening it."),
            (Read, "Say the same of the wrapping token that asks."),
        ],
        &[TOKEN],
    )
    .scope(Scope::Namespace)
    .admitting(Admits::Anyone),
    Route::new(
        "wrapping/unwrap",
        &[(Update, "Give the answer inside a wrapping token, once.")],
        &[TOKEN],
    )
    .scope(Scope::Namespace)
    .admitting(Admits::Anyone)
    .more("A wrapping token opens itself. To open one that stands in the body takes a policy."),
    Route::new(
        "wrapping/rewrap",
        &[(Update, "Move the answer inside a wrapping token to a fresh one.")],
        &[TOKEN],
    )
    .scope(Scope::Namespace),
];
