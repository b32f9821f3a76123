//! OpenPGP public keys, as operators hand them over to have shares encrypted: in binary form or in armor.

use kallisto_openpgp::{Recipient, TEXT_BYTES_MAX, armor, is_private};

/// What keys are made of: packets, subpackets, curves.
pub(super) const WORDS: &[&[u8]] = &[
    b"\x98\x33\x04",
    b"\x99\x01\x0d\x04",
    b"\xb4\x05aaaaa",
    b"\x88\x75\x04\x13\x16\x08\x00\x1d",
    b"\x04\x20",
    b"\x05\x02\x65\x00\x00\x00",
    b"\x02\x1b\x0c",
    b"\x16\x09\x2b\x06\x01\x04\x01\xda\x47\x0f\x01\x01\x07\x40",
    b"\x12\x0a\x2b\x06\x01\x04\x01\x97\x55\x01\x05\x01",
    b"\x13\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
    b"\xff\xff\xff\xff",
    b"\xe0",
    b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n",
    b"-----END PGP PUBLIC KEY BLOCK-----\n",
    b"-----BEGIN PGP PRIVATE KEY BLOCK-----",
];

/// A time at which the keys of the corpus are good, in seconds since 1970.
const NOW: u64 = 1_900_000_000;

/// A key is refused, or a text is encrypted to it; never is a private one taken, and a longer text than there may be is refused.
pub(super) fn run(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && armor::is_armored(text)
        && let Ok(key) = armor::decode(text)
    {
        assert!(!key.is_empty(), "an empty key is one without encryption");
        take(&key);
    }
    take(bytes);
}

fn take(key: &[u8]) {
    let Ok(recipient) = Recipient::parse(key, NOW) else { return };
    assert!(!is_private(key), "a private key was taken");
    assert_eq!(recipient.fingerprint().len(), 40, "SHA-1 in hexadecimal digits");
    let message = recipient.encrypt(b"share").expect("it was tried when the key was taken");
    assert!(!message.windows(5).any(|part| part == b"share"), "in the clear");
    assert!(recipient.encrypt(&[0; TEXT_BYTES_MAX + 1]).is_err(), "too long");
    // What is signed is the whole of it: the same key again is the same.
    let again = Recipient::parse(key, NOW).expect("the same bytes");
    assert_eq!(again.fingerprint(), recipient.fingerprint());
}
