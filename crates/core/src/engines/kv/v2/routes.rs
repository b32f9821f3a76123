//! The routes of KV version 2.

use kallisto_engine::FieldKind::{Flag, Map, Span, Whole, Wholes};
use kallisto_engine::route::{AFTER, Field, LIMIT, field, query};
use kallisto_engine::{RouteRows, RowGroup, RowIndex, row};

use super::versions::{self, VersionsChange};
use super::{config, data, import, invalid_path, metadata, read_invalid, subkeys};
use crate::dispatch::route_handler::{RouteHandler, RouteTable, runs};
use crate::engines::kv::access::Kv;
use crate::engines::kv::routes::{PATH, READ_SNAPSHOT, RECOVER_SNAPSHOT, reads};

/// KV version 2.
pub(crate) static VERSION_2: RouteTable = RouteRows {
    name: "kv-v2",
    tag: "secrets",
    about: "Key-value secrets with versions: each write makes a version, and versions can be \
            deleted, restored and destroyed.",
    groups: &[ENTRIES, VERSIONS, OTHERS],
    index: RowIndex::new(),
};

const VERSIONS_FIELD: Field = field("versions", Wholes, "Numbers of the versions.");

const ENTRIES: RowGroup<RouteHandler> = &[
    row!("config", &[
        field("max_versions", Whole, "Versions a secret keeps; 0 for the default of 10."),
        field("cas_required", Flag, "Refuse writes that name no version to replace."),
        field("delete_version_after", Span, "Age at which versions are deleted; 0s for never."),
        field("attribution", Flag, "Whether new versions say who wrote them; they do unless this is false."),
    ], {
        Read => "Read the settings of the mount.", reads!(config::read);
        Update => "Change the settings of the mount.", runs!(async |run| config::write(&Kv::of(&run)).await);
    } .light()),
    row!("data/{path..}", &[
        PATH,
        query("version", Whole, "The version to read; 0 or absent for the current one."),
        READ_SNAPSHOT,
        RECOVER_SNAPSHOT,
        field("data", Map, "The secret."),
        field("options", Map, "`cas`: the version the write expects to replace, 0 for none."),
    ], {
        Read => "Read a version of a secret.", reads!(data::read);
        Update => "Store a new version of a secret.",
            runs!(async |run| data::write(&Kv::of(&run), run.params.get("path")).await);
        Patch => "Store a new version made by a merge patch of the current one.",
            runs!(async |run| data::patch(&Kv::of(&run), run.params.get("path")).await);
        Delete => "Delete the current version.",
            runs!(async |run| versions::delete_latest(&Kv::of(&run), run.params.get("path")).await);
    } .with_root().creating_as_engine_tells()),
    row!("subkeys/{path..}", &[
        PATH,
        query("version", Whole, "The version to read; 0 or absent for the current one."),
        query("depth", Whole, "Levels to show; 0 for all."),
        READ_SNAPSHOT,
    ], {
        Read => "Read the structure of a secret without its values.", reads!(subkeys::read);
    } .with_root()),
    row!("metadata/{path..}", &[
        PATH,
        field("max_versions", Whole, "Versions to keep; 0 for what the mount says."),
        field("cas_required", Flag, "Refuse writes that name no version to replace."),
        field("delete_version_after", Span, "Age at which versions are deleted."),
        field("custom_metadata", Map, "Names and texts that describe the secret."),
        AFTER,
        LIMIT,
        READ_SNAPSHOT,
    ], {
        Read => "Read a secret's settings and the list of its versions.", reads!(metadata::read);
        Update => "Change a secret's settings; creates it without a version.",
            runs!(async |run| metadata::write(&Kv::of(&run), run.params.get("path")).await);
        Patch => "Change some of a secret's settings.",
            runs!(async |run| metadata::patch(&Kv::of(&run), run.params.get("path")).await);
        Delete => "Delete a secret with all its versions.",
            runs!(async |run| metadata::delete(&Kv::of(&run), run.params.get("path")).await);
        List => "List the secrets and folders in a folder.", reads!(metadata::list);
        Scan => "List every secret below a folder.", reads!(metadata::list);
    } .with_root().creating_as_engine_tells()),
    row!("detailed-metadata/{path..}", &[PATH, AFTER, LIMIT, READ_SNAPSHOT], {
        List => "List a folder with the metadata of its secrets.", reads!(metadata::list_detailed);
        Scan => "List everything below a folder with its metadata.", reads!(metadata::list_detailed);
    } .with_root()),
];

const VERSIONS: RowGroup<RouteHandler> = &[
    row!("delete/{path..}", &[PATH, VERSIONS_FIELD], {
        Update => "Delete versions; they can be restored.",
            runs!(async |run| versions::change(&Kv::of(&run), run.params.get("path"), VersionsChange::Delete).await);
    } .with_root()),
    row!("undelete/{path..}", &[PATH, VERSIONS_FIELD], {
        Update => "Restore deleted versions.",
            runs!(async |run| versions::change(&Kv::of(&run), run.params.get("path"), VersionsChange::Undelete).await);
    } .with_root()),
    row!("destroy/{path..}", &[PATH, VERSIONS_FIELD], {
        Update => "Remove the data of versions for good.",
            runs!(async |run| versions::change(&Kv::of(&run), run.params.get("path"), VersionsChange::Destroy).await);
    } .with_root()),
    row!("import/{path..}", &[
        PATH,
        field("metadata", Map, "The secret's metadata, as a read of `metadata/:path` shows it at another server."),
        field("data", Map, "The data of its versions by their numbers."),
        field("overwrite", Flag, "Replace a secret that has other versions."),
    ], {
        Update => "Store a secret of another server with its versions as they were.",
            runs!(async |run| import::import(&Kv::of(&run), run.params.get("path")).await);
    } .with_root().with_sudo().creating_as_engine_tells().more(
        "Numbers, times and states of the versions are kept. A version that is here already, with the same number and time, needs no \
           data; a deleted one without data cannot be undeleted.",
    )),
];

/// What clients of version 1 ask for.
const OTHERS: RowGroup<RouteHandler> = &[row!("{path..}", &[PATH], {
    Read => "Say where secrets are.", reads!(read_invalid);
    List => "Say where secrets are.", reads!(read_invalid);
    Scan => "Say where secrets are.", reads!(read_invalid);
    Update => "Say where secrets are.", runs!(|run| Ok(invalid_path(run.call.operation)));
    Patch => "Say where secrets are.", runs!(|run| Ok(invalid_path(run.call.operation)));
    Delete => "Say where secrets are.", runs!(|run| Ok(invalid_path(run.call.operation)));
} .with_root().as_fallback())];
