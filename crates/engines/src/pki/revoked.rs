//! What is revoked, in memory: sets that grow by one at the cost of one, and of which whoever makes a list takes a picture at the cost of a few
//! pointers.
//!
//! The entries of a set are in chunks. A picture shares them; a chunk is copied when it changes while a picture has it. Entries that are taken out are
//! marked, and their places used again by none: a set whose marked entries are as many as its others is made anew.

use std::collections::HashMap;
use std::sync::Arc;

use kallisto_pki::Serial;

use super::ids::{IssuerId, ListScope};

/// Entries of a chunk.
const CHUNK: usize = 1024;

/// A certificate that was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RevokedCertificate {
    pub(super) serial: Serial,
    /// When, in nanoseconds since 1970.
    pub(super) at_ns: i64,
    /// The last second that it would have been good.
    pub(super) not_after: i64,
    /// The number of the latest revocation list then: lists up to that one do not have it.
    pub(super) after: u64,
    /// Why (RFC 5280, 5.3.1); 0 for no reason.
    pub(super) reason: u8,
}

const RECORD_VERSION: u8 = 1;
/// The version of the record of a revocation with a reason.
const RECORD_VERSION_REASON: u8 = 2;
const RECORD_BYTES: usize = 1 + 16 + 8 + 8 + 8 + 1;

/// What a record of a revocation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RevocationRecord {
    pub(super) scope: ListScope,
    pub(super) revoked: RevokedCertificate,
}

impl RevocationRecord {
    /// `version:u8 scope:[u8;16] at_ns:i64 not_after:i64 after:u64 [reason:u8]`, numbers with their first byte first; version 2 has a reason, and is written
    /// where there is one.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        let reason = self.revoked.reason;
        bytes.push(if reason == 0 { RECORD_VERSION } else { RECORD_VERSION_REASON });
        bytes.extend_from_slice(self.scope.bytes());
        bytes.extend_from_slice(&self.revoked.at_ns.to_be_bytes());
        bytes.extend_from_slice(&self.revoked.not_after.to_be_bytes());
        bytes.extend_from_slice(&self.revoked.after.to_be_bytes());
        if reason != 0 {
            bytes.push(reason);
        }
        bytes
    }

    /// Reads the record of a serial number; `None` when it is damaged.
    pub(super) fn decode(serial: Serial, bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (scope, rest) = rest.split_first_chunk::<16>()?;
        let (at_ns, rest) = rest.split_first_chunk::<8>()?;
        let (not_after, rest) = rest.split_first_chunk::<8>()?;
        let (after, rest) = rest.split_first_chunk::<8>()?;
        let reason = match (*version, rest) {
            (RECORD_VERSION, []) => 0,
            (RECORD_VERSION_REASON, [reason]) => *reason,
            _ => return None,
        };
        let revoked = RevokedCertificate {
            serial,
            at_ns: i64::from_be_bytes(*at_ns),
            not_after: i64::from_be_bytes(*not_after),
            after: u64::from_be_bytes(*after),
            reason,
        };
        Some(Self { scope: ListScope::from_bytes(*scope), revoked })
    }
}

/// The revoked certificates of one who signs.
#[derive(Default)]
pub(super) struct RevokedSet {
    chunks: Vec<Arc<Vec<Option<RevokedCertificate>>>>,
    places: HashMap<Serial, u32>,
    /// The latest list after which anything was revoked.
    latest_after: Option<u64>,
}

/// A set as it was.
#[derive(Clone, Default)]
pub(super) struct Picture(Vec<Arc<Vec<Option<RevokedCertificate>>>>);

impl Picture {
    pub(super) fn iter(&self) -> impl Iterator<Item = &RevokedCertificate> {
        self.0.iter().flat_map(|chunk| chunk.iter().flatten())
    }
}

