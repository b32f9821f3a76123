//! Keys of a second factor: what logins by MFA have of TOTP (RFC 6238).
//!
//! Whoever calls keeps what is made here: a key of each person with each method, and what was tried with it. The rules are
//! those of the engine at `totp/`: a code is good once, and so many wrong ones are looked at in a period.

use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields};

use crate::key::{KeyInput, TotpKey};
use crate::tries::{JudgedCode, Tries};
use crate::url;

/// A key that was made for somebody.
pub struct NewFactor {
    /// Its record's bytes.
    pub record: Vec<u8>,
    /// The URL that an app takes it by.
    pub url: String,
}

/// What a code of a second factor is, and what is to be kept of the try.
#[derive(Debug)]
pub struct CodeVerdict {
    /// What it is.
    pub outcome: FactorOutcome,
    /// The record of what was tried; `None` where it is what it was.
    pub tries: Option<Vec<u8>>,
}

/// What a code of a second factor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorOutcome {
    /// It is good, and from now on used.
    Valid,
    /// It is not that of now.
    Wrong,
    /// It is no code: other than so many digits.
    Malformed,
    /// It was good once.
    Used,
    /// It was not looked at.
    TooMany {
        /// How long none is, in seconds.
        retry_after_secs: u64,
    },
}

/// The fields of a method as those of a key that the server makes.
fn given(method: &Map, account: &str) -> Result<KeyInput, Error> {
    let mut fields = method.clone();
    fields.remove("key");
    fields.remove("url");
    fields.insert("generate".to_owned(), true.into());
    fields.insert("account_name".to_owned(), account.into());
    KeyInput::read(Fields::new(&fields))
}

/// Checks the fields of a method: issuer, period, algorithm, digits, skew, sizes.
///
/// # Errors
/// [`Error::Invalid`] saying which cannot be taken.
fn check_method(method: &Map) -> Result<(), Error> {
    given(method, "account").map(drop)
}

/// Makes a key for an account by the fields of a method.
///
/// # Errors
/// As [`complete_method`], and what `fill` says.
pub fn make_factor(
    method: &Map,
    account: &str,
    fill: impl FnOnce(&mut [u8]) -> Result<(), Error>,
) -> Result<NewFactor, Error> {
    let key = given(method, account)?.make(fill)?;
    Ok(NewFactor { record: key.encode(), url: url::write(&key) })
}

/// Judges a code at a time, in seconds since 1970, by the key and what was tried with it.
pub fn judge_factor(
    key: &TotpKey,
    before: &Tries,
    code: &str,
    wrong_max: u64,
    now: u64,
) -> CodeVerdict {
    if code.len() != key.digits || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return CodeVerdict { outcome: FactorOutcome::Malformed, tries: None };
    }
    let (judged, after) = before.judge(key, code, now, wrong_max);
    let outcome = match judged {
        JudgedCode::Valid => FactorOutcome::Valid,
        JudgedCode::Wrong => FactorOutcome::Wrong,
        JudgedCode::Used => FactorOutcome::Used,
        JudgedCode::TooMany { left } => {
            FactorOutcome::TooMany { retry_after_secs: left.as_secs().max(1) }
        }
    };
    CodeVerdict { outcome, tries: after.map(|tries| tries.encode()) }
}

impl std::fmt::Debug for NewFactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewFactor")
    }
}

/// The fields of a method with what is not given filled in, as they are shown and stored.
///
/// # Errors
/// [`Error::Invalid`] saying which cannot be taken.
pub fn complete_method(given: &Map) -> Result<Map, Error> {
    let fields = Fields::new(given);
    let number = |name: &str, default: i64| {
        fields.int(name).map(|value| Json::from(value.unwrap_or(default)))
    };
    let text = |name: &str, default: &str| {
        fields.string(name).map(|value| Json::from(value.unwrap_or_else(|| default.to_owned())))
    };
    let period = fields.span("period")?.map_or(30, |span| span.secs());
    let mut method = Map::new();
    for (name, value) in [
        ("issuer", text("issuer", "")?),
        ("period", Json::from(period)),
        ("algorithm", text("algorithm", "SHA1")?),
        ("digits", number("digits", 6)?),
        ("skew", number("skew", 1)?),
        ("key_size", number("key_size", 20)?),
        ("qr_size", number("qr_size", 200)?),
    ] {
        method.insert(name.to_owned(), value);
    }
    check_method(&method)?;
    Ok(method)
}
