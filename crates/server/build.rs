//! Records when the code was committed, for `sys/seal-status` and `version`.
//!
//! `SOURCE_DATE_EPOCH` wins, as reproducible builds ask; then git; without both it is the epoch.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let seconds = given.and_then(|text| text.parse::<i64>().ok()).or_else(committed).unwrap_or(0);
    println!("cargo::rustc-env=KALLISTO_COMMIT_EPOCH={seconds}");
}

fn committed() -> Option<i64> {
    let output = Command::new("git").args(["log", "-1", "--format=%ct"]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
