//! `operator diagnose -address`: what a server that runs says of itself.
//!
//! Health, seal and leader are asked without a token. The rest takes a token that may read it; what it may not is left out and
//! said so, since a token for this need not be one for everything.

use jiff::Timestamp;
use kallisto_command::client::error::ClientError;
use kallisto_command::client::{Client, ClientRequest};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, ConnectionFlags, FormatFlag};
use kallisto_command::json::{Json, Map};
use kallisto_command::secret::Secret;

use super::report::DiagnoseCheck;

/// The states of a server that `sys/health` is to tell with the status 200, not with one of their own.
const HEALTH_CODES: [&str; 7] = [
    "activecode",
    "standbycode",
    "perfstandbycode",
    "haunhealthycode",
    "sealedcode",
    "uninitcode",
    "removedcode",
];
/// Where the server tells of databases and other far ends.
const FAR_ENDS: &str = "sys/kallisto/far-ends";
/// By how much the server's clock may differ from ours, in seconds.
const CLOCK_SECS_MAX: u64 = 10;

/// What came of asking for a path.
enum FetchOutcome {
    /// An answer.
    Data(Map),
    /// There is none, for a reason that is no fault of the server.
    Nothing(String),
    /// The server failed to answer.
    Failed(String),
}

/// Asks the server everything.
///
/// # Errors
/// Settings that allow no client.
pub(super) fn diagnose(
    connection: ConnectionFlags,
    now: Timestamp,
) -> Result<DiagnoseCheck, Error> {
    let format = FormatFlag { format: Some("table".to_owned()) };
    let mut config = Config::load(&CommonFlags { connection, format })?;
    // What is asked is of the whole server.
    config.namespace = None;
    let client = Client::new(&config)?;
    let asked = HEALTH_CODES
        .iter()
        .fold(ClientRequest::get("sys/health"), |request, code| request.with_query(code, "200"));
    let health = match client.send(&asked) {
        Err(error @ (ClientError::Shown(_) | ClientError::Usage(_))) => {
            return Err(Error::doing("Error diagnosing")(error));
        }
        Err(error) => Err(error.to_string()),
        Ok(answer) => Secret::data_of(answer, "sys/health").map_err(|error| error.to_string()),
    };
    let health = match health {
        Ok(health) => health,
        Err(why) => {
            return Ok(DiagnoseCheck::of(
                "Kallisto Diagnose",
                vec![DiagnoseCheck::failed("Check Health", &why)],
            ));
        }
    };
    let mut checks = vec![check_health(&health), check_clock(&health, now)];
    checks.push(check_seal(ask(&client, "sys/seal-status")));
    if is(&health, "sealed") {
        for name in
            ["Check Leader", "Check HA Status", "Check Autopilot", "Check Jobs", "Check Far Ends"]
        {
            checks.push(DiagnoseCheck::skipped(name, "the server is sealed"));
        }
    } else {
        checks.push(check_leader(ask(&client, "sys/leader")));
        checks.push(check_members(ask(&client, "sys/ha-status")));
        checks.push(check_autopilot(ask(&client, "sys/storage/raft/autopilot/state")));
        checks.push(check_jobs(ask(&client, "sys/internal/jobs")));
        let tried = ClientRequest::get(FAR_ENDS).with_query("try", "true");
        checks.push(check_far_ends(ask_for(&client, FAR_ENDS, &tried)));
    }
    Ok(DiagnoseCheck::of("Kallisto Diagnose", checks))
}

fn ask(client: &Client<'_>, path: &str) -> FetchOutcome {
    ask_for(client, path, &ClientRequest::get(path))
}

fn ask_for(client: &Client<'_>, path: &str, request: &ClientRequest) -> FetchOutcome {
    match client.send(request) {
        Ok(Some(answer)) => match Secret::data_of(Some(answer), path) {
            Ok(data) => FetchOutcome::Data(data),
            Err(empty) => FetchOutcome::Failed(empty.to_string()),
        },
        Ok(None) => FetchOutcome::Nothing(format!("this server has no {path}")),
        Err(ClientError::Api(error)) => match error.status {
            403 => FetchOutcome::Nothing(format!("it takes a token that may read {path}")),
            404 => FetchOutcome::Nothing(format!("this server has no {path}: {}", error.words())),
            status => FetchOutcome::Failed(format!("{path}: {status}: {}", error.words())),
        },
        Err(error) => FetchOutcome::Failed(error.to_string()),
    }
}

impl FetchOutcome {
    /// The check of what was told; of nothing, why there is none.
    fn check(self, name: &'static str, judge: impl FnOnce(&Map) -> DiagnoseCheck) -> DiagnoseCheck {
        match self {
            Self::Data(data) => judge(&data),
            Self::Nothing(why) => DiagnoseCheck::skipped(name, why),
            Self::Failed(why) => DiagnoseCheck::fail(name, why),
        }
    }
}

