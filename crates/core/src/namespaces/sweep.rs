//! Clearing what a deleted namespace leaves.
//!
//! Everything inside a namespace lies under one prefix, so the sweep is a scan that deletes, a bounded
//! batch at a time; nothing can be added meanwhile, since the namespace's life record went first. The
//! namespace's own record goes last: as long as it is there and tainted, every run of the job goes on with it, also after
//! a restart.

use kallisto_engine::pace::cooperative_yield;
use kallisto_store::{Batch, Visit};

use crate::api::error::Error;
use crate::limits::SWEEP_RECORDS_MAX;
use crate::storage::keys::{self, NamespaceNumber};
use crate::view::NamespaceContext;

/// Batches of a namespace in one run; the rest waits for the next.
const NAMESPACE_BATCHES_MAX: usize = 16;
/// The same of all of them together: other jobs have their turn. What takes of it gets on, so each comes to its end.
const RUN_BATCHES_MAX: usize = 64;

/// Goes on clearing the namespaces that were deleted; `root` is the root namespace.
///
/// # Errors
/// The store's refusal; the next run goes on.
pub(crate) async fn sweep(root: &NamespaceContext) -> Result<(), Error> {
    if root.view.namespaces.is_empty() {
        return Ok(());
    }
    let (mut outcome, mut batches_left) = (Ok(()), RUN_BATCHES_MAX);
    for space in root.view.namespaces.below("") {
        if !space.namespace.is_tainted {
            continue;
        }
        let batches_max = batches_left.min(NAMESPACE_BATCHES_MAX);
        match clear_some(root, space.namespace.number, batches_max).await {
            Ok(batches) => batches_left -= batches,
            // What is damaged keeps no other waiting.
            Err(error @ Error::Internal(_)) => outcome = outcome.and(Err(error)),
            Err(error) => return Err(error),
        }
        if batches_left == 0 {
            break;
        }
    }
    outcome
}

/// Goes on with one of them, as far as so many batches go; how many it took.
async fn clear_some(
    root: &NamespaceContext,
    number: NamespaceNumber,
    batches_max: usize,
) -> Result<usize, Error> {
    for done in 1..=batches_max {
        let mut batch = Batch::new();
        batch.set_essential();
        root.store.scan(&keys::inside(number, &[]), &mut |key, _| {
            batch.delete(key.to_vec());
            if batch.ops().len() < SWEEP_RECORDS_MAX { Visit::Continue } else { Visit::Stop }
        })?;
        let is_last = batch.ops().len() < SWEEP_RECORDS_MAX;
        if is_last {
            batch.delete(keys::namespace(number));
        }
        root.store.commit(batch).await?;
        if is_last {
            tracing::info!(number = number.0, "cleared a deleted namespace");
            return Ok(done);
        }
        cooperative_yield().await;
    }
    Ok(batches_max)
}
