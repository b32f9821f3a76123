//! What an envelope of the store holds: a record's logical key, so that a scan can tell whose record it met, and its value.

use bytes::Bytes;
use kallisto_barrier::Keyring;
use kallisto_store::Error;

use super::keys::StorageKeys;

/// Bytes of the logical key's length in front of a record's plaintext.
const LENGTH_BYTES: usize = 2;

/// A logical key, and the value under it.
pub(crate) type KeyValue<'p> = (&'p [u8], &'p [u8]);

/// The envelope of a record.
///
/// # Errors
/// [`Error::TooLarge`] for the key, [`Error::Unavailable`] without randomness.
pub(super) fn seal(
    storage: &[u8],
    key: &[u8],
    value: &[u8],
    keyring: &Keyring,
) -> Result<Vec<u8>, Error> {
    let length = u16::try_from(key.len()).map_err(|_| Error::TooLarge("bytes of a key"))?;
    let mut envelope = Vec::new();
    keyring
        .seal_record_parts(storage, &[&length.to_be_bytes(), key, value], &mut envelope)
        .map_err(|error| Error::Unavailable(format!("cannot encrypt: {error}")))?;
    Ok(envelope)
}

/// The logical key and the value inside an envelope.
///
/// # Errors
/// As [`unopened`] says.
pub(super) fn open(
    storage: &[u8],
    envelope: &[u8],
    keyring: &Keyring,
) -> Result<(Vec<u8>, Bytes), Error> {
    let mut plain = Vec::with_capacity(envelope.len());
    keyring
        .open_record(storage, envelope, &mut plain)
        .map_err(|error| unopened(storage, &error, keyring))?;
    let plain = Bytes::from(plain);
    let key = split(storage, &plain)?.0.to_vec();
    let value = plain.slice(LENGTH_BYTES + key.len()..);
    Ok((key, value))
}

/// Why a record did not open.
pub(super) fn unopened(
    storage: &[u8],
    error: &kallisto_barrier::Error,
    keyring: &Keyring,
) -> Error {
    match error {
        // A server that was behind was sent a state from after a rotation, and has the keys of before until its view is built anew.
        kallisto_barrier::Error::UnknownKeyVersion(version)
            if *version > keyring.active_version() =>
        {
            let key = storage_key_text(storage);
            Error::Unavailable(format!(
                "record {key} is under key version {version}, which this server has not taken into use yet: ask again, and if that does not end, \
                 the record is damaged"
            ))
        }
        error => damaged(storage, &error.to_string()),
    }
}

/// The logical key and the value in a record's plaintext.
pub(super) fn split<'p>(storage: &[u8], plain: &'p [u8]) -> Result<KeyValue<'p>, Error> {
    let split = plain
        .split_first_chunk::<LENGTH_BYTES>()
        .and_then(|(length, rest)| rest.split_at_checked(usize::from(u16::from_be_bytes(*length))));
    split.ok_or_else(|| damaged(storage, "it is shorter than its key"))
}

/// The same, refused unless the logical key belongs to the storage key.
pub(super) fn open_checked(
    storage: &[u8],
    envelope: &[u8],
    keys: &StorageKeys<'_>,
) -> Result<(Vec<u8>, Bytes), Error> {
    let (key, value) = open(storage, envelope, keys.keyring())?;
    if keys.of(&key) != storage {
        return Err(damaged(storage, "its key belongs elsewhere"));
    }
    Ok((key, value))
}

/// Names a record without its name: the storage key tells nothing.
pub(super) fn damaged(storage: &[u8], why: &str) -> Error {
    let key = storage_key_text(storage);
    Error::Damaged(format!("record {key}: {why}"))
}

fn storage_key_text(storage: &[u8]) -> String {
    storage.iter().map(|byte| format!("{byte:02x}")).collect()
}
