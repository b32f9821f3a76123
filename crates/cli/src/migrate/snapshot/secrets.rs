//! Secrets of key-value mounts. Those with versions are found by an index that is made of their metadata once, since their paths are encrypted.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kallisto_vault_snapshot::OpenSnapshot;
use kallisto_vault_snapshot::kv::{StoredMetadata, StoredSettings, is_upgraded, version_data};

use super::layout::StoredMount;
use super::{item, read_bytes, read_json, refused};
use crate::migrate::endpoint::ItemFailure;
use kallisto_command::json::{Json, Map, parse_object};

/// Indexes by the folders of their mounts.
#[derive(Default)]
pub(super) struct SecretIndexes(Mutex<HashMap<String, Arc<Result<SecretIndex, String>>>>);

/// Where the metadata of the secrets of a mount is, by their paths.
struct SecretIndex {
    salt: Vec<u8>,
    paths: BTreeMap<String, String>,
    /// Records of metadata that were not read, and why. Which secrets they are of nobody can say.
    unread: Vec<(String, String)>,
}

impl SecretIndexes {
    /// What is at a path of a mount.
    pub(super) fn read(
        &self,
        opened: &OpenSnapshot,
        mount: &StoredMount,
        path: &str,
        version: Option<&str>,
    ) -> Result<Option<Map>, ItemFailure> {
        if !mount.has_versions {
            return match path.is_empty() || path.ends_with('/') {
                true => Ok(None),
                false => read_json(opened, &format!("{}{path}", mount.folder)),
            };
        }
        if path == "config" {
            return read_settings(opened, mount);
        }
        let (route, path) = path.split_once('/').unwrap_or((path, ""));
        let index = self.of(opened, mount);
        let index = index.as_ref().as_ref().map_err(|why| ItemFailure::Item(why.clone()))?;
        let Some(at) = index.paths.get(path) else { return Ok(None) };
        let Some(bytes) = read_bytes(opened, at)? else { return Ok(None) };
        let metadata = StoredMetadata::read(&bytes).map_err(|error| refused(&error))?;
        match route {
            "metadata" => Ok(Some(shown(&metadata))),
            "data" => read_version(opened, mount, index, &metadata, version.unwrap_or_default()),
            _ => Ok(None),
        }
    }

    /// The names in a folder of a mount.
    pub(super) fn list(
        &self,
        opened: &OpenSnapshot,
        mount: &StoredMount,
        path: &str,
    ) -> Result<Vec<String>, ItemFailure> {
        if !mount.has_versions {
            return Ok(opened.names(&format!("{}{path}", mount.folder)));
        }
        let folder = path.strip_prefix("metadata/").unwrap_or_default();
        let index = self.of(opened, mount);
        let index = index.as_ref().as_ref().map_err(|why| ItemFailure::Item(why.clone()))?;
        Ok(names_in(&index.paths, folder))
    }

    /// Records of secrets of a mount that were not read, and why; none where the mount as a whole is not.
    pub(super) fn unread(
        &self,
        opened: &OpenSnapshot,
        mount: &StoredMount,
    ) -> Vec<(String, String)> {
        if !mount.has_versions {
            return Vec::new();
        }
        let index = self.of(opened, mount);
        index.as_ref().as_ref().map(|index| index.unread.clone()).unwrap_or_default()
    }

    fn of(&self, opened: &OpenSnapshot, mount: &StoredMount) -> Arc<Result<SecretIndex, String>> {
        let mut indexes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = indexes
            .entry(mount.folder.clone())
            .or_insert_with(|| Arc::new(index(opened, mount).map_err(ItemFailure::text)));
        Arc::clone(made)
    }
}

