//! A lease where its far end is asked.

use jiff::Timestamp;
use kallisto_leases::LeaseRecord;

use crate::view::Mount;
use crate::view::NamespaceContext;

/// A lease whose far end is asked, where it is asked.
#[derive(Clone, Copy)]
pub(crate) struct LeaseRun<'a> {
    pub(crate) context: &'a NamespaceContext,
    pub(crate) mount: &'a Mount,
    pub(crate) record: &'a LeaseRecord,
    pub(crate) now: Timestamp,
}
