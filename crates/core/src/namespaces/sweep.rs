//! Clearing what a deleted namespace leaves.
//!
//! Everything inside a namespace lies under one prefix, so the sweep is a scan that deletes, a bounded
//! batch at a time; nothing can be added meanwhile, since the namespace's life record went first. The
//! namespace's own record goes last: as long as it is there and tainted, every run of the job goes on with it, also after
//! a restart.

use kallisto_store::{Batch, Visit};

use crate::api::error::Error;
use crate::limits::SWEEP_RECORDS_MAX;
use crate::storage::keys;
use crate::view::NamespaceContext;

/// Batches of a namespace in one run; the rest waits for the next.
const RUN_BATCHES_MAX: usize = 16;

/// Goes on clearing the namespaces that were deleted; `root` is the root namespace.
///
/// # Errors
/// The store's refusal; the next run goes on.
pub(crate) async fn sweep(root: &NamespaceContext) -> Result<(), Error> {
    if root.view.namespaces.is_empty() {
        return Ok(());
    }
    for space in root.view.namespaces.below("") {
        if !space.namespace.is_tainted {
            continue;
        }
        let number = space.namespace.number;
        for _ in 0..RUN_BATCHES_MAX {
            let mut batch = Batch::new();
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
                break;
            }
        }
    }
    Ok(())
}
