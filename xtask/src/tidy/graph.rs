//! What all dependencies bring along: where they come from and what must not be among them.
//!
//! The lock file says where packages come from; cargo says which of them are built at all (the
//! lock also names optional ones that no feature turns on). `deny.toml` says the same things to
//! cargo-deny; here they hold on every machine.

use std::collections::BTreeSet;

use super::TidyFinding;
use crate::process::Program;
use crate::workspace;

/// The only source of packages.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Other cryptography than ours, which is `aws-lc-rs`, and bindings to the system's.
const BANNED: [&str; 11] = [
    "ring",
    "openssl",
    "openssl-sys",
    "native-tls",
    "boring",
    "boring-sys",
    "libsodium-sys",
    "mbedtls",
    "rust-crypto",
    "sodiumoxide",
    "sharks",
];
/// What there may be one version of only: two would be two places to fix, and two types that
/// should be one.
const SINGLE: [&str; 8] =
    ["aws-lc-rs", "aws-lc-sys", "rustls", "rustls-webpki", "secrecy", "subtle", "tokio", "zeroize"];

/// Checks the lock file and the packages that are built.
pub(super) fn check() -> Vec<TidyFinding> {
    let lock = std::fs::read_to_string(workspace::root().join("Cargo.lock")).unwrap_or_default();
    let mut findings = check_sources(&lock);
    let edges = ["--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}"];
    let tree = Program::cargo(["tree", "--workspace", "--locked"].into_iter().chain(edges));
    match tree.output() {
        Ok(text) => findings.extend(check_packages(&packages(&text))),
        Err(error) => findings.push(TidyFinding::new("Cargo.lock", format!("cargo tree: {error}"))),
    }
    findings
}

fn check_sources(lock: &str) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut package = "";
    for line in lock.lines() {
        if let Some(name) = line.strip_prefix("name = ") {
            package = name.trim_matches('"');
        } else if let Some(source) = line.strip_prefix("source = ")
            && source.trim_matches('"') != REGISTRY
        {
            findings.push(TidyFinding::new("Cargo.lock", format!("{package} comes from {source}")));
        }
    }
    if package.is_empty() {
        findings.push(TidyFinding::new("Cargo.lock", "it names no package"));
    }
    findings
}

/// Name and version of every package in the output of `cargo tree`.
fn packages(tree: &str) -> BTreeSet<(&str, &str)> {
    tree.lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap_or(rest)))
        .collect()
}

fn check_packages(packages: &BTreeSet<(&str, &str)>) -> Vec<TidyFinding> {
    let banned = packages.iter().filter(|(name, _)| BANNED.contains(name));
    let mut findings: Vec<TidyFinding> = banned
        .map(|(name, version)| {
            TidyFinding::new("Cargo.lock", format!("{name} {version} is built, and is banned"))
        })
        .collect();
    for name in SINGLE {
        let versions: Vec<&str> = packages
            .iter()
            .filter(|(other, _)| *other == name)
            .map(|(_, version)| *version)
            .collect();
        if versions.len() > 1 {
            let what =
                format!("{name} is built in {} versions: {}", versions.len(), versions.join(", "));
            findings.push(TidyFinding::new("Cargo.lock", what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_from_elsewhere_are_findings() {
        let lock = format!(
            "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"{REGISTRY}\"\n\n\
             [[package]]\nname = \"b\"\nversion = \"1.0.0\"\nsource = \"git+https://example.com/b\"\n"
        );
        let found = check_sources(&lock);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.starts_with("b comes from"), "{found:?}");
        assert_eq!(check_sources("").len(), 1, "a lock file that was not read is no lock file");
    }

    #[test]
    fn banned_packages_and_second_versions_are_findings() {
        let tree = "kallisto v0.1.0 (/somewhere)\nring v0.17.14\nzeroize v1.9.1\n\
                    zeroize v1.9.1 (*)\nzeroize v0.9.0\nsyn v2.0.0\nsyn v3.0.0\n";
        let found: Vec<String> =
            check_packages(&packages(tree)).into_iter().map(|finding| finding.what).collect();
        assert_eq!(
            found,
            [
                "ring 0.17.14 is built, and is banned",
                "zeroize is built in 2 versions: 0.9.0, 1.9.1"
            ]
        );
    }
}
