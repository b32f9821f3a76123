//! What requests say, read in one way.

use jiff::Timestamp;
use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields, Span};

/// The fields of a request.
#[derive(Clone, Copy)]
pub(super) struct GivenFields<'a>(pub(super) Fields<'a>);

impl<'a> GivenFields<'a> {
    pub(super) const fn of(body: &'a Map) -> Self {
        Self(Fields::new(body))
    }

    /// Whether the field is there at all.
    pub(super) fn has(self, name: &str) -> bool {
        !matches!(self.0.raw(name), None | Some(Json::Null))
    }

    pub(super) fn text(self, name: &str) -> Result<String, Error> {
        self.0.string(name).map(Option::unwrap_or_default)
    }

    pub(super) fn text_or(self, name: &str, default: &str) -> Result<String, Error> {
        Ok(self.0.string(name)?.unwrap_or_else(|| default.to_owned()))
    }

    pub(super) fn flag(self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.0.boolean(name)?.unwrap_or(default))
    }

    pub(super) fn whole(self, name: &str, default: i64) -> Result<i64, Error> {
        Ok(self.0.int(name)?.unwrap_or(default))
    }

    /// A list, trimmed, without what is empty.
    pub(super) fn list(self, name: &str) -> Result<Vec<String>, Error> {
        Ok(self.list_given(name)?.unwrap_or_default())
    }

    pub(super) fn list_given(self, name: &str) -> Result<Option<Vec<String>>, Error> {
        let list = self.0.strings(name)?.map(|items| {
            let trimmed = items.into_iter().map(|item| item.trim().to_owned());
            trimmed.filter(|item| !item.is_empty()).collect()
        });
        Ok(list)
    }

    /// Seconds.
    pub(super) fn secs(self, name: &str, default: i64) -> Result<i64, Error> {
        let span = self.0.span(name)?;
        if span.is_some_and(Span::is_negative) {
            return Err(Error::invalid(format!("{name} cannot be negative")));
        }
        Ok(span.map_or(default, Span::secs))
    }

    /// A time, in seconds since 1970.
    pub(super) fn time(self, name: &str) -> Result<Option<i64>, Error> {
        match self.text(name)?.as_str() {
            "" => Ok(None),
            text => parse_time(name, text).map(Some),
        }
    }
}

/// The time that stands for no end (RFC 5280, 4.1.2.5), which is later than any that computing with time zones allows.
const NO_END: &str = "9999-12-31T23:59:59Z";

/// A time of RFC 3339, in seconds since 1970.
pub(super) fn parse_time(name: &str, text: &str) -> Result<i64, Error> {
    if text == NO_END {
        return Ok(kallisto_pki::time::LAST);
    }
    let time: Result<Timestamp, _> = text.parse();
    time.map(Timestamp::as_second).map_err(|_| {
        Error::invalid(format!("failed to parse the {name} value {text:?} as a time of RFC 3339"))
    })
}

/// A time as RFC 3339 has it.
pub(super) fn write_time(at: i64) -> String {
    if at == kallisto_pki::time::LAST {
        return NO_END.to_owned();
    }
    Timestamp::from_second(at).map_or_else(|_| at.to_string(), |at| at.to_string())
}

/// A span as the API writes it in texts, such as `48h`: without the parts that are zero.
pub(super) fn short(secs: i64) -> String {
    let secs = secs.unsigned_abs();
    match (secs / 3600, secs / 60 % 60, secs % 60) {
        (0, 0, secs) => format!("{secs}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (hours, 0, 0) => format!("{hours}h"),
        (0, minutes, secs) => format!("{minutes}m{secs}s"),
        (hours, minutes, 0) => format!("{hours}h{minutes}m"),
        (hours, minutes, secs) => format!("{hours}h{minutes}m{secs}s"),
    }
}

/// What a pure part says, as an answer to a client.
pub(super) fn refuse(error: kallisto_pki::Error) -> Error {
    match error {
        kallisto_pki::Error::Invalid(why) => Error::Invalid(why),
        kallisto_pki::Error::Machine(what) => Error::internal(&what),
    }
}

/// Names with values, as JSON.
pub(super) fn object<const N: usize>(pairs: [(&str, Json); N]) -> Map {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
