//! Counts by name, as of the last time they were taken.

use std::collections::BTreeMap;

/// A namespace, and a name in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamespacedName(pub(crate) [String; 2]);

impl From<[String; 2]> for NamespacedName {
    fn from(names: [String; 2]) -> Self {
        Self(names)
    }
}

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedCounts {
    pub(crate) by_policy: BTreeMap<NamespacedName, u64>,
    pub(crate) by_ttl: BTreeMap<NamespacedName, u64>,
    pub(crate) by_auth: BTreeMap<NamespacedName, u64>,
    /// Aliases of entities, by method.
    pub(crate) aliases: BTreeMap<NamespacedName, u64>,
    /// Whether anything was counted.
    pub(crate) is_counted: bool,
}

/// Lifetimes that tokens are told by: upper ends in seconds, and the word for each.
const TTLS: [(u64, &str); 9] = [
    (60, "1m"),
    (600, "10m"),
    (1_200, "20m"),
    (3_600, "1h"),
    (7_200, "2h"),
    (86_400, "1d"),
    (2 * 86_400, "2d"),
    (7 * 86_400, "7d"),
    (30 * 86_400, "30d"),
];

/// The word for a lifetime in seconds; 0 for one without an end.
pub(crate) fn ttl_word(secs: u64) -> &'static str {
    match secs {
        0 => "+Inf",
        secs => TTLS.iter().find(|(end, _)| secs <= *end).map_or("+Inf", |(_, word)| word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_the_words_of_vault() {
        for (secs, word) in
            [(0, "+Inf"), (1, "1m"), (60, "1m"), (61, "10m"), (3_600, "1h"), (2_764_800, "+Inf")]
        {
            assert_eq!(ttl_word(secs), word, "{secs}");
        }
    }
}
