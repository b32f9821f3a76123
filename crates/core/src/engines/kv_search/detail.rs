//! What a list with `detail=true` shows of a name besides it: version, state, times, who wrote it, and two values of custom metadata
//! that people sort by, `owner` and `due`.
//!
//! Each secret is judged and counted as a read of its metadata would be; who may not read that sees the name alone.

use kallisto_auth::Operation;

use crate::api::error::Error;
use crate::api::json::{Json, Map};
use crate::engines::kv::{time, v2};
use crate::engines::kv_batch::judge::BatchJudge;
use crate::engines::kv_batch::meter::Meter;
use crate::engines::kv_batch::place::{SecretName, SecretPlace};
use crate::records::kv::SecretMetadata;
use crate::view::NamespaceContext;

/// The keys of custom metadata that are shown.
const SHOWN_KEYS: [&str; 2] = ["due", "owner"];

/// The entry of a name in `folder`, which ends in a slash if it is a folder's.
///
/// # Errors
/// [`Error::OverQuota`] when a limit for reads of metadata is used up, or a record cannot be read.
pub(super) fn shown(
    context: &NamespaceContext,
    (meter, judge): (Meter<'_>, &BatchJudge<'_>),
    folder: &SecretPlace,
    name: &str,
    now_ns: i64,
) -> Result<Map, Error> {
    let is_folder = name.ends_with('/');
    let mut entry = Map::new();
    entry.insert("name".into(), name.into());
    entry.insert("folder".into(), is_folder.into());
    let mount = &folder.mount;
    let path = format!("{}{name}", folder.path);
    if is_folder || !judge.may_read_metadata(mount, &path) {
        return Ok(entry);
    }
    meter.take(Operation::Read, &SecretName::api_path(mount, "metadata", &path))?;
    // Removed since it was listed, or never there: the name is all there is to tell.
    if let (Some(metadata), _) = v2::stage::metadata(context, mount, &path)? {
        add(&metadata, now_ns, &mut entry)?;
    }
    Ok(entry)
}

fn add(metadata: &SecretMetadata, now_ns: i64, entry: &mut Map) -> Result<(), Error> {
    let current = metadata.version(metadata.current_version);
    let state = match current {
        None => "empty",
        Some(info) if info.destroyed => "destroyed",
        Some(info) if !info.is_live(now_ns) => "deleted",
        Some(_) => "live",
    };
    entry.insert("version".into(), metadata.current_version.into());
    entry.insert("state".into(), state.into());
    entry.insert("updated_time".into(), time::text(metadata.updated_ns).into());
    let mut written = Map::new();
    metadata.attribution.show(metadata.current_version, &mut written);
    if let Some(author) = written.get("created_by") {
        entry.insert("created_by".into(), author.clone());
    }
    if let Json::Object(custom) = v2::custom_json(metadata.custom.as_deref())? {
        for key in SHOWN_KEYS {
            if let Some(value) = custom.get(key) {
                entry.insert(key.into(), value.clone());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::kv::VersionInfo;

    #[test]
    fn a_secret_is_live_deleted_destroyed_or_empty() {
        let live = VersionInfo {
            version: 3,
            created_ns: 5,
            deletion_ns: None,
            deleted: false,
            destroyed: false,
            has_no_data: false,
        };
        for (info, state) in [
            (None, "empty"),
            (Some(live), "live"),
            (Some(VersionInfo { deletion_ns: Some(11), ..live }), "live"),
            (Some(VersionInfo { deletion_ns: Some(10), ..live }), "deleted"),
            (Some(VersionInfo { deletion_ns: Some(5), deleted: true, ..live }), "deleted"),
            (Some(VersionInfo { destroyed: true, ..live }), "destroyed"),
            (Some(VersionInfo { deletion_ns: Some(5), destroyed: true, ..live }), "destroyed"),
        ] {
            let metadata = SecretMetadata {
                current_version: 3,
                versions: info.into_iter().collect(),
                custom: Some(r#"{"due":"soon","more":"x","owner":"ada"}"#.into()),
                ..SecretMetadata::default()
            };
            let mut entry = Map::new();
            add(&metadata, 10, &mut entry).unwrap();
            assert_eq!(entry["state"].as_str(), Some(state));
            assert_eq!(entry["owner"].as_str(), Some("ada"));
            assert_eq!(entry["due"].as_str(), Some("soon"));
            assert!(!entry.contains_key("more"));
        }
    }
}
