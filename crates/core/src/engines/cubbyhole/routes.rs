//! The routes of the cubbyhole.

use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::Family;
use kallisto_engine::FieldKind::Text;
use kallisto_engine::route::{Field, Route, field};

/// What a token keeps for itself.
pub(crate) static CUBBYHOLE: Family = Family {
    name: "cubbyhole",
    tag: "secrets",
    about: "What a token keeps for itself: no other token sees it, and it goes when the token does.",
    groups: &[&[Route::new(
        "{path..}",
        &[
            (Read, "Read an entry."),
            (Update, "Store an entry, replacing what was there."),
            (Delete, "Delete an entry."),
            (List, "List the entries and folders in a folder."),
        ],
        &[PATH],
    )
    .more("The body of a write is the entry itself.")]],
};

const PATH: Field = field("path", Text, "Path of the secret inside the mount.");
