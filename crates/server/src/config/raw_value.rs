//! One value, from a file or the environment, and the types it can be read as.
//!
//! Files made for Vault write `true`, `"true"`, `1` and `"1"` for the same thing, so every scalar
//! becomes text first and its type is a matter of who asks. Lists and blocks never get here.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use kallisto_hcl::{HclValue, ValueKind};
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::error::{Error, ValueOrigin};
use kallisto_command::config::Environment;
use kallisto_command::duration;

/// Bytes in each unit that may follow a number: powers of two and of ten.
const BYTE_UNITS: [(&str, u64); 15] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("kib", 1 << 10),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
    ("t", 1_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
];

/// What is said of a value or a label with such a character.
pub(super) const NUL: &str = "holds a NUL character";

/// How a scalar was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScalarForm {
    Text,
    Number,
    Truth,
}

/// A scalar and where it came from. `Debug` shows only the latter.
pub(super) struct RawValue {
    pub(super) origin: ValueOrigin,
    form: ScalarForm,
    text: Zeroizing<String>,
}

impl std::fmt::Debug for RawValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawValue({})", self.origin)
    }
}

impl RawValue {
    /// A scalar of a file; `None` when it says nothing, as `null` and `""` do.
    pub(super) fn of(origin: ValueOrigin, value: &HclValue) -> Result<Option<Self>, Error> {
        let (form, text) = match &value.kind {
            ValueKind::Null => return Ok(None),
            ValueKind::Bool(truth) => (ScalarForm::Truth, truth.to_string()),
            ValueKind::Number(text) => (ScalarForm::Number, text.clone()),
            ValueKind::Text(text) => (ScalarForm::Text, text.clone()),
            ValueKind::List(_) | ValueKind::Object(_) => {
                return Err(Error::Value(origin, "expected one value".to_owned()));
            }
        };
        let text = Zeroizing::new(text);
        if text.contains('\0') {
            // No path, name or address has one, and what cuts it off there would take another value.
            return Err(Error::Value(origin, NUL.to_owned()));
        }
        Ok((!text.is_empty()).then_some(Self { origin, form, text }))
    }

    /// A setting of the environment, however it is spelled.
    pub(super) fn of_environment(environment: &Environment<'_>, name: &str) -> Option<Self> {
        let (spelling, text) = environment.setting(name)?;
        let text = Zeroizing::new(text);
        Some(Self { origin: ValueOrigin::Environment(spelling), form: ScalarForm::Text, text })
    }

    /// A variable that is no setting of ours, such as those of OpenTelemetry.
    pub(super) fn of_variable(environment: &Environment<'_>, name: &str) -> Option<Self> {
        let text = Zeroizing::new(environment.plain(name)?);
        let origin = ValueOrigin::Environment(name.to_owned());
        Some(Self { origin, form: ScalarForm::Text, text })
    }

    /// Another value from the same place.
    pub(super) fn with_text(&self, text: &str) -> Self {
        let text = Zeroizing::new(text.to_owned());
        Self { origin: self.origin.clone(), form: self.form, text }
    }

    /// The error that this value is not what it must be.
    pub(super) fn refuse(&self, what: impl Into<String>) -> Error {
        Error::Value(self.origin.clone(), what.into())
    }

    /// Text.
    pub(super) fn text(&self) -> Result<String, Error> {
        self.expose().map(str::to_owned)
    }

    /// The text, where the caller parses it or keeps it secret.
    pub(super) fn expose(&self) -> Result<&str, Error> {
        match self.form {
            ScalarForm::Text | ScalarForm::Number => Ok(&self.text),
            ScalarForm::Truth => Err(self.refuse("expected text")),
        }
    }

    /// What was written, whatever it was.
    pub(super) fn as_written(&self) -> &str {
        &self.text
    }

