//! Text as both languages have it: what a file may be made of, and quoted strings.

use crate::cursor::TextCursor;
use crate::limits::BYTES_MAX;
use crate::{Error, TextPosition};

/// Which escapes a string may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextDialect {
    /// Those of HCL: also `\a`, `\v`, `\x41`, `\u00e9` and `\U0001F600`.
    Hcl,
    /// Those of JSON: also `\/` and pairs of surrogates.
    Json,
}

/// The text of a file, without a byte order mark.
pub(crate) fn checked(bytes: &[u8]) -> Result<&str, Error> {
    let start = TextPosition { line: 1, column: 1 };
    if bytes.len() > BYTES_MAX {
        return Err(Error { at: start, what: "the file is too long" });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        let mut cursor = TextCursor::new(std::str::from_utf8(valid).unwrap_or_default());
        while cursor.take().is_some() {}
        cursor.error("this is not UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// A quoted string, from its opening quote to its closing one.
pub(crate) fn quoted(cursor: &mut TextCursor<'_>, dialect: TextDialect) -> Result<String, Error> {
    if !cursor.take_if('"') {
        return Err(cursor.error("expected a string"));
    }
    let mut text = String::new();
    loop {
        let plain = cursor.take_while(|next| !matches!(next, '"' | '\\') && !next.is_control());
        text.push_str(plain);
        match cursor.peek() {
            Some('"') => {
                cursor.take();
                return Ok(text);
            }
            Some('\\') => text.push(escape(cursor, dialect)?),
            Some('\t') if dialect == TextDialect::Hcl => {
                cursor.take();
                text.push('\t');
            }
            // C1 controls and DEL are characters to JSON.
            Some(other) if dialect == TextDialect::Json && other >= '\u{7f}' => {
                cursor.take();
                text.push(other);
            }
            Some('\n') => return Err(cursor.error("a string ends on the line it starts on")),
            Some(_) => return Err(cursor.error("a control character in a string")),
            None => return Err(cursor.error("a string without its end")),
        }
    }
}

fn escape(cursor: &mut TextCursor<'_>, dialect: TextDialect) -> Result<char, Error> {
    let start = cursor.at();
    let refuse = || Error { at: start, what: "an unknown escape in a string" };
    cursor.take();
    let named = match (cursor.take().ok_or_else(refuse)?, dialect) {
        ('"', _) => '"',
        ('\\', _) => '\\',
        ('n', _) => '\n',
        ('t', _) => '\t',
        ('r', _) => '\r',
        ('b', _) => '\u{8}',
        ('f', _) => '\u{c}',
        ('/', TextDialect::Json) => '/',
        ('a', TextDialect::Hcl) => '\u{7}',
        ('v', TextDialect::Hcl) => '\u{b}',
        ('u', TextDialect::Json) => return surrogates(cursor).ok_or_else(refuse),
        ('u', TextDialect::Hcl) => return scalar(cursor, 4).ok_or_else(refuse),
        ('U', TextDialect::Hcl) => return scalar(cursor, 8).ok_or_else(refuse),
        // Bytes: below 0x80 a byte is a character, above there is none to be had from one.
        ('x', TextDialect::Hcl) => {
            return scalar(cursor, 2).filter(char::is_ascii).ok_or_else(refuse);
        }
        _ => return Err(refuse()),
    };
    Ok(named)
}

/// The number of the next `digits` hexadecimal digits.
fn hex(cursor: &mut TextCursor<'_>, digits: usize) -> Option<u32> {
    let mut number: u32 = 0;
    for _ in 0..digits {
        number = number.checked_mul(16)? + cursor.take()?.to_digit(16)?;
    }
    Some(number)
}

fn scalar(cursor: &mut TextCursor<'_>, digits: usize) -> Option<char> {
    char::from_u32(hex(cursor, digits)?)
}

/// JSON writes characters past U+FFFF as two escapes.
fn surrogates(cursor: &mut TextCursor<'_>) -> Option<char> {
    let high = hex(cursor, 4)?;
    if !(0xd800..0xdc00).contains(&high) {
        return char::from_u32(high);
    }
    if !(cursor.take_if('\\') && cursor.take_if('u')) {
        return None;
    }
    let low = hex(cursor, 4)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + low)
}
