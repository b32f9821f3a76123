//! The web page: that what is committed was made of the sources that lie there, and of no packages but those listed.
//!
//! The bytes of `crates/ui/dist` come from `cargo x ui`. Building them takes Node.js, which most machines that build the server lack, so here only
//! `dist/SOURCES`, the digest of the sources, is compared. `cargo x ui --check` builds and compares all bytes.
//!
//! A package enters by a row in [`PACKAGES`] with its reason; one that nothing names any more is a finding as well.

use std::fs;
use std::path::Path;

use super::TidyFinding;
use crate::ui;

/// The packages of npm that the page and its tests are made with, and why.
pub(crate) const PACKAGES: [(&str, &str); 11] = [
    ("@fontsource/jetbrains-mono", "the one font that is shipped, Latin: 0O and 1lI apart"),
    ("@preact/signals", "state that many parts of the page share"),
    ("@types/node", "types for the tests"),
    ("axe-core", "tests: accessibility of every screen"),
    ("esbuild", "build: one file of many"),
    ("playwright-core", "tests: drives the browser that the system has"),
    ("preact", "draws the page"),
    ("prettier", "formats the sources, as rustfmt does those of the server"),
    ("typescript", "build: checks types"),
    ("uqr", "QR codes of one-time links, loaded when one is shown"),
    ("yaml", "reads YAML in the import's worker: foreign bytes are no matter for a parser of ours"),
];

pub(super) fn check(root: &Path) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let made_of = fs::read_to_string(root.join(ui::SOURCES)).unwrap_or_default();
    match ui::sources_digest(root) {
        Ok(digest) if made_of.trim() == digest => {}
        Ok(_) => findings.push(TidyFinding::new(
            ui::SOURCES,
            "the page was not made of the sources in ui/; run: cargo x ui",
        )),
        Err(error) => findings.push(TidyFinding::new("ui", format!("cannot be read: {error}"))),
    }
    let manifest = fs::read_to_string(root.join("ui/package.json")).unwrap_or_default();
    let named: Vec<&str> = manifest
        .lines()
        .skip_while(|line| !line.contains("ependencies\""))
        .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\": \""))
        .map(|(name, _)| name)
        .collect();
    for name in &named {
        if !PACKAGES.iter().any(|(known, _)| known == name) {
            findings.push(TidyFinding::new(
                "ui/package.json",
                format!("{name} is not in the list of packages, xtask/src/tidy/page.rs"),
            ));
        }
    }
    for (name, reason) in PACKAGES {
        if !named.contains(&name) {
            findings.push(TidyFinding::new(
                "xtask/src/tidy/page.rs",
                format!("{name} ({reason}) is used no more"),
            ));
        }
    }
    findings
}
