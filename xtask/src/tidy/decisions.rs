//! The decision records: `docs/decisions/NNNN-words-of-the-title.md`, each number once, each listed once in the index by subject, and every
//! record that a file points to is there.

use std::collections::BTreeMap;

use super::TidyFinding;
use super::files::File;

const FOLDER: &str = "docs/decisions/";
/// The list of all records by subject, in the same folder.
const INDEX: &str = "README.md";
const DIGITS: usize = 4;

/// Checks names, numbers and references.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let records: Vec<&str> =
        files.iter().filter_map(|file| file.path.strip_prefix(FOLDER)).collect();
    let index = files.iter().find(|file| file.path.strip_prefix(FOLDER) == Some(INDEX));
    let mut findings = check_names(&records);
    findings.extend(check_index(&records, index.map_or("", |file| &file.text)));
    for file in files {
        let missing = references(&file.text).filter(|name| !records.contains(name));
        findings.extend(missing.map(|name| {
            TidyFinding::new(&*file.path, format!("points to {FOLDER}{name}, which is not there"))
        }));
    }
    findings
}

fn check_names(records: &[&str]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut owners = BTreeMap::new();
    for &name in records.iter().filter(|name| **name != INDEX) {
        let place = format!("{FOLDER}{name}");
        let Some(number) = number_of(name) else {
            findings.push(TidyFinding::new(place, "a record is called NNNN-some-words.md"));
            continue;
        };
        if let Some(owner) = owners.insert(number, name) {
            findings.push(TidyFinding::new(place, format!("has the number of {owner}")));
        }
    }
    findings
}

/// Every record has one row in the index, which begins with a link to it.
fn check_index(records: &[&str], index: &str) -> Vec<TidyFinding> {
    let rows = |name: &str| {
        let number = number_of(name).unwrap_or(name);
        let link = format!("| [{number}]({name}) |");
        index.lines().filter(|line| line.starts_with(&link)).count()
    };
    let records = records.iter().filter(|name| **name != INDEX);
    let wrong = records.map(|name| (name, rows(name))).filter(|(_, rows)| *rows != 1);
    wrong
        .map(|(name, rows)| {
            let what = format!("has {rows} rows in {FOLDER}{INDEX}, not 1: list it by its subject");
            TidyFinding::new(format!("{FOLDER}{name}"), what)
        })
        .collect()
}

fn number_of(name: &str) -> Option<&str> {
    let (number, rest) = name.split_once('-')?;
    let words = rest.strip_suffix(".md")?;
    let digits = number.len() == DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
    (digits && !words.is_empty()).then_some(number)
}

/// The names of records that a text points to by full path.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(FOLDER).filter_map(|(at, _)| {
        let rest = &text[at + FOLDER.len()..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c)));
        let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        number_of(name).map(|_| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_belongs_to_one_record() {
        assert_eq!(check_names(&["0001-a.md", "0002-b.md"]), []);
        let found = check_names(&["0001-a.md", "0001-b.md", "2-c.md", "0003-.md", "notes.md"]);
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn a_record_is_listed_once() {
        let index = "| [0001](0001-a.md) | A | in use; see [0002](0002-b.md) |\n| [0003](0003-c.md) | C | x |\n\
            | [0003](0003-c.md) | C | x |\n";
        let found = check_index(&["0001-a.md", "0002-b.md", "0003-c.md", "README.md"], index);
        let places: Vec<&str> = found.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, [format!("{FOLDER}0002-b.md"), format!("{FOLDER}0003-c.md")]);
    }

    #[test]
    fn a_reference_needs_its_record() {
        let file = |path: &str, text: String| File { path: path.to_owned(), text };
        let text = format!("//! see `{FOLDER}0001-a.md` and {FOLDER}0002-b.md.");
        let index =
            file("docs/decisions/README.md", "| [0001](0001-a.md) | A | in use |".to_owned());
        let files = [file(&format!("{FOLDER}0001-a.md"), String::new()), file("x.rs", text), index];
        let found = check(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains("0002-b.md"));
    }
}
