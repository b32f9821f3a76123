//! The routes of the key-value engines, below their mounts: those of version 1, and what a mount answers that is being upgraded.

use kallisto_engine::FieldKind::Text;
use kallisto_engine::route::{Field, field, query};
use kallisto_engine::{RouteRows, RowIndex, row};

use super::{upgrade, v1};
use crate::dispatch::route_handler::{RouteTable, runs};
use crate::engines::kv::access::Kv;

/// What answers a read or a list, here and in the fast path: `reads!(function)`, which gets the [`Kv`] and the path of the secret
/// or the folder, and answers `None` where that takes more than [`Kv`] lets it.
macro_rules! reads {
    ($read:path) => {
        $crate::dispatch::route_handler::RouteHandler::reading(
            |read, params| {
                $read(&$crate::engines::kv::access::Kv::reading(read), params.get("path"))
            },
            |run| $crate::engines::kv::reading::answer_read(run, $read),
        )
    };
}
pub(super) use reads;

/// KV version 1.
pub(crate) static VERSION_1: RouteTable = RouteRows {
    name: "kv-v1",
    tag: "secrets",
    about: "Key-value secrets without versions: each path holds one object, and a write replaces \
            it whole.",
    groups: &[&[row!("{path..}", &[PATH, READ_SNAPSHOT, RECOVER_SNAPSHOT], {
        Read => "Read a secret.", reads!(v1::read);
        Update => "Store a secret, replacing what was there.",
            runs!(async |run| v1::put(&Kv::of(&run), run.params.get("path")).await);
        Delete => "Delete a secret.", runs!(async |run| v1::delete(&Kv::of(&run), run.params.get("path")).await);
        List => "List the secrets and folders in a folder.", reads!(v1::list);
        Scan => "List every secret below a folder.", reads!(v1::list);
    } .with_root().creating_as_engine_tells().more(
        "The body of a write is the secret itself. A field `ttl` or `lease` that reads as a \
           duration is also the lease duration that reads report.",
    ))]],
    index: RowIndex::new(),
};

/// On the way from version 1 to version 2.
pub(super) static UPGRADING: RouteTable = RouteRows {
    name: "kv-upgrading",
    tag: "secrets",
    about: "Key-value secrets that are getting versions.",
    groups: &[&[row!("{path..}", &[PATH], {
        Read => "Refuse while the mount is upgraded.", runs!(|_run| Err(upgrade::refusal()));
        Update => "Refuse while the mount is upgraded.", runs!(|_run| Err(upgrade::refusal()));
        Patch => "Refuse while the mount is upgraded.", runs!(|_run| Err(upgrade::refusal()));
        Delete => "Refuse while the mount is upgraded.", runs!(|_run| Err(upgrade::refusal()));
        List => "Refuse while the mount is upgraded.", runs!(|_run| Err(upgrade::refusal()));
        Scan => "Refuse while the mount is upgraded.", runs!(|_run| Err(upgrade::refusal()));
    } .with_root().as_fallback())]],
    index: RowIndex::new(),
};

/// Where a secret is.
pub(super) const PATH: Field = field("path", Text, "Path of the secret inside the mount.");
/// From where a read or a list is answered.
pub(super) const READ_SNAPSHOT: Field =
    query("read_snapshot_id", Text, "Read from a loaded snapshot.");
/// From where a write recovers.
pub(super) const RECOVER_SNAPSHOT: Field = query(
    "recover_snapshot_id",
    Text,
    "Recover from a loaded snapshot, and write nothing else; the header `X-Vault-Recover-Snapshot-Id` says the same.",
);
