//! What a server holds: the view it reads, the store it writes, and what it says of itself.
//!
//! Handlers take a [`Core`] and a [`Call`]; how a request becomes a call is the `door`'s matter.

use std::sync::Arc;

use kallisto_auth::Authorized;
use kallisto_store::Store;

use crate::latches::Latches;
use crate::request::Request;
use crate::view::View;

/// What this server says of itself.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The Vault-like version that clients gate their features on.
    pub version: String,
    /// When the running code was committed, as RFC 3339 text.
    pub build_date: String,
    /// The name of the storage type, such as `inmem`.
    pub storage_type: String,
}

/// A server's state and its one door.
pub struct Core {
    pub(crate) view: Arc<View>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) info: ServerInfo,
    pub(crate) latches: Latches,
}

/// A request that may run.
pub(crate) type Call<'c, 'r> = Authorized<&'c Request<'r>>;

impl Core {
    /// A core over `store`, whose fold must feed `view`.
    pub fn new(view: Arc<View>, store: Box<dyn Store>, info: ServerInfo) -> Self {
        Self { view, store, info, latches: Latches::new() }
    }

    /// The view, for measurements.
    pub fn view(&self) -> &View {
        &self.view
    }
}
