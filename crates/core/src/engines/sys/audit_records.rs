//! `sys/kallisto/audit/:device/records`: what a file device of this server has written, the newest first.
//!
//! For operators. A file is looked through from its end, [`SCANNED_BYTES_MAX`] at a time; `next` goes on in front of what was seen, by its
//! place in the file. Values are masked in the file and stay so. With `raw=true` the lines come as they are, in the order of the file, for
//! whoever recomputes the chain: a server need not be believed. With `follow=true` they come as they are written ([`audit_follow`]).
//!
//! Only what this server wrote is here: each server of a cluster has files of its own, and a file that was moved away is not looked for.

use std::path::PathBuf;

use jiff::Timestamp;
use kallisto_audit::{DeviceSpec, INTENT_HEADER, LineBack, LinesBack, file_of};
use memchr::memmem;

use super::audit_follow;
use crate::api::error::Error;
use crate::api::fields::Fields;
use crate::api::json::{self, Json, Map};
use crate::api::response::Response;
use crate::dispatch::route_handler::RouteCall;

/// Bytes of a file that one request looks at.
const SCANNED_BYTES_MAX: u64 = 64 << 20;
/// Bytes of records in an answer, beyond which it ends.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Most records in an answer, and how many come when nobody says.
const RECORDS_MAX: usize = 1_000;
const RECORDS_DEFAULT: usize = 100;

/// Which records are asked for.
pub(super) struct RecordFilter {
    from_seq: Option<u64>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// A path, or with a final `*` the beginning of one.
    path: String,
    /// The id of an entity, or a display name.
    entity: String,
    operation: String,
    outcome: Option<RecordOutcome>,
    /// An address that asked, without its port.
    address: String,
    /// What was said in `X-Kallisto-Intent`.
    intent: String,
    /// A text of the line, such as the mask of a value.
    contains: String,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordOutcome {
    Ok,
    Denied,
    Error,
}

/// What a record says to a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Yes,
    No,
    /// It and all before it are too old.
    TooOld,
}

/// Answers `GET sys/kallisto/audit/:device/records`.
///
/// # Errors
/// [`Error::Invalid`] for a device that writes no file, or a parameter that is none.
pub(super) fn read(run: &RouteCall<'_>) -> Result<Response, Error> {
    let query = run.call.query_fields();
    let fields = Fields::new(&query);
    let filter = RecordFilter::from_fields(fields)?;
    let limit = fields.int("limit")?.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(RECORDS_DEFAULT).min(RECORDS_MAX);
    let is_raw = fields.boolean("raw")?.unwrap_or(false);
    let end = match fields.string("next")?.filter(|next| !next.is_empty()) {
        None => None,
        Some(next) => Some(next.parse().map_err(|_| wrong_next())?),
    };
    let file = file_named(run)?;
    if fields.boolean("follow")?.unwrap_or(false) {
        if end.is_some() {
            return Err(Error::invalid("'next' and 'follow' do not go together"));
        }
        return audit_follow::open(run, &file, filter, is_raw);
    }
    let lines =
        LinesBack::open(&file, end, SCANNED_BYTES_MAX).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidInput if end.is_some() => wrong_next(),
            std::io::ErrorKind::NotFound => Error::NotFound,
            _ => Error::internal(&error),
        })?;
    let (found, next) = scan(lines, &filter, limit)?;
    let next = next.map_or(Json::Null, |at| at.to_string().into());
    if is_raw {
        return Ok(raw(found, next));
    }
    let parsed = found.iter().filter_map(|line| parse(line)).map(Json::Object);
    Ok(Response::data(&Json::object([("records", Json::Array(parsed.collect())), ("next", next)])))
}

/// The file that the device of the request writes.
fn file_named(run: &RouteCall<'_>) -> Result<PathBuf, Error> {
    let device = run.params.get("device");
    let records = run.core.audit.records();
    let record = records.get(device);
    let record =
        record.ok_or_else(|| Error::invalid(format!("unknown audit backend \"{device}/\"")))?;
    let spec = DeviceSpec::parse(&record.kind, &record.options).map_err(Error::Invalid)?;
    file_of(&spec).ok_or_else(|| Error::invalid("only what a file device wrote can be read"))
}

