//! `cargo x planted`: do the tests next to a piece of code see a fault in it?
//!
//! `tests/planted/bugs.txt` lists faults, each a piece of a file and what takes its place, and the tests that have to fail with it
//! ([`list`]). A fault is put into a copy of the workspace below `target/planted`, never into the workspace itself, and its
//! tests are run there: where they pass, the fault survives, and the step fails. A copy that does not compile proves nothing and
//! is a failure too.
//!
//! The copy shares cargo's target folder, so that crates from outside are built once.

mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::list::PlantedBug;
use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep, say};
use crate::workspace;

/// Where the faults are listed.
const LIST: &str = "tests/planted/bugs.txt";
/// What cargo says when the tests were built and one failed.
const TESTS_FAILED: &str = "test result: FAILED";
/// Longest that the tests of one fault may run once they are built, in seconds; a fault that makes them hang was seen.
const SECS_MAX: &str = "600";
/// What `timeout` ends with when the time was up.
const TIMED_OUT: i32 = 124;

/// Plants every fault, or those whose names begin as `args` say; `--list` names them.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let text = fs::read_to_string(workspace::root().join(LIST))
        .map_err(|error| UsageMistake(format!("{LIST}: {error}")))?;
    let bugs = list::parse(&text).map_err(|what| UsageMistake(format!("{LIST}: {what}")))?;
    if args.iter().any(|arg| arg == "--list") {
        return Ok(bugs.iter().map(|bug| VerbStep::run(&bug.name, || show(bug))).collect());
    }
    let is_chosen = |bug: &&PlantedBug| {
        args.is_empty() || args.iter().any(|arg| bug.name.starts_with(arg.as_str()))
    };
    let chosen: Vec<&PlantedBug> = bugs.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(UsageMistake(format!("no fault is called {args:?}; see --list")));
    }
    let copy = workspace::target_folder("planted");
    copy_workspace(&copy)
        .map_err(|error| UsageMistake(format!("cannot copy the workspace: {error}")))?;
    Ok(chosen.into_iter().map(|bug| VerbStep::run(&bug.name, || judge(bug, &copy))).collect())
}

/// Says what a fault is. One whose piece of code is gone would never be planted again, and nobody would miss it.
fn show(bug: &PlantedBug) -> StepOutcome {
    say(&format!("{:<32} {}", bug.name, bug.about));
    let whole = fs::read_to_string(workspace::root().join(&bug.file));
    match whole.map_err(|error| error.to_string()).and_then(|whole| bug.plant(&whole)) {
        Ok(_) => StepOutcome::Passed,
        Err(what) => failed(&format!("{}: {what}", bug.file)),
    }
}

/// Plants one fault, runs its tests, and takes it out again.
fn judge(bug: &PlantedBug, copy: &Path) -> StepOutcome {
    say(&format!("\n=== {}: {}", bug.name, bug.about));
    let file = copy.join(&bug.file);
    let planted = fs::read_to_string(&file)
        .map_err(|error| error.to_string())
        .and_then(|whole| bug.plant(&whole).map(|changed| (whole, changed)));
    let (whole, changed) = match planted {
        Ok(both) => both,
        Err(what) => return failed(&format!("{}: {what}", bug.file)),
    };
    if let Err(what) = write(&file, changed.as_bytes()) {
        return failed(&what);
    }
    let outcome = test(bug, copy);
    if let Err(what) = write(&file, whole.as_bytes()) {
        return failed(&format!("{what}: the copy is spoilt, remove it"));
    }
    outcome
}

fn test(bug: &PlantedBug, copy: &Path) -> StepOutcome {
    // Apart, so that a slow compiler is not taken for tests that hang.
    let build = Program::cargo(["test", "--quiet", "--locked", "--no-run"])
        .args(&bug.tests.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .args(&["--manifest-path".to_owned(), copy.join("Cargo.toml").display().to_string()])
        .with_variable("CARGO_TARGET_DIR", &target_of_copy().display().to_string());
    if build.run() != StepOutcome::Passed {
        return failed("it does not build");
    }
    let output = Command::new("timeout")
        .arg(SECS_MAX)
        .arg(workspace::cargo())
        .args(["test", "--quiet", "--locked"])
        .args(bug.tests.split_whitespace())
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", target_of_copy())
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return failed(&format!("cannot run cargo: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return failed(&format!("SURVIVED: `cargo test {}` passes with it", bug.tests));
    }
    let is_seen = text.contains(TESTS_FAILED) || output.status.code() == Some(TIMED_OUT);
    if !is_seen && !was_aborted(&output.stderr) {
        return failed(&format!("it does not build:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    // The list at the end: four spaces and a name.
    let names = text.lines().filter_map(|line| line.strip_prefix("    "));
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    for name in names.filter(|name| !name.is_empty() && name.chars().all(is_of_a_name)) {
        say(&format!("seen by {name}"));
    }
    StepOutcome::Passed
}

/// A process of tests that ended without a summary, as by an abort, saw the fault too.
fn was_aborted(stderr: &[u8]) -> bool {
    String::from_utf8_lossy(stderr).contains("(signal:")
}

fn failed(what: &str) -> StepOutcome {
    eprintln!("{what}");
    StepOutcome::Failed(1)
}

/// Where the copy's crates are built.
fn target_of_copy() -> PathBuf {
    workspace::target_folder("")
}

/// Copies what is under version control; what is the same already keeps its time, so that cargo keeps what it built of it.
fn copy_workspace(to: &Path) -> Result<(), String> {
    let listed = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let names = Program::new("git", listed).output()?;
    let root = workspace::root();
    for name in names.lines() {
        let (from, to) = (root.join(name), to.join(name));
        if !from.is_file() {
            continue;
        }
        let bytes = read(&from)?;
        if read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        let folder = to.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        write(&to, &bytes)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a file of the workspace may be any bytes")]
fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[expect(clippy::disallowed_methods, reason = "the copy of a file of the workspace")]
fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}
