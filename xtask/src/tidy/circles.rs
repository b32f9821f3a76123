//! Files of the core that need each other, in circles.
//!
//! An arrow is a use of a name that another file defines: a `use`, a path in the code, or a path through a module that is in scope.
//! Re-exports are followed to the file that defines the name. Tests and comments do not count. The registry's one `match` that names what
//! drives each engine does not count either: it is called through a trait by what stands below.

use std::collections::{BTreeMap, BTreeSet};

use super::TidyFinding;
use super::files::File;

/// Where the files are.
const ROOT: &str = "crates/core/src/";
/// Most files of a circle.
const CIRCLE_MAX: usize = 3;
/// The file that names the engines' drivers, and the names of its arrows that do not count.
const REGISTRY: &str = "registry.rs";
const DRIVERS: [&str; 4] = ["System", "IdentityEngine", "TokenEngine", "KvEngine"];

/// Checks every file of the core.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let house = House::new(files);
    let arrows = house.arrows();
    let too_large = circles(&arrows).into_iter().filter(|circle| circle.len() > CIRCLE_MAX);
    let tell = |circle: BTreeSet<&str>| {
        let names: Vec<&str> = circle.into_iter().collect();
        let what = format!(
            "{} files need each other, of at most {CIRCLE_MAX}: {}",
            names.len(),
            names.join(", ")
        );
        TidyFinding::new(format!("{ROOT}{}", names[0]), what)
    };
    too_large.map(tell).collect()
}

/// The code of a file: without comments, tests, and what only tests import.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let mut lines = Vec::new();
    let mut is_for_tests = false;
    for line in code.lines() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        if line.trim() == "#[cfg(test)]" {
            is_for_tests = true;
            continue;
        }
        if !is_for_tests {
            lines.push(line);
        }
        is_for_tests &= !line.trim_end().ends_with([';', '}']);
    }
    lines.join("\n")
}

/// The files by their modules.
pub(super) struct House<'a> {
    /// The path of each module inside the crate, and its file.
    modules: BTreeMap<Vec<String>, &'a str>,
    codes: BTreeMap<&'a str, String>,
    /// What the `use`s of a file bring in, and whether they are for others too.
    uses: BTreeMap<&'a str, Vec<(Vec<String>, bool)>>,
}

impl<'a> House<'a> {
    pub(super) fn new(files: &'a [File]) -> Self {
        let mut house =
            Self { modules: BTreeMap::new(), codes: BTreeMap::new(), uses: BTreeMap::new() };
        for file in files {
            let Some(inside) = file.path.strip_prefix(ROOT) else { continue };
            if !inside.ends_with(".rs") || inside.contains("tests") || inside.contains("test_") {
                continue;
            }
            house.modules.insert(module_of(inside), inside);
            house.codes.insert(inside, code_of(&file.text));
        }
        for (&module, code) in &house.codes {
            let here = module_of(module);
            house.uses.insert(module, uses_of(code, &here));
        }
        house
    }

    /// The file of the longest part of a path that is a module, and the name after it.
    fn resolve(&self, path: &[String]) -> Option<(&'a str, Option<String>)> {
        (1..=path.len()).rev().find_map(|length| {
            let file = self.modules.get(&path[..length])?;
            Some((*file, path.get(length).cloned()))
        })
    }

    /// The file that defines what is at a path, re-exports followed.
    fn defining(&self, path: &[String]) -> Option<(&'a str, String)> {
        let (mut file, name) = self.resolve(path)?;
        let name = name?;
        for _ in 0..8 {
            let here = module_of(file);
            let exported = self.uses[file]
                .iter()
                .find(|(used, is_public)| *is_public && used.last() == Some(&name));
            match exported.and_then(|(used, _)| self.resolve(used)) {
                Some((next, _)) if module_of(next) != here => file = next,
                _ => break,
            }
        }
        Some((file, name))
    }

