//! The names of a store's files. The table is in `docs/format.md`.
//!
//! Numbers come from one counter, so no two files of a store ever share one, and a WAL segment's number says its age.

use std::path::{Path, PathBuf};

/// Names the live manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// What `CURRENT` is written as before it is renamed.
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";
/// Held by the one engine that has the store open.
pub(crate) const LOCK: &str = "LOCK";

/// What a file in a store is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    /// A WAL segment.
    Wal(u64),
    /// A sorted file.
    Sst(u64),
    /// A log of edits.
    Manifest(u64),
    /// `CURRENT` not yet renamed.
    CurrentNew,
    /// Anything else: not ours, left alone.
    Other,
}

impl FileName {
    /// Reads a name.
    pub(crate) fn parse(name: &str) -> Self {
        if name == CURRENT_NEW {
            return Self::CurrentNew;
        }
        let Some((stem, kind)) = name.split_once('.') else { return Self::Other };
        if stem.len() != 16 || !stem.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
        {
            return Self::Other;
        }
        let Ok(number) = u64::from_str_radix(stem, 16) else { return Self::Other };
        match kind {
            "wal" => Self::Wal(number),
            "sst" => Self::Sst(number),
            "manifest" => Self::Manifest(number),
            _ => Self::Other,
        }
    }

    /// Its number, if it has one.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Wal(number) | Self::Sst(number) | Self::Manifest(number) => Some(number),
            Self::CurrentNew | Self::Other => None,
        }
    }
}

/// Where WAL segment `number` lives.
pub(crate) fn wal(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.wal"))
}

/// Where SST `number` lives.
pub(crate) fn sst(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.sst"))
}

/// Where manifest `number` lives.
pub(crate) fn manifest(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.manifest"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_strangers_do_not() {
        let dir = Path::new("d");
        for number in [0, 1, 0xfeed_beef, u64::MAX] {
            let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(FileName::parse(&name(wal(dir, number))), FileName::Wal(number));
            assert_eq!(FileName::parse(&name(sst(dir, number))), FileName::Sst(number));
            assert_eq!(FileName::parse(&name(manifest(dir, number))), FileName::Manifest(number));
        }
        for stranger in ["x", "1.wal", "+000000000000001.wal", "000000000000000A.sst", "CURRENT"] {
            assert_eq!(FileName::parse(stranger), FileName::Other);
        }
    }
}
