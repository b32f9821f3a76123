//! Lists and searches show what the caller may see, and nothing else.

use std::collections::BTreeSet;

use fastrand::Rng;
use kallisto_core::{Error, Json, Operation};

use super::{ROUTES, bearer, data, own, query, text, texts};
use crate::support::{Site, TOKEN};

/// Whether the policies, as `sys/capabilities` tells them, let the token read or change the secret.
fn may_see(site: &Site, token: &str, path: &str) -> bool {
    let (of_data, of_metadata) = (format!("secret/data/{path}"), format!("secret/metadata/{path}"));
    let body = format!(r#"{{"token":"{token}","paths":["{of_data}","{of_metadata}"]}}"#);
    let told = data_merged(site, &body);
    let holds = |path: &str, names: &[&str]| {
        texts(&told, path).iter().any(|held| names.contains(&held.as_str()))
    };
    holds(&of_data, &["read", "update", "patch", "delete"]) || holds(&of_metadata, &["read"])
}

fn data_merged(site: &Site, body: &str) -> kallisto_core::Map {
    match site.ask(Operation::Update, "sys/capabilities", body).unwrap() {
        kallisto_core::Response::Merged(logical) => {
            kallisto_core::json::parse_object(&logical.data).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

const NAMES: [&str; 12] =
    ["a", "a/b", "a!b", "a/c/d", "b", "b/a", "b/c/a", "b/c/b", "c/x", "c/y/z", "d0", "d/a"];

fn random_rules(random: &mut Rng) -> String {
    const PATTERNS: [&str; 10] = [
        "secret/data/*",
        "secret/data/a/*",
        "secret/data/b/+/a",
        "secret/metadata/c/*",
        "secret/data/b*",
        "secret/data/a",
        "secret/metadata/b/a",
        "secret/data/c/y/z",
        "secret/data/+/a",
        "secret/data/d*",
    ];
    const HELD: [&str; 7] = ["read", "update", "delete", "patch", "create", "list", "deny"];
    let mut rules = ROUTES.to_owned();
    for pattern in PATTERNS {
        if random.u8(..3) == 0 {
            let held = HELD[random.usize(..HELD.len())];
            rules.push_str(&format!(" path \"{pattern}\" {{ capabilities = [\"{held}\"] }}"));
        }
    }
    rules
}

/// All pages of a filtered list.
fn listed(site: &Site, token: &str, folder: &str, is_deep: bool, limit: usize) -> Vec<String> {
    let (limit, is_deep) = (limit.to_string(), is_deep.to_string());
    let (mut names, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("secret/{folder}");
        let pairs =
            [("path", path.as_str()), ("limit", &limit), ("recursive", &is_deep), ("next", &next)];
        let told = match query(site, token, "sys/kallisto/kv/list", &pairs) {
            Ok(reply) => data(reply),
            Err(Error::NotFound) => return names,
            Err(error) => panic!("{error}"),
        };
        let page = texts(&told, "keys");
        assert!(page.len() <= limit.parse().unwrap());
        names.extend(page);
        match told["next"].as_str() {
            Some(at) => at.clone_into(&mut next),
            None => return names,
        }
    }
}

#[test]
fn a_filtered_list_is_the_list_without_what_may_not_be_seen() {
    let mut shown = 0;
    for seed in 0..25 {
        let mut random = Rng::with_seed(seed);
        let site = Site::open(1 << 20);
        for name in NAMES {
            site.put(name, "v");
        }
        let token = bearer(&site, "viewer", &random_rules(&mut random));
        let visible: Vec<&str> =
            NAMES.into_iter().filter(|name| may_see(&site, &token, name)).collect();
        for folder in ["", "a/", "b/", "b/c/", "c/", "none/"] {
            let below: Vec<&str> =
                visible.iter().filter_map(|name| name.strip_prefix(folder)).collect();
            let children: BTreeSet<String> = below
                .iter()
                .map(|name| match name.split_once('/') {
                    Some((child, _)) => format!("{child}/"),
                    None => (*name).to_owned(),
                })
                .collect();
            let deep: BTreeSet<String> = below.iter().map(|name| (*name).to_owned()).collect();
            for limit in [1, 3, 100] {
                let got = listed(&site, &token, folder, false, limit);
                assert_eq!(got, children.iter().cloned().collect::<Vec<_>>(), "{seed} {folder}");
                let got = listed(&site, &token, folder, true, limit);
                assert_eq!(got, deep.iter().cloned().collect::<Vec<_>>(), "{seed} {folder}");
            }
            shown += children.len();
        }
    }
    assert!(shown > 100, "{shown}");
}

#[test]
fn a_search_finds_names_and_metadata_among_what_may_be_seen() {
    let site = Site::open(1 << 20);
    for (path, owner) in
        [("app/DB-main", "ada"), ("app/web", "ada"), ("other/db", "eve"), ("db", "")]
    {
        site.put(path, "value-never-searched");
        if !owner.is_empty() {
            let body = format!(r#"{{"custom_metadata":{{"owner":"{owner}","tier":"1"}}}}"#);
            site.ask(Operation::Update, &format!("secret/metadata/{path}"), &body).unwrap();
        }
    }
    let rules = format!(
        "{ROUTES} path \"secret/data/app/*\" {{ capabilities = [\"update\"] }}
        path \"secret/metadata/other/*\" {{ capabilities = [\"read\"] }}"
    );
    let token = bearer(&site, "finder", &rules);
    let found = |token: &str, body: &str| -> Vec<String> {
        let told = data(own(&site, token, "search", body).unwrap());
        let Json::Array(results) = &told["results"] else { panic!("no results") };
        let path = |result: &Json| result.as_object().unwrap()["path"].as_str().unwrap().to_owned();
        results.iter().map(path).collect()
    };
    for (token, body, expected) in [
        (
            TOKEN,
            r#"{"path":"secret/","name":"db"}"#,
            vec!["secret/app/DB-main", "secret/db", "secret/other/db"],
        ),
        (TOKEN, r#"{"path":"secret/","name":"*/db"}"#, vec!["secret/other/db"]),
        (TOKEN, r#"{"path":"secret/","name":"value-never"}"#, vec![]),
        (
            TOKEN,
            r#"{"path":"secret","metadata":{"owner":"ada"}}"#,
            vec!["secret/app/DB-main", "secret/app/web"],
        ),
        (
            TOKEN,
            r#"{"path":"secret/app","metadata":"owner=a*,tier=1","name":"WEB"}"#,
            vec!["secret/app/web"],
        ),
        (TOKEN, r#"{"path":"secret/","metadata":{"owner":"ADA"}}"#, vec![]),
        (
            &token,
            r#"{"path":"secret/","name":"db"}"#,
            vec!["secret/app/DB-main", "secret/other/db"],
        ),
        // Who may write a secret and not read it learns nothing of its metadata.
        (&token, r#"{"path":"secret/","metadata":{"tier":"*"}}"#, vec!["secret/other/db"]),
    ] {
        assert_eq!(found(token, body), expected, "{body}");
    }
    let told = own(&site, &token, "search", r#"{"path":"secret/","metadata":{"tier":"1"}}"#);
    let shown = text(&data(told.unwrap()).into());
    assert!(shown.contains(r#""custom_metadata":{"owner":"eve","tier":"1"}"#), "{shown}");
}

#[test]
fn a_folder_is_listed_by_those_who_reach_into_it_however_long_its_name_is() {
    let site = Site::open(1 << 20);
    for name in ["long/folder/deeper/one", "long/folder/other/two", "long/folder/three"] {
        site.put(name, "v");
    }
    let rules = format!(
        "{ROUTES} path \"secret/data/long/folder/deeper/*\" {{ capabilities = [\"read\"] }}"
    );
    let token = bearer(&site, "reacher", &rules);
    for (folder, expected) in [
        ("", ["long/"]),
        ("long", ["folder/"]),
        ("long/folder", ["deeper/"]),
        ("long/folder/deeper", ["one"]),
    ] {
        assert_eq!(listed(&site, &token, folder, false, 10), expected, "{folder}");
    }
}

#[test]
fn a_search_is_given_in_pages() {
    let site = Site::open(1 << 20);
    for name in ["a/1", "a/2", "b", "c/1", "d"] {
        site.put(name, "v");
    }
    for path in ["", "secret/"] {
        for (limit, pages) in [(1, 5), (2, 3), (5, 1), (0, 1), (-1, 1)] {
            let (mut found, mut next, mut asked) = (Vec::new(), String::new(), 0);
            loop {
                let body = format!(r#"{{"path":"{path}","limit":{limit},"next":"{next}"}}"#);
                let told = data(own(&site, TOKEN, "search", &body).unwrap());
                let Json::Array(results) = &told["results"] else { panic!("no results") };
                assert!(limit < 1 || results.len() <= usize::try_from(limit).unwrap());
                found.extend(results.iter().map(text));
                asked += 1;
                match told["next"].as_str() {
                    Some(at) => at.clone_into(&mut next),
                    None => break,
                }
            }
            let names = ["a/1", "a/2", "b", "c/1", "d"];
            let all = names.map(|name| format!(r#"{{"path":"secret/{name}"}}"#));
            assert_eq!((found, asked), (all.to_vec(), pages), "{path:?} {limit}");
        }
    }
}

#[test]
fn a_cursor_is_for_its_folder_and_its_server() {
    let site = Site::open(1 << 20);
    for name in ["a/1", "a/2", "b/1", "b/2"] {
        site.put(name, "v");
    }
    let page = |path: &str, next: &str| {
        query(
            &site,
            TOKEN,
            "sys/kallisto/kv/list",
            &[("path", path), ("limit", "1"), ("next", next)],
        )
    };
    let told = data(page("secret/a", "").unwrap());
    let next = told["next"].as_str().unwrap();
    assert_eq!(texts(&data(page("secret/a", next).unwrap()), "keys"), ["2"]);
    for (path, next) in [("secret/b", next), ("secret/a", "AAAA"), ("secret/a", "!")] {
        assert!(matches!(page(path, next), Err(Error::Invalid(_))), "{path} {next}");
    }
    for path in ["", "/", "a//b", "nowhere/a", "sys/"] {
        assert!(matches!(page(path, ""), Err(Error::Invalid(_))), "{path}");
    }
    let token = bearer(&site, "nobody", ROUTES);
    let other = query(&site, &token, "sys/kallisto/kv/list", &[("path", "nowhere/")]);
    assert!(matches!(other, Err(Error::Denied(_))));
    let other = query(&site, &token, "sys/kallisto/kv/list", &[("path", "secret/")]);
    assert_eq!(other.unwrap_err(), Error::NotFound);
}
