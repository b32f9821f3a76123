//! Keys: what is asked of them, what is kept, what is shown.

use std::sync::LazyLock;

use aws_lc_rs::hmac;
use data_encoding::{BASE32_NOPAD, DecodePartial, Encoding, HEXLOWER};
use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Fields};
use zeroize::Zeroizing;

use crate::url;

/// Most bytes of a key: more than a block of any of the hashes gains nothing (RFC 2104, 2).
const KEY_BYTES_MAX: usize = 1024;
/// Bytes of a key that is made when nobody says: as many as the hash of SHA-1 has (RFC 4226, 4).
const KEY_BYTES_DEFAULT: i64 = 20;
/// Longest issuer or account name, in bytes.
const LABEL_BYTES_MAX: usize = 512;
/// Longest period, in seconds: a year.
const PERIOD_SECS_MAX: i64 = 366 * 24 * 3600;
const PERIOD_SECS_DEFAULT: i64 = 30;
const DIGITS_DEFAULT: i64 = 6;
const SKEW_DEFAULT: i64 = 1;
/// Most periods before and after now whose codes are good too.
pub(crate) const SKEW_MAX: u64 = 1;
/// What the fingerprint of a secret is the MAC of.
const FINGERPRINT_LABEL: &[u8] = b"kallisto totp secret";
const FINGERPRINT_BYTES: usize = 16;
/// Pixels of a side of the QR code when nobody says, and at the most.
const QR_PIXELS_DEFAULT: i64 = 200;
const QR_PIXELS_MAX: i64 = 2048;

/// The hash of a key's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeHash {
    /// SHA-1, of which most apps know no other.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl CodeHash {
    /// As it stands in URLs and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha512 => "SHA512",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Sha1, Self::Sha256, Self::Sha512].into_iter().find(|known| known.name() == name)
    }
}

/// Base 32 as services give it: many draw letters instead of bytes, so that the last letter may have bits past the last byte.
static GIVEN_BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = BASE32_NOPAD.specification();
    specification.check_trailing_bits = false;
    specification.encoding().expect("base 32 is one, whatever its last bits are")
});

/// A key. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TotpKey {
    /// The shared secret.
    pub secret: Zeroizing<Vec<u8>>,
    /// Who the codes are for.
    pub issuer: String,
    /// Whose codes they are.
    pub account_name: String,
    /// How long a code is that of now, in seconds; at least 1.
    pub period_secs: u64,
    /// What codes are made by.
    pub algorithm: CodeHash,
    /// Digits of a code: 6 or 8.
    pub digits: usize,
    /// Periods before and after now whose codes are good too.
    pub skew: u64,
}

impl TotpKey {
    /// The secret in base 32, as apps take it.
    pub fn secret_text(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE32_NOPAD.encode(&self.secret))
    }

    /// What tells its secret from others, and does not tell the secret. Settings do not change it.
    pub fn fingerprint(&self) -> String {
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.secret), FINGERPRINT_LABEL);
        let bytes = mac.as_ref().get(..FINGERPRINT_BYTES).unwrap_or_default();
        HEXLOWER.encode(bytes)
    }

    /// What is shown of it.
    pub fn shown(&self) -> Map {
        let number = |number: usize| Json::from(number as u64);
        [
            ("account_name", Json::from(self.account_name.as_str())),
            ("algorithm", self.algorithm.name().into()),
            ("digits", number(self.digits)),
            ("issuer", self.issuer.as_str().into()),
            ("period", self.period_secs.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// The record's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut map = self.shown();
        map.insert("key".to_owned(), self.secret_text().as_str().into());
        map.insert("skew".to_owned(), self.skew.into());
        Json::Object(map).to_text()
    }

    /// Reads a record back; `None` when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let map = json::parse_object(bytes).ok()?;
        let given = KeyInput::read(Fields::new(&map)).ok()?;
        given.make(|_| Err(Error::NotFound)).ok()
    }
}

/// What is asked of a key.
pub struct KeyInput {
    /// The key; `None` for one that is made.
    secret: Option<Zeroizing<Vec<u8>>>,
    key_bytes: usize,
    is_exported: bool,
    qr_pixels: u32,
    issuer: String,
    account_name: String,
    period_secs: u64,
    algorithm: CodeHash,
    digits: usize,
    skew: u64,
}

