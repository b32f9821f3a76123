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
const HELP: &str = "the help is worded by us, and describes our routes";
const NULL_DATA: &str = "a null is patched like an empty object, not answered with a 500";
const AFTER_NULL: &str = "there is one version more, since the patch of row 140 succeeded";
const NEGATIVE: &str = "a negative max_versions is refused, not taken for 4294967295";
const AFTER_NEGATIVE: &str = "there was one change less, since row 171 was refused";
const FOLDER: &str = "a folder is not given the metadata of the secret of the same name";
const CLI: &str = "the warning names a command line Kallisto's users have";
const HEALTH: &str = "Vault's fields too: clients do not start without them";
const STATUS: &str = "in memory; Vault's build_date beside OpenBao's commit_date";
const ALONE: &str = "the recording is of a cluster: what a server without one says";
const WRONG_KEY: &str = "the commitment decides, so there is no cipher to quote";

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
const HELP_PLACES: &[&str] = &["/help", "/openapi"];

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
    "/data/nodes/0/api_address",
    "/data/nodes/0/cluster_address",
    "/data/nodes/0/hostname",
    "/data/nodes/0/upgrade_version",
    "/nodes/0/api_address",
    "/nodes/0/cluster_address",
    "/nodes/0/hostname",
    "/nodes/0/upgrade_version",
];
const STATUS_FIELDS: &[&str] = &["/build_date", "/storage_type"];

/// Every difference left in the rows of `sys1.json` that are replayed.
const SYS_KNOWN: &[Known] = &[
    (0, HEALTH_FIELDS, HEALTH),
    (2, HEALTH_FIELDS, HEALTH),
    (4, STATUS_FIELDS, STATUS),
    (16, &["/errors/0"], PARSER),
    (20, HEALTH_FIELDS, HEALTH),
    (21, HEALTH_FIELDS, HEALTH),
    (22, STATUS_FIELDS, STATUS),
    (33, STATUS_FIELDS, STATUS),
    (34, STATUS_FIELDS, STATUS),
    (35, STATUS_FIELDS, STATUS),
    (36, STATUS_FIELDS, STATUS),
    (37, STATUS_FIELDS, STATUS),
    (38, STATUS_FIELDS, STATUS),
    (39, &["/errors/0"], WRONG_KEY),
    (40, STATUS_FIELDS, STATUS),
    (41, STATUS_FIELDS, STATUS),
    (42, STATUS_FIELDS, STATUS),
    (43, HEALTH_FIELDS_UNSEALED, HEALTH),
    (45, HEALTH_FIELDS_UNSEALED, HEALTH),
    (47, STATUS_FIELDS, STATUS),
    (48, LEADER_FIELDS, ALONE),
    (49, LEADER_FIELDS, ALONE),
    (50, HA_PLACES, ALONE),
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

/// From an empty store over initialisation and unsealing to an unsealed server. The rows of `raft
/// join` need a cluster.
#[test]
fn a_server_is_initialised_and_unsealed_as_recorded() {
    let server = Running::start_uninitialized();
    let rows = rows(SYS);
    let replayed = rows.iter().enumerate().filter(|(_, row)| row.section != "raft join");
    replay(&server, replayed, &[], SYS_KNOWN);
}

/// The key shares and the root token that the replayed initialisation handed out.
#[derive(Default)]
struct Secrets {
    keys: Vec<String>,
    keys_base64: Vec<String>,
    root_token: Option<String>,
}

impl Secrets {
    /// Remembers what the answer to `sys/init` hands out.
    fn learn(&mut self, row: &Row, reply: &Reply) {
        if row.path != "sys/init" || row.method != "PUT" || reply.status != 200 {
            return;
        }
        let Ok(Json::Object(body)) = json::parse(&reply.body) else { panic!("an object") };
        let texts = |name: &str| match &body[name] {
            Json::Array(items) => items.iter().map(|item| item.as_str().unwrap().into()).collect(),
            other => panic!("{other:?}"),
        };
        self.keys = texts("keys");
        self.keys_base64 = texts("keys_base64");
        self.root_token = Some(body["root_token"].as_str().unwrap().into());
    }

    /// The body to send where the recording is masked.
    fn unmask(&self, at: usize, row: &Row) -> String {
        if !row.body.contains("MASKED") {
            return row.body.clone();
        }
        let key = match at {
            35 | 36 | 40 => &self.keys[0],
            38 => &self.keys_base64[0],
            39 => &self.keys[1].replace(|digit: char| digit.is_ascii_digit(), "7"),
            41 => &self.keys[1],
            42 => &self.keys[2],
            _ => panic!("row {at} is masked and nobody says by what"),
        };
        format!(r#"{{"key":"{key}"}}"#)
    }
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
    let mut secrets = Secrets::default();
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (at, row) in rows {
        let pause = pauses.iter().find(|(row, _)| *row == at).map_or(TICK, |(_, pause)| *pause);
        server.clock.advance(pause);
        let headers: Vec<(&str, &str)> = row
            .headers
            .iter()
            .map(|(name, value)| match &secrets.root_token {
                Some(token) if name == "X-Vault-Token" => (name.as_str(), token.as_str()),
                _ => (name.as_str(), value.as_str()),
            })
            .collect();
        let body = secrets.unmask(at, row);
        let reply = connection.ask_with(&row.method, &row.path, &headers, &body);
        secrets.learn(row, &reply);
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
            Ok(mut ours) => {
                take_attribution_off(&mut ours);
                let mut comparison = Comparison { masks, differences: &mut differences };
                comparison.values("", "", &unordered(row, &row.reply), &unordered(row, &ours));
            }
            Err(_) => differences.push("/".to_owned()),
        },
        _ => differences.push("/".to_owned()),
    }
    differences
}

/// Takes off what only this server tells of secrets: who wrote a version, and whether a mount keeps that.
fn take_attribution_off(reply: &mut Json) {
    let Json::Object(map) = reply else { return };
    if let Some(Json::Object(versions)) = map.get_mut("versions") {
        for version in versions.values_mut() {
            let Json::Object(version) = version else { continue };
            version.retain(|name, _| {
                !matches!(name.as_str(), "created_by" | "deleted_by" | "request_id")
            });
        }
    }
    if map.contains_key("delete_version_after") {
        map.remove("attribution");
    }
    for value in map.values_mut() {
        take_attribution_off(value);
    }
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
            // A document of its own kind: it is compared whole.
            (Json::Object(recorded), Json::Object(ours)) if place == "/openapi" => {
                if recorded != ours {
                    self.differences.push(place.to_owned());
                }
            }
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
        if recorded.as_str() == Some("MASKED") {
            return ours.as_str().is_some_and(|text| !text.is_empty());
        }
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
        ("nonce", Json::String(text)) => is_uuid(text).then_some("uuid"),
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