    /// Text that logs, lists and commands show, and that is on one line therefore.
    pub(super) fn line(&self) -> Result<String, Error> {
        let text = self.text()?;
        match text.chars().any(char::is_control) {
            true => Err(self.refuse("holds a control character")),
            false => Ok(text),
        }
    }

    /// Text that must not be shown.
    pub(super) fn secret(&self) -> Result<SecretString, Error> {
        self.expose().map(SecretString::from)
    }

    /// The path of a file or directory; a relative one starts where the server was started.
    pub(super) fn path(&self) -> Result<PathBuf, Error> {
        self.expose().map(PathBuf::from)
    }

    /// True or false.
    pub(super) fn switch(&self) -> Result<bool, Error> {
        match self.text.to_ascii_lowercase().as_str() {
            "1" | "t" | "true" => Ok(true),
            "0" | "f" | "false" => Ok(false),
            _ => Err(self.refuse("expected true or false")),
        }
    }

    /// A whole number within `range`.
    pub(super) fn whole(&self, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let number = self.text.parse().ok().filter(|_| self.form != ScalarForm::Truth);
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            self.refuse(format!("expected a whole number from {least} to {most}"))
        })
    }

    /// A number of bytes, such as `1048576` or `512MiB`, within `range`.
    pub(super) fn bytes(&self, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let bytes = parse_bytes(&self.text).filter(|_| self.form != ScalarForm::Truth);
        bytes.filter(|bytes| range.contains(bytes)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            self.refuse(format!("expected {least} to {most} bytes, such as 33554432 or 32MiB"))
        })
    }

    /// A span of time: seconds, or text such as `1h30m`.
    pub(super) fn span(&self) -> Result<Duration, Error> {
        let span =
            duration::parse(self.text.trim()).ok().filter(|_| self.form != ScalarForm::Truth);
        span.ok_or_else(|| self.refuse("expected seconds or a span of time, such as 90 or 1h30m"))
    }

    /// The meaning of one of a few words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, Error> {
        let raw = self.text.to_ascii_lowercase();
        let found = words.iter().find(|(word, _)| *word == raw).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.refuse(format!("expected one of: {}", words.join(", ")))
        })
    }
}

/// Digits and a unit, perhaps with blanks between.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[end..].trim().to_ascii_lowercase();
    let (_, size) = BYTE_UNITS.iter().find(|(known, _)| *known == unit)?;
    text[..end].parse::<u64>().ok()?.checked_mul(*size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawValue {
        let environment = Environment::of(|name| (name == "VAULT_UI").then(|| text.to_owned()));
        RawValue::of_environment(&environment, "UI").unwrap()
    }

    #[test]
    fn bytes_come_with_units_of_two_and_of_ten() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("32", Some(32)),
            ("512MiB", Some(512 << 20)),
            ("512 mib", Some(512 << 20)),
            ("1GB", Some(1_000_000_000)),
            ("2k", Some(2_000)),
            ("16777215TiB", Some(16_777_215 << 40)),
            ("16777216TiB", None),
            ("-1", None),
            ("1.5GiB", None),
            ("MiB", None),
            ("1 furlong", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text}");
        }
    }

    #[test]
    fn a_value_is_what_the_asker_takes_it_for() {
        assert!(raw("T").switch().unwrap());
        assert!(!raw("0").switch().unwrap());
        assert_eq!(raw("90").span().unwrap(), Duration::from_secs(90));
        assert_eq!(raw("7").whole(7..=7).unwrap(), 7);
        assert_eq!(raw("Json").choice(&[("json", 1), ("standard", 2)]).unwrap(), 1);
        for error in [
            raw("hunter2").switch().map(|_| ()),
            raw("hunter2").whole(1..=5).map(|_| ()),
            raw("6").whole(1..=5).map(|_| ()),
            raw("hunter2").span().map(|_| ()),
            raw("hunter2").bytes(0..=9).map(|_| ()),
            raw("hunter2").choice(&[("json", ())]),
        ] {
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("VAULT_UI: expected "), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
