//! The rooms of `crates/core` and the arrows between them, as `arrows` holds those between crates.
//!
//! An arrow is a use of a name that a file of another room defines, as [`circles`](super::circles) finds them: re-exports are followed, tests and
//! comments do not count. Arrows point down the list of rooms, without exception. Two files are in no room: `lib.rs`, which passes on
//! what is public, and `registry.rs`, whose one `match` names what drives each engine and which is called through a trait by what stands below.

use super::TidyFinding;
use super::circles::House;
use super::files::File;

/// Where the rooms are.
const ROOT: &str = "crates/core/src/";
/// Files that are in no room.
const NO_ROOM: [&str; 2] = ["lib.rs", "registry.rs"];

/// A room: its name, and how the paths of its files begin.
type CoreRoom = (&'static str, &'static [&'static str]);

/// The rooms, bottom up. A path is of the first room that it fits.
const ROOMS: [CoreRoom; 31] = [
    ("limits", &["limits.rs"]),
    ("counts", &["counts.rs", "timers.rs"]),
    ("random", &["random.rs"]),
    ("admission", &["admission/"]),
    ("quotas", &["quotas/"]),
    ("storage", &["storage/"]),
    ("identity", &["identity/"]),
    ("records", &["records/"]),
    ("platform", &["platform/"]),
    ("metrics", &["metrics/"]),
    ("audit", &["audit/"]),
    ("view", &["view/"]),
    ("state", &["state/"]),
    ("namespaces", &["namespaces/"]),
    ("backup", &["backup/"]),
    ("caller", &["caller/"]),
    ("leases", &["leases/"]),
    ("dispatch", &["dispatch/"]),
    ("routes", &["routes/"]),
    ("authz", &["authz/"]),
    ("engines/identity", &["engines/identity/"]),
    ("tokens", &["tokens/"]),
    ("cluster", &["cluster/"]),
    ("seal", &["seal/"]),
    ("wrapping", &["wrapping/"]),
    ("logins", &["logins/"]),
    (
        "engines/kv",
        &["engines/kv/", "engines/kv_batch/", "engines/kv_search/", "engines/kv_watch/"],
    ),
    ("engines/sys", &["engines/sys/"]),
    ("engines", &["engines/"]),
    ("pipeline", &["pipeline/"]),
    ("jobs", &["jobs/"]),
];

/// Checks every file of the core.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let house = House::new(files);
    let mut findings = Vec::new();
    for (file, targets) in house.arrows() {
        if NO_ROOM.contains(&file) {
            continue;
        }
        let place = format!("{ROOT}{file}");
        let Some(height) = height(file) else {
            let what =
                "is in no room of the core: say in xtask/src/tidy/core_rooms.rs what it stands on";
            findings.push(TidyFinding::new(place, what));
            continue;
        };
        for target in targets {
            match self::height(target) {
                Some(other) if other > height => {
                    findings.push(TidyFinding::new(&*place, upward(height, other, target)));
                }
                Some(_) | None => {}
            }
        }
    }
    findings
}

/// Where the room of a file is among the others.
fn height(file: &str) -> Option<usize> {
    ROOMS.iter().position(|(_, starts)| starts.iter().any(|start| file.starts_with(start)))
}

fn upward(from: usize, to: usize, target: &str) -> String {
    format!(
        "{} stands below {}, whose {target} it names: arrows point down only; move what is needed, or pass it in",
        ROOMS[from].0, ROOMS[to].0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("{ROOT}{path}"), text: text.to_owned() }
    }

    #[test]
    fn an_upward_arrow_and_an_unknown_room_are_findings() {
        let findings = check(&[
            file("quotas/a.rs", "use crate::logins::x;\nfn f() { x() }\n"),
            file("logins/mod.rs", "use crate::quotas::a;\npub(crate) fn x() { a::f() }\n"),
            file("new/a.rs", "fn f() {}\n"),
        ]);
        let told = |what: &str| findings.iter().any(|finding| finding.what.contains(what));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(told("quotas stands below logins") && told("is in no room"));
    }

    #[test]
    fn arrows_of_tests_and_comments_do_not_count_and_re_exports_are_followed() {
        let findings = check(&[
            file(
                "quotas/a.rs",
                "//! crate::seal::x\n#[cfg(test)]\nmod tests {\nuse crate::tokens::t;\n}\n",
            ),
            file("storage/b.rs", "use crate::quotas::y;\nfn f() { y() }\n"),
            file("quotas/mod.rs", "pub(crate) use crate::seal::y;\n"),
            file("seal/mod.rs", "pub(crate) fn y() {}\n"),
            file("tokens/mod.rs", "pub(crate) fn t() {}\n"),
        ]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].what.contains("storage stands below seal"));
    }

    #[test]
    fn every_room_has_files_and_none_hides_another() {
        let files = crate::tidy::files::read(&crate::workspace::root()).unwrap();
        for (at, (name, _)) in ROOMS.iter().enumerate() {
            let is_of = |file: &File| file.path.strip_prefix(ROOT).and_then(height) == Some(at);
            assert!(files.iter().any(is_of), "{name} has no file");
        }
    }
}
