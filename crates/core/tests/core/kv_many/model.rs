//! Deleting, copying, moving and writing many at once, against the obvious model: a map of secrets
//! with their versions in a list.

use std::collections::BTreeMap;

use fastrand::Rng;
use kallisto_core::{Json, Operation};

use super::{all_names, data, own, query, text};
use crate::support::{Site, TOKEN};

/// Versions that the engine keeps when nobody says.
const KEPT: usize = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Secret {
    current: u64,
    /// Number, value, and whether it is deleted.
    versions: Vec<(u64, String, bool)>,
    owner: Option<String>,
}

type Model = BTreeMap<String, Secret>;

impl Secret {
    fn put(&mut self, value: &str) {
        self.current += 1;
        self.versions.push((self.current, value.to_owned(), false));
        let excess = self.versions.len().saturating_sub(KEPT);
        self.versions.drain(..excess);
    }

    fn lives(&self) -> bool {
        self.versions.last().is_some_and(|(_, _, is_deleted)| !is_deleted)
    }

    fn delete_latest(&mut self) {
        if let Some(latest) = self.versions.last_mut() {
            latest.2 = true;
        }
    }
}

/// What is at a path, or below it for a folder.
fn selected(model: &Model, place: &str) -> Vec<String> {
    let is_in = |name: &&String| match place.ends_with('/') || place.is_empty() {
        true => name.starts_with(place),
        false => *name == place,
    };
    model.keys().filter(is_in).cloned().collect()
}

fn place(random: &mut Rng) -> String {
    const NAMES: [&str; 10] = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/b", "f/a", "f/e/a", "g"];
    const FOLDERS: [&str; 6] = ["d/", "d/e/", "f/", "f/e/", "h/", "h/i/"];
    match random.bool() {
        true => NAMES[random.usize(..NAMES.len())].to_owned(),
        false => FOLDERS[random.usize(..FOLDERS.len())].to_owned(),
    }
}

fn secret_place(random: &mut Rng) -> String {
    let place = place(random);
    if place.ends_with('/') { format!("{place}x") } else { place }
}

