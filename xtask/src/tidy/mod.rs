//! `cargo x tidy`: what this workspace promises about its own shape, held by a machine.
//!
//! Each room checks one kind of promise and returns [`TidyFinding`]s: `arrows` who may know whom and
//! which external crates come in, `core_rooms` the same between the rooms of the core, `engine_kinds` who tells engines apart, `graph` what all of them bring along, `sources` what every file
//! looks like, `page` the web page's sources, `type_names` that a name means one type, `decisions` the records, `links` the links of the documents, `named_modules` the modules that they name, `not_below` what the page of the architecture says no crate depends on, `readme_numbers` that the README shows what was measured. `files` reads the tree for all of them. A test below runs
//! every check over this very tree, so `cargo x test` holds them too.
//!
//! Not held here: taste. Sizes of functions and good names are for the reader.

mod arrows;
mod circles;
mod core_rooms;
mod decisions;
mod engine_kinds;
mod files;
mod graph;
pub(crate) mod links;
mod named_modules;
mod not_below;
pub(crate) mod page;
mod readme_numbers;
mod rooms;
mod sources;
mod type_names;

use std::path::Path;

use crate::steps::{StepOutcome, UsageMistake, VerbStep};
use crate::workspace;

/// A broken promise: where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TidyFinding {
    place: String,
    what: String,
}

impl TidyFinding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

/// The verb.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    if !args.is_empty() {
        return Err(UsageMistake("takes no arguments".to_owned()));
    }
    Ok(vec![step()])
}

/// All checks over the workspace, each finding printed.
pub(crate) fn step() -> VerbStep {
    VerbStep::run("tidy", || {
        eprintln!("$ cargo x tidy");
        let findings = check(&workspace::root());
        for TidyFinding { place, what } in &findings {
            eprintln!("{place}: {what}");
        }
        if findings.is_empty() { StepOutcome::Passed } else { StepOutcome::Failed(1) }
    })
}

fn check(root: &Path) -> Vec<TidyFinding> {
    let files = match files::read(root) {
        Ok(files) => files,
        Err(error) => return vec![TidyFinding::new(".", format!("cannot read the tree: {error}"))],
    };
    let mut findings = arrows::check(&files);
    findings.extend(core_rooms::check(&files));
    findings.extend(circles::check(&files));
    findings.extend(engine_kinds::check(&files));
    findings.extend(graph::check());
    findings.extend(page::check(root));
    findings.extend(sources::check(&files));
    findings.extend(type_names::check(&files));
    findings.extend(decisions::check(&files));
    findings.extend(links::check(root, &files));
    findings.extend(named_modules::check(&files));
    findings.extend(not_below::check(&files));
    findings.extend(readme_numbers::check(&files));
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_tidy() {
        let findings = check(&workspace::root());
        let lines = findings.iter().map(|finding| format!("{}: {}\n", finding.place, finding.what));
        assert!(findings.is_empty(), "\n{}", lines.collect::<String>());
    }
}
