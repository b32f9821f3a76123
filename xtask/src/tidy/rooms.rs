//! Who may know whom: the picture of the design as a table.
//!
//! A crate enters with a decision: to take in a new one, write the record, then the line in [`libraries`] or [`server`]. A line that
//! nothing uses any more is a finding as well, so the table says what is.

mod libraries;
mod server;

use libraries::LIBRARIES;
use server::SERVER;

/// What one crate of the workspace may depend on.
pub(super) struct CrateArrows {
    /// Its folder.
    pub(super) folder: &'static str,
    /// Its package.
    pub(super) package: &'static str,
    /// Crates of ours below it. An upper bound: not all need be used.
    pub(super) below: &'static [&'static str],
    /// External crates it is built with. Exact.
    pub(super) external: &'static [&'static str],
    /// What only its tests and models use, ours or not. Exact.
    pub(super) for_tests: &'static [&'static str],
}

/// Every crate of the workspace, bottom up.
pub(super) fn rooms() -> impl Iterator<Item = &'static CrateArrows> {
    LIBRARIES.iter().chain(SERVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bottom_up() {
        let mut seen = Vec::new();
        for room in rooms() {
            seen.push(room.package);
            for name in room.below {
                assert!(seen.contains(name) && *name != room.package, "{}: {name}", room.package);
            }
        }
    }
}
