//! What a write means: pure functions of (metadata, settings, request, now).
//!
//! Each takes the secret's metadata as it is and returns the metadata as it should be, with the
//! versions whose data goes away. Invariant: a decision never lowers `current_version`.

use crate::api::error::Error;
use crate::limits::VERSIONS_KEPT_DEFAULT;
use crate::records::attribution::Author;
use crate::records::kv::{KvConfig, SecretMetadata, VersionInfo};

/// What a decided write does to a secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WriteDecision {
    /// The metadata from now on.
    pub(super) metadata: SecretMetadata,
    /// Versions whose data is removed for good.
    pub(super) dropped: Vec<u64>,
}

/// A new version on top of `metadata` (`None`: the first write), by `author` if that is to be kept.
///
/// # Errors
/// [`Error::Invalid`] when check-and-set is required and absent; [`Error::CasMismatch`].
pub(super) fn put(
    metadata: Option<SecretMetadata>,
    config: &KvConfig,
    (cas, author): (Option<i64>, Option<&Author>),
    now_ns: i64,
) -> Result<WriteDecision, Error> {
    let mut metadata = metadata.unwrap_or_else(|| new_metadata(now_ns));
    check_cas(&metadata, config, cas)?;
    let version = metadata.current_version + 1;
    let deletion_ns = deletion_time(&metadata, config, now_ns);
    metadata.versions.push(VersionInfo {
        version,
        created_ns: now_ns,
        deletion_ns,
        deleted: false,
        destroyed: false,
        has_no_data: false,
    });
    metadata.current_version = version;
    metadata.updated_ns = now_ns;
    let dropped = trim(&mut metadata, config);
    metadata.attribute_current(author);
    Ok(WriteDecision { metadata, dropped })
}

/// An entry that holds nothing yet.
pub(super) fn new_metadata(now_ns: i64) -> SecretMetadata {
    SecretMetadata { created_ns: now_ns, updated_ns: now_ns, ..SecretMetadata::default() }
}

fn check_cas(metadata: &SecretMetadata, config: &KvConfig, cas: Option<i64>) -> Result<(), Error> {
    match cas {
        None if metadata.cas_required || config.cas_required => {
            Err(Error::invalid("check-and-set parameter required for this call"))
        }
        Some(cas) if u64::try_from(cas) != Ok(metadata.current_version) => Err(Error::CasMismatch),
        _ => Ok(()),
    }
}

/// When a version written (or revived) at `now_ns` deletes itself: the shorter of the secret's and
/// the mount's life, where 0 says nothing and a negative life of either switches it off.
pub(super) fn deletion_time(
    metadata: &SecretMetadata,
    config: &KvConfig,
    now_ns: i64,
) -> Option<i64> {
    let (own, mount) = (metadata.delete_after_ns, config.delete_after_ns);
    if own < 0 || mount < 0 {
        return None;
    }
    let life = [own, mount].into_iter().filter(|&life| life > 0).min()?;
    Some(now_ns.saturating_add(life))
}

/// Drops the oldest versions past the limit.
fn trim(metadata: &mut SecretMetadata, config: &KvConfig) -> Vec<u64> {
    let kept = [metadata.max_versions, config.max_versions, VERSIONS_KEPT_DEFAULT];
    let kept = kept.into_iter().find(|&kept| kept > 0).unwrap_or(VERSIONS_KEPT_DEFAULT) as usize;
    let excess = metadata.versions.len().saturating_sub(kept);
    let dropped: Vec<u64> = metadata.versions.drain(..excess).map(|info| info.version).collect();
    if let (false, Some(first)) = (dropped.is_empty(), metadata.versions.first()) {
        metadata.oldest_version = first.version;
    }
    dropped
}

/// Soft deletion of `versions` by `author`; `None` when nothing changes.
pub(super) fn delete(
    mut metadata: SecretMetadata,
    versions: &[u64],
    author: Option<&Author>,
    now_ns: i64,
) -> Option<WriteDecision> {
    let mut changed = false;
    for &version in versions {
        let Some(info) = metadata.version_mut(version) else { continue };
        if info.is_live(now_ns) {
            info.deletion_ns = Some(now_ns);
            info.deleted = true;
            metadata.attribution.deleted(version, author);
            changed = true;
        }
    }
    changed.then_some(WriteDecision { metadata, dropped: Vec::new() })
}

/// Takes back the deletion of `versions`; their life starts anew.
pub(super) fn undelete(
    mut metadata: SecretMetadata,
    config: &KvConfig,
    versions: &[u64],
    now_ns: i64,
) -> Option<WriteDecision> {
    let deletion_ns = deletion_time(&metadata, config, now_ns);
    let mut changed = false;
    for &version in versions {
        let Some(info) = metadata.version_mut(version) else { continue };
        let comes_back = !info.destroyed && !info.has_no_data;
        if comes_back && (info.deleted || info.deletion_ns != deletion_ns) {
            info.deletion_ns = deletion_ns;
            info.deleted = false;
            metadata.attribution.deleted(version, None);
            changed = true;
        }
    }
    changed.then_some(WriteDecision { metadata, dropped: Vec::new() })
}

