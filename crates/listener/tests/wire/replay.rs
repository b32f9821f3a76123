//! Replays a recording of an engine, row by row: for recordings whose rows capture values that later rows use.
//!
//! Ids differ from run to run: one has to stand for the recorded one wherever that stands. Times are looked at for being times, and what was
//! masked for being there. All else has to be equal, but for what a [`Judge`] knows to compare in another way, such as certificates, and
//! for the differences that the recording's test lists, each with its reason. A difference that is not listed fails the test, and so does
//! a listed one that is gone.

use std::collections::{BTreeMap, HashMap};

use data_encoding::BASE64;
use kallisto_core::json::{self, Json, Map};

use crate::support::{Reply, Running, TOKEN, request};

/// A row that differs: its number, where, and why.
pub(crate) type Known = (usize, &'static [&'static str], &'static str);

/// The places where an envelope and a list of errors differ, beside the status.
pub(crate) const REFUSED: &[&str] = &[
    "status",
    "/auth",
    "/data",
    "/lease_duration",
    "/lease_id",
    "/renewable",
    "/request_id",
    "/warnings",
    "/wrap_info",
    "/errors",
];
/// How much the time that is left of something may differ, in seconds.
const SLACK_SECS: i64 = 2;

/// Where a value stands.
pub(crate) struct Place<'a> {
    /// The row.
    pub(crate) row: &'a Map,
    /// The pointer to the value in the reply.
    pub(crate) pointer: &'a str,
    /// The name of its member.
    pub(crate) name: &'a str,
}

/// What knows how values of an engine are compared.
pub(crate) trait Judge {
    /// Compares two texts; `None` leaves it to the rules for all recordings. What differs in a text that is a document of its own is
    /// told as places behind a `#`.
    fn texts(&mut self, place: &Place<'_>, recorded: &str, ours: &str) -> Option<Vec<String>>;

    /// Whether a number that differs from what was recorded is what may stand there.
    fn numbers(&mut self, place: &Place<'_>, recorded: &Json, ours: &str) -> bool {
        let Json::Number(recorded) = recorded else { return false };
        let number = |text: &str| -> i64 { text.parse().unwrap() };
        place.name == "ttl" && (number(recorded) - number(ours)).abs() <= SLACK_SECS
    }

    /// The headers that are compared.
    fn headers(&self) -> &'static [&'static str] {
        &["content-type"]
    }

    /// Whether a text stands for one thing wherever it stands, by a name that differs from run to run.
    fn is_id(&self, text: &str) -> bool {
        is_id(text)
    }

    /// Whether lists of such names have an order that says something.
    fn ids_are_in_order(&self) -> bool {
        false
    }

    /// The type and the bytes of a body that the recording does not hold; `None` where it does.
    fn body(&mut self, _: &Map) -> Option<(&'static str, Vec<u8>)> {
        None
    }

    /// Where the body of a reply differs; `None` leaves it to the rules for all recordings.
    fn whole(&mut self, _: &Map, _: &Reply) -> Option<Vec<String>> {
        None
    }

    /// Whether a member that was not recorded, by its pointer, is one that replies have here on purpose.
    fn is_ours(&self, _: &str) -> bool {
        false
    }

    /// What else was written down of a reply: where, as it was recorded, and as it is here.
    fn decoded(&mut self, _: &Map, _: &Reply) -> Vec<(String, Json, Json)> {
        Vec::new()
    }
}

/// Sends the rows that are replayed in order, and holds the differences against the known ones.
pub(crate) fn replay(
    server: &Running,
    recording: &str,
    is_replayed: impl Fn(&Map) -> bool,
    known: &[Known],
    judge: &mut dyn Judge,
) {
    let Ok(Json::Array(rows)) = json::parse(recording.as_bytes()) else { panic!("a list of rows") };
    let mut replay = Replay { server, captured: HashMap::new(), ours: HashMap::new(), judge };
    let mut found: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let row = row.as_object().unwrap();
        if !is_replayed(row) {
            continue;
        }
        let reply = replay.ask(row);
        let differences = replay.compare(row, &reply);
        if !differences.is_empty() {
            eprintln!("{at} {} {}: {differences:?}", text(row, "method"), text(row, "path"));
            eprintln!("  {} {}", reply.status, reply.text());
            found.insert(at, differences);
        }
        replay.capture(row, &reply);
    }
    let listed: BTreeMap<usize, Vec<String>> = known
        .iter()
        .map(|(at, places, _)| (*at, places.iter().map(|place| (*place).to_owned()).collect()))
        .collect();
    assert_eq!(listed.len(), known.len(), "a row is listed once");
    assert_eq!(found, listed, "left: what differs; right: what is listed");
}

