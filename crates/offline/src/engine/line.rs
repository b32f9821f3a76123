//! One line of a command file: bytes in, a command or what is wrong with it out. Pure.
//!
//! ```text
//! line    := [command] ["\r"]
//! command := PUT key blank value | GET key | DEL key | SCAN key key
//! ```
//!
//! Names of commands may be short (P, G, D, S) and in any case. A blank is a space or a tab; any
//! number of them stands before a key, exactly one between the key and the value, which is the rest
//! of the line with every further blank in it, and may be empty. A line of blanks says nothing.

use std::fmt;

use kallisto_lsm::limits::VALUE_BYTES_MAX;

use super::keys::{EngineKey, KeyFormat};

/// What a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineCommand<'a> {
    /// Set a key.
    Put {
        /// Which.
        key: EngineKey<'a>,
        /// To what.
        value: &'a [u8],
    },
    /// Read a key.
    Get {
        /// Which.
        key: EngineKey<'a>,
    },
    /// Remove a key.
    Delete {
        /// Which.
        key: EngineKey<'a>,
    },
    /// Read the keys of a range, both ends included.
    Scan {
        /// The lowest.
        from: EngineKey<'a>,
        /// The highest.
        to: EngineKey<'a>,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineLineError {
    /// The first word is no command.
    UnknownCommand,
    /// A put without a key.
    PutNeedsKey,
    /// A put without a blank behind its key.
    PutNeedsValue,
    /// A get without a key, or with more.
    GetNeedsOneKey,
    /// A delete without a key, or with more.
    DeleteNeedsOneKey,
    /// A scan with fewer than two keys, or more.
    ScanNeedsTwoKeys,
    /// `--keys u64` and something other than digits.
    KeyIsNoNumber,
    /// `--keys u64` and a number that needs more than 64 bits.
    KeyNumberTooLarge,
    /// Longer than the engine takes.
    KeyTooLong,
    /// Longer than the engine takes.
    ValueTooLong,
    /// Longer than any command can be.
    LineTooLong,
}

impl fmt::Display for EngineLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownCommand => {
                "unknown command; it must be PUT, GET, DEL or SCAN, or P, G, D or S"
            }
            Self::PutNeedsKey => "PUT needs a key and a value",
            Self::PutNeedsValue => {
                "PUT needs a value behind its key (end the line with a space to put an empty one)"
            }
            Self::GetNeedsOneKey => "GET takes one key",
            Self::DeleteNeedsOneKey => "DEL takes one key",
            Self::ScanNeedsTwoKeys => "SCAN takes two keys, the first and the last",
            Self::KeyIsNoNumber => "the key is not a decimal number, and --keys is u64",
            Self::KeyNumberTooLarge => "the key is larger than 18446744073709551615",
            Self::KeyTooLong => "the key is longer than 64 KiB",
            Self::ValueTooLong => "the value is longer than 64 MiB",
            Self::LineTooLong => "the line is longer than the longest key and value",
        })
    }
}

/// Reads a line without its line feed; `None` if it holds only blanks.
pub(super) fn parse(
    line: &[u8],
    keys: KeyFormat,
) -> Result<Option<EngineCommand<'_>>, EngineLineError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (name, rest) = word(line);
    if name.is_empty() {
        return Ok(None);
    }
    let named =
        |long: &[u8]| name.eq_ignore_ascii_case(long) || name.eq_ignore_ascii_case(&long[..1]);
    if named(b"PUT") {
        put(rest, keys)
    } else if named(b"GET") {
        one_key(rest, keys, EngineLineError::GetNeedsOneKey).map(|key| EngineCommand::Get { key })
    } else if named(b"DEL") {
        one_key(rest, keys, EngineLineError::DeleteNeedsOneKey)
            .map(|key| EngineCommand::Delete { key })
    } else if named(b"SCAN") {
        scan(rest, keys)
    } else {
        Err(EngineLineError::UnknownCommand)
    }
    .map(Some)
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The first word and what follows it, the blank behind it included.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let text = &text[start..];
    text.split_at(text.iter().position(is_blank).unwrap_or(text.len()))
}

fn put(rest: &[u8], keys: KeyFormat) -> Result<EngineCommand<'_>, EngineLineError> {
    let (key, rest) = word(rest);
    if key.is_empty() {
        return Err(EngineLineError::PutNeedsKey);
    }
    let (_, value) = rest.split_first().ok_or(EngineLineError::PutNeedsValue)?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(EngineLineError::ValueTooLong);
    }
    Ok(EngineCommand::Put { key: keys.encode(key)?, value })
}

fn one_key(
    rest: &[u8],
    keys: KeyFormat,
    wrong: EngineLineError,
) -> Result<EngineKey<'_>, EngineLineError> {
    let (key, rest) = word(rest);
    let (more, _) = word(rest);
    if key.is_empty() || !more.is_empty() {
        return Err(wrong);
    }
    keys.encode(key)
}