    /// The files that each file needs.
    pub(super) fn arrows(&self) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (&file, code) in &self.codes {
            let uses = &self.uses[file];
            let body = without_uses(code);
            // A public `use` of what the file does not mention itself only passes it on.
            let is_used = |(path, is_public): &&(Vec<String>, bool)| {
                !is_public || path.last().is_some_and(|name| mentions(&body, name))
            };
            let mut paths: Vec<Vec<String>> =
                uses.iter().filter(is_used).map(|(path, _)| path.clone()).collect();
            paths.extend(paths_of(&body, &module_of(file), uses, &self.modules));
            let targets = arrows.entry(file).or_default();
            for path in paths {
                let Some((target, name)) = self.defining(&path) else { continue };
                let is_driver = file == REGISTRY && DRIVERS.contains(&name.as_str());
                if target != file && !is_driver {
                    targets.insert(target);
                }
            }
        }
        arrows
    }
}

fn module_of(file: &str) -> Vec<String> {
    let bare = file.trim_end_matches(".rs");
    let bare = bare.strip_suffix("/mod").unwrap_or(bare);
    if bare == "lib" { Vec::new() } else { bare.split('/').map(str::to_owned).collect() }
}

/// The path from the root of the crate of one that is written in the module `here`; `None` for one of another crate.
fn absolute(path: &str, here: &[String]) -> Option<Vec<String>> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut base: Vec<String> = match *parts.peek()? {
        "crate" => {
            parts.next();
            Vec::new()
        }
        "self" => {
            parts.next();
            here.to_vec()
        }
        "super" => here.to_vec(),
        _ => return None,
    };
    while parts.next_if_eq(&"super").is_some() {
        base.pop();
    }
    base.extend(parts.filter(|part| *part != "self").map(str::to_owned));
    Some(base)
}

/// The leaves of a tree of imports.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or(tree).trim().to_owned()];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut found, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, byte) in inside.bytes().chain([b',']).enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                let part = inside[from..at].trim();
                if !part.is_empty() {
                    found.extend(leaves(part).into_iter().map(|leaf| format!("{before}{leaf}")));
                }
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The statements `use ..;` of a file: the text of each, and whether it is public.
fn statements(code: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut open: Option<(String, bool)> = None;
    for line in code.lines() {
        let bare = line.trim_start();
        if let Some((text, _)) = &mut open {
            text.push(' ');
            text.push_str(bare);
        } else if let Some(start) = bare.strip_prefix("use ") {
            open = Some((start.to_owned(), false));
        } else if bare.starts_with("pub")
            && let Some((_, start)) =
                bare.split_once(" use ").or_else(|| bare.split_once("pub use "))
        {
            open = Some((start.to_owned(), true));
        }
        if let Some(statement) = open.take_if(|(text, _)| text.contains(';')) {
            found.push(statement);
        }
    }
    found
}

fn uses_of(code: &str, here: &[String]) -> Vec<(Vec<String>, bool)> {
    let of = |(text, is_public): (String, bool)| {
        let tree = text.split(';').next().unwrap_or_default().to_owned();
        let paths = leaves(&tree).into_iter();
        let whole = move |leaf: String| {
            // What is no path of the crate may be of a module below this one.
            let below =
                || Some(here.iter().cloned().chain(leaf.split("::").map(str::to_owned)).collect());
            Some((absolute(&leaf, here).or_else(below)?, is_public))
        };
        paths.filter_map(whole).collect::<Vec<_>>()
    };
    statements(code).into_iter().flat_map(of).collect()
}

/// The rest of a file: neither what it brings into scope nor its modules' names.
fn without_uses(code: &str) -> String {
    let mut body = Vec::new();
    let mut is_use = false;
    for line in code.lines() {
        let bare = line.trim_start();
        is_use |= bare.starts_with("use ") || (bare.starts_with("pub") && bare.contains(" use "));
        let is_module = bare.ends_with(';') && bare.contains("mod ");
        if !is_use && !is_module {
            body.push(line);
        }
        is_use &= !line.contains(';');
    }
    body.join("\n")
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The words of code with `::` between them, as they are written.
fn written_paths(body: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let bytes = body.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_word(bytes[at]) {
            at += 1;
            continue;
        }
        let from = at;
        while at < bytes.len() && (is_word(bytes[at]) || bytes[at..].starts_with(b"::")) {
            at += if is_word(bytes[at]) { 1 } else { 2 };
        }
        // A method is no name of a module.
        if from == 0 || bytes[from - 1] != b'.' {
            found.push(body[from..at].trim_end_matches("::"));
        }
    }
    found
}

