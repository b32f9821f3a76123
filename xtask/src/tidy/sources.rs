//! What every source file looks like.
//!
//! Held for the Rust files of the workspace and of `bench/`: a header that says what the room is,
//! a bounded size, imports of std before others, no notes to self, no file that no module names, no unsafe code where it has no
//! business. Held for every text file: no path of somebody's machine, no reference to a page that is not here.

use super::TidyFinding;
use super::files::File;

/// Hard limit; 80 to 300 lines is usual, and past 500 a file often has two nouns in it.
const LINES_MAX: usize = 600;
/// Notes to self, in two parts so that this table does not find itself.
const NOTES: [(&str, &str); 3] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X")];
/// Folders of machines on which this was written; an example may live in anybody's home.
const MACHINE_PATHS: [(&str, &str); 2] = [("/ro", "ot/"), ("/wo", "rk/")];
/// Pages that are not in the repository, which are named with a number: what they say belongs where they are named.
const FOREIGN_PAGES: [(&str, &str); 4] =
    [("les", "son "), ("les", "sons "), ("les", "son_"), ("API", ".md A")];
/// The one crate whose unsafe code is argued, in the header of its root.
const UNSAFE_CRATE: &str = "crates/cuckoo/";

/// What would lift the workspace's lint against unsafe code.
const LIFTS: [(&str, &str); 2] = [("allow(", "unsafe_code"), ("expect(", "unsafe_code")];

/// Checks every file.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(machine_path(file));
        findings.extend(foreign_page(file));
        if file.path.ends_with(".rs") {
            let held =
                [header(file), size(file), imports(file), unsafe_code(file), orphan(file, files)];
            findings.extend(held.into_iter().flatten());
        }
        if file.path.ends_with(".rs") || file.path.ends_with(".toml") {
            findings.extend(note(file));
        }
    }
    findings
}

fn header(file: &File) -> Option<TidyFinding> {
    let missing = !file.text.starts_with("//!");
    missing.then(|| TidyFinding::new(&*file.path, "begin with `//!`: what this room is"))
}

fn size(file: &File) -> Option<TidyFinding> {
    let lines = file.text.lines().count();
    (lines > LINES_MAX)
        .then(|| TidyFinding::new(&*file.path, format!("{lines} lines; the limit is {LINES_MAX}")))
}

/// What is imported from std comes first: the formatter orders within a group, and no group behind another. An import under a condition stands
/// where the condition is.
fn imports(file: &File) -> Option<TidyFinding> {
    let (mut is_behind, mut is_conditional) = (false, false);
    for (at, line) in file.text.lines().enumerate() {
        if line.starts_with("use std::") && is_behind && !is_conditional {
            let place = format!("{}:{}", file.path, at + 1);
            return Some(TidyFinding::new(place, "imports of std come before all others"));
        }
        is_behind |= line.starts_with("use ") && !line.starts_with("use std::");
        is_conditional = line.starts_with("#[");
    }
    None
}

fn note(file: &File) -> Option<TidyFinding> {
    let word = |part: &str| NOTES.iter().any(|(a, b)| part.strip_prefix(a) == Some(*b));
    let (at, _) = file
        .text
        .lines()
        .enumerate()
        .find(|(_, line)| line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(word))?;
    Some(TidyFinding::new(format!("{}:{}", file.path, at + 1), "a note to self: make it an issue"))
}

fn machine_path(file: &File) -> Option<TidyFinding> {
    // One inside a longer path is a route's, such as that of new shares for the root key.
    let begins_there = |line: &str, path: &str| {
        line.match_indices(path).any(|(at, _)| !line[..at].ends_with(char::is_alphanumeric))
    };
    let (at, _) = file.text.lines().enumerate().find(|(_, line)| {
        MACHINE_PATHS.iter().any(|(a, b)| begins_there(line, &format!("{a}{b}")))
    })?;
    Some(TidyFinding::new(format!("{}:{}", file.path, at + 1), "a path of one machine"))
}

fn foreign_page(file: &File) -> Option<TidyFinding> {
    let names = |line: &str, page: &str| {
        line.match_indices(page)
            .any(|(at, _)| line[at + page.len()..].starts_with(|next: char| next.is_ascii_digit()))
    };
    let (at, _) = file
        .text
        .lines()
        .enumerate()
        .find(|(_, line)| FOREIGN_PAGES.iter().any(|(a, b)| names(line, &format!("{a}{b}"))))?;
    let what = "a reference to a page that is not here: say what it says";
    Some(TidyFinding::new(format!("{}:{}", file.path, at + 1), what))
}

