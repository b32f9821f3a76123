//! Engines are told apart in few places: what drives one is said in the registry of the core, what it says of itself and keeps in
//! memory in two files of records and view. No other code of the core names a kind of engine, so that one more touches nothing else.
//!
//! Whether secrets have versions (`KvState`) is asked of a mount by whoever reads them; it is no kind of engine here.

use super::TidyFinding;
use super::files::File;

/// Where the core is.
const ROOT: &str = "crates/core/src/";
/// The files that tell engines apart.
const ALLOWED: &[&str] = &["records/engine_kind.rs", "registry.rs", "view/memory.rs"];
/// How code names a kind.
const NAMES: &[&str] = &["EngineSource::", "ServerEngineKind::"];

/// Checks every file of the core.
pub(super) fn check(files: &[File]) -> Vec<TidyFinding> {
    let told_apart = |file: &&File| {
        let inside = file.path.strip_prefix(ROOT).filter(|inside| !ALLOWED.contains(inside));
        inside.is_some() && NAMES.iter().any(|name| file.text.contains(name))
    };
    let finding = |file: &File| {
        let what = "tells engines apart: what differs between them belongs to what drives them";
        TidyFinding::new(&*file.path, what)
    };
    files.iter().filter(told_apart).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_over_kinds_outside_of_the_registry_is_seen() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let code = "match kind.source() { EngineSource::Contract(_) => {} }";
        let findings = check(&[
            file("crates/core/src/registry.rs", code),
            file("crates/core/src/jobs/table.rs", code),
            file("crates/server/src/a.rs", code),
            file("crates/core/src/jobs/mod.rs", "kind.jobs()"),
        ]);
        let places: Vec<&str> = findings.iter().map(|finding| &*finding.place).collect();
        assert_eq!(places, ["crates/core/src/jobs/table.rs"]);
    }
}
