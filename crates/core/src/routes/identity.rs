//! The routes of identity, at `identity/`.

use super::Family;

/// `identity/`.
pub(super) static IDENTITY: Family = Family {
    name: "identity",
    tag: "identity",
    about: "Who the bearers of tokens are.",
    groups: &[],
};
