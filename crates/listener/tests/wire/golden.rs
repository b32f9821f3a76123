//! Replays what was recorded from a reference server, row by row, and compares every reply.
//!
//! A recording is a list of exchanges in order. Ids, times, accessors and versions differ from run
//! to run: what stands in such a place is mapped to ours on first sight and must map to the same
//! ever after, so a `created_time` has to equal itself across replies. All else has to be equal, but
//! for what the tables of known differences name, each with its reason. A difference that is not
//! listed fails the test, and so does a listed one that is gone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use kallisto_core::json::{self, Json, Map};

use crate::support::{Reply, Running, TOKEN};

const KV: &str = include_str!("../golden/kv.json");
const SYS: &str = include_str!("../golden/sys1.json");

/// A row that differs: its number, where, and why.
type Known = (usize, &'static [&'static str], &'static str);

const PARSER: &str = "after `failed to decode JSON input: ` the words are our parser's";
const DOTS: &str = "`..` is refused, not redirected: what CVE-2026-3605 is about";
const UTF8: &str = "a client's mistake is a 400, never a 500";
const CONTROL: &str = "the refusal of control characters says what is wrong";
const HELP: &str = "help documents are not served yet";
const NULL_DATA: &str = "a null is patched like an empty object, not answered with a 500";
const AFTER_NULL: &str = "there is one version more, since the patch of row 140 succeeded";
const NEGATIVE: &str = "a negative max_versions is refused, not taken for 4294967295";
const AFTER_NEGATIVE: &str = "there was one change less, since row 171 was refused";
const FOLDER: &str = "a folder is not given the metadata of the secret of the same name";
const CLI: &str = "the warning names a command line Kallisto's users have";
const HEALTH: &str = "Vault's fields too: clients do not start without them";
const STATUS: &str = "one share, in memory; Vault's build_date beside OpenBao's commit_date";
const ALONE: &str = "the recording is of a cluster: what a server without one says";
const MISSING: &str = "not served yet: there is no cluster to show";

/// The places where an envelope and a list of errors differ, beside the status.
const ENVELOPE: &[&str] = &[
    "status",
    "/auth",
    "/data",
    "/errors",
    "/lease_duration",
    "/lease_id",
    "/renewable",
    "/request_id",
    "/warnings",
    "/wrap_info",
];
const HELP_PLACES: &[&str] = &["status", "/errors", "/help", "/openapi", "/see_also"];

/// Every difference left in `kv.json`.
const KV_KNOWN: &[Known] = &[
    (30, &["/errors/0"], PARSER),
    (31, &["/errors/0"], PARSER),
    (38, &["status", "content-type", "location", "/"], DOTS),
    (45, &["status", "/errors/0"], UTF8),
    (46, &["cache-control", "content-type", "strict-transport-security", "/"], CONTROL),
    (47, HELP_PLACES, HELP),
    (48, HELP_PLACES, HELP),
    (140, ENVELOPE, NULL_DATA),
    (142, &["/data/created_time", "/data/version"], AFTER_NULL),
    (144, &["/errors/0"], PARSER),
    (171, &["status", "/"], NEGATIVE),
    (173, &["/data/current_metadata_version", "/data/max_versions"], AFTER_NEGATIVE),
    (175, &["/data/current_metadata_version"], AFTER_NEGATIVE),
    (177, &["/data/current_metadata_version"], AFTER_NEGATIVE),
    (180, &["/data/current_metadata_version"], AFTER_NEGATIVE),
    (200, &["/data/key_info/b/"], FOLDER),
    (202, &["/warnings/0"], CLI),
    (203, &["/warnings/0"], CLI),
    (204, &["/warnings/0"], CLI),
    (205, &["/warnings/0"], CLI),
    (206, &["/warnings/0"], CLI),
    (207, HELP_PLACES, HELP),
];

const HEALTH_FIELDS: &[&str] = &[
    "/clock_skew_ms",
    "/echo_duration_ms",
    "/enterprise",
    "/performance_standby",
    "/replication_primary_canary_age_ms",
];
/// The same, and the word of a server that is no primary of anything.
const HEALTH_FIELDS_UNSEALED: &[&str] = &[
    "/clock_skew_ms",
    "/echo_duration_ms",
    "/enterprise",
    "/performance_standby",
    "/replication_performance_mode",
    "/replication_primary_canary_age_ms",
];
const LEADER_FIELDS: &[&str] = &[
    "/active_time",
    "/ha_enabled",
    "/is_self",
    "/leader_address",
    "/leader_cluster_address",
    "/performance_standby",
    "/performance_standby_last_remote_wal",
    "/raft_applied_index",
    "/raft_committed_index",
];
const HA_PLACES: &[&str] = &[
    "status",
    "/auth",
    "/data",
    "/errors",
    "/lease_duration",
    "/lease_id",
    "/nodes",
    "/renewable",
    "/request_id",
    "/warnings",
    "/wrap_info",
];

