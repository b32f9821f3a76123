//! What is stored of a lease, and its bytes.
//!
//! Little-endian, led by a format number; `docs/format.md` has the picture. Decoding is a total function over
//! hostile bytes: lengths are checked before anything is allocated, and what does not fit is an error, never a
//! panic. A record has one spelling: what decodes, encodes to the same bytes.
#![warn(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::fmt;

use kallisto_codec::ByteReader;

use crate::id::LeaseId;
use crate::limits::{ERROR_BYTES_MAX, ID_BYTES_MAX, REVOCATION_BYTES_MAX};

const FORMAT: u8 = 1;
const RENEWABLE: u8 = 1;
const HAS_OWNER: u8 = 2;
const WAS_RENEWED: u8 = 4;
const PENDING: u8 = 0;
const LIVE: u8 = 1;
const REVOKING: u8 = 2;
const IRREVOCABLE: u8 = 3;

/// No bytes of a lease's record, or of a format this build does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedLease;

impl fmt::Display for MalformedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed lease record")
    }
}

impl std::error::Error for MalformedLease {}

/// The token a lease ends with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The number of the token's namespace, which may be one above the lease's.
    pub namespace: u32,
    /// The keyed hash the token is stored under.
    pub hash: [u8; 32],
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner")
    }
}

/// How far a lease is in its life, without the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeasePhase {
    /// The intent is stored; the far end may or may not have acted.
    Pending,
    /// The credential was handed out.
    Live,
    /// Its end was asked for, or an attempt to revoke it failed.
    Revoking,
    /// Every attempt failed; only an operator's word starts another one.
    Irrevocable,
}

/// How far a lease is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// As [`LeasePhase::Pending`]: from the time it was issued a creation has a bounded time, then it is rolled back.
    Pending,
    /// As [`LeasePhase::Live`].
    Live,
    /// As [`LeasePhase::Revoking`].
    Revoking {
        /// Attempts that failed.
        attempts: u8,
        /// When the next one is due, in nanoseconds since 1970.
        next_try_ns: i64,
    },
    /// As [`LeasePhase::Irrevocable`].
    Irrevocable {
        /// What the far end said last, at most [`ERROR_BYTES_MAX`] bytes.
        error: Box<str>,
    },
}

/// The times of a lease, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// When it was issued.
    pub issued_ns: i64,
    /// When it ends.
    pub expires_ns: i64,
    /// No renewal moves the end beyond this.
    pub expires_ns_max: i64,
    /// When it was last renewed.
    pub renewed_ns: Option<i64>,
    /// What a renewal that names no time gives, in seconds.
    pub ttl_secs: u64,
    /// Whether it may be renewed.
    pub renewable: bool,
}

/// A lease as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Its id.
    pub id: LeaseId,
    /// The number of the mount whose engine revokes it.
    pub mount: u32,
    /// The token it ends with; `None` for one that ends by itself only, as that of an orphaned batch token.
    pub owner: Option<Owner>,
    /// Its times.
    pub term: Term,
    /// How far it is.
    pub state: LeaseState,
    /// What its engine needs to revoke it, at most [`REVOCATION_BYTES_MAX`] bytes.
    pub revocation: Vec<u8>,
}

impl fmt::Debug for LeaseRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseRecord")
            .field("id", &self.id)
            .field("mount", &self.mount)
            .field("term", &self.term)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl LeaseState {
    /// The phase.
    pub const fn phase(&self) -> LeasePhase {
        match self {
            Self::Pending => LeasePhase::Pending,
            Self::Live => LeasePhase::Live,
            Self::Revoking { .. } => LeasePhase::Revoking,
            Self::Irrevocable { .. } => LeasePhase::Irrevocable,
        }
    }

    /// Irrevocable, for what the far end said last; a text over the limit is cut.
    pub fn irrevocable(error: &str) -> Self {
        Self::Irrevocable { error: error[..error.floor_char_boundary(ERROR_BYTES_MAX)].into() }
    }
}

impl LeaseRecord {
    /// Whether every part is within its limit. Only such a record may be encoded.
    pub fn is_within_limits(&self) -> bool {
        self.revocation.len() <= REVOCATION_BYTES_MAX
    }