/// A library forbids unsafe code at its root, and nobody lifts what the workspace denies; cuckoo
/// does both, and argues it.
fn unsafe_code(file: &File) -> Option<TidyFinding> {
    let root = file.path.ends_with("src/lib.rs");
    let member = !file.path.starts_with("bench/") && !file.path.starts_with(UNSAFE_CRATE);
    let forbids = file.text.lines().any(|line| line == "#![forbid(unsafe_code)]");
    if root && member && !forbids {
        return Some(TidyFinding::new(&*file.path, "write `#![forbid(unsafe_code)]` at the root"));
    }
    let lifted = LIFTS.iter().any(|(a, b)| file.text.contains(&format!("{a}{b}")));
    (member && lifted).then(|| {
        TidyFinding::new(
            &*file.path,
            format!("unsafe code belongs in {UNSAFE_CRATE} and nowhere else"),
        )
    })
}

/// A file below `src` that no module declares is never compiled.
fn orphan(file: &File, files: &[File]) -> Option<TidyFinding> {
    let (crate_folder, inside) = file.path.split_once("src/")?;
    let (folder, name) = inside.rsplit_once('/').unwrap_or(("", inside));
    let (parents, module) = match name {
        "lib.rs" | "main.rs" if folder.is_empty() => return None,
        _ if folder == "bin" => return None,
        "mod.rs" => {
            let (above, own) = folder.rsplit_once('/').unwrap_or(("", folder));
            (parents_of(above), own)
        }
        _ => (parents_of(folder), name.trim_end_matches(".rs")),
    };
    let declares = |parent: &String| {
        let path = format!("{crate_folder}src/{parent}");
        files.iter().any(|file| file.path == path && declares(&file.text, module))
    };
    (!parents.iter().any(declares))
        .then(|| TidyFinding::new(&*file.path, "a dead file: no module declares it"))
}

/// The files in which the modules of `folder` may be declared.
fn parents_of(folder: &str) -> Vec<String> {
    match folder {
        "" => vec!["lib.rs".to_owned(), "main.rs".to_owned()],
        _ => vec![format!("{folder}/mod.rs"), format!("{folder}.rs")],
    }
}

fn declares(text: &str, module: &str) -> bool {
    let wanted = format!("mod {module};");
    text.lines().any(|line| line.trim_start() == wanted || line.ends_with(&format!(" {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "//! A room.\n#![forbid(unsafe_code)]\n\nmod part;\n";

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn whats(files: &[File]) -> Vec<String> {
        check(files).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_good_crate_has_no_findings() {
        let files = [
            file("crates/a/src/lib.rs", GOOD),
            file("crates/a/src/part/mod.rs", "//! A part.\npub(crate) mod leaf;\n"),
            file("crates/a/src/part/leaf.rs", "//! A leaf.\n"),
            file("crates/cuckoo/src/lib.rs", "//! Argued.\n"),
        ];
        assert_eq!(whats(&files), [""; 0]);
    }

    #[test]
    fn each_rule_finds_its_breach() {
        let long = format!("{GOOD}{}", "\n".repeat(LINES_MAX));
        for (text, word) in [
            (GOOD.replace("//! A room.\n", ""), "begin with"),
            (GOOD.replace("#![forbid(unsafe_code)]\n", ""), "forbid"),
            (format!("{GOOD}use one::Two;\nuse std::fmt;\n"), "before all others"),
            (format!("{GOOD}// {}{}: later\n", "TO", "DO"), "note to self"),
            (format!("{GOOD}// As {}{}7 has it.\n", "API", ".md A"), "not here"),
            (format!("{GOOD}// Denials ({}{}3).\n", "les", "son "), "not here"),
            (format!("{GOOD}// see {}{}x\n", "/ro", "ot/"), "one machine"),
            (format!("{GOOD}#[{}{}, reason = \"\")]\n", "allow(", "unsafe_code"), "nowhere else"),
            (long, "limit"),
        ] {
            let files =
                [file("crates/a/src/lib.rs", &text), file("crates/a/src/part.rs", "//! A part.\n")];
            let found = whats(&files);
            assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
        }
    }

    #[test]
    fn a_file_that_nothing_declares_is_dead() {
        let files = [
            file("crates/a/src/lib.rs", GOOD),
            file("crates/a/src/part.rs", "//! A part.\n"),
            file("crates/a/src/parting.rs", "//! Nobody knows me.\n"),
            file("crates/a/src/part/mod.rs", "//! A second part.\n"),
        ];
        assert_eq!(whats(&files[..3]), ["a dead file: no module declares it"]);
    }
}
