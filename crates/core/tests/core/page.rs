//! What the web page asks: names with details, searches, who wrote, the token tree, its settings.

use jiff::Timestamp;
use kallisto_core::json::{Json, Map};
use kallisto_core::{Error, Operation, Path, Request, TokenText};

use crate::support::{Site, ask_as, data};

use Operation::{Delete, List, Read, Update};

const LIST: &str = "sys/kallisto/kv/list";
const SEARCH: &str = "sys/kallisto/kv/search";

fn ask(site: &Site, token: &str, path: &str, body: &str) -> Map {
    data(ask_as(&site.core, token, 0, Update, path, body))
}

fn bearer(site: &Site, name: &str, policy: &str) {
    let body = Json::object([("policy", policy.into())]).to_text();
    let path = format!("sys/policies/acl/{name}");
    site.ask(Update, &path, std::str::from_utf8(&body).unwrap()).unwrap();
    let body = format!(
        r#"{{"id":"{name}","policies":["{name}"],"no_default_policy":true,"display_name":"{name}"}}"#
    );
    site.ask(Update, "auth/token/create", &body).unwrap();
}

const KV: &str = r#"path "sys/kallisto/kv/*" { capabilities = ["read", "update"] }"#;

fn site() -> Site {
    let site = Site::open(1 << 20);
    for (path, data, custom) in [
        ("a", r#"{"DB_URL":"x","n":1}"#, r#"{"owner":"ada","due":"2026-12-01"}"#),
        ("b", r#"{"other":"y"}"#, r#"{"owner":"bob","due":"2027-06-01"}"#),
        ("f/c", r#"{"DB_PASS":"z"}"#, r#"{"owner":"ada"}"#),
    ] {
        site.ask(Update, &format!("secret/data/{path}"), &format!(r#"{{"data":{data}}}"#)).unwrap();
        let custom = format!(r#"{{"custom_metadata":{custom}}}"#);
        site.ask(Update, &format!("secret/metadata/{path}"), &custom).unwrap();
    }
    site.ask(Update, "sys/mounts/one", r#"{"type":"kv"}"#).unwrap();
    site.ask(Update, "one/old", r#"{"DB_URL":"w"}"#).unwrap();
    let weak = format!(
        "{KV}\npath \"secret/data/*\" {{ capabilities = [\"create\", \"read\", \"update\"] }}"
    );
    bearer(&site, "weak", &weak);
    bearer(&site, "none", KV);
    site
}

fn text(map: &Map, name: &str) -> String {
    map.get(name).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn paths(answer: &Map) -> Vec<String> {
    let Json::Array(results) = &answer["results"] else { panic!("no results") };
    results.iter().map(|one| text(one.as_object().unwrap(), "path")).collect()
}

#[test]
fn a_detailed_list_shows_what_a_read_of_the_metadata_would_and_no_more() {
    let site = site();
    site.ask(Delete, "secret/data/b", "").unwrap();
    let answer = ask(&site, "root", LIST, r#"{"path":"secret/","detail":true}"#);
    let Json::Array(entries) = &answer["entries"] else { panic!("no entries") };
    let entries: Vec<&Map> = entries.iter().map(|entry| entry.as_object().unwrap()).collect();
    let shown: Vec<String> = entries
        .iter()
        .map(|entry| {
            let by = entry.get("created_by").and_then(|by| by.as_object());
            format!(
                "{} {} {} {}",
                text(entry, "name"),
                text(entry, "state"),
                text(entry, "owner"),
                by.map(|by| text(by, "display_name")).unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(shown, ["a live ada root", "b deleted bob root", "f/   "]);
    assert!(entries[2]["folder"] == true.into() && entries[0]["version"] == 1_u64.into());
    // Who may read the data and not the metadata sees names.
    let answer = ask(&site, "weak", LIST, r#"{"path":"secret/","detail":"true","limit":1}"#);
    let Json::Array(entries) = &answer["entries"] else { panic!("no entries") };
    assert_eq!(entries[0].as_object().unwrap().iter().count(), 2);
    assert!(answer["next"].as_str().is_some());
    let nothing =
        ask_as(&site.core, "none", 0, Update, LIST, r#"{"path":"secret/","detail":true}"#);
    assert!(nothing.is_err());
}

#[test]
fn a_search_without_a_path_goes_through_every_mount_in_pages() {
    let site = site();
    assert_eq!(
        paths(&ask(&site, "root", SEARCH, r#"{"path":""}"#)),
        ["one/old", "secret/a", "secret/b", "secret/f/c"]
    );
    assert_eq!(paths(&ask(&site, "weak", SEARCH, "{}")), ["secret/a", "secret/b", "secret/f/c"]);
    assert!(paths(&ask(&site, "none", SEARCH, "{}")).is_empty());
    let mut all = Vec::new();
    let mut next = String::new();
    for _ in 0..9 {
        let answer = ask(&site, "root", SEARCH, &format!(r#"{{"limit":1,"next":"{next}"}}"#));
        all.extend(paths(&answer));
        next = text(&answer, "next");
        if next.is_empty() {
            break;
        }
    }
    assert_eq!(all, ["one/old", "secret/a", "secret/b", "secret/f/c"]);
    for wrong in ["x", "AAAA"] {
        let body = format!(r#"{{"next":"{wrong}"}}"#);
        let told = ask_as(&site.core, "root", 0, Update, SEARCH, &body).unwrap_err();
        assert!(matches!(told, Error::Invalid(_)), "{told:?}");
    }
}

#[test]
fn keys_of_the_data_and_dates_are_searched_for_by_who_may_see_them() {
    let site = site();
    let find = |token: &str, body: &str| paths(&ask(&site, token, SEARCH, body));
    assert_eq!(find("root", r#"{"key":"DB_URL"}"#), ["one/old", "secret/a"]);
    assert_eq!(find("root", r#"{"key":"DB_*","path":"secret/"}"#), ["secret/a", "secret/f/c"]);
    assert_eq!(find("weak", r#"{"key":"DB_URL"}"#), ["secret/a"]);
    assert_eq!(find("root", r#"{"due_before":"2027-01-01"}"#), ["secret/a"]);
    assert_eq!(find("root", r#"{"metadata":"due>2027-01-01"}"#), ["secret/b"]);
    assert_eq!(find("root", r#"{"metadata":{"due":"<2028","owner":"b*"}}"#), ["secret/b"]);
    let writer = format!("{KV}\npath \"secret/data/*\" {{ capabilities = [\"update\"] }}");
    bearer(&site, "writer", &writer);
    assert!(find("writer", r#"{"key":"DB_URL"}"#).is_empty());
    assert_eq!(find("writer", "{}").len(), 3);
    let keys = format!("{KV}\npath \"secret/subkeys/*\" {{ capabilities = [\"read\"] }}");
    bearer(&site, "keys", &keys);
    assert_eq!(find("keys", r#"{"key":"DB_URL"}"#), ["secret/a"]);
    site.ask(Delete, "secret/data/a", "").unwrap();
    assert_eq!(find("keys", r#"{"key":"DB_URL"}"#), Vec::<String>::new());
}

#[test]
fn versions_say_who_wrote_and_deleted_them_unless_the_mount_says_no() {
    let site = site();
    let write = |token: &str| {
        ask_as(&site.core, token, 0, Update, "secret/data/w", r#"{"data":{"k":1}}"#).unwrap();
    };
    let version = |number: &str| {
        let read = data(site.ask(Read, "secret/metadata/w", ""));
        read["versions"].as_object().unwrap()[number].as_object().unwrap().clone()
    };
    let name = |map: &Map, field: &str| {
        map.get(field).and_then(Json::as_object).map(|by| text(by, "display_name"))
    };
    write("weak");
    site.ask(Delete, "secret/data/w", "").unwrap();
    let first = version("1");
    assert_eq!(name(&first, "created_by").as_deref(), Some("token-weak"));
    assert_eq!(name(&first, "deleted_by").as_deref(), Some("root"));
    assert_eq!(text(&first, "request_id").len(), 36);
    assert_eq!(text(first["created_by"].as_object().unwrap(), "mount"), "auth/token/");
    site.ask(Update, "secret/undelete/w", r#"{"versions":[1]}"#).unwrap();
    assert_eq!(name(&version("1"), "deleted_by"), None);
    site.ask(Update, "secret/config", r#"{"attribution":false}"#).unwrap();
    write("weak");
    assert!(
        name(&version("2"), "created_by").is_none() && name(&version("1"), "created_by").is_some()
    );
    assert!(data(site.ask(Read, "secret/config", ""))["attribution"] == false.into());
    site.ask(Update, "secret/config", r#"{"max_versions":5}"#).unwrap();
    assert!(data(site.ask(Read, "secret/config", ""))["attribution"] == false.into());
    site.ask(Update, "secret/config", r#"{"attribution":true}"#).unwrap();
    let many = r#"{"writes":[{"path":"secret/data/w","data":{"k":2}}]}"#;
    site.ask(Update, "sys/kallisto/kv/write", many).unwrap();
    assert_eq!(name(&version("3"), "created_by").as_deref(), Some("root"));
    // It outlives a restart, and a copy takes it along.
    let copy = r#"{"from":"secret/w","to":"secret/x"}"#;
    site.ask(Update, "sys/kallisto/kv/copy", copy).unwrap();
    let copied = data(site.ask(Read, "secret/metadata/x", ""));
    let copied = copied["versions"].as_object().unwrap()["3"].as_object().unwrap().clone();
    assert_eq!(name(&copied, "created_by").as_deref(), Some("root"));
}

#[test]
fn tokens_are_listed_by_their_parent_and_a_dry_run_ends_none() {
    let site = site();
    bearer(&site, "maker", r#"path "auth/token/create" { capabilities = ["update", "sudo"] }"#);
    for (parent, id) in [("maker", "m1"), ("maker", "m2"), ("m1", "m11")] {
        let body = format!(r#"{{"id":"{id}"}}"#);
        ask_as(&site.core, parent, 0, Update, "auth/token/create", &body).unwrap();
    }
    let accessor = |token: &str| {
        text(
            &ask(&site, "root", "auth/token/lookup", &format!(r#"{{"token":"{token}"}}"#)),
            "accessor",
        )
    };
    let list = |query: &[(&str, &str)]| {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let path = Path::decode("sys/kallisto/tokens").unwrap();
        let request = Request {
            token: Some(TokenText::new("root")),
            query: query.collect(),
            ..Request::new(List, path, Timestamp::UNIX_EPOCH)
        };
        data(pollster::block_on(site.core.handle(&request)))
    };
    let keys = |answer: &Map| match &answer["keys"] {
        Json::Array(keys) => keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect(),
        _ => Vec::new(),
    };
    let maker = accessor("maker");
    let mut expected = vec![accessor("m1"), accessor("m2")];
    expected.sort();
    let below = list(&[("parent", &maker)]);
    assert_eq!(keys(&below), expected);
    let Json::Array(tokens) = &below["tokens"] else { panic!("no tokens") };
    let children: u64 = tokens
        .iter()
        .map(|token| match &token.as_object().unwrap()["children"] {
            Json::Number(count) => count.parse::<u64>().unwrap(),
            _ => 0,
        })
        .sum();
    assert_eq!(children, 1);
    assert_eq!(text(tokens[0].as_object().unwrap(), "parent"), maker);
    let first = list(&[("parent", &maker), ("limit", "1")]);
    assert_eq!(text(&first, "next"), expected[0]);
    assert_eq!(keys(&list(&[("parent", &maker), ("after", &expected[0])])), expected[1..]);
    assert!(keys(&list(&[])).contains(&accessor("root")));
    let shown = String::from_utf8(Json::Object(list(&[])).to_text()).unwrap();
    assert!(!shown.contains("\"maker\":") && !shown.contains("\"id\""));
    let dry = format!(r#"{{"accessor":"{maker}","dry_run":true}}"#);
    let told = ask(&site, "root", "auth/token/revoke-accessor", &dry);
    assert!(told["count"] == 4_u64.into(), "{told:?}");
    assert!(!accessor("m11").is_empty());
    for token in ["weak", "maker", "hvs.nobody"] {
        let asked = ask_as(&site.core, token, 0, List, "sys/kallisto/tokens", "");
        assert!(matches!(asked, Err(Error::Denied(_))), "{token}");
    }
}

#[test]
fn the_page_hears_its_settings_before_a_login_and_only_operators_change_them() {
    const SETTINGS: &str = "sys/config/ui/settings";
    let site = site();
    let public = || {
        let path = Path::decode("sys/internal/ui/config").unwrap();
        let request = Request::new(Read, path, Timestamp::UNIX_EPOCH);
        data(pollster::block_on(site.core.handle(&request)))
    };
    assert!(public()["idle_secs"] == 900_u64.into() && public()["banner"] == Json::Null);
    for mount in ["zeta", "alpha", "hidden"] {
        let visible = if mount == "hidden" { "hidden" } else { "unauth" };
        let body = format!(
            r#"{{"type":"userpass","description":"for {mount}","config":{{"listing_visibility":"{visible}"}}}}"#
        );
        site.ask(Update, &format!("sys/auth/{mount}"), &body).unwrap();
    }
    let body = r#"{"banner":{"text":"<b>now</b>","level":"warn","until":"1970-01-02T00:00:00Z"},
        "logins":["zeta"],"idle_secs":60,"session":"memory","private_titles":true}"#;
    site.ask(Update, SETTINGS, body).unwrap();
    let shown = public();
    let Json::Array(logins) = &shown["logins"] else { panic!("no logins") };
    let names: Vec<String> =
        logins.iter().map(|login| text(login.as_object().unwrap(), "mount")).collect();
    assert_eq!(names, ["zeta/", "alpha/"]);
    assert!(shown["idle_secs"] == 60_u64.into() && text(&shown, "session") == "memory");
    assert_eq!(text(shown["banner"].as_object().unwrap(), "text"), "<b>now</b>");
    let over = r#"{"banner":{"text":"x","until":"1969-01-01T00:00:00Z"}}"#;
    site.ask(Update, SETTINGS, over).unwrap();
    assert!(public()["banner"] == Json::Null && public()["idle_secs"] == 60_u64.into());
    site.ask(Update, SETTINGS, r#"{"idle_secs":null}"#).unwrap();
    assert!(public()["idle_secs"] == 900_u64.into());
    for wrong in [
        r#"{"idle_secs":59}"#,
        r#"{"idle_secs":3601}"#,
        r#"{"session":"cookie"}"#,
        r#"{"banner":{"text":""}}"#,
        r#"{"banner":{"text":"x","level":"loud"}}"#,
        r#"{"banner":{"text":"x","until":"soon"}}"#,
        r#"{"what":1}"#,
    ] {
        assert!(matches!(site.ask(Update, SETTINGS, wrong), Err(Error::Invalid(_))), "{wrong}");
    }
    let plain = r#"path "sys/config/ui/settings" { capabilities = ["read", "update"] }"#;
    bearer(&site, "plain", plain);
    for token in ["plain", "weak"] {
        let asked = ask_as(&site.core, token, 0, Update, SETTINGS, r#"{"idle_secs":61}"#);
        assert!(matches!(asked, Err(Error::Denied(_))), "{token}");
    }
    site.ask(Delete, SETTINGS, "").unwrap();
    assert!(text(&public(), "session") == "tab");
}
