//! How a schedule fares: a record of each, written by the leader after each try.

use jiff::Timestamp;

use crate::api::error::Error;
use crate::api::json::{self, Json, Map};
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Where the records are in the engine storage of `sys/`.
pub(super) const STATUSES: &str = "snapshot-auto/status/";

/// Names of verified files that are remembered of a schedule; of one that keeps more, the oldest are not told from others.
pub(super) const FILES_MAX: usize = 1_000;

/// How a schedule fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScheduleStatus {
    /// When the last try began, in seconds since 1970; 0 for never.
    pub(crate) tried: i64,
    /// Why it failed; empty when it did not.
    pub(crate) error: String,
    /// Tries that failed since the last that did not.
    pub(crate) failed_in_a_row: u64,
    /// Tries that failed, ever.
    pub(crate) failures: u64,
    /// The last one that was verified: when it began and ended; 0 for none.
    pub(crate) started: i64,
    pub(crate) ended: i64,
    pub(crate) url: String,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) index: u64,
    /// Files that are there, of this schedule.
    pub(crate) kept: u64,
    /// The names of those that were verified, the oldest first: at most [`FILES_MAX`].
    pub(crate) files: Vec<String>,
    /// The names of those that other clusters have put there.
    pub(crate) others: Vec<String>,
    /// Of which store this is said; empty where a version before wrote it.
    pub(crate) store: String,
}

impl ScheduleStatus {
    /// The status of this name; that of one that never ran when there is none.
    pub(crate) fn read(context: &NamespaceContext, name: &str) -> Result<Self, Error> {
        let storage = EngineStorage::builtin(context, MountId::SYSTEM)?;
        let Some(record) = storage.get(&record(name))? else { return Ok(Self::default()) };
        let map = json::parse_object(&record.value)
            .map_err(|_| Error::internal(&"the status of a schedule is damaged"))?;
        Ok(Self::of(&map))
    }

    fn of(map: &Map) -> Self {
        let number = |name: &str| match map.get(name) {
            Some(Json::Number(text)) => text.parse::<u64>().unwrap_or(0),
            _ => 0,
        };
        let time = |name: &str| i64::try_from(number(name)).unwrap_or(0);
        let text = |name: &str| map.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        let names = |name: &str| match map.get(name) {
            Some(Json::Array(names)) => {
                names.iter().filter_map(Json::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        Self {
            tried: time("tried"),
            error: text("error"),
            failed_in_a_row: number("failed_in_a_row"),
            failures: number("failures"),
            started: time("started"),
            ended: time("ended"),
            url: text("url"),
            bytes: number("bytes"),
            records: number("records"),
            index: number("index"),
            kept: number("kept"),
            files: names("files"),
            others: names("others"),
            store: text("store"),
        }
    }

    /// Forgets which files were verified if that was not said of this store: it came with a snapshot of another cluster, whose files these
    /// may be. What 0.2.0 wrote does not say of which store it is; so its files are read again, each when its turn has come.
    pub(super) fn forget_others(&mut self, store: &str) {
        if self.store != store {
            self.files.clear();
            self.others.clear();
        }
    }

    pub(super) fn to_record(&self) -> Vec<u8> {
        Json::object([
            ("tried", self.tried.unsigned_abs().into()),
            ("error", self.error.clone().into()),
            ("failed_in_a_row", self.failed_in_a_row.into()),
            ("failures", self.failures.into()),
            ("started", self.started.unsigned_abs().into()),
            ("ended", self.ended.unsigned_abs().into()),
            ("url", self.url.clone().into()),
            ("bytes", self.bytes.into()),
            ("records", self.records.into()),
            ("index", self.index.into()),
            ("kept", self.kept.into()),
            ("files", Json::strings(self.files.iter().cloned())),
            ("others", Json::strings(self.others.iter().cloned())),
            ("store", self.store.clone().into()),
        ])
        .to_text()
    }

    /// What is shown of it, in the fields of Vault Enterprise, and ours.
    pub(super) fn to_json(&self, next: i64, running: bool) -> Json {
        let time = |secs: i64| match Timestamp::from_second(secs) {
            Ok(time) if secs > 0 => time.to_string().into(),
            _ => Json::Null,
        };
        Json::object([
            ("consecutive_errors", self.failed_in_a_row.into()),
            ("last_attempt_start", time(self.tried)),
            ("last_snapshot_start", time(self.started)),
            ("last_snapshot_end", time(self.ended)),
            ("last_snapshot_error", self.error.clone().into()),
            ("last_snapshot_url", self.url.clone().into()),
            ("last_snapshot_bytes", self.bytes.into()),
            ("last_snapshot_records", self.records.into()),
            ("last_snapshot_index", self.index.into()),
            ("last_snapshot_verified", (self.ended > 0).into()),
            ("next_snapshot_start", time(next)),
            ("running", running.into()),
            ("snapshots_kept", self.kept.into()),
        ])
    }
}

pub(super) fn record(name: &str) -> String {
    format!("{STATUSES}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a copy deletes the files of the cluster that it was made of.
    #[test]
    fn what_was_verified_counts_only_where_it_was_said_of_this_store() {
        let names = |store: &str| {
            let text =
                format!(r#"{{"files":["a"],"others":["b"],"failures":2,"store":"{store}"}}"#);
            let mut status = ScheduleStatus::of(&json::parse_object(text.as_bytes()).unwrap());
            status.forget_others("own");
            assert_eq!(status.failures, 2);
            (status.files.len(), status.others.len())
        };
        assert_eq!(names("own"), (1, 1));
        assert_eq!(names("other"), (0, 0));
        assert_eq!(names(""), (0, 0), "0.2.0 wrote it, here or elsewhere");
    }
}