/// What a row says of something.
pub(crate) fn text<'r>(row: &'r Map, name: &str) -> &'r str {
    row.get(name).and_then(Json::as_str).unwrap_or_default()
}

struct Replay<'s> {
    server: &'s Running,
    /// What rows gave that later rows use.
    captured: HashMap<String, String>,
    /// What stands for which recorded id.
    ours: HashMap<String, String>,
    judge: &'s mut dyn Judge,
}

impl Replay<'_> {
    /// A text with what was captured in its places.
    fn fill(&self, text: &str, quote: impl Fn(&str) -> String) -> String {
        self.captured.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{{{name}}}}}"), &quote(value))
        })
    }

    /// The same with a name and a password as the header of RFC 7617 says them.
    fn fill_basic(&self, text: &str) -> String {
        let filled = self.fill(text, str::to_owned);
        let Some((before, rest)) = filled.split_once("{{basic:") else { return filled };
        let (names, after) = rest.split_once("}}").unwrap();
        let (id, secret) = names.split_once(':').unwrap();
        let pair = format!("{}:{}", self.captured[id], self.captured[secret]);
        format!("{before}{}{after}", BASE64.encode(pair.as_bytes()))
    }

    fn ask(&mut self, row: &Map) -> Reply {
        let mut headers: Vec<(&str, String)> = Vec::new();
        if row["auth"] == Json::Bool(true) {
            let token = match text(row, "token") {
                "" => TOKEN.to_owned(),
                other => self.fill(other, str::to_owned),
            };
            headers.push(("X-Vault-Token", token));
        }
        if let Some(Json::Object(given)) = row.get("headers") {
            for (name, value) in given {
                headers.push((name, self.fill_basic(value.as_str().unwrap())));
            }
        }
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let path = self.fill(text(row, "path"), str::to_owned);
        if let Some((content_type, body)) = self.judge.body(row) {
            let length = body.len().to_string();
            let own = [("Content-Type", content_type), ("Content-Length", &length)];
            let headers = [&headers[..], &own].concat();
            let mut connection = self.server.connect();
            let head = request(text(row, "method"), &path, &headers, "");
            connection.send(&[head, body].concat());
            return connection.receive().unwrap();
        }
        let body = match (row.get("raw"), row.get("body")) {
            (Some(Json::String(raw)), _) => self.fill(raw, str::to_owned),
            (_, None | Some(Json::Null)) => String::new(),
            // What is filled in is told as JSON tells it.
            (_, Some(body)) => self.fill(&String::from_utf8(body.to_text()).unwrap(), |value| {
                let quoted = String::from_utf8(Json::from(value).to_text()).unwrap();
                quoted[1..quoted.len() - 1].to_owned()
            }),
        };
        self.server.connect().ask_with(text(row, "method"), &path, &headers, &body)
    }

    /// Keeps what later rows use: a value, the query of a URL (`query:`) or one of its parameters as it stands there (`qparam:name:`). A
    /// refusal has none.
    fn capture(&mut self, row: &Map, reply: &Reply) {
        let Some(Json::Object(captures)) = row.get("capture") else { return };
        for (name, rule) in captures {
            let body = json::parse(&reply.body).unwrap();
            let (rule, pointer) = rule.as_str().unwrap().split_once('/').unwrap();
            let value = pointer.split('/').try_fold(&body, |at, part| match at {
                Json::Array(items) => items.get(part.parse::<usize>().ok()?),
                _ => at.as_object()?.get(part),
            });
            let Some(value) = value else {
                assert!(reply.status >= 400, "{name} is not in {}", reply.text());
                continue;
            };
            let told = || String::from_utf8(value.to_text()).unwrap();
            let value = &value.as_str().map_or_else(told, ToOwned::to_owned);
            let query = || value.split_once('?').unwrap().1;
            let value = match rule.trim_end_matches(':').split_once(':') {
                None if rule.is_empty() => value,
                None => query(),
                Some((_, parameter)) => {
                    let mut pairs = query().split('&').filter_map(|pair| pair.split_once('='));
                    pairs.find(|(name, _)| *name == parameter).unwrap().1
                }
            };
            self.captured.insert(name.clone(), value.to_owned());
        }
    }

    fn compare(&mut self, row: &Map, reply: &Reply) -> Vec<String> {
        let mut differences = Vec::new();
        if row["status"].to_text() != reply.status.to_string().into_bytes() {
            differences.push("status".to_owned());
        }
        let headers = row["resp_headers"].as_object().unwrap();
        for name in self.judge.headers() {
            if reply.header(name) != headers.get(*name).and_then(Json::as_str) {
                differences.push((*name).to_owned());
            }
        }
        match &row["resp"] {
            _ if let Some(found) = self.judge.whole(row, reply) => differences.extend(found),
            Json::Null if reply.body.is_empty() => {}
            Json::Null => differences.push("/".to_owned()),
            Json::String(recorded) => {
                let place = Place { row, pointer: "/", name: "" };
                self.texts(&place, recorded, &reply.text(), &mut differences);
            }
            recorded => match json::parse(&reply.body) {
                Ok(ours) => {
                    let place = Place { row, pointer: "", name: "" };
                    self.values(&place, recorded, &ours, &mut differences);
                }
                Err(_) => differences.push("/".to_owned()),
            },
        }
        for (pointer, recorded, ours) in self.judge.decoded(row, reply) {
            let place = Place { row, pointer: &pointer, name: "" };
            self.values(&place, &recorded, &ours, &mut differences);
        }
        differences
    }

    fn values(
        &mut self,
        place: &Place<'_>,
        recorded: &Json,
        ours: &Json,
        differences: &mut Vec<String>,
    ) {
        match (recorded, ours) {
            (Json::Object(recorded), Json::Object(ours)) => {
                self.objects(place, recorded, ours, differences);
            }
            (Json::Array(recorded), Json::Array(ours)) if recorded.len() == ours.len() => {
                // Ids are sorted by what they happen to be.
                let is_id = |item: &Json| item.as_str().is_some_and(|text| self.judge.is_id(text));
                let are_ids =
                    !self.judge.ids_are_in_order() && recorded.iter().chain(ours).all(is_id);
                for (at, (recorded, ours)) in recorded.iter().zip(ours).enumerate() {
                    if are_ids {
                        continue;
                    }
                    let pointer = format!("{}/{at}", place.pointer);
                    let place = Place { pointer: &pointer, ..*place };
                    self.values(&place, recorded, ours, differences);
                }
            }
            _ if recorded == ours || place.name == "request_id" => {}
            (Json::String(recorded), Json::String(ours)) => {
                self.texts(place, recorded, ours, differences);
            }
            (recorded, Json::Number(number)) if self.judge.numbers(place, recorded, number) => {}
            _ => differences.push(place.pointer.to_owned()),
        }
    }

    fn objects(
        &mut self,
        place: &Place<'_>,
        recorded: &Map,
        ours: &Map,
        differences: &mut Vec<String>,
    ) {
        let mut ours = ours.clone();
        for (name, value) in recorded {
            let mut key = self.ours.get(name).unwrap_or(name).clone();
            // An id that was not seen yet stands for the one that is left.
            if !ours.contains_key(&key) && self.judge.is_id(name) {
                key = ours.keys().find(|key| self.judge.is_id(key)).unwrap_or(&key).clone();
            }
            let pointer = format!("{}/{name}", place.pointer);
            match ours.remove(&key) {
                Some(ours) => {
                    let place = Place { pointer: &pointer, name, ..*place };
                    self.values(&place, value, &ours, differences);
                }
                None => differences.push(pointer),
            }
        }
        let more = ours.keys().map(|name| format!("{}/{name}", place.pointer));
        differences.extend(more.filter(|pointer| !self.judge.is_ours(pointer)));
    }

    fn texts(
        &mut self,
        place: &Place<'_>,
        recorded: &str,
        ours: &str,
        differences: &mut Vec<String>,
    ) {
        if let Some(found) = self.judge.texts(place, recorded, ours) {
            differences.extend(found);
            return;
        }
        let is_same = if recorded == "MASKED" || recorded.starts_with("-----BEGIN") {
            // The first line of a key says its form.
            let first = |text: &str| text.lines().next().unwrap_or_default().replace("MASKED", "");
            !ours.is_empty() && (recorded == "MASKED" || first(recorded) == first(ours))
        } else if self.judge.is_id(recorded) || matches!(place.name, "lease_id" | "id") {
            let known = self.ours.entry(recorded.to_owned()).or_insert_with(|| ours.to_owned());
            known == ours
                && self.judge.is_id(recorded) == self.judge.is_id(ours)
                && !ours.is_empty()
        } else if place.name.ends_with("_time") {
            ours.parse::<jiff::Timestamp>().is_ok()
        } else {
            recorded == ours
        };
        if !is_same {
            differences.push(place.pointer.to_owned());
        }
    }
}

/// Whether a text is a UUID.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
