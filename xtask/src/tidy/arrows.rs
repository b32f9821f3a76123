//! The manifests against the table of `rooms`: arrows point down, external crates are known.
//!
//! A manifest is read line by line, in the form this workspace writes: one dependency a line in
//! sections called `dependencies`. A form that this reading could misread is itself a finding.

use super::TidyFinding;
use super::files::File;
use super::rooms::{CrateArrows, rooms};

/// Where it is written down who may know whom.
const TABLE: &str = "xtask/src/tidy/rooms/";

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DependencyPurpose {
    Product,
    Tests,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) purpose: DependencyPurpose,
}

/// The feature of the barrier that lets a run name its random bytes, and the one crate that may ask for it.
const SEEDED: &str = "\"seeded\"";
const SIMULATION: &str = "crates/sim/Cargo.toml";

/// Checks every manifest of the workspace's members.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let packages: Vec<&str> = rooms().map(|room| room.package).collect();
    for file in files.iter().filter(|file| is_member(&file.path)) {
        match rooms().find(|room| format!("{}/Cargo.toml", room.folder) == file.path) {
            Some(room) => findings.extend(check_room(room, &packages, file)),
            None => findings.push(TidyFinding::new(
                &*file.path,
                format!("a crate that {TABLE} does not know: say there what it may depend on"),
            )),
        }
        findings.extend(check_seeded(file));
    }
    let is_there =
        |room: &&CrateArrows| files.iter().any(|file| file.path.starts_with(room.folder));
    findings.extend(
        rooms()
            .filter(|room| !is_there(room))
            .map(|room| TidyFinding::new(TABLE, format!("there is no crate in {}", room.folder))),
    );
    findings
}

/// Manifests of the workspace's own crates; those of benchmarks and of foreign clients are on their own.
fn is_member(path: &str) -> bool {
    path.ends_with("/Cargo.toml")
        && !["bench/", "tests/clients/"].iter().any(|apart| path.starts_with(apart))
}

/// A server whose keys somebody can foretell is none.
fn check_seeded(file: &File) -> Option<TidyFinding> {
    let asks = |line: &str| line.starts_with("kallisto-barrier") && line.contains(SEEDED);
    (file.path != SIMULATION && file.text.lines().any(asks)).then(|| {
        TidyFinding::new(
            &*file.path,
            "asks for the barrier's `seeded`, which is the simulation's alone",
        )
    })
}

fn check_room(room: &CrateArrows, packages: &[&str], file: &File) -> Vec<TidyFinding> {
    let place = file.path.as_str();
    let found = match dependencies(&file.text) {
        Ok(found) => found,
        Err(what) => return vec![TidyFinding::new(place, what)],
    };
    let mut findings = Vec::new();
    for Dependency { name, purpose } in &found {
        let name = name.as_str();
        let ours = packages.contains(&name) || name.starts_with("kallisto");
        let known = match purpose {
            _ if room.below.contains(&name) => true,
            DependencyPurpose::Product => room.external.contains(&name),
            DependencyPurpose::Tests => room.for_tests.contains(&name),
        };
        if known {
            continue;
        }
        findings.push(TidyFinding::new(
            place,
            if ours {
                format!("must not know {name}: arrows point only downward")
            } else {
                format!(
                    "depends on {name} ({purpose:?}), which {TABLE} does not list: a crate enters \
                     with a decision record"
                )
            },
        ));
    }
    let listed =
        [(room.external, DependencyPurpose::Product), (room.for_tests, DependencyPurpose::Tests)];
    for (names, purpose) in listed {
        let is_used =
            |name: &&&str| found.iter().any(|d| d.name == ***name && d.purpose == purpose);
        findings.extend(names.iter().filter(|name| !is_used(name)).map(|name| {
            TidyFinding::new(
                place,
                format!("does not use {name} ({purpose:?}) any more: take it out of {TABLE}"),
            )
        }));
    }
    findings
}

