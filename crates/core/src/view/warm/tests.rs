//! What comes into memory behind a load, what does not, and that reads are the same before and after.

use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use kallisto_auth::Operation::{self, Delete, Patch, Read, Update};
use kallisto_auth::Path;
use kallisto_store::{Batch, MemoryStore};

use super::*;
use crate::api::request::{BodyKind, Request, TokenText};
use crate::api::response::Response;
use crate::platform::server_info::{RouteAccess, ServerInfo};
use crate::routes::tests::{ROOT, ask, open_core};
use crate::state::Core;
use crate::view::hot_key;

/// Where secrets of the tests are, and how many there are in each place.
const PLACES: [(&str, &str); 3] = [("", "secret"), ("", "one"), ("team/", "kv")];

fn ask_in(
    core: &Core,
    namespace: &str,
    (operation, path, body): (Operation, &str, &str),
) -> Result<Response, crate::api::error::Error> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let request = Request {
        namespace,
        token: Some(TokenText::new(ROOT)),
        query: crate::api::request::parse_query(query).unwrap(),
        body: body.as_bytes(),
        body_kind: BodyKind::MergePatch,
        ..Request::new(operation, Path::decode(path).unwrap(), Timestamp::UNIX_EPOCH)
    };
    pollster::block_on(core.handle(&request))
}

fn root_of(core: &Core) -> Arc<NamespaceContext> {
    core.context.load_full().unwrap()
}

/// Everything as after a load: no value is in memory.
fn forget_values(core: &Core) {
    let root = root_of(core);
    root.view.hot.clear();
    root.view.namespaces.views().iter().for_each(|view| view.hot.clear());
}

fn in_memory(core: &Core) -> usize {
    let root = root_of(core);
    let below: usize = root.view.namespaces.views().iter().map(|view| view.hot.len()).sum();
    root.view.hot.len() + below
}

fn warm(core: &Core) -> Result<(u64, u64, u64), &'static str> {
    let root = root_of(core);
    let mut warming = Warming::new(&root);
    match warming.warm_all() {
        Ok(()) => Ok((warming.secrets, warming.left, warming.damaged)),
        Err(WarmingEnd::Full) => Err("full"),
        Err(WarmingEnd::Outdated) => Err("outdated"),
        Err(WarmingEnd::Unreadable(_)) => Err("unreadable"),
    }
}

