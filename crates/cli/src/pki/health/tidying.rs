//! Checks of what a mount is set to: tidying, what it stores, headers, ACME, audit.

use super::super::fetch;
use super::authorities::day;
use super::mount::{FetchResult, PAGE, PkiMount};
use super::{CheckParameters, HealthFinding, Severity};
use jiff::Timestamp;
use kallisto_command::duration;
use kallisto_command::error::Error;
use kallisto_command::json::{Json, Map};
use kallisto_command::output::table;

/// Fields of requests that hold no secret, and help who reads an audit log.
const PLAIN_IN_REQUESTS: &[&str] = &[
    "csr",
    "certificate",
    "issuer_ref",
    "common_name",
    "alt_names",
    "other_sans",
    "ip_sans",
    "uri_sans",
    "ttl",
    "not_after",
    "serial_number",
    "key_type",
    "private_key_format",
    "ou",
    "organization",
    "country",
    "locality",
    "province",
    "street_address",
    "postal_code",
    "permitted_dns_domains",
    "policy_identifiers",
    "ext_key_usage_oids",
];
/// The same of answers.
const PLAIN_IN_ANSWERS: &[&str] =
    &["certificate", "issuing_ca", "serial_number", "error", "ca_chain"];
/// Fields that hold private keys.
const SECRET: &[&str] = &["private_key", "pem_bundle"];

/// Fields of the audit log that could be plain, and secrets that are.
pub(super) fn audit_visibility(
    mount: &PkiMount<'_>,
    with: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let path = mount.tune_path();
    let tune = match mount.tune()? {
        FetchResult::Answered(tune) => tune,
        FetchResult::Nothing => return Ok(Vec::new()),
        FetchResult::Refused(finding) => return Ok(vec![finding]),
    };
    let ignored = with.texts("ignored_parameters");
    let mut findings = Vec::new();
    for (list, wanted) in [
        ("audit_non_hmac_request_keys", PLAIN_IN_REQUESTS),
        ("audit_non_hmac_response_keys", PLAIN_IN_ANSWERS),
    ] {
        let plain = fetch::strings(tune, list);
        let has = |name: &str| plain.iter().any(|one| one == name);
        for secret in SECRET.iter().filter(|name| has(name)) {
            let message =
                format!("{list} has {secret}: private keys reach the audit log in clear.");
            findings.push(HealthFinding::new(Severity::Critical, &path, message));
        }
        let missing: Vec<&str> = wanted
            .iter()
            .copied()
            .filter(|name| !has(name) && !ignored.iter().any(|one| one == name))
            .collect();
        if !missing.is_empty() {
            let message = format!(
                "The audit log masks what is no secret; whoever reads it would be helped by these in {list}: {}.",
                missing.join(", ")
            );
            findings.push(HealthFinding::new(Severity::Informational, &path, message));
        }
    }
    if findings.is_empty() {
        findings.push(HealthFinding::new(Severity::Ok, &path, "The audit log shows what it can."));
    }
    Ok(findings)
}

/// Headers by which clients fetch CAs and lists only when they changed.
pub(super) fn if_modified_since(
    mount: &PkiMount<'_>,
    _: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let tune = match mount.tune()? {
        FetchResult::Answered(tune) => tune,
        FetchResult::Nothing => return Ok(Vec::new()),
        FetchResult::Refused(finding) => return Ok(vec![finding]),
    };
    let has = |list: &str, name: &str| {
        fetch::strings(tune, list).iter().any(|one| one.eq_ignore_ascii_case(name))
    };
    let both = has("passthrough_request_headers", "If-Modified-Since")
        && has("allowed_response_headers", "Last-Modified");
    let (severity, message) = if both {
        (Severity::Ok, "Clients may fetch CAs and lists only when they changed.")
    } else {
        (
            Severity::Informational,
            "Clients fetch CAs and lists whole each time: tune the mount with \
             passthrough_request_headers=If-Modified-Since and allowed_response_headers=Last-Modified.",
        )
    };
    Ok(vec![HealthFinding::new(severity, &mount.tune_path(), message)])
}

