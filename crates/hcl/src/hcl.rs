//! HCL's first version, the dialect that policies and server files are written in.
//!
//! ```text
//! body   := (item ","?)*
//! item   := key ( "=" value | key* object )
//! key    := identifier | string
//! value  := string | heredoc | number | "true" | "false" | list | object
//! list   := "[" (value ("," value)* ","?)? "]"
//! object := "{" body "}"
//! ```
//!
//! Comments are `# ..`, `// ..` and `/* .. */`. Lines mean nothing outside heredocs and comments.

use crate::cursor::TextCursor;
use crate::json::is_number;
use crate::limits::LABELS_MAX;
use crate::text::{TextDialect, quoted};
use crate::{BlockBody, Error, HclValue, NameKey, TreeItem, ValueKind};

/// A whole file.
pub(crate) fn document(cursor: &mut TextCursor<'_>) -> Result<BlockBody, Error> {
    let body = items(cursor)?;
    match cursor.peek() {
        None => Ok(body),
        Some(_) => Err(cursor.error("expected a key or the end of the file")),
    }
}

/// Takes blanks and comments.
fn blank(cursor: &mut TextCursor<'_>) -> Result<(), Error> {
    loop {
        cursor.take_while(char::is_whitespace);
        let rest = cursor.rest();
        if rest.starts_with('#') || rest.starts_with("//") {
            cursor.take_line();
        } else if rest.starts_with("/*") {
            block_comment(cursor)?;
        } else {
            return Ok(());
        }
    }
}

fn block_comment(cursor: &mut TextCursor<'_>) -> Result<(), Error> {
    let start = cursor.at();
    let end = cursor.rest()[2..].find("*/");
    let Some(length) = end else {
        return Err(Error { at: start, what: "a comment without its end" });
    };
    let rest_bytes = cursor.rest().len() - (2 + length + 2);
    while cursor.rest().len() > rest_bytes {
        cursor.take();
    }
    Ok(())
}

fn items(cursor: &mut TextCursor<'_>) -> Result<BlockBody, Error> {
    let mut body = BlockBody::default();
    loop {
        blank(cursor)?;
        match cursor.peek() {
            Some(next) if next == '"' || starts_identifier(next) => {
                body.items.push(item(cursor)?);
                blank(cursor)?;
                cursor.take_if(',');
            }
            _ => return Ok(body),
        }
    }
}

fn item(cursor: &mut TextCursor<'_>) -> Result<TreeItem, Error> {
    let name = key(cursor)?;
    let mut labels = Vec::new();
    loop {
        blank(cursor)?;
        match cursor.peek() {
            Some('=') if labels.is_empty() => {
                cursor.take();
                let value = value(cursor)?;
                return Ok(TreeItem { key: name, labels, is_block: false, value });
            }
            Some('{') => {
                let value = value(cursor)?;
                return Ok(TreeItem { key: name, labels, is_block: true, value });
            }
            Some(next) if next == '"' || starts_identifier(next) => {
                if labels.len() == LABELS_MAX {
                    return Err(cursor.error("too many labels before a block"));
                }
                labels.push(key(cursor)?);
            }
            _ if labels.is_empty() => return Err(cursor.error("expected '=' or '{' after a key")),
            _ => return Err(cursor.error("expected '{' after a block's labels")),
        }
    }
}

fn starts_identifier(next: char) -> bool {
    next.is_alphabetic() || next == '_'
}

fn key(cursor: &mut TextCursor<'_>) -> Result<NameKey, Error> {
    let at = cursor.at();
    let text = match cursor.peek() {
        Some('"') => quoted(cursor, TextDialect::Hcl)?,
        _ => identifier(cursor).to_owned(),
    };
    Ok(NameKey { text, at })
}

fn identifier<'a>(cursor: &mut TextCursor<'a>) -> &'a str {
    cursor.take_while(|next| next.is_alphanumeric() || matches!(next, '_' | '-' | '.'))
}

fn value(cursor: &mut TextCursor<'_>) -> Result<HclValue, Error> {
    blank(cursor)?;
    cursor.count()?;
    let at = cursor.at();
    let kind = match cursor.peek() {
        Some('"') => ValueKind::Text(quoted(cursor, TextDialect::Hcl)?),
        Some('<') => ValueKind::Text(heredoc(cursor)?),
        Some('[') => ValueKind::List(list(cursor)?),
        Some('{') => ValueKind::Object(object(cursor)?),
        Some('-' | '.' | '0'..='9') => ValueKind::Number(number(cursor)?),
        _ => match identifier(cursor) {
            "true" => ValueKind::Bool(true),
            "false" => ValueKind::Bool(false),
            _ => return Err(Error { at, what: "expected a value" }),
        },
    };
    Ok(HclValue { at, kind })
}

fn object(cursor: &mut TextCursor<'_>) -> Result<BlockBody, Error> {
    cursor.enter()?;
    cursor.take();
    let body = items(cursor)?;
    if !cursor.take_if('}') {
        return Err(cursor.error("expected a key or '}'"));
    }
    cursor.leave();
    Ok(body)
}

fn list(cursor: &mut TextCursor<'_>) -> Result<Vec<HclValue>, Error> {
    cursor.enter()?;
    cursor.take();
    let mut values = Vec::new();
    loop {
        blank(cursor)?;
        if cursor.take_if(']') {
            break;
        }
        values.push(value(cursor)?);
        blank(cursor)?;
        if !cursor.take_if(',') && cursor.peek() != Some(']') {
            return Err(cursor.error("expected ',' or ']' in a list"));
        }
    }
    cursor.leave();
    Ok(values)
}

/// A number. A leading zero is refused: HCL reads `010` as eight, and few who write it mean that.
fn number(cursor: &mut TextCursor<'_>) -> Result<String, Error> {
    let at = cursor.at();
    let text = cursor.take_while(|next| next.is_ascii_alphanumeric() || "+-.".contains(next));
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let is_hexadecimal = hexadecimal.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if is_hexadecimal || is_number(text) {
        Ok(text.to_owned())
    } else {
        Err(Error { at, what: "not a number" })
    }
}

/// A heredoc: the lines after `<<MARK` up to one that is `MARK`, each with its line end. After
/// `<<-MARK` the blanks before the closing mark are taken off every line, if every line has them.
fn heredoc(cursor: &mut TextCursor<'_>) -> Result<String, Error> {
    let start = cursor.at();
    let refuse = |what| Err(Error { at: start, what });
    let opening = cursor.take_line().unwrap_or_default().trim_end();
    let Some(mark) = opening.strip_prefix("<<") else { return refuse("expected a value") };
    let (mark, is_indented) = match mark.strip_prefix('-') {
        Some(mark) => (mark, true),
        None => (mark, false),
    };
    if mark.is_empty() || !mark.chars().all(|next| next.is_alphanumeric() || next == '_') {
        return refuse("a heredoc needs a mark, alone on the rest of its line");
    }
    let mut lines = Vec::new();
    let closing = loop {
        let Some(line) = cursor.take_line() else { return refuse("a heredoc without its end") };
        if line.trim() == mark {
            break line;
        }
        lines.push(line);
    };
    let indent = &closing[..closing.len() - closing.trim_start().len()];
    let strip = is_indented && lines.iter().all(|line| line.starts_with(indent));
    let strip_bytes = if strip { indent.len() } else { 0 };
    Ok(lines.iter().flat_map(|line| [&line[strip_bytes..], "\n"]).collect())
}
