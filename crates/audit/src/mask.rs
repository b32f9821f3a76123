//! Masking: what stands in a record in place of a value.
//!
//! Every string that is a value becomes `hmac-sha256:` and the HMAC of its text under the salt of
//! the device; numbers, booleans, nulls and the names of members stay. So equal values can be found
//! by who knows one (`sys/audit-hash`), and by nobody else. Names on the exempt list of a mount keep
//! what stands under them.
//!
//! [`Masker::json`] walks text that is known to be JSON (it was parsed, or written by us) once, from
//! front to back, and builds no tree: what a client reads is masked at the speed of the HMAC.
//! Text that ends in the middle of a string is refused, never copied.

use std::borrow::Cow;

use aws_lc_rs::hmac;
use memchr::{memchr, memchr2};
use zeroize::Zeroizing;

use crate::mask_cache::MaskCache;
use crate::text::{push_hex, push_number, push_string};

/// Bytes of a salt.
pub const SALT_BYTES: usize = 32;
/// What a masked value starts with.
pub const MASK_PREFIX: &str = "hmac-sha256:";

/// The member of an answer that says what a version is besides its data.
const METADATA: &[u8] = b"\"metadata\"";

/// Longest value of a secret whose mask is remembered.
const REMEMBERED_BYTES_MAX: usize = 1 << 10;

/// Text that is not the JSON it was said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedJson;

/// Whether values are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// Values are replaced by their HMAC.
    Masked,
    /// Values stand as they are (`log_raw`).
    Raw,
}

/// What is left out of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elision {
    /// Nothing.
    Nothing,
    /// The names of a listing: their number stands in their place.
    ListedNames,
    /// What a version of a secret says of itself besides its data, but for its number.
    VersionMetadata,
}

/// Masks values for one device.
pub(crate) struct Masker {
    key: hmac::Key,
    /// The mask of no text: what a secret that does not end has in place of its end.
    of_nothing: String,
    /// Masks of what comes with request after request.
    tokens: MaskCache,
    /// Masks of values that were answered, and may be again.
    values: MaskCache,
    secrecy: Secrecy,
}

