//! Metadata of secrets that were written again lately, so that the next write of one neither reads nor opens its record.
//!
//! A write takes what is known of its secret out, with the secret's latch held, and puts what it made of it back when it is committed; whatever else changes
//! the secret has the fold forget it. Nothing depends on that: who decides by what was here expects the record to be as it was written then
//! ([`RecentSecret::seqno`]), so the store refuses what was decided by anything else.
//!
//! There are no values of secrets here and no custom metadata (secrets that have some are not kept). Of the rest, the current version's times are in the hot
//! table's headers, too. A secret comes here with its second version: most are written once, and would only take memory.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use kallisto_cuckoo::siphash::{SipHash24, SipKey};
use kallisto_store::Seqno;

use crate::api::error::Error;
use crate::random;
use crate::records::kv::SecretMetadata;
use crate::storage::keys::StoredSecretKey;

/// A power of two. With [`WAYS`], room for 4,096 secrets; with ten versions each takes about 1 KiB.
const SETS: usize = 1 << 10;
const WAYS: usize = 4;
/// Most versions of a secret that is kept.
const VERSIONS_MAX: usize = 16;

const _: () = assert!(SETS.is_power_of_two());

/// What the last write of a secret left.
pub(crate) struct RecentSecret {
    pub(crate) metadata: SecretMetadata,
    /// The place of the record that says so.
    pub(crate) seqno: Seqno,
    /// Its storage key.
    pub(crate) storage: StoredSecretKey,
}

struct KeptSecret {
    /// The logical key of the metadata.
    key: Box<[u8]>,
    secret: RecentSecret,
}

/// Secrets that were written lately, by the logical key of their metadata.
pub(crate) struct RecentSecrets {
    hash_key: SipKey,
    /// Made with the first that is kept.
    sets: OnceLock<Box<[Mutex<KeptSet>]>>,
}

/// Newest first. Most sets have one or none, so room for four would be for nothing.
type KeptSet = Vec<Box<KeptSecret>>;

impl RecentSecrets {
    /// None of them.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the operating system gives no randomness.
    pub(crate) fn new() -> Result<Self, Error> {
        let hash_key = SipKey::from_bytes(random::make_bytes()?);
        Ok(Self { hash_key, sets: OnceLock::new() })
    }

    fn set_of<'s>(&self, sets: &'s [Mutex<KeptSet>], key: &[u8]) -> MutexGuard<'s, KeptSet> {
        let set = SipHash24::hash(&self.hash_key, key) as usize % SETS;
        sets[set].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what is known of a secret.
    pub(crate) fn take(&self, key: &[u8]) -> Option<RecentSecret> {
        let mut set = self.set_of(self.sets.get()?, key);
        let at = set.iter().position(|kept| *kept.key == *key)?;
        Some(set.remove(at).secret)
    }

    /// Puts in what a write left.
    pub(crate) fn put(&self, key: &[u8], secret: RecentSecret) {
        let SecretMetadata { current_version, custom, versions, .. } = &secret.metadata;
        if *current_version < 2 || custom.is_some() || versions.len() > VERSIONS_MAX {
            return;
        }
        let kept = Box::new(KeptSecret { key: key.into(), secret });
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        let mut set = self.set_of(sets, key);
        set.retain(|other| *other.key != *key);
        set.truncate(WAYS - 1);
        set.insert(0, kept);
    }

    /// Forgets a secret that somebody else changed.
    pub(crate) fn forget(&self, key: &[u8]) {
        drop(self.take(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::kv::VersionInfo;

    fn secret(version: u64) -> RecentSecret {
        let info = VersionInfo {
            version,
            created_ns: 1,
            deletion_ns: None,
            deleted: false,
            destroyed: false,
            has_no_data: false,
        };
        let metadata =
            SecretMetadata { current_version: version, versions: vec![info], ..Default::default() };
        RecentSecret { metadata, seqno: Seqno(version), storage: [0; size_of::<StoredSecretKey>()] }
    }

    #[test]
    fn what_is_known_of_a_secret_is_taken_once_and_the_newest() {
        let recent = RecentSecrets::new().unwrap();
        assert!(recent.take(b"a").is_none());
        recent.put(b"a", secret(2));
        recent.put(b"b", secret(7));
        recent.put(b"a", secret(3));
        assert_eq!(recent.take(b"a").unwrap().seqno, Seqno(3));
        assert!(recent.take(b"a").is_none());
        recent.put(b"a", secret(4));
        recent.forget(b"a");
        assert!(recent.take(b"a").is_none());
        assert_eq!(recent.take(b"b").unwrap().seqno, Seqno(7));
    }

    #[test]
    fn what_was_written_once_is_long_or_has_custom_metadata_is_not_kept() {
        let recent = RecentSecrets::new().unwrap();
        let mut custom = secret(2);
        custom.metadata.custom = Some("{}".into());
        let mut long = secret(2);
        long.metadata.versions = vec![long.metadata.versions[0]; VERSIONS_MAX + 1];
        for refused in [secret(1), custom, long] {
            recent.put(b"a", refused);
            assert!(recent.take(b"a").is_none());
        }
    }

    #[test]
    fn no_more_are_kept_than_there_are_places() {
        let recent = RecentSecrets::new().unwrap();
        let keys: Vec<_> = (0..4 * SETS * WAYS).map(|at| at.to_be_bytes()).collect();
        keys.iter().for_each(|key| recent.put(key, secret(2)));
        let newest = keys.last().unwrap();
        assert!(recent.take(newest).is_some());
        let kept = keys.iter().filter(|key| recent.take(*key).is_some()).count();
        assert!(kept < SETS * WAYS && kept > SETS * WAYS / 2, "{kept}");
    }
}