fn wrong_next() -> Error {
    Error::invalid("'next' is not what this server gave for this file; start over")
}

/// The lines that fit, the newest first, and where to go on; `None` when all were seen that may fit.
fn scan(
    mut lines: LinesBack,
    filter: &RecordFilter,
    limit: usize,
) -> Result<(Vec<Vec<u8>>, Option<u64>), Error> {
    let (mut found, mut bytes, mut seen) = (Vec::new(), 0, None);
    loop {
        if found.len() == limit || bytes > ANSWER_BYTES_MAX {
            return Ok((found, seen.filter(|at| *at > 0)));
        }
        match lines.previous().map_err(|error| Error::internal(&error))? {
            LineBack::Beginning => return Ok((found, None)),
            LineBack::BudgetSpent if seen.is_none() => {
                return Err(Error::TooLarge(format!(
                    "a record is longer than {SCANNED_BYTES_MAX} bytes"
                )));
            }
            LineBack::BudgetSpent => return Ok((found, seen)),
            LineBack::Line(line, start) => {
                seen = Some(start);
                match filter.judge(&line) {
                    Fit::Yes => {
                        bytes += line.len();
                        found.push(line);
                    }
                    Fit::No => {}
                    Fit::TooOld => return Ok((found, None)),
                }
            }
        }
    }
}

/// The lines in the order of the file, and one of our own with where to go on.
fn raw(found: Vec<Vec<u8>>, next: Json) -> Response {
    let mut body = Vec::with_capacity(found.iter().map(|line| line.len() + 1).sum::<usize>() + 32);
    for line in found.into_iter().rev() {
        body.extend_from_slice(&line);
        body.push(b'\n');
    }
    body.extend_from_slice(&Json::object([("next", next)]).to_text());
    body.push(b'\n');
    Response::Text { code: 200, content_type: "application/x-ndjson", body }
}

/// The record of a line, behind the prefix of its device.
fn parse(line: &[u8]) -> Option<Map> {
    let at = memchr::memchr(b'{', line)?;
    json::parse_object(&line[at..]).ok()
}

impl RecordFilter {
    pub(super) fn from_fields(fields: Fields<'_>) -> Result<Self, Error> {
        let time = |name: &str| match fields.string(name)?.filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                Error::invalid(format!("'{name}' must be a time such as 2027-01-31T08:00:00Z"))
            }),
        };
        let text = |name: &str| Ok::<_, Error>(fields.string(name)?.unwrap_or_default());
        let outcome = match text("outcome")?.as_str() {
            "" => None,
            "ok" => Some(RecordOutcome::Ok),
            "denied" => Some(RecordOutcome::Denied),
            "error" => Some(RecordOutcome::Error),
            _ => return Err(Error::invalid("'outcome' must be ok, denied or error")),
        };
        Ok(Self {
            from_seq: fields.int("from_seq")?.and_then(|seq| u64::try_from(seq).ok()),
            since: time("since")?,
            until: time("until")?,
            path: text("path")?,
            entity: text("entity")?,
            operation: text("operation")?,
            outcome,
            address: text("address")?,
            intent: text("intent")?,
            contains: text("contains")?,
        })
    }

    /// Whether a time or a number says where to begin.
    pub(super) const fn has_start(&self) -> bool {
        self.since.is_some() || self.from_seq.is_some()
    }

    /// Forgets where to begin: everything from here on is behind it.
    pub(super) fn pass_start(&mut self) {
        (self.since, self.from_seq) = (None, None);
    }

    /// Whether no record can be refused.
    fn takes_all(&self) -> bool {
        let texts = [
            &self.path,
            &self.entity,
            &self.operation,
            &self.address,
            &self.intent,
            &self.contains,
        ];
        !self.has_start()
            && self.until.is_none()
            && self.outcome.is_none()
            && texts.into_iter().all(String::is_empty)
    }

    pub(super) fn judge(&self, line: &[u8]) -> Fit {
        if self.takes_all() {
            return Fit::Yes;
        }
        // A text that is nowhere in the line is no reason to read it; its age has to be known all the same.
        let may_fit = [&self.entity, &self.operation, &self.address, &self.intent, &self.contains]
            .into_iter()
            .all(|text| text.is_empty() || memmem::find(line, text.as_bytes()).is_some());
        let needs_age = self.has_start();
        if !may_fit && !needs_age {
            return Fit::No;
        }
        let Some(record) = parse(line) else { return Fit::No };
        let at = record.get("time").and_then(Json::as_str).and_then(|at| at.parse().ok());
        let chain = record.get("chain").and_then(Json::as_object);
        let seq = match chain.and_then(|chain| chain.get("seq")) {
            Some(Json::Number(seq)) => seq.parse::<u64>().ok(),
            _ => None,
        };
        let is_older = at.zip(self.since).is_some_and(|(at, since): (Timestamp, _)| at < since)
            || seq.zip(self.from_seq).is_some_and(|(seq, from)| seq < from);
        if is_older {
            return Fit::TooOld;
        }
        if !may_fit
            || at.zip(self.until).is_some_and(|(at, until)| at > until)
            || !self.takes(&record)
        {
            return Fit::No;
        }
        Fit::Yes
    }

    fn takes(&self, record: &Map) -> bool {
        let text = |object: &str, name: &str| {
            let inner = record.get(object).and_then(Json::as_object);
            inner.and_then(|inner| inner.get(name)).and_then(Json::as_str).unwrap_or_default()
        };
        let path = text("request", "path");
        let is_path = match self.path.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => self.path.is_empty() || path == self.path,
        };
        let is_entity = self.entity.is_empty()
            || text("auth", "entity_id") == self.entity
            || text("auth", "display_name") == self.entity;
        let is_operation =
            self.operation.is_empty() || text("request", "operation") == self.operation;
        let is_address =
            self.address.is_empty() || text("request", "remote_address") == self.address;
        let is_intent = self.intent.is_empty() || has_intent(record, &self.intent);
        is_path
            && is_entity
            && is_operation
            && is_address
            && is_intent
            && self.outcome.is_none_or(|wanted| {
                outcome(record) == Some(wanted)
                    || (wanted == RecordOutcome::Error
                        && outcome(record) == Some(RecordOutcome::Denied))
            })
    }
}

