//! What recovering a secret from a snapshot does to the secret that is here: a pure decision, and what it adds to a batch.
//!
//! | here | becomes |
//! |---|---|
//! | nothing | the secret as it was: numbers, times and states of all versions, metadata, who wrote them |
//! | the same secret, gone on | versions that were deleted or destroyed since come back; what is newer stays; then what was current becomes a new version |
//! | another secret | what was current becomes a new version |
//! | anything, to be overwritten | the secret as it was |
//!
//! Invariants:
//! - Unless it is to be overwritten, no data that is here goes away but by the number of versions that are kept.
//! - Doing it again changes nothing.

use kallisto_store::Seqno;

use super::commit::{add, load_record};
use super::data::load_data_of;
use super::decide::{self, WriteDecision};
use crate::api::error::Error;
use crate::engines::kv::staged::Staged;
use crate::records::attribution::Author;
use crate::records::kv::{KvConfig, SecretMetadata, VersionInfo};
use crate::storage::keys;
use crate::view::{Mount, NamespaceContext};

/// What may happen to a history that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoverMode {
    /// It stays.
    Merge,
    /// That of the snapshot takes its place.
    Overwrite,
}

/// What became of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveredSecret {
    /// `created`, `changed`, `replaced` or `unchanged`.
    pub(crate) outcome: &'static str,
    /// The versions that came back under their numbers.
    pub(crate) versions: Vec<u64>,
    /// The version that what was current became.
    pub(crate) new_version: Option<u64>,
    /// The current version from now on.
    pub(crate) current_version: u64,
}

/// What to write: the data of versions here, by the numbers of those in the snapshot.
#[derive(Debug)]
struct RecoverPlan {
    decision: WriteDecision,
    data: Vec<(u64, u64)>,
    told: RecoveredSecret,
}

/// How a new version is written.
#[derive(Clone, Copy)]
struct NewVersion<'a> {
    config: &'a KvConfig,
    author: Option<&'a Author>,
    now_ns: i64,
}

/// The secret as it was, in the place of `here`.
fn whole(here: Option<&SecretMetadata>, then: &SecretMetadata) -> RecoverPlan {
    let has_data = |metadata: &SecretMetadata, version| {
        metadata.version(version).is_some_and(|info| !info.destroyed)
    };
    let versions = || then.versions.iter().filter(|info| !info.destroyed).map(|info| info.version);
    let known = here.iter().flat_map(|here| &here.versions).filter(|info| !info.destroyed);
    let dropped = known.map(|info| info.version).filter(|&version| !has_data(then, version));
    RecoverPlan {
        decision: WriteDecision { metadata: then.clone(), dropped: dropped.collect() },
        data: versions().map(|version| (version, version)).collect(),
        told: RecoveredSecret {
            outcome: if here.is_some() { "replaced" } else { "created" },
            versions: versions().collect(),
            new_version: None,
            current_version: then.current_version,
        },
    }
}

/// Whether both are one secret, at two times.
fn is_same_secret(here: &SecretMetadata, then: &SecretMetadata) -> bool {
    let agrees = |old: &VersionInfo| {
        here.version(old.version).is_none_or(|info| info.created_ns == old.created_ns)
    };
    here.created_ns == then.created_ns && then.versions.iter().all(agrees)
}

/// Gives back to `here` what it lost since; the versions that came back, and those whose data did.
fn give_back(here: &mut SecretMetadata, then: &SecretMetadata) -> (Vec<u64>, Vec<u64>) {
    let (mut back, mut data) = (Vec::new(), Vec::new());
    let newest = here.current_version;
    for old in then.versions.iter().filter(|old| !old.destroyed && !old.has_no_data) {
        let is_newer = old.version > newest;
        match here.version_mut(old.version) {
            // What is not kept any more stays so.
            None if !is_newer => continue,
            None => {
                here.versions.push(*old);
                data.push(old.version);
            }
            Some(info) => {
                let has_lost_data = info.destroyed || info.has_no_data;
                let was_deleted_since = info.deleted && !old.deleted;
                if !has_lost_data && !was_deleted_since {
                    continue;
                }
                *info = *old;
                if has_lost_data {
                    data.push(old.version);
                }
            }
        }
        here.attribution.deleted(old.version, None);
        back.push(old.version);
    }
    let newest = here.versions.last().map_or(0, |info| info.version);
    here.current_version = here.current_version.max(newest);
    (back, data)
}

/// The version that was current, if its data was there.
fn was_current(then: &SecretMetadata) -> Option<u64> {
    let info = then.version(then.current_version)?;
    (!info.destroyed && !info.deleted && !info.has_no_data).then_some(info.version)
}

