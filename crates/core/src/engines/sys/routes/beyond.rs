//! What Vault does not have: work on many secrets, filtered lists, following changes.

use kallisto_auth::Operation::{Read, Update};

use kallisto_engine::FieldKind::{Flag, Map, Text, Texts, Whole};
use kallisto_engine::route::{Field, Route, Scope, field, query};

const DRY_RUN: Field = field("dry_run", Flag, "Check and tell everything, and change nothing.");
const COUNT: Field = field("count", Whole, "Do nothing unless so many secrets are meant.");
const FROM: Field = field("from", Text, "A secret, or a folder by a final slash: mount and path.");
const TO: Field =
    field("to", Text, "Where to; a folder when `from` is one. Nothing is overwritten.");
const LIMIT: Field = query("limit", Whole, "Most names in the answer.");
const NEXT: Field = query("next", Text, "What the answer before said to go on with.");

const EACH: &str = "Every secret is judged by the rules for the path at which a request of its own \
    would touch it; a rule for this route opens none.";

pub(super) const SECRETS: &[Route] = &[
    Route::new(
        "kallisto/kv/read",
        &[(Update, "Read many paths in one request, each with its own status.")],
        &[field(
            "paths",
            Texts,
            "API paths such as `secret/data/a`, or objects with `path` and `version`.",
        )],
    )
    .scope(Scope::Namespace)
    .more(EACH),
    Route::new(
        "kallisto/kv/write",
        &[(Update, "Write many secrets as one: all of them, or none.")],
        &[field("writes", Texts, "Objects with `path` (an API path), `data` and `options`.")],
    )
    .scope(Scope::Namespace)
    .more(EACH),
    Route::new(
        "kallisto/kv/delete",
        &[(Update, "Delete a secret or a folder: all of it, or nothing.")],
        &[
            field("path", Text, "A secret, or a folder by a final slash: mount and path."),
            field(
                "purge",
                Flag,
                "Remove all versions for good, not only the latest until undeleted.",
            ),
            DRY_RUN,
            COUNT,
        ],
    )
    .scope(Scope::Namespace)
    .more(EACH),
    Route::new(
        "kallisto/kv/copy",
        &[(Update, "Copy a secret or a folder with all versions and metadata.")],
        &[FROM, TO, DRY_RUN, COUNT],
    )
    .scope(Scope::Namespace)
    .more(EACH),
    Route::new(
        "kallisto/kv/move",
        &[(Update, "Move a secret or a folder with all versions and metadata.")],
        &[FROM, TO, DRY_RUN, COUNT],
    )
    .scope(Scope::Namespace)
    .more(EACH),
    Route::new(
        "kallisto/kv/list",
        &[
            (Read, "List the names in a folder that the caller may read or change."),
            (Update, "The same, with the parameters in the body."),
        ],
        &[
            query("path", Text, "The folder: mount and path."),
            query("recursive", Flag, "Everything below it."),
            LIMIT,
            NEXT,
        ],
    )
    .scope(Scope::Namespace)
    .more(EACH),
    Route::new(
        "kallisto/kv/search",
        &[
            (Read, "Search secrets by name and custom metadata, among those the caller may see."),
            (Update, "The same, with the parameters in the body."),
        ],
        &[
            query("path", Text, "The folder: mount and path."),
            query("name", Text, "A part of the path, or with `*` all of it; case does not count."),
            query("metadata", Map, "Custom metadata to have, such as `owner=ada,tier=*`."),
            LIMIT,
            NEXT,
        ],
    )
    .scope(Scope::Namespace)
    .more(EACH),
    Route::new(
        "kallisto/kv/watch",
        &[(Read, "Follow changes of a secret or folder as server-sent events.")],
        &[
            query("path", Text, "A secret, or a folder by a final slash: mount and path."),
            query("index", Text, "Begin after this event or index; absent for now."),
        ],
    )
    .scope(Scope::Namespace)
    .more("Each event is judged when it is sent, by the policies and the time of that moment."),
];
