//! Bringing keys from elsewhere: wrapped by AES-KWP under a key of the moment, and that by RSA-OAEP
//! under the server's wrapping key, so that no one between sees them.
//!
//! ```text
//! wrapped := RSA-4096-OAEP(moment's AES-256 key) 512 bytes | AES-KWP(key)        (RFC 5649)
//! ```

use std::sync::Arc;

use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrapPadded};
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OAEP_SHA384_MGF1SHA384, OAEP_SHA512_MGF1SHA512,
    OaepAlgorithm, OaepPrivateDecryptingKey, PrivateDecryptingKey,
};
use zeroize::Zeroizing;

use crate::der;
use crate::ed25519::Ed25519;
use crate::error::{Error, Result};
use crate::key::{KeySpec, TransitKey};
use crate::kind::{KeyFamily, KeyKind};
use crate::limits::IMPORT_BYTES_MAX;
use crate::material::{KeyVersionMaterial, Material};
use crate::public::PublicHalf;
use crate::rsa::Rsa;
use crate::settings::{Derivation, KeyOrigin};

/// Bytes that the wrapping key's part of a wrapped key takes.
const WRAPPED_AES_KEY_BYTES: usize = 512;
const AES_KEY_BYTES: usize = 32;

/// The hash of the OAEP padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportHash {
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl ImportHash {
    /// The hash with this name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "SHA1" => Some(Self::Sha1),
            "SHA256" => Some(Self::Sha256),
            "SHA384" => Some(Self::Sha384),
            "SHA512" => Some(Self::Sha512),
            _ => None,
        }
    }

    const fn algorithm(self) -> &'static OaepAlgorithm {
        match self {
            Self::Sha1 => &OAEP_SHA1_MGF1SHA1,
            Self::Sha256 => &OAEP_SHA256_MGF1SHA256,
            Self::Sha384 => &OAEP_SHA384_MGF1SHA384,
            Self::Sha512 => &OAEP_SHA512_MGF1SHA512,
        }
    }
}

/// The RSA-4096 key under which others wrap what they bring.
pub struct WrappingKey(Rsa);

impl WrappingKey {
    /// A new one; takes a second or so.
    ///
    /// # Errors
    /// [`Error::Machine`] if none could be made.
    pub fn make() -> Result<Self> {
        Rsa::make(KeyKind::Rsa4096).map(Self)
    }

    /// One that was stored.
    ///
    /// # Errors
    /// [`Error::Damaged`] if these are not its bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let pair = Rsa::from_pkcs8(KeyKind::Rsa4096, bytes);
        pair.map(Self).map_err(|_| Error::Damaged("the wrapping key"))
    }

    /// The bytes to store.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.pkcs8().to_vec())
    }

    /// The public key in PEM.
    ///
    /// # Errors
    /// [`Error::Machine`] if it could not be written.
    pub fn public_pem(&self) -> Result<String> {
        Ok(der::pem("PUBLIC KEY", &self.0.public_der()?).to_string())
    }

    /// The key inside `wrapped`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it was not wrapped for this key and hash.
    pub fn unwrap(&self, wrapped: &[u8], hash: ImportHash) -> Result<Zeroizing<Vec<u8>>> {
        let Some((for_us, for_it)) = wrapped.split_at_checked(WRAPPED_AES_KEY_BYTES) else {
            return Err(Error::invalid("provided ciphertext is too short"));
        };
        if wrapped.len() > IMPORT_BYTES_MAX {
            return Err(Error::invalid("provided ciphertext is too long"));
        }
        let aes_key = self.unwrap_aes_key(for_us, hash)?;
        let failed = |_| Error::invalid("the key could not be unwrapped: kwp");
        let kek = AesKek::new(&AES_256, &aes_key).map_err(failed)?;
        let mut key = Zeroizing::new(vec![0; for_it.len()]);
        let length = kek.unwrap_with_padding(for_it, &mut key).map_err(failed)?.len();
        key.truncate(length);
        Ok(key)
    }

    fn unwrap_aes_key(&self, wrapped: &[u8], hash: ImportHash) -> Result<Zeroizing<Vec<u8>>> {
        let unusable = |_| Error::Machine("the wrapping key could not be used");
        let private = PrivateDecryptingKey::from_pkcs8(self.0.pkcs8())
            .map_err(|_| Error::Machine("the wrapping key could not be used"))?;
        let private = OaepPrivateDecryptingKey::new(private).map_err(unusable)?;
        let mut aes_key = Zeroizing::new(vec![0; private.min_output_size()]);
        let length = private
            .decrypt(hash.algorithm(), wrapped, &mut aes_key, None)
            .map_err(|_| Error::invalid("the key could not be unwrapped: decryption error"))?
            .len();
        aes_key.truncate(length);
        if length != AES_KEY_BYTES {
            return Err(Error::invalid("expected ephemeral AES key to be 256-bit"));
        }
        Ok(aes_key)
    }
}

