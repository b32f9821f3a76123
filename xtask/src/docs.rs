//! `cargo x docs`: the site, made by mdBook from `docs/`; and `cargo x reference`, which writes the pages of `docs/reference/`. Most of them
//! are written by tests of the crates that have the data; that of the differences from OpenBao is [`differences`].
//!
//! mdBook shows only what `SUMMARY.md` lists. So the pages are copied to `target/site` first, those of the repository's root that readers of the
//! site need among them, the decision records are added to the list, and links to any other file become links to the repository. That every
//! link leads somewhere is held by `cargo x tidy`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep};
use crate::tidy::links;
use crate::workspace;

/// The version of mdBook that is installed where there is none.
const MDBOOK: &str = "0.5.4";
/// Where links to other files of the repository lead.
const REPOSITORY: &str = "https://github.com/kallisto-secrets/kallisto/blob/main/";
/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Pages of the repository's root that are part of the site.
const ROOT_PAGES: [&str; 4] = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
/// Where the site has them.
const ROOT_PAGES_FOLDER: &str = "project";
/// Deepest nesting of folders below `docs/`.
const DEPTH_MAX: usize = 8;

/// The verb `docs`.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    if !args.is_empty() {
        return Err(UsageMistake("takes no arguments".to_owned()));
    }
    let site = workspace::target_folder("site");
    let copied = VerbStep::run("copy", || match copy(&site) {
        Ok(pages) => {
            eprintln!("{pages} pages copied to {}", site.display());
            StepOutcome::Passed
        }
        Err(error) => {
            eprintln!("cannot copy docs/ to {}: {error}", site.display());
            StepOutcome::Failed(1)
        }
    });
    if copied.outcome != StepOutcome::Passed {
        return Ok(vec![copied]);
    }
    let program = match mdbook() {
        Ok(program) => program,
        Err(why) => return Ok(vec![copied, VerbStep::run("mdbook", || StepOutcome::Skipped(why))]),
    };
    let build = Program::new(&program, ["build".to_owned(), site.display().to_string()]);
    let built = build.step("mdbook");
    if built.outcome == StepOutcome::Passed {
        eprintln!("open {}", site.join("book/index.html").display());
    }
    Ok(vec![copied, built])
}

/// The verb `reference`: runs the tests that hold the pages, and has them write instead.
pub(crate) fn reference(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    if !args.is_empty() {
        return Err(UsageMistake("takes no arguments".to_owned()));
    }
    let packages =
        ["kallisto-audit", "kallisto-core", "kallisto-listener", "kallisto-server", "kallisto"];
    let written = VerbStep::run("differences", || match write_differences() {
        Ok(()) => StepOutcome::Passed,
        Err(error) => {
            eprintln!("{PAGE_OF_DIFFERENCES}: {error}");
            StepOutcome::Failed(1)
        }
    });
    let mut words = vec!["test", "--quiet", "--lib", "--bins"];
    words.extend(packages.iter().flat_map(|package| ["--package", package]));
    words.push("the_page_of_");
    let write = Program::cargo(words).with_flags("KALLISTO_REFERENCE_WRITE", "1");
    Ok(vec![written, write.step("reference")])
}

/// The page of differences from OpenBao, and what it is made of.
const PAGE_OF_DIFFERENCES: &str = "docs/reference/differences.md";
const TABLE_OF_DIFFERENCES: &str = "tests/differential/differences.txt";

fn write_differences() -> io::Result<()> {
    let root = workspace::root();
    let table = fs::read_to_string(root.join(TABLE_OF_DIFFERENCES))?;
    write(&root.join(PAGE_OF_DIFFERENCES), &differences(&table))
}

