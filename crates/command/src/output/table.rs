//! Columns for people, in the layout of Vault's command line.
//!
//! Cells are trimmed, empty ones read `n/a`, columns are four spaces apart. Values show as Go shows
//! them: `<nil>`, `[a b]`, `map[k:v]`. Durations among the names that `is_duration` knows show
//! with units.

use std::fmt::Write;

use crate::duration;
use crate::json::{Json, Map};
use crate::secret::{Secret, as_u64};

/// Prefix of a token's own metadata among its rows.
pub const TOKEN_META: &str = "token_meta_";
/// Spaces between two columns.
const GAP: usize = 4;
/// What an empty cell says.
const EMPTY: &str = "n/a";

/// Rows of key and value under a heading of two columns; no rows, no table.
pub fn rows(rows: &[(String, String)]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heading = ("Key".to_owned(), "Value".to_owned());
    let rule = ("---".to_owned(), "-----".to_owned());
    let all: Vec<&(String, String)> = [&heading, &rule].into_iter().chain(rows).collect();
    let width = all.iter().map(|(key, _)| cell(key).chars().count()).max().unwrap_or(0) + GAP;
    let mut out = String::new();
    for (key, value) in all {
        fill(&mut out, cell(key), width);
        out.push_str(cell(value));
        out.push('\n');
    }
    out
}

/// The same without a heading.
pub fn plain(rows: &[(String, String)]) -> String {
    let lines: Vec<Vec<String>> =
        rows.iter().map(|(key, value)| vec![key.clone(), value.clone()]).collect();
    columns(&lines)
}

/// Lines of as many cells each, the cells below each other; the last one is not filled up.
pub fn columns(lines: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = lines.iter().filter_map(|line| line.get(at));
        cells.map(|text| cell(text).chars().count()).max().unwrap_or(0) + GAP
    };
    let most = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..most).map(width).collect();
    let mut out = String::new();
    for line in lines {
        for (at, text) in line.iter().enumerate() {
            let width = if at + 1 == line.len() { 0 } else { widths[at] };
            fill(&mut out, cell(text), width);
        }
        out.push('\n');
    }
    out
}

/// The same below their heads.
pub fn under(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let names = heads.iter().map(|&head| head.to_owned()).collect();
    let rules = heads.iter().map(|head| "-".repeat(head.len())).collect();
    let lines: Vec<Vec<String>> = [names, rules].into_iter().chain(rows).collect();
    columns(&lines)
}

/// Appends a cell with blanks up to a width. By hand: a width in a format has at most 65,535 characters, and a key may have more.
fn fill(out: &mut String, cell: &str, width: usize) {
    out.push_str(cell);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
}

fn cell(text: &str) -> &str {
    let trimmed = text.trim();
    if trimmed.is_empty() { EMPTY } else { trimmed }
}

/// One column of keys, sorted.
pub fn list(keys: &[Json]) -> String {
    let mut keys: Vec<String> = keys.iter().map(show).collect();
    keys.sort_unstable();
    let mut out = String::from("Keys\n----\n");
    for key in &keys {
        let _ = writeln!(out, "{}", cell(key));
    }
    out
}

/// The rows of an object.
pub fn object(map: &Map) -> String {
    rows(&object_rows(map))
}

fn object_rows(map: &Map) -> Vec<(String, String)> {
    map.iter().map(|(key, value)| (key.clone(), shown_as(key, value))).collect()
}

/// A whole answer: wrapping, token, lease, data.
pub fn secret(secret: &Secret) -> String {
    let mut all = Vec::new();
    if let Some(info) = &secret.wrap_info {
        wrap_rows(info, &mut all);
        return rows(&all);
    }
    if let Some(auth) = &secret.auth {
        auth_rows(auth, &mut all);
    }
    if secret.lease_duration_secs > 0 {
        lease_rows(secret, &mut all);
    }
    all.extend(secret.data.as_ref().map(object_rows).unwrap_or_default());
    rows(&all)
}

fn wrap_rows(info: &Map, all: &mut Vec<(String, String)>) {
    let text = |name: &str| info.get(name).map(show).unwrap_or_default();
    let ttl = info.get("ttl").and_then(as_u64).map_or_else(|| text("ttl"), duration::human);
    all.push(("wrapping_token:".into(), text("token")));
    all.push(("wrapping_accessor:".into(), text("accessor")));
    all.push(("wrapping_token_ttl:".into(), ttl));
    all.push(("wrapping_token_creation_time:".into(), spoken_time(&text("creation_time"))));
    all.push(("wrapping_token_creation_path:".into(), text("creation_path")));
    let accessor = text("wrapped_accessor");
    if !accessor.is_empty() {
        all.push(("wrapped_accessor:".into(), accessor));
    }
}

/// `2026-11-21T22:18:38.9Z` as Go prints a time: `2026-11-21 22:18:38.9 +0000 UTC`.
fn spoken_time(text: &str) -> String {
    match text.strip_suffix('Z').and_then(|text| text.split_once('T')) {
        Some((date, time)) => format!("{date} {time} +0000 UTC"),
        None => text.to_owned(),
    }
}

