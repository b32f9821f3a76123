//! `vault:vN:…`, the text of a ciphertext, a signature and an HMAC: which version made it, then what.

use std::fmt::Write;

use crate::error::{Error, Result};

/// What every such text starts with.
const LEAD: &str = "vault:v";
/// The longest start of such a text, in bytes: the lead, ten digits and a colon.
const START_BYTES_MAX: usize = LEAD.len() + 11;

/// What a text is, for the words of its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaggedSubject {
    Ciphertext,
    Signature,
    Hmac,
}

impl TaggedSubject {
    const fn name(self) -> &'static str {
        match self {
            Self::Ciphertext => "ciphertext",
            Self::Signature => "signature",
            Self::Hmac => "HMAC",
        }
    }

    fn refuse<T>(self, why: &str) -> Result<T> {
        Err(Error::invalid(format!("invalid {}: {why}", self.name())))
    }
}

/// A text taken apart. The version is as it was written: it may be one that no key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tagged<'a> {
    pub(crate) version: i64,
    pub(crate) payload: &'a str,
}

/// Takes a text apart.
pub(crate) fn parse(text: &str, subject: TaggedSubject) -> Result<Tagged<'_>> {
    let Some(rest) = text.strip_prefix(LEAD) else {
        return match subject {
            TaggedSubject::Hmac => Err(Error::invalid("invalid HMAC to verify: no prefix")),
            _ => subject.refuse("no prefix"),
        };
    };
    let Some((version, payload)) = rest.split_once(':') else {
        return subject.refuse("wrong number of fields");
    };
    match version.parse() {
        Ok(version) => Ok(Tagged { version, payload }),
        Err(_) => subject.refuse("version number could not be decoded"),
    }
}

/// The start of a text, with room for `payload_bytes` behind it.
pub(crate) fn start(version: u32, payload_bytes: usize) -> String {
    let mut text = String::with_capacity(START_BYTES_MAX + payload_bytes);
    write!(text, "{LEAD}{version}:").expect("writing to a string");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_started_is_parsed() {
        let text = start(u32::MAX, 4) + "a:b=";
        let parsed = parse(&text, TaggedSubject::Ciphertext).unwrap();
        assert_eq!(parsed, Tagged { version: i64::from(u32::MAX), payload: "a:b=" });
        assert!(text.len() <= START_BYTES_MAX + 4);
        assert_eq!(parse("vault:v-1:", TaggedSubject::Signature).unwrap().version, -1);
    }

    #[test]
    fn refusals_are_in_the_contracts_words() {
        for (text, subject, refusal) in [
            ("x", TaggedSubject::Ciphertext, "invalid ciphertext: no prefix"),
            ("", TaggedSubject::Signature, "invalid signature: no prefix"),
            ("vault:w1:", TaggedSubject::Hmac, "invalid HMAC to verify: no prefix"),
            ("vault:v1", TaggedSubject::Signature, "invalid signature: wrong number of fields"),
            ("vault:v1", TaggedSubject::Hmac, "invalid HMAC: wrong number of fields"),
            (
                "vault:v:aa",
                TaggedSubject::Ciphertext,
                "invalid ciphertext: version number could not be decoded",
            ),
            (
                "vault:v99999999999999999999:aa",
                TaggedSubject::Ciphertext,
                "invalid ciphertext: version number could not be decoded",
            ),
        ] {
            assert_eq!(parse(text, subject), Err(Error::invalid(refusal)), "{text}");
        }
    }
}