/// The dependencies a manifest declares.
pub(super) fn dependencies(manifest: &str) -> Result<Vec<Dependency>, String> {
    let mut found = Vec::new();
    let mut purpose = None;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            purpose = section(header.trim_end_matches(']'))?;
            continue;
        }
        let (Some(purpose), false) = (purpose, line.is_empty() || line.starts_with('#')) else {
            continue;
        };
        let (name, value) = line
            .split_once(['.', '=', ' '])
            .ok_or_else(|| format!("cannot read the dependency {line:?}"))?;
        if value.contains("package") || value.contains("git") || value.contains("version") {
            return Err(format!(
                "{name}: write `{name}.workspace = true`; renames, repositories \
                                and versions have no place here"
            ));
        }
        found.push(Dependency { name: name.to_owned(), purpose });
    }
    Ok(found)
}

/// What the dependencies in the section `[header]` are for; `None` for other sections.
fn section(header: &str) -> Result<Option<DependencyPurpose>, String> {
    let last = header.rsplit('.').next().unwrap_or(header);
    match last {
        // The model checker takes the place of the atomics in a build that nothing ships.
        "dependencies" if header.starts_with("target.'cfg(loom)'") => {
            Ok(Some(DependencyPurpose::Tests))
        }
        "dependencies" | "build-dependencies" => Ok(Some(DependencyPurpose::Product)),
        "dev-dependencies" => Ok(Some(DependencyPurpose::Tests)),
        _ if header.contains("dependencies") => {
            Err(format!("write the section [{header}] as a line of its parent"))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: CrateArrows = CrateArrows {
        folder: "crates/mid",
        package: "kallisto-mid",
        below: &["kallisto-low"],
        external: &["bytes"],
        for_tests: &["fastrand"],
    };

    fn findings(manifest: &str) -> Vec<String> {
        let file = File { path: "crates/mid/Cargo.toml".to_owned(), text: manifest.to_owned() };
        let packages = ["kallisto-low", "kallisto-mid", "kallisto-top"];
        check_room(&ROOM, &packages, &file).into_iter().map(|finding| finding.what).collect()
    }

    const GOOD: &str = "[package]\nname = \"kallisto-mid\"\n[dependencies]\n\
        bytes = { workspace = true, features = [\"std\"] }\nkallisto-low.workspace = true\n\
        [dev-dependencies]\n# seeded\nfastrand.workspace = true\n[lints]\nworkspace = true\n";

    #[test]
    fn a_manifest_of_listed_dependencies_has_no_findings() {
        assert_eq!(findings(GOOD), [""; 0]);
    }

    #[test]
    fn arrows_upward_and_strangers_are_findings() {
        for (added, word) in [
            ("kallisto-top.workspace = true", "must not know kallisto-top"),
            ("kallisto-new.workspace = true", "must not know kallisto-new"),
            ("serde.workspace = true", "depends on serde (Tests)"),
            ("bytes.workspace = true", "depends on bytes (Tests)"),
            ("[target.'cfg(unix)'.dependencies]\nlibc.workspace = true", "libc (Product)"),
            ("[build-dependencies]\ncc.workspace = true", "cc (Product)"),
        ] {
            let manifest = GOOD.replace("[lints]", &format!("{added}\n[lints]"));
            let found = findings(&manifest);
            assert!(found.len() == 1 && found[0].contains(word), "{added}: {found:?}");
        }
    }

    #[test]
    fn a_line_of_the_table_that_nothing_uses_is_a_finding() {
        let found = findings(&GOOD.replace("fastrand.workspace = true\n", ""));
        assert!(found.len() == 1 && found[0].contains("does not use fastrand"), "{found:?}");
    }

    #[test]
    fn seeded_random_bytes_are_the_simulations() {
        let text = "kallisto-barrier = { workspace = true, features = [\"seeded\"] }\n".to_owned();
        let found = |path: &str| check_seeded(&File { path: path.to_owned(), text: text.clone() });
        assert!(found("crates/core/Cargo.toml").is_some());
        assert!(found(SIMULATION).is_none());
    }

    #[test]
    fn forms_that_could_be_misread_are_refused() {
        for added in [
            "[dependencies.serde]\nworkspace = true",
            "[dependencies]\nx = { package = \"serde\", workspace = true }",
            "[dependencies]\nserde = { version = \"1\" }",
            "[dependencies]\nserde = { git = \"https://example.com/serde\" }",
            "[dependencies]\nserde",
        ] {
            assert!(dependencies(added).is_err(), "{added}");
        }
    }
}
