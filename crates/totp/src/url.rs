//! `otpauth://totp/…`: how apps and services tell each other a key.
//!
//! There is no standard but what apps do: a label `issuer:account`, and a query with `secret`, `issuer`, `algorithm`, `digits` and
//! `period`. Where the label and the parameter name different issuers the parameter wins.

use kallisto_api::{Error, parse_query};
use zeroize::Zeroizing;

use crate::key::TotpKey;

/// What every URL of a key begins with, in lower case.
const PREFIX: &str = "otpauth://totp/";

/// What a URL says of a key.
pub(crate) struct ParsedUrl {
    pub(crate) secret: Zeroizing<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) account_name: String,
    pub(crate) algorithm: Option<String>,
    pub(crate) digits: Option<i64>,
    pub(crate) period_secs: Option<i64>,
}

/// Reads a URL.
///
/// # Errors
/// [`Error::Invalid`] saying what is wrong with it, without what it holds.
pub(crate) fn read(url: &str) -> Result<ParsedUrl, Error> {
    let broken = || Error::invalid("an error occurred while parsing url string");
    // One of a file has a line end behind it.
    let url = url.trim();
    let is_ours = url.get(..PREFIX.len()).is_some_and(|front| front.eq_ignore_ascii_case(PREFIX));
    if !is_ours {
        return Err(Error::invalid(
            "the url is of no time-based key: it has to begin with otpauth://totp/",
        ));
    }
    let rest = url.get(PREFIX.len()..).unwrap_or_default();
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (label, query) = rest.split_once('?').unwrap_or((rest, ""));
    let pairs = parse_query(query).ok_or_else(broken)?;
    let named = |name: &str| {
        let found = pairs.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    };
    let number = |name: &str| match named(name).map(|text| text.parse::<i64>()) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => {
            Err(Error::invalid(format!("an error occurred while parsing {name} value in url")))
        }
    };
    let label = decode(label).ok_or_else(broken)?;
    let (label_issuer, account_name) = match label.split_once(':') {
        Some((issuer, account)) => (Some(issuer.to_owned()), account.trim_start().to_owned()),
        None => (None, label),
    };
    Ok(ParsedUrl {
        secret: Zeroizing::new(named("secret").unwrap_or_default()),
        issuer: named("issuer").or(label_issuer),
        account_name,
        algorithm: named("algorithm"),
        digits: number("digits")?,
        period_secs: number("period")?,
    })
}

/// Writes the URL of a key.
pub fn write(key: &TotpKey) -> String {
    let (issuer, account) = (encode(&key.issuer), encode(&key.account_name));
    format!(
        "{PREFIX}{issuer}:{account}?algorithm={}&digits={}&issuer={issuer}&period={}&secret={}",
        key.algorithm.name(),
        key.digits,
        key.period_secs,
        key.secret_text().as_str(),
    )
}

/// Writes all but letters, digits and `-._~@` as `%XX` (RFC 3986, 2.3; an `@` may stand in a path and in a query).
fn encode(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'@') {
            written.push(char::from(byte));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written
}

/// Reads `%XX` back; a `+` is a plus.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}
