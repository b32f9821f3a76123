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
