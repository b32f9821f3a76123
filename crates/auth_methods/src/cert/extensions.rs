//! Extensions of a client certificate: what a role requires of them, and notes of them.
//!
//! An extension's value is DER. Where it is a string its text counts, and otherwise it is the empty text,
//! which only a pattern of `*` matches; `hex:` in front of a condition has the whole value in hexadecimal
//! instead.

use data_encoding::HEXLOWER;
use kallisto_engine::glob::matches_glob;
use x509_parser::prelude::X509Certificate;

/// Most extensions of a certificate that are looked at.
const EXTENSIONS_MAX: usize = 64;

/// An extension by its object identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extension {
    pub(super) oid: String,
    /// Its text; empty when it is no string.
    pub(super) text: String,
    hex: String,
}

/// The extensions of a certificate.
pub(super) fn of(certificate: &X509Certificate<'_>) -> Vec<Extension> {
    let extensions = certificate.extensions().iter().take(EXTENSIONS_MAX);
    let read = |it: &x509_parser::extensions::X509Extension<'_>| Extension {
        oid: it.oid.to_id_string(),
        text: text(it.value).unwrap_or_default(),
        hex: HEXLOWER.encode(it.value),
    };
    extensions.map(read).collect()
}

/// The text of a string in DER: UTF-8, numeric, printable, T.61 or IA5.
fn text(der: &[u8]) -> Option<String> {
    let (tag, rest) = der.split_first().filter(|(tag, _)| [12, 18, 19, 20, 22].contains(*tag))?;
    let (length, rest) = rest.split_first()?;
    let (length, value) = match length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let value = (value.len() == length).then_some(value)?;
    (*tag == 12 || value.is_ascii()).then_some(())?;
    String::from_utf8(value.to_vec()).ok()
}

/// What a role requires of one extension: `oid:pattern`, or `hex:oid:pattern`.
#[derive(Clone, Copy, Debug)]
struct ExtensionCondition<'c> {
    oid: &'c str,
    pattern: &'c str,
    is_hex: bool,
}

impl<'c> ExtensionCondition<'c> {
    fn parse(text: &'c str) -> Option<Self> {
        let (is_hex, rest) = text.strip_prefix("hex:").map_or((false, text), |rest| (true, rest));
        let (oid, pattern) = rest.split_once(':').filter(|(oid, _)| is_oid(oid))?;
        Some(Self { oid, pattern, is_hex })
    }

    fn holds(self, extensions: &[Extension]) -> bool {
        let fits = |it: &&Extension| it.oid == self.oid;
        extensions.iter().find(fits).is_some_and(|it| match self.is_hex {
            true => matches_glob(&self.pattern.to_ascii_lowercase(), &it.hex),
            false => matches_glob(self.pattern, &it.text),
        })
    }
}

/// Whether a text is an object identifier in its usual form: `1.2.840.113549`.
pub(super) fn is_oid(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    text.contains('.') && text.split('.').all(is_number)
}

/// Whether a text is a condition.
pub(super) fn is_condition(text: &str) -> bool {
    ExtensionCondition::parse(text).is_some()
}

/// Whether extensions are as every one of these conditions says; one that is none holds for nobody.
pub(super) fn hold(conditions: &[String], extensions: &[Extension]) -> bool {
    let holds =
        |text: &String| ExtensionCondition::parse(text).is_some_and(|it| it.holds(extensions));
    conditions.iter().all(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_read_and_everything_else_is_not() {
        assert_eq!(text(b"\x0c\x02hi").as_deref(), Some("hi"));
        assert_eq!(text(b"\x13\x81\x02hi").as_deref(), Some("hi"));
        assert_eq!(text(b"\x16\x82\x00\x02hi").as_deref(), Some("hi"));
        for bad in
            [&b""[..], b"\x0c", b"\x0c\x03hi", b"\x0c\x01hi", b"\x02\x01\x05", b"\x13\x01\xff"]
        {
            assert_eq!(text(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn every_condition_has_to_hold() {
        let own = |oid: &str, text: &str, hex: &str| Extension {
            oid: oid.into(),
            text: text.into(),
            hex: hex.into(),
        };
        let found = [own("1.2.3", "team-a", "0c067465616d2d61"), own("2.5.29.15", "", "030205a0")];
        let held = |texts: &[&str]| {
            hold(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), &found)
        };
        assert!(held(&[]) && held(&["1.2.3:team-*", "2.5.29.15:*", "hex:2.5.29.15:030205A0"]));
        for bad in [
            "1.2.3:team-b",
            "1.2.4:*",
            "2.5.29.15:x",
            "hex:1.2.3:team-a",
            "bogus",
            "1.2.3",
            "hex:1.2.3",
        ] {
            assert!(!held(&["1.2.3:team-a", bad]), "{bad}");
        }
        assert!(is_condition("1.2.3:a:b") && !is_condition("1..3:a") && !is_condition("x:a"));
    }
}
