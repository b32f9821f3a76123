//! The bytes of KV records, little-endian, each led by a format number; see `docs/format.md`.
//!
//! Called by the KV handlers (encode) and by the fold (decode). Decoding is a total function over
//! hostile bytes: lengths are checked before anything is allocated, and what does not fit is an
//! error, never a panic.

use std::fmt;

use kallisto_codec::ByteReader;

use super::attribution::{Attribution, Author};

const FORMAT: u8 = 1;
const CAS_REQUIRED: u8 = 1;
const METADATA_CAS_REQUIRED: u8 = 2;
const HAS_CUSTOM: u8 = 4;
const HAS_ATTRIBUTION: u8 = 8;
const DESTROYED: u8 = 1;
const DELETED: u8 = 2;
const HAS_NO_DATA: u8 = 4;
/// Bytes of one version in a metadata record.
pub(crate) const VERSION_BYTES: usize = 25;

/// No bytes of a KV record, or of a format this build does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedKv;

/// What is known of one version. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionInfo {
    /// Its number, from 1.
    pub version: u64,
    /// When it was written.
    pub created_ns: i64,
    /// When it is, or was, deleted; `None` for never.
    pub deletion_ns: Option<i64>,
    /// True when somebody deleted it: it is gone whatever the clock of a server says.
    pub deleted: bool,
    /// True when its data is gone for good.
    pub destroyed: bool,
    /// True when it was imported as a deleted version whose data could not be read: it cannot be undeleted. Its record is a `null`,
    /// and `deleted` is true with it.
    pub has_no_data: bool,
}

impl VersionInfo {
    /// True when the data can be read at `now_ns`.
    pub(crate) fn is_live(&self, now_ns: i64) -> bool {
        let in_time = self.deletion_ns.is_none_or(|deletion| deletion > now_ns);
        !self.destroyed && !self.deleted && in_time
    }
}

/// The metadata of a KV v2 secret. Invariant: `versions` is sorted and holds no version above
/// `current_version`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecretMetadata {
    /// When the entry was made (nanoseconds since 1970).
    pub created_ns: i64,
    /// When data or metadata was last written.
    pub updated_ns: i64,
    /// The newest version, 0 before the first.
    pub current_version: u64,
    /// The oldest version kept, 0 until one was trimmed.
    pub oldest_version: u64,
    /// Versions to keep; 0 leaves it to the mount.
    pub max_versions: u32,
    /// Whether writes must carry check-and-set.
    pub cas_required: bool,
    /// Whether metadata writes must carry check-and-set.
    pub metadata_cas_required: bool,
    /// Life of a version in nanoseconds; 0 leaves it to the mount.
    pub delete_after_ns: i64,
    /// Counts metadata writes.
    pub metadata_version: u64,
    /// The custom metadata as JSON text of an object of strings.
    pub custom: Option<Box<str>>,
    /// The versions kept.
    pub versions: Vec<VersionInfo>,
    /// Who wrote and deleted them, as far as that is known.
    pub attribution: Attribution,
}

impl SecretMetadata {
    /// The version under `number`, if it is kept.
    pub(crate) fn version(&self, number: u64) -> Option<&VersionInfo> {
        let at = self.versions.binary_search_by_key(&number, |info| info.version).ok()?;
        self.versions.get(at)
    }

    /// The same, to change it.
    pub(crate) fn version_mut(&mut self, number: u64) -> Option<&mut VersionInfo> {
        let at = self.versions.binary_search_by_key(&number, |info| info.version).ok()?;
        self.versions.get_mut(at)
    }

