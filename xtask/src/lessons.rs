//! `tests/LESSONS.md`, `docs/reliability.md` and `SECURITY.md`: every test that they name is there, and every file that the lessons do.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::workspace;

/// The table of lessons.
const TABLE: &str = "tests/LESSONS.md";

/// Documents that name tests in their text.
const DOCUMENTS: [&str; 2] = ["docs/reliability.md", "SECURITY.md"];
/// What the name of a test has and no key, file or module that those documents name.
const UNDERSCORES_OF_TESTS: usize = 3;

/// The tests that a document names and nobody has.
fn missing_tests(document: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let names = document.split('`').skip(1).step_by(2);
    let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_of_a_test =
        |name: &&str| is_word(name) && name.matches('_').count() >= UNDERSCORES_OF_TESTS;
    let names = names.filter(is_of_a_test).filter(|name| !tests.contains(*name));
    names.map(str::to_owned).collect()
}

/// What the table names and nothing is.
fn missing(table: &str, tests: &BTreeSet<String>, is_file: impl Fn(&str) -> bool) -> Vec<String> {
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let names = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let is_there = |name: &str| match name.contains(['/', '.']) {
        true => is_file(name),
        // One word is a thing of the text.
        false => !name.contains('_') || tests.contains(name),
    };
    names.filter(|name| !is_there(name)).map(str::to_owned).collect()
}

/// The names of functions that follow `#[test]`.
fn tests_of(text: &str, into: &mut BTreeSet<String>) {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.contains("#[test]") && !line.contains("#[tokio::test") {
            continue;
        }
        let function = lines.by_ref().find_map(|line| line.trim_start().split_once("fn "));
        if let Some((_, rest)) = function {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            into.insert(name.to_owned());
        }
    }
}

fn collect(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs")
            && let Ok(text) = fs::read_to_string(&path)
        {
            tests_of(&text, into);
        }
    }
}

fn all_tests() -> BTreeSet<String> {
    let (root, mut tests) = (workspace::root(), BTreeSet::new());
    ["crates", "fuzz/src", "xtask/src"].iter().for_each(|at| collect(&root.join(at), &mut tests));
    tests
}

#[test]
fn every_test_that_the_documents_name_is_there() {
    let tests = all_tests();
    for document in DOCUMENTS {
        let text = fs::read_to_string(workspace::root().join(document)).unwrap();
        let missing = missing_tests(&text, &tests);
        assert!(missing.is_empty(), "{document} names what is no test: {missing:#?}");
    }
}

#[test]
fn every_test_that_the_lessons_name_is_there() {
    let (root, tests) = (workspace::root(), all_tests());
    let table = fs::read_to_string(root.join(TABLE)).unwrap();
    let missing = missing(&table, &tests, |name| root.join(name).exists());
    assert!(missing.is_empty(), "{TABLE} names what is not there: {missing:#?}");
    assert!(table.lines().filter(|line| line.starts_with("| ")).count() > 120);
}

#[test]
fn a_name_that_nothing_has_is_found() {
    let mut tests = BTreeSet::new();
    tests_of("#[test]\n#[cfg(unix)]\nfn it_is_there() {}\nfn helper_of_it() {}\n", &mut tests);
    let table = "| 1 | `root` | `it_is_there`, `helper_of_it`, `a/b.rs` |\ntext `not_a_row`\n";
    assert_eq!(missing(table, &tests, |_| false), ["helper_of_it", "a/b.rs"]);
    let text = "`it_is_there`, `it_was_never_there` and `max_staleness`";
    assert_eq!(missing_tests(text, &tests), ["it_was_never_there"]);
}
