//! Signed OCSP answers, kept for those who ask the same again.
//!
//! The signature is the largest part of what an answer costs, and a certificate that is in use is asked for by everybody who meets it. RFC 6960
//! (section 2.5) and RFC 5019 allow answers that were signed before they were asked for.
//!
//! Invariants:
//! - An answer is given again only while it says what is known at that moment: whether the certificate is revoked is looked up first, so a revocation
//!   is told at once.
//! - What the request is about is not read again while nothing changed that could tell it otherwise ([`PkiState::ocsp_revision`]).
//! - It is given again only while the same issuer and key would sign it, and let it hold for as long.
//! - When it is full, the answer that was signed the longest ago goes, and no other.
//! - What repeats a nonce, or was made for several certificates, is never kept.
//! - It holds no private key: those who signed are known by weak references.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kallisto_pki::Serial;
use kallisto_pki::ocsp::CertificateStatus;

use super::ids::ListScope;
use super::issuer::{Issuer, PkiKey};
use super::memory::PkiState;

/// Answers kept for one mount. With the limits below they are 4 MiB at most, and usually 0.7 MiB.
const ANSWERS_MAX: usize = 1024;
/// Longest request whose answer is kept, in bytes: one certificate's has some 100.
const REQUEST_BYTES_MAX: usize = 256;
/// Longest answer that is kept, in bytes.
const ANSWER_BYTES_MAX: usize = 4096;
/// How long an answer is given again, in seconds. `thisUpdate` is no older.
const REUSE_SECS_MAX: i64 = 60;

struct KeptAnswer {
    /// Which one it was of all that were kept.
    number: u64,
    status: CertificateStatus,
    about: AskedCertificate,
    issuer: Weak<Issuer>,
    key: Weak<PkiKey>,
    /// For how long it says that it holds, in seconds.
    expiry_secs: i64,
    made_at: i64,
    /// When it is no longer given again, in seconds since 1970.
    reused_until: i64,
    answer: Vec<u8>,
}

/// The one certificate that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskedCertificate {
    pub(super) scope: ListScope,
    pub(super) serial: Serial,
    /// [`PkiState::ocsp_revision`] when the request was read.
    pub(super) revision: u64,
}

impl AskedCertificate {
    /// Whether it is revoked, and when.
    pub(super) fn revoked(&self, state: &PkiState) -> Option<CertificateStatus> {
        let revoked = state.signing.get(&self.scope)?.revoked.get(&self.serial)?;
        Some(CertificateStatus::Revoked { at: revoked.at_ns.div_euclid(1_000_000_000) })
    }
}

/// What an answer says, who signs it, and when.
pub(super) struct Saying<'a> {
    pub(super) status: CertificateStatus,
    pub(super) about: AskedCertificate,
    pub(super) issuer: &'a Arc<Issuer>,
    pub(super) key: &'a Arc<PkiKey>,
    /// Seconds since 1970.
    pub(super) now: i64,
    /// How long an answer holds, in seconds; 0 when it does not say.
    pub(super) expiry_secs: i64,
}

/// The answers of a mount.
#[derive(Default)]
pub(super) struct OcspCache(Mutex<KeptAnswers>);

#[derive(Default)]
struct KeptAnswers {
    by_request: HashMap<Arc<[u8]>, KeptAnswer>,
    /// The requests in the order in which their answers were kept.
    by_age: BTreeMap<u64, Arc<[u8]>>,
    next_number: u64,
}

impl KeptAnswer {
    /// Whether it is young enough to be given. A clock that went back would give an answer from the future.
    fn is_recent(&self, now: i64) -> bool {
        (self.made_at..self.reused_until).contains(&now)
    }
}

