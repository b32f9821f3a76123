//! Answers to those who want only what changed since a date (`If-Modified-Since`, RFC 9110, 13.1.3), where a mount is tuned for it.
//!
//! A date has whole seconds, a client may name one of its own, servers follow their leader some time behind, and a long list is made a while after it was
//! decided on. So what changed counts as changed only once no server answers as before any more ([`SETTLED_SECS`]): until then answers bear no date, and
//! nobody whose date is earlier is told to keep what they have. Too late is harmless, since such a client is sent the latest.

use jiff::Timestamp;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use kallisto_api::Response;
use kallisto_engine::{Call, ConditionalReads};

use super::answer;

const IF_MODIFIED_SINCE: &str = "if-modified-since";
const LAST_MODIFIED: &str = "last-modified";

/// How long after a change an answer may still be that from before it, beside how far a server may be behind: a commit that waits for its disk, a
/// long list that is being made, clocks that differ.
const SETTLED_SECS: i64 = 60;

/// What a mount's answers are as of; `None` where nobody knows.
pub(super) type ModifiedAt = Option<i64>;

/// The later of two; unknown if one is.
pub(super) fn later(one: ModifiedAt, other: ModifiedAt) -> ModifiedAt {
    Some(one?.max(other?))
}

/// When issuers and keys changed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StructureModified {
    /// The generation that the change made. Servers of version 0.2 count generations and write no times, so a time is that of its own generation alone.
    pub(super) generation: u64,
    /// In seconds since 1970.
    pub(super) at: i64,
}

impl StructureModified {
    /// `generation:u64 at:i64`, numbers with their first byte first.
    pub(super) fn encode(self) -> Vec<u8> {
        [self.generation.to_be_bytes(), self.at.to_be_bytes()].concat()
    }

    /// Reads the record; `None` when it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (generation, rest) = bytes.split_first_chunk::<8>()?;
        let at = i64::from_be_bytes(rest.try_into().ok()?);
        Some(Self { generation: u64::from_be_bytes(*generation), at })
    }
}

/// Bytes that changed last at `modified`, in seconds since 1970; or that they did not since the request's date.
pub(super) fn raw(
    call: &Call<'_>,
    content_type: &'static str,
    body: Vec<u8>,
    modified: ModifiedAt,
) -> Response {
    if body.is_empty() {
        return answer::raw(content_type, body);
    }
    match ReadCondition::of(call, modified) {
        None => answer::raw(content_type, body),
        Some(condition) if condition.holds() => condition.unchanged(),
        Some(condition) => {
            let headers = condition.headers();
            Response::Foreign { code: 200, content_type, headers, body }
        }
    }
}

/// That what changed last at `modified` did not change since the request's date; `None` if it did, or was not asked for so.
pub(super) fn unchanged(call: &Call<'_>, modified: ModifiedAt) -> Option<Response> {
    ReadCondition::of(call, modified).filter(ReadCondition::holds).map(|one| one.unchanged())
}

/// A request for what changed.
struct ReadCondition {
    /// The date that it names.
    since: i64,
    /// When what is there counts as changed.
    settled: i64,
    now: i64,
    reads: ConditionalReads,
}

impl ReadCondition {
    /// `None` where the mount is not tuned for it, or there is no date.
    fn of(call: &Call<'_>, modified: ModifiedAt) -> Option<Self> {
        let reads = call.context.conditional_reads?;
        let behind = i64::try_from(reads.staleness_max.as_secs()).unwrap_or(i64::MAX);
        let settled = modified?.saturating_add(SETTLED_SECS).saturating_add(behind);
        let [since] = &call.request.headers.values(IF_MODIFIED_SINCE)[..] else { return None };
        let since = DateTimeParser::new().parse_timestamp(since).ok()?.as_second();
        Some(Self { since, settled, now: call.now.as_second(), reads })
    }

    fn holds(&self) -> bool {
        self.since >= self.settled
    }

    /// The date of the answer, if it has come.
    fn headers(&self) -> Vec<(&'static str, String)> {
        let settled = Timestamp::from_second(self.settled).ok();
        let told = settled.filter(|_| self.reads.tells_date && self.now >= self.settled);
        let date = told.and_then(|at| DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok());
        date.into_iter().map(|date| (LAST_MODIFIED, date)).collect()
    }

    fn unchanged(&self) -> Response {
        let headers = self.headers();
        Response::Foreign { code: 304, content_type: "", headers, body: Vec::new() }
    }
}
