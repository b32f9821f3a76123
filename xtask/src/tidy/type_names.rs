//! The names of types: each means one thing in the workspace.
//!
//! Counted are `struct`, `enum`, `trait` and `type` in `crates`, `fuzz` and `xtask`, tests and examples left out. Two kinds may be many:
//! [`ONE_PER_CRATE`] names what every crate has for itself, and the arguments of a command (what derives `Args`, `Parser` or `Subcommand`) are
//! called as the command is.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::files::File;

/// Names that each crate may have for itself.
const ONE_PER_CRATE: [&str; 2] = ["Error", "Result"];
/// Where the unit tests of a file begin.
const TESTS: &str = "#[cfg(test)]\nmod tests {";
/// What the arguments of a command derive.
const ARGUMENTS: [&str; 3] = ["Args", "Parser", "Subcommand"];

type TypeNames<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Checks every file.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let mut names = TypeNames::new();
    for file in files.iter().filter(|file| is_counted(&file.path)) {
        for name in types(&file.text) {
            names.entry(name).or_default().push(&file.path);
        }
    }
    compare(&names)
}

fn is_counted(path: &str) -> bool {
    let is_ours = ["crates/", "fuzz/", "xtask/"].iter().any(|start| path.starts_with(start));
    let is_test = ["/tests/", "/tests.rs", "test_engine", "/testing", "/examples/", "/benches/"];
    is_ours && path.ends_with(".rs") && !is_test.iter().any(|part| path.contains(part))
}

/// The names of the types that a file defines, outside its tests.
fn types(text: &str) -> Vec<&str> {
    let code = text.split(TESTS).next().unwrap_or(text);
    let mut found = Vec::new();
    let mut derives = "";
    let mut has_condition = false;
    for line in code.lines() {
        let bare = line.trim_start();
        if bare.starts_with("#[derive(") {
            derives = bare;
            continue;
        }
        if bare.starts_with("#[cfg(") {
            has_condition = true;
            continue;
        }
        let Some(name) = defined(line) else {
            // An attribute may take several lines, none of them empty.
            if bare.is_empty() {
                derives = "";
                has_condition = false;
            }
            continue;
        };
        let mut derived = derives.split(['(', ',', ')']).map(str::trim);
        let is_of_a_command = derived.any(|one| ARGUMENTS.contains(&one));
        // Alternatives by `cfg` in one file: of two one is compiled.
        let is_alternative = has_condition && found.contains(&name);
        if !is_of_a_command && !is_alternative {
            found.push(name);
        }
        derives = "";
        has_condition = false;
    }
    found
}

/// The name that a line gives to a type.
fn defined(line: &str) -> Option<&str> {
    let bare = line.trim_start();
    let rest = match bare.strip_prefix("pub") {
        Some(rest) => rest
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .map_or(rest, |(_, rest)| rest),
        None => bare,
    };
    let (keyword, rest) = rest.trim_start().split_once(' ')?;
    let is_type = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        // Those of traits are named by the trait.
        "type" => bare.len() == line.len(),
        _ => false,
    };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let name = &rest[..end];
    (is_type && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

fn compare(names: &TypeNames<'_>) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (name, places) in names {
        let count = count(name, places);
        if count > 1 {
            let what = format!(
                "{name} names {count} types: give the new one a name of its own ({})",
                places.join(", ")
            );
            findings.push(TidyFinding::new(*places.last().unwrap_or(&"crates"), what));
        }
    }
    findings
}

/// How many types a name stands for.
fn count(name: &str, places: &[&str]) -> usize {
    if !ONE_PER_CRATE.contains(&name) {
        return places.len();
    }
    let of = |place: &&str| place.split('/').nth(1).unwrap_or_default().to_owned();
    let mut crates: Vec<String> = places.iter().map(of).collect();
    crates.sort_unstable();
    crates.dedup();
    places.len() - crates.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_definitions_outside_tests_and_arguments() {
        let text = "pub(crate) struct One {}\nenum Two {\n    type Not = u8;\n}\n/// x\n#[derive(Debug, Args)]\n#[command(\n    a\n)]\npub struct List {\n    \
            limit: u8,\n}\ntype Three = u8;\npub trait Four<T> {\n    type Of;\n}\nimpl One {}\n#[cfg(test)]\nmod tests {\nstruct Five;\n}\n";
        assert_eq!(types(text), ["One", "Two", "Three", "Four"]);
    }

    #[test]
    fn two_of_a_name_in_one_file_are_one_if_a_condition_chooses_between_them() {
        let chosen = "#[cfg(unix)]\nstruct Socket;\n#[cfg(not(unix))]\nstruct Socket;\n";
        assert_eq!(types(chosen), ["Socket"]);
        assert_eq!(types("mod a {\nstruct Socket;\n}\nstruct Socket;\n"), ["Socket", "Socket"]);
    }

    #[test]
    fn a_second_type_of_a_name_is_a_finding() {
        let names = TypeNames::from([
            ("Place", vec!["crates/a/src/x.rs", "crates/b/src/y.rs"]),
            ("Error", vec!["crates/a/src/x.rs", "crates/b/src/y.rs"]),
            ("Part", vec!["crates/a/src/x.rs"]),
        ]);
        let findings = compare(&names);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].what.starts_with("Place names 2 types"));
        let twice = TypeNames::from([("Error", vec!["crates/a/src/x.rs", "crates/a/src/y.rs"])]);
        assert_eq!(compare(&twice).len(), 1, "one of each crate");
    }
}
