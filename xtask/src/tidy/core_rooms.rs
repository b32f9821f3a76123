//! The rooms of `crates/core` and the arrows between them, as `arrows` holds those between crates.
//!
//! An arrow is a path `crate::ROOM::..` in the code of another room; tests and comments do not count. Arrows point down the
//! list of rooms. Those that still point up are counted one by one: none may be added, and who cuts one lowers its number here.

use std::collections::BTreeMap;

use super::Finding;
use super::files::File;

/// Where the rooms are.
const ROOT: &str = "crates/core/src/";
/// Where the unit tests of a file begin.
const TESTS: &str = "#[cfg(test)]\nmod tests {";

/// The rooms, bottom up.
const ROOMS: [&str; 19] = [
    "admission",
    "quotas",
    "storage",
    "platform",
    "records",
    "view",
    "metrics",
    "pipeline",
    "seal",
    "routes",
    "namespaces",
    "backup",
    "leases",
    "engines",
    "audit",
    "cluster",
    "tokens",
    "logins",
    "jobs",
];

/// Arrows that point up: from, to, how many.
const UPWARD: &[(&str, &str, usize)] = &[
    ("engines", "audit", 1),
    ("engines", "logins", 2),
    ("engines", "tokens", 1),
    ("metrics", "pipeline", 1),
    ("pipeline", "audit", 2),
    ("pipeline", "cluster", 4),
    ("pipeline", "engines", 6),
    ("pipeline", "namespaces", 4),
    ("pipeline", "routes", 2),
    ("pipeline", "seal", 2),
    ("pipeline", "tokens", 6),
    ("platform", "pipeline", 3),
    ("records", "engines", 3),
    ("records", "leases", 1),
    ("routes", "engines", 1),
    ("seal", "audit", 1),
    ("seal", "cluster", 3),
    ("storage", "pipeline", 1),
    ("storage", "platform", 1),
    ("storage", "view", 1),
    ("view", "audit", 1),
    ("view", "cluster", 1),
    ("view", "engines", 9),
    ("view", "namespaces", 1),
];

type Arrows = BTreeMap<(String, String), usize>;

/// Checks every file of the core.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut upward = Arrows::new();
    for file in files {
        let Some(inside) = file.path.strip_prefix(ROOT) else { continue };
        let Some((room, _)) = inside.split_once('/') else { continue };
        let Some(height) = height(room) else {
            findings.push(Finding::new(&*file.path, unknown(room)));
            continue;
        };
        if inside.contains("/tests") {
            continue;
        }
        for target in targets(&file.text) {
            match self::height(target) {
                Some(other) if other > height => {
                    *upward.entry((room.to_owned(), target.to_owned())).or_default() += 1;
                }
                Some(_) | None => {}
            }
        }
    }
    findings.extend(compare(&upward));
    findings
}

/// Where a room is among the others.
fn height(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

fn unknown(room: &str) -> String {
    format!("{room} is no room of the core: say in xtask/src/tidy/core_rooms.rs what it stands on")
}

/// The rooms that the code of a file names.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split(TESTS).next().unwrap_or(text);
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split("crate::").skip(1)).filter_map(|rest| {
        let (room, _) = rest.split_once("::")?;
        room.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then_some(room)
    })
}

fn compare(found: &Arrows) -> Vec<Finding> {
    let place = "xtask/src/tidy/core_rooms.rs";
    let known: Arrows = UPWARD
        .iter()
        .map(|(from, to, count)| (((*from).to_owned(), (*to).to_owned()), *count))
        .collect();
    let pairs = found.keys().chain(known.keys()).collect::<std::collections::BTreeSet<_>>();
    let differs = |pair: &&(String, String)| found.get(*pair) != known.get(*pair);
    pairs
        .into_iter()
        .filter(differs)
        .map(|pair| {
            let (now, then) = (found.get(pair).unwrap_or(&0), known.get(pair).unwrap_or(&0));
            let (from, to) = pair;
            let what = match now > then {
                true => "arrows point down only: move what is needed, or pass it in",
                false => "fewer than before: lower the number",
            };
            Finding::new(place, format!("{from} knows {to} {now} times, not {then}: {what}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("{ROOT}{path}"), text: text.to_owned() }
    }

    #[test]
    fn arrows_are_counted_in_code_only() {
        let text = "//! crate::seal::x\nuse crate::seal::y;\nfn f() { crate::engines::z(); crate::Error }\n\
            #[cfg(test)]\nmod tests {\nuse crate::tokens::t;\n}\n";
        assert_eq!(targets(text).collect::<Vec<_>>(), ["seal", "engines"]);
    }

    #[test]
    fn a_new_upward_arrow_and_an_unknown_room_are_findings() {
        let findings = check(&[file("quotas/a.rs", "use crate::logins::x;"), file("new/a.rs", "")]);
        let told = |what: &str| findings.iter().any(|finding| finding.what.contains(what));
        assert!(told("quotas knows logins 1 times, not 0") && told("new is no room"));
        assert!(told("fewer than before"), "what is not found any more is to be taken out");
    }
}
