//! A server for tests of a migration, on loopback, and passes between it and a source.
//!
//! It keeps objects by their paths, as far as a pass asks for it: reads, lists, writes, deletes, and imports of secrets with versions. Nothing is
//! checked; what a real server refuses is tested with real servers (`tests/ops/migrate.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::endpoint::{ClusterPair, Endpoint};
use super::pass::{Migration, MigrationPass};
use super::report::MigrationReport;
use super::scope::{ContentKind, MigrationScope};
use super::snapshot::SnapshotSource;
use super::state::StateFile;
use crate::progress::Progress;
use kallisto_command::client::Client;
use kallisto_command::config::{Audience, Config, Environment};
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map, parse_object};

/// A snapshot of OpenBao 2.7.2, and its one share. It has policies, password policies and an entity with slashes in their names, and the secrets
/// `plain`, `back\slash` and one of 61 segments in the mounts `deep/one/` (version 1) and `secret/` (version 2).
const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/openbao-2.7.2.snap");
const SHARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/openbao-2.7.2.share");

/// Objects by their paths below `/v1/`, as they are on the wire.
type Objects = Arc<Mutex<BTreeMap<String, Map>>>;

/// A server that lives as long as the process.
pub(super) struct TestServer {
    config: Config,
    objects: Objects,
}

impl TestServer {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let objects = Objects::default();
        let kept = Arc::clone(&objects);
        std::thread::spawn(move || {
            listener.incoming().map_while(Result::ok).for_each(|stream| answer(&kept, stream));
        });
        let of = |name: &str| match name {
            "VAULT_ADDR" => Some(address.clone()),
            "VAULT_TOKEN" => Some("token".to_owned()),
            "VAULT_FORMAT" => Some("json".to_owned()),
            _ => None,
        };
        let environment = Environment::of(of);
        let config =
            Config::resolve(&CommonFlags::default(), &environment, Audience::Program).unwrap();
        Self { config, objects }
    }

    /// The same with a mount of secrets with versions at `secret/`.
    pub(super) fn with_secrets() -> Self {
        let server = Self::start();
        server.put("sys/mounts", r#"{"secret/":{"type":"kv","options":{"version":"2"}}}"#);
        server
    }

    pub(super) fn put(&self, path: &str, object: &str) {
        let object = parse_object(object.as_bytes()).unwrap();
        self.objects.lock().unwrap().insert(path.to_owned(), object);
    }

    pub(super) fn remove(&self, path: &str) {
        self.objects.lock().unwrap().remove(path);
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.objects.lock().unwrap().contains_key(path)
    }

    pub(super) fn endpoint(&self, name: &'static str) -> Endpoint<'_> {
        Endpoint::new(name, Client::new(&self.config).unwrap().without_line())
    }
}

/// The snapshot of OpenBao.
pub(super) fn snapshot() -> Endpoint<'static> {
    let config =
        Config::resolve(&CommonFlags::default(), &Environment::of(|_| None), Audience::Program);
    let (file, share) = (Path::new(SNAPSHOT), Path::new(SHARE));
    let opened = SnapshotSource::open(file, Some(share), "", 64, &config.unwrap());
    Endpoint::of_snapshot(opened.unwrap())
}

/// How a pass is run.
pub(super) struct TestPass<'t> {
    pub(super) pass: MigrationPass,
    pub(super) kinds: &'t [ContentKind],
    pub(super) paths: &'t [String],
    pub(super) overwrites: bool,
    pub(super) prunes: bool,
    pub(super) state: Option<&'t Path>,
}

impl TestPass<'_> {
    pub(super) const fn of(pass: MigrationPass, kinds: &'static [ContentKind]) -> Self {
        Self { pass, kinds, paths: &[], overwrites: false, prunes: false, state: None }
    }

    /// Runs it: the exit code and the report.
    pub(super) fn run(&self, source: Endpoint<'_>, target: &TestServer) -> (u8, Map) {
        let ends = ClusterPair { source: "one".to_owned(), target: "other".to_owned() };
        let migration = Migration {
            source,
            target: target.endpoint("target"),
            pass: self.pass,
            scope: MigrationScope::new(self.kinds, self.paths).unwrap(),
            overwrites: self.overwrites,
            prunes: self.prunes,
            workers: 2,
            report: MigrationReport::new(self.pass),
            progress: Progress::start(),
            state: self.state.map(|path| StateFile::open(path, &ends).unwrap()),
        };
        migration.run().unwrap();
        if let (Some(state), MigrationPass::Move) = (&migration.state, self.pass) {
            state.save().unwrap();
        }
        let outcome = migration.report.outcome(&target.config).unwrap();
        (outcome.code, parse_object(&outcome.stdout).unwrap())
    }
}

