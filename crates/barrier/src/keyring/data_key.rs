//! One data key: nonces that never repeat, and ciphers that need not be made for every record.
//!
//! A **run** is a nonce prefix of 16 random bytes, the cipher under its subkey, and a counter. Every record takes the next
//! value of the counter; after 2^32 of them, or when the machine may have been cloned, the run is replaced by one with
//! a fresh prefix. Nothing about it is stored: a process that starts draws a prefix of its own, so what an earlier one had
//! used, flushed or lost does not matter. Two runs meet with probability 2^-128 per pair.
//!
//! Records of other runs are opened with a cipher made from their prefix. A small table keeps those: a store written over
//! many runs has one prefix for each, and a scan meets them in no order. It is two-way by the first byte of the
//! prefix, which is random, so nobody aims at a place; a look is at most three atomic loads, a miss makes a cipher.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

use super::{KeyVersion, data_key_commitment};
use crate::counted::{COUNTER_BYTES, CountedCipher};
use crate::derive::{COMMITMENT_BYTES, subkey};
use crate::error::{Error, Result};
use crate::limits::RECORDS_PER_PREFIX_MAX;
use crate::random;
use crate::secret::SecretKey;
use crate::xchacha::PREFIX_BYTES;

/// What the key that encrypts records is derived by; part of the format.
const RECORD_KEY_LABEL: &[u8] = b"barrier/v1";
/// Ciphers kept for reading, a power of two: 2 KiB of pointers for a key, and some 500 bytes for each one in use.
const READERS: usize = 256;
/// How often a run may be found used up before that is a fault of ours: each time needs 2^32 records of other threads.
const RUNS_TRIED_MAX: usize = 16;

const _: () = assert!(READERS.is_power_of_two() && READERS == 1 << u8::BITS);

/// One generation of the key that encrypts records.
pub(super) struct DataKey {
    version: u32,
    installed_at_unix: i64,
    /// The key that is stored.
    key: SecretKey,
    /// What is made of it for records.
    record_key: SecretKey,
    /// Records sealed in runs that are over, and before this process.
    sealed_before: AtomicU64,
    run: ArcSwapOption<NonceRun>,
    /// Held while a run is replaced.
    replacing: Mutex<()>,
    readers: Box<[ArcSwapOption<PrefixCipher>]>,
    records_per_run: u64,
}

/// A nonce prefix in use.
struct NonceRun {
    reader: PrefixCipher,
    taken: AtomicU64,
}

/// A nonce prefix and its cipher.
struct PrefixCipher {
    prefix: [u8; PREFIX_BYTES],
    cipher: CountedCipher,
}

impl DataKey {
    pub(super) fn new(
        version: u32,
        installed_at_unix: i64,
        seals: u64,
        key: SecretKey,
    ) -> Result<Self> {
        let record_key = subkey(&key, b"", RECORD_KEY_LABEL)?;
        Ok(Self {
            version,
            installed_at_unix,
            key,
            record_key,
            sealed_before: AtomicU64::new(seals),
            run: ArcSwapOption::empty(),
            replacing: Mutex::new(()),
            readers: (0..READERS).map(|_| ArcSwapOption::empty()).collect(),
            records_per_run: RECORDS_PER_PREFIX_MAX,
        })
    }

    pub(super) fn version(&self) -> u32 {
        self.version
    }

    pub(super) fn installed_at_unix(&self) -> i64 {
        self.installed_at_unix
    }

    pub(super) fn key(&self) -> &SecretKey {
        &self.key
    }

    pub(super) fn commitment(&self) -> [u8; COMMITMENT_BYTES] {
        data_key_commitment(&self.key, self.version)
    }

    pub(super) fn is_locked(&self) -> bool {
        self.key.is_locked() && self.record_key.is_locked()
    }

    pub(super) fn describe(&self) -> KeyVersion {
        let current = self.run.load().as_ref().map_or(0, |run| run.sealed(self.records_per_run));
        KeyVersion {
            version: self.version,
            installed_at_unix: self.installed_at_unix,
            seals: self.sealed_before.load(Ordering::Relaxed).saturating_add(current),
        }
    }

    /// Calls `seal` with a cipher and a nonce under it that no other call gets.
    pub(super) fn with_nonce(
        &self,
        seal: impl FnOnce(&CountedCipher, &[u8; PREFIX_BYTES], [u8; COUNTER_BYTES]),
    ) -> Result<()> {
        for _ in 0..RUNS_TRIED_MAX {
            let run = self.run.load();
            let used_up = run.as_ref();
            if let Some(run) = used_up {
                // Relaxed: that every value is given out once is all that counts.
                let taken = run.taken.fetch_add(1, Ordering::Relaxed);
                if taken < self.records_per_run {
                    seal(&run.reader.cipher, &run.reader.prefix, taken.to_le_bytes());
                    return Ok(());
                }
            }
            self.replace(used_up)?;
        }
        Err(Error::Machine("nonce prefixes are used up faster than they are drawn"))
    }