/// The names in a folder, which is empty or ends in a slash; folders have a slash behind.
fn names_in(paths: &BTreeMap<String, String>, folder: &str) -> Vec<String> {
    let from = (Bound::Included(folder.to_owned()), Bound::Unbounded);
    let below = paths.range(from).map_while(|(path, _)| path.strip_prefix(folder));
    let name = |rest: &str| match rest.split_once('/') {
        Some((name, _)) => format!("{name}/"),
        None => rest.to_owned(),
    };
    let mut names: Vec<String> = below.map(name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn own_folder(mount: &StoredMount) -> Result<String, ItemFailure> {
    match &*mount.own_folder {
        "" => Err(item("its secrets are kept in a way that is not understood")),
        own => Ok(format!("{}{own}/", mount.folder)),
    }
}

fn index(opened: &OpenSnapshot, mount: &StoredMount) -> Result<SecretIndex, ItemFailure> {
    let own = own_folder(mount)?;
    if let Some(upgrade) = read_bytes(opened, &format!("{own}upgrading"))?
        && !is_upgraded(&upgrade).map_err(|error| refused(&error))?
    {
        return Err(item("it was being made a mount with versions when the snapshot was taken"));
    }
    let (mut paths, mut unread) = (BTreeMap::new(), Vec::new());
    let folder = format!("{own}metadata/");
    for at in opened.below(&folder) {
        let read = opened.get(at).and_then(|bytes| match bytes {
            Some(bytes) => StoredMetadata::read(&bytes).map(Some),
            None => Ok(None),
        });
        match read {
            Ok(Some(metadata)) => drop(paths.insert(metadata.key, at.to_owned())),
            Ok(None) => {}
            Err(error) => {
                let record = at.strip_prefix(&mount.folder).unwrap_or(at);
                unread.push((record.to_owned(), refused(&error).text()));
            }
        }
    }
    let salt = read_bytes(opened, &format!("{own}salt"))?;
    if salt.is_none() && !paths.is_empty() {
        return Err(item("its secrets are kept in a way that is not understood: it has no salt"));
    }
    let salt = salt.map(|salt| salt.to_vec()).unwrap_or_default();
    Ok(SecretIndex { salt, paths, unread })
}

fn read_settings(opened: &OpenSnapshot, mount: &StoredMount) -> Result<Option<Map>, ItemFailure> {
    let bytes = read_bytes(opened, &format!("{}config", own_folder(mount)?))?;
    let settings = bytes.map(|bytes| StoredSettings::read(&bytes)).transpose();
    let settings = settings.map_err(|error| refused(&error))?.unwrap_or_default();
    let pairs: [(&str, Json); 4] = [
        ("cas_required", settings.cas_required.into()),
        ("delete_version_after", duration(settings.delete_version_after).into()),
        ("max_versions", settings.max_versions.into()),
        ("metadata_cas_required", settings.metadata_cas_required.into()),
    ];
    Ok(Some(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// Metadata as the API shows it.
fn shown(metadata: &StoredMetadata) -> Map {
    let versions = metadata.versions.iter().map(|(number, version)| {
        let shown = Json::object([
            ("created_time", time(version.created).into()),
            ("deletion_time", time(version.deletion).into()),
            ("destroyed", version.destroyed.into()),
        ]);
        (number.to_string(), shown)
    });
    let custom = metadata.custom_metadata.iter();
    let custom: Map = custom.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let pairs: [(&str, Json); 11] = [
        ("cas_required", metadata.cas_required.into()),
        ("created_time", time(metadata.created).into()),
        ("current_metadata_version", metadata.metadata_version.into()),
        ("current_version", metadata.current_version.into()),
        ("custom_metadata", if custom.is_empty() { Json::Null } else { custom.into() }),
        ("delete_version_after", duration(metadata.delete_version_after).into()),
        ("max_versions", metadata.max_versions.into()),
        ("metadata_cas_required", metadata.metadata_cas_required.into()),
        ("oldest_version", metadata.oldest_version.into()),
        ("updated_time", time(metadata.updated).into()),
        ("versions", Json::Object(versions.collect())),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A version with its data, deleted or not.
fn read_version(
    opened: &OpenSnapshot,
    mount: &StoredMount,
    index: &SecretIndex,
    metadata: &StoredMetadata,
    version: &str,
) -> Result<Option<Map>, ItemFailure> {
    let Ok(number) = version.parse() else { return Ok(None) };
    let Some(info) = metadata.versions.get(&number) else { return Ok(None) };
    let at = format!("{}{}", own_folder(mount)?, metadata.version_path(&index.salt, number));
    let data = match read_bytes(opened, &at)? {
        Some(bytes) => {
            let data = version_data(&bytes).map_err(|error| refused(&error))?;
            let parsed = parse_object(&data).map(Json::Object);
            parsed.map_err(|_| {
                ItemFailure::Item(format!("the data of version {number} is not understood"))
            })?
        }
        None if info.destroyed || info.deletion.is_some() => Json::Null,
        None => {
            return Err(ItemFailure::Item(format!(
                "the data of version {number} is not in the snapshot"
            )));
        }
    };
    let about = Json::object([
        ("deletion_time", time(info.deletion).into()),
        ("destroyed", info.destroyed.into()),
    ]);
    Ok(Some(Map::from([("data".to_owned(), data), ("metadata".to_owned(), about)])))
}

/// A time as these servers write it; empty for none.
fn time(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

fn duration(span: jiff::SignedDuration) -> String {
    let sign = if span.is_negative() { "-" } else { "" };
    format!("{sign}{}", kallisto_duration::to_go(span.unsigned_abs()))
}
