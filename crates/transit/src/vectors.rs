//! Published vectors, where the binding to a primitive could go wrong: which bytes are the nonce,
//! what a context is to HKDF, how a digest meets a curve. The primitives themselves are tested
//! where they are made.

use zeroize::Zeroizing;

use crate::base64;
use crate::cipher::KeyedCipher;
use crate::derive::derive_bytes;
use crate::ecdsa::Ecdsa;
use crate::ed25519::Ed25519;
use crate::encrypt::{Decrypt, Encrypt};
use crate::hash::HashAlgorithm;
use crate::key::{KeySpec, TransitKey};
use crate::kind::KeyKind;
use crate::settings::{Derivation, Kdf, KeyOrigin};
use crate::sign::Marshaling;

/// A backup that OpenBao 2.7.2 made of a derived key that was imported there, and what it encrypted with it.
const IMPORTED_BACKUP: &str = include_str!("../tests/golden/openbao-2.7.2-imported-derived.json");
const IMPORTED_TEXT: &str = "vault:v1:pUXftoCPS3X4BwxTo4swB+4rdXp5SW3rMIqNQNBbJE07";

/// The bytes of a string of hexadecimal digits.
fn hex(text: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(text.as_bytes()).expect("hexadecimal digits")
}

fn opens(kind: KeyKind, key: &str, nonce: &str, associated: &str, plain: &str, sealed: &str) {
    let cipher = KeyedCipher::new(kind, &hex(key)).unwrap();
    let whole = [hex(nonce), hex(sealed)].concat();
    assert_eq!(*cipher.open(&hex(associated), &whole).unwrap(), hex(plain));
    assert_eq!(cipher.seal_with(&hex(nonce), &hex(associated), &hex(plain)).unwrap(), whole);
}

/// McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 4 and 16.
#[test]
fn aes_gcm_of_its_authors() {
    const PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c9595\
                         6809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    const ASSOCIATED: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
    const NONCE: &str = "cafebabefacedbaddecaf888";
    opens(
        KeyKind::Aes128Gcm96,
        "feffe9928665731c6d6a8f9467308308",
        NONCE,
        ASSOCIATED,
        PLAIN,
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac\
         84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47",
    );
    opens(
        KeyKind::Aes256Gcm96,
        "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        NONCE,
        ASSOCIATED,
        PLAIN,
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056\
         828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
    );
}

/// RFC 8439, section 2.8.2.
#[test]
fn chacha20_poly1305_of_its_rfc() {
    let plain = data_encoding::HEXLOWER.encode(
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the \
          future, sunscreen would be it.",
    );
    opens(
        KeyKind::ChaCha20Poly1305,
        "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        "070000004041424344454647",
        "50515253c0c1c2c3c4c5c6c7",
        &plain,
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da\
         92728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585\
         808b4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691",
    );
}

