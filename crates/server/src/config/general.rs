//! What stands outside of the larger stanzas: addresses, leases, durability, logging, telemetry.

use std::ops::RangeInclusive;
use std::time::Duration;

use kallisto_core::MetricsSettings;
use kallisto_store::Durability;
use tracing_subscriber::filter::LevelFilter;
use ureq::http::Uri;
use ureq::http::uri::Authority;

use super::error::Error;
use super::model::{LeaseTtls, LogConfig, LogFile, LogFormat, TelemetryConfig};
use super::raw_value::RawValue;
use super::section::Unused::{Ignored, Refused, Silent};
use super::section::{ConfigSection, UnusedKeys};
use kallisto_command::config::Environment;

/// Least memory for secrets kept ready: below it the table thrashes.
const CACHE_BYTES_MIN: u64 = 1 << 20;
/// Most memory for them.
const CACHE_BYTES_MAX: u64 = 1 << 50;
/// Longest lease that fits every computation with it: 292 years in nanoseconds is the wire's end.
const LEASE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How far in the past a view may be that answers: an election takes a part of a second, and nobody wants to hear of an hour ago.
const STALENESS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// The levels of the log, in Vault's words.
pub(crate) const LEVELS: [(&str, LevelFilter); 9] = [
    ("trace", LevelFilter::TRACE),
    ("debug", LevelFilter::DEBUG),
    ("info", LevelFilter::INFO),
    // Vault's level between info and warn, which we do not have: the one that shows more.
    ("notice", LevelFilter::INFO),
    ("warn", LevelFilter::WARN),
    ("warning", LevelFilter::WARN),
    ("err", LevelFilter::ERROR),
    ("error", LevelFilter::ERROR),
    ("off", LevelFilter::OFF),
];
/// What the file of the log is called in a folder.
const LOG_FILE: &str = "kallisto.log";
/// Most bytes of a file of the log before the next begins.
const ROTATE_BYTES_MAX: u64 = 1 << 40;
/// How long a file of the log is written when the configuration does not say, as in Vault.
const ROTATE_PERIOD_DEFAULT: Duration = Duration::from_secs(24 * 3600);
const ROTATE_PERIOD_MIN: Duration = Duration::from_secs(1);
/// Most files of the log that can be kept.
const ROTATE_FILES_MAX: u64 = 10_000;
/// Least time between two counts by name, each of which looks at every token.
const USAGE_PERIOD_MIN: Duration = Duration::from_secs(10);
/// Most names of a kind in metrics.
const CARDINALITY_MAX: u64 = 10_000;
/// How long metrics are shown when the configuration does not say.
const RETENTION_DEFAULT: Duration = Duration::from_secs(24 * 3600);

/// Keys at the top that this server understands and has no use for.
const UNUSED: [(&str, super::section::Unused); 34] = [
    ("plugin_*", Silent),
    ("disable_cache", Silent),
    ("disable_printable_check", Silent),
    ("disable_clustering", Ignored),
    ("disable_performance_standby", Silent),
    ("disable_sealwrap", Silent),
    ("disable_indexing", Silent),
    ("disable_sentinel_trace", Silent),
    ("disable_ssct", Silent),
    ("cluster_cipher_suites", Ignored),
    ("introspection_endpoint", Ignored),
    ("default_max_request_duration", Ignored),
    ("detect_deadlocks", Silent),
    ("imprecise_lease_role_tracking", Silent),
    ("remove_irrevocable_lease_after", Ignored),
    ("enable_response_header_hostname", Ignored),
    ("enable_response_header_raft_node_id", Ignored),
    ("enable_multiseal", Refused),
    ("enable_post_unseal_trace", Silent),
    ("post_unseal_trace_directory", Silent),
    ("experiments", Silent),
    ("license_path", Silent),
    ("ha_storage", Ignored),
    ("ha_backend", Ignored),
    ("entropy", Ignored),
    ("sentinel", Ignored),
    ("replication", Ignored),
    ("reporting", Ignored),
    ("request_limiter", Ignored),
    ("user_lockout", Ignored),
    ("observations", Ignored),
    ("administrative_namespace_path", Refused),
    ("kms_library", Ignored),
    ("unsafe_allow_api_audit_creation", Silent),
];

