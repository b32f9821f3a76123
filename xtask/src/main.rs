//! Developer commands behind `cargo x`, without crates from outside: a fresh clone needs nothing but cargo.
//!
//! One file per verb; [`VERBS`] is the list of them. A verb runs [`process`]es or checks of its
//! own and returns the [`steps::VerbStep`]s it took; this file prints their summary and turns them
//! into an exit code. Checking verbs never change a tracked file; `fix` is the one that does.
#![forbid(unsafe_code)]

mod bench;
mod bench_lsm;
mod campaign;
mod ci;
mod docs;
mod fix;
mod fuzz;
#[cfg(test)]
mod lessons;
mod lint;
mod loom;
mod miri;
mod mixed;
mod package;
mod planted;
mod process;
mod sha256;
mod sim;
mod steps;
mod test;
mod tidy;
mod ui;
mod workspace;

use std::process::ExitCode;

use steps::{UsageMistake, VerbStep};

/// A command of `cargo x`.
struct XtaskVerb {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<Vec<VerbStep>, UsageMistake>,
}

const VERBS: [XtaskVerb; 18] = [
    XtaskVerb {
        name: "test",
        arguments: "[CARGO TEST ARGS]",
        about: "every test: unit, model, format, corpus, fuzz smoke, the real binary",
        run: test::run,
    },
    XtaskVerb {
        name: "lint",
        arguments: "",
        about: "fmt, clippy, rustdoc, tidy and deny; writes nothing",
        run: lint::run,
    },
    XtaskVerb { name: "fix", arguments: "", about: "clippy --fix and fmt; writes", run: fix::run },
    XtaskVerb {
        name: "tidy",
        arguments: "",
        about: "arrows between crates, dependencies, headers, sizes",
        run: tidy::run,
    },
    XtaskVerb {
        name: "bench",
        arguments: "[NAME [--criterion] [ARGS]]",
        about: "`kallisto bench` and the comparisons with peers, in release",
        run: bench::run,
    },
    XtaskVerb {
        name: "fuzz",
        arguments: "[TARGET|all [SECS] [--seed N] [--from N] | TARGET --replay FILE] | --coverage TARGET|all [SECS] | --coverage TARGET --merge",
        about: "hostile bytes, seeded, or guided by coverage; without a target lists them",
        run: fuzz::run,
    },
    XtaskVerb {
        name: "planted",
        arguments: "[NAME...] | --list",
        about: "do the tests next to a piece of code see a fault planted in it?",
        run: planted::run,
    },
    XtaskVerb {
        name: "sim",
        arguments: "[--seed N] [--seeds COUNT] [--secs S] [--sabotage NAME] [--ledger FILE] [-v] | check FILE",
        about: "a simulated cluster under faults, 500 seeds; or is a history linearizable?",
        run: sim::run,
    },
    XtaskVerb {
        name: "campaign",
        arguments: "[NAME|all [SECS]]",
        about: "long searches that go on where they stopped; without a name, how far each is",
        run: campaign::run,
    },
    XtaskVerb {
        name: "mixed",
        arguments: "[COMMIT] [TEST ARGS]",
        about: "servers of this build and of another commit's, the one before if none is named, in one cluster",
        run: mixed::run,
    },
    XtaskVerb {
        name: "miri",
        arguments: "[ARGS]",
        about: "the crate with unsafe code under Miri (needs a nightly)",
        run: miri::run,
    },
    XtaskVerb {
        name: "loom",
        arguments: "[ARGS]",
        about: "every interleaving of the lock-free code, within bounds",
        run: loom::run,
    },
    XtaskVerb {
        name: "ui",
        arguments: "[--check|--watch]",
        about: "builds the web page into crates/ui (needs Node.js); or is it what ui/ makes?",
        run: ui::run,
    },
    XtaskVerb {
        name: "ui-test",
        arguments: "[FLOW...]",
        about: "the web page in Chromium, against the real binary",
        run: ui::test,
    },
    XtaskVerb {
        name: "docs",
        arguments: "",
        about: "builds the site from docs/ into target/site (installs mdBook where it is absent)",
        run: docs::run,
    },
    XtaskVerb {
        name: "package",
        arguments: "[--binary PATH] [--check]",
        about: "the Debian package, its list of parts and checksums, in target/package; --check makes it twice",
        run: package::run,
    },
    XtaskVerb {
        name: "reference",
        arguments: "",
        about: "writes the pages of docs/reference/ from the tables in the code",
        run: docs::reference,
    },
    XtaskVerb {
        name: "ci",
        arguments: "",
        about: "all of the above that checks, and a release build",
        run: ci::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        None => help(),
        Some((name, _)) if ["-h", "--help", "help"].contains(&name.as_str()) => help(),
        Some((name, rest)) => match VERBS.iter().find(|verb| verb.name == name) {
            Some(verb) => execute(verb, rest),
            None => {
                eprint!("cargo x: no verb is called {name:?}\n\n{}", list());
                ExitCode::from(1)
            }
        },
    }
}

fn execute(verb: &XtaskVerb, args: &[String]) -> ExitCode {
    if args.first().is_some_and(|arg| arg == "-h" || arg == "--help") {
        steps::say(&format!("{}\n{}", usage(verb), verb.about));
        return ExitCode::SUCCESS;
    }
    match (verb.run)(args) {
        Ok(taken) => steps::finish(&taken),
        Err(UsageMistake(what)) => {
            eprintln!("cargo x {}: {what}\n{}", verb.name, usage(verb));
            ExitCode::from(1)
        }
    }
}

fn help() -> ExitCode {
    steps::say(list().trim_end());
    ExitCode::SUCCESS
}

fn usage(verb: &XtaskVerb) -> String {
    format!("usage: cargo x {} {}", verb.name, verb.arguments).trim_end().to_owned()
}

fn list() -> String {
    let mut text = "usage: cargo x VERB [ARGS]\n\n".to_owned();
    for verb in &VERBS {
        text.push_str(&format!("  {:<6} {}\n", verb.name, verb.about));
    }
    text.push_str("\n`cargo x VERB -h` shows a verb's arguments.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_verb_once() {
        let text = list();
        for verb in &VERBS {
            assert_eq!(text.matches(&format!("\n  {} ", verb.name)).count(), 1, "{}", verb.name);
        }
    }
}