fn decide(
    here: Option<SecretMetadata>,
    then: &SecretMetadata,
    mode: RecoverMode,
    new: NewVersion<'_>,
    has_same_data: impl Fn(&SecretMetadata, u64) -> Result<bool, Error>,
) -> Result<RecoverPlan, Error> {
    let Some(here) = here else { return Ok(whole(None, then)) };
    if mode == RecoverMode::Overwrite {
        let mut plan = whole(Some(&here), then);
        if here == *then {
            plan.told = RecoveredSecret { outcome: "unchanged", ..plan.told };
        }
        return Ok(plan);
    }
    let mut metadata = here;
    let is_same = is_same_secret(&metadata, then);
    let (mut versions, came) =
        if is_same { give_back(&mut metadata, then) } else { (Vec::new(), Vec::new()) };
    let mut data: Vec<(u64, u64)> = came.into_iter().map(|version| (version, version)).collect();
    let usable = was_current(then);
    if usable.is_none() && !is_same {
        return Err(Error::invalid(
            "another secret is here, and the current version of the one in the snapshot was deleted: overwrite=true would replace it",
        ));
    }
    let is_current = is_same && usable == Some(metadata.current_version);
    let appended = match usable.filter(|_| !is_current) {
        Some(version) if !has_same_data(&metadata, version)? => Some(version),
        _ => None,
    };
    let is_unchanged = versions.is_empty() && appended.is_none();
    let mut dropped = Vec::new();
    if let Some(version) = appended {
        let cas = i64::try_from(metadata.current_version).ok();
        let decided = decide::put(Some(metadata), new.config, (cas, new.author), new.now_ns)?;
        (metadata, dropped) = (decided.metadata, decided.dropped);
        data.push((metadata.current_version, version));
        data.retain(|(here, _)| !dropped.contains(here));
        versions.retain(|version| !dropped.contains(version));
    } else if !is_unchanged {
        metadata.updated_ns = new.now_ns;
    }
    let current_version = metadata.current_version;
    let told = RecoveredSecret {
        outcome: if is_unchanged { "unchanged" } else { "changed" },
        versions,
        new_version: appended.map(|_| current_version),
        current_version,
    };
    Ok(RecoverPlan { decision: WriteDecision { metadata, dropped }, data, told })
}