/// Every difference left in the rows of `sys1.json` that are replayed.
const SYS_KNOWN: &[Known] = &[
    (0, HEALTH_FIELDS, HEALTH),
    (2, HEALTH_FIELDS, HEALTH),
    (4, &["/build_date", "/storage_type"], STATUS),
    (42, &["/build_date", "/n", "/storage_type", "/t"], STATUS),
    (43, HEALTH_FIELDS_UNSEALED, HEALTH),
    (45, HEALTH_FIELDS_UNSEALED, HEALTH),
    (47, &["/build_date", "/n", "/storage_type", "/t"], STATUS),
    (48, LEADER_FIELDS, ALONE),
    (49, LEADER_FIELDS, ALONE),
    (50, HA_PLACES, MISSING),
];

/// Rows before which time passed in the recording: a version has to outlive its two seconds.
const KV_PAUSES: &[(usize, Duration)] = &[(220, Duration::from_secs(3))];
/// How far apart requests are.
const TICK: Duration = Duration::from_millis(1);

/// Headers of a reply that are compared.
const HEADERS: [&str; 4] =
    ["cache-control", "content-type", "location", "strict-transport-security"];

#[test]
fn key_value_exchanges_are_answered_as_recorded() {
    let server = Running::start();
    let rows = rows(KV);
    replay(&server, rows.iter().enumerate(), KV_PAUSES, KV_KNOWN);
}

/// What a server says before it is initialised. From row 8 on the recording initialises it, which
/// needs a seal.
#[test]
fn an_uninitialized_server_answers_as_recorded() {
    let server = Running::start_uninitialized();
    let rows = rows(SYS);
    let before = rows.iter().enumerate().take(8);
    assert!(before.clone().all(|(_, row)| row.section == "before init"));
    let known: Vec<Known> = SYS_KNOWN.iter().copied().filter(|(row, ..)| *row < 8).collect();
    replay(&server, before, &[], &known);
}

/// What an unsealed server says. The rows of `sealed` need a seal, those of `raft join` a cluster;
/// of `sealed` those are replayed whose answer is the same unsealed.
#[test]
fn an_unsealed_server_answers_as_recorded() {
    let server = Running::start();
    let rows = rows(SYS);
    let same_when_unsealed = [18, 19, 29, 30, 42];
    let replayed = rows
        .iter()
        .enumerate()
        .filter(|(at, row)| row.section == "unsealed" || same_when_unsealed.contains(at));
    let known: Vec<Known> = SYS_KNOWN.iter().copied().filter(|(row, ..)| *row >= 8).collect();
    replay(&server, replayed, &[], &known);
}

/// One recorded exchange.
struct Row {
    section: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    status: u16,
    reply_headers: Map,
    reply: Json,
}

fn rows(text: &str) -> Vec<Row> {
    let Ok(Json::Array(rows)) = json::parse(text.as_bytes()) else { panic!("a list of rows") };
    rows.iter().map(|row| parse_row(row.as_object().unwrap())).collect()
}

fn parse_row(row: &Map) -> Row {
    let text = |name: &str| row[name].as_str().unwrap().to_owned();
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in row["headers"].as_object().unwrap() {
        headers.push((name.clone(), value.as_str().unwrap().to_owned()));
    }
    if row["auth"] == Json::Bool(true) {
        headers.push(("X-Vault-Token".to_owned(), TOKEN.to_owned()));
    }
    let body = match (&row["raw"], &row["body"]) {
        (Json::String(raw), _) => raw.clone(),
        (_, Json::Null) => String::new(),
        (_, body) => String::from_utf8(body.to_text()).unwrap(),
    };
    Row {
        section: text("section"),
        method: text("method"),
        path: text("path"),
        headers,
        body,
        status: String::from_utf8(row["status"].to_text()).unwrap().parse().unwrap(),
        reply_headers: row["resp_headers"].as_object().unwrap().clone(),
        reply: row["resp"].clone(),
    }
}

/// Sends the rows in order and holds the differences against the known ones.
fn replay<'r>(
    server: &Running,
    rows: impl Iterator<Item = (usize, &'r Row)>,
    pauses: &[(usize, Duration)],
    known: &[Known],
) {
    let mut connection = server.connect();
    let mut masks = Masks::default();
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (at, row) in rows {
        let pause = pauses.iter().find(|(row, _)| *row == at).map_or(TICK, |(_, pause)| *pause);
        server.clock.advance(pause);
        let headers: Vec<(&str, &str)> =
            row.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let reply = connection.ask_with(&row.method, &row.path, &headers, &row.body);
        let differences = compare(row, &reply, &mut masks);
        if !differences.is_empty() {
            eprintln!("{at} {} {}: {differences:?}", row.method, row.path);
            eprintln!("  {} {:?} {}", reply.status, reply.headers, reply.text());
            found.insert(at, differences);
        }
    }
    let listed: BTreeMap<usize, Vec<String>> = known
        .iter()
        .map(|(at, places, _)| (*at, places.iter().map(|place| (*place).to_owned()).collect()))
        .collect();
    assert_eq!(listed.len(), known.len(), "a row is listed once");
    assert_eq!(found, listed, "left: what differs; right: what is listed");
}