/// Keys of `telemetry` for which there is nothing. Metrics are served, not sent, and none of these is among them: who asks for it would wait
/// in vain.
const UNUSED_TELEMETRY: [(&str, super::section::Unused); 10] = [
    ("enable_hostname_label", Refused),
    ("lease_metrics_epsilon", Refused),
    ("num_lease_metrics_buckets", Refused),
    ("add_*", Refused),
    ("rollback_metrics_include_mount_point", Refused),
    ("statsite_address", Refused),
    ("statsd_address", Refused),
    ("circonus_*", Refused),
    ("dogstatsd_*", Refused),
    ("stackdriver_*", Refused),
];

/// A URL by which this server is reached; the environment wins.
pub(super) fn url(
    top: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
    key: &'static str,
    variable: &str,
) -> Result<Option<String>, Error> {
    let raw = environment_first(environment, variable, top.raw_value(key)?);
    raw.map(|raw| checked_url(&raw)).transpose()
}

/// The URL by which other servers reach this one: they connect to its host and port, and nothing is behind these.
pub(super) fn cluster_url(
    top: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
) -> Result<Option<String>, Error> {
    let raw = top.raw_value("cluster_addr")?;
    let Some(raw) = environment_first(environment, "CLUSTER_ADDR", raw) else { return Ok(None) };
    let text = checked_url(&raw)?;
    match text.parse::<Uri>().is_ok_and(|url| matches!(url.path(), "" | "/")) {
        true => Ok(Some(text)),
        false => Err(raw.refuse("expected a URL without a path")),
    }
}

/// The URL of a server without a slash at its end.
pub(super) fn checked_url(raw: &RawValue) -> Result<String, Error> {
    let text = raw.expose()?.trim_end_matches('/');
    let url = text.parse::<Uri>().ok();
    let known = url.filter(|url| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.host().is_some_and(|host| !host.is_empty())
            && url.authority().is_some_and(|authority| {
                !authority.as_str().contains('@') && has_sound_port(authority)
            })
            && url.query().is_none()
    });
    match known {
        Some(_) => Ok(text.to_owned()),
        None => Err(raw.refuse("expected a URL such as https://kallisto.example:8200")),
    }
}

/// Whether there is no port behind the host, or one that can be connected to. One that is none reads as if it were not there.
fn has_sound_port(authority: &Authority) -> bool {
    match authority.as_str().strip_prefix(authority.host()) {
        Some("") => true,
        Some(port) => port
            .strip_prefix(':')
            .is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)),
        None => false,
    }
}

/// What the environment says, else what the file says.
pub(super) fn environment_first(
    environment: &Environment<'_>,
    variable: &str,
    raw: Option<RawValue>,
) -> Option<RawValue> {
    RawValue::of_environment(environment, variable).or(raw)
}

/// A key that is true or false, off unless given; the environment wins.
pub(super) fn switch(
    top: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
    key: &'static str,
    variable: &str,
) -> Result<Option<bool>, Error> {
    let raw = environment_first(environment, variable, top.raw_value(key)?);
    raw.map(|raw| raw.switch()).transpose()
}

pub(super) fn cache_size(top: &mut ConfigSection<'_>) -> Result<Option<u64>, Error> {
    let raw = top.raw_value("cache_size")?;
    raw.map(|raw| raw.bytes(CACHE_BYTES_MIN..=CACHE_BYTES_MAX)).transpose()
}

/// How far in the past the view of a server may be that answers from it.
pub(super) fn max_staleness(top: &mut ConfigSection<'_>) -> Result<Option<Duration>, Error> {
    let Some(raw) = top.raw_value("max_staleness")? else { return Ok(None) };
    let span = raw.span()?;
    match STALENESS.contains(&span) {
        true => Ok(Some(span)),
        false => Err(raw.refuse("expected 1s to 1h")),
    }
}

