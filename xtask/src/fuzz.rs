//! `cargo x fuzz`: hostile bytes against the targets of the crate `kallisto-fuzz`, optimised but
//! with every assertion on.
//!
//! `--coverage` puts the same targets behind libFuzzer, with coverage counters in every crate: flags of the stable compiler, given with a
//! target triple so that build scripts stay as they are. What a run finds worth keeping goes to `target/coverage/corpus`; `--merge` takes the smallest
//! part of it that reaches as much into `fuzz/corpus`. The last lines of a run say how much was reached.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep, say};
use crate::workspace;

/// Coverage counters, the table of what they count, and comparisons, in a form that libFuzzer reads.
const COVERAGE_FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";
/// The binary with libFuzzer in it.
const BINARY: &str = "coverage";
/// Seconds of each target when none are given.
const SECS_DEFAULT: u64 = 60;
/// Longest input, in bytes, as that of the seeded runner.
const INPUT_BYTES_MAX: usize = 4096;
/// Longest that an input may take, in seconds.
const INPUT_SECS_MAX: u64 = 10;
/// Longest input that `--merge` takes into the repository, and most files of a target there.
const KEPT_BYTES_MAX: u64 = 512;
const KEPT_MAX: usize = 48;

/// Hands `args` to the runner, or to libFuzzer.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    match args.split_first() {
        Some((first, rest)) if first == "--coverage" => coverage(rest),
        _ => Ok(vec![step(args)]),
    }
}

/// All targets, `secs` together.
pub(crate) fn smoke(secs: u64) -> VerbStep {
    step(&["all".to_owned(), secs.to_string()])
}

fn step(args: &[String]) -> VerbStep {
    let run = ["run", "--quiet", "--locked", "--profile", "fuzz", "--package", "kallisto-fuzz"];
    Program::cargo(run.into_iter().chain(["--"])).args(args).step("fuzz")
}

fn coverage(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let wanted =
        args.first().ok_or_else(|| UsageMistake("--coverage wants a target, or all".into()))?;
    let targets = match wanted.as_str() {
        "all" => targets(),
        name if targets().iter().any(|target| target == name) => vec![name.to_owned()],
        name => {
            return Err(UsageMistake(format!("no target is called {name:?}; see cargo x fuzz")));
        }
    };
    let is_merge = args.get(1).is_some_and(|arg| arg == "--merge");
    let secs = match args.get(1) {
        Some(arg) if !is_merge => {
            arg.parse().map_err(|_| UsageMistake(format!("{arg:?} is no number of seconds")))?
        }
        _ => SECS_DEFAULT,
    };
    let host = host().map_err(UsageMistake)?;
    let build = Program::cargo(["build", "--locked", "--profile", "fuzz", "--target", &host])
        .args(&["--package", "kallisto-fuzz", "--features", "coverage"].map(str::to_owned))
        .args(&["--bin".to_owned(), BINARY.to_owned()])
        .args(&["--target-dir".to_owned(), folder().display().to_string()])
        .with_flags("RUSTFLAGS", COVERAGE_FLAGS)
        // What is optimised more has fewer branches to count, and takes three times as long to build.
        .with_variable("CARGO_PROFILE_FUZZ_OPT_LEVEL", "1")
        .step("build with coverage");
    let is_built = build.outcome == StepOutcome::Passed;
    let mut steps = vec![build];
    if is_built {
        let binary = folder().join(host).join("fuzz").join(BINARY);
        steps.extend(targets.iter().map(|target| match is_merge {
            true => VerbStep::run(target, || merge(&binary, target)),
            false => VerbStep::run(target, || feed(&binary, target, secs)),
        }));
    }
    Ok(steps)
}

/// The targets: each has a folder of inputs.
pub(crate) fn targets() -> Vec<String> {
    let folders = fs::read_dir(kept()).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn kept() -> PathBuf {
    workspace::root().join("fuzz/corpus")
}

/// Where everything of these builds and runs is.
fn folder() -> PathBuf {
    workspace::target_folder("coverage")
}

/// What a target's runs have found worth keeping.
fn found(target: &str) -> Result<PathBuf, String> {
    let folder = folder().join("corpus").join(target);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn libfuzzer(binary: &Path, target: &str, args: &[String]) -> Program {
    Program::new(&binary.display().to_string(), args.iter().cloned())
        .with_variable("KALLISTO_FUZZ_TARGET", target)
}

fn feed(binary: &Path, target: &str, secs: u64) -> StepOutcome {
    let failures = workspace::root().join("fuzz/failures");
    let folder = fs::create_dir_all(&failures).map_err(|error| error.to_string());
    let found = match folder.and_then(|()| found(target)) {
        Ok(found) => found,
        Err(what) => return failed(&what),
    };
    let args = [
        found.display().to_string(),
        kept().join(target).display().to_string(),
        format!("-max_total_time={secs}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-timeout={INPUT_SECS_MAX}"),
        format!("-artifact_prefix={}/{target}-", failures.display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=1".to_owned(),
    ];
    libfuzzer(binary, target, &args).run()
}

/// Takes into the repository what reaches more than what is there: short inputs, and not many.
fn merge(binary: &Path, target: &str) -> StepOutcome {
    let merged = folder().join("merged").join(target);
    let _ = fs::remove_dir_all(&merged);
    let found = match fs::create_dir_all(&merged).map_err(|error| error.to_string()) {
        Ok(()) => found(target),
        Err(what) => Err(what),
    };
    let found = match found {
        Ok(found) => found,
        Err(what) => return failed(&what),
    };
    let kept = kept().join(target);
    let args = [
        "-set_cover_merge=1".to_owned(),
        format!("-max_len={KEPT_BYTES_MAX}"),
        merged.display().to_string(),
        kept.display().to_string(),
        found.display().to_string(),
    ];
    let outcome = libfuzzer(binary, target, &args).run();
    if outcome != StepOutcome::Passed {
        return outcome;
    }
    match take_in(&merged, &kept) {
        Ok(count) => {
            say(&format!("{target}: {count} inputs taken in"));
            StepOutcome::Passed
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn take_in(merged: &Path, kept: &Path) -> std::io::Result<usize> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(merged)?.flatten() {
        inputs.push((entry.metadata()?.len(), entry.path(), entry.file_name()));
    }
    inputs.retain(|(bytes, _, name)| *bytes <= KEPT_BYTES_MAX && !kept.join(name).exists());
    inputs.sort();
    let room = KEPT_MAX.saturating_sub(fs::read_dir(kept)?.count());
    let count = room.min(inputs.len());
    // Of every length some: the shortest alone reach little.
    for at in 0..count {
        let (_, from, name) = &inputs[at * inputs.len() / count];
        fs::copy(from, kept.join(name))?;
    }
    Ok(count)
}

fn failed(what: &str) -> StepOutcome {
    eprintln!("{what}");
    StepOutcome::Failed(1)
}

/// The triple of this machine.
fn host() -> Result<String, String> {
    let told = Program::new("rustc", ["-vV"]).output()?;
    let line = told.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "rustc does not say what machine this is".to_owned())
}