fn auth_rows(auth: &Map, all: &mut Vec<(String, String)>) {
    let text = |name: &str| auth.get(name).map(show).unwrap_or_default();
    let seconds = auth.get("lease_duration").and_then(as_u64).unwrap_or(0);
    let lifetime = if seconds == 0 { "\u{221e}".to_owned() } else { duration::human(seconds) };
    all.push(("token".into(), text("client_token")));
    all.push(("token_accessor".into(), text("accessor")));
    all.push(("token_duration".into(), lifetime));
    all.push(("token_renewable".into(), text("renewable")));
    for name in ["token_policies", "identity_policies", "policies"] {
        all.push((name.into(), quoted(auth.get(name))));
    }
    if let Some(Json::Object(metadata)) = auth.get("metadata") {
        for (key, value) in metadata {
            all.push((format!("{TOKEN_META}{key}"), show(value)));
        }
    }
}

/// `["a" "b"]`
fn quoted(list: Option<&Json>) -> String {
    let Some(Json::Array(items)) = list else { return "[]".to_owned() };
    let items: Vec<String> = items.iter().map(|item| format!("{:?}", show(item))).collect();
    format!("[{}]", items.join(" "))
}

fn lease_rows(secret: &Secret, all: &mut Vec<(String, String)>) {
    let lifetime = duration::human(secret.lease_duration_secs);
    if secret.lease_id.is_empty() {
        // Static secrets have no lease, only a time after which to look again.
        all.push(("refresh_interval".into(), lifetime));
        return;
    }
    all.push(("lease_id".into(), secret.lease_id.clone()));
    all.push(("lease_duration".into(), lifetime));
    all.push(("lease_renewable".into(), secret.renewable.to_string()));
}

fn shown_as(key: &str, value: &Json) -> String {
    match as_u64(value) {
        Some(seconds) if is_duration(key) => duration::human(seconds),
        _ => show(value),
    }
}

fn is_duration(key: &str) -> bool {
    let ends = ["ttl", "period", "duration"].iter().any(|end| {
        key.strip_suffix(end).is_some_and(|head| head.is_empty() || head.ends_with('_'))
    });
    ends || key == "lease_max" || key == "ttl_max"
}

/// A value as Go shows it. Depth is bounded by the parser it came from.
pub fn show(value: &Json) -> String {
    match value {
        Json::Null => "<nil>".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(text) => text.to_string(),
        Json::String(text) => text.clone(),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(show).collect();
            format!("[{}]", items.join(" "))
        }
        Json::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", show(value))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// A heading between equals signs, as wide as what stands below it.
pub fn heading(title: &str, width: usize) -> String {
    let signs = match width.saturating_sub(title.len() + 2) {
        0 => 4,
        signs => signs.next_multiple_of(2),
    };
    let side = "=".repeat(signs / 2);
    format!("{side} {title} {side}\n")
}

/// A heading over the table of an object.
pub fn heading_of(title: &str, map: &Map) -> String {
    let key_width = map.keys().map(String::len).max().unwrap_or(0);
    heading(title, key_width + GAP + "Value".len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{parse, parse_object};

    #[test]
    fn values_show_as_go_shows_them() {
        let table = [
            ("null", "<nil>"),
            ("true", "true"),
            ("1.50", "1.50"),
            ("\"a b\"", "a b"),
            ("[1,\"a\",null,[]]", "[1 a <nil> []]"),
            ("{\"b\":{\"c\":1},\"a\":[true]}", "map[a:[true] b:map[c:1]]"),
        ];
        for (given, wanted) in table {
            assert_eq!(show(&parse(given.as_bytes()).unwrap()), wanted);
        }
    }

    #[test]
    fn a_key_or_a_cell_may_be_longer_than_any_width_of_a_format() {
        let long = "k".repeat(70_000);
        let map = parse_object(format!("{{\"{long}\":1,\"b\":2}}").as_bytes()).unwrap();
        let blanks = " ".repeat(70_003);
        assert!(object(&map).contains(&format!("\nb{blanks}2\n")));
        let lines = [vec![long.clone(), "1".to_owned()], vec!["b".to_owned(), "2".to_owned()]];
        assert_eq!(columns(&lines), format!("{long}    1\nb{blanks}2\n"));
    }

    #[test]
    fn columns_align_and_nothing_is_na() {
        let map = parse_object(br#"{"":"3","long_name":" trimmed\n","x":""}"#).unwrap();
        let wanted = "Key          Value\n---          -----\nn/a          3\nlong_name    trimmed\nx            n/a\n";
        assert_eq!(object(&map), wanted);
        assert_eq!(object(&Map::new()), "");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let line = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let lines = [line(["a", "bb", "c"]), line(["aaa", "", "ccc"])];
        assert_eq!(columns(&lines), "a      bb     c\naaa    n/a    ccc\n");
        assert_eq!(plain(&[("k".to_owned(), "v".to_owned())]), "k    v\n");
        assert_eq!(columns(&[]), "");
    }

    #[test]
    fn durations_show_units_and_other_numbers_do_not() {
        let map =
            parse_object(br#"{"creation_ttl":2764800,"ttl":"90","num":90,"period":60}"#).unwrap();
        let shown = object_rows(&map);
        let values: Vec<&str> = shown.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["768h", "90", "1m", "90"]);
    }

    #[test]
    fn headings_are_as_wide_as_what_is_below() {
        let table = [
            (("Secret Path", 13), "== Secret Path ==\n"),
            (("Secret Path", 14), "= Secret Path =\n"),
            (("Secret Path", 18), "=== Secret Path ===\n"),
            (("Metadata", 24), "======= Metadata =======\n"),
            (("Data", 10), "== Data ==\n"),
            (("Data", 0), "== Data ==\n"),
        ];
        for ((title, width), wanted) in table {
            assert_eq!(heading(title, width), wanted);
        }
    }
}