    /// The record's bytes.
    ///
    /// # Panics
    /// If it is not within the limits.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.is_within_limits(), "who makes a record checks what the engine keeps");
        let id = self.id.as_str();
        let mut out = Vec::with_capacity(96 + id.len() + self.revocation.len());
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.push(FORMAT);
        out.push(
            flag(self.term.renewable, RENEWABLE)
                | flag(self.owner.is_some(), HAS_OWNER)
                | flag(self.term.renewed_ns.is_some(), WAS_RENEWED),
        );
        out.extend_from_slice(&self.mount.to_le_bytes());
        out.extend_from_slice(&self.term.issued_ns.to_le_bytes());
        out.extend_from_slice(&self.term.expires_ns.to_le_bytes());
        out.extend_from_slice(&self.term.expires_ns_max.to_le_bytes());
        out.extend_from_slice(&self.term.ttl_secs.to_le_bytes());
        if let Some(renewed_ns) = self.term.renewed_ns {
            out.extend_from_slice(&renewed_ns.to_le_bytes());
        }
        if let Some(owner) = &self.owner {
            out.extend_from_slice(&owner.namespace.to_le_bytes());
            out.extend_from_slice(&owner.hash);
        }
        self.state.encode(&mut out);
        put_text(&mut out, id);
        out.extend_from_slice(&length_32(self.revocation.len()));
        out.extend_from_slice(&self.revocation);
        out
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// [`MalformedLease`] when the bytes are no such record.
    pub fn decode(bytes: &[u8]) -> Result<Self, MalformedLease> {
        Self::read(ByteReader::new(bytes)).ok_or(MalformedLease)
    }

    fn read(mut reader: ByteReader<'_>) -> Option<Self> {
        let (format, flags) = (reader.u8()?, reader.u8()?);
        if format != FORMAT || flags & !(RENEWABLE | HAS_OWNER | WAS_RENEWED) != 0 {
            return None;
        }
        let mount = reader.u32()?;
        let mut term = Term {
            issued_ns: reader.i64()?,
            expires_ns: reader.i64()?,
            expires_ns_max: reader.i64()?,
            ttl_secs: reader.u64()?,
            renewed_ns: None,
            renewable: flags & RENEWABLE != 0,
        };
        if flags & WAS_RENEWED != 0 {
            term.renewed_ns = Some(reader.i64()?);
        }
        let owner = match flags & HAS_OWNER != 0 {
            true => Some(read_owner(&mut reader)?),
            false => None,
        };
        let state = read_state(&mut reader)?;
        let id = LeaseId::parse(read_text(&mut reader, ID_BYTES_MAX)?).ok()?;
        let length = usize::try_from(reader.u32()?).ok()?;
        let revocation = reader.rest();
        let fits = length == revocation.len() && length <= REVOCATION_BYTES_MAX;
        fits.then(|| Self { id, mount, owner, term, state, revocation: revocation.to_vec() })
    }
}

impl LeaseState {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Pending => out.push(PENDING),
            Self::Live => out.push(LIVE),
            Self::Revoking { attempts, next_try_ns } => {
                out.push(REVOKING);
                out.push(*attempts);
                out.extend_from_slice(&next_try_ns.to_le_bytes());
            }
            Self::Irrevocable { error } => {
                out.push(IRREVOCABLE);
                put_text(out, &error[..error.floor_char_boundary(ERROR_BYTES_MAX)]);
            }
        }
    }
}

/// Appends a text of at most 65,535 bytes behind its length.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("texts of a record have limits below 64 KiB");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn length_32(count: usize) -> [u8; 4] {
    u32::try_from(count).expect("a record is bounded far below 4 GiB").to_le_bytes()
}

fn read_owner(reader: &mut ByteReader<'_>) -> Option<Owner> {
    Some(Owner { namespace: reader.u32()?, hash: reader.array()? })
}

fn read_state(reader: &mut ByteReader<'_>) -> Option<LeaseState> {
    Some(match reader.u8()? {
        PENDING => LeaseState::Pending,
        LIVE => LeaseState::Live,
        REVOKING => LeaseState::Revoking { attempts: reader.u8()?, next_try_ns: reader.i64()? },
        IRREVOCABLE => {
            LeaseState::Irrevocable { error: read_text(reader, ERROR_BYTES_MAX)?.into() }
        }
        _ => return None,
    })
}