impl Masker {
    /// A masker under a device's salt.
    pub(crate) fn new(salt: &[u8; SALT_BYTES], secrecy: Secrecy) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, salt);
        let (tokens, values) = (MaskCache::of_tokens(), MaskCache::of_values());
        let mut masker = Self { key, of_nothing: String::new(), tokens, values, secrecy };
        masker.of_nothing = masker.hash("");
        masker
    }

    /// The mask of a value, whatever the secrecy: what `sys/audit-hash` answers.
    pub(crate) fn hash(&self, value: &str) -> String {
        let mut out = Vec::with_capacity(MASK_PREFIX.len() + 64);
        self.push_hash(value, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    fn push_hash(&self, value: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(MASK_PREFIX.as_bytes());
        push_hex(hmac::sign(&self.key, value.as_bytes()).as_ref(), out);
    }

    /// Appends a value as a JSON string, masked.
    pub(crate) fn push(&self, value: &str, out: &mut Vec<u8>) {
        match self.secrecy {
            Secrecy::Raw => push_string(value, out),
            Secrecy::Masked => {
                out.push(b'"');
                match value {
                    "" => out.extend_from_slice(self.of_nothing.as_bytes()),
                    value => self.push_hash(value, out),
                }
                out.push(b'"');
            }
        }
    }

    /// The same for a value that many records have, as a token: its mask is remembered.
    pub(crate) fn push_again(&self, value: &str, out: &mut Vec<u8>) {
        if self.secrecy == Secrecy::Raw || value.is_empty() {
            return self.push(value, out);
        }
        self.push_known(&self.tokens, value, out);
    }

    fn push_known(&self, known: &MaskCache, value: &str, out: &mut Vec<u8>) {
        out.push(b'"');
        known.push(value, out, |out| self.push_hash(value, out));
        out.push(b'"');
    }

    /// Appends JSON text that a client sent with its values masked, but for the texts that stand under the names in `exempt`. Their masks are not
    /// remembered: what is written seldom comes again, and how long it takes tells nobody whether somebody else sent it too.
    pub(crate) fn sent_json(
        &self,
        text: &[u8],
        exempt: &[&str],
        out: &mut Vec<u8>,
    ) -> Result<(), MalformedJson> {
        self.walk(text, exempt, (Elision::Nothing, None), out)
    }

    /// The same for an answer, without what is left out.
    pub(crate) fn json(
        &self,
        text: &[u8],
        exempt: &[&str],
        elision: Elision,
        out: &mut Vec<u8>,
    ) -> Result<(), MalformedJson> {
        self.walk(text, exempt, (elision, Some(&self.values)), out)
    }

    fn walk(
        &self,
        text: &[u8],
        exempt: &[&str],
        (elision, known): (Elision, Option<&MaskCache>),
        out: &mut Vec<u8>,
    ) -> Result<(), MalformedJson> {
        if self.secrecy == Secrecy::Raw && elision == Elision::Nothing {
            out.extend_from_slice(text);
            return Ok(());
        }
        let mut depth = 0_usize;
        // Of each array that is open, whether what stands directly in it is exempt. Objects have names of their own. Empty where nothing is.
        let mut open: Vec<bool> = Vec::new();
        let is_any_exempt = !exempt.is_empty();
        // Whether the value that comes next stands under an exempt name.
        let mut is_named = false;
        let mut at = 0;
        while at < text.len() {
            let between = text[at..].iter().position(|&byte| byte == b'"');
            let quote = between.map_or(text.len(), |length| at + length);
            for &byte in &text[at..quote] {
                match byte {
                    b'{' | b'[' => {
                        depth += 1;
                        if is_any_exempt {
                            let is_exempt = is_named || open.last() == Some(&true);
                            open.push(byte == b'[' && is_exempt);
                        }
                    }
                    b'}' | b']' => {
                        depth = depth.checked_sub(1).ok_or(MalformedJson)?;
                        open.pop();
                    }
                    _ => {}
                }
                is_named &= !matches!(byte, b'{' | b'[' | b',' | b'}' | b']');
            }
            out.extend_from_slice(&text[at..quote]);
            if quote == text.len() {
                break;
            }
            let end = string_end(text, quote).ok_or(MalformedJson)?;
            let quoted = &text[quote..end];
            let colon = skip_spaces(text, end);
            at = end;
            if text.get(colon) != Some(&b':') {
                match is_named || open.last() == Some(&true) {
                    true => out.extend_from_slice(quoted),
                    false => self.push_value(quoted, known, out)?,
                }
                continue;
            }
            out.extend_from_slice(quoted);
            out.push(b':');
            let value = skip_spaces(text, colon + 1);
            at = value;
            if is_any_exempt {
                is_named = exempt.contains(&&*unquote(quoted)?);
            }
            match elision {
                Elision::ListedNames if depth == 1 && is_listing(quoted, text, value) => {
                    at = value_end(text, value).ok_or(MalformedJson)?;
                    push_number(count(&text[value..at]), out);
                }
                Elision::VersionMetadata if depth == 1 && quoted == METADATA => {
                    if let Some((number, end)) = version_number(text, value) {
                        out.extend_from_slice(b"{\"version\":");
                        out.extend_from_slice(number);
                        out.push(b'}');
                        at = end;
                    }
                }
                _ => {}
            }
        }
        if depth == 0 { Ok(()) } else { Err(MalformedJson) }
    }

    fn push_value(
        &self,
        quoted: &[u8],
        known: Option<&MaskCache>,
        out: &mut Vec<u8>,
    ) -> Result<(), MalformedJson> {
        if self.secrecy == Secrecy::Raw {
            out.extend_from_slice(quoted);
            return Ok(());
        }
        let value = unquote(quoted)?;
        // Finding the mask of a long value costs nearly as much as making it.
        match known.filter(|_| (1..=REMEMBERED_BYTES_MAX).contains(&value.len())) {
            Some(known) => self.push_known(known, &value, out),
            None => self.push(&value, out),
        }
        if let Cow::Owned(text) = value {
            drop(Zeroizing::new(text));
        }
        Ok(())
    }
}

/// Whether a listing stands under a name, and its value is of the right kind. The server writes these names, without escapes.
fn is_listing(quoted: &[u8], text: &[u8], value: usize) -> bool {
    matches!((quoted, text.get(value)), (b"\"keys\"", Some(b'[')) | (b"\"key_info\"", Some(b'{')))
}

/// The digits of the member `version` of the object that starts at `at`, and the place after it; `None` of anything else.
fn version_number(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let mut number = None;
    let mut next = skip_spaces(text, at + 1);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    while text.get(next) == Some(&b'"') {
        let name_end = string_end(text, next)?;
        let start = skip_spaces(text, skip_spaces(text, name_end) + 1);
        let end = value_end(text, start)?;
        if &text[next..name_end] == b"\"version\"" {
            let digits = text.get(start..end)?.trim_ascii();
            let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            number = is_number.then_some(digits);
        }
        next = skip_spaces(text, end);
        if text.get(next) == Some(&b',') {
            next = skip_spaces(text, next + 1);
        }
    }
    (text.get(next) == Some(&b'}')).then_some((number?, next + 1))
}

/// The text of a JSON string.
fn unquote(quoted: &[u8]) -> Result<Cow<'_, str>, MalformedJson> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).ok_or(MalformedJson)?;
    if memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).map(Cow::Borrowed).map_err(|_| MalformedJson);
    }
    serde_json::from_slice::<String>(quoted).map(Cow::Owned).map_err(|_| MalformedJson)
}

/// The place after the string that starts at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut next = at + 1;
    loop {
        next += memchr2(b'"', b'\\', text.get(next..)?)?;
        match text[next] {
            b'"' => return Some(next + 1),
            _ => next += 2,
        }
    }
}

fn skip_spaces(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// The place after the value that starts at `at`.
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut next = at;
    loop {
        match text.get(next) {
            Some(b'"') => {
                next = string_end(text, next)?;
                if depth == 0 {
                    return Some(next);
                }
                continue;
            }
            Some(b'{' | b'[') => depth += 1,
            Some(b'}' | b']') if depth == 0 => return Some(next),
            Some(b'}' | b']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(next + 1);
                }
            }
            Some(b',') if depth == 0 => return Some(next),
            Some(_) => {}
            None => return (depth == 0).then_some(next),
        }
        next += 1;
    }
}

/// The number of elements of an array or members of an object.
fn count(value: &[u8]) -> i64 {
    let mut depth = 0_usize;
    let (mut commas, mut any) = (0, false);
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        any |= depth > 0 && !byte.is_ascii_whitespace() && !matches!(byte, b']' | b'}');
        match byte {
            b'"' => {
                at = string_end(value, at).unwrap_or(value.len());
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => commas += 1,
            _ => {}
        }
        at += 1;
    }
    if any { commas + 1 } else { 0 }
}

#[cfg(test)]
mod tests;