/// The places where a reply differs: `status`, a header's name, or a path into the body.
fn compare(row: &Row, reply: &Reply, masks: &mut Masks) -> Vec<String> {
    let mut differences = Vec::new();
    if reply.status != row.status {
        differences.push("status".to_owned());
    }
    for name in HEADERS {
        if reply.header(name) != row.reply_headers.get(name).and_then(Json::as_str) {
            differences.push(name.to_owned());
        }
    }
    match &row.reply {
        Json::Null if reply.body.is_empty() => {}
        Json::String(text) if reply.text() == *text => {}
        Json::Object(_) => match json::parse(&reply.body) {
            Ok(ours) => {
                let mut comparison = Comparison { masks, differences: &mut differences };
                comparison.values("", "", &unordered(row, &row.reply), &unordered(row, &ours));
            }
            Err(_) => differences.push("/".to_owned()),
        },
        _ => differences.push("/".to_owned()),
    }
    differences
}

/// A scan lists the folders of one level in no certain order, so its keys are compared as a set.
fn unordered(row: &Row, reply: &Json) -> Json {
    let mut reply = reply.clone();
    if row.method != "SCAN" && !row.path.contains("scan=") {
        return reply;
    }
    if let Json::Object(envelope) = &mut reply
        && let Some(Json::Object(data)) = envelope.get_mut("data")
        && let Some(Json::Array(keys)) = data.get_mut("keys")
    {
        keys.sort_by_key(Json::to_text);
    }
    reply
}

struct Comparison<'a> {
    masks: &'a mut Masks,
    differences: &'a mut Vec<String>,
}

impl Comparison<'_> {
    /// Compares what stands at `place`, which is the member `name` of its object.
    fn values(&mut self, place: &str, name: &str, recorded: &Json, ours: &Json) {
        match (recorded, ours) {
            (Json::Object(recorded), Json::Object(ours)) => self.objects(place, recorded, ours),
            (Json::Array(recorded), Json::Array(ours)) if recorded.len() == ours.len() => {
                for (at, pair) in recorded.iter().zip(ours).enumerate() {
                    self.values(&format!("{place}/{at}"), "", pair.0, pair.1);
                }
            }
            _ => {
                let same = recorded == ours && name != "request_id";
                if !same && !self.masks.agree(name, recorded, ours) {
                    self.differences.push(place.to_owned());
                }
            }
        }
    }

    fn objects(&mut self, place: &str, recorded: &Map, ours: &Map) {
        let names: HashSet<&String> = recorded.keys().chain(ours.keys()).collect();
        let mut names: Vec<&String> = names.into_iter().collect();
        names.sort();
        for name in names {
            let place = format!("{place}/{name}");
            match (recorded.get(name), ours.get(name)) {
                (Some(recorded), Some(ours)) => self.values(&place, name, recorded, ours),
                _ => self.differences.push(place),
            }
        }
    }
}

/// What stands in place of what, for values that differ from run to run.
#[derive(Default)]
struct Masks {
    ours_by_recorded: HashMap<(&'static str, String), Json>,
    requests: HashSet<String>,
}

impl Masks {
    /// True when both values are of a kind that differs from run to run, and ours is what stood
    /// for the recorded one before.
    fn agree(&mut self, name: &str, recorded: &Json, ours: &Json) -> bool {
        let (Some(kind), Some(ours_kind)) = (kind(name, recorded), kind(name, ours)) else {
            return false;
        };
        if kind != ours_kind {
            return false;
        }
        if kind == "now" {
            return true;
        }
        if kind == "request" {
            return self.requests.insert(ours.as_str().unwrap_or_default().to_owned());
        }
        let recorded = String::from_utf8(recorded.to_text()).unwrap();
        let first = self.ours_by_recorded.entry((kind, recorded)).or_insert_with(|| ours.clone());
        first == ours
    }
}

/// The kind of a value that differs from run to run.
fn kind(name: &str, value: &Json) -> Option<&'static str> {
    match (name, value) {
        ("request_id", Json::String(text)) => is_uuid(text).then_some("request"),
        ("uuid" | "cluster_id", Json::String(text)) => is_uuid(text).then_some("uuid"),
        ("accessor", Json::String(text)) => text.starts_with("kv_").then_some("accessor"),
        ("cluster_name", Json::String(text)) => {
            text.starts_with("vault-cluster-").then_some("cluster")
        }
        ("version" | "running_plugin_version", Json::String(text)) => {
            text.contains('.').then_some("version")
        }
        // The clock of the server moves on between replies, so only its kind is compared.
        ("server_time_utc", Json::Number(_)) => Some("now"),
        (_, Json::String(text)) => text.parse::<Timestamp>().is_ok().then_some("time"),
        _ => None,
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    let digits = text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    lengths == [8, 4, 4, 4, 12] && digits
}
