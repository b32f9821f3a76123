//! Times as certificates write them: in seconds since 1970.

use std::time::Duration;

use der::DateTime;
use x509_cert::time::Time;

use crate::error::{Error, Result};

/// The last second that a certificate can name: 9999-12-31T23:59:59Z.
pub const LAST: i64 = 253_402_300_799;

/// UTCTime to 2049, then GeneralizedTime.
pub(crate) fn encode(at: i64) -> Result<Time> {
    let since = u64::try_from(at).map_err(|_| Error::invalid("a time before 1970"))?;
    let date = DateTime::from_unix_duration(Duration::from_secs(since))
        .map_err(|_| Error::invalid("a time after the year 9999"))?;
    Ok(Time::from(date))
}

pub(crate) fn decode(time: Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}