    /// Calls `open` with the cipher for records whose nonces start with `prefix`.
    pub(super) fn with_cipher<T>(
        &self,
        prefix: &[u8; PREFIX_BYTES],
        open: impl FnOnce(&CountedCipher) -> T,
    ) -> T {
        let first = usize::from(prefix[0]);
        for place in [first, first ^ 1] {
            let reader = self.readers[place].load();
            if let Some(reader) = reader.as_ref().filter(|reader| reader.prefix == *prefix) {
                return open(&reader.cipher);
            }
        }
        let reader = Arc::new(PrefixCipher::new(&self.record_key, *prefix));
        let opened = open(&reader.cipher);
        self.keep(reader);
        opened
    }

    /// Keeps a cipher in one of its two places: in a free one, else in the one its second byte says.
    fn keep(&self, reader: Arc<PrefixCipher>) {
        let first = usize::from(reader.prefix[0]);
        let chosen =
            match [first, first ^ 1].into_iter().find(|&at| self.readers[at].load().is_none()) {
                Some(free) => free,
                None => first ^ usize::from(reader.prefix[1] & 1),
            };
        self.readers[chosen].store(Some(reader));
    }

    /// Starts a run with a fresh prefix, whatever the one in use is.
    pub(super) fn redraw_nonces(&self) -> Result<()> {
        let run = self.run.load();
        match run.as_ref() {
            Some(run) => self.replace(Some(run)),
            // None was started yet; the first record will draw one.
            None => Ok(()),
        }
    }

    /// Replaces the run `seen` by a fresh one, unless another thread did.
    fn replace(&self, seen: Option<&Arc<NonceRun>>) -> Result<()> {
        let _held = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.run.load();
        let unchanged = match (current.as_ref(), seen) {
            (Some(current), Some(seen)) => Arc::ptr_eq(current, seen),
            (None, None) => true,
            _ => false,
        };
        if !unchanged {
            return Ok(());
        }
        let mut prefix = [0; PREFIX_BYTES];
        random::fill(&mut prefix)?;
        let run = NonceRun {
            reader: PrefixCipher::new(&self.record_key, prefix),
            taken: AtomicU64::new(0),
        };
        // Readers find the cipher of this run where they find all others.
        self.keep(Arc::new(PrefixCipher::new(&self.record_key, prefix)));
        // A thread that holds a run which is replaced before it is used up may still take from it: the count misses those few.
        let sealed = current.as_ref().map_or(0, |run| run.sealed(self.records_per_run));
        self.sealed_before.fetch_add(sealed, Ordering::Relaxed);
        self.run.store(Some(Arc::new(run)));
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn key_material(&self) -> [&[u8; crate::limits::KEY_BYTES]; 2] {
        [self.key.expose(), self.record_key.expose()]
    }

    /// Goes on as if so many records had been sealed in the run.
    #[cfg(test)]
    pub(super) fn skip_to(&self, taken: u64) {
        let run = self.run.load();
        run.as_ref().expect("a run was begun").taken.store(taken, Ordering::Relaxed);
    }

    /// A key whose runs are short.
    #[cfg(test)]
    pub(super) fn with_records_per_run(mut self, records: u64) -> Self {
        self.records_per_run = records;
        self
    }
}

impl NonceRun {
    /// Records sealed in this run; the counter goes on a little when it is used up.
    fn sealed(&self, at_most: u64) -> u64 {
        self.taken.load(Ordering::Relaxed).min(at_most)
    }
}

impl PrefixCipher {
    fn new(record_key: &SecretKey, prefix: [u8; PREFIX_BYTES]) -> Self {
        Self { prefix, cipher: CountedCipher::new(record_key.expose(), &prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cipher that is kept is not made again: what a look finds stays where it is.
    #[test]
    fn ciphers_of_two_prefixes_with_one_first_byte_are_kept_and_a_third_takes_the_place_it_says() {
        for first in [0, 6, 7, 254, 255_u8] {
            for second_byte in [3, 4, 5, 6_u8] {
                let key = DataKey::new(1, 0, 0, SecretKey::generate().unwrap()).unwrap();
                let prefix = |second| {
                    let mut prefix = [9; PREFIX_BYTES];
                    (prefix[0], prefix[1]) = (first, second);
                    prefix
                };
                let places = [usize::from(first), usize::from(first ^ 1)];
                let kept = || places.map(|place| key.readers[place].load_full());
                let prefixes = || kept().map(|kept| kept.map(|reader| reader.prefix[1]));
                let look = |second| key.with_cipher(&prefix(second), |_| ());
                look(0);
                assert_eq!(prefixes(), [Some(0), None]);
                look(2);
                let before = kept();
                look(0);
                look(2);
                for (before, after) in before.iter().zip(kept()) {
                    assert!(Arc::ptr_eq(before.as_ref().unwrap(), &after.unwrap()));
                }
                look(second_byte);
                let odd = second_byte % 2 == 1;
                let wanted = if odd { [0, second_byte] } else { [second_byte, 2] };
                assert_eq!(prefixes(), wanted.map(Some), "{first}, {second_byte}");
            }
        }
    }
}