impl RevokedSet {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn get(&self, serial: &Serial) -> Option<&RevokedCertificate> {
        let place = *self.places.get(serial)? as usize;
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)?.as_ref()
    }

    /// Whether anything was revoked after a list of this number.
    pub(super) fn has_after(&self, number: u64) -> bool {
        self.latest_after.is_some_and(|latest| latest >= number)
    }

    pub(super) fn put(&mut self, revoked: RevokedCertificate) {
        self.latest_after = self.latest_after.max(Some(revoked.after));
        if let Some(place) = self.places.get(&revoked.serial) {
            let place = *place as usize;
            Arc::make_mut(&mut self.chunks[place / CHUNK])[place % CHUNK] = Some(revoked);
            return;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        let place = (self.chunks.len() - 1) * CHUNK;
        let Some(last) = self.chunks.last_mut() else { return };
        let place = u32::try_from(place + last.len()).expect("memory has not room for as many");
        Arc::make_mut(last).push(Some(revoked));
        self.places.insert(revoked.serial, place);
    }

    pub(super) fn remove(&mut self, serial: &Serial) {
        let Some(place) = self.places.remove(serial) else { return };
        let place = place as usize;
        Arc::make_mut(&mut self.chunks[place / CHUNK])[place % CHUNK] = None;
        let room = self.chunks.len() * CHUNK;
        if room > 4 * CHUNK && room > 2 * self.places.len() {
            let kept: Vec<RevokedCertificate> = self.picture().iter().copied().collect();
            *self = Self::default();
            for revoked in kept {
                self.put(revoked);
            }
        }
    }

    /// The set as it is now.
    pub(super) fn picture(&self) -> Picture {
        Picture(self.chunks.clone())
    }
}

/// Which lists there are of one who signs. Complete lists and deltas are numbered together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    /// The latest number.
    pub(super) number: u64,
    /// The number of the latest complete list, and when it was decided on, in seconds.
    pub(super) complete: u64,
    pub(super) complete_at: i64,
    /// When the complete list before it was: what had ended by then has been on a list after its end, and need not be on another.
    pub(super) before_at: i64,
    /// The number of the latest delta, and when it was decided on.
    pub(super) delta: u64,
    pub(super) delta_at: i64,
    /// Whether certificates were issued that are not stored.
    pub(super) has_unstored: bool,
    /// The issuer that was deleted last.
    pub(super) last_issuer: Option<IssuerId>,
}

impl Lists {
    pub(super) fn encode(&self) -> Vec<u8> {
        let map = super::given::object([
            ("number", self.number.into()),
            ("complete", self.complete.into()),
            ("complete_at", self.complete_at.into()),
            ("before_at", self.before_at.into()),
            ("delta", self.delta.into()),
            ("delta_at", self.delta_at.into()),
            ("has_unstored", self.has_unstored.into()),
            ("last_issuer", self.last_issuer.map_or_else(String::new, |id| id.to_string()).into()),
        ]);
        kallisto_api::Json::Object(map).to_text()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let map = kallisto_api::json::parse_object(bytes).ok()?;
        let given = super::given::GivenFields::of(&map);
        let number = |name: &str| u64::try_from(given.whole(name, 0).ok()?).ok();
        Some(Self {
            number: number("number")?,
            complete: number("complete")?,
            complete_at: given.whole("complete_at", 0).ok()?,
            before_at: given.whole("before_at", 0).ok()?,
            delta: number("delta")?,
            delta_at: given.whole("delta_at", 0).ok()?,
            has_unstored: given.flag("has_unstored", false).ok()?,
            last_issuer: IssuerId::parse(&given.text("last_issuer").ok()?),
        })
    }

    /// The same with a new complete list, and a delta of the same number that says nothing.
    pub(super) fn with_complete(&self, now: i64) -> Self {
        let number = self.number + 1;
        Self {
            number,
            complete: number,
            complete_at: now,
            before_at: self.complete_at,
            delta: number,
            delta_at: now,
            has_unstored: self.has_unstored,
            last_issuer: self.last_issuer,
        }
    }

    /// The same with a new complete list that has nothing which ended by a time, so that what ended by then can be forgotten.
    pub(super) fn without_ended(&self, ended: i64, now: i64) -> Self {
        let next = self.with_complete(now);
        Self { before_at: next.before_at.max(ended.saturating_add(1)), ..next }
    }