fn scan(rest: &[u8], keys: KeyFormat) -> Result<EngineCommand<'_>, EngineLineError> {
    let (from, rest) = word(rest);
    let to = one_key(rest, keys, EngineLineError::ScanNeedsTwoKeys)?;
    Ok(EngineCommand::Scan { from: keys.encode(from)?, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(line: &str) -> Result<Option<EngineCommand<'_>>, EngineLineError> {
        parse(line.as_bytes(), KeyFormat::Bytes)
    }

    fn put(
        key: &'static str,
        value: &'static str,
    ) -> Result<Option<EngineCommand<'static>>, EngineLineError> {
        Ok(Some(EngineCommand::Put {
            key: EngineKey::Bytes(key.as_bytes()),
            value: value.as_bytes(),
        }))
    }

    #[test]
    fn names_are_long_or_short_in_any_case() {
        let key = EngineKey::Bytes(b"k");
        for name in ["PUT", "P", "put", "p", "Put"] {
            assert_eq!(bytes(&format!("{name} k v")), put("k", "v"), "{name}");
        }
        for name in ["GET", "G", "get", "g", "gEt"] {
            assert_eq!(bytes(&format!("{name} k")), Ok(Some(EngineCommand::Get { key })), "{name}");
        }
        for name in ["DEL", "D", "del", "d"] {
            assert_eq!(
                bytes(&format!("{name} k")),
                Ok(Some(EngineCommand::Delete { key })),
                "{name}"
            );
        }
        for name in ["SCAN", "S", "scan", "s"] {
            let wanted = EngineCommand::Scan { from: key, to: EngineKey::Bytes(b"m") };
            assert_eq!(bytes(&format!("{name} k m")), Ok(Some(wanted)), "{name}");
        }
    }

    #[test]
    fn a_value_is_the_rest_of_the_line() {
        assert_eq!(bytes("PUT k a b  c "), put("k", "a b  c "));
        assert_eq!(bytes("PUT k  a"), put("k", " a"));
        assert_eq!(bytes("PUT\tk\tv"), put("k", "v"));
        assert_eq!(bytes("  PUT   k v"), put("k", "v"));
        assert_eq!(bytes("PUT k "), put("k", ""));
        assert_eq!(bytes("PUT k v\r"), put("k", "v"));
        assert_eq!(bytes("PUT k \r"), put("k", ""));
    }

    #[test]
    fn bytes_need_not_be_text() {
        let command = parse(b"P \xff\x00 \x80\xfe", KeyFormat::Bytes).unwrap().unwrap();
        assert_eq!(
            command,
            EngineCommand::Put { key: EngineKey::Bytes(b"\xff\x00"), value: b"\x80\xfe" }
        );
    }

    #[test]
    fn lines_of_blanks_say_nothing() {
        for line in ["", " ", "\t \t", "\r", " \r"] {
            assert_eq!(bytes(line), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn blanks_behind_a_key_are_no_further_key() {
        assert_eq!(bytes("GET k  "), bytes("GET k"));
        assert_eq!(bytes("SCAN a  b\t\r"), bytes("SCAN a b"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, wrong) in [
            ("PUSH k v", EngineLineError::UnknownCommand),
            ("# note", EngineLineError::UnknownCommand),
            ("PUTk v", EngineLineError::UnknownCommand),
            ("PU k v", EngineLineError::UnknownCommand),
            ("PUT", EngineLineError::PutNeedsKey),
            ("PUT ", EngineLineError::PutNeedsKey),
            ("PUT k", EngineLineError::PutNeedsValue),
            ("PUT k\r", EngineLineError::PutNeedsValue),
            ("GET", EngineLineError::GetNeedsOneKey),
            ("GET a b", EngineLineError::GetNeedsOneKey),
            ("DEL", EngineLineError::DeleteNeedsOneKey),
            ("DEL a b", EngineLineError::DeleteNeedsOneKey),
            ("SCAN", EngineLineError::ScanNeedsTwoKeys),
            ("SCAN a", EngineLineError::ScanNeedsTwoKeys),
            ("SCAN a b c", EngineLineError::ScanNeedsTwoKeys),
        ] {
            assert_eq!(bytes(line), Err(wrong), "{line}");
        }
    }

    #[test]
    fn number_keys_are_checked_wherever_a_key_stands() {
        let number = EngineKey::Number(10u64.to_be_bytes());
        let numbers = |line: &'static str| parse(line.as_bytes(), KeyFormat::U64);
        assert_eq!(numbers("PUT 10 v"), Ok(Some(EngineCommand::Put { key: number, value: b"v" })));
        assert_eq!(numbers("S 10 10"), Ok(Some(EngineCommand::Scan { from: number, to: number })));
        for line in ["PUT x v", "GET x", "DEL -1", "SCAN x 1", "SCAN 1 x"] {
            assert_eq!(numbers(line), Err(EngineLineError::KeyIsNoNumber), "{line}");
        }
    }

    #[test]
    fn values_are_as_long_as_the_engine_takes() {
        let mut line = b"P k ".to_vec();
        line.resize(line.len() + VALUE_BYTES_MAX, b'v');
        assert!(parse(&line, KeyFormat::Bytes).is_ok());
        line.push(b'v');
        assert_eq!(parse(&line, KeyFormat::Bytes), Err(EngineLineError::ValueTooLong));
    }

    #[test]
    fn messages_are_one_line_and_end_without_a_full_stop() {
        for wrong in [
            EngineLineError::UnknownCommand,
            EngineLineError::PutNeedsValue,
            EngineLineError::LineTooLong,
        ] {
            let text = wrong.to_string();
            assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
        }
    }
}
