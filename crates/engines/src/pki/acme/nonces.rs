//! Nonces (RFC 8555, section 6.5): good on every server, and good once.
//!
//! ```text
//! nonce = base64url( made_ms:u64  random:[u8;8]  tag:[u8;16] )
//! ```
//! The tag is of the other two under a key of the cluster and the mount, so any server makes nonces and any server knows them, and none has to
//! be kept to be known. That it is used once is held where requests are answered, by the leader: it keeps those that were used until they are
//! too old. A server that begins to keep them writes down that it does, and takes none that was made before: those may have been used where it
//! did not see it.
//!
//! Invariants:
//! - A nonce that was taken is not taken again, whoever led or leads, as far as clocks agree.
//! - No more than [`USED_MAX`] are kept: past that the oldest go, and none as old as they is taken.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use kallisto_api::Error;
use kallisto_engine::{EngineContext, KeyedHash, Random};

use super::super::memory::Pki;
use super::problem::{Failure, Kind, fail};

/// The record that says which server keeps what was used.
pub(in crate::pki) const KEEPER: &str = "acme/nonces";

/// How long a nonce is good, in milliseconds.
const LIFE_MS: u64 = 15 * 60 * 1000;
/// How far ahead the clock of another server may be, in milliseconds.
const AHEAD_MS: u64 = 60 * 1000;
/// Most used ones that are kept.
const USED_MAX: usize = 100_000;

const RANDOM_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// A nonce that this cluster made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nonce {
    made_ms: u64,
    random: [u8; RANDOM_BYTES],
}

impl Nonce {
    fn tag(self, keyed_hash: &dyn KeyedHash) -> Result<[u8; TAG_BYTES], Error> {
        let text = format!("acme-nonce/{}/{}", self.made_ms, HEXLOWER.encode(&self.random));
        let hash = keyed_hash.hash(&text)?;
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&hash[..TAG_BYTES]);
        Ok(tag)
    }

    fn text(self, keyed_hash: &dyn KeyedHash) -> Result<String, Error> {
        let tag = self.tag(keyed_hash)?;
        let bytes = [&self.made_ms.to_be_bytes()[..], &self.random, &tag].concat();
        Ok(BASE64URL_NOPAD.encode(&bytes))
    }

    /// The nonce that a text is; `None` for one that this cluster did not make.
    fn parse(text: &str, keyed_hash: &dyn KeyedHash) -> Result<Option<Self>, Error> {
        let Ok(bytes) = BASE64URL_NOPAD.decode(text.as_bytes()) else { return Ok(None) };
        let Some((made_ms, rest)) = bytes.split_first_chunk::<8>() else { return Ok(None) };
        let Some((random, tag)) = rest.split_first_chunk::<RANDOM_BYTES>() else {
            return Ok(None);
        };
        let nonce = Self { made_ms: u64::from_be_bytes(*made_ms), random: *random };
        let is_ours =
            aws_lc_rs::constant_time::verify_slices_are_equal(tag, &nonce.tag(keyed_hash)?).is_ok();
        Ok(is_ours.then_some(nonce))
    }
}

/// Makes a nonce.
pub(super) fn make(context: &EngineContext<'_>) -> Result<String, Error> {
    let mut random = [0; RANDOM_BYTES];
    context.random.fill(&mut random)?;
    Nonce { made_ms: milliseconds(context), random }.text(context.keyed_hash)
}

fn milliseconds(context: &EngineContext<'_>) -> u64 {
    u64::try_from(context.now.as_millisecond()).unwrap_or(0)
}

/// What a server keeps of the nonces that were used.
#[derive(Default)]
pub(in crate::pki) struct UsedNonces(Mutex<Used>);

#[derive(Default)]
struct Used {
    /// What this server is called as a keeper; drawn when it is first asked.
    keeper: String,
    used: BTreeSet<Nonce>,
    /// None that was made before this is taken.
    floor_ms: u64,
}

impl UsedNonces {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keeper(&self, random: &dyn Random) -> Result<String, Error> {
        let mut used = self.lock();
        if used.keeper.is_empty() {
            used.keeper = random.make_uuid()?;
        }
        Ok(used.keeper.clone())
    }

