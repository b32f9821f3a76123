//! Moments and spans of time.

use jiff::{SignedDuration, Timestamp};
use kallisto_api::{Error, Fields};

/// A moment some seconds later; the end of time when there is none.
pub fn after(from: Timestamp, secs: u64) -> Timestamp {
    let span = SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX));
    from.saturating_add(span).unwrap_or(Timestamp::MAX)
}

/// A span of time in seconds, if it is given.
///
/// # Errors
/// [`Error::Invalid`] naming the field that is no span, or a negative one.
pub fn seconds(fields: Fields<'_>, name: &str) -> Result<Option<u64>, Error> {
    let Some(span) = fields.span(name)? else { return Ok(None) };
    u64::try_from(span.secs()).map(Some).map_err(|_| {
        Error::invalid(format!(
            "error converting input for field \"{name}\": cannot provide negative value '{}'",
            span.secs()
        ))
    })
}