pub(super) fn lease_ttls(top: &mut ConfigSection<'_>) -> Result<LeaseTtls, Error> {
    let default = lease_ttl(top, "default_lease_ttl")?;
    let max = lease_ttl(top, "max_lease_ttl")?;
    if let (Some((raw, default)), Some((_, max))) = (&default, &max)
        && default > max
    {
        return Err(raw.refuse("is longer than max_lease_ttl"));
    }
    Ok(LeaseTtls { default: default.map(|(_, ttl)| ttl), max: max.map(|(_, ttl)| ttl) })
}

/// A bound on leases; zero stands for the built-in one.
fn lease_ttl(
    top: &mut ConfigSection<'_>,
    key: &'static str,
) -> Result<Option<(RawValue, Duration)>, Error> {
    let Some(raw) = top.raw_value(key)? else { return Ok(None) };
    let ttl = raw.span()?;
    match ttl {
        Duration::ZERO => Ok(None),
        _ if ttl > LEASE_MAX => Err(raw.refuse("is longer than 100 years")),
        _ => Ok(Some((raw, ttl))),
    }
}

pub(super) fn durability(
    top: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<Durability, Error> {
    let is_batch = top
        .raw_value("durability")?
        .map_or(Ok(false), |raw| raw.choice(&[("strict", false), ("batch", true)]))?;
    let ops = top.raw_value("durability_ops")?;
    let interval = top.raw_value("durability_interval")?;
    if !is_batch {
        for raw in [&ops, &interval].into_iter().flatten() {
            warnings.push(format!("{} has no effect: durability is strict", raw.origin));
        }
        return Ok(Durability::Strict);
    }
    let ops = ops.map_or(Ok(Durability::OPS_DEFAULT), |raw| raw.whole(1..=Durability::OPS_MAX))?;
    let interval = match interval {
        None => Durability::INTERVAL_DEFAULT,
        Some(raw) => {
            let interval = raw.span()?;
            if interval.is_zero() || interval > Durability::INTERVAL_MAX {
                return Err(raw.refuse("expected more than nothing and at most 1h"));
            }
            interval
        }
    };
    Ok(Durability::Batch { ops, interval })
}

pub(super) fn log(
    top: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
) -> Result<LogConfig, Error> {
    let level = environment_first(environment, "LOG_LEVEL", top.raw_value("log_level")?);
    let format = environment_first(environment, "LOG_FORMAT", top.raw_value("log_format")?);
    let requests = top.raw_value("log_requests_level")?;
    let formats = [("standard", LogFormat::Standard), ("json", LogFormat::Json)];
    Ok(LogConfig {
        level: level.map(|raw| raw.choice(&LEVELS)).transpose()?,
        requests: requests.map(|raw| raw.choice(&LEVELS)).transpose()?,
        format: format.map(|raw| raw.choice(&formats)).transpose()?,
        file: log_file(top)?,
    })
}

/// The file that is logged to, and when the next one begins.
fn log_file(top: &mut ConfigSection<'_>) -> Result<Option<LogFile>, Error> {
    let path = match top.raw_value("log_file")? {
        // A folder, as in Vault.
        Some(raw) if raw.expose()?.ends_with('/') => Some(raw.path()?.join(LOG_FILE)),
        Some(raw) => Some(raw.path()?),
        None => None,
    };
    let bytes = top.raw_value("log_rotate_bytes")?.map(|raw| raw.whole(0..=ROTATE_BYTES_MAX));
    let period = top.raw_value("log_rotate_duration")?;
    let kept = top.raw_value("log_rotate_max_files")?;
    let period = match &period {
        None => ROTATE_PERIOD_DEFAULT,
        Some(raw) => match raw.span()? {
            span if span < ROTATE_PERIOD_MIN => return Err(raw.refuse("expected 1s and more")),
            span => span,
        },
    };
    // As in Vault: 0 keeps all, and -1 none but the one that is written.
    let kept = match &kept {
        None => None,
        Some(raw) if raw.as_written() == "-1" => Some(0),
        Some(raw) if raw.as_written().starts_with('-') => {
            let expected = format!("expected a whole number from -1 to {ROTATE_FILES_MAX}");
            return Err(raw.refuse(expected));
        }
        Some(raw) => match raw.whole(0..=ROTATE_FILES_MAX)? {
            0 => None,
            kept => Some(usize::try_from(kept).unwrap_or(usize::MAX)),
        },
    };
    let bytes = bytes.transpose()?.filter(|bytes| *bytes > 0);
    Ok(path.map(|path| LogFile { path, bytes_max: bytes, period, kept }))
}

/// The last `telemetry` stanza.
pub(super) fn telemetry(
    top: &mut ConfigSection<'_>,
    warnings: &mut Vec<String>,
) -> Result<TelemetryConfig, Error> {
    let mut config = TelemetryConfig {
        prometheus_retention: RETENTION_DEFAULT,
        metrics: MetricsSettings::default(),
    };
    let mut found = top.stanzas("telemetry")?;
    let Some(mut stanza) = found.pop() else { return Ok(config) };
    let place = stanza.place();
    if found.iter().any(|other| other.place().file == place.file) {
        warnings.push(format!("{place}: telemetry is given again; this one counts, and all of it"));
    }
    if let Some(raw) = stanza.raw_value("prometheus_retention_time")? {
        config.prometheus_retention = raw.span()?;
    }
    if let Some(raw) = stanza.raw_value("disable_hostname")?
        && !raw.switch()?
    {
        return Err(raw.refuse("expected true: no name of a metric has the host in it here"));
    }
    config.metrics = metrics(&mut stanza)?;
    stanza.finish(&UNUSED_TELEMETRY, warnings)?;
    Ok(config)
}

/// Which metrics are told, and how.
fn metrics(stanza: &mut ConfigSection<'_>) -> Result<MetricsSettings, Error> {
    let mut metrics = MetricsSettings::default();
    if let Some(raw) = stanza.raw_value("metrics_prefix")? {
        let prefix = raw.text()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if !prefix.chars().all(is_word) || prefix.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(raw.refuse("expected letters, digits, underscores and dots"));
        }
        metrics.prefix = prefix;
    }
    if let Some(raw) = stanza.raw_value("usage_gauge_period")? {
        let is_none = raw.as_written() == "none";
        let period = if is_none { Duration::ZERO } else { raw.span()? };
        if !period.is_zero() && period < USAGE_PERIOD_MIN {
            return Err(raw.refuse("expected none, or 10s and more"));
        }
        metrics.usage_period = (!period.is_zero()).then_some(period);
    }
    if let Some(raw) = stanza.raw_value("maximum_gauge_cardinality")? {
        let max = raw.whole(1..=CARDINALITY_MAX)?;
        metrics.cardinality_max = usize::try_from(max).unwrap_or(usize::MAX);
    }
    for raw in stanza.list("prefix_filter")? {
        let rule = raw.text()?;
        let (tells, prefix) = match (rule.strip_prefix('+'), rule.strip_prefix('-')) {
            (Some(prefix), _) => (true, prefix),
            (_, Some(prefix)) => (false, prefix),
            _ => return Err(raw.refuse("expected + or - and the beginning of a name")),
        };
        metrics.filter.push((prefix.to_owned(), tells));
    }
    metrics.tells_rest = stanza.switch("filter_default")?.unwrap_or(true);
    Ok(metrics)
}

/// Says what nobody asked for at the top.
pub(super) fn finish(top: ConfigSection<'_>, warnings: &mut Vec<String>) -> Result<(), Error> {
    let unused: &UnusedKeys = &UNUSED;
    top.finish(unused, warnings)
}
