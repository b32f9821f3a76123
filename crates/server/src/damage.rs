//! Ends a server whose records cannot be loaded because files of its storage are damaged.
//!
//! Opening the storage reads parts of its files; the records are read when the server is unsealed. What is damaged
//! then is damaged at the next try too, so the server ends as it does when the storage fails otherwise, and says which file it is.

use std::sync::Arc;

use kallisto_store::{Error, Fold, OnFatal, Position, Store, StoreLayer};

/// A store that tells of damage which a load meets.
pub(super) struct EndOfDamaged {
    inner: Arc<dyn Store>,
    on_fatal: OnFatal,
}

impl EndOfDamaged {
    /// The store `inner`; `on_fatal` hears of damage.
    pub(super) fn over(inner: Arc<dyn Store>, on_fatal: OnFatal) -> Arc<dyn Store> {
        Arc::new(Self { inner, on_fatal })
    }
}

impl StoreLayer for EndOfDamaged {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn attach(&self, fold: Arc<dyn Fold>) -> Result<Position, Error> {
        let attached = self.inner.attach(fold);
        if let Err(error @ Error::Damaged(_)) = &attached {
            self.on_fatal.call(error);
        }
        attached
    }

    fn leads(&self) -> bool {
        self.inner.leads()
    }
}