/// A text of at most `bytes_max` bytes.
fn read_text<'a>(reader: &mut ByteReader<'a>, bytes_max: usize) -> Option<&'a str> {
    let length = usize::from(reader.u16()?);
    let bytes = if length > bytes_max { None } else { reader.take(length) };
    std::str::from_utf8(bytes?).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests index what they built")]
    use super::*;

    pub(crate) const RANDOM: &str = "unJMmnBWSUfWch79qSsTpiu9";

    /// A live lease of mount 20 at `path`.
    pub(crate) fn record(path: &str) -> LeaseRecord {
        LeaseRecord {
            id: LeaseId::new(path, RANDOM).unwrap(),
            mount: 20,
            owner: Some(Owner { namespace: 0, hash: [7; 32] }),
            term: Term {
                issued_ns: 1_000,
                expires_ns: 3_600_000_001_000,
                expires_ns_max: 86_400_000_001_000,
                renewed_ns: None,
                ttl_secs: 3600,
                renewable: true,
            },
            state: LeaseState::Live,
            revocation: b"user v-root-r-1".to_vec(),
        }
    }

    fn examples() -> Vec<LeaseRecord> {
        let plain = record("database/creds/r");
        let mut ownerless = plain.clone();
        ownerless.owner = None;
        ownerless.term.renewable = false;
        ownerless.revocation.clear();
        let mut all = vec![plain.clone(), ownerless];
        for state in [
            LeaseState::Pending,
            LeaseState::Revoking { attempts: 3, next_try_ns: -5 },
            LeaseState::irrevocable(""),
            LeaseState::irrevocable(&"\u{e9}".repeat(ERROR_BYTES_MAX)),
        ] {
            let mut other = plain.clone();
            other.term.renewed_ns = Some(i64::MIN);
            other.state = state;
            all.push(other);
        }
        all
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        for record in examples() {
            assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn a_record_of_the_first_format_stays_readable() {
        let mut bytes = vec![1, 3, 20, 0, 0, 0];
        for number in [1_000_i64, 3_600_000_001_000, 86_400_000_001_000, 3600] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&[7; 32]);
        bytes.extend_from_slice(&[1, 41, 0]);
        bytes.extend_from_slice(format!("database/creds/r/{RANDOM}").as_bytes());
        bytes.extend_from_slice(&[15, 0, 0, 0]);
        bytes.extend_from_slice(b"user v-root-r-1");
        assert_eq!(LeaseRecord::decode(&bytes), Ok(record("database/creds/r")));
    }

    #[test]
    fn a_record_cut_short_or_drawn_out_is_refused() {
        for record in examples() {
            let mut bytes = record.encode();
            for end in 0..bytes.len() {
                assert_eq!(LeaseRecord::decode(&bytes[..end]), Err(MalformedLease), "{end}");
            }
            bytes.push(0);
            assert_eq!(LeaseRecord::decode(&bytes), Err(MalformedLease));
        }
    }

    #[test]
    fn random_bytes_and_damaged_records_do_not_panic() {
        let mut random = fastrand::Rng::with_seed(20261123);
        let examples: Vec<Vec<u8>> = examples().iter().map(LeaseRecord::encode).collect();
        for round in 0..20_000 {
            let mut bytes = examples[round % examples.len()].clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            crate::fuzz::record(&bytes);
            let garbage: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
            crate::fuzz::record(&garbage);
        }
    }

    #[test]
    fn what_is_over_a_limit_is_refused_or_cut() {
        let mut over = record("a");
        over.revocation = vec![0; REVOCATION_BYTES_MAX + 1];
        assert!(!over.is_within_limits());
        over.revocation.pop();
        assert!(over.is_within_limits());
        assert_eq!(LeaseRecord::decode(&over.encode()), Ok(over), "as long as it may be");
        assert_eq!(MalformedLease.to_string(), "malformed lease record");
        let LeaseState::Irrevocable { error } = LeaseState::irrevocable(&"\u{1f600}".repeat(1000))
        else {
            panic!("it is irrevocable")
        };
        assert_eq!(error.len(), ERROR_BYTES_MAX);
    }

    #[test]
    fn debug_shows_neither_owner_nor_revocation() {
        let text = format!("{:?} {:?}", record("a"), record("a").owner);
        assert!(!text.contains("v-root") && !text.contains("7, 7"), "{text}");
    }
}
