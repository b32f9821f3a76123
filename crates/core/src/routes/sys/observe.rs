//! What the server says of itself.

use kallisto_auth::Operation::{Read, Update};

use super::super::Kind::{Flag, Text};
use super::super::{Admits, Route, field, query};

pub(super) const STATE: &[Route] = &[
    Route::new("ha-status", &[(Read, "List the servers of the cluster.")], &[]),
    Route::new(
        "locked-users",
        &[(Read, "List who is locked out after wrong passwords.")],
        &[query("mount_accessor", Text, "Those of one login method only.")],
    ),
    Route::new(
        "locked-users/{accessor}/unlock/{name}",
        &[(Update, "Let somebody log in again.")],
        &[
            field("accessor", Text, "The accessor of the login method."),
            field("name", Text, "What the method calls them."),
        ],
    ),
];

pub(super) const INTERNAL: &[Route] = &[
    Route::new(
        "internal/ui/mounts",
        &[(Read, "List the mounts the token reaches; without one, those shown before login.")],
        &[],
    )
    .admitting(Admits::AnyTokenOrNone),
    Route::new(
        "internal/ui/mounts/{path..}",
        &[(Read, "Describe the mount that serves a path.")],
        &[field("path", Text, "A path of a secret, or a mount's own.")],
    )
    .admitting(Admits::AnyToken),
    Route::new(
        "internal/ui/resultant-acl",
        &[(Read, "List what the policies of the token that asks come to.")],
        &[],
    )
    .admitting(Admits::AnyToken),
    Route::new(
        "internal/specs/openapi",
        &[(Read, "Describe the routes the token reaches as an OpenAPI document.")],
        &[query("generic_mount_paths", Flag, "Name engines by a parameter, not by their path.")],
    )
    .admitting(Admits::AnyTokenOrNone),
];
