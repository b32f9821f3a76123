//! Secrets with versions, as their engine keeps them.
//!
//! ```text
//! metadata/CIPHERTEXT     a message that names the secret itself, so what its path was encrypted with is not needed
//! versions/AAA/BBB...     a version's data, where AAABBB... is SHA-256 of the engine's salt, the secret's name, `|` and the number
//! ```

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::{SignedDuration, Timestamp};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::protobuf::{fields, text_pair};

/// Metadata of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredMetadata {
    /// Its path inside the mount.
    pub key: String,
    /// Versions by their numbers.
    pub versions: BTreeMap<u64, StoredVersion>,
    /// The number of the last one.
    pub current_version: u64,
    /// The number of the first that is kept.
    pub oldest_version: u64,
    /// When the secret was made.
    pub created: Option<Timestamp>,
    /// When its last version was made.
    pub updated: Option<Timestamp>,
    /// How many versions it keeps; zero for what the mount says.
    pub max_versions: u64,
    /// Whether writes name the version that they replace.
    pub cas_required: bool,
    /// How long versions live.
    pub delete_version_after: SignedDuration,
    /// What people wrote about it.
    pub custom_metadata: BTreeMap<String, String>,
    /// Whether changes of the metadata name the version that they replace.
    pub metadata_cas_required: bool,
    /// The number of the metadata itself.
    pub metadata_version: u64,
}

/// What metadata says of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredVersion {
    /// When it was made.
    pub created: Option<Timestamp>,
    /// When it is deleted.
    pub deletion: Option<Timestamp>,
    /// Whether it is destroyed.
    pub destroyed: bool,
}

/// Settings of a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSettings {
    /// How many versions a secret keeps.
    pub max_versions: u64,
    /// Whether writes name the version that they replace.
    pub cas_required: bool,
    /// How long versions live.
    pub delete_version_after: SignedDuration,
    /// Whether changes of metadata name the version that they replace.
    pub metadata_cas_required: bool,
}

impl StoredMetadata {
    /// Reads a record.
    ///
    /// # Errors
    /// [`Error::Record`] for damage and fields that are not understood.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut read = Self::default();
        for field in fields(bytes)? {
            match field.number {
                1 => read.key = field.text()?,
                2 => {
                    let (number, version) = numbered_version(field.bytes()?)?;
                    read.versions.insert(number, version);
                }
                3 => read.current_version = field.number()?,
                4 => read.oldest_version = field.number()?,
                5 => read.created = time(field.bytes()?)?,
                6 => read.updated = time(field.bytes()?)?,
                7 => read.max_versions = field.number()?,
                8 => read.cas_required = field.number()? != 0,
                9 => read.delete_version_after = duration(field.bytes()?)?,
                10 => read.custom_metadata.extend([text_pair(field.bytes()?)?]),
                400 => read.metadata_cas_required = field.number()? != 0,
                401 => read.metadata_version = field.number()?,
                _ => return field.unknown("a secret's metadata"),
            }
        }
        Ok(read)
    }

    /// Where the data of a version is, below the engine's own folder.
    #[must_use]
    pub fn version_path(&self, salt: &[u8], number: u64) -> String {
        let mut named = Zeroizing::new(salt.to_vec());
        named.extend_from_slice(format!("{}|{number}", self.key).as_bytes());
        let name = data_encoding::HEXLOWER.encode(digest(&SHA256, &named).as_ref());
        let (folder, rest) = name.split_at(3);
        format!("versions/{folder}/{rest}")
    }
}

impl StoredSettings {
    /// Reads a record.
    ///
    /// # Errors
    /// [`Error::Record`] for damage and fields that are not understood.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut read = Self::default();
        for field in fields(bytes)? {
            match field.number {
                1 => read.max_versions = field.number()?,
                2 => read.cas_required = field.number()? != 0,
                3 => read.delete_version_after = duration(field.bytes()?)?,
                400 => read.metadata_cas_required = field.number()? != 0,
                _ => return field.unknown("a mount's settings"),
            }
        }
        Ok(read)
    }
}

/// The data in the record of a version, as JSON; empty where it has none.
///
/// # Errors
/// [`Error::Record`] for damage and fields that are not understood.
pub fn version_data(bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let mut data = Zeroizing::new(Vec::new());
    for field in fields(bytes)? {
        match field.number {
            1 => data = Zeroizing::new(field.bytes()?.to_vec()),
            2 | 3 => {}
            _ => return field.unknown("a version"),
        }
    }
    Ok(data)
}

/// Whether a mount that was made one with versions has been made so wholly.
///
/// # Errors
/// [`Error::Record`] for damage.
pub fn is_upgraded(bytes: &[u8]) -> Result<bool> {
    Ok(fields(bytes)?.iter().any(|field| field.number == 2 && field.number() == Ok(1)))
}

