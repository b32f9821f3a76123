//! The keyring: what an unsealed node holds, and the two things it does all day, sealing and opening records.
//!
//! - `data_key`: one key version: its nonces, its ciphers, its count.
//! - `envelope`: the bytes of a record.
//! - `codec`: the bytes of a keyring.
//!
//! A keyring never changes. [`Keyring::rotated`] and [`Keyring::without_versions_below`] give another one that shares the
//! data keys with this one, nonce counters included; the caller stores its sealed form first and then swaps it in, so no
//! record is ever sealed under a key that a crash could lose. Sealing and opening take no lock: an atomic counter and two
//! atomic pointers (the cipher of the running nonce prefix, the ciphers of prefixes that were read).

mod codec;
mod data_key;
mod envelope;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;

use self::data_key::DataKey;
pub use self::envelope::{ENVELOPE_OVERHEAD, envelope_key_version};
use crate::derive::{self, subkey};
use crate::error::{Error, Result};
use crate::limits::{CLUSTER_ID_BYTES, DATA_KEYS_MAX, PLAIN_BYTES_MAX};
use crate::root::RootKey;
use crate::secret::SecretKey;
use crate::wrap::{self, WrapPurpose};

/// Length of what [`Keyring::name_hash`] gives, in bytes.
pub const NAME_HASH_BYTES: usize = 16;

/// What the key under which names are hashed is derived by; part of the format.
const NAME_KEY_LABEL: &[u8] = b"index-hash/v1";
/// What starts the labels of [`Keyring::derive`], so that none meets one of ours.
const PURPOSE_LABEL: &[u8] = b"purpose/";
/// The purpose of a data key's commitment starts with this, its version follows.
const DATA_KEY_LABEL: &[u8] = b"data-key/v1/";

/// The keys of an unsealed barrier. `Debug` shows none of them.
pub struct Keyring {
    base: Arc<Base>,
    /// Rising by version, never empty; the last one is active.
    data_keys: Vec<Arc<DataKey>>,
}

/// What does not change in the life of a cluster.
struct Base {
    cluster_id: [u8; CLUSTER_ID_BYTES],
    /// What every key that is not for records is derived from.
    key: SecretKey,
    /// The schedule of the name key: names are hashed on every read.
    name_key: hmac::Key,
}

/// What is to be known about a data key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyVersion {
    /// Its number; the first is 1.
    pub version: u32,
    /// When it was made, in seconds since 1970.
    pub installed_at_unix: i64,
    /// Records sealed under it: those the stored keyring knew of and those of this process. A crash forgets what was
    /// sealed since the keyring was last stored.
    pub seals: u64,
}

impl Base {
    fn new(cluster_id: [u8; CLUSTER_ID_BYTES], key: SecretKey) -> Result<Arc<Self>> {
        let name_key = subkey(&key, &cluster_id, NAME_KEY_LABEL)?;
        let name_key = hmac::Key::new(hmac::HMAC_SHA256, name_key.expose());
        Ok(Arc::new(Self { cluster_id, key, name_key }))
    }
}

impl Keyring {
    /// A fresh keyring with one data key, installed at `now_unix` (seconds since 1970).
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory or no randomness.
    pub fn generate(cluster_id: [u8; CLUSTER_ID_BYTES], now_unix: i64) -> Result<Self> {
        let base = Base::new(cluster_id, SecretKey::generate()?)?;
        let first = DataKey::new(1, now_unix, 0, SecretKey::generate()?)?;
        Ok(Self { base, data_keys: vec![Arc::new(first)] })
    }

    /// The keyring under `root_key`, with that key's commitment and one for each key inside, to be stored.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory or no randomness.
    pub fn seal(&self, root_key: &RootKey) -> Result<Vec<u8>> {
        wrap::seal(root_key.key(), WrapPurpose::Keyring, &codec::encode(self))
    }

    /// The keyring in what [`Keyring::seal`] made. It draws nonce prefixes of its own.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if it was sealed under another key, [`Error::Damaged`] or [`Error::Unsupported`] if the bytes
    /// are not what was made, [`Error::Machine`] if there is no memory.
    pub fn open(sealed: &[u8], root_key: &RootKey) -> Result<Self> {
        codec::decode(&wrap::open(root_key.key(), WrapPurpose::Keyring, sealed)?)
    }

    /// This keyring with one more data key, installed at `now_unix`, under which records are sealed from then on.
    ///
    /// Store its sealed form before using it: a record under a key that is nowhere else is lost with this process.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the keyring is full, [`Error::Machine`] if there is no memory or no randomness.
    pub fn rotated(&self, now_unix: i64) -> Result<Self> {
        if self.data_keys.len() == DATA_KEYS_MAX {
            return Err(Error::Invalid(
                "the keyring is full: drop key versions no record is under",
            ));
        }
        let version = self.active_version().checked_add(1);
        let version = version.ok_or(Error::Invalid("key versions are used up"))?;
        let key = DataKey::new(version, now_unix, 0, SecretKey::generate()?)?;
        let mut data_keys = self.data_keys.clone();
        data_keys.push(Arc::new(key));
        Ok(Self { base: self.base.clone(), data_keys })
    }

    /// This keyring without data keys below `version`; the caller knows that no record is under them any more.
    ///
    /// # Errors
    /// [`Error::Invalid`] if that would drop the active one.
    pub fn without_versions_below(&self, version: u32) -> Result<Self> {
        if version > self.active_version() {
            return Err(Error::Invalid("the active key version stays"));
        }
        let kept = self.data_keys.iter().filter(|key| key.version() >= version);
        Ok(Self { base: self.base.clone(), data_keys: kept.cloned().collect() })
    }

