//! The folders: `corpus/TARGET` holds inputs worth keeping, one a file and under version control;
//! `failures/` takes what a run finds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::generate;
use crate::targets::Target;

/// An input and what to call it.
pub(crate) struct Seed {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// The inputs of `target`, by name.
pub(crate) fn load(target: &Target) -> io::Result<Vec<Seed>> {
    let folder = home().join("corpus").join(target.name);
    let mut seeds = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        seeds.push(Seed { name: path.display().to_string(), bytes: read(&path)? });
    }
    seeds.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(seeds)
}

/// Reads one input.
#[expect(clippy::disallowed_methods, reason = "an input is any bytes, so not text")]
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Keeps an input that failed; its name says which bytes it holds.
#[expect(clippy::disallowed_methods, reason = "a find is kept for the developer")]
pub(crate) fn keep_failure(target: &Target, bytes: &[u8]) -> io::Result<PathBuf> {
    let folder = home().join("failures");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}-{:016x}", target.name, generate::digest(bytes)));
    fs::write(&path, bytes)?;
    Ok(path)
}

/// The folder of this crate, which cargo names at run time.
fn home() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from)
}
