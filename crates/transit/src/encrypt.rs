//! Encrypting, decrypting and both at once: `vault:vN:` base64(nonce | ciphertext | tag).

use data_encoding::BASE64;
use zeroize::Zeroizing;

use crate::base64;
use crate::cipher::KeyedCipher;
use crate::convergent::{self, NonceKeys};
use crate::derive::derive_bytes;
use crate::error::{Error, Result};
use crate::key::TransitKey;
use crate::kind::{KeyFamily, KeyKind};
use crate::material::{KeyVersionMaterial, Material};
use crate::public::TransitPublicKey;
use crate::rsa;
use crate::settings::Derivation;
use crate::tagged::{self, TaggedSubject};

/// What to encrypt.
#[derive(Clone, Copy)]
pub struct Encrypt<'a> {
    /// The plaintext.
    pub plaintext: &'a [u8],
    /// What a derived key is derived by; ignored for others.
    pub context: &'a [u8],
    /// What the ciphertext vouches for besides; empty for nothing.
    pub associated: &'a [u8],
    /// The version to use; 0 for the latest.
    pub version: i64,
}

/// What to decrypt.
#[derive(Clone, Copy, Debug)]
pub struct Decrypt<'a> {
    /// The text that was made by encrypting.
    pub ciphertext: &'a str,
    /// What a derived key is derived by; ignored for others.
    pub context: &'a [u8],
    /// What was vouched for besides.
    pub associated: &'a [u8],
}

/// A ciphertext, and the version that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encrypted {
    /// `vault:vN:…`
    pub text: String,
    /// The version.
    pub version: u32,
}

/// The cipher to use: a version's own, or one derived for the occasion.
enum Chosen<'k> {
    Own(&'k KeyedCipher),
    Derived(KeyedCipher),
}

impl Chosen<'_> {
    const fn get(&self) -> &KeyedCipher {
        match self {
            Self::Own(cipher) => cipher,
            Self::Derived(cipher) => cipher,
        }
    }
}

impl TransitKey {
    /// Encrypts.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what this key cannot do, [`Error::Machine`] without randomness.
    pub fn encrypt(&self, request: &Encrypt<'_>) -> Result<Encrypted> {
        self.check_usable()?;
        let name = self.kind.name();
        if !self.kind.encrypts() {
            return Err(Error::invalid(format!(
                "message encryption not supported for key type {name}"
            )));
        }
        let number = self.writing_version(request.version, "encryption")?;
        let version = self.version(number)?;
        let sealed = match &version.material {
            Material::Rsa(pair) => {
                refuse_associated(self.kind, request.associated)?;
                pair.encrypt(request.plaintext)?
            }
            Material::Public(half) => {
                refuse_associated(self.kind, request.associated)?;
                let TransitPublicKey::Rsa(_, encrypting) = half.key() else {
                    return Err(Error::Damaged("a public half that does not encrypt"));
                };
                rsa::encrypt(encrypting, request.plaintext)?
            }
            _ => self.seal(version, request)?,
        };
        let mut text = tagged::start(number, BASE64.encode_len(sealed.len()));
        base64::append(&BASE64, &sealed, &mut text);
        Ok(Encrypted { text, version: number })
    }

    /// Decrypts.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the text was not made by this key, context and associated data.
    pub fn decrypt(&self, request: &Decrypt<'_>) -> Result<Zeroizing<Vec<u8>>> {
        self.check_usable()?;
        let name = self.kind.name();
        if !self.kind.encrypts() {
            return Err(Error::invalid(format!(
                "message decryption not supported for key type {name}"
            )));
        }
        let tagged = tagged::parse(request.ciphertext, TaggedSubject::Ciphertext)?;
        // The first release of the contract counted from 0.
        let written = if tagged.version == 0 { 1 } else { tagged.version };
        let number = self.reading_version(written, "ciphertext")?;
        let sealed = base64::decode(tagged.payload)
            .map_err(|_| Error::invalid("invalid ciphertext: could not decode base64"))?;
        let version = self.version(number)?;
        match &version.material {
            Material::Rsa(pair) => {
                refuse_associated(self.kind, request.associated)?;
                pair.decrypt(&sealed)
            }
            Material::Public(_) => Err(Error::invalid(
                "cannot decrypt ciphertext, key version does not have a private counterpart",
            )),
            _ => {
                let (chosen, _) = self.cipher_for(version, request.context)?;
                chosen.get().open(request.associated, &sealed)
            }
        }
    }

