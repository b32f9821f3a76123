//! Modules that documents and the comments of the code name: each one is there.
//!
//! ARCHITECTURE.md, CONTRIBUTING.md, the pages of `docs/inside/` and the status lines of decision records send readers to modules, as
//! `core::seal` or `crates/lsm/src/wal`. A name in code marks whose first part is a crate has to lead to a module, or to something that the last
//! module in it names. What a decision record says below its status is of its time, and not checked. In the documentation of a module (`//!`) a name
//! may begin with a module of its own crate too.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::files::File;
use super::links::prose;

/// Documents that say how things are now.
const MAPS: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/inside/"];
const DECISIONS: &str = "docs/decisions/";

/// The files of the tree by their paths.
type Tree<'a> = BTreeMap<&'a str, &'a str>;

/// Checks every name of a module in those documents.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let tree: Tree<'_> = files.iter().map(|file| (&*file.path, &*file.text)).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let is_map = MAPS.iter().any(|map| file.path.starts_with(map));
        let is_record = file.path.starts_with(DECISIONS);
        for (number, line) in prose(&file.text) {
            let counts = is_map || (is_record && line.trim_matches('*').starts_with("Status:"));
            let missing = names(line).into_iter().filter(|name| counts && !leads(&tree, name));
            findings.extend(missing.map(|name| {
                let place = format!("{}:{number}", file.path);
                TidyFinding::new(place, format!("names {name}, which is not there"))
            }));
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (number, line) in file.text.lines().enumerate() {
            let Some(line) = line.trim_start().strip_prefix("//!") else { continue };
            let missing = names(line).into_iter().filter(|name| {
                let nearby = of_own_crate(&tree, &file.path, name);
                !leads(&tree, name) && !nearby.is_some_and(|nearby| leads(&tree, &nearby))
            });
            findings.extend(missing.map(|name| {
                let place = format!("{}:{}", file.path, number + 1);
                TidyFinding::new(place, format!("names {name}, which is not there"))
            }));
        }
    }
    findings
}

/// The same name with the crate of a file before it, where it begins with a module there.
fn of_own_crate(tree: &Tree<'_>, path: &str, name: &str) -> Option<String> {
    let own = path.strip_prefix("crates/")?.split('/').next()?;
    let first = name.split("::").next()?;
    let modules = [".rs", "/mod.rs"].map(|end| format!("crates/{own}/src/{first}{end}"));
    let is_there = modules.iter().any(|module| tree.contains_key(&**module));
    is_there.then(|| format!("{own}::{name}"))
}

/// The paths of modules in a line's code spans; `a::{b, c}` names two.
fn names(line: &str) -> Vec<String> {
    let spans = line.split('`').skip(1).step_by(2);
    let mut names = Vec::new();
    for span in spans {
        let span = span.split_once('(').map_or(span, |(name, _)| name);
        match span.strip_suffix('}').and_then(|span| span.split_once("::{")) {
            Some((base, ends)) => {
                names.extend(ends.split(',').map(|end| format!("{base}::{}", end.trim())));
            }
            None => names.push(span.to_owned()),
        }
    }
    names.retain(|name| name.contains("::") && name.split("::").all(is_word));
    names
}

/// A name of Rust, or the beginning of several, as `kv*`.
fn is_word(part: &str) -> bool {
    let part = part.strip_suffix('*').unwrap_or(part);
    !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a name leads somewhere. One that begins with no crate of ours is of a module nearby, or of somebody else's crate, and is believed.
fn leads(tree: &Tree<'_>, name: &str) -> bool {
    let mut parts = name.split("::");
    let mut folder = format!("crates/{}/src", parts.next().unwrap_or_default());
    let roots = [format!("{folder}/lib.rs"), format!("{folder}/main.rs")];
    let Some(mut text) = roots.iter().find_map(|root| tree.get(&**root)) else { return true };
    for part in parts {
        let below = format!("{folder}/{part}");
        let modules = [format!("{below}.rs"), format!("{below}/mod.rs")];
        match modules.iter().find_map(|module| tree.get(&**module)) {
            Some(module) => (folder, text) = (below, module),
            None => match below.strip_suffix('*') {
                Some(begin) => return tree.keys().any(|path| path.starts_with(begin)),
                None => return has_word(text, part),
            },
        }
    }
    true
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/core/src/lib.rs", "mod seal;"),
            file("crates/core/src/seal/mod.rs", "pub fn open() {}"),
            file("crates/core/src/seal/rekey.rs", ""),
            file(path, text),
        ];
        check(&files).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_module_or_what_it_names_has_to_be_there() {
        let there = "`core::seal` `core::seal::{rekey, open}` `core::seal::re*` `core::seal::open()` `std::fmt`";
        assert_eq!(found("ARCHITECTURE.md", there), [""; 0]);
        let gone = "`core::seal::{rekey, shut}`\n```\n`core::x`\n```\n`core::unseal` core::none";
        assert_eq!(
            found("docs/inside/seal.md", gone),
            [
                "names core::seal::shut, which is not there",
                "names core::unseal, which is not there"
            ]
        );
    }

    #[test]
    fn what_a_module_says_of_itself_names_modules_that_are_there() {
        let path = "crates/core/src/state.rs";
        let there =
            "//! In `core::seal::rekey`, `seal::open` and `tokio::sync`.\n/// `core::of_old`\n";
        assert_eq!(found(path, there), [""; 0]);
        let gone = "//! State.\n//!\n//! The key is in `core::unseal`.\n";
        assert_eq!(found(path, gone), ["names core::unseal, which is not there"]);
    }

    #[test]
    fn of_a_record_only_the_status_is_of_today() {
        let record = "# 0001: Seals\n**Status:** in use (`core::sealing`).\n\nIn `core::sealing`.";
        let found = found(&format!("{DECISIONS}0001-seals.md"), record);
        assert_eq!(found, ["names core::sealing, which is not there"]);
    }
}
