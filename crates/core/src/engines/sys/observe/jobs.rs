//! `sys/internal/jobs`: what this server does by the clock, and what came of it last.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::json::{Json, Map};
use crate::api::response::Response;
use crate::metrics::{JobPlace, JobRecord};
use crate::state::Core;

/// The jobs in the order in which they run; none before the first pass, a second after the start.
pub(in crate::engines::sys) fn read(core: &Core, now: Timestamp) -> Response {
    let leads = core.store.leads();
    let jobs = core.metrics.jobs.all();
    let names = Json::strings(jobs.iter().map(|job| job.facts.name.as_str()));
    let info: Map = jobs
        .into_iter()
        .map(|job| {
            let runs_here = leads || job.facts.place == JobPlace::EveryServer;
            let is_overdue = runs_here && job.is_overdue(now);
            (job.facts.name.clone(), describe(job, is_overdue))
        })
        .collect();
    Response::data(&Json::object([
        ("keys", names),
        ("key_info", info.into()),
        ("leads", leads.into()),
    ]))
}

fn describe(job: JobRecord, is_overdue: bool) -> Json {
    let time = |time: Timestamp| Json::from(time.to_string());
    let (failed_at, error) = job.last_error.unzip();
    let millis = |took: Duration| Json::Number((took.as_micros() as f64 / 1e3).to_string().into());
    Json::object([
        ("about", job.facts.about.into()),
        ("place", job.facts.place.name().into()),
        ("period_seconds", job.facts.period_secs.into()),
        ("runs", job.runs.into()),
        ("failures", job.failures.into()),
        ("running", job.is_running.into()),
        ("failing", job.is_failing.into()),
        ("overdue", is_overdue.into()),
        ("last_start", job.last_start.map_or(Json::Null, time)),
        ("last_duration_ms", job.last_duration.map_or(Json::Null, millis)),
        ("last_error", error.map_or(Json::Null, Json::from)),
        ("last_error_time", failed_at.map_or(Json::Null, time)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{JobFacts, JobRecords};

    #[test]
    fn how_long_a_run_took_is_told_in_milliseconds_and_their_parts() {
        let records = JobRecords::default();
        let (name, about) = ("j".to_owned(), "Does.");
        let facts = JobFacts { name, about, period_secs: 1, place: JobPlace::Leader };
        records.enter(std::iter::once(facts));
        assert!(records.start_if_due(0, Timestamp::UNIX_EPOCH));
        records.end(0, Duration::from_micros(12_345), None);
        let told = describe(records.all().remove(0), false);
        assert_eq!(told.as_object().unwrap()["last_duration_ms"], Json::Number("12.345".into()));
    }
}