fn text<'a>(map: &'a Map, name: &str) -> &'a str {
    map.get(name).and_then(Json::as_str).unwrap_or_default()
}

fn is(map: &Map, name: &str) -> bool {
    map.get(name) == Some(&Json::Bool(true))
}

fn number(map: &Map, name: &str) -> String {
    match map.get(name) {
        Some(Json::Number(number)) => number.to_string(),
        _ => "?".to_owned(),
    }
}

fn check_health(health: &Map) -> DiagnoseCheck {
    let name = "Check Health";
    let version = text(health, "version");
    if is(health, "removed_from_cluster") {
        return DiagnoseCheck::fail(name, "the server was removed from its cluster");
    }
    if !is(health, "initialized") {
        return DiagnoseCheck::fail(name, "the server is not initialized");
    }
    if is(health, "sealed") {
        return DiagnoseCheck::fail(name, "the server is sealed");
    }
    if health.get("ha_connection_healthy") == Some(&Json::Bool(false)) {
        return DiagnoseCheck::fail(name, "the server is too far behind its cluster to answer");
    }
    let role = if is(health, "standby") { "a standby" } else { "the active server" };
    DiagnoseCheck::ok(
        name,
        format!("{role} of {}, version {version}", text(health, "cluster_name")),
    )
}

fn check_clock(health: &Map, now: Timestamp) -> DiagnoseCheck {
    let name = "Check Clock";
    let Ok(there) = number(health, "server_time_utc").parse::<i64>() else {
        return DiagnoseCheck::skipped(name, "the server does not tell its time");
    };
    let apart = there.abs_diff(now.as_second());
    let said = format!("{apart} s apart from the clock here");
    if apart > CLOCK_SECS_MAX {
        DiagnoseCheck::warn(name, said)
    } else {
        DiagnoseCheck::ok(name, said)
    }
}

fn check_seal(told: FetchOutcome) -> DiagnoseCheck {
    let name = "Check Seal";
    told.check(name, |seal| {
        let (needed, shares) = (number(seal, "t"), number(seal, "n"));
        let kind = format!("type {}, {needed} of {shares} shares", text(seal, "type"));
        match is(seal, "sealed") {
            true => DiagnoseCheck::fail(
                name,
                format!("sealed: {kind}, {} given", number(seal, "progress")),
            ),
            false => DiagnoseCheck::ok(name, kind),
        }
    })
}

fn check_leader(told: FetchOutcome) -> DiagnoseCheck {
    let name = "Check Leader";
    told.check(name, |leader| {
        let address = match (text(leader, "leader_address"), text(leader, "leader_cluster_address"))
        {
            ("", cluster) => cluster,
            (api, _) => api,
        };
        match (is(leader, "ha_enabled"), is(leader, "is_self"), address) {
            (false, ..) => DiagnoseCheck::ok(name, "the server is alone"),
            (true, true, _) => DiagnoseCheck::ok(name, "this server leads"),
            (true, false, "") => DiagnoseCheck::fail(name, "no leader is known"),
            (true, false, address) => DiagnoseCheck::ok(name, format!("{address} leads")),
        }
    })
}

fn check_members(told: FetchOutcome) -> DiagnoseCheck {
    let name = "Check HA Status";
    told.check(name, |status| {
        let Some(Json::Array(nodes)) = status.get("nodes") else {
            return DiagnoseCheck::skipped(name, "the server names no members");
        };
        let nodes: Vec<&Map> = nodes.iter().filter_map(Json::as_object).collect();
        let active = nodes.iter().filter(|node| is(node, "active_node")).count();
        let rows = nodes.iter().map(|node| {
            let role = if is(node, "active_node") { "active" } else { "standby" };
            let said = format!("{role}, {}", text(node, "api_address"));
            DiagnoseCheck::ok(text(node, "hostname").to_owned(), said)
        });
        let mut rows: Vec<DiagnoseCheck> = rows.collect();
        if active != 1 {
            rows.push(DiagnoseCheck::fail(
                "Check Active Server",
                format!("{active} servers are active"),
            ));
        }
        DiagnoseCheck::of(name, rows)
    })
}

fn check_autopilot(told: FetchOutcome) -> DiagnoseCheck {
    let name = "Check Autopilot";
    told.check(name, |state| {
        let tolerance = format!("failure tolerance {}", number(state, "failure_tolerance"));
        if is(state, "healthy") {
            return DiagnoseCheck::ok(name, tolerance);
        }
        let servers = state.get("servers").and_then(Json::as_object).cloned().unwrap_or_default();
        let ill = servers.iter().filter_map(|(server, about)| {
            let about = about.as_object().filter(|about| !is(about, "healthy"))?;
            let why = match is(about, "sealed") {
                true => "sealed".to_owned(),
                false => format!("last contact {}", text(about, "last_contact")),
            };
            Some(format!("{server} is not healthy: {why}"))
        });
        let mut said = vec![tolerance];
        said.extend(ill);
        DiagnoseCheck::warned(name, said)
    })
}

