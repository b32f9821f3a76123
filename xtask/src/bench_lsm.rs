//! `cargo x bench lsm`: what the comparison of storage engines needs before it can run.
//!
//! RocksDB's bindings are generated while it is built, by libclang. One that the machine has is used; if there is none,
//! the one that Python's package index carries as the wheel `libclang` is put below the target folder, for this build and
//! nothing else. Without either the comparison runs without RocksDB, and says so.
//!
//! `--classic` drives the real binary instead, which is built first, and needs no peers.

use std::path::{Path, PathBuf};

use crate::process::Program;
use crate::steps::{StepOutcome, VerbStep};
use crate::workspace;

/// Where the comparison's own workspace is described.
const MANIFEST: &str = "bench/lsm/Cargo.toml";
/// The version of the wheel.
const WHEEL: &str = "libclang==18.1.1";
/// Where distributions put shared libraries.
const LIBRARY_FOLDERS: [&str; 5] =
    ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/opt/homebrew/lib"];

/// The comparison with `args`, or the classic run.
pub(crate) fn run(args: &[String]) -> Vec<VerbStep> {
    if args.first().is_some_and(|flag| flag == "--classic") { classic(args) } else { peers(args) }
}

fn classic(args: &[String]) -> Vec<VerbStep> {
    let built = Program::cargo(["build", "--release", "--locked", "--package", "kallisto"]);
    let built = built.step("build");
    if built.outcome != StepOutcome::Passed {
        return vec![built];
    }
    let binary = workspace::target_folder("release").join("kallisto").display().to_string();
    let args: Vec<String> = args.iter().cloned().chain(["--binary".to_owned(), binary]).collect();
    vec![built, bench(&["--no-default-features"]).args(&args).step("classic")]
}

fn peers(args: &[String]) -> Vec<VerbStep> {
    match Libclang::find() {
        Ok(libclang) => vec![libclang.tell(bench(&[])).args(args).step("lsm")],
        Err(reason) => {
            let skipped = VerbStep::run("rocksdb", || StepOutcome::Skipped(reason));
            vec![skipped, bench(&["--no-default-features"]).args(args).step("lsm")]
        }
    }
}

fn bench(flags: &[&str]) -> Program {
    let run = ["run", "--release", "--locked", "--manifest-path", MANIFEST];
    Program::cargo(run.iter().chain(flags).chain(&["--"]).copied())
}

/// Where the library is, as far as its user has to be told.
enum Libclang {
    /// It is found without our help.
    Known,
    /// In this folder, without the headers that belong to a compiler.
    Wheel(PathBuf),
}

impl Libclang {
    fn find() -> Result<Self, String> {
        if std::env::var_os("LIBCLANG_PATH").is_some() || LIBRARY_FOLDERS.iter().any(holds_it) {
            return Ok(Self::Known);
        }
        let packages = workspace::target_folder("libclang");
        let folder = packages.join("clang").join("native");
        if !holds_it(&folder) {
            let target = packages.display().to_string();
            let install = ["-m", "pip", "install", "--quiet", "--target", &target, WHEEL];
            eprintln!("fetching {WHEEL} to build RocksDB's bindings");
            Program::new("python3", install)
                .output()
                .map_err(|error| format!("no libclang, and pip has none: {}", error.trim()))?;
        }
        if holds_it(&folder) {
            Ok(Self::Wheel(folder))
        } else {
            Err("the wheel holds no libclang".to_owned())
        }
    }

    fn tell(self, process: Program) -> Program {
        let Self::Wheel(folder) = self else { return process };
        let headers = Program::new("gcc", ["-print-file-name=include"]).output();
        let include = headers.map(|folder| format!("-I{}", folder.trim())).unwrap_or_default();
        process
            .with_flags("LIBCLANG_PATH", &folder.display().to_string())
            .with_flags("BINDGEN_EXTRA_CLANG_ARGS", &include)
    }
}

/// Whether a folder holds the library under one of its usual names.
fn holds_it(folder: &impl AsRef<Path>) -> bool {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| is_libclang(&name))
}

fn is_libclang(name: &str) -> bool {
    let plain = name.strip_prefix("libclang").is_some_and(|rest| rest.starts_with(['.', '-']));
    plain && !name.starts_with("libclang-cpp") && name.contains(".so") || name == "libclang.dylib"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_c_library_counts() {
        for name in ["libclang.so", "libclang-14.so.1", "libclang.so.18", "libclang.dylib"] {
            assert!(is_libclang(name), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclangAST.so", "libclang.a"] {
            assert!(!is_libclang(name), "{name}");
        }
    }
}