/// Counts of a kind in a report: what moved, was the same, differed, and did not move.
pub(super) fn counts(report: &Map, kind: &str) -> [u64; 4] {
    let counts = report.get("counts").and_then(Json::as_object);
    let counts = counts.and_then(|counts| counts.get(kind)).and_then(Json::as_object);
    ["moved", "same", "differing", "not_moved"].map(|name| {
        match counts.and_then(|counts| counts.get(name)) {
            Some(Json::Number(number)) => number.parse().unwrap(),
            _ => 0,
        }
    })
}

/// Paths and reasons of a list in a report, a line each.
pub(super) fn lines(report: &Map, list: &str) -> Vec<String> {
    let Some(Json::Array(lines)) = report.get(list) else { return Vec::new() };
    let text = |line: &Json, name: &str| {
        line.as_object().unwrap().get(name).and_then(Json::as_str).unwrap().to_owned()
    };
    lines.iter().map(|line| format!("{}: {}", text(line, "path"), text(line, "reason"))).collect()
}

/// Answers the requests of one connection.
fn answer(objects: &Objects, stream: TcpStream) {
    let mut from = BufReader::new(stream.try_clone().unwrap());
    let mut to = stream;
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let Some((method, rest)) = head.first().and_then(|line| line.split_once(" /v1/")) else {
        return;
    };
    let target = rest.split(' ').next().unwrap_or_default();
    let length = head.iter().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    from.read_exact(&mut body).unwrap();
    let found = respond(&mut objects.lock().unwrap(), method, target, &body);
    let (status, body) = match found {
        Some(data) => ("200 OK", Json::object([("data", data)]).to_text()),
        None => ("404 Not Found", br#"{"errors":[]}"#.to_vec()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    to.write_all(&[head.as_bytes(), &body].concat()).unwrap();
}

fn respond(
    objects: &mut BTreeMap<String, Map>,
    method: &str,
    target: &str,
    body: &[u8],
) -> Option<Json> {
    match (method, target.strip_suffix("?list=true")) {
        ("GET", Some(folder)) => {
            let folder = format!("{}/", folder.trim_end_matches('/'));
            let below = objects.keys().filter_map(|path| path.strip_prefix(&folder));
            let names: BTreeSet<String> = below
                .map(|rest| match rest.split_once('/') {
                    Some((name, _)) => format!("{name}/"),
                    None => rest.to_owned(),
                })
                .collect();
            let keys = Json::strings(&names);
            (!names.is_empty()).then(|| Json::object([("keys", keys)]))
        }
        ("GET", None) => objects.get(target).cloned().map(Json::Object),
        ("DELETE", _) => {
            objects.remove(target);
            Some(Json::Null)
        }
        _ => {
            let body = parse_object(body).unwrap_or_default();
            match target.split_once("/import/") {
                Some((mount, path)) => import(objects, mount, path, &body),
                None => drop(objects.insert(target.to_owned(), body)),
            }
            Some(Json::Null)
        }
    }
}

/// Takes a secret as Kallisto does: it shows every setting, also those that the source did not name.
fn import(objects: &mut BTreeMap<String, Map>, mount: &str, path: &str, body: &Map) {
    let of = |name: &str| body.get(name).and_then(Json::as_object).cloned().unwrap_or_default();
    let mut metadata = of("metadata");
    for (name, unset) in [
        ("cas_required", Json::from(false)),
        ("current_metadata_version", 0_u64.into()),
        ("custom_metadata", Json::Null),
        ("metadata_cas_required", false.into()),
    ] {
        metadata.entry(name.to_owned()).or_insert(unset);
    }
    objects.insert(format!("{mount}/metadata/{path}"), metadata);
    for (version, data) in of("data") {
        let answer = Map::from([("data".to_owned(), data)]);
        objects.insert(format!("{mount}/data/{path}?version={version}"), answer);
    }
}
