//! It goes on: once everything runs and everybody reaches everybody, somebody leads and all members catch up within a bounded time.

use std::time::Duration;

use super::{InvariantViolation, violated};

/// The longest that may take. An election takes a second or two here, a proposal that nobody decides ten.
pub(crate) const HEALED_WITHIN: Duration = Duration::from_secs(60);

/// It did not.
pub(crate) fn stuck(standing: &str) -> InvariantViolation {
    let secs = HEALED_WITHIN.as_secs();
    violated("it goes on")(format!("{secs} s after everything was mended: {standing}"))
}