fn mentions(body: &str, name: &str) -> bool {
    written_paths(body).into_iter().any(|path| path.split("::").next() == Some(name))
}

/// The paths in the code of a file, from the root of the crate.
fn paths_of(
    body: &str,
    here: &[String],
    uses: &[(Vec<String>, bool)],
    modules: &BTreeMap<Vec<String>, &str>,
) -> Vec<Vec<String>> {
    let in_scope: BTreeMap<&str, &Vec<String>> = uses
        .iter()
        .filter(|(path, _)| modules.contains_key(path))
        .filter_map(|(path, _)| Some((path.last()?.as_str(), path)))
        .collect();
    let whole = |path: &str| {
        let (first, rest) = path.split_once("::")?;
        if let Some(whole) = absolute(path, here) {
            return Some(whole);
        }
        let below: Vec<String> = here.iter().cloned().chain([first.to_owned()]).collect();
        let base = match in_scope.get(first) {
            Some(module) => (*module).clone(),
            None if modules.contains_key(&below) => below,
            None => return None,
        };
        Some(base.into_iter().chain(rest.split("::").map(str::to_owned)).collect())
    };
    written_paths(body).into_iter().filter_map(whole).collect()
}

/// The sets of files of which each reaches each other.
fn circles<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let reached = |from: &'a str| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(file) = next.pop() {
            for &target in arrows.get(file).into_iter().flatten() {
                if seen.insert(target) {
                    next.push(target);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|&file| (file, reached(file))).collect();
    let mut placed = BTreeSet::new();
    let mut found = Vec::new();
    for (&file, seen) in &reach {
        if placed.contains(file) || !seen.contains(file) {
            continue;
        }
        let is_mutual = |other: &&str| reach.get(*other).is_some_and(|back| back.contains(file));
        let circle: BTreeSet<&str> = seen.iter().copied().filter(is_mutual).collect();
        placed.extend(circle.iter().copied());
        found.push(circle);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("{ROOT}{path}"), text: text.to_owned() }
    }

    #[test]
    fn a_circle_is_found_through_imports_paths_modules_and_re_exports() {
        let files = [
            file("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            file("a.rs", "use crate::b::f;\nfn x() { f() }\n"),
            file("b.rs", "pub(crate) fn f() { crate::c::g() }\n"),
            file("c/mod.rs", "mod own;\npub(crate) use own::g;\n"),
            file("c/own.rs", "use crate::d;\npub(crate) fn g() { d::h() }\n"),
            file("d.rs", "pub(crate) fn h() { super::a::x() }\n"),
        ];
        let findings = check(&files);
        assert_eq!(findings.len(), 1);
        let what = &findings[0].what;
        assert!(
            what.starts_with("4 files") && what.ends_with("a.rs, b.rs, c/own.rs, d.rs"),
            "{what}"
        );
    }

    #[test]
    fn tests_comments_and_what_is_passed_on_make_no_circle() {
        let files = [
            file(
                "a.rs",
                "// crate::b::f\nfn x() {}\n#[cfg(test)]\nmod tests {\nuse crate::b::f;\n}\n",
            ),
            file("b.rs", "use crate::c::g;\n#[cfg(test)]\nuse crate::e::k;\nfn f() { g() }\n"),
            file("c.rs", "use crate::d::h;\nfn g() { h() }\n"),
            file("d.rs", "use crate::a::x;\nfn h() { x() }\n"),
            file("e.rs", "use crate::b::f;\nfn k() { f() }\n"),
        ];
        assert!(check(&files).is_empty());
    }
}
