//! `cargo x mixed`: servers of this build and of another commit's in one cluster, under a load whose history is judged.

use crate::process::Program;
use crate::steps::{StepOutcome, UsageMistake, VerbStep};
use crate::workspace;

/// The commit before, where nobody names one.
const BEFORE: &str = "HEAD~1";

/// Builds the commit that `args` names in a folder of its own, and runs the test of two builds with it; what follows goes to the test.
pub(crate) fn run(args: &[String]) -> Result<Vec<VerbStep>, UsageMistake> {
    let (commit, rest) = match args.split_first() {
        Some((commit, rest)) if !commit.starts_with('-') => (commit.as_str(), rest),
        _ => (BEFORE, args),
    };
    let folder = workspace::target_folder("mixed");
    let (sources, target) = (folder.join("sources"), folder.join("build"));
    let (sources_text, target_text) = (sources.display().to_string(), target.display().to_string());
    // A name such as HEAD~1 means another commit in the other folder.
    let named = format!("{commit}^{{commit}}");
    let commit = Program::new("git", ["rev-parse", "--verify", "--quiet", &named]).output();
    let commit = commit.map_err(|_| UsageMistake(format!("{named}: no such commit here")))?;
    let check_out = VerbStep::run("other commit", || {
        let words = match sources.exists() {
            true => {
                ["-C", &sources_text, "checkout", "--quiet", "--detach", commit.trim()].to_vec()
            }
            false => {
                ["worktree", "add", "--quiet", "--force", "--detach", &sources_text, commit.trim()]
                    .to_vec()
            }
        };
        Program::new("git", words).run()
    });
    if check_out.outcome != StepOutcome::Passed {
        return Ok(vec![check_out]);
    }
    let manifest = sources.join("Cargo.toml").display().to_string();
    let build = ["build", "--release", "--locked", "--package", "kallisto"].map(str::to_owned);
    let places = ["--manifest-path".to_owned(), manifest, "--target-dir".to_owned(), target_text];
    let built = Program::cargo(build.into_iter().chain(places)).step("other build");
    if built.outcome != StepOutcome::Passed {
        return Ok(vec![check_out, built]);
    }
    let binary = target.join("release/kallisto").display().to_string();
    let test = [
        "test",
        "--release",
        "--locked",
        "--package",
        "kallisto",
        "--test",
        "chaos",
        "--",
        "--nocapture",
        "builds::",
    ];
    let tested = Program::cargo(test)
        .args(rest)
        .with_variable("KALLISTO_CHAOS_OTHER", &binary)
        .step("two builds");
    Ok(vec![check_out, built, tested])
}
