//! As much of DER as is needed to take an RSA key apart that the library wrote (a sequence of integers, inside the octet
//! string of a PKCS#8 document), and public keys that others did. And PEM around any of it.
//!
//! Decoding is total: what does not fit is `None`. Lengths are of the definite form (X.690, 10.1).

use data_encoding::BASE64;
use zeroize::Zeroizing;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// Characters of base64 in a line of PEM (RFC 7468, 2).
const PEM_LINE: usize = 64;
/// Most integers in a sequence: a private RSA key has nine.
const INTEGERS_MAX: usize = 9;

/// The element at the start of `bytes`: its tag, its content, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// The content of the element at the start of `bytes`, which must have this tag, and what follows.
fn tagged(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(tag, ..)| *tag == wanted).map(|(_, content, rest)| (content, rest))
}

/// The private key inside a PKCS#8 document (RFC 5208, 5): version, algorithm, octet string.
pub(crate) fn pkcs8_private_key(document: &[u8]) -> Option<&[u8]> {
    let (inside, _) = tagged(document, SEQUENCE)?;
    let (_version, rest) = tagged(inside, INTEGER)?;
    let (_algorithm, rest) = tagged(rest, SEQUENCE)?;
    tagged(rest, OCTET_STRING).map(|(key, _)| key)
}

/// The algorithm and the key of a SubjectPublicKeyInfo (RFC 5280, 4.1), which is all of `document`.
pub(crate) fn public_key_info(document: &[u8]) -> Option<(&[u8], &[u8])> {
    let (inside, []) = tagged(document, SEQUENCE)? else { return None };
    let (algorithm, rest) = tagged(inside, SEQUENCE)?;
    let (bits, []) = tagged(rest, BIT_STRING)? else { return None };
    // Whole bytes: no bit of the last one is unused.
    Some((algorithm, bits.strip_prefix(&[0])?))
}

/// The SubjectPublicKeyInfo of an algorithm and a key.
pub(crate) fn make_public_key_info(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let key = [&[0], key].concat();
    make(SEQUENCE, &[make(SEQUENCE, algorithm), make(BIT_STRING, &key)].concat())
}

/// A sequence of these numbers, big-endian and not negative.
pub(crate) fn make_integers(numbers: &[&[u8]]) -> Vec<u8> {
    let integer = |number: &&[u8]| {
        let is_high = number.first().is_none_or(|byte| byte & 0x80 != 0);
        make(INTEGER, &[if is_high { &[0][..] } else { &[] }, number].concat())
    };
    make(SEQUENCE, &numbers.iter().flat_map(integer).collect::<Vec<_>>())
}

/// An element. What is written here is held to its limits before.
fn make(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("public keys have less than 64 KiB");
    let [high, low] = length.to_be_bytes();
    let head = match length {
        0..=0x7f => vec![tag, low],
        0x80..=0xff => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head, content].concat()
}

/// The bytes of the first PEM block of a text, whatever its label says.
pub(crate) fn from_pem(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (encoded, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let encoded: String = encoded.chars().filter(|char| !char.is_ascii_whitespace()).collect();
    BASE64.decode(encoded.as_bytes()).ok().filter(|bytes| !bytes.is_empty())
}

/// The integers of a sequence of nothing else, big-endian without leading zeros.
pub(crate) fn integers(sequence: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut inside, _) = tagged(sequence, SEQUENCE)?;
    let mut all = Vec::with_capacity(INTEGERS_MAX);
    while !inside.is_empty() {
        if all.len() == INTEGERS_MAX {
            return None;
        }
        let (number, rest) = tagged(inside, INTEGER)?;
        all.push(&number[number.iter().take_while(|byte| **byte == 0).count()..]);
        inside = rest;
    }
    Some(all)
}

/// A PEM block of these bytes, with a line break at its end.
pub(crate) fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let encoded = Zeroizing::new(BASE64.encode(der));
    let mut text = Zeroizing::new(String::with_capacity(encoded.len() * 66 / 64 + 128));
    for part in ["-----BEGIN ", label, "-----\n"] {
        text.push_str(part);
    }
    for line in encoded.as_bytes().chunks(PEM_LINE) {
        text.extend(line.iter().copied().map(char::from));
        text.push('\n');
    }
    for part in ["-----END ", label, "-----\n"] {
        text.push_str(part);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_of_integers_are_taken_apart_and_nothing_else_is() {
        let sequence = [0x30, 8, 2, 1, 0, 2, 3, 0, 0xff, 7];
        assert_eq!(integers(&sequence), Some(vec![&[][..], &[0xff, 7]]));
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
        for length in [0, 1, 127, 128, 255, 256, 1000] {
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
