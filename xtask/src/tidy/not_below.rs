//! The column "does not depend on" of the table of crates in ARCHITECTURE.md, against all that a crate is built with: what its manifest names,
//! and what stands below that.
//!
//! ```text
//! column := item {", " item}
//! item   := term [" except through `crate`"] [" (" remark ")"]
//! term   := "`crate`" | "any other crate" [" but `crate`"] | a word of WORDS | words of NO_CRATES
//! ```
//!
//! Behind "except through" and "but" stands a crate that may be used, with all that is below it. An item of another form is a finding, as is a
//! crate without a row, so that nothing on the page looks checked and is not.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::arrows::{DependencyPurpose, dependencies};
use super::files::File;
use super::rooms::rooms;

const PAGE: &str = "ARCHITECTURE.md";
const HEADER: &str = "| crate | what it is | does not depend on |";

/// What a word of the column means: crates of ours by their folders, and others by their names.
const WORDS: &[(&str, &[&str])] = &[
    ("HTTP", &["http-body-util", "httparse", "hyper", "hyper-util", "listener", "ureq"]),
    ("cryptography", &["aws-lc-rs", "barrier", "rustls", "tls_client"]),
    ("engines", &["auth_methods", "engine", "engines"]),
    ("policies", &["auth"]),
    ("sockets", &["hyper", "listener", "peers", "socket2", "tokio-rustls", "ureq"]),
    ("storage", &["lsm", "securedb", "store", "store_postgres"]),
    ("the server", &["core", "listener", "server"]),
    ("tokio", &["tokio", "tokio-postgres", "tokio-rustls"]),
];
/// What no dependency shows: it is for who reads and writes the code.
const NO_CRATES: [&str; 15] = [
    "files",
    "randomness",
    "requests",
    "requests to this server",
    "the access decision",
    "the clock",
    "the contents of messages and relayed requests",
    "the meaning of keys",
    "time",
    "tokens",
    "what a credential is",
    "what a key means",
    "what is asked and by whom",
    "who asks",
    "who receives them",
];
/// An arrow that is not followed, as the page says: `api` makes its errors of those of `store`, and nothing else.
const NOT_FOLLOWED: (&str, &str) = ("api", "store");

/// What each crate of ours, by its folder, is built with: folders of ours, and names of others.
type Arrows = BTreeMap<String, Vec<String>>;

/// Checks every row of the table.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let page = files.iter().find(|file| file.path == PAGE).map_or("", |file| &file.text);
    check_page(page, &arrows(files))
}

fn arrows(files: &[File]) -> Arrows {
    let folder_of = |package: &str| {
        let room = rooms().find(|room| room.package == package);
        room.map_or(package, |room| room.folder.trim_start_matches("crates/")).to_owned()
    };
    let manifests = files.iter().filter_map(|file| {
        let folder = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        let named = dependencies(&file.text).unwrap_or_default().into_iter();
        let product = named.filter(|one| one.purpose == DependencyPurpose::Product);
        Some((folder.to_owned(), product.map(|one| folder_of(&one.name)).collect()))
    });
    manifests.collect()
}

fn check_page(page: &str, arrows: &Arrows) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let rows = page.lines().skip_while(|line| *line != HEADER).skip(2);
    let mut without_row: Vec<&String> = arrows.keys().collect();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [names, _, column] = cells[..] else {
            findings.push(TidyFinding::new(PAGE, format!("no row of three cells: {row}")));
            continue;
        };
        for name in names.split('`').skip(1).step_by(2) {
            without_row.retain(|folder| *folder != name);
            for item in column.split(", ").filter(|item| !item.is_empty()) {
                if let Err(why) = check_item(name, item, arrows) {
                    findings.push(TidyFinding::new(PAGE, format!("{name}: {item:?}: {why}")));
                }
            }
        }
    }
    findings.extend(
        without_row.into_iter().map(|name| TidyFinding::new(PAGE, format!("{name} has no row"))),
    );
    findings
}