fn numbered_version(bytes: &[u8]) -> Result<(u64, StoredVersion)> {
    let (mut number, mut version) = (0, StoredVersion::default());
    for field in fields(bytes)? {
        match field.number {
            1 => number = field.number()?,
            2 => {
                for field in fields(field.bytes()?)? {
                    match field.number {
                        1 => version.created = time(field.bytes()?)?,
                        2 => version.deletion = time(field.bytes()?)?,
                        3 => version.destroyed = field.number()? != 0,
                        _ => return field.unknown("a version's metadata"),
                    }
                }
            }
            _ => return field.unknown("a pair"),
        }
    }
    Ok((number, version))
}

/// Seconds and nanoseconds, which times and durations are made of alike. Negative ones are written as numbers of 64 bits.
fn seconds_and_nanos(bytes: &[u8]) -> Result<(i64, i32)> {
    let (mut secs, mut nanos) = (0, 0);
    for field in fields(bytes)? {
        match field.number {
            1 => secs = field.number()?.cast_signed(),
            2 => {
                let given = field.number()?.cast_signed();
                nanos = i32::try_from(given).map_err(|_| Error::record("a time is damaged"))?;
            }
            _ => return field.unknown("a time"),
        }
    }
    Ok((secs, nanos))
}

/// A time; `None` for the one that stands for none.
pub(crate) fn time(bytes: &[u8]) -> Result<Option<Timestamp>> {
    /// The first of January of the year 1, which is what these servers write for no time.
    const NO_TIME_SECS: i64 = -62_135_596_800;
    let (secs, nanos) = seconds_and_nanos(bytes)?;
    if (secs, nanos) == (NO_TIME_SECS, 0) {
        return Ok(None);
    }
    let time = Timestamp::new(secs, nanos);
    time.map(Some).map_err(|_| Error::record("a time is damaged"))
}

fn duration(bytes: &[u8]) -> Result<SignedDuration> {
    let (secs, nanos) = seconds_and_nanos(bytes)?;
    if nanos.unsigned_abs() >= 1_000_000_000 {
        return Err(Error::record("a duration is damaged"));
    }
    Ok(SignedDuration::new(secs, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{put_bytes, put_number};

    /// The metadata of a secret of two versions, the first destroyed, as a server of release 2.7.2 wrote it.
    const RECORDED: &str = "0a0361707012120801120e0a0c0885d0b4d80610a2c9ed8a01";

    #[test]
    fn metadata_as_a_server_wrote_it_is_read() {
        let bytes = data_encoding::HEXLOWER.decode(RECORDED.as_bytes()).unwrap();
        let read = StoredMetadata::read(&bytes).unwrap();
        assert_eq!(read.key, "app");
        let version = read.versions.get(&1).unwrap();
        assert_eq!(version.created.unwrap().subsec_nanosecond(), 291_202_210);
        assert_eq!((version.deletion, version.destroyed), (None, false));
    }

    /// Computed by another implementation from what a server of release 2.7.2 wrote.
    #[test]
    fn the_path_of_a_version_is_the_one_that_a_server_gave() {
        let metadata = StoredMetadata { key: "app".to_owned(), ..StoredMetadata::default() };
        let path = metadata.version_path(b"55cb8ed5-6d2c-c680-8f8e-21f1950277d0", 1);
        assert_eq!(
            path,
            "versions/877/f35d595bed2f7e1af768bf1b9dd197dcb30cc988f8afee5ce0cf5350cc763"
        );
    }

    #[test]
    fn fields_that_are_not_known_are_refused_by_their_number() {
        let mut message = Vec::new();
        put_bytes(&mut message, 1, b"app");
        put_number(&mut message, 402, 1);
        let told = StoredMetadata::read(&message).unwrap_err();
        assert!(told.to_string().contains("field 402 of a secret's metadata"), "{told}");
    }

    #[test]
    fn times_and_durations_have_their_bounds() {
        let of = |secs: u64, nanos: u64| {
            let mut message = Vec::new();
            put_number(&mut message, 1, secs);
            put_number(&mut message, 2, nanos);
            message
        };
        assert_eq!(time(&of(1, 5)).unwrap().unwrap().as_nanosecond(), 1_000_000_005);
        assert_eq!(time(&of((-62_135_596_800_i64).cast_unsigned(), 0)), Ok(None));
        assert!(time(&of(u64::MAX / 2, 0)).is_err() && time(&of(0, u64::MAX / 2)).is_err());
        assert_eq!(duration(&of(60, 0)), Ok(SignedDuration::from_secs(60)));
        assert_eq!(duration(&of((-1_i64).cast_unsigned(), 0)), Ok(SignedDuration::from_secs(-1)));
        assert!(duration(&of(0, 1_000_000_000)).is_err());
    }
}
