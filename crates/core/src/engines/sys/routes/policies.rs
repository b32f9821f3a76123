//! Policies, and what they come to.

use kallisto_auth::Operation::{Delete, List, Read, Update};

use kallisto_engine::FieldKind::{Text, Texts};
use kallisto_engine::route::{Admits, Field, Route, Scope, ServedBy, field};

const NAME: Field = field("name", Text, "Name of the policy.");
const POLICY: Field = field("policy", Text, "The policy in HCL or JSON, or either in base64.");
const PATHS: Field = field("paths", Texts, "The paths asked about.");

pub(super) const POLICIES: &[Route] = &[
    Route::new("policies/acl", &[(List, "List the policies.")], &[]).scope(Scope::Namespace),
    Route::new(
        "policies/acl/{name..}",
        &[(Read, "Read a policy."), (Update, "Write a policy."), (Delete, "Delete a policy.")],
        &[NAME, POLICY],
    )
    .scope(Scope::Namespace),
    Route::new("policy", &[(List, "List the policies."), (Read, "List the policies.")], &[])
        .scope(Scope::Namespace)
        .alias_of("policies/acl"),
    Route::new(
        "policy/{name..}",
        &[(Read, "Read a policy."), (Update, "Write a policy."), (Delete, "Delete a policy.")],
        &[NAME, POLICY, field("rules", Text, "The old name of `policy`.")],
    )
    .scope(Scope::Namespace)
    .alias_of("policies/acl/{name..}"),
];

pub(super) const CAPABILITIES: &[Route] = &[
    Route::new(
        "capabilities",
        &[(Update, "List what a token may do at some paths.")],
        &[field("token", Text, "The token."), PATHS],
    )
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace),
    Route::new(
        "capabilities-self",
        &[(Update, "List what the token that asks may do at some paths.")],
        &[PATHS],
    )
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace),
    Route::new(
        "capabilities-accessor",
        &[(Update, "List what the token of an accessor may do at some paths.")],
        &[field("accessor", Text, "The accessor of the token."), PATHS],
    )
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace),
    Route::new(
        "policies/explain",
        &[(Update, "Say which rule of which policy decides, and why the others lost.")],
        &[
            field("path", Text, "The path asked about."),
            field("capability", Text, "The capability; `read` when absent."),
            field("accessor", Text, "Of the token; the one that asks when absent."),
        ],
    )
    .served_by(ServedBy::AnyServer)
    .scope(Scope::Namespace)
    .admitting(Admits::AnyToken)
    .more("About another token, its policies have to allow the path."),
];