/// Adds to a batch what recovers the secret at `from` to `to`.
///
/// # Errors
/// [`Error::NotFound`] when the snapshot has none.
pub(crate) fn stage(
    (there, from, old_path): (&NamespaceContext, &Mount, &str),
    (context, to, path): (&NamespaceContext, &Mount, &str),
    mode: RecoverMode,
    (author, now_ns): (Option<&Author>, i64),
    staged: &mut Staged,
) -> Result<RecoveredSecret, Error> {
    let (from_id, to_id) = (from.entry.id, to.entry.id);
    let then = load_record(there, &keys::kv_meta(from_id, old_path))?.0.ok_or(Error::NotFound)?;
    let (here, seqno): (_, Seqno) = load_record(context, &keys::kv_meta(to_id, path))?;
    let config = to.kv_config.load();
    let new = NewVersion { config: &config, author, now_ns };
    let has_same_data = |here: &SecretMetadata, version| {
        let current = here.version(here.current_version).filter(|info| info.is_live(now_ns));
        let Some(current) = current else { return Ok(false) };
        // What comes back with this very batch is not here yet.
        match load_data_of(context, to_id, path, current.version) {
            Ok(record) => Ok(record == load_data_of(there, from_id, old_path, version)?),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    };
    let RecoverPlan { decision, mut data, told } = decide(here, &then, mode, new, has_same_data)?;
    if told.outcome == "unchanged" {
        return Ok(told);
    }
    staged.expect(keys::kv_meta(to_id, path), seqno);
    // The fold looks for the current version among the first records of a batch.
    data.sort_unstable_by(|a, b| b.cmp(a));
    for (version, old) in data {
        let record = load_data_of(there, from_id, old_path, old)?;
        staged.put(keys::kv_version(to_id, path, version), record)?;
    }
    add(staged, to_id, path, &decision, None)?;
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000;

    fn info(version: u64) -> VersionInfo {
        VersionInfo {
            version,
            created_ns: 10 * version as i64,
            deletion_ns: None,
            deleted: false,
            destroyed: false,
            has_no_data: false,
        }
    }

    fn secret(versions: impl IntoIterator<Item = u64>) -> SecretMetadata {
        let versions: Vec<_> = versions.into_iter().map(info).collect();
        SecretMetadata {
            created_ns: 1,
            current_version: versions.last().map_or(0, |info| info.version),
            versions,
            ..SecretMetadata::default()
        }
    }

    fn decided(
        here: Option<SecretMetadata>,
        then: &SecretMetadata,
        mode: RecoverMode,
        is_same_data: bool,
    ) -> RecoverPlan {
        let config = KvConfig { cas_required: true, ..KvConfig::default() };
        let new = NewVersion { config: &config, author: None, now_ns: NOW };
        decide(here, then, mode, new, |_, _| Ok(is_same_data)).unwrap()
    }

    #[test]
    fn a_secret_that_is_gone_comes_back_as_it_was() {
        let mut then = secret(1..=4);
        then.versions[1].destroyed = true;
        (then.versions[2].deleted, then.versions[2].deletion_ns) = (true, Some(5));
        let plan = decided(None, &then, RecoverMode::Merge, false);
        assert_eq!(plan.decision, WriteDecision { metadata: then, dropped: Vec::new() });
        assert_eq!(plan.data, [(1, 1), (3, 3), (4, 4)]);
        assert_eq!((plan.told.outcome, plan.told.current_version), ("created", 4));
    }

    #[test]
    fn what_was_lost_since_comes_back_and_what_is_newer_stays() {
        let then = secret(1..=3);
        let mut here = secret(1..=5);
        here.versions[0].destroyed = true;
        (here.versions[1].deleted, here.versions[1].deletion_ns) = (true, Some(500));
        let plan = decided(Some(here.clone()), &then, RecoverMode::Merge, false);
        // Version 2 is here still, deleted; 6 is what 3 was.
        assert_eq!(plan.data, [(1, 1), (6, 3)]);
        assert_eq!(plan.told.versions, [1, 2]);
        assert_eq!((plan.told.new_version, plan.told.current_version), (Some(6), 6));
        assert_eq!(plan.decision.metadata.versions[..5], secret(1..=5).versions[..]);
        assert_eq!(plan.decision.metadata.versions[5].created_ns, NOW);
        assert!(plan.decision.dropped.is_empty());
        // Once more, nothing happens.
        let again = decided(Some(plan.decision.metadata), &then, RecoverMode::Merge, true);
        assert_eq!(again.told.outcome, "unchanged");
        assert!(again.data.is_empty());
    }

    #[test]
    fn a_secret_that_did_not_go_on_gets_no_new_version() {
        let then = secret(1..=3);
        let mut here = then.clone();
        here.versions[2].destroyed = true;
        let plan = decided(Some(here), &then, RecoverMode::Merge, false);
        assert_eq!((plan.data, plan.told.new_version), (vec![(3, 3)], None));
        assert_eq!(plan.decision.metadata.versions, then.versions);
        let same = decided(Some(then.clone()), &then, RecoverMode::Merge, false);
        assert_eq!(same.told.outcome, "unchanged");
        // One that is behind, since everything was restored meanwhile, catches up.
        let plan = decided(Some(secret(1..=2)), &then, RecoverMode::Merge, false);
        assert_eq!((plan.data, plan.told.current_version), (vec![(3, 3)], 3));
        assert_eq!((plan.told.versions, plan.told.new_version), (vec![3], None));
        assert_eq!(plan.decision.metadata.versions, then.versions, "with its own time");
        assert_eq!(plan.decision.metadata.updated_ns, NOW);
    }

    #[test]
    fn another_secret_keeps_its_history_unless_it_is_to_be_overwritten() {
        let then = secret(1..=2);
        let other = SecretMetadata { created_ns: 2, ..secret(1..=4) };
        let plan = decided(Some(other.clone()), &then, RecoverMode::Merge, false);
        assert_eq!((plan.data, plan.told.new_version), (vec![(5, 2)], Some(5)));
        assert_eq!(plan.decision.metadata.versions[..4], other.versions[..]);
        let plan = decided(Some(other), &then, RecoverMode::Overwrite, false);
        assert_eq!(plan.decision, WriteDecision { metadata: then, dropped: vec![3, 4] });
        assert_eq!((plan.data, plan.told.outcome), (vec![(1, 1), (2, 2)], "replaced"));
    }

    #[test]
    fn what_is_not_kept_does_not_come_back_and_limits_hold() {
        let then = secret(1..=3);
        let mut here = SecretMetadata { max_versions: 3, oldest_version: 3, ..secret(3..=5) };
        here.versions[0].destroyed = true;
        let plan = decided(Some(here), &then, RecoverMode::Merge, false);
        // 3 came back, and left again for 6.
        assert_eq!(plan.data, [(6, 3)]);
        assert_eq!(plan.decision.dropped, [3]);
        assert_eq!(plan.decision.metadata.oldest_version, 4);
    }

    #[test]
    fn what_had_no_data_in_the_snapshot_is_not_looked_for() {
        let mut then = secret(1..=3);
        then.versions[0].destroyed = true;
        (then.versions[1].has_no_data, then.versions[1].deleted) = (true, true);
        let mut here = then.clone();
        here.versions[1].destroyed = true;
        let plan = decided(Some(here.clone()), &then, RecoverMode::Merge, false);
        assert_eq!((plan.data, plan.told.outcome), (Vec::new(), "unchanged"));
        assert_eq!(plan.decision.metadata, here);
    }

    #[test]
    fn a_deleted_secret_is_not_written_over_another_one() {
        let mut then = secret(1..=2);
        then.versions[1].deleted = true;
        let other = SecretMetadata { created_ns: 2, ..secret(1..=1) };
        let config = KvConfig::default();
        let new = NewVersion { config: &config, author: None, now_ns: NOW };
        let refused = decide(Some(other), &then, RecoverMode::Merge, new, |_, _| Ok(false));
        assert!(matches!(refused, Err(Error::Invalid(why)) if why.contains("overwrite=true")));
    }
}