impl TransitKey {
    /// A key whose first version was brought from elsewhere: raw bytes, or PKCS#8 for key pairs.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is none of this type.
    pub fn import(
        kind: KeyKind,
        spec: &KeySpec,
        origin: KeyOrigin,
        material: &[u8],
        now_ns: i64,
    ) -> Result<Self> {
        let mut key = Self::empty(kind, spec)?;
        if kind == KeyKind::Hmac {
            key.hmac_key_bytes = material.len();
        }
        key.settings.origin = origin;
        key.with_version(imported(kind, material, now_ns)?)
    }

    /// A key of which the first version is a public half from elsewhere, in PEM.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is none of this type.
    pub fn import_public(
        kind: KeyKind,
        spec: &KeySpec,
        origin: KeyOrigin,
        pem: &str,
        now_ns: i64,
    ) -> Result<Self> {
        let mut key = Self::empty(kind, spec)?;
        key.settings.origin = origin;
        let half = key.public_half(pem)?;
        key.with_version(KeyVersionMaterial::with_material(kind, half, now_ns)?)
    }

    /// The key with a public half from elsewhere as its next version.
    ///
    /// # Errors
    /// As [`Self::imported_version`].
    pub fn imported_public_version(&self, pem: &str, now_ns: i64) -> Result<Self> {
        self.check_imported()?;
        let half = self.public_half(pem)?;
        self.with_version(KeyVersionMaterial::with_material(self.kind, half, now_ns)?)
    }

    fn public_half(&self, pem: &str) -> Result<Material> {
        let half = PublicHalf::from_pem(self.kind, pem)?;
        if self.derivation != Derivation::None {
            return Err(Error::invalid(
                "unable to import only public key for derived Ed25519 key: imported key should not \
                 be an Ed25519 key pair but is instead an HKDF key",
            ));
        }
        Ok(Material::Public(Box::new(half)))
    }

    /// The key with the private half of a version that had the public one only.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the version has it, or this is another pair's.
    pub fn completed(&self, number: i64, private: &[u8]) -> Result<Self> {
        let (number, public) = self.lacking(number)?;
        let material = material_of(self.kind, private)?;
        if material.public_spki()?.as_deref() != Some(public.spki()) {
            return Err(Error::invalid("cannot import key, key pair does not match"));
        }
        let old = self.version(number)?;
        let version = KeyVersionMaterial::from_parts(old.made_ns, material, old.hmac_key.clone());
        let mut key = self.clone();
        key.versions.insert(number, Arc::new(version));
        Ok(key)
    }

    /// Why a version that is there takes no public half: all of them have one.
    #[must_use]
    pub fn refuse_public_of(&self, number: i64) -> Error {
        match self.lacking(number) {
            Err(error) => error,
            Ok(_) => Error::invalid(
                "cannot add a public key to a key version that already has a public key set",
            ),
        }
    }

    /// The version of this number, which has a public half only.
    fn lacking(&self, number: i64) -> Result<(u32, &PublicHalf)> {
        self.check_imported()?;
        if matches!(self.kind.family(), KeyFamily::Aead(_) | KeyFamily::Hmac) {
            return Err(Error::invalid("provided type does not support importing key versions"));
        }
        let number = u32::try_from(number).unwrap_or_default();
        match &self.version(number)?.material {
            Material::Public(half) => Ok((number, half)),
            _ => Err(Error::invalid("private key imported, key version cannot be updated")),
        }
    }

    /// The key with one more version from elsewhere.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key was made here, or the material is none of its type.
    pub fn imported_version(&self, material: &[u8], now_ns: i64) -> Result<Self> {
        self.check_imported()?;
        self.with_version(imported(self.kind, material, now_ns)?)
    }

