//! Links of the documents: the file that a link names is there, and so is the heading that it points at; each page below `docs/` is part of
//! the site.
//!
//! Anchors are made of headings as the places that show Markdown make them: lower case, without punctuation, spaces as hyphens, and a number
//! behind one that was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::TidyFinding;
use super::files::File;

/// The table of contents of the site.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The decision records are listed in their own index, from which the site takes them.
const DECISIONS: &str = "docs/decisions/";

/// Checks every Markdown file.
pub(super) fn check(root: &Path, files: &[File]) -> Vec<TidyFinding> {
    let pages: Vec<&File> = files.iter().filter(|file| file.path.ends_with(".md")).collect();
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for page in &pages {
        for (line, target) in links(&page.text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let place = || format!("{}:{line}", page.path);
            let Some(path) = resolve(&page.path, path) else {
                findings
                    .push(TidyFinding::new(place(), format!("the link {target} leaves the tree")));
                continue;
            };
            if page.path == SUMMARY {
                listed.insert(path.clone());
            }
            if !root.join(&path).exists() {
                findings.push(TidyFinding::new(
                    place(),
                    format!("links to {path}, which is not there"),
                ));
            } else if !anchor.is_empty()
                && anchors.get(path.as_str()).is_some_and(|known| !known.contains(anchor))
            {
                findings
                    .push(TidyFinding::new(place(), format!("{path} has no heading #{anchor}")));
            }
        }
    }
    let is_of_site =
        |path: &str| path.starts_with("docs/") && path != SUMMARY && !path.starts_with(DECISIONS);
    let unlisted =
        pages.iter().filter(|page| is_of_site(&page.path) && !listed.contains(&page.path));
    findings.extend(unlisted.map(|page| {
        TidyFinding::new(&*page.path, format!("is in no part of the site: list it in {SUMMARY}"))
    }));
    findings
}

/// The path that a link of `page` names, from the root; a link to the page itself names nothing else. `None` where it leaves the tree.
pub(crate) fn resolve(page: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines of a text outside of fenced blocks, with their numbers.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((number + 1, line))
    })
}

/// Links to files of the tree, with their lines.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).flat_map(|(number, line)| {
        let inner = targets(line).into_iter().map(move |(start, end)| (number, &line[start..end]));
        inner.filter(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"))
    })
}

/// Where the targets of a line's links begin and end; what stands in code is no link.
pub(crate) fn targets(line: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, c) in line.char_indices() {
        is_code ^= c == '`';
        let Some(rest) = line[at..].strip_prefix("](").filter(|_| !is_code) else { continue };
        if let Some(length) = rest.find(')') {
            found.push((at + 2, at + 2 + length));
        }
    }
    found
}

/// The anchors of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let base = slug(line.trim_start_matches('#').trim());
        let mut name = base.clone();
        let mut times = 0;
        while !found.insert(name) {
            times += 1;
            name = format!("{base}-{times}");
        }
    }
    found
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || "-_".contains(c) => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_anchors_and_repeated_ones_are_numbered() {
        let found = anchors("# The `a_b` page, here\n```\n# not a heading\n```\n## B\n## B\n");
        assert_eq!(found, ["b", "b-1", "the-a_b-page-here"].map(str::to_owned).into());
    }

    #[test]
    fn links_in_code_are_none_and_paths_are_resolved() {
        let text = "[a](b.md#c) and `[x](y.md)` ![d](../e.png)\n```\n[f](g)\n```\n[h](https://i)";
        let found: Vec<_> = links(text).collect();
        assert_eq!(found, [(1, "b.md#c"), (1, "../e.png")]);
        assert_eq!(resolve("docs/a/b.md", "../e.png").as_deref(), Some("docs/e.png"));
        assert_eq!(resolve("README.md", "../e.png"), None);
    }
}
