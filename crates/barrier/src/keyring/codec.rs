//! The bytes of a keyring, before they are sealed.
//!
//! ```text
//! keyring  := cluster id 16 | base key 32 | its commitment 32 | count u32 | data key * count
//! data key := key_version u32 | installed i64 (seconds since 1970) | seals u64 | key 32 | its commitment 32
//! ```
//!
//! Integers are little-endian; versions rise by one. These bytes were authenticated before they come here, so what does not
//! fit is a mistake of the writer: it is refused all the same, without a panic and before anything is allocated for it.

use kallisto_codec::ByteReader;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{Base, DataKey, Keyring, data_key_commitment};
use crate::derive::{COMMITMENT_BYTES, commitment};
use crate::error::{Error, Result};
use crate::limits::{CLUSTER_ID_BYTES, DATA_KEYS_MAX, KEY_BYTES};
use crate::secret::SecretKey;

pub(super) const BASE_KEY_LABEL: &[u8] = b"base-key/v1";
pub(super) const HEAD_BYTES: usize = CLUSTER_ID_BYTES + KEY_BYTES + COMMITMENT_BYTES + 4;
pub(super) const DATA_KEY_BYTES: usize = 4 + 8 + 8 + KEY_BYTES + COMMITMENT_BYTES;

/// The bytes of a keyring, in one allocation that is wiped.
pub(super) fn encode(keyring: &Keyring) -> Zeroizing<Vec<u8>> {
    let length = HEAD_BYTES + keyring.data_keys.len() * DATA_KEY_BYTES;
    let mut out = Zeroizing::new(Vec::with_capacity(length));
    let count = u32::try_from(keyring.data_keys.len()).expect("a keyring has 8,760 keys at most");
    out.extend_from_slice(&keyring.base.cluster_id);
    out.extend_from_slice(keyring.base.key.expose());
    out.extend_from_slice(&commitment(&keyring.base.key, BASE_KEY_LABEL));
    out.extend_from_slice(&count.to_le_bytes());
    for key in &keyring.data_keys {
        out.extend_from_slice(&key.version().to_le_bytes());
        out.extend_from_slice(&key.installed_at_unix().to_le_bytes());
        out.extend_from_slice(&key.describe().seals.to_le_bytes());
        out.extend_from_slice(key.key().expose());
        out.extend_from_slice(&key.commitment());
    }
    assert_eq!(out.len(), length, "a buffer that grew would have left a copy behind");
    out
}

/// The keyring in `bytes`.
pub(super) fn decode(bytes: &[u8]) -> Result<Keyring> {
    let mut reader = KeyringReader(ByteReader::new(bytes));
    let cluster_id = *reader.take()?;
    let base_key = reader.key()?;
    reader.committed(&commitment(&base_key, BASE_KEY_LABEL))?;
    let count = u32::from_le_bytes(*reader.take()?) as usize;
    if count == 0 || count > DATA_KEYS_MAX || reader.0.len() != count * DATA_KEY_BYTES {
        return Err(Error::Damaged("a keyring has another number of keys than it says"));
    }
    let mut data_keys = Vec::with_capacity(count);
    let mut next = None;
    for _ in 0..count {
        let key = data_key(&mut reader)?;
        if next.is_some_and(|next| next != key.version()) || key.version() == 0 {
            return Err(Error::Damaged("the versions of a keyring do not rise by one"));
        }
        next = key.version().checked_add(1);
        data_keys.push(std::sync::Arc::new(key));
    }
    Ok(Keyring { base: Base::new(cluster_id, base_key)?, data_keys })
}

fn data_key(reader: &mut KeyringReader<'_>) -> Result<DataKey> {
    let version = u32::from_le_bytes(*reader.take()?);
    let installed_at_unix = i64::from_le_bytes(*reader.take()?);
    let seals = u64::from_le_bytes(*reader.take()?);
    let key = reader.key()?;
    reader.committed(&data_key_commitment(&key, version))?;
    DataKey::new(version, installed_at_unix, seals, key)
}

/// What is left to read.
struct KeyringReader<'a>(ByteReader<'a>);