fn check_jobs(told: FetchOutcome) -> DiagnoseCheck {
    let name = "Check Jobs";
    told.check(name, |jobs| {
        let about = jobs.get("key_info").and_then(Json::as_object);
        let (Some(Json::Array(names)), Some(about)) = (jobs.get("keys"), about) else {
            return DiagnoseCheck::skipped(name, "the server tells of no jobs");
        };
        let leads = is(jobs, "leads");
        let row = |job: &Json| {
            let job = job.as_str()?;
            Some(check_job(job, about.get(job)?.as_object()?, leads))
        };
        let rows: Vec<DiagnoseCheck> = names.iter().filter_map(row).collect();
        match rows.is_empty() {
            true => DiagnoseCheck::skipped(name, "the server has only just started"),
            false => DiagnoseCheck::of(name, rows),
        }
    })
}

fn check_job(name: &str, job: &Map, leads: bool) -> DiagnoseCheck {
    let name = name.to_owned();
    if text(job, "place") == "leader" && !leads {
        return DiagnoseCheck::skipped(name, "runs on the leader");
    }
    let last_start = to_the_second(text(job, "last_start"));
    if last_start.is_empty() {
        return DiagnoseCheck::skipped(name, "did not run yet");
    }
    let took = match job.get("last_duration_ms") {
        Some(Json::Number(millis)) => format!(", {millis} ms"),
        _ => String::new(),
    };
    let (runs, failures) = (number(job, "runs"), number(job, "failures"));
    let last_run = format!("last run {last_start}{took}; runs {runs}, failures {failures}");
    let error = text(job, "last_error");
    let failed = format!("failed at {}: {error}", to_the_second(text(job, "last_error_time")));
    match (is(job, "overdue"), is(job, "failing")) {
        (true, _) => DiagnoseCheck::fail(name, format!("overdue: {last_run}")),
        (false, true) => DiagnoseCheck::warn(name, failed).and_said(last_run),
        (false, false) if error.is_empty() => DiagnoseCheck::ok(name, last_run),
        (false, false) => DiagnoseCheck::ok(name, last_run).and_said(failed),
    }
}

/// Each far end was asked just now.
fn check_far_ends(told: FetchOutcome) -> DiagnoseCheck {
    let name = "Check Far Ends";
    told.check(name, |told| {
        let Some(Json::Array(far_ends)) = told.get("far_ends") else {
            return DiagnoseCheck::skipped(name, "the server tells of no far ends");
        };
        let rows = far_ends.iter().filter_map(Json::as_object).map(|far_end| {
            let called = format!("{}{}", text(far_end, "mount"), text(far_end, "name"));
            let counts = format!(
                "{}, {} calls, {} failed",
                text(far_end, "protocol"),
                number(far_end, "calls"),
                number(far_end, "failures")
            );
            match far_end.get("answers") {
                Some(Json::Bool(true)) => DiagnoseCheck::ok(called, counts),
                Some(_) => {
                    let silent = DiagnoseCheck::warn(called, text(far_end, "error").to_owned());
                    silent.and_said(counts)
                }
                None => DiagnoseCheck::skipped(called, "there are too many to try them all"),
            }
        });
        let rows: Vec<DiagnoseCheck> = rows.collect();
        match rows.is_empty() {
            true => DiagnoseCheck::skipped(name, "no engine asked any since the server leads"),
            false => DiagnoseCheck::of(name, rows),
        }
    })
}

/// A time without the fraction of its second.
fn to_the_second(time: &str) -> String {
    time.split_once('.').map_or_else(|| time.to_owned(), |(second, _)| format!("{second}Z"))
}

#[cfg(test)]
mod tests {
    use super::super::report::CheckStatus;
    use super::*;

    fn map(text: &str) -> Map {
        kallisto_command::json::parse_object(text.as_bytes()).unwrap()
    }

    fn data(text: &str) -> FetchOutcome {
        FetchOutcome::Data(map(text))
    }

