//! Up to when a view holds everything, once something took the place of what it shows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kallisto_store::{AsOf, Replicated};

/// Up to when a view holds everything that does not follow its store any more.
pub(crate) struct Outdated(AtomicU64);

impl Default for Outdated {
    fn default() -> Self {
        Self(AtomicU64::new(Self::FOLLOWS))
    }
}

impl Outdated {
    const FOLLOWS: u64 = AsOf::ALWAYS.to_bits();

    /// Something took the place of what the view shows. Called before the store's position moves past it.
    pub(crate) fn set(&self, cluster: Option<&dyn Replicated>) {
        let until = cluster.map_or(AsOf::NEVER, |cluster| {
            // Whoever is alone has held everything until now.
            cluster.as_of().min(AsOf::at(cluster.now()))
        });
        // What it showed after the first time is no more than before. Release: who sees the position sees this.
        self.0.fetch_min(until.to_bits(), Ordering::AcqRel);
    }

    /// Whether that happened.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != Self::FOLLOWS
    }

    /// What the store holds, as far as the view shows it.
    pub(crate) fn limit(&self, as_of: AsOf) -> AsOf {
        as_of.min(AsOf::from_bits(self.0.load(Ordering::Acquire)))
    }
}

/// What the server last said of its own view.
#[derive(Default)]
pub(crate) struct LastHeard {
    pub(crate) is_stale: AtomicBool,
    pub(crate) is_removed: AtomicBool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_whose_place_was_taken_shows_nothing_new_for_ever() {
        let outdated = Outdated::default();
        assert!(!outdated.is_set());
        assert_eq!(outdated.limit(AsOf::ALWAYS).to_bits(), AsOf::ALWAYS.to_bits());
        outdated.set(None);
        assert!(outdated.is_set());
        assert_eq!(outdated.limit(AsOf::ALWAYS).to_bits(), AsOf::NEVER.to_bits());
        assert_eq!(outdated.limit(AsOf::NEVER).to_bits(), AsOf::NEVER.to_bits());
    }
}
