//! The seeded fuzzer behind `cargo x fuzz`: targets are plain functions of bytes.
//!
//! [`targets`] lists them, [`generate`] makes the n-th input of a seed, [`runner`] feeds a target
//! its corpus and then input after input, [`corpus`] knows the folders, [`options`] the arguments.
//! There is no feedback from coverage and no tool to install: the same functions can be put behind
//! libFuzzer by whoever has it, and `cargo test` runs a fixed number of inputs of one seed.
//! As a part of a campaign (`cargo x campaign`) a target goes on with the inputs of one seed, and counts their bytes.
//!
//! Invariants:
//! - An input depends on nothing but the corpus, the seed and its number, so a run that a crash of
//!   the whole process cut short can be repeated from its first line of output.
//! - The seed is printed before anything runs.
#![forbid(unsafe_code)]

mod corpus;
mod generate;
mod options;
mod runner;
mod targets;

use std::process::ExitCode;

use options::{FuzzOptions, FuzzTask};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match FuzzOptions::parse(&args) {
        Ok(FuzzOptions { task: FuzzTask::List, .. }) => {
            eprint!("{}", targets::list());
            Ok(())
        }
        Ok(options) => runner::run(&options),
        Err(what) => Err(format!("{what}\n{}", options::USAGE)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::from(1)
        }
    }
}