impl KeptAnswers {
    /// Keeps an answer in place of the one before, or of the oldest where there is no room.
    fn insert(&mut self, request: &[u8], kept: KeptAnswer) {
        if let Some(before) = self.by_request.remove(request) {
            self.by_age.remove(&before.number);
        }
        if self.by_request.len() >= ANSWERS_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_request.remove(&oldest);
        }
        let (request, number) = (Arc::<[u8]>::from(request), self.next_number);
        self.next_number += 1;
        self.by_age.insert(number, Arc::clone(&request));
        self.by_request.insert(request, KeptAnswer { number, ..kept });
    }
}

impl OcspCache {
    /// The answer to a request, if one was kept that says the same.
    pub(super) fn find(&self, request: &[u8], saying: &Saying<'_>) -> Option<Vec<u8>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = answers.by_request.get(request)?;
        let is_same = kept.status == saying.status
            && kept.expiry_secs == saying.expiry_secs
            && std::ptr::eq(kept.issuer.as_ptr(), Arc::as_ptr(saying.issuer))
            && std::ptr::eq(kept.key.as_ptr(), Arc::as_ptr(saying.key));
        (is_same && kept.is_recent(saying.now)).then(|| kept.answer.clone())
    }

    /// The answer to a request that was read before, if one was kept that says what is known now.
    pub(super) fn find_known(&self, request: &[u8], state: &PkiState, now: i64) -> Option<Vec<u8>> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = answers.by_request.get(request)?;
        let is_same = kept.about.revision == state.ocsp_revision
            && kept.about.revoked(state).unwrap_or(CertificateStatus::Good) == kept.status;
        (is_same && kept.is_recent(now)).then(|| kept.answer.clone())
    }

    /// Keeps an answer to a request without a nonce, for one certificate.
    pub(super) fn keep(&self, request: &[u8], saying: &Saying<'_>, answer: &[u8]) {
        if request.len() > REQUEST_BYTES_MAX || answer.len() > ANSWER_BYTES_MAX {
            return;
        }
        // Anybody can make up numbers of certificates that never were.
        if saying.status == CertificateStatus::Unknown {
            return;
        }
        // At the most half of the time that the answer holds has gone by when it is given.
        let reuse_secs = match saying.expiry_secs {
            0 => REUSE_SECS_MAX,
            expiry_secs => REUSE_SECS_MAX.min(expiry_secs / 2),
        };
        let kept = KeptAnswer {
            number: 0,
            status: saying.status,
            about: saying.about,
            issuer: Arc::downgrade(saying.issuer),
            key: Arc::downgrade(saying.key),
            expiry_secs: saying.expiry_secs,
            made_at: saying.now,
            reused_until: saying.now.saturating_add(reuse_secs),
            answer: answer.to_vec(),
        };
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(request, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(made_at: i64) -> KeptAnswer {
        let serial = Serial::from_bytes(&[1]).unwrap();
        KeptAnswer {
            number: 0,
            status: CertificateStatus::Good,
            about: AskedCertificate { scope: ListScope::of(b"", b""), serial, revision: 0 },
            issuer: Weak::new(),
            key: Weak::new(),
            expiry_secs: 0,
            made_at,
            reused_until: made_at + REUSE_SECS_MAX,
            answer: Vec::new(),
        }
    }

    #[test]
    fn one_answer_too_many_drops_the_oldest_and_no_other() {
        let mut answers = KeptAnswers::default();
        let request = |at: usize| at.to_le_bytes();
        for at in 0..ANSWERS_MAX {
            answers.insert(&request(at), kept(0));
        }
        // The first one is signed again, so the second is the oldest.
        answers.insert(&request(0), kept(60));
        assert_eq!(answers.by_request.len(), ANSWERS_MAX);
        answers.insert(&request(ANSWERS_MAX), kept(61));
        let is_kept = |at: usize| answers.by_request.contains_key(&request(at)[..]);
        assert!(is_kept(0) && !is_kept(1) && (2..=ANSWERS_MAX).all(is_kept));
        assert_eq!(answers.by_age.len(), ANSWERS_MAX);
    }
}
