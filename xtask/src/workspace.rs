//! Where the workspace is, and what cargo calls things in it.

use std::env;
use std::path::{Path, PathBuf};

/// The root of the workspace this command belongs to.
///
/// Cargo says where at run time: an executable out of a shared target folder may have been
/// compiled in another clone.
pub(crate) fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// The cargo that runs us; of the same toolchain, whatever the shell would find.
pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// A folder below cargo's target folder, for builds whose flags would throw the usual ones away.
pub(crate) fn target_folder(name: &str) -> PathBuf {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join(name)
}

/// The names of the crates in `bench/`, each a workspace of its own, in order.
pub(crate) fn bench_names() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("bench")).into_iter().flatten().flatten();
    let mut names: Vec<String> = folders
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