/// RFC 5869, test case 3 has no salt and no info; a context is never empty here, so the vector is
/// test case 1's expansion checked against the definition: T(1) = HMAC(PRK, info | 1).
#[test]
fn hkdf_has_no_salt_and_takes_the_context_as_info() {
    use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
    let (key, context) = (hex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"), b"context");
    let extracted = sign(&Key::new(HMAC_SHA256, &[0; 32]), &key);
    assert_eq!(
        extracted.as_ref(),
        hex("19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04"),
        "the PRK of test case 3"
    );
    let expand = Key::new(HMAC_SHA256, extracted.as_ref());
    let first = sign(&expand, &[&context[..], &[1]].concat());
    let second = sign(&expand, &[first.as_ref(), context, &[2]].concat());
    let expected = [first.as_ref(), second.as_ref()].concat();
    assert_eq!(*derive_bytes(Kdf::HkdfSha256, &key, context, 64).unwrap(), expected);
    assert_eq!(*derive_bytes(Kdf::HkdfSha256, &key, context, 16).unwrap(), expected[..16]);
}

/// What OpenBao 2.7.2 encrypted with derived keys that were imported there: the bytes 0, 1, 2 and so on. (It cannot decrypt the first of them
/// itself, since it looks for a derived key of 16 bytes and has one of 32; it encrypts with the first 16.)
#[test]
fn imported_derived_keys_open_what_openbao_encrypted() {
    for (kind, bytes, text) in [
        (KeyKind::Aes128Gcm96, 16, "vault:v1:mpAoS3c3cpqJzBCHUtvwIpC2A/6kGrJfj7sfh8DU349b"),
        (KeyKind::Aes256Gcm96, 32, "vault:v1:zn1oueRIZFqX8aQnvliycEdedto4fUlgJ3co3nIyiOfx"),
        (KeyKind::ChaCha20Poly1305, 32, "vault:v1:pzRk/5+Xk2OlMSGhwaru3Dnz1ofVXICFS1xl1SjRQFhu"),
        (
            KeyKind::XChaCha20Poly1305,
            32,
            "vault:v1:DFzKID5X84+mGZp7oJH1s8mMQnyrPJo8B0BM70p9ppwXh0abS4iJmzgHwDZz",
        ),
    ] {
        let material: Vec<u8> = (0..bytes).collect();
        let imported = |kdf| {
            let derivation = Derivation::ByContext(kdf);
            let spec = KeySpec { derivation, ..KeySpec::default() };
            TransitKey::import(kind, &spec, KeyOrigin::Imported, &material, 0).unwrap()
        };
        let request = Decrypt { ciphertext: text, context: b"context", associated: b"" };
        let opened = imported(Kdf::HmacSha256Counter).decrypt(&request);
        assert_eq!(*opened.unwrap(), b"plain", "{}", kind.name());
        assert!(imported(Kdf::HkdfSha256).decrypt(&request).is_err(), "{}", kind.name());
    }
}

#[test]
fn a_backup_of_an_imported_derived_key_comes_from_openbao_and_goes_back() {
    let backup = base64::encode(IMPORTED_BACKUP.as_bytes());
    let key = TransitKey::restore(&backup, 0).unwrap().key;
    assert_eq!(key.derivation(), Derivation::ByContext(Kdf::HmacSha256Counter));
    let request = Decrypt { ciphertext: IMPORTED_TEXT, context: b"context", associated: b"" };
    // The record and a backup of ours keep how it derives.
    let stored = TransitKey::decode(&key.encode().unwrap()).unwrap();
    let backup = stored.backup("backed", 0).unwrap().1;
    let again = TransitKey::restore(&backup, 0).unwrap().key;
    for key in [key, stored, again] {
        assert_eq!(*key.decrypt(&request).unwrap(), b"plain");
        let plain = Encrypt { plaintext: b"x", context: b"context", associated: b"", version: 0 };
        let text = key.encrypt(&plain).unwrap().text;
        let request = Decrypt { ciphertext: &text, ..request };
        assert_eq!(*key.decrypt(&request).unwrap(), b"x");
    }
    let written = String::from_utf8(base64::decode(&backup).unwrap()).unwrap();
    assert!(written.contains(r#""derived":true,"kdf":0"#), "{written}");
}

/// RFC 8032, section 7.1, test 3.
#[test]
fn ed25519_of_its_rfc() {
    let seed = hex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");
    let pair = Ed25519::from_seed(&seed).unwrap();
    let public = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
    assert_eq!(pair.public(), hex(public));
    let signature = "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16\
                     f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";
    assert_eq!(pair.sign(&hex("af82")), hex(signature));
    assert!(pair.verifies(&hex("af82"), &hex(signature)));
}

/// RFC 6979, A.2.5: signatures over "sample" under one P-256 key with every hash, which the library
/// alone takes for SHA-256 only. They are deterministic there and random here, so they are verified.
#[test]
fn p256_verifies_signatures_over_digests_of_every_length() {
    let scalar = hex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
    let x = hex("60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6");
    let y = hex("7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299");
    let pair = Ecdsa::from_parts(KeyKind::EcdsaP256, &scalar, &x, &y).unwrap();
    assert_eq!(pair.scalar().unwrap(), Zeroizing::new(scalar));
    assert_eq!(pair.coordinates(), (&x[..], &y[..]));
    for (name, r, s) in [
        (
            "sha1",
            "61340c88c3aaebeb4f6d667f672ca9759a6ccaa9fa8811313039ee4a35471d32",
            "6d7f147dac089441bb2e2fe8f7a3fa264b9c475098fdcf6e00d7c996e1b8b7eb",
        ),
        (
            "sha2-224",
            "53b2fff5d1752b2c689df257c04c40a587fababb3f6fc2702f1343af7ca9aa3f",
            "b9afb64fdc03dc1a131c7d2386d11e349f070aa432a4acc918bea988bf75c74c",
        ),
        (
            "sha2-256",
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ),
        (
            "sha2-384",
            "0eafea039b20e9b42309fb1d89e213057cbf973dc0cfc8f129edddc800ef7719",
            "4861f0491e6998b9455193e34e7b0d284ddd7149a74b95b9261f13abde940954",
        ),
        (
            "sha2-512",
            "8496a60b5e9b47c825488827e0495b0e3fa109ec4568fd3f8d1097678eb97f00",
            "2362ab1adbe2b8adf9cb9edab740ea6049c028114f2460f96554f61fae3302fe",
        ),
    ] {
        let digest = HashAlgorithm::named(name).unwrap().digest(b"sample");
        let signature = [hex(r), hex(s)].concat();
        assert!(pair.verifies(&digest, &signature, Marshaling::Jws).unwrap(), "{name}");
        let other = HashAlgorithm::named(name).unwrap().digest(b"test");
        assert!(!pair.verifies(&other, &signature, Marshaling::Jws).unwrap(), "{name}");
    }
}