/// A server with secrets of every kind in every place: the paths to read them by.
fn filled() -> (Core, Vec<(&'static str, String)>) {
    let core = open_core(RouteAccess::Token);
    ask_in(&core, "", (Update, "sys/namespaces/team", "{}")).unwrap();
    let kv = r#"{"type":"kv","options":{"version":"2"}}"#;
    ask_in(&core, "team/", (Update, "sys/mounts/kv", kv)).unwrap();
    let mut reads = Vec::new();
    for (namespace, mount) in PLACES {
        let ask = |operation, path: &str, body: &str| {
            ask_in(&core, namespace, (operation, path, body)).unwrap();
        };
        if mount == "one" {
            ask(Update, "one/a/b", r#"{"v":"one","ttl":"5m"}"#);
            reads.push((namespace, "one/a/b".to_owned()));
            continue;
        }
        let put = |path: &str, value: &str| {
            let body = format!(r#"{{"data":{{"v":"{value}"}}}}"#);
            ask(Update, &format!("{mount}/data/{path}"), &body);
        };
        for version in 0..4 {
            put("many/versions", &version.to_string());
        }
        put("plain", "a\\nb\\\\");
        put("custom", "c");
        ask(Update, &format!("{mount}/metadata/custom"), r#"{"custom_metadata":{"who":"me"}}"#);
        put("deleted", "d");
        ask(Delete, &format!("{mount}/data/deleted"), "");
        put("destroyed", "d");
        ask(Update, &format!("{mount}/destroy/destroyed"), r#"{"versions":[1]}"#);
        put("older/destroyed", "1");
        put("older/destroyed", "2");
        ask(Update, &format!("{mount}/destroy/older/destroyed"), r#"{"versions":[1]}"#);
        ask(Update, &format!("{mount}/metadata/alone"), r#"{"max_versions":3}"#);
        put("patched", "p");
        ask(Patch, &format!("{mount}/data/patched"), r#"{"data":{"w":"q"}}"#);
        for path in [
            "many/versions",
            "plain",
            "custom",
            "deleted",
            "destroyed",
            "older/destroyed",
            "alone",
            "patched",
        ] {
            reads.push((namespace, format!("{mount}/data/{path}")));
        }
    }
    (core, reads)
}

fn read_all(core: &Core, reads: &[(&'static str, String)]) -> Vec<String> {
    let show = |(namespace, path): &(&str, String)| {
        let answer = ask_in(core, namespace, (Read, path, ""));
        match answer {
            Ok(Response::Logical(found) | Response::Missing(found)) => {
                format!("{path}: {} {:?}", String::from_utf8_lossy(&found.data), found.etag)
            }
            other => format!("{path}: {other:?}"),
        }
    };
    reads.iter().map(show).collect()
}

#[test]
fn reads_are_answered_before_values_are_in_memory_and_the_same_after() {
    let (core, reads) = filled();
    let before = read_all(&core, &reads);
    let cold: Vec<String> = reads
        .iter()
        .flat_map(|read| {
            forget_values(&core);
            read_all(&core, std::slice::from_ref(read))
        })
        .collect();
    assert_eq!(cold, before);
    forget_values(&core);
    assert_eq!(warm(&core), Ok((reads.len() as u64, 0, 0)));
    assert_eq!(in_memory(&core), reads.len());
    let offered = root_of(&core).view.offered();
    assert_eq!(read_all(&core, &reads), before);
    assert_eq!(root_of(&core).view.offered(), offered, "one was read from the store");
}

#[test]
fn chunks_end_between_secrets_and_none_is_left_out() {
    let core = open_core(RouteAccess::Token);
    let secrets = 2 * CHUNK_SECRETS_MAX + 7;
    for at in 0..secrets {
        // One without data is complete when the next one comes.
        if at % 2 == 0 {
            let path = format!("secret/metadata/{at}");
            ask(&core, Some(ROOT), Update, &path, r#"{"max_versions":3}"#).unwrap();
            continue;
        }
        for version in 0..1 + at % 3 {
            let body = format!(r#"{{"data":{{"at":{at},"version":{version}}}}}"#);
            ask(&core, Some(ROOT), Update, &format!("secret/data/{at}"), &body).unwrap();
        }
    }
    forget_values(&core);
    assert_eq!(warm(&core), Ok((secrets as u64, 0, 0)));
    assert_eq!(in_memory(&core), secrets);
    let root = root_of(&core);
    let (mount, _) = root.view.mounts.route("secret/").unwrap();
    let prefix = keys::engine_prefix(kind::KV_META, mount.entry.id);
    let warmed = WarmedView { view: &root.view, front: Vec::new(), has_room: false };
    for secrets_max in 1..4 {
        let (mut found, mut next) = (0, Some(prefix.clone()));
        while let Some(behind) = next {
            let read = Warming::new(&root).read(&warmed, (&prefix, &behind), secrets_max);
            let chunk = read.ok().unwrap();
            // One more that was complete only when the next one came.
            assert!(chunk.secrets.len() <= secrets_max + 1 && chunk.damaged.is_empty());
            (found, next) = (found + chunk.secrets.len(), chunk.next);
        }
        assert_eq!(found, secrets);
    }
}

#[test]
fn what_was_read_before_a_write_does_not_come_into_memory() {
    let core = open_core(RouteAccess::Token);
    let put = |value: &str| {
        let body = format!(r#"{{"data":{{"v":"{value}"}}}}"#);
        ask(&core, Some(ROOT), Update, "secret/data/a", &body).unwrap();
    };
    put("old");
    let root = root_of(&core);
    let (mount, _) = root.view.mounts.route("secret/").unwrap();
    let prefix = keys::engine_prefix(kind::KV_META, mount.entry.id);
    let warmed = WarmedView { view: &root.view, front: Vec::new(), has_room: false };
    let read = || Warming::new(&root).read(&warmed, (&prefix, &prefix), 9).ok().unwrap();
    let (folds, chunk) = (root.view.folds(), read());
    assert_eq!(chunk.secrets.len(), 1);
    put("new");
    forget_values(&core);
    assert_eq!(root.view.offer_chunk(folds, &chunk.secrets), Offered::Late);
    assert_eq!(in_memory(&core), 0);
    assert_eq!(root.view.offer_chunk(root.view.folds(), &read().secrets), Offered::Taken);
    let shown = read_all(&core, &[("", "secret/data/a".to_owned())]);
    assert!(shown[0].contains("new") && root.view.offered() == 0, "{shown:?}");
}

#[test]
fn a_server_that_is_written_to_shows_nothing_old() {
    let core = open_core(RouteAccess::Token);
    let put = |at: usize, round: usize| {
        let body = format!(r#"{{"data":{{"round":{round}}}}}"#);
        ask(&core, Some(ROOT), Update, &format!("secret/data/{at}"), &body).unwrap();
    };
    const SECRETS: usize = 64;
    const ROUNDS: usize = 200;
    (0..SECRETS).for_each(|at| put(at, 0));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                forget_values(&core);
                assert!(warm(&core).is_ok());
            }
        });
        for round in 1..=ROUNDS {
            for at in (round % 7..SECRETS).step_by(7) {
                if (round + at) % 5 == 0 {
                    let path = format!("secret/metadata/{at}");
                    ask(&core, Some(ROOT), Delete, &path, "").unwrap();
                }
                put(at, round);
                let shown = read_all(&core, &[("", format!("secret/data/{at}"))]);
                assert!(shown[0].contains(&format!("\"round\":{round}}}")), "{round}: {shown:?}");
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn values_are_read_up_to_the_budget_and_push_nothing_out() {
    const BYTES_MAX: usize = 100_000;
    let info = ServerInfo { hot_bytes_max: BYTES_MAX, ..ServerInfo::default() };
    let core = Core::new(Arc::new(MemoryStore::new()), info);
    let root = Some(ROOT.to_owned().into());
    pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
    let value = "x".repeat(300);
    for at in 0..900 {
        let body = format!(r#"{{"data":{{"v":"{value}"}}}}"#);
        ask(&core, Some(ROOT), Update, &format!("secret/data/{at}"), &body).unwrap();
    }
    let view = Arc::clone(&root_of(&core).view);
    forget_values(&core);
    view.count_hot();
    let evicted = view.evicted();
    assert_eq!(warm(&core), Err("full"));
    assert_eq!(view.evicted(), evicted);
    let memory = view.hot.memory();
    let live = memory.entry_bytes - memory.retired_bytes;
    assert!(live <= BYTES_MAX + BYTES_MAX / 10, "{live}");
}

#[test]
fn a_server_that_is_sealed_reads_no_more() {
    let (core, _) = filled();
    let root = root_of(&core);
    forget_values(&core);
    root.outdated.set(None);
    let mut warming = Warming::new(&root);
    assert!(matches!(warming.warm_all(), Err(WarmingEnd::Outdated)));
    assert_eq!(in_memory(&core), 0);
}

#[test]
fn damage_is_passed_over_and_counted() {
    let (core, reads) = filled();
    let root = root_of(&core);
    let (mount, _) = root.view.mounts.route("secret/").unwrap();
    let id = mount.entry.id;
    let mut batch = Batch::new();
    batch.put(keys::kv_meta(id, "bad/metadata"), b"junk".to_vec());
    batch.put(keys::kv_version(id, "plain", 1), b"junk".to_vec());
    batch.delete(keys::kv_version(id, "custom", 1));
    root.store.commit(batch).wait().unwrap();
    forget_values(&core);
    assert_eq!(warm(&core), Ok((reads.len() as u64 - 2, 0, 3)));
    let guard = root.view.hot.pin();
    let is_there = |path| root.view.hot.get(&hot_key(id, path), &guard).is_some();
    assert!(!is_there("plain") && !is_there("custom") && is_there("many/versions"));
}

#[test]
fn nothing_is_started_for_no_secrets_and_an_unseal_with_some_reads_them() {
    let core = open_core(RouteAccess::Token);
    let root = root_of(&core);
    start_warming(&root);
    assert!(!root.view.is_warming());
    drop((core, root));
    let (core, reads) = filled();
    forget_values(&core);
    let root = root_of(&core);
    start_warming(&root);
    while root.view.is_warming() {
        std::thread::yield_now();
    }
    assert_eq!(in_memory(&core), reads.len());
}

#[test]
fn a_core_that_is_gone_is_not_held_until_its_values_are_read() {
    let (core, _) = filled();
    let root = root_of(&core);
    start_warming(&root);
    assert!(root.view.is_warming());
    let held = Arc::downgrade(&root);
    drop((core, root));
    assert!(held.upgrade().is_none(), "its store can be opened again");
}
