//! What the fuzz targets need of the inside: a keyring of given keys, and decoding without what stands in front of it.

use std::sync::Arc;

use super::codec::{BASE_KEY_LABEL, DATA_KEY_BYTES, HEAD_BYTES, decode};
use super::{Base, DataKey, Keyring, data_key_commitment};
use crate::derive::commitment;
use crate::secret::SecretKey;

/// A keyring of these keys.
pub(crate) fn fixed(base_key: SecretKey, data_keys: [SecretKey; 2]) -> Keyring {
    let base = Base::new([9; 16], base_key).expect("there is memory");
    let data_keys = (1..)
        .zip(data_keys)
        .map(|(version, key)| Arc::new(DataKey::new(version, 0, 0, key).expect("there is memory")));
    Keyring { base, data_keys: data_keys.collect() }
}

/// The bytes of a keyring.
#[cfg(test)]
pub(crate) fn encode(keyring: &Keyring) -> Vec<u8> {
    super::codec::encode(keyring).to_vec()
}

/// The bytes of the keyring that `bytes` are, if they are one.
pub(crate) fn decode_and_encode(bytes: &[u8]) -> Option<Vec<u8>> {
    decode(bytes).ok().map(|keyring| super::codec::encode(&keyring).to_vec())
}

/// `bytes` with every commitment made right, and the count of keys, so that what is behind those checks is reached.
pub(crate) fn repair(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some((head, rest)) = bytes.split_at_mut_checked(HEAD_BYTES) else { return bytes };
    if let Ok(key) = SecretKey::from_bytes(&head[16..48]) {
        head[48..80].copy_from_slice(&commitment(&key, BASE_KEY_LABEL));
    }
    let keys = rest.chunks_exact_mut(DATA_KEY_BYTES);
    let count = u32::try_from(keys.len()).expect("an input is far shorter");
    head[80..84].copy_from_slice(&count.to_le_bytes());
    for data_key in keys {
        let version = data_key.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if let Ok(key) = SecretKey::from_bytes(&data_key[20..52]) {
            data_key[52..84].copy_from_slice(&data_key_commitment(&key, version));
        }
    }
    bytes
}