/// Whether the mount tidies itself, and how.
pub(super) fn auto_tidy(
    mount: &PkiMount<'_>,
    with: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let path = mount.at("config/auto-tidy");
    let data = match mount.read(&path)? {
        FetchResult::Answered(data) => data,
        FetchResult::Nothing => return Ok(Vec::new()),
        FetchResult::Refused(finding) => return Ok(vec![finding]),
    };
    if data.get("enabled") != Some(&Json::Bool(true)) {
        let message = "The mount does not tidy itself, so certificates that ended stay stored: \
                       write enabled=true and tidy_cert_store=true.";
        return Ok(vec![HealthFinding::new(Severity::Informational, &path, message)]);
    }
    let mut findings = Vec::new();
    let interval = secs(&data, "interval_duration");
    for (severity, bound) in [
        (Severity::Critical, with.secs("interval_duration_critical")?),
        (Severity::Warning, with.secs("interval_duration_warning")?),
    ] {
        if findings.is_empty() && interval > bound {
            let message = format!("The mount tidies itself only every {} hours.", interval / 3600);
            findings.push(HealthFinding::new(severity, &path, message));
        }
    }
    let text = data.get("pause_duration").map(table::show).unwrap_or_default();
    let pause = duration::parse(&text).map(|span| span.as_millis()).unwrap_or(0);
    for (severity, bound) in [
        (Severity::Critical, with.millis("pause_duration_critical")?),
        (Severity::Warning, with.millis("pause_duration_warning")?),
    ] {
        if pause > bound {
            let message = format!(
                "Tidying pauses {pause} ms after each certificate and may not end in time."
            );
            findings.push(HealthFinding::new(severity, &path, message));
            break;
        }
    }
    if findings.is_empty() {
        findings.push(HealthFinding::new(Severity::Ok, &path, "The mount tidies itself."));
    }
    Ok(findings)
}

/// When it was tidied last.
pub(super) fn last_run(
    mount: &PkiMount<'_>,
    with: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let path = mount.at("tidy-status");
    let data = match mount.read(&path)? {
        FetchResult::Answered(data) => data,
        FetchResult::Nothing => Map::new(),
        FetchResult::Refused(finding) => return Ok(vec![finding]),
    };
    let state = data.get("state").and_then(Json::as_str).unwrap_or("Inactive");
    if state == "Running" {
        return Ok(vec![HealthFinding::new(Severity::Ok, &path, "Tidying runs now.")]);
    }
    let finished = data.get("time_finished").and_then(Json::as_str);
    let finished = finished.and_then(|text| text.parse::<Timestamp>().ok());
    let Some(finished) = finished.map(Timestamp::as_second) else {
        let message = "The mount was never tidied, so certificates that ended stay stored: enable \
                       auto-tidy, or write to tidy.";
        return Ok(vec![HealthFinding::new(Severity::Critical, &path, message)]);
    };
    if state == "Error" {
        let message = format!("Tidying failed on {}.", day(finished));
        return Ok(vec![HealthFinding::new(Severity::Warning, &path, message)]);
    }
    let ago = mount.now.saturating_sub(finished);
    let severity = if ago > with.secs("last_run_critical")? {
        Severity::Critical
    } else if ago > with.secs("last_run_warning")? {
        Severity::Warning
    } else {
        Severity::Ok
    };
    let message = format!("The mount was tidied last on {}.", day(finished));
    Ok(vec![HealthFinding::new(severity, &path, message)])
}

/// How many certificates it stores.
pub(super) fn stored_certificates(
    mount: &PkiMount<'_>,
    with: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let path = mount.at("certs");
    let (critical, warning) = (with.number("count_critical")?, with.number("count_warning")?);
    let (mut count, mut after) = (0_u64, String::new());
    // No more pages than it takes to know the answer.
    while count <= critical {
        let names = match mount.page("certs", &after)? {
            FetchResult::Answered(names) => names,
            FetchResult::Nothing => Vec::new(),
            FetchResult::Refused(finding) => return Ok(vec![finding]),
        };
        let here = u64::try_from(names.len()).unwrap_or(u64::MAX);
        count = count.saturating_add(here);
        match names.into_iter().last() {
            Some(last) if here >= PAGE && last != after => after = last,
            _ => break,
        }
    }
    let (severity, message) = if count > critical {
        (Severity::Critical, format!("The mount stores over {critical} certificates."))
    } else if count > warning {
        (Severity::Warning, format!("The mount stores {count} certificates."))
    } else {
        (Severity::Ok, format!("The mount stores {count} certificates."))
    };
    Ok(vec![HealthFinding::new(severity, &path, message)])
}

/// Whether clients can get certificates by themselves.
pub(super) fn acme(
    mount: &PkiMount<'_>,
    _: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let path = mount.at("config/acme");
    let data = match mount.read(&path)? {
        FetchResult::Answered(data) => data,
        FetchResult::Nothing => Map::new(),
        FetchResult::Refused(finding) => return Ok(vec![finding]),
    };
    if data.get("enabled") == Some(&Json::Bool(true)) {
        return Ok(vec![HealthFinding::new(Severity::Ok, &path, "ACME is enabled.")]);
    }
    let message = "ACME is not enabled: with it, clients such as certbot get and renew certificates by themselves.";
    Ok(vec![HealthFinding::new(Severity::Informational, &path, message)])
}

/// Headers that ACME needs, which this server lets through without being told.
pub(super) fn acme_headers(
    mount: &PkiMount<'_>,
    _: &CheckParameters<'_>,
) -> Result<Vec<HealthFinding>, Error> {
    let message = "The server lets the headers of ACME through by itself.";
    Ok(vec![HealthFinding::new(Severity::NotApplicable, &mount.at("config/acme"), message)])
}

fn secs(data: &Map, name: &str) -> i64 {
    data.get(name).map(table::show).and_then(|text| text.parse().ok()).unwrap_or(0)
}
