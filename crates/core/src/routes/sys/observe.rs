//! What the server says of itself.

use kallisto_auth::Operation::Read;

use super::super::Kind::{Flag, Text};
use super::super::{Admits, Route, field, query};

pub(super) const STATE: &[Route] =
    &[Route::new("ha-status", &[(Read, "List the servers of the cluster.")], &[])];

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
