//! The names of a kind of record that is listed and otherwise read from the store.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A sorted set of names.
#[derive(Default)]
pub(crate) struct SortedNames(Mutex<BTreeSet<String>>);

impl SortedNames {
    /// All of them, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    pub(crate) fn put(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_were_put_and_not_removed_in_order() {
        let names = SortedNames::default();
        assert!(names.names().is_empty());
        for name in ["b", "a", "c", "a"] {
            names.put(name);
        }
        assert_eq!(names.names(), ["a", "b", "c"]);
        names.remove("b");
        names.remove("d");
        assert_eq!(names.names(), ["a", "c"]);
        assert!(names.contains("a") && !names.contains("b"));
    }
}