    /// The same with a new delta.
    pub(super) fn with_delta(&self, now: i64) -> Self {
        let number = self.number + 1;
        Self { number, delta: number, delta_at: now, ..self.clone() }
    }

    /// Whether the latest complete list has a certificate.
    pub(super) fn complete_has(&self, revoked: &RevokedCertificate) -> bool {
        revoked.after < self.complete && revoked.not_after >= self.before_at
    }

    /// Whether it was on a complete list, and no later list has it: then no list changes when it is forgotten.
    pub(super) const fn are_done_with(&self, revoked: &RevokedCertificate) -> bool {
        revoked.after < self.complete && revoked.not_after < self.before_at
    }

    /// Whether the latest complete list or delta has it and has not ended, where lists are good for `expiry_secs`.
    pub(super) fn are_good_with(
        &self,
        revoked: &RevokedCertificate,
        expiry_secs: i64,
        now: i64,
    ) -> bool {
        let is_good = |at: i64| at.saturating_add(expiry_secs) >= now;
        (self.complete_has(revoked) && is_good(self.complete_at))
            || (self.delta_has(revoked) && is_good(self.delta_at))
    }

    /// Whether the latest delta has it.
    pub(super) fn delta_has(&self, revoked: &RevokedCertificate) -> bool {
        (self.complete..self.delta).contains(&revoked.after)
    }
}

/// What a list was made of, in the record of a certificate: whose it is, and itself.
pub(super) struct StoredCertificate<'a> {
    pub(super) scope: ListScope,
    /// The last second it is good.
    pub(super) not_after: i64,
    pub(super) der: &'a [u8],
}

impl<'a> StoredCertificate<'a> {
    /// `version:u8 scope:[u8;16] not_after:i64 der`, numbers with their first byte first.
    pub(super) fn encode(&self) -> Vec<u8> {
        let not_after = self.not_after.to_be_bytes();
        [&[RECORD_VERSION], &self.scope.bytes()[..], &not_after, self.der].concat()
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (scope, rest) = rest.split_first_chunk::<16>()?;
        let (not_after, der) = rest.split_first_chunk::<8>()?;
        let not_after = i64::from_be_bytes(*not_after);
        let scope = ListScope::from_bytes(*scope);
        (*version == RECORD_VERSION).then_some(Self { scope, not_after, der })
    }
}

/// The name of the record of a certificate.
pub(super) fn certificate_record(serial: &Serial) -> String {
    format!("cert/{}", serial.dashed())
}

/// The name of the record of a revocation.
pub(super) fn revoked_record(serial: &Serial) -> String {
    format!("revoked/{}", serial.dashed())
}

/// The name of the record of the lists of one who signs.
pub(super) fn lists_record(scope: ListScope) -> String {
    format!("crl/{scope}")
}

/// The name of the record of an issuer.
pub(super) fn issuer_record(id: IssuerId) -> String {
    format!("issuer/{id}")
}

/// The name of the record of a key.
pub(super) fn key_record(id: IssuerId) -> String {
    format!("key/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has ended was on a list after its end, and only that leaves the next one (RFC 5280, 3.3).
    #[test]
    fn a_list_has_what_was_good_when_the_one_before_it_was_made() {
        let serial = Serial::of_random([7; 20]);
        let of =
            |after, not_after| RevokedCertificate { serial, at_ns: 0, not_after, after, reason: 0 };
        let lists = Lists::default().with_complete(100).with_delta(150).with_complete(200);
        assert_eq!((lists.number, lists.complete, lists.before_at), (3, 3, 100));
        assert!(lists.complete_has(&of(0, 101)) && lists.complete_has(&of(2, 100)));
        assert!(!lists.complete_has(&of(2, 99)), "it had ended");
        assert!(!lists.complete_has(&of(3, 900)), "it was revoked since");
        let next = lists.with_delta(250);
        assert!(next.delta_has(&of(3, 900)) && next.delta_has(&of(3, 0)));
        assert!(!next.delta_has(&of(2, 900)), "the complete list has it");
        assert!(!next.delta_has(&of(4, 900)), "it was revoked since");
    }
}
