//! What Vault does not have: work on many secrets, filtered lists, following changes.

use kallisto_engine::FieldKind::{Flag, Map, Text, Texts, Whole};
use kallisto_engine::route::{Field, Scope, field, query};
use kallisto_engine::{Row, row};

use crate::dispatch::route_handler::{RouteHandler, runs};
use crate::engines::{kv_batch, kv_search, kv_watch};

const DRY_RUN: Field = field("dry_run", Flag, "Check and tell everything, and change nothing.");
const COUNT: Field = field("count", Whole, "Do nothing unless so many secrets are meant.");
const FROM: Field = field("from", Text, "A secret, or a folder by a final slash: mount and path.");
const TO: Field =
    field("to", Text, "Where to; a folder when `from` is one. Nothing is overwritten.");
const LIMIT: Field = query("limit", Whole, "Most names in the answer.");
const NEXT: Field = query("next", Text, "What the answer before said to go on with.");

const EACH: &str = "Every secret is judged by the rules for the path at which a request of its own \
    would touch it; a rule for this route opens none.";

pub(super) const SECRETS: &[Row<RouteHandler>] = &[
    row!("kallisto/kv/read", &[
        field(
            "paths",
            Texts,
            "API paths such as `secret/data/a`, or objects with `path` and `version`.",
        ),
    ], {
        Update => "Read many paths in one request, each with its own status.",
            runs!(|run| kv_batch::read(&run));
    } .scope(Scope::Namespace).more(EACH)),
    row!("kallisto/kv/write", &[
        field("writes", Texts, "Objects with `path` (an API path), `data` and `options`."),
    ], {
        Update => "Write many secrets as one: all of them, or none.",
            runs!(async |run| kv_batch::write(&run).await);
    } .scope(Scope::Namespace).more(EACH)),
    row!("kallisto/kv/delete", &[
        field("path", Text, "A secret, or a folder by a final slash: mount and path."),
        field("purge", Flag, "Remove all versions for good, not only the latest until undeleted."),
        DRY_RUN,
        COUNT,
    ], {
        Update => "Delete a secret or a folder: all of it, or nothing.",
            runs!(async |run| kv_batch::delete(&run).await);
    } .scope(Scope::Namespace).more(EACH)),
    row!("kallisto/kv/copy", &[FROM, TO, DRY_RUN, COUNT], {
        Update => "Copy a secret or a folder with all versions and metadata.",
            runs!(async |run| kv_batch::copy(&run).await);
    } .scope(Scope::Namespace).more(EACH)),
    row!("kallisto/kv/move", &[FROM, TO, DRY_RUN, COUNT], {
        Update => "Move a secret or a folder with all versions and metadata.",
            runs!(async |run| kv_batch::move_to(&run).await);
    } .scope(Scope::Namespace).more(EACH)),
    row!("kallisto/kv/recover", &[
        field("snapshot_id", Text, "A loaded snapshot."),
        field("path", Text, "What to recover, a secret or a folder by a final slash: mount and path."),
        field("from", Text, "Where it was in the snapshot; the same place when absent."),
        field("overwrite", Flag, "Put the history of the snapshot in the place of the one that is here, newer versions and all."),
        DRY_RUN,
        COUNT,
    ], {
        Update => "Recover a secret or a folder with all versions from a loaded snapshot: all of it, or nothing.",
            runs!(async |run| kv_batch::recover(&run).await);
    } .scope(Scope::Namespace).more(EACH)),
    row!("kallisto/kv/list", &[
        query("path", Text, "The folder: mount and path."),
        query("recursive", Flag, "Everything below it."),
        query("detail", Flag, "With version, state, time, writer, `owner` and `due` of each, where its metadata may be read."),
        LIMIT,
        NEXT,
    ], {
        Read => "List the names in a folder that the caller may read or change.",
            runs!(async |run| kv_search::list(&run).await);
        Update => "The same, with the parameters in the body.",
            runs!(async |run| kv_search::list(&run).await);
    } .scope(Scope::Namespace).more(EACH)),
    row!("kallisto/kv/search", &[
        query("path", Text, "The folder: mount and path; empty for all mounts the caller reaches."),
        query("name", Text, "A part of the path, or with `*` all of it; case does not count."),
        query("metadata", Map, "Custom metadata to have, such as `owner=ada,tier=*,due<2027-01-01`."),
        query("due_before", Text, "Short for `due<DATE`."),
        query("key", Text, "A key that the data has, or with `*` a pattern of one."),
        LIMIT,
        NEXT,
    ], {
        Read => "Search secrets by name and custom metadata, among those the caller may see.",
            runs!(async |run| kv_search::search(&run).await);
        Update => "The same, with the parameters in the body.",
            runs!(async |run| kv_search::search(&run).await);
    } .scope(Scope::Namespace).more(EACH)),
    row!("kallisto/kv/watch", &[
        query("path", Text, "A secret, or a folder by a final slash: mount and path."),
        query("index", Text, "Begin after this event or index; absent for now."),
    ], {
        Read => "Follow changes of a secret or folder as server-sent events.",
            runs!(|run| kv_watch::watch(&run));
    }
    .scope(Scope::Namespace)
    .with_streams()
    .more("Each event is judged when it is sent, by the policies and the time of that moment.")),
];
