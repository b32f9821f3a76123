//! The workload itself: a core over memory, puts, gets, and what they took.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use kallisto_core::{
    Core, Error, Operation, Path, Request, Response, RouteAccess, ServerInfo, TokenText,
};
use kallisto_listener::{SystemClock, WallClock};
use kallisto_store::MemoryStore;
use secrecy::{ExposeSecret, SecretString};

use crate::wait::ready;

const PATHS: u64 = 10;
/// Operations between two updates of the progress bar.
const PROGRESS_STEP: u64 = 1 << 14;
/// Longest latency told apart, in nanoseconds: ten seconds.
const LATENCY_MAX_NS: u64 = 10_000_000_000;

/// What a run does.
#[derive(Clone, Copy)]
pub(super) struct WorkloadPlan {
    pub(super) puts: u64,
    pub(super) gets: u64,
    /// Bytes of each secret's value.
    pub(super) value_bytes: usize,
    /// Seed of the order of the gets.
    pub(super) seed: u64,
}

/// What one kind of operation took.
pub(super) struct WorkloadPhase {
    pub(super) count: u64,
    pub(super) elapsed: Duration,
    pub(super) latency_ns: Histogram<u64>,
}

/// The outcome of a run.
pub(super) struct WorkloadFigures {
    pub(super) plan: WorkloadPlan,
    pub(super) writes: WorkloadPhase,
    pub(super) reads: WorkloadPhase,
    /// Gets that returned the value that was put.
    pub(super) hits: u64,
    pub(super) load_factor: f64,
}

/// Runs the puts, then the gets; `watched` draws a progress bar on stderr.
pub(super) fn run(plan: WorkloadPlan, watched: bool) -> Result<WorkloadFigures, Error> {
    let WorkloadPlan { puts, gets, value_bytes, seed } = plan;
    let (core, token) = open()?;
    let mut order = fastrand::Rng::with_seed(seed);
    let body = format!("{{\"data\":{{\"value\":\"{}\"}}}}", "v".repeat(value_bytes));
    let expected = format!("{{\"data\":{{\"value\":\"{}\"}}", "v".repeat(value_bytes));

    let mut path = String::new();
    let bar = progress(puts, "put", watched);
    let writes = measure(puts, &bar, |at| {
        path_of(at, &mut path);
        let request = request(Operation::Update, &path, &token, body.as_bytes())?;
        ready(core.handle(&request)).map(|_| ())
    })?;
    let bar = progress(gets, "get", watched);
    let mut path = String::new();
    let mut hits = 0;
    let reads = measure(gets, &bar, |_| {
        path_of(order.u64(..puts), &mut path);
        let request = request(Operation::Read, &path, &token, b"")?;
        if let Response::Logical(found) = ready(core.handle(&request))? {
            hits += u64::from(found.data.starts_with(expected.as_bytes()));
        }
        Ok(())
    })?;
    let load_factor = core.view().map_or(0.0, |view| view.hot_stats().1);
    // The process ends after this; freeing every entry by itself would only delay it.
    std::mem::forget(core);
    Ok(WorkloadFigures { plan, writes, reads, hits, load_factor })
}

fn open() -> Result<(Core, SecretString), Error> {
    let info = ServerInfo {
        version: kallisto_command::VAULT_API_VERSION.to_owned(),
        build_date: String::new(),
        unauthenticated_rekey: RouteAccess::Token,
        ..ServerInfo::default()
    };
    let core = Core::new(Arc::new(MemoryStore::new()), info);
    let made = pollster::block_on(core.initialize_dev(None, SystemClock.now()))?;
    Ok((core, made.root_token))
}

/// Writes the path of the `at`th key; by hand, since formatting would be a tenth of a get.
fn path_of(at: u64, path: &mut String) {
    path.clear();
    path.push_str("secret/data/bench/p");
    push_number(at % PATHS, path);
    path.push_str("/k");
    push_number(at / PATHS, path);
}

fn push_number(number: u64, text: &mut String) {
    if number >= 10 {
        push_number(number / 10, text);
    }
    text.push(char::from_digit((number % 10) as u32, 10).unwrap_or('0'));
}

fn request<'a>(
    operation: Operation,
    path: &'a str,
    token: &'a SecretString,
    body: &'a [u8],
) -> Result<Request<'a>, Error> {
    Ok(Request {
        token: Some(TokenText::new(token.expose_secret())),
        body,
        ..Request::new(
            operation,
            Path::decode(path).map_err(|error| Error::invalid(error.to_string()))?,
            SystemClock.now(),
        )
    })
}

fn measure(
    count: u64,
    bar: &ProgressBar,
    mut operation: impl FnMut(u64) -> Result<(), Error>,
) -> Result<WorkloadPhase, Error> {
    let mut latency_ns =
        Histogram::new_with_max(LATENCY_MAX_NS, 3).map_err(|e| Error::internal(&e))?;
    let begin = clock();
    let mut before = begin;
    for at in 0..count {
        operation(at)?;
        let after = clock();
        let took = u64::try_from((after - before).as_nanos()).unwrap_or(LATENCY_MAX_NS);
        latency_ns.saturating_record(took);
        before = after;
        if at % PROGRESS_STEP == 0 {
            bar.set_position(at);
        }
    }
    let elapsed = before - begin;
    bar.finish_and_clear();
    Ok(WorkloadPhase { count, elapsed, latency_ns })
}

#[expect(clippy::disallowed_methods, reason = "measuring time is what this command does")]
fn clock() -> Instant {
    Instant::now()
}

/// A bar on stderr; a hidden one when nobody watches.
pub(super) fn progress(count: u64, what: &'static str, watched: bool) -> ProgressBar {
    if !watched {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} [{wide_bar}] {pos}/{len} {per_sec} {eta}");
    let bar = ProgressBar::new(count).with_message(what);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_was_put_is_read_back() {
        kallisto_core::set_engines(kallisto_core::EngineSet {
            engines: &[kallisto_engines::ENGINES],
            identity_oidc: &kallisto_engines::IDENTITY_OIDC,
        });
        let plan = WorkloadPlan { puts: 2_000, gets: 3_000, value_bytes: 32, seed: 7 };
        let figures = run(plan, false).unwrap();
        assert_eq!(figures.hits, 3_000);
        assert_eq!(figures.writes.latency_ns.len(), 2_000);
        assert_eq!(figures.reads.latency_ns.len(), 3_000);
        assert!(figures.load_factor > 0.0 && figures.load_factor <= 1.0);
    }
}