    /// Decrypts and encrypts again under `version` (0 for the latest).
    ///
    /// # Errors
    /// As [`decrypt`](Self::decrypt) and [`encrypt`](Self::encrypt).
    pub fn rewrap(&self, request: &Decrypt<'_>, version: i64) -> Result<Encrypted> {
        let plaintext = self.decrypt(request)?;
        self.encrypt(&Encrypt {
            plaintext: &plaintext,
            context: request.context,
            associated: request.associated,
            version,
        })
    }

    fn seal(&self, version: &KeyVersionMaterial, request: &Encrypt<'_>) -> Result<Vec<u8>> {
        let (chosen, nonce_keys) = self.cipher_for(version, request.context)?;
        let cipher = chosen.get();
        let Some(nonce_keys) = nonce_keys else {
            return cipher.seal(request.associated, request.plaintext);
        };
        let nonce = nonce_keys.nonce(request.associated, request.plaintext);
        let nonce = &nonce.as_ref()[..cipher.nonce_bytes()];
        cipher.seal_with(nonce, request.associated, request.plaintext)
    }

    /// The cipher for a context, and for convergent keys what makes their nonces.
    fn cipher_for<'k>(
        &'k self,
        version: &'k KeyVersionMaterial,
        context: &[u8],
    ) -> Result<(Chosen<'k>, Option<NonceKeys>)> {
        let Some(kdf) = self.derivation.kdf() else {
            return Ok((Chosen::Own(version.cipher(self.kind)?), None));
        };
        let KeyFamily::Aead(key_bytes) = self.kind.family() else {
            return Err(Error::Damaged("a cipher of a key that is none"));
        };
        let own = version.material.derivation_key()?;
        let is_convergent = self.derivation == Derivation::Convergent;
        let nonce_keys_bytes = if is_convergent { convergent::KEYS_BYTES } else { 0 };
        let derived = derive_bytes(kdf, &own, context, key_bytes + nonce_keys_bytes)?;
        let (key, nonce_keys) = derived.split_at(key_bytes);
        let nonce_keys = is_convergent.then(|| NonceKeys::new(nonce_keys)).transpose()?;
        Ok((Chosen::Derived(KeyedCipher::new(self.kind, key)?), nonce_keys))
    }
}