impl<'a> KeyringReader<'a> {
    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        self.0.array_ref().ok_or(Error::Damaged("a keyring is cut off"))
    }

    fn key(&mut self) -> Result<SecretKey> {
        let bytes = self.take::<KEY_BYTES>()?;
        SecretKey::from_bytes(bytes).map_err(|error| match error {
            Error::Invalid(_) => Error::Damaged("a key of a keyring is blank"),
            other => other,
        })
    }

    fn committed(&mut self, expected: &[u8; COMMITMENT_BYTES]) -> Result<()> {
        let found = self.take::<COMMITMENT_BYTES>()?;
        if bool::from(found.ct_eq(expected)) {
            Ok(())
        } else {
            Err(Error::Damaged("a key of a keyring does not fit its commitment"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring() -> Keyring {
        Keyring::generate([7; 16], 1_000).unwrap().rotated(2_000).unwrap().rotated(3_000).unwrap()
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let keyring = keyring();
        let decoded = decode(&encode(&keyring)).unwrap();
        assert_eq!(decoded.cluster_id(), keyring.cluster_id());
        assert_eq!(decoded.versions(), keyring.versions());
        assert_eq!(*encode(&decoded), *encode(&keyring));
    }

    #[test]
    fn a_keyring_is_these_bytes() {
        let key = |byte: u8| {
            let bytes: Vec<u8> = (0..32).map(|at| at ^ byte).collect();
            SecretKey::from_bytes(&bytes).unwrap()
        };
        let data_key = |version, byte| DataKey::new(version, -2, 300, key(byte)).unwrap();
        let data_keys = vec![data_key(4, 2).into(), data_key(5, 3).into()];
        let bytes = encode(&Keyring { base: Base::new([7; 16], key(1)).unwrap(), data_keys });
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let wanted = concat!(
            "07070707070707070707070707070707010003020504070609080b0a0d0c0f0e111013121514171619181b1a1d1c1f1e",
            "43ea7bf34903221fd113844e9a0e350cf58c889aaf150a151178d7f6029cd9e00200000004000000feffffffffffffff",
            "2c0100000000000002030001060704050a0b08090e0f0c0d12131011161714151a1b18191e1f1c1d65d7ea05fa72db98",
            "b36602a51da82c359a32741048b59ce1c2e3ad21c65423f805000000feffffffffffffff2c0100000000000003020100",
            "070605040b0a09080f0e0d0c13121110171615141b1a19181f1e1d1c7f0f2d8c3387fa37e065b6c63bbe46c7557cfc1c",
            "28e78e7710817951b35f2411",
        );
        assert_eq!(hex, wanted);
        assert_eq!(*encode(&decode(&bytes).unwrap()), *bytes);
    }

    #[test]
    fn every_cut_and_every_flip_in_a_key_or_commitment_is_refused() {
        let bytes = encode(&keyring());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        let free = |at: usize| {
            let in_key = at.checked_sub(HEAD_BYTES).map(|at| at % DATA_KEY_BYTES);
            at < CLUSTER_ID_BYTES || in_key.is_some_and(|at| (4..20).contains(&at))
        };
        for at in (0..bytes.len()).filter(|&at| !free(at)) {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 0x10;
            assert!(decode(&flipped).is_err(), "flipped at {at}");
        }
    }

    #[test]
    fn versions_that_do_not_rise_by_one_are_refused() {
        let bytes = encode(&keyring());
        let mut doubled = bytes.to_vec();
        let (first, second) = (HEAD_BYTES, HEAD_BYTES + DATA_KEY_BYTES);
        doubled.copy_within(first..second, second);
        let refused = decode(&doubled).err();
        assert_eq!(refused, Some(Error::Damaged("the versions of a keyring do not rise by one")));
    }

    /// A real keyring of so many keys would take a locked page for each, of which other tests need theirs: the number is looked at before the
    /// keys, so what is refused says which of the two it was.
    #[test]
    fn as_many_keys_as_a_keyring_may_have_are_read_and_one_more_is_refused() {
        let head = &encode(&keyring())[..HEAD_BYTES - 4];
        let refused = |count: usize| {
            let number = u32::try_from(count).unwrap().to_le_bytes();
            decode(&[head, &number, &vec![0; count * DATA_KEY_BYTES]].concat()).err()
        };
        let number = Some(Error::Damaged("a keyring has another number of keys than it says"));
        let first_key = Some(Error::Damaged("a key of a keyring is blank"));
        let wanted = [(0, number), (1, first_key), (8_760, first_key), (8_761, number)];
        assert_eq!(wanted.map(|(count, _)| (count, refused(count))), wanted);
    }
}