    /// The record's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let custom = self.custom.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(64 + custom.len() + VERSION_BYTES * self.versions.len());
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.push(FORMAT);
        out.push(
            flag(self.cas_required, CAS_REQUIRED)
                | flag(self.metadata_cas_required, METADATA_CAS_REQUIRED)
                | flag(self.custom.is_some(), HAS_CUSTOM)
                | flag(!self.attribution.is_empty(), HAS_ATTRIBUTION),
        );
        out.extend_from_slice(&self.created_ns.to_le_bytes());
        out.extend_from_slice(&self.updated_ns.to_le_bytes());
        out.extend_from_slice(&self.current_version.to_le_bytes());
        out.extend_from_slice(&self.oldest_version.to_le_bytes());
        out.extend_from_slice(&self.max_versions.to_le_bytes());
        out.extend_from_slice(&self.delete_after_ns.to_le_bytes());
        out.extend_from_slice(&self.metadata_version.to_le_bytes());
        out.extend_from_slice(&length(custom.len()));
        out.extend_from_slice(custom.as_bytes());
        out.extend_from_slice(&length(self.versions.len()));
        for info in &self.versions {
            out.extend_from_slice(&info.version.to_le_bytes());
            out.extend_from_slice(&info.created_ns.to_le_bytes());
            out.extend_from_slice(&info.deletion_ns.unwrap_or(i64::MIN).to_le_bytes());
            out.push(
                flag(info.destroyed, DESTROYED)
                    | flag(info.deleted, DELETED)
                    | flag(info.has_no_data, HAS_NO_DATA),
            );
        }
        if !self.attribution.is_empty() {
            self.attribution.encode(&mut out);
        }
        out
    }

    /// Notes who made the current version, and forgets who made those that are not kept. Without an author nothing is known of it.
    pub(crate) fn attribute_current(&mut self, author: Option<&Author>) {
        if let Some(author) = author {
            self.attribution.created(self.current_version, author);
        }
        if !self.attribution.is_empty() {
            let oldest = self.versions.first().map_or(u64::MAX, |info| info.version);
            self.attribution.retain(|version| version >= oldest);
        }
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// [`MalformedKv`] when the bytes are no such record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MalformedKv> {
        let mut reader = RecordReader::open(bytes)?;
        let flags = reader.byte()?;
        let mut metadata = Self {
            cas_required: flags & CAS_REQUIRED != 0,
            metadata_cas_required: flags & METADATA_CAS_REQUIRED != 0,
            created_ns: reader.i64()?,
            updated_ns: reader.i64()?,
            current_version: reader.u64()?,
            oldest_version: reader.u64()?,
            max_versions: reader.u32()?,
            delete_after_ns: reader.i64()?,
            metadata_version: reader.u64()?,
            custom: None,
            versions: Vec::new(),
            attribution: Attribution::default(),
        };
        let custom = reader.text()?;
        if flags & HAS_CUSTOM != 0 {
            metadata.custom = Some(custom.into());
        }
        let count = reader.count(VERSION_BYTES)?;
        metadata.versions.reserve(count);
        for _ in 0..count {
            metadata.versions.push(reader.version()?);
        }
        let sorted = metadata.versions.is_sorted_by(|a, b| a.version < b.version);
        let newest = metadata.versions.last().map_or(0, |info| info.version);
        if !sorted || newest > metadata.current_version {
            return Err(MalformedKv);
        }
        if flags & HAS_ATTRIBUTION != 0 {
            metadata.attribution = Attribution::decode(&mut reader.0)?;
        }
        reader.end(metadata)
    }
}

/// The bytes of one version: its data as canonical JSON text.
pub(crate) fn encode_version(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + data.len());
    out.push(FORMAT);
    out.extend_from_slice(data);
    out
}

/// The data text of a version record.
///
/// # Errors
/// [`MalformedKv`] when the bytes are no such record.
pub(crate) fn decode_version(bytes: &[u8]) -> Result<&[u8], MalformedKv> {
    match bytes.split_first() {
        Some((&FORMAT, data)) => Ok(data),
        _ => Err(MalformedKv),
    }
}