    /// The id of the cluster whose records these keys seal.
    #[must_use]
    pub fn cluster_id(&self) -> [u8; CLUSTER_ID_BYTES] {
        self.base.cluster_id
    }

    /// The version under which records are sealed.
    #[must_use]
    pub fn active_version(&self) -> u32 {
        self.active().version()
    }

    /// Every version there is, rising.
    #[must_use]
    pub fn versions(&self) -> Vec<KeyVersion> {
        self.data_keys.iter().map(|key| key.describe()).collect()
    }

    /// Whether the system promised never to write any of these keys to swap space.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.base.key.is_locked() && self.data_keys.iter().all(|key| key.is_locked())
    }

    /// What a name is called below the barrier: HMAC-SHA-256 under the name key, cut to 16 bytes. Names of different
    /// scopes never meet.
    #[must_use]
    pub fn name_hash(&self, scope: &[u8], name: &[u8]) -> [u8; NAME_HASH_BYTES] {
        let mut context = hmac::Context::with_key(&self.base.name_key);
        // The length in front makes the split between scope and name part of what is hashed.
        context.update(&(scope.len() as u64).to_le_bytes());
        context.update(scope);
        context.update(name);
        *context.sign().as_ref().first_chunk().expect("an HMAC-SHA-256 has 32 bytes")
    }

    /// The key for a purpose, the same for the life of the cluster. One label is one purpose.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no memory.
    pub fn derive(&self, label: &str) -> Result<SecretKey> {
        let label = [PURPOSE_LABEL, label.as_bytes()].concat();
        subkey(&self.base.key, &self.base.cluster_id, &label)
    }

    /// Appends the envelope of `plain`, bound to `storage_key`, to `out`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the storage key or the plaintext is too long, [`Error::Machine`] if a nonce prefix was due and
    /// there is no randomness; `out` is as before.
    pub fn seal_record(&self, storage_key: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.seal_record_parts(storage_key, &[plain], out)
    }

    /// The same for a plaintext that is `parts` one behind the other. It is put together where its ciphertext takes its place, so no copy of it stays.
    ///
    /// # Errors
    /// As [`Keyring::seal_record`].
    pub fn seal_record_parts(
        &self,
        storage_key: &[u8],
        parts: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let plain_bytes: usize = parts.iter().map(|part| part.len()).sum();
        if plain_bytes > PLAIN_BYTES_MAX {
            return Err(Error::Invalid("a record is longer than 64 MiB"));
        }
        let key = self.active();
        let aad = envelope::Aad::new(key.version(), &self.base.cluster_id, storage_key)?;
        key.with_nonce(|cipher, prefix, counter| {
            // Before the plaintext is in it: a buffer that grows leaves a copy behind.
            out.reserve(ENVELOPE_OVERHEAD + plain_bytes);
            envelope::put_head(key.version(), prefix, counter, out);
            let start = out.len();
            parts.iter().for_each(|part| out.extend_from_slice(part));
            cipher.seal_in_place(counter, aad.bytes(), start, out);
        })
    }

    /// Appends the plaintext of an envelope, which was sealed for `storage_key`, to `out`; on failure `out` is as before
    /// and nothing of it stays.
    ///
    /// `out` should have room: a buffer that grows leaves a copy of what was in it behind.
    ///
    /// # Errors
    /// [`Error::UnknownKeyVersion`], [`Error::Unsupported`], or [`Error::Damaged`] if these are not the bytes that were
    /// sealed for this storage key in this cluster.
    pub fn open_record(
        &self,
        storage_key: &[u8],
        envelope: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let parts = envelope::EnvelopeParts::of(envelope)?;
        let key = self.data_key(parts.key_version)?;
        let aad = envelope::Aad::new(parts.key_version, &self.base.cluster_id, storage_key)?;
        key.with_cipher(parts.prefix, |cipher| {
            cipher.open(*parts.counter, aad.bytes(), parts.ciphertext, parts.tag, out)
        })
    }

    /// Draws new nonce prefixes: after the machine may have been cloned or restored from a snapshot.
    ///
    /// # Errors
    /// [`Error::Machine`] if there is no randomness.
    pub fn redraw_nonces(&self) -> Result<()> {
        self.active().redraw_nonces()
    }

    /// Every key there is, for the test that looks for them in memory.
    #[cfg(test)]
    pub(crate) fn key_material(&self) -> impl Iterator<Item = &[u8; crate::limits::KEY_BYTES]> {
        let data_keys = self.data_keys.iter().flat_map(|key| key.key_material());
        data_keys.chain([self.base.key.expose()])
    }

    fn active(&self) -> &DataKey {
        self.data_keys.last().expect("a keyring has a data key")
    }

    /// The data key of a version. Versions are dense but for those dropped at the low end, so this is a subtraction.
    fn data_key(&self, version: u32) -> Result<&DataKey> {
        let unknown = Error::UnknownKeyVersion(version);
        let below = self.active_version().checked_sub(version).ok_or(unknown)?;
        let place = self.data_keys.len().checked_sub(1 + below as usize).ok_or(unknown)?;
        Ok(&self.data_keys[place])
    }
}

/// The commitment of a data key.
fn data_key_commitment(key: &SecretKey, version: u32) -> [u8; derive::COMMITMENT_BYTES] {
    derive::commitment(key, &[DATA_KEY_LABEL, &version.to_le_bytes()].concat())
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("versions", &self.versions()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