/// The table of the differential tests as a page: each reason with the requests that it explains.
fn differences(table: &str) -> String {
    let mut reasons: Vec<(&str, &str)> = Vec::new();
    let mut rows: Vec<(&str, &str, &str, &str)> = Vec::new();
    let mut section = "";
    for line in table.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix("reason ") {
            reasons.extend(rest.split_once(' ').map(|(name, why)| (name, why.trim())));
        } else if let Some(name) = line.strip_prefix("section ") {
            section = name.trim();
        } else if let [reason, request, places] = line.split(" | ").collect::<Vec<_>>()[..] {
            rows.push((reason, section, request, places));
        }
    }
    let mut text = format!(
        "<!-- Written by `cargo x reference` from {TABLE_OF_DIFFERENCES}; a test compares. Do not edit. -->\n\n\
         # Differences from OpenBao\n\n\
         Each server is sent the same requests, and every answer is compared, field by field. This is every difference that is left, \
         by its reason; the tests fail on one that is not here, and on a line that no longer holds. *What differs* names members of the answer \
         (`+` only here, `-` only there), or `status:THERE>HERE`. What differs on purpose and why is in \
         [0007](../decisions/0007-wire-deviations.md).\n\n"
    );
    for (name, why) in reasons {
        let of_reason = rows.iter().filter(|(reason, ..)| *reason == name);
        let lines: Vec<String> = of_reason
            .map(|(_, section, request, places)| {
                format!("| {section} | `{request}` | `{places}` |\n")
            })
            .collect();
        if !lines.is_empty() {
            text.push_str(&format!(
                "## {name}\n\n{why}\n\n| stream | request | what differs |\n|---|---|---|\n"
            ));
            text.push_str(&lines.concat());
            text.push('\n');
        }
    }
    format!("{}\n", text.trim_end())
}

/// The program: that of the path, else one of our own, which is installed first.
fn mdbook() -> Result<String, String> {
    if Program::new("mdbook", ["--version"]).output().is_ok() {
        return Ok("mdbook".to_owned());
    }
    let tools = workspace::target_folder("tools");
    let program = tools.join("bin/mdbook").display().to_string();
    if Program::new(&program, ["--version"]).output().is_ok() {
        return Ok(program);
    }
    let root = tools.display().to_string();
    let install = ["install", "mdbook", "--locked", "--version", MDBOOK, "--root", &root];
    match Program::cargo(install).run() {
        StepOutcome::Passed => Ok(program),
        StepOutcome::Failed(_) | StepOutcome::Skipped(_) => Err(format!(
            "mdbook is not installed and could not be fetched: cargo install mdbook --locked --version {MDBOOK}"
        )),
    }
}

/// Copies the pages and returns how many there are.
fn copy(site: &Path) -> io::Result<usize> {
    let docs = workspace::root().join("docs");
    if site.exists() {
        fs::remove_dir_all(site)?;
    }
    fs::create_dir_all(site.join("src"))?;
    fs::copy(docs.join("book.toml"), site.join("book.toml"))?;
    let mut pages = 0;
    for path in files(&docs, 0)? {
        let name = path.strip_prefix(&docs).map_err(io::Error::other)?;
        if name == Path::new("book.toml") {
            continue;
        }
        let target = site.join("src").join(name);
        fs::create_dir_all(target.parent().unwrap_or(site))?;
        if path.extension().is_none_or(|ending| ending != "md") {
            fs::copy(&path, &target)?;
            continue;
        }
        let name = name.to_string_lossy();
        let mut text = with_links_of_the_site(&format!("docs/{name}"), &fs::read_to_string(&path)?);
        if name == "SUMMARY.md" {
            text.push_str(&records(&docs.join("decisions"))?);
        }
        write(&target, &text)?;
        pages += 1;
    }
    let folder = site.join("src").join(ROOT_PAGES_FOLDER);
    fs::create_dir_all(&folder)?;
    for page in ROOT_PAGES {
        let text = fs::read_to_string(workspace::root().join(page))?;
        write(&folder.join(page), &with_links_of_the_site(page, &text))?;
        pages += 1;
    }
    Ok(pages)
}

/// Where the site has a file of the repository, if it does. mdBook calls a folder's `README.md` its index.
fn place_in_site(file: &str) -> Option<String> {
    let Some(name) = file.strip_prefix("docs/") else {
        return ROOT_PAGES.contains(&file).then(|| format!("{ROOT_PAGES_FOLDER}/{file}"));
    };
    match name.strip_suffix("/README.md") {
        Some(folder) => Some(format!("{folder}/index.md")),
        None => Some(name.to_owned()),
    }
}

#[expect(clippy::disallowed_methods, reason = "a developer command works on the tree")]
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

