//! A snapshot that is read next to the running state.
//!
//! There is room for one, as in Vault: its records are in memory, as ciphertext. `backup::loaded` loads it, the pipeline answers from
//! it, sealing forgets it.
//!
//! Invariant: what was unloaded, or is over, is never found again, also where it was still being loaded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::api::error::Error;
use crate::view::NamespaceContext;

/// A loaded snapshot.
pub(crate) struct LoadedSnapshot {
    /// Its id.
    pub(crate) id: String,
    /// When it was loaded, and when it is unloaded at the latest.
    pub(crate) created: Timestamp,
    pub(crate) expires: Timestamp,
    /// Records that can be recovered, and the bytes that they take.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// The place in the log that it shows.
    pub(crate) index: u64,
    /// What handlers read with: keys and records of the snapshot.
    context: Arc<NamespaceContext>,
}

/// The place for one.
#[derive(Default)]
pub(crate) struct LoadedSnapshots(Mutex<LoadedSlot>);

#[derive(Default)]
enum LoadedSlot {
    #[default]
    Empty,
    Loading(String),
    Ready(Arc<LoadedSnapshot>),
}

/// A snapshot that is on its way in; dropped before it is there, it leaves the place free.
pub(crate) struct LoadingSnapshot {
    slots: Arc<LoadedSnapshots>,
    pub(crate) id: String,
}

impl LoadedSnapshot {
    pub(crate) fn new(
        id: String,
        (created, expires): (Timestamp, Timestamp),
        (records, bytes, index): (u64, u64, u64),
        context: Arc<NamespaceContext>,
    ) -> Self {
        Self { id, created, expires, records, bytes, index, context }
    }

    /// A namespace as it was; `None` where there was none.
    pub(crate) fn context_in(&self, namespace: &str) -> Option<Arc<NamespaceContext>> {
        match namespace {
            "" => Some(Arc::clone(&self.context)),
            namespace => self.context.view.namespaces.at(namespace)?.context(&self.context),
        }
    }
}

impl LoadedSnapshots {
    fn lock(&self) -> MutexGuard<'_, LoadedSlot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place for a snapshot with this id.
    ///
    /// # Errors
    /// [`Error::Invalid`] while another is there.
    pub(crate) fn begin(self: &Arc<Self>, id: String) -> Result<LoadingSnapshot, Error> {
        let mut slot = self.lock();
        let other = match &*slot {
            LoadedSlot::Empty => None,
            LoadedSlot::Loading(other) => Some(other.clone()),
            LoadedSlot::Ready(other) => Some(other.id.clone()),
        };
        if let Some(other) = other {
            return Err(Error::invalid(format!(
                "snapshot {other} is loaded, and there is room for one: unload it first"
            )));
        }
        *slot = LoadedSlot::Loading(id.clone());
        Ok(LoadingSnapshot { slots: Arc::clone(self), id })
    }

    /// The snapshot with this id, if it is loaded.
    ///
    /// # Errors
    /// [`Error::Invalid`] saying that there is none, or that it is still being loaded.
    pub(crate) fn find(&self, id: &str, now: Timestamp) -> Result<Arc<LoadedSnapshot>, Error> {
        match &*self.lock() {
            LoadedSlot::Ready(found) if found.id == id && found.expires > now => {
                Ok(Arc::clone(found))
            }
            LoadedSlot::Loading(loading) if loading == id => {
                Err(Error::Unavailable(format!("snapshot {id} is being loaded")))
            }
            _ => Err(Error::invalid(format!(
                "no snapshot {id} is loaded at the server that leads: it may have been unloaded, or loaded while another led"
            ))),
        }
    }

    /// The id of the one there is, and whether it is being loaded still.
    pub(crate) fn current(&self, now: Timestamp) -> Option<(String, bool)> {
        match &*self.lock() {
            LoadedSlot::Loading(id) => Some((id.clone(), true)),
            LoadedSlot::Ready(found) if found.expires > now => Some((found.id.clone(), false)),
            _ => None,
        }
    }

    /// The one there is, over or not.
    pub(crate) fn any(&self) -> Option<Arc<LoadedSnapshot>> {
        match &*self.lock() {
            LoadedSlot::Ready(found) => Some(Arc::clone(found)),
            LoadedSlot::Empty | LoadedSlot::Loading(_) => None,
        }
    }

    /// Unloads the snapshot with this id; false when there is none.
    pub(crate) fn unload(&self, id: &str) -> bool {
        let mut slot = self.lock();
        let is_it = match &*slot {
            LoadedSlot::Empty => false,
            LoadedSlot::Loading(loading) => loading == id,
            LoadedSlot::Ready(found) => found.id == id,
        };
        if is_it {
            *slot = LoadedSlot::Empty;
        }
        is_it
    }

    /// Unloads whatever there is.
    pub(crate) fn clear(&self) {
        *self.lock() = LoadedSlot::Empty;
    }
}

impl LoadingSnapshot {
    /// It is there, unless it was unloaded meanwhile.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it was, or the server was sealed.
    pub(crate) fn finish(self, snapshot: Arc<LoadedSnapshot>) -> Result<(), Error> {
        let mut slot = self.slots.lock();
        match &*slot {
            LoadedSlot::Loading(id) if *id == self.id => {
                *slot = LoadedSlot::Ready(snapshot);
                Ok(())
            }
            _ => Err(Error::Unavailable("the snapshot was unloaded meanwhile".into())),
        }
    }
}

impl Drop for LoadingSnapshot {
    fn drop(&mut self) {
        let mut slot = self.slots.lock();
        if matches!(&*slot, LoadedSlot::Loading(id) if *id == self.id) {
            *slot = LoadedSlot::Empty;
        }
    }
}