/// The bytes of a KV v1 secret: the lease its writer asked for (seconds), then its JSON text.
pub(crate) fn encode_one(lease_secs: Option<u32>, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(6 + data.len());
    out.push(FORMAT);
    out.push(u8::from(lease_secs.is_some()));
    out.extend_from_slice(&lease_secs.unwrap_or_default().to_le_bytes());
    out.extend_from_slice(data);
    out
}

/// Reads a KV v1 record back: the lease in seconds, and the JSON text.
///
/// # Errors
/// [`MalformedKv`] when the bytes are no such record.
pub(crate) fn decode_one(bytes: &[u8]) -> Result<(Option<u32>, &[u8]), MalformedKv> {
    let mut reader = RecordReader::open(bytes)?;
    let given = reader.byte()? != 0;
    let lease = reader.u32()?;
    Ok((given.then_some(lease), reader.0.rest()))
}

/// The settings of a KV v2 mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KvConfig {
    /// Versions to keep; 0 means the default.
    pub max_versions: u32,
    /// Whether writes must carry check-and-set.
    pub cas_required: bool,
    /// Whether metadata writes must carry check-and-set.
    pub metadata_cas_required: bool,
    /// Life of a version in nanoseconds; 0 for ever, negative switches it off for all secrets.
    pub delete_after_ns: i64,
    /// Whether new versions do not say who wrote them.
    pub is_anonymous: bool,
}

impl KvConfig {
    /// The record's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out =
            vec![FORMAT, u8::from(self.cas_required), u8::from(self.metadata_cas_required)];
        out.extend_from_slice(&self.max_versions.to_le_bytes());
        out.extend_from_slice(&self.delete_after_ns.to_le_bytes());
        // As it was before there was attribution, unless that is off.
        if self.is_anonymous {
            out.push(1);
        }
        out
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// [`MalformedKv`] when the bytes are no such record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MalformedKv> {
        let mut reader = RecordReader::open(bytes)?;
        let mut config = Self {
            cas_required: reader.byte()? != 0,
            metadata_cas_required: reader.byte()? != 0,
            max_versions: reader.u32()?,
            delete_after_ns: reader.i64()?,
            is_anonymous: false,
        };
        if !reader.0.is_empty() {
            config.is_anonymous = reader.byte()? != 0;
        }
        reader.end(config)
    }
}

fn length(count: usize) -> [u8; 4] {
    u32::try_from(count).expect("a record is bounded far below 4 GiB").to_le_bytes()
}

/// Reads fields off the front of a record.
struct RecordReader<'a>(ByteReader<'a>);

impl<'a> RecordReader<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, MalformedKv> {
        match bytes.split_first() {
            Some((&FORMAT, rest)) => Ok(Self(ByteReader::new(rest))),
            _ => Err(MalformedKv),
        }
    }

    fn byte(&mut self) -> Result<u8, MalformedKv> {
        self.0.u8().ok_or(MalformedKv)
    }

    fn u32(&mut self) -> Result<u32, MalformedKv> {
        self.0.u32().ok_or(MalformedKv)
    }

    fn u64(&mut self) -> Result<u64, MalformedKv> {
        self.0.u64().ok_or(MalformedKv)
    }

    fn i64(&mut self) -> Result<i64, MalformedKv> {
        self.0.i64().ok_or(MalformedKv)
    }

    fn count(&mut self, item_bytes: usize) -> Result<usize, MalformedKv> {
        let count = self.u32()? as usize;
        if count > self.0.len() / item_bytes { Err(MalformedKv) } else { Ok(count) }
    }

    fn text(&mut self) -> Result<&'a str, MalformedKv> {
        let bytes = self.u32()? as usize;
        let text = self.0.take(bytes).ok_or(MalformedKv)?;
        std::str::from_utf8(text).map_err(|_| MalformedKv)
    }

    fn version(&mut self) -> Result<VersionInfo, MalformedKv> {
        let (version, created_ns, deletion) = (self.u64()?, self.i64()?, self.i64()?);
        let flags = self.byte()?;
        let has = |bit| flags & bit != 0;
        Ok(VersionInfo {
            version,
            created_ns,
            deletion_ns: (deletion != i64::MIN).then_some(deletion),
            deleted: has(DELETED),
            destroyed: has(DESTROYED),
            has_no_data: has(HAS_NO_DATA),
        })
    }

    fn end<T>(self, value: T) -> Result<T, MalformedKv> {
        if self.0.is_empty() { Ok(value) } else { Err(MalformedKv) }
    }
}

