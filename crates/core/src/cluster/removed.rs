//! A server that its cluster has let go.
//!
//! The store knows that for good (`store::Replicated::is_removed`), whoever said so first. Such a server has nothing to say: what it
//! holds is of the past, and it will not learn what is revoked. So it seals itself, and stays sealed.

use std::sync::atomic::Ordering;

use kallisto_store::Store;

use crate::api::error::Error;
use crate::state::Core;

impl Core {
    /// Whether the cluster has let this server go.
    pub fn is_removed(&self) -> bool {
        is_removed(&*self.store)
    }
}

fn is_removed(store: &dyn Store) -> bool {
    store.replicated().is_some_and(|cluster| cluster.is_removed())
}

/// Refuses to unseal a server that the cluster has let go.
///
/// # Errors
/// [`Error::Invalid`], which says what to do.
pub(crate) fn check(store: &dyn Store) -> Result<(), Error> {
    if !is_removed(store) {
        return Ok(());
    }
    Err(Error::invalid(
        "this server was removed from its cluster and does not unseal: stop it, move its data \
         directory away, and let it join again as a new server",
    ))
}

/// Seals a server that the cluster has let go, and says so once. A job of every server.
///
/// # Errors
/// Those of sealing.
pub(crate) async fn retire_if_removed(core: &Core) -> Result<(), Error> {
    if !core.is_removed() {
        return Ok(());
    }
    // Relaxed: only this job looks.
    if !core.told.is_removed.swap(true, Ordering::Relaxed) {
        tracing::error!(
            "this server was removed from its cluster: it is sealed and stays so; to use the machine again, \
             move the data directory away and let it join as a new server"
        );
    }
    if core.is_sealed() { Ok(()) } else { core.seal().await }
}
