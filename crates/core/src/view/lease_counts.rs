//! How many leases there are where a rule for them holds, counted from the indexes: the table of leases, and the tokens by the path they
//! were made at.
//!
//! Asked of the root namespace's view, which has the table of all and knows the others. Paths are walked, not leases: those of one role
//! share a path.

use super::View;
use crate::quotas::scope::QuotaScope;

impl View {
    /// How many leases there are in a scope; counting stops behind `limit`.
    pub(crate) fn count_leases(&self, scope: &QuotaScope, limit: usize) -> usize {
        let mut count = 0;
        let mut add = |view: &Self| {
            let namespace = view.namespace_path();
            if count >= limit || !scope.holds_in(namespace) {
                return;
            }
            let (prefix, left) = (scope.prefix_in(namespace), limit - count);
            let fits = |path: &str| scope.fits_in(namespace, path);
            let tokens = view.tokens.count_at(prefix, left, fits);
            let number = view.namespace_number().0;
            let leases = self.leases.table().count_at(number, prefix, left, fits);
            count += tokens + leases;
        };
        add(self);
        for view in self.namespaces.views() {
            add(&view);
        }
        count
    }
}
