//! The few structures of DER that RSA keys and public keys are in, read and written by the `der` crate; and PEM around any of it.
//!
//! What does not fit is `None`: other forms than those of DER (X.690, 10 and 11) are refused.

use der::asn1::{AnyRef, BitStringRef, OctetStringRef, UintRef};
use der::{Decode as _, Encode as _, Reader as _, Sequence, SliceReader, Tag, Tagged as _};
use pem::{EncodeConfig, LineEnding, Pem};
use zeroize::Zeroizing;

/// Most integers in a sequence: a private RSA key has nine.
const INTEGERS_MAX: usize = 9;

/// A SubjectPublicKeyInfo (RFC 5280, 4.1), whose algorithm is kept as it is written.
#[derive(Sequence)]
struct PublicKeyInfo<'a> {
    algorithm: AnyRef<'a>,
    key: BitStringRef<'a>,
}

/// The private key inside a PKCS#8 document (RFC 5958, 2): version, algorithm, octet string, and what else may follow.
pub(crate) fn pkcs8_private_key(document: &[u8]) -> Option<&[u8]> {
    let inside = sequence(document)?;
    let mut inside = SliceReader::new(inside).ok()?;
    let _version: UintRef<'_> = inside.decode().ok()?;
    let algorithm: AnyRef<'_> = inside.decode().ok()?;
    let key: &OctetStringRef = inside.decode().ok()?;
    (algorithm.tag() == Tag::Sequence).then(|| key.as_bytes())
}

/// The content of a sequence that is all of `document`.
fn sequence(document: &[u8]) -> Option<&[u8]> {
    let all = AnyRef::from_der(document).ok()?;
    (all.tag() == Tag::Sequence).then(|| all.value())
}

/// The algorithm and the key of a SubjectPublicKeyInfo, which is all of `document`.
pub(crate) fn public_key_info(document: &[u8]) -> Option<(&[u8], &[u8])> {
    let PublicKeyInfo { algorithm, key } = PublicKeyInfo::from_der(document).ok()?;
    let is_sequence = algorithm.tag() == Tag::Sequence;
    // Whole bytes: no bit of the last one is unused.
    is_sequence.then_some((algorithm.value(), key.as_bytes()?))
}

/// The SubjectPublicKeyInfo of an algorithm and a key.
pub(crate) fn make_public_key_info(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let made = AnyRef::new(Tag::Sequence, algorithm).and_then(|algorithm| {
        PublicKeyInfo { algorithm, key: BitStringRef::from_bytes(key)? }.to_der()
    });
    made.expect(SHORT)
}

/// Why nothing that is written here is refused: what is held to a limit before is below that of the crate.
const SHORT: &str = "keys have less than 256 MiB";

/// A sequence of these numbers, big-endian and not negative.
pub(crate) fn make_integers(numbers: &[&[u8]]) -> Vec<u8> {
    let integer = |number: &&[u8]| UintRef::new(number).and_then(|number| number.to_der());
    let inside =
        numbers.iter().map(integer).collect::<der::Result<Vec<_>>>().expect(SHORT).concat();
    AnyRef::new(Tag::Sequence, &inside).and_then(|all| all.to_der()).expect(SHORT)
}

/// The bytes of the first PEM block of a text, whatever its label says.
pub(crate) fn from_pem(text: &str) -> Option<Vec<u8>> {
    pem::parse(text).ok().map(Pem::into_contents).filter(|bytes| !bytes.is_empty())
}

/// The integers of a sequence of nothing else, big-endian without leading zeros.
pub(crate) fn integers(document: &[u8]) -> Option<Vec<&[u8]>> {
    let mut inside = SliceReader::new(sequence(document)?).ok()?;
    let mut all = Vec::with_capacity(INTEGERS_MAX);
    while !inside.is_finished() {
        if all.len() == INTEGERS_MAX {
            return None;
        }
        let number: UintRef<'_> = inside.decode().ok()?;
        all.push(number.as_bytes());
    }
    Some(all)
}

/// A PEM block of these bytes, with a line break at its end.
pub(crate) fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    Zeroizing::new(pem::encode_config(&Pem::new(label, der), config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_of_integers_are_taken_apart_and_nothing_else_is() {
        let sequence = [0x30, 8, 2, 1, 0, 2, 3, 0, 0xff, 7];
        assert_eq!(integers(&sequence), Some(vec![&[0][..], &[0xff, 7]]));
        assert_eq!(integers(&[0x30, 4, 2, 2, 0, 7]), None, "a zero too many");
        assert_eq!(integers(&[0x30, 3, 2, 1, 0xff]), None, "below zero");
        for length in 0..sequence.len() {
            assert_eq!(integers(&sequence[..length]), None);
        }
        assert_eq!(integers(&[0x30, 3, 4, 1, 0]), None);
        assert_eq!(integers(&[0x30, 0x84, 0, 0, 0, 0]), None);
        let many = [&[0x30, 30][..], &[2, 1, 1].repeat(10)].concat();
        assert_eq!(integers(&many), None);
        let long = [&[0x30, 0x82, 1, 4, 2, 0x82, 1, 0][..], &[9; 256]].concat();
        assert_eq!(integers(&long), Some(vec![&[9; 256][..]]));
        assert_eq!(pkcs8_private_key(&[0x30, 9, 2, 1, 0, 0x30, 0, 4, 2, 5, 6]), Some(&[5, 6][..]));
    }

    #[test]
    fn what_is_made_is_taken_apart_again() {
        for length in [1, 127, 128, 255, 256, 1000] {
            let number = vec![0x80; length];
            let sequence = make_integers(&[&number, &[1]]);
            assert_eq!(integers(&sequence), Some(vec![&number[..], &[1]]));
            let info = make_public_key_info(b"ab", &number);
            assert_eq!(public_key_info(&info), Some((&b"ab"[..], &number[..])));
            assert_eq!(public_key_info(&[&info[..], &[0]].concat()), None);
            let text = format!("x\n{}y", &*pem("ANY LABEL", &info));
            assert_eq!(from_pem(&text), Some(info));
        }
        for text in [
            "",
            "-----BEGIN A-----\nAAAA",
            "-----BEGIN A-----\nAAAA\n-----END B-----",
            "-----BEGIN A-----\n-----END A-----",
        ] {
            assert_eq!(from_pem(text), None, "{text}");
        }
    }

    #[test]
    fn pem_has_lines_of_64() {
        let text = pem("PUBLIC KEY", &[0; 60]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "-----BEGIN PUBLIC KEY-----");
        assert_eq!((lines[1].len(), lines[2].len()), (64, 16));
        assert_eq!(lines[3], "-----END PUBLIC KEY-----");
        assert!(text.ends_with("-----\n"));
    }
}