    fn raise_floor(&self, floor_ms: u64) {
        let mut used = self.lock();
        used.floor_ms = used.floor_ms.max(floor_ms);
    }

    /// Takes a nonce; false if it may not be taken.
    fn take(&self, nonce: Nonce, now_ms: u64) -> bool {
        let mut used = self.lock();
        let oldest = used.floor_ms.max(now_ms.saturating_sub(LIFE_MS));
        // What is too old to be taken need not be kept.
        while used.used.first().is_some_and(|first| first.made_ms < oldest) {
            used.used.pop_first();
        }
        if nonce.made_ms < oldest || nonce.made_ms > now_ms.saturating_add(AHEAD_MS) {
            return false;
        }
        if !used.used.insert(nonce) {
            return false;
        }
        if used.used.len() > USED_MAX
            && let Some(first) = used.used.pop_first()
        {
            used.floor_ms = used.floor_ms.max(first.made_ms.saturating_add(1));
        }
        true
    }
}

/// Takes the nonce of a request.
///
/// # Errors
/// `badNonce` when it is none of this cluster, too old, or was taken.
pub(super) async fn take(context: &EngineContext<'_>, text: &str) -> Result<(), Failure> {
    let bad = || fail(Kind::BadNonce, "invalid or reused nonce");
    let nonce = Nonce::parse(text, context.keyed_hash)?.ok_or_else(bad)?;
    let memory = context.memory::<Pki>()?;
    let keeper = memory.used_nonces.keeper(context.random)?;
    let known = memory.read().nonce_keeper.clone();
    if known != keeper {
        // Committed before any is taken: whoever kept them takes none from here on.
        context.storage.put(KEEPER, keeper.into_bytes()).await?;
        if !known.is_empty() {
            memory.used_nonces.raise_floor(milliseconds(context));
        }
    }
    if memory.used_nonces.take(nonce, milliseconds(context)) { Ok(()) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(made_ms: u64, random: u8) -> Nonce {
        Nonce { made_ms, random: [random; RANDOM_BYTES] }
    }

    /// A hash that is no secret.
    struct Plain;

    impl KeyedHash for Plain {
        fn hash(&self, text: &str) -> Result<[u8; 32], Error> {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
            Ok(digest.as_ref().try_into().unwrap())
        }
    }

    #[test]
    fn a_nonce_is_known_by_its_tag_alone_and_no_other_text_is() {
        let made = nonce(7, 9);
        let text = made.text(&Plain).unwrap();
        assert_eq!(Nonce::parse(&text, &Plain), Ok(Some(made)));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(Nonce::parse(&other, &Plain), Ok(None), "{at}");
        }
        for other in ["", "A", &text[1..], &format!("{text}AA")] {
            assert_eq!(Nonce::parse(other, &Plain), Ok(None), "{other}");
        }
    }

    #[test]
    fn a_nonce_is_taken_once_while_it_is_young() {
        let used = UsedNonces::default();
        let now = 10 * LIFE_MS;
        assert!(used.take(nonce(now, 1), now));
        assert!(!used.take(nonce(now, 1), now));
        assert!(used.take(nonce(now, 2), now));
        assert!(!used.take(nonce(now - LIFE_MS - 1, 3), now), "too old");
        assert!(!used.take(nonce(now + AHEAD_MS + 1, 3), now), "of the future");
        assert!(used.take(nonce(now + AHEAD_MS, 3), now));
    }

    #[test]
    fn who_begins_to_keep_them_takes_none_that_was_made_before() {
        let used = UsedNonces::default();
        used.raise_floor(5_000);
        assert!(!used.take(nonce(4_999, 1), 6_000));
        assert!(used.take(nonce(5_000, 1), 6_000));
    }

    #[test]
    fn a_full_memory_forgets_the_oldest_and_takes_none_as_old() {
        let used = UsedNonces::default();
        let now = USED_MAX as u64 + 2;
        for made in 1..=now {
            assert!(used.take(nonce(made, 1), now));
        }
        assert_eq!(used.lock().used.len(), USED_MAX);
        for made in [1, 2] {
            assert!(
                !used.take(nonce(made, 1), now),
                "{made} was forgotten and would be taken again"
            );
        }
        assert!(!used.take(nonce(3, 1), now), "it is kept");
    }
}