/// Whether a request said what it is for, in these words.
fn has_intent(record: &Map, intent: &str) -> bool {
    let request = record.get("request").and_then(Json::as_object);
    let headers = request.and_then(|request| request.get("headers")).and_then(Json::as_object);
    match headers.and_then(|headers| headers.get(INTENT_HEADER)) {
        Some(Json::Array(values)) => values.iter().any(|value| value.as_str() == Some(intent)),
        _ => false,
    }
}

/// What came of the request of an answer's record; `None` for the record of a request that is under way.
fn outcome(record: &Map) -> Option<RecordOutcome> {
    let error = record.get("error").and_then(Json::as_str).unwrap_or_default();
    match record.get("type").and_then(Json::as_str) {
        Some("response" | "exchange") if error.is_empty() => Some(RecordOutcome::Ok),
        Some(_) if error.contains("denied") => Some(RecordOutcome::Denied),
        Some(_) if !error.is_empty() => Some(RecordOutcome::Error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of a record with these members, behind a prefix.
    fn line(members: &str) -> Vec<u8> {
        format!("@cee: {{{members}}}").into_bytes()
    }

    fn judge(pairs: &[(&str, &str)], members: &str) -> Fit {
        let fields: Map =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        RecordFilter::from_fields(Fields::new(&fields)).unwrap().judge(&line(members))
    }

    #[test]
    fn a_record_fits_by_each_of_what_is_asked_for() {
        let record = format!(
            r#""time":"2027-01-31T08:00:00Z","type":"response","chain":{{"seq":7}},
            "auth":{{"entity_id":"e1","display_name":"ada"}},
            "request":{{"path":"secret/data/a","operation":"read","remote_address":"10.0.0.1",
            "headers":{{"{INTENT_HEADER}":["backup","restore"]}}}}"#
        );
        for (name, value, fit) in [
            ("path", "secret/data/a", Fit::Yes),
            ("path", "secret/data/", Fit::No),
            ("path", "secret/*", Fit::Yes),
            ("path", "sys/*", Fit::No),
            ("entity", "e1", Fit::Yes),
            ("entity", "ada", Fit::Yes),
            ("entity", "e", Fit::No),
            ("operation", "read", Fit::Yes),
            ("operation", "rea", Fit::No),
            ("address", "10.0.0.1", Fit::Yes),
            ("address", "10.0.0", Fit::No),
            ("intent", "restore", Fit::Yes),
            ("intent", "store", Fit::No),
            ("contains", "ecret/dat", Fit::Yes),
            ("contains", "nowhere", Fit::No),
            ("outcome", "ok", Fit::Yes),
            ("outcome", "error", Fit::No),
            ("outcome", "denied", Fit::No),
            ("since", "2027-01-31T08:00:00Z", Fit::Yes),
            ("since", "2027-01-31T08:00:01Z", Fit::TooOld),
            ("until", "2027-01-31T08:00:00Z", Fit::Yes),
            ("until", "2027-01-31T07:59:59Z", Fit::No),
            ("from_seq", "7", Fit::Yes),
            ("from_seq", "6", Fit::Yes),
            ("from_seq", "8", Fit::TooOld),
        ] {
            assert_eq!(judge(&[(name, value)], &record), fit, "{name}={value}");
        }
        // All that is said has to fit, and what is too old is so whatever else is said.
        let (path, entity) = (("path", "secret/data/a"), ("entity", "e1"));
        assert_eq!(judge(&[path, entity], &record), Fit::Yes);
        assert_eq!(judge(&[path, ("entity", "e2")], &record), Fit::No);
        assert_eq!(judge(&[("path", "x"), entity], &record), Fit::No);
        assert_eq!(judge(&[("entity", "e2"), ("from_seq", "8")], &record), Fit::TooOld);
        assert_eq!(judge(&[("entity", "e2"), ("from_seq", "7")], &record), Fit::No);
        assert_eq!(judge(&[], "rubbish"), Fit::Yes);
        assert_eq!(judge(&[path], "rubbish"), Fit::No);
    }

    /// What a page of lines of these sizes has, looked at no further than `budget`: how many, and where to go on.
    fn page(name: &str, sizes: &[usize], budget: u64) -> Result<(usize, Option<u64>), Error> {
        let path =
            std::env::temp_dir().join(format!("kallisto-scan-{}-{name}", std::process::id()));
        let text: String = sizes.iter().map(|size| "x".repeat(*size) + "\n").collect();
        #[expect(clippy::disallowed_methods, reason = "the test writes the file that is read")]
        std::fs::write(&path, text).unwrap();
        let lines = LinesBack::open(&path, None, budget).unwrap();
        std::fs::remove_file(path).unwrap();
        let filter = RecordFilter::from_fields(Fields::new(&Map::new())).unwrap();
        scan(lines, &filter, RECORDS_MAX).map(|(found, next)| (found.len(), next))
    }

    #[test]
    fn a_page_ends_where_no_more_may_be_looked_at_and_says_where() {
        assert_eq!(page("all", &[99, 99], 1_000), Ok((2, None)));
        assert_eq!(page("some", &[99, 99], 150), Ok((1, Some(100))));
        let longer = page("longer", &[99, 99], 50);
        assert!(matches!(longer, Err(Error::TooLarge(_))), "{longer:?}");
    }

    #[test]
    fn a_page_has_no_more_bytes_than_an_answer_may_and_a_line() {
        let half = ANSWER_BYTES_MAX / 2;
        let whole = u64::try_from(half + 1).unwrap();
        assert_eq!(page("bytes", &[half; 4], SCANNED_BYTES_MAX), Ok((3, Some(whole))));
    }

    #[test]
    fn what_came_of_a_request_is_in_the_record_of_its_answer() {
        let fits = |members: &str| {
            ["ok", "denied", "error"]
                .map(|wanted| judge(&[("outcome", wanted)], members) == Fit::Yes)
        };
        for (members, ok_denied_error) in [
            (r#""type":"response""#, [true, false, false]),
            (r#""type":"exchange","error":"""#, [true, false, false]),
            (r#""type":"request""#, [false, false, false]),
            (r#""type":"response","error":"1 error: permission denied""#, [false, true, true]),
            (r#""type":"request","error":"denied""#, [false, true, true]),
            (r#""type":"response","error":"no route""#, [false, false, true]),
            (r#""error":"no route""#, [false, false, false]),
        ] {
            assert_eq!(fits(members), ok_denied_error, "{members}");
        }
    }
}
