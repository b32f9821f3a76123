//! The routes of the key-value engines, below their mounts.

use kallisto_auth::Operation::{Delete, List, Patch, Read, Scan, Update};

use kallisto_engine::Family;
use kallisto_engine::FieldKind::{Flag, Map, Span, Text, Whole, Wholes};
use kallisto_engine::route::{AFTER, Field, LIMIT, Route, field, query};

/// KV version 1.
pub(crate) static VERSION_1: Family = Family {
    name: "kv-v1",
    tag: "secrets",
    about: "Key-value secrets without versions: each path holds one object, and a write replaces \
            it whole.",
    groups: &[&[Route::new(
        "{path..}",
        &[
            (Read, "Read a secret."),
            (Update, "Store a secret, replacing what was there."),
            (Delete, "Delete a secret."),
            (List, "List the secrets and folders in a folder."),
            (Scan, "List every secret below a folder."),
        ],
        &[PATH],
    )
    .creating()
    .more(
        "The body of a write is the secret itself. A field `ttl` or `lease` that reads as a \
           duration is also the lease duration that reads report.",
    )]],
};

/// KV version 2.
pub(crate) static VERSION_2: Family = Family {
    name: "kv-v2",
    tag: "secrets",
    about: "Key-value secrets with versions: each write makes a version, and versions can be \
            deleted, restored and destroyed.",
    groups: &[ENTRIES, VERSIONS],
};

const PATH: Field = field("path", Text, "Path of the secret inside the mount.");
const VERSIONS_FIELD: Field = field("versions", Wholes, "Numbers of the versions.");

const ENTRIES: &[Route] = &[
    Route::new(
        "config",
        &[(Read, "Read the settings of the mount."), (Update, "Change the settings of the mount.")],
        &[
            field("max_versions", Whole, "Versions a secret keeps; 0 for the default of 10."),
            field("cas_required", Flag, "Refuse writes that name no version to replace."),
            field("delete_version_after", Span, "Age at which versions are deleted; 0s for never."),
        ],
    ),
    Route::new(
        "data/{path..}",
        &[
            (Read, "Read a version of a secret."),
            (Update, "Store a new version of a secret."),
            (Patch, "Store a new version made by a merge patch of the current one."),
            (Delete, "Delete the current version."),
        ],
        &[
            PATH,
            query("version", Whole, "The version to read; 0 or absent for the current one."),
            field("data", Map, "The secret."),
            field("options", Map, "`cas`: the version the write expects to replace, 0 for none."),
        ],
    )
    .creating(),
    Route::new(
        "subkeys/{path..}",
        &[(Read, "Read the structure of a secret without its values.")],
        &[
            PATH,
            query("version", Whole, "The version to read; 0 or absent for the current one."),
            query("depth", Whole, "Levels to show; 0 for all."),
        ],
    ),
    Route::new(
        "metadata/{path..}",
        &[
            (Read, "Read a secret's settings and the list of its versions."),
            (Update, "Change a secret's settings; creates it without a version."),
            (Patch, "Change some of a secret's settings."),
            (Delete, "Delete a secret with all its versions."),
            (List, "List the secrets and folders in a folder."),
            (Scan, "List every secret below a folder."),
        ],
        &[
            PATH,
            field("max_versions", Whole, "Versions to keep; 0 for what the mount says."),
            field("cas_required", Flag, "Refuse writes that name no version to replace."),
            field("delete_version_after", Span, "Age at which versions are deleted."),
            field("custom_metadata", Map, "Names and texts that describe the secret."),
            AFTER,
            LIMIT,
        ],
    )
    .creating(),
    Route::new(
        "detailed-metadata/{path..}",
        &[
            (List, "List a folder with the metadata of its secrets."),
            (Scan, "List everything below a folder with its metadata."),
        ],
        &[PATH, AFTER, LIMIT],
    ),
];

const VERSIONS: &[Route] = &[
    Route::new(
        "delete/{path..}",
        &[(Update, "Delete versions; they can be restored.")],
        &[PATH, VERSIONS_FIELD],
    ),
    Route::new(
        "undelete/{path..}",
        &[(Update, "Restore deleted versions.")],
        &[PATH, VERSIONS_FIELD],
    ),
    Route::new(
        "destroy/{path..}",
        &[(Update, "Remove the data of versions for good.")],
        &[PATH, VERSIONS_FIELD],
    ),
];
