//! The place that a new lease takes where a lease count holds ([`crate::quotas::lease_count`]).
//!
//! Asked by whoever is about to make a lease or a service token, on the server that leads.

use crate::api::error::Error;
use crate::quotas::lease_count::Reservation;
use crate::storage::keys::NamespaceNumber;
use crate::view::NamespaceContext;

/// Takes a place for a lease at a path of a namespace, to be held until its record is there.
///
/// # Errors
/// [`Error::OverQuota`] where there are as many as there may be; [`Error::Sealed`] when the server is about to be.
pub(crate) fn reserve(site: &NamespaceContext, path: &str) -> Result<Reservation, Error> {
    let root = site.context_with(NamespaceNumber::ROOT).ok_or(Error::Sealed)?;
    let quotas = &root.view.quotas.leases;
    quotas.reserve(site.view.namespace_path(), path, |scope, limit| {
        root.view.count_leases(scope, limit)
    })
}
