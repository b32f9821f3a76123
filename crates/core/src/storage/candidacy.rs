//! Whether this server stands for leadership.

use kallisto_store::{Candidacy, Store};

/// Whether this server stands for leadership: only while it can serve.
pub(crate) fn stand(core: &dyn Store, candidacy: Candidacy) {
    if let Some(cluster) = core.replicated() {
        cluster.stand(candidacy);
    }
}