impl KeyInput {
    /// Reads the fields of a request.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying what cannot be taken, in the words that clients of the API know.
    pub fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let text = |name: &str| fields.string(name).map(Option::unwrap_or_default);
        let number =
            |name: &str, default: i64| fields.int(name).map(|given| given.unwrap_or(default));
        let generate = fields.boolean("generate")?.unwrap_or(false);
        let (mut secret, given_url) = (Zeroizing::new(text("key")?), Zeroizing::new(text("url")?));
        if generate && !secret.is_empty() {
            return refuse("a key should not be passed if generate is true");
        }
        if generate && !given_url.is_empty() {
            return refuse("a url should not be passed if generate is true");
        }
        let (mut issuer, mut account_name) = (text("issuer")?, text("account_name")?);
        let mut algorithm = fields.string("algorithm")?.unwrap_or_else(|| "SHA1".to_owned());
        let mut digits = number("digits", DIGITS_DEFAULT)?;
        let mut period_secs =
            fields.span("period")?.map_or(PERIOD_SECS_DEFAULT, |span| span.secs());
        if !given_url.is_empty() {
            let parsed = url::read(&given_url)?;
            secret = parsed.secret;
            issuer = parsed.issuer.unwrap_or(issuer);
            account_name = parsed.account_name;
            algorithm = parsed.algorithm.unwrap_or(algorithm);
            digits = parsed.digits.unwrap_or(digits);
            period_secs = parsed.period_secs.unwrap_or(period_secs);
        }
        let skew = number("skew", SKEW_DEFAULT)?;
        let qr_pixels = number("qr_size", QR_PIXELS_DEFAULT)?;
        let key_bytes = number("key_size", KEY_BYTES_DEFAULT)?;
        // In this order, in which the first that cannot be taken is told.
        let digits = checked_digits(digits)?;
        let Some(algorithm) = CodeHash::named(&algorithm) else {
            return refuse("the algorithm value is not valid");
        };
        let period_secs = checked_period(period_secs)?;
        let skew = match skew {
            0 => 0,
            1 => 1,
            _ => return refuse("the skew value must be 0 or 1"),
        };
        let qr_pixels = checked_qr_pixels(qr_pixels)?;
        let key_bytes = checked_key_bytes(key_bytes)?;
        if issuer.len().max(account_name.len()) > LABEL_BYTES_MAX {
            return Err(Error::invalid(format!(
                "an issuer or account_name of more than {LABEL_BYTES_MAX} bytes"
            )));
        }
        if generate && account_name.is_empty() {
            return refuse("the account_name value is required for generated keys");
        }
        if generate && issuer.is_empty() {
            return refuse("the issuer value is required for generated keys");
        }
        let secret = if generate { None } else { Some(decode_secret(&secret)?) };
        Ok(Self {
            secret,
            key_bytes,
            is_exported: fields.boolean("exported")?.unwrap_or(true),
            qr_pixels,
            issuer,
            account_name,
            period_secs,
            algorithm,
            digits,
            skew,
        })
    }

    /// The key, drawn if it is to be made.
    ///
    /// # Errors
    /// What `fill` says.
    pub fn make(
        &self,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Error>,
    ) -> Result<TotpKey, Error> {
        let secret = match &self.secret {
            Some(secret) => secret.clone(),
            None => {
                let mut secret = Zeroizing::new(vec![0; self.key_bytes]);
                fill(&mut secret)?;
                secret
            }
        };
        Ok(TotpKey {
            secret,
            issuer: self.issuer.clone(),
            account_name: self.account_name.clone(),
            period_secs: self.period_secs,
            algorithm: self.algorithm,
            digits: self.digits,
            skew: self.skew,
        })
    }

    /// Whether the key is shown to whoever has it made, and with how many pixels of QR code.
    pub fn shown(&self) -> Option<u32> {
        (self.secret.is_none() && self.is_exported).then_some(self.qr_pixels)
    }
}

fn refuse<T>(why: &str) -> Result<T, Error> {
    Err(Error::invalid(why))
}

fn checked_digits(digits: i64) -> Result<usize, Error> {
    match digits {
        6 => Ok(6),
        8 => Ok(8),
        _ => refuse("the digits value can only be 6 or 8"),
    }
}

fn checked_period(secs: i64) -> Result<u64, Error> {
    if secs <= 0 {
        return refuse("the period value must be greater than zero");
    }
    if secs > PERIOD_SECS_MAX {
        return refuse("the period value must be a year at most");
    }
    Ok(secs.unsigned_abs())
}

fn checked_qr_pixels(pixels: i64) -> Result<u32, Error> {
    if pixels < 0 {
        return refuse("the qr_size value must be greater than or equal to zero");
    }
    if pixels > QR_PIXELS_MAX {
        return Err(Error::invalid(format!("the qr_size value must be {QR_PIXELS_MAX} at most")));
    }
    Ok(u32::try_from(pixels).unwrap_or(0))
}

fn checked_key_bytes(bytes: i64) -> Result<usize, Error> {
    if bytes <= 0 {
        return refuse("the key_size value must be greater than zero");
    }
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > KEY_BYTES_MAX {
        return Err(Error::invalid(format!("the key_size value must be {KEY_BYTES_MAX} at most")));
    }
    Ok(bytes)
}

/// Reads a key in base 32, whatever the case of its letters and with or without its padding. Services show it in groups, and a file has a line
/// end: blanks say nothing.
fn decode_secret(text: &str) -> Result<Zeroizing<Vec<u8>>, Error> {
    // As long as it can get, so that nothing of it is left behind.
    let mut upper = Zeroizing::new(String::with_capacity(text.len()));
    upper.extend(text.chars().filter(|c| !c.is_ascii_whitespace()).map(|c| c.to_ascii_uppercase()));
    let bare = upper.trim_end_matches('=').len();
    upper.truncate(bare);
    if upper.is_empty() {
        return refuse("the key value is required");
    }
    let illegal = |at: usize| {
        Error::invalid(format!("invalid key value: illegal base32 data at input byte {at}"))
    };
    let length = GIVEN_BASE32.decode_len(upper.len()).map_err(|error| illegal(error.position))?;
    if length > KEY_BYTES_MAX {
        return Err(Error::invalid(format!("a key of more than {KEY_BYTES_MAX} bytes")));
    }
    let mut secret = Zeroizing::new(vec![0; length]);
    let decoded = GIVEN_BASE32.decode_mut(upper.as_bytes(), &mut secret);
    let length = decoded.map_err(|DecodePartial { error, .. }| illegal(error.position))?;
    secret.truncate(length);
    if secret.is_empty() { refuse("the key value is required") } else { Ok(secret) }
}
