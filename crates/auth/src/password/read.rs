//! The meaning of a password policy's file.

use kallisto_hcl::{BlockBody, HclValue, NameKey, TextPosition, parse};

use super::{
    CHARSET_CHARS_MAX, Charset, LENGTH_MAX, LENGTH_MIN, PasswordPolicy, PasswordPolicyError,
    PasswordPolicyFault, RULES_MAX,
};

type ReadPassword<T> = Result<T, PasswordPolicyError>;

pub(super) fn policy(text: &str) -> ReadPassword<PasswordPolicy> {
    let body = parse(text.as_bytes())?;
    let start = TextPosition { line: 1, column: 1 };
    let known = |key: &NameKey| matches!(key.text.as_str(), "length" | "rule");
    if let Some(item) = body.items.iter().find(|item| !known(&item.key)) {
        return wrong(item.key.at, PasswordPolicyFault::UnknownKey);
    }
    let length = length(&body, start)?;
    let blocks = body.labelled("rule")?;
    if let Some((key, _)) = blocks.get(RULES_MAX) {
        return wrong(key.at, PasswordPolicyFault::TooMany);
    }
    let rules: Vec<Charset> =
        blocks.into_iter().map(|(kind, body)| rule(kind, body)).collect::<ReadPassword<_>>()?;
    if rules.is_empty() {
        return wrong(start, PasswordPolicyFault::NoCharset);
    }
    if rules.iter().map(|rule| rule.least).sum::<usize>() > length {
        return wrong(start, PasswordPolicyFault::LeastsPastLength);
    }
    let union = distinct(rules.iter().flat_map(|rule| rule.chars.iter().copied()));
    Ok(PasswordPolicy { length, rules, union })
}

const fn wrong<T>(at: TextPosition, fault: PasswordPolicyFault) -> ReadPassword<T> {
    Err(PasswordPolicyError { at, fault })
}

fn length(body: &BlockBody, start: TextPosition) -> ReadPassword<usize> {
    let Some(item) = body.first("length") else {
        return wrong(start, PasswordPolicyFault::NoLength);
    };
    let Some(length) = item.value.as_u64() else {
        return wrong(item.value.at, PasswordPolicyFault::NoLength);
    };
    match usize::try_from(length) {
        Ok(length @ LENGTH_MIN..=LENGTH_MAX) => Ok(length),
        _ => wrong(item.value.at, PasswordPolicyFault::LengthOutOfBounds),
    }
}

fn rule(kind: &NameKey, body: &BlockBody) -> ReadPassword<Charset> {
    if kind.text != "charset" {
        return wrong(kind.at, PasswordPolicyFault::UnknownRule);
    }
    let mut charset = Charset { chars: Vec::new(), least: 0 };
    for item in &body.items {
        match item.key.text.as_str() {
            "charset" => charset.chars = chars(&item.value)?,
            "min-chars" | "min_chars" => charset.least = least(&item.value)?,
            _ => return wrong(item.key.at, PasswordPolicyFault::UnknownKey),
        }
    }
    if charset.chars.is_empty() {
        wrong(kind.at, PasswordPolicyFault::NoCharset)
    } else {
        Ok(charset)
    }
}

fn chars(value: &HclValue) -> ReadPassword<Vec<char>> {
    let text = value.as_text().unwrap_or_default();
    if text.chars().any(|next| next.is_control() || (next.is_whitespace() && next != ' ')) {
        return wrong(value.at, PasswordPolicyFault::NotPrintable);
    }
    let chars = distinct(text.chars());
    if chars.len() > CHARSET_CHARS_MAX {
        wrong(value.at, PasswordPolicyFault::TooMany)
    } else {
        Ok(chars)
    }
}

fn least(value: &HclValue) -> ReadPassword<usize> {
    let least = value.as_u64().and_then(|least| usize::try_from(least).ok());
    // Any sum of these fits, however many rules there are.
    match least {
        Some(least) => Ok(least.min(LENGTH_MAX + 1)),
        None => wrong(value.at, PasswordPolicyFault::BadLeast),
    }
}

/// Each character once: written twice it is not likelier.
fn distinct(chars: impl Iterator<Item = char>) -> Vec<char> {
    let mut chars: Vec<char> = chars.collect();
    chars.sort_unstable();
    chars.dedup();
    chars
}