    fn check_imported(&self) -> Result<()> {
        self.check_usable()?;
        if self.settings.origin == KeyOrigin::Made {
            return Err(Error::invalid(
                "the import_version endpoint can only be used with an imported key",
            ));
        }
        Ok(())
    }
}

fn imported(kind: KeyKind, material: &[u8], now_ns: i64) -> Result<KeyVersionMaterial> {
    KeyVersionMaterial::with_material(kind, material_of(kind, material)?, now_ns)
}

/// Raw bytes, or PKCS#8 for key pairs.
fn material_of(kind: KeyKind, bytes: &[u8]) -> Result<Material> {
    match kind.family() {
        KeyFamily::Ed25519 => Ok(Material::Ed25519(Ed25519::from_pkcs8(bytes)?)),
        _ => Material::from_bytes(kind, bytes),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rsa::{OaepPublicEncryptingKey, PublicEncryptingKey};

    use super::*;
    use crate::encrypt::{Decrypt, Encrypt};

    fn wrap(wrapping: &WrappingKey, key: &[u8], hash: ImportHash) -> Vec<u8> {
        let public = PublicEncryptingKey::from_der(&wrapping.0.public_der().unwrap()).unwrap();
        let public = OaepPublicEncryptingKey::new(public).unwrap();
        let mut wrapped = vec![0; public.ciphertext_size()];
        public.encrypt(hash.algorithm(), &[3; 32], &mut wrapped, None).unwrap();
        let mut inner = vec![0; key.len() + 15];
        let kek = AesKek::new(&AES_256, &[3; 32]).unwrap();
        wrapped.extend_from_slice(kek.wrap_with_padding(key, &mut inner).unwrap());
        wrapped
    }

    #[test]
    fn a_wrapped_key_arrives_and_a_changed_one_does_not() {
        let wrapping = WrappingKey::make().unwrap();
        let wrapping = WrappingKey::decode(&wrapping.encode()).unwrap();
        assert!(wrapping.public_pem().unwrap().starts_with("-----BEGIN PUBLIC KEY-----"));
        for hash in [ImportHash::Sha1, ImportHash::Sha256, ImportHash::Sha384, ImportHash::Sha512] {
            let wrapped = wrap(&wrapping, &[9; 32], hash);
            assert_eq!(*wrapping.unwrap(&wrapped, hash).unwrap(), [9; 32]);
        }
        let wrapped = wrap(&wrapping, &[9; 32], ImportHash::Sha256);
        assert!(wrapping.unwrap(&wrapped, ImportHash::Sha1).is_err());
        assert!(wrapping.unwrap(&wrapped[..500], ImportHash::Sha256).is_err());
        for place in [0, 511, 512, wrapped.len() - 1] {
            let mut flipped = wrapped.clone();
            flipped[place] ^= 1;
            assert!(wrapping.unwrap(&flipped, ImportHash::Sha256).is_err());
        }
    }

    #[test]
    fn imported_keys_work_and_rotate_only_if_they_may() {
        let spec = KeySpec::default();
        let key = TransitKey::import(KeyKind::Aes256Gcm96, &spec, KeyOrigin::Imported, &[4; 32], 0)
            .unwrap();
        let request = Encrypt { plaintext: b"x", context: b"", associated: b"", version: 0 };
        let text = key.encrypt(&request).unwrap().text;
        let request = Decrypt { ciphertext: &text, context: b"", associated: b"" };
        assert_eq!(*key.decrypt(&request).unwrap(), b"x");
        assert!(key.rotated(0).is_err());
        assert_eq!(key.imported_version(&[5; 32], 0).unwrap().latest_version(), 2);
        let origin = KeyOrigin::ImportedRotatable;
        let key = TransitKey::import(KeyKind::Aes256Gcm96, &spec, origin, &[4; 32], 0).unwrap();
        let key = key.rotated(0).unwrap();
        assert!(key.imported_version(&[5; 32], 0).is_err());
        assert!(TransitKey::import(KeyKind::Aes256Gcm96, &spec, origin, &[4; 31], 0).is_err());
        assert!(TransitKey::import(KeyKind::EcdsaP256, &spec, origin, &[4; 32], 0).is_err());
    }
}