/// The decision records as lines of the table of contents, below the page that lists them.
fn records(folder: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    for path in files(folder, 0)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name == "README.md" {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(name);
        let title = title.replace(['[', ']'], "");
        lines.push(format!("  - [{title}](decisions/{name})\n"));
    }
    lines.sort();
    Ok(lines.concat())
}

/// The page with its links as the site needs them: to the places of pages in it, and to the repository for every other file.
fn with_links_of_the_site(page: &str, text: &str) -> String {
    let prose: Vec<usize> = links::prose(text).map(|(number, _)| number).collect();
    let mut whole = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        let mut kept = 0;
        if prose.binary_search(&(number + 1)).is_ok() {
            for (start, end) in links::targets(line) {
                if let Some(link) = link_of_the_site(page, &line[start..end]) {
                    whole.push_str(&line[kept..start]);
                    whole.push_str(&link);
                    kept = end;
                }
            }
        }
        whole.push_str(&line[kept..]);
        whole.push('\n');
    }
    whole
}

/// What the site has in the place of a link; `None` where it may stay.
fn link_of_the_site(page: &str, target: &str) -> Option<String> {
    let anchor_at = target.find('#').unwrap_or(target.len());
    let (path, anchor) = target.split_at(anchor_at);
    if path.is_empty() || target.contains("://") {
        return None;
    }
    let file = links::resolve(page, path)?;
    let Some(place) = place_in_site(&file) else {
        return Some(format!("{REPOSITORY}{file}{anchor}"));
    };
    // The table of contents names files, not pages.
    let is_as_listed = page == SUMMARY || !file.ends_with("/README.md");
    if is_as_listed && page.starts_with("docs/") && file.starts_with("docs/") {
        return None;
    }
    let own = place_in_site(page)?;
    Some(format!("{}{place}{anchor}", "../".repeat(own.matches('/').count())))
}

fn files(folder: &Path, depth: usize) -> io::Result<Vec<PathBuf>> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other(format!("folders nest deeper than {DEPTH_MAX}")));
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path(), depth + 1)?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_differences_is_what_the_table_says() {
        let read = |name: &str| fs::read_to_string(workspace::root().join(name)).unwrap();
        let is_same = read(PAGE_OF_DIFFERENCES) == differences(&read(TABLE_OF_DIFFERENCES));
        assert!(
            is_same,
            "{PAGE_OF_DIFFERENCES} is not what the table says; run: cargo x reference"
        );
    }

    #[test]
    fn differences_are_told_by_their_reason() {
        let page =
            differences("reason A  Because.\nreason B  Nobody.\nsection s\nA | GET x | /a *\n");
        assert!(page.ends_with("## A\n\nBecause.\n\n| stream | request | what differs |\n|---|---|---|\n| s | `GET x` | `/a *` |\n"), "{page}");
    }

    #[test]
    fn links_out_of_the_documents_lead_to_the_repository() {
        let text = "[a](../README.md#x) [b](api.md)\n```\n[c](../d)\n```\n[e](https://f)";
        assert_eq!(
            with_links_of_the_site("docs/ui.md", text),
            format!(
                "[a]({REPOSITORY}README.md#x) [b](api.md)\n```\n[c](../d)\n```\n[e](https://f)\n"
            )
        );
    }

    #[test]
    fn pages_of_the_root_are_part_of_the_site() {
        let text = "[a](../../SECURITY.md#x) [b](../store.md)\n";
        let expected = "[a](../project/SECURITY.md#x) [b](../store.md)\n";
        assert_eq!(with_links_of_the_site("docs/inside/page.md", text), expected);
        let text =
            "[a](docs/ui.md#headers) [b](CHANGELOG.md) [c](#own) [d](docs/decisions/README.md)\n";
        assert_eq!(
            with_links_of_the_site("SECURITY.md", text),
            "[a](../ui.md#headers) [b](../project/CHANGELOG.md) [c](#own) [d](../decisions/index.md)\n"
        );
        let listed = "- [Decisions](decisions/README.md)\n";
        assert_eq!(with_links_of_the_site(SUMMARY, listed), listed);
        for page in ROOT_PAGES {
            assert!(workspace::root().join(page).is_file(), "{page}");
        }
    }
}