fn check_item(name: &str, item: &str, arrows: &Arrows) -> Result<(), String> {
    let item = item.split(" (").next().unwrap_or(item);
    let quoted = |text: &str| text.trim_matches('`').to_owned();
    let is_known = |folder: &str| arrows.contains_key(folder);
    let (term, allowed) = match item.split_once(" except through ").or(item.split_once(" but ")) {
        Some((term, allowed)) => (term, Some(quoted(allowed))),
        None => (item, None),
    };
    if let Some(unknown) = allowed.as_deref().filter(|folder| !is_known(folder)) {
        return Err(format!("there is no crate {unknown}"));
    }
    let reached = reached(name, allowed.as_deref(), arrows);
    let is_refused: Box<dyn Fn(&str) -> bool> = if term == "any other crate" {
        Box::new(is_known)
    } else if let Some((_, meant)) = WORDS.iter().find(|(word, _)| *word == term) {
        Box::new(|found: &str| meant.contains(&found))
    } else if term.starts_with('`') && is_known(&quoted(term)) {
        Box::new(|found: &str| found == quoted(term))
    } else if NO_CRATES.contains(&term) {
        return Ok(());
    } else {
        return Err("neither a crate nor a word that xtask/src/tidy/not_below.rs knows".to_owned());
    };
    match reached.iter().find(|(found, _)| is_refused(found)) {
        Some((found, way)) => Err(format!("it does, on {found}: {way}")),
        None => Ok(()),
    }
}

/// Everything that a crate is built with, and the way to it; not what is reached through `allowed` alone, nor that itself.
fn reached(name: &str, allowed: Option<&str>, arrows: &Arrows) -> BTreeMap<String, String> {
    let mut reached = BTreeMap::new();
    let mut waiting = vec![(name.to_owned(), name.to_owned())];
    while let Some((from, way)) = waiting.pop() {
        for to in arrows.get(&from).into_iter().flatten() {
            let is_followed = Some(to.as_str()) != allowed && (&*from, &**to) != NOT_FOLLOWED;
            if is_followed && !reached.contains_key(to) {
                let way = format!("{way} -> {to}");
                reached.insert(to.clone(), way.clone());
                waiting.push((to.clone(), way));
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(column: &str) -> Vec<String> {
        let arrows = [
            ("top", vec!["mid", "api"]),
            ("mid", vec!["lsm", "bytes"]),
            ("lsm", vec!["hyper"]),
            ("api", vec!["store"]),
            ("store", vec![]),
        ];
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let arrows =
            arrows.into_iter().map(|(from, to)| (from.to_owned(), names(to))).collect::<Arrows>();
        let page = format!(
            "Text.\n\n{HEADER}\n|---|---|---|\n| `top` | it | {column} |\n| `mid`, `api` | them | |\n| `lsm` | it | |\n\
             | `store` | it | time |\n\nMore.\n"
        );
        check_page(&page, &arrows).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn what_is_below_a_dependency_is_depended_on() {
        for (column, way) in [
            ("`lsm`", "top -> mid -> lsm"),
            ("time, storage", "top -> mid -> lsm"),
            ("HTTP", "top -> mid -> lsm -> hyper"),
            ("any other crate but `mid`", "top -> api"),
            ("HTTP except through `api`", "top -> mid -> lsm -> hyper"),
        ] {
            let found = findings(column);
            assert!(found.len() == 1 && found[0].ends_with(way), "{column}: {found:?}");
        }
        for column in
            ["", "policies", "`store`", "storage except through `mid` (its files), who asks"]
        {
            assert_eq!(findings(column), [""; 0], "{column}");
        }
    }

    #[test]
    fn what_the_check_does_not_understand_is_a_finding() {
        for column in ["the moon", "`moon`", "storage except through `moon`", "time,storage"] {
            assert_eq!(findings(column).len(), 1, "{column}");
        }
        let arrows = Arrows::from([("alone".to_owned(), Vec::new())]);
        let found = check_page("", &arrows);
        assert_eq!(found, [TidyFinding::new(PAGE, "alone has no row")]);
    }
}
