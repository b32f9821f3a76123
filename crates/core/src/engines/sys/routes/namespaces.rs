//! Namespaces.

use kallisto_auth::Operation::{Delete, List, Patch, Read, Scan, Update};

use kallisto_engine::FieldKind::{Map, Text};
use kallisto_engine::route::{Field, Route, Scope, field};

const NAME: Field = field("name", Text, "Name of the namespace, directly below this one.");
const CUSTOM: Field = field("custom_metadata", Map, "Texts by name, for people.");
const PATH: Field = field("path", Text, "Path of a namespace below this one.");
const KEY: Field = field("unlock_key", Text, "What locking it answered; `sudo` does without.");

pub(super) const NAMESPACES: &[Route] = &[
    Route::new(
        "namespaces",
        &[
            (List, "List the namespaces directly below this one."),
            (Scan, "List the namespaces below this one, at any depth."),
        ],
        &[],
    )
    .scope(Scope::Namespace),
    Route::new(
        "namespaces/{name}",
        &[
            (Read, "Read a namespace."),
            (Update, "Make a namespace, or write its metadata."),
            (Patch, "Change metadata of a namespace; null takes a name away."),
            (Delete, "Delete a namespace and everything in it."),
        ],
        &[NAME, CUSTOM],
    )
    .scope(Scope::Namespace),
    Route::new("namespaces/api-lock/lock", &[(Update, "Lock this namespace.")], &[])
        .scope(Scope::Namespace),
    Route::new(
        "namespaces/api-lock/lock/{path..}",
        &[(Update, "Lock a namespace below this one.")],
        &[PATH],
    )
    .scope(Scope::Namespace),
    Route::new("namespaces/api-lock/unlock", &[(Update, "Unlock this namespace.")], &[KEY])
        .while_locked()
        .scope(Scope::Namespace),
    Route::new(
        "namespaces/api-lock/unlock/{path..}",
        &[(Update, "Unlock a namespace below this one.")],
        &[PATH, KEY],
    )
    .scope(Scope::Namespace),
];