    #[test]
    fn health_is_told_by_its_worst() {
        for (health, status) in [
            (r#"{"initialized":true,"sealed":false,"standby":true}"#, CheckStatus::Ok),
            (
                r#"{"initialized":true,"sealed":false,"ha_connection_healthy":true}"#,
                CheckStatus::Ok,
            ),
            (
                r#"{"initialized":true,"sealed":false,"ha_connection_healthy":false}"#,
                CheckStatus::Fail,
            ),
            (r#"{"initialized":true,"sealed":true}"#, CheckStatus::Fail),
            (r#"{"initialized":false,"sealed":true}"#, CheckStatus::Fail),
            (
                r#"{"initialized":true,"sealed":false,"removed_from_cluster":true}"#,
                CheckStatus::Fail,
            ),
        ] {
            assert_eq!(check_health(&map(health)).status(), status, "{health}");
        }
    }

    #[test]
    fn a_member_that_is_not_healthy_is_named_with_why() {
        let servers = r#"{"one":{"healthy":true},"two":{"healthy":false,"sealed":true,"last_contact":"9ms"},"three":{"healthy":false,"last_contact":"12s"}}"#;
        let state = format!(r#"{{"healthy":false,"failure_tolerance":0,"servers":{servers}}}"#);
        let said = format!("{:?}", check_autopilot(data(&state)));
        assert!(said.contains("two is not healthy: sealed"), "{said}");
        assert!(said.contains("three is not healthy: last contact 12s"), "{said}");
        assert!(!said.contains("one is"), "{said}");
    }

    #[test]
    fn a_far_end_that_does_not_answer_is_doubtful() {
        let both = r#"{"far_ends":[
            {"mount":"database/","name":"pg","protocol":"postgresql","calls":3,"failures":0,"answers":true},
            {"mount":"kubernetes/","name":"cluster","protocol":"http","calls":2,"failures":2,"answers":false,"error":"connection refused"}]}"#;
        assert_eq!(check_far_ends(data(both)).status(), CheckStatus::Warn);
        let good = r#"{"far_ends":[{"mount":"database/","name":"pg","answers":true}]}"#;
        assert_eq!(check_far_ends(data(good)).status(), CheckStatus::Ok);
        assert_eq!(check_far_ends(data(r#"{"far_ends":[]}"#)).status(), CheckStatus::Skipped);
    }

    #[test]
    fn a_clock_far_from_ours_is_doubtful() {
        let now = Timestamp::from_second(1000).unwrap();
        let status = |health: &str| check_clock(&map(health), now).status();
        assert_eq!(status(r#"{"server_time_utc":1010}"#), CheckStatus::Ok);
        assert_eq!(status(r#"{"server_time_utc":989}"#), CheckStatus::Warn);
        assert_eq!(status("{}"), CheckStatus::Skipped);
    }

    #[test]
    fn a_cluster_has_one_leader_and_one_active_server() {
        let leader = |text: &str| check_leader(data(text)).status();
        assert_eq!(leader(r#"{"ha_enabled":false}"#), CheckStatus::Ok);
        assert_eq!(leader(r#"{"ha_enabled":true,"leader_address":"https://a"}"#), CheckStatus::Ok);
        assert_eq!(leader(r#"{"ha_enabled":true,"leader_address":""}"#), CheckStatus::Fail);
        let members = |text: &str| check_members(data(text)).status();
        assert_eq!(
            members(r#"{"nodes":[{"active_node":true},{"active_node":false}]}"#),
            CheckStatus::Ok
        );
        assert_eq!(members(r#"{"nodes":[{"active_node":false}]}"#), CheckStatus::Fail);
    }

    #[test]
    fn jobs_are_judged_where_they_run() {
        let jobs = |leads: bool, job: &str| {
            let text = format!(r#"{{"leads":{leads},"keys":["j"],"key_info":{{"j":{job}}}}}"#);
            check_jobs(data(&text)).status()
        };
        let ran = r#""place":"leader","last_start":"1970-01-01T00:00:00Z","runs":1,"failures":1"#;
        let job = |more: &str| format!("{{{ran},{more}}}");
        assert_eq!(jobs(true, &job(r#""failing":false,"overdue":false"#)), CheckStatus::Ok);
        assert_eq!(jobs(true, &job(r#""failing":true,"last_error":"why""#)), CheckStatus::Warn);
        assert_eq!(jobs(true, &job(r#""overdue":true"#)), CheckStatus::Fail);
        assert_eq!(jobs(false, &job(r#""failing":true"#)), CheckStatus::Skipped);
        assert_eq!(jobs(true, r#"{"place":"leader","last_start":null}"#), CheckStatus::Skipped);
    }

    #[test]
    fn what_a_token_may_not_read_is_left_out() {
        let skipped =
            FetchOutcome::Nothing("no token".to_owned()).check("N", |_| DiagnoseCheck::ok("N", ""));
        let failed = FetchOutcome::Failed("status 500".to_owned())
            .check("N", |_| DiagnoseCheck::ok("N", ""));
        assert_eq!((skipped.status(), failed.status()), (CheckStatus::Skipped, CheckStatus::Fail));
    }
}
