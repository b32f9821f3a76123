//! JSON, as RFC 8259 has it, read into the tree of HCL.

use crate::cursor::TextCursor;
use crate::text::{TextDialect, quoted};
use crate::{BlockBody, Error, HclValue, NameKey, TreeItem, ValueKind};

/// A whole file: one object.
pub(crate) fn document(cursor: &mut TextCursor<'_>) -> Result<BlockBody, Error> {
    blank(cursor);
    let body = object(cursor)?;
    blank(cursor);
    match cursor.peek() {
        None => Ok(body),
        Some(_) => Err(cursor.error("expected the end of the file")),
    }
}

fn blank(cursor: &mut TextCursor<'_>) {
    cursor.take_while(|next| matches!(next, ' ' | '\t' | '\n' | '\r'));
}

fn object(cursor: &mut TextCursor<'_>) -> Result<BlockBody, Error> {
    cursor.enter()?;
    cursor.take();
    blank(cursor);
    let mut body = BlockBody::default();
    if !cursor.take_if('}') {
        loop {
            blank(cursor);
            let at = cursor.at();
            let key = NameKey { text: quoted(cursor, TextDialect::Json)?, at };
            blank(cursor);
            if !cursor.take_if(':') {
                return Err(cursor.error("expected ':'"));
            }
            let value = value(cursor)?;
            body.items.push(TreeItem { key, labels: Vec::new(), is_block: false, value });
            blank(cursor);
            match cursor.take_if(',') {
                true => {}
                false if cursor.take_if('}') => break,
                false => return Err(cursor.error("expected ',' or '}'")),
            }
        }
    }
    cursor.leave();
    Ok(body)
}

fn list(cursor: &mut TextCursor<'_>) -> Result<Vec<HclValue>, Error> {
    cursor.enter()?;
    cursor.take();
    blank(cursor);
    let mut values = Vec::new();
    if !cursor.take_if(']') {
        loop {
            values.push(value(cursor)?);
            blank(cursor);
            match cursor.take_if(',') {
                true => {}
                false if cursor.take_if(']') => break,
                false => return Err(cursor.error("expected ',' or ']'")),
            }
        }
    }
    cursor.leave();
    Ok(values)
}

fn value(cursor: &mut TextCursor<'_>) -> Result<HclValue, Error> {
    blank(cursor);
    cursor.count()?;
    let at = cursor.at();
    let kind = match cursor.peek() {
        Some('{') => ValueKind::Object(object(cursor)?),
        Some('[') => ValueKind::List(list(cursor)?),
        Some('"') => ValueKind::Text(quoted(cursor, TextDialect::Json)?),
        Some('-' | '0'..='9') => ValueKind::Number(number(cursor)?),
        _ => match cursor.take_while(|next| next.is_ascii_alphabetic()) {
            "null" => ValueKind::Null,
            "true" => ValueKind::Bool(true),
            "false" => ValueKind::Bool(false),
            _ => return Err(Error { at, what: "expected a value" }),
        },
    };
    Ok(HclValue { at, kind })
}

fn number(cursor: &mut TextCursor<'_>) -> Result<String, Error> {
    let at = cursor.at();
    let text = cursor.take_while(|next| matches!(next, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
    if is_number(text) { Ok(text.to_owned()) } else { Err(Error { at, what: "not a number" }) }
}

/// True when `text` is a number of JSON's grammar.
pub(crate) fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}