impl fmt::Display for MalformedKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed KV record")
    }
}

impl std::error::Error for MalformedKv {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::attribution::tests::author;

    fn sample() -> SecretMetadata {
        let info = |version, deletion_ns, destroyed| VersionInfo {
            version,
            created_ns: 10,
            deletion_ns,
            deleted: deletion_ns == Some(-1),
            destroyed,
            has_no_data: false,
        };
        SecretMetadata {
            created_ns: -5,
            updated_ns: i64::MAX,
            current_version: 9,
            oldest_version: 7,
            max_versions: 3,
            cas_required: true,
            metadata_cas_required: false,
            delete_after_ns: 1,
            metadata_version: 4,
            custom: Some(r#"{"a":"b"}"#.into()),
            versions: vec![info(7, None, false), info(8, Some(0), true), info(9, Some(-1), false)],
            attribution: Attribution::default(),
        }
    }

    /// The same with writers.
    fn attributed() -> SecretMetadata {
        let mut metadata = sample();
        metadata.attribution.created(8, &author("bob"));
        metadata.attribute_current(Some(&author("ada")));
        metadata.attribution.deleted(9, Some(&author("eve")));
        metadata
    }

    #[test]
    fn records_read_back() {
        for metadata in [sample(), attributed(), SecretMetadata::default()] {
            assert_eq!(SecretMetadata::decode(&metadata.encode()), Ok(metadata));
        }
        assert_eq!(decode_version(&encode_version(b"{}")), Ok(&b"{}"[..]));
        for lease in [None, Some(0), Some(3600)] {
            assert_eq!(decode_one(&encode_one(lease, b"{}")), Ok((lease, &b"{}"[..])));
        }
        let config = KvConfig {
            max_versions: 3,
            cas_required: true,
            metadata_cas_required: false,
            delete_after_ns: -1,
            is_anonymous: false,
        };
        assert_eq!(KvConfig::decode(&config.encode()), Ok(config));
        let anonymous = KvConfig { is_anonymous: true, ..config };
        assert_eq!(KvConfig::decode(&anonymous.encode()), Ok(anonymous));
        assert_eq!(config.encode().len() + 1, anonymous.encode().len());
    }

    #[test]
    fn metadata_is_these_bytes() {
        let bytes = sample().encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let wanted = concat!(
            "0105fbffffffffffffffffffffffffffff7f090000000000000007000000000000000300000001000000000000000400",
            "000000000000090000007b2261223a2262227d0300000007000000000000000a00000000000000000000000000008000",
            "08000000000000000a0000000000000000000000000000000109000000000000000a00000000000000ffffffffffffff",
            "ff02",
        );
        assert_eq!(hex, wanted);
    }

    #[test]
    fn every_cut_and_every_flip_is_an_error_or_a_record() {
        let bytes = attributed().encode();
        for end in 0..bytes.len() {
            assert_eq!(SecretMetadata::decode(&bytes[..end]), Err(MalformedKv), "cut at {end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                if let Ok(metadata) = SecretMetadata::decode(&flipped) {
                    assert!(metadata.versions.is_sorted_by(|a, b| a.version < b.version));
                }
            }
        }
        for junk in [&b""[..], b"\x02", b"\x01", b"\x01\x01\x01"] {
            assert_eq!(SecretMetadata::decode(junk), Err(MalformedKv));
            assert_eq!(KvConfig::decode(junk), Err(MalformedKv));
            assert_eq!(decode_one(junk), Err(MalformedKv));
        }
    }
}
