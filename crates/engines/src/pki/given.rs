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

    /// Whether the request names the field, be it as null.
    pub(super) fn names(self, name: &str) -> bool {
        self.0.raw(name).is_some()
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

/// The last days of the year 9999, in which certificates end that do not end (RFC 5280, 4.1.2.5), are later than any time that computing with time zones
/// allows: they are computed as days before them.
const LAST_DAYS: [(&str, &str); 2] = [("9999-12-30", "9999-12-27"), ("9999-12-31", "9999-12-28")];
/// How much earlier those are.
const LAST_DAYS_SECS: i64 = 3 * 24 * 3600;

/// A time of RFC 3339, in seconds since 1970.
pub(super) fn parse_time(name: &str, text: &str) -> Result<i64, Error> {
    let earlier = LAST_DAYS
        .iter()
        .find_map(|(day, earlier)| text.strip_prefix(day).map(|time| format!("{earlier}{time}")));
    let later_secs = if earlier.is_some() { LAST_DAYS_SECS } else { 0 };
    let time: Result<Timestamp, _> = earlier.as_deref().unwrap_or(text).parse();
    time.map(|time| time.as_second() + later_secs).map_err(|_| {
        Error::invalid(format!("failed to parse the {name} value {text:?} as a time of RFC 3339"))
    })
}

/// A time as RFC 3339 has it.
pub(super) fn write_time(at: i64) -> String {
    if let Ok(time) = Timestamp::from_second(at) {
        return time.to_string();
    }
    let earlier = Timestamp::from_second(at.saturating_sub(LAST_DAYS_SECS));
    let earlier = earlier.map_or_else(|_| at.to_string(), |time| time.to_string());
    let day = LAST_DAYS
        .iter()
        .find_map(|(day, before)| earlier.strip_prefix(before).map(|time| format!("{day}{time}")));
    day.unwrap_or_else(|| at.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_to_the_last_second_of_the_year_9999() {
        let last = kallisto_pki::time::LAST;
        for (text, at, written) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            ("2049-12-31T23:59:59Z", 2_524_607_999, "2049-12-31T23:59:59Z"),
            ("2028-02-29T12:00:00+02:00", 1_835_431_200, "2028-02-29T10:00:00Z"),
            ("2028-02-29T12:00:00.999Z", 1_835_438_400, "2028-02-29T12:00:00Z"),
            ("9999-12-29T23:59:59Z", last - 2 * 86_400, "9999-12-29T23:59:59Z"),
            ("9999-12-30T23:00:00Z", last - 86_400 - 3_599, "9999-12-30T23:00:00Z"),
            ("9999-12-31T00:00:00Z", last - 86_399, "9999-12-31T00:00:00Z"),
            ("9999-12-31T23:59:59Z", last, "9999-12-31T23:59:59Z"),
            ("9999-12-31T23:59:59.999Z", last, "9999-12-31T23:59:59Z"),
            ("9999-12-31T23:59:59+00:00", last, "9999-12-31T23:59:59Z"),
            ("9999-12-31T23:59:59+02:00", last - 7_200, "9999-12-31T21:59:59Z"),
        ] {
            assert_eq!(parse_time("not_after", text), Ok(at), "{text}");
            assert_eq!(write_time(at), written);
        }
        // What is too late is refused where a certificate would end so.
        assert_eq!(parse_time("not_after", "9999-12-31T23:59:59-01:00"), Ok(last + 3_600));
        for wrong in ["", "2027-02-29T00:00:00Z", "9999-12-32T00:00:00Z", "10000-01-01T00:00:00Z"] {
            assert!(parse_time("not_after", wrong).is_err(), "{wrong}");
        }
    }
}