fn step(site: &Site, model: &mut Model, random: &mut Rng, at: usize) -> String {
    match random.u8(..10) {
        0..=3 => {
            let (path, value) = (secret_place(random), format!("v{at}"));
            site.put(&path, &value);
            model.entry(path.clone()).or_default().put(&value);
            format!("put {path}")
        }
        4 => {
            let path = secret_place(random);
            let body = format!(r#"{{"custom_metadata":{{"owner":"o{at}"}}}}"#);
            site.ask(Operation::Update, &format!("secret/metadata/{path}"), &body).unwrap();
            model.entry(path.clone()).or_default().owner = Some(format!("o{at}"));
            format!("own {path}")
        }
        5 | 6 => delete(site, model, random),
        7 => write(site, model, random, at),
        _ => relocate(site, model, random),
    }
}

fn delete(site: &Site, model: &mut Model, random: &mut Rng) -> String {
    let (place, purges) = (place(random), random.bool());
    let body = |dry| format!(r#"{{"path":"secret/{place}","purge":{purges},"dry_run":{dry}}}"#);
    let chosen = selected(model, &place);
    let is_folder = place.ends_with('/');
    let is_empty = is_folder && chosen.is_empty();
    // Of a folder, what was deleted before is neither deleted nor counted again.
    let is_counted = |name: &&String| purges || model[*name].lives();
    let expected = if is_folder { chosen.iter().filter(is_counted).count() } else { 1 };
    for dry in [true, false] {
        let before = model.clone();
        let reply = own(site, TOKEN, "delete", &body(dry));
        if is_empty {
            assert!(reply.is_err(), "an empty folder was deleted");
            continue;
        }
        let told = data(reply.unwrap());
        assert_eq!(text(&told["count"]), expected.to_string(), "{place}");
        if dry {
            check(site, &before, "a dry run");
        }
    }
    for name in chosen {
        match purges {
            true => drop(model.remove(&name)),
            false => model.entry(name).or_default().delete_latest(),
        }
    }
    format!("delete {place} {purges}")
}

/// Two to four writes at once; one of them may name the wrong version, and then none happens.
fn write(site: &Site, model: &mut Model, random: &mut Rng, at: usize) -> String {
    let mut names: Vec<String> = (0..4).map(|_| secret_place(random)).collect();
    names.sort();
    names.dedup();
    let wrong = random.usize(..2 * names.len());
    let write = |(index, name): (usize, &String)| {
        let current = model.get(name).map_or(0, |secret| secret.current);
        let cas = if index == wrong { current + 1 } else { current };
        format!(
            r#"{{"path":"secret/data/{name}","data":{{"v":"v{at}"}},"options":{{"cas":{cas}}}}}"#
        )
    };
    let writes: Vec<String> = names.iter().enumerate().map(write).collect();
    let reply = own(site, TOKEN, "write", &format!(r#"{{"writes":[{}]}}"#, writes.join(",")));
    assert_eq!(reply.is_ok(), wrong >= names.len());
    if reply.is_ok() {
        for name in &names {
            model.entry(name.clone()).or_default().put(&format!("v{at}"));
        }
    }
    format!("write {names:?} {wrong}")
}

fn relocate(site: &Site, model: &mut Model, random: &mut Rng) -> String {
    let (from, to, moves) = (place(random), place(random), random.bool());
    let route = if moves { "move" } else { "copy" };
    let body = format!(r#"{{"from":"secret/{from}","to":"secret/{to}"}}"#);
    let chosen = selected(model, &from);
    let target = |name: &String| match from.ends_with('/') {
        true => format!("{to}{}", &name[from.len()..]),
        false => to.clone(),
    };
    let is_wrong = from.ends_with('/') != to.ends_with('/')
        || from == to
        || (from.ends_with('/') && to.starts_with(&from))
        || chosen.is_empty()
        || chosen.iter().any(|name| model.contains_key(&target(name)));
    let reply = own(site, TOKEN, route, &body);
    assert_eq!(reply.is_err(), is_wrong, "{route} {from} {to}: {reply:?}");
    if !is_wrong {
        for name in chosen {
            let secret = model[&name].clone();
            model.insert(target(&name), secret);
            if moves {
                model.remove(&name);
            }
        }
    }
    format!("{route} {from} {to} {is_wrong}")
}

#[track_caller]
fn check(site: &Site, model: &Model, after: &str) {
    let mut names = all_names(site);
    names.sort();
    assert_eq!(names, model.keys().cloned().collect::<Vec<_>>(), "{after}");
    for (name, secret) in model {
        let read = site.ask(Operation::Read, &format!("secret/metadata/{name}"), "").unwrap();
        let metadata = data(read);
        assert_eq!(text(&metadata["current_version"]), secret.current.to_string(), "{after}");
        let owner = metadata["custom_metadata"].as_object().and_then(|map| map["owner"].as_str());
        assert_eq!(owner, secret.owner.as_deref(), "{name} after {after}");
        let kept = metadata["versions"].as_object().unwrap();
        assert_eq!(kept.len(), secret.versions.len(), "{name} after {after}");
        for (number, value, is_deleted) in &secret.versions {
            let number = number.to_string();
            let read = query(site, TOKEN, &format!("secret/data/{name}"), &[("version", &number)]);
            let found = data(read.unwrap());
            let value = (!is_deleted).then_some(value.as_str());
            let found = found["data"].as_object().and_then(|data| data["v"].as_str());
            assert_eq!(found, value, "{name} version {number} after {after}");
        }
    }
}

/// Also over what is read after everything was loaded anew.
#[test]
fn what_is_done_to_many_is_what_is_done_to_each() {
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let site = Site::open(1 << 20);
        let mut model = Model::new();
        for at in 0..60 {
            let done = step(&site, &mut model, &mut random, at);
            check(&site, &model, &format!("{done} (seed {seed}, step {at})"));
        }
        pollster::block_on(site.core.seal()).unwrap();
        site.unseal();
        check(&site, &model, &format!("a restart (seed {seed})"));
    }
}

#[test]
fn what_is_moved_keeps_its_times_and_what_was_deleted_of_it() {
    let site = Site::open(1 << 20);
    for value in ["one", "two", "three"] {
        site.put("a", value);
    }
    site.ask(Operation::Update, "secret/delete/a", r#"{"versions":[2]}"#).unwrap();
    site.ask(Operation::Update, "secret/destroy/a", r#"{"versions":[1]}"#).unwrap();
    let metadata = |path: &str| {
        data(site.ask(Operation::Read, &format!("secret/metadata/{path}"), "").unwrap())
    };
    let before = metadata("a");
    own(&site, TOKEN, "move", r#"{"from":"secret/a","to":"secret/b"}"#).unwrap();
    assert_eq!(Json::Object(metadata("b")), Json::Object(before));
    assert!(site.get("a").is_err());
    site.assert_holds("b", "three");
    site.ask(Operation::Update, "secret/undelete/b", r#"{"versions":[2]}"#).unwrap();
    let second = data(query(&site, TOKEN, "secret/data/b", &[("version", "2")]).unwrap());
    assert_eq!(text(&second["data"]), r#"{"v":"two"}"#);
}