fn refuse_associated(kind: KeyKind, associated: &[u8]) -> Result<()> {
    if associated.is_empty() {
        return Ok(());
    }
    let name = kind.name();
    Err(Error::invalid(format!("'associated_data' provided for non-AEAD cipher suite {name}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::key::KeySpec;
    use crate::key_change::KeyChange;
    use crate::settings::Kdf;

    const OLD_KEY: &str = "AQACAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAAAAQAAAAAAAAAAAAAAIAAAAKNeR7ivSuVlEvSr05KenofumWWGSAx1d+SafqM68wtkIAAiLCvgUN6/w5rgxF3CysjfybIlpoS7JB92wcWHoSZBjw==";
    const OLD_TEXT: &str = "vault:v1:4seSWc+Izjdgb9hthfFTq8aPK6LTAXd+T20YQ2olAoDP";
    const OLD_TEXT_WITH_DATA: &str = "vault:v1:4seSWc+Izjdgb9hthfFTq8bmePYkf7E65RnfEuRBq5v8";

    fn derived(kind: KeyKind, derivation: Derivation) -> TransitKey {
        TransitKey::make(kind, &KeySpec { derivation, ..KeySpec::default() }, 0).unwrap()
    }

    fn encrypt(key: &TransitKey, plaintext: &[u8], context: &[u8]) -> Result<String> {
        let request = Encrypt { plaintext, context, associated: b"", version: 0 };
        key.encrypt(&request).map(|encrypted| encrypted.text)
    }

    fn decrypt(key: &TransitKey, ciphertext: &str, context: &[u8]) -> Result<Vec<u8>> {
        key.decrypt(&Decrypt { ciphertext, context, associated: b"" }).map(|plain| plain.to_vec())
    }

    fn refusal<T>(result: Result<T>) -> String {
        result.err().expect("it is refused").to_string()
    }

    const AEADS: [KeyKind; 4] = [
        KeyKind::Aes128Gcm96,
        KeyKind::Aes256Gcm96,
        KeyKind::ChaCha20Poly1305,
        KeyKind::XChaCha20Poly1305,
    ];

    #[test]
    fn every_cipher_takes_back_what_it_gave_over_a_rotation() {
        for kind in AEADS.into_iter().chain([KeyKind::Rsa2048]) {
            let first = TransitKey::make(kind, &KeySpec::default(), 0).unwrap();
            let text = encrypt(&first, b"plain", b"").unwrap();
            assert!(text.starts_with("vault:v1:"), "{text}");
            let second = first.rotated(0).unwrap();
            assert_eq!(decrypt(&second, &text, b"").unwrap(), b"plain");
            assert_eq!(decrypt(&second, &text.replace("v1:", "v0:"), b"").unwrap(), b"plain");
            let request = Decrypt { ciphertext: &text, context: b"", associated: b"" };
            let rewrapped = second.rewrap(&request, 0).unwrap();
            assert_eq!(rewrapped.version, 2);
            assert_eq!(decrypt(&second, &rewrapped.text, b"").unwrap(), b"plain");
            assert!(decrypt(&first, &rewrapped.text, b"").is_err());
        }
    }

    #[test]
    fn a_context_is_a_key_of_its_own() {
        let kdfs = [Kdf::HkdfSha256, Kdf::HmacSha256Counter];
        for (kind, kdf) in AEADS.into_iter().flat_map(|kind| kdfs.map(|kdf| (kind, kdf))) {
            let key = derived(kind, Derivation::ByContext(kdf));
            let text = encrypt(&key, b"plain", b"a").unwrap();
            assert_ne!(text, encrypt(&key, b"plain", b"a").unwrap());
            assert_eq!(decrypt(&key, &text, b"a").unwrap(), b"plain");
            assert_eq!(
                refusal(decrypt(&key, &text, b"b")),
                "cipher: message authentication failed"
            );
            assert!(refusal(encrypt(&key, b"plain", b"")).starts_with("missing 'context'"));
        }
    }

    #[test]
    fn a_convergent_key_says_the_same_of_the_same() {
        for kind in AEADS {
            let key = derived(kind, Derivation::Convergent);
            let text = encrypt(&key, b"plain", b"a").unwrap();
            assert_eq!(text, encrypt(&key, b"plain", b"a").unwrap());
            assert_ne!(text, encrypt(&key, b"plaio", b"a").unwrap());
            assert_ne!(text, encrypt(&key, b"plain", b"b").unwrap());
            assert_eq!(decrypt(&key, &text, b"a").unwrap(), b"plain");
        }
    }

    /// Two tags under one nonce give away the key that authenticates.
    #[test]
    fn a_convergent_nonce_belongs_to_one_plaintext_and_its_associated_data() {
        let parts: [&[u8]; 6] = [b"", b"a", b"aa", b"a\0", b"\0\0\0\0\0\0\0\0a", b"b"];
        for kind in AEADS {
            let key = derived(kind, Derivation::Convergent);
            let mut nonces = BTreeSet::new();
            for (plaintext, associated) in parts.iter().flat_map(|p| parts.map(|a| (*p, a))) {
                let request = Encrypt { plaintext, context: b"c", associated, version: 0 };
                let text = key.encrypt(&request).unwrap().text;
                assert_eq!(text, key.encrypt(&request).unwrap().text);
                assert!(nonces.insert(nonce_of(kind, &text)), "{plaintext:?} {associated:?}");
                let request = Decrypt { ciphertext: &text, context: b"c", associated };
                assert_eq!(*key.decrypt(&request).unwrap(), plaintext);
                assert_eq!(key.rewrap(&request, 0).unwrap().text, text);
            }
        }
    }

    fn nonce_of(kind: KeyKind, text: &str) -> Vec<u8> {
        let sealed = base64::decode(text.rsplit(':').next().unwrap()).unwrap();
        sealed[..KeyedCipher::new(kind, &vec![0; key_bytes(kind)]).unwrap().nonce_bytes()].to_vec()
    }

    fn key_bytes(kind: KeyKind) -> usize {
        let KeyFamily::Aead(bytes) = kind.family() else { panic!("{} is no cipher", kind.name()) };
        bytes
    }

    /// Made by the release that took no notice of associated data in its nonces: what has none is
    /// still encrypted to the same text, and both open.
    #[test]
    fn convergent_texts_of_older_releases_open() {
        let key = TransitKey::decode(&base64::decode(OLD_KEY).unwrap()).unwrap();
        let open = |ciphertext, associated| {
            key.decrypt(&Decrypt { ciphertext, context: b"c", associated }).map(|p| p.to_vec())
        };
        assert_eq!(open(OLD_TEXT, b"").unwrap(), b"plain");
        assert_eq!(encrypt(&key, b"plain", b"c").unwrap(), OLD_TEXT);
        assert_eq!(open(OLD_TEXT_WITH_DATA, b"data").unwrap(), b"plain");
        assert!(open(OLD_TEXT_WITH_DATA, b"").is_err());
        let request =
            Decrypt { ciphertext: OLD_TEXT_WITH_DATA, context: b"c", associated: b"data" };
        let moved = key.rewrap(&request, 0).unwrap().text;
        assert_ne!(nonce_of(key.kind(), &moved), nonce_of(key.kind(), OLD_TEXT));
        assert_eq!(open(&moved, b"data").unwrap(), b"plain");
    }

    #[test]
    fn associated_data_belongs_to_the_ciphertext() {
        let key = TransitKey::make(KeyKind::Aes256Gcm96, &KeySpec::default(), 0).unwrap();
        let request = Encrypt { plaintext: b"x", context: b"", associated: b"aad", version: 0 };
        let text = key.encrypt(&request).unwrap().text;
        let open =
            |associated| key.decrypt(&Decrypt { ciphertext: &text, context: b"", associated });
        assert_eq!(*open(b"aad").unwrap(), b"x");
        assert!(open(b"").is_err());
        let rsa = TransitKey::make(KeyKind::Rsa2048, &KeySpec::default(), 0).unwrap();
        assert!(refusal(rsa.encrypt(&request)).contains("non-AEAD cipher suite rsa-2048"));
        assert!(refusal(encrypt(&rsa, &[0; 256], b"")).contains("message too long"));
    }

    #[test]
    fn versions_serve_as_they_are_allowed_to() {
        let key = TransitKey::make(KeyKind::Aes256Gcm96, &KeySpec::default(), 0).unwrap();
        let old = encrypt(&key, b"x", b"").unwrap();
        let key = key.rotated(0).unwrap().rotated(0).unwrap();
        let change = KeyChange {
            min_decryption_version: Some(2),
            min_encryption_version: Some(3),
            ..KeyChange::default()
        };
        let key = key.configured(&change).unwrap().0.unwrap();
        assert!(refusal(decrypt(&key, &old, b"")).contains("disallowed by policy (too old)"));
        assert!(refusal(decrypt(&key, "vault:v-1:aaaa", b"")).contains("too old"));
        assert!(refusal(decrypt(&key, "vault:v4:aaaa", b"")).contains("version is too new"));
        let at = |version| {
            let request = Encrypt { plaintext: b"x", context: b"", associated: b"", version };
            key.encrypt(&request)
        };
        assert_eq!(at(3).unwrap().version, 3);
        assert!(refusal(at(2)).contains("less than the minimum encryption key version"));
        assert!(refusal(at(4)).contains("higher than the latest key version"));
        assert!(refusal(at(i64::MAX)).contains("higher than the latest key version"));
        assert!(refusal(at(-1)).contains("negative"));
        assert!(refusal(encrypt(&key.set_aside(), b"x", b"")).contains("soft-deleted"));
    }

    #[test]
    fn keys_that_do_not_encrypt_say_so() {
        for kind in [KeyKind::Ed25519, KeyKind::EcdsaP256, KeyKind::Hmac] {
            let key = TransitKey::make(kind, &KeySpec::default(), 0).unwrap();
            assert!(refusal(encrypt(&key, b"x", b"")).contains("encryption not supported"));
            assert!(refusal(decrypt(&key, "vault:v1:", b"")).contains("decryption not supported"));
        }
    }
}