/// Removes the data of `versions` for good.
pub(super) fn destroy(mut metadata: SecretMetadata, versions: &[u64]) -> Option<WriteDecision> {
    let mut dropped = Vec::new();
    for &version in versions {
        let Some(info) = metadata.version_mut(version) else { continue };
        if !info.destroyed {
            info.destroyed = true;
            dropped.push(version);
        }
    }
    (!dropped.is_empty()).then_some(WriteDecision { metadata, dropped })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000;

    fn written(times: u64, config: &KvConfig) -> SecretMetadata {
        let mut metadata = None;
        for _ in 0..times {
            metadata = Some(put(metadata, config, (None, None), NOW).unwrap().metadata);
        }
        metadata.unwrap()
    }

    #[test]
    fn check_and_set_compares_with_the_current_version() {
        let config = KvConfig::default();
        assert!(put(None, &config, (Some(0), None), NOW).is_ok());
        for wrong in [1, -1] {
            assert!(put(None, &config, (Some(wrong), None), NOW).is_err());
        }
        let metadata = written(3, &config);
        for (cas, taken) in [(3, true), (0, false), (2, false), (4, false), (-3, false)] {
            assert_eq!(
                put(Some(metadata.clone()), &config, (Some(cas), None), NOW).is_ok(),
                taken,
                "{cas}"
            );
        }
        let strict = KvConfig { cas_required: true, ..config };
        assert!(put(Some(metadata.clone()), &strict, (None, None), NOW).is_err());
        let own = SecretMetadata { cas_required: true, ..metadata };
        assert!(put(Some(own), &config, (None, None), NOW).is_err());
    }

    #[test]
    fn old_versions_are_dropped_past_the_limit() {
        let config = KvConfig::default();
        let metadata = written(12, &config);
        assert_eq!((metadata.current_version, metadata.oldest_version), (12, 3));
        assert_eq!(metadata.versions.len(), 10);
        let narrow = SecretMetadata { max_versions: 2, ..metadata };
        let decision = put(Some(narrow), &config, (None, None), NOW).unwrap();
        assert_eq!(decision.dropped, (3..=11).collect::<Vec<_>>());
        assert_eq!(decision.metadata.oldest_version, 12);
        let mount = KvConfig { max_versions: 1, ..config };
        assert_eq!(written(3, &mount).versions.len(), 1);
    }

    #[test]
    fn a_secret_is_as_old_as_its_first_write() {
        let config = KvConfig::default();
        let first = put(None, &config, (None, None), NOW).unwrap().metadata;
        assert_eq!((first.created_ns, first.updated_ns), (NOW, NOW));
        let second = put(Some(first), &config, (None, None), NOW + 1).unwrap().metadata;
        assert_eq!((second.created_ns, second.updated_ns), (NOW, NOW + 1));
    }

    #[test]
    fn the_shorter_life_wins_and_a_negative_one_switches_off() {
        let at = |own, mount| {
            let metadata = SecretMetadata { delete_after_ns: own, ..SecretMetadata::default() };
            let config = KvConfig { delete_after_ns: mount, ..KvConfig::default() };
            deletion_time(&metadata, &config, NOW)
        };
        assert_eq!(at(0, 0), None);
        assert_eq!(at(5, 0), Some(NOW + 5));
        assert_eq!(at(0, 7), Some(NOW + 7));
        assert_eq!(at(5, 7), Some(NOW + 5));
        assert_eq!(at(9, 7), Some(NOW + 7));
        assert_eq!(at(5, -1), None);
        assert_eq!(at(i64::MAX, 0), Some(i64::MAX));
    }

    #[test]
    fn who_wrote_and_deleted_goes_with_the_version() {
        use crate::json::Map;
        use crate::records::attribution::tests::author;
        let config = KvConfig { max_versions: 2, ..KvConfig::default() };
        let mut metadata = None;
        for name in ["ada", "bob", "eve"] {
            let author = author(name);
            metadata = Some(put(metadata, &config, (None, Some(&author)), NOW).unwrap().metadata);
        }
        let shown = |metadata: &SecretMetadata, version| {
            let mut map = Map::new();
            metadata.attribution.show(version, &mut map);
            map.into_keys().collect::<Vec<_>>()
        };
        let metadata = metadata.unwrap();
        assert!(shown(&metadata, 1).is_empty());
        assert_eq!(shown(&metadata, 2), ["created_by", "request_id"]);
        let deleted = delete(metadata, &[2], Some(&author("ada")), NOW).unwrap().metadata;
        assert_eq!(shown(&deleted, 2), ["created_by", "deleted_by", "request_id"]);
        let back = undelete(deleted.clone(), &config, &[2], NOW).unwrap().metadata;
        assert_eq!(shown(&back, 2), ["created_by", "request_id"]);
        // What was written while attribution is off says nothing, and what was known stays.
        let silent = put(Some(deleted), &config, (None, None), NOW).unwrap().metadata;
        assert!(shown(&silent, 4).is_empty() && !shown(&silent, 3).is_empty());
    }

    #[test]
    fn deleting_is_idempotent_and_destroying_is_final() {
        let config = KvConfig::default();
        let metadata = written(2, &config);
        let deleted = delete(metadata, &[1, 99], None, NOW).unwrap().metadata;
        assert_eq!(delete(deleted.clone(), &[1], None, NOW + 1), None);
        assert!(!deleted.version(1).unwrap().is_live(NOW - 1), "whatever a clock says");
        let back = undelete(deleted.clone(), &config, &[1], NOW).unwrap().metadata;
        assert_eq!(back.version(1).unwrap().deletion_ns, None);
        let gone = destroy(deleted, &[1]).unwrap();
        assert_eq!(gone.dropped, [1]);
        assert_eq!(gone.metadata.version(1).unwrap().deletion_ns, Some(NOW));
        assert_eq!(destroy(gone.metadata.clone(), &[1]), None);
        assert_eq!(undelete(gone.metadata, &config, &[1], NOW), None);
        // Nor does a version come back whose data never came here.
        let mut bare = delete(written(2, &config), &[1], None, NOW).unwrap().metadata;
        bare.version_mut(1).unwrap().has_no_data = true;
        assert_eq!(undelete(bare, &config, &[1], NOW), None);
    }
}
