//! The view: everything a read needs, in memory.
//!
//! Mounts, the path index of each mount, the hot table of current secret versions, and the decoded
//! tokens. Only the [`fold`] writes here, from committed batches, in order; handlers only
//! read. So a restart, a leader and a follower all arrive at the same view by the same code.
//!
//! What the hot table holds is ciphertext under a key drawn for this view, gone with it at seal.
//!
//! Invariants:
//! - A path is in its mount's index exactly when its metadata (v2) or secret (v1) record exists.
//! - A hot entry, when present, is the current version of its path; an absent one may be cold.
//! - Nothing here is the only copy: every entry can be rebuilt from the store's records.

mod batch_tokens;
mod budget;
mod cached_token;
pub(crate) mod compile;
mod context;
pub(crate) mod damaged;
mod feed;
mod fold;
mod hot;
mod lease_counts;
mod leases;
mod load;
mod memory;
mod mounts;
mod names;
pub(crate) mod namespaces;
mod offers;
pub(crate) mod outdated;
pub(crate) mod policies;
mod recent;
mod token_relations;
mod tokens;
mod warm;
mod written;

use std::sync::{Arc, OnceLock};

use kallisto_barrier::MemoryCipher;
use kallisto_cuckoo::Table;

pub(crate) use cached_token::CachedToken;
pub(crate) use compile::Readiness;
pub(crate) use context::NamespaceContext;
pub(crate) use feed::{Feed, FeedChange, FeedPosition, PathEvent, Permit};
pub(crate) use fold::{RebuildCause, ViewFold};
pub(crate) use hot::{Hot, HotHeader, HotSlot, hot_key};
pub(crate) use leases::{Closed, LeaseView};
pub use mounts::{Mount, Mounts};
pub(crate) use names::SortedNames;
pub(crate) use recent::RecentSecret;
pub(crate) use tokens::{TokenSet, TokenTable};
pub(crate) use warm::start_warming;
#[cfg(test)]
pub(crate) use written::WrittenSecrets;
pub(crate) use written::{LeftSecrets, RunChanges};

use batch_tokens::BatchTokens;
use budget::{Budget, MemoryPool};
use recent::RecentSecrets;

use crate::api::error::Error;
use crate::identity::directory::IdentityDirectory;
use crate::platform::web::Web;
use crate::quotas::Quotas;
use crate::records::namespace::NamespaceFacts;
use crate::records::time_marks::TimeMarks;
use crate::storage::barrier_store::KeysInUse;
use crate::storage::cluster_identity::ClusterIdentity;
use crate::storage::keys::{MountId, NamespaceNumber};
use crate::view::namespaces::Namespaces;
use crate::view::policies::Policies;

/// Entries the hot table is sized for at first; it grows.
const SECRETS_AT_START: usize = 1 << 14;
/// The same for a namespace, of which there may be many.
const SECRETS_INSIDE_AT_START: usize = 1 << 6;

/// The in-memory view of the committed state.
pub struct View {
    /// Where engines are mounted.
    pub mounts: Mounts,
    /// Current versions of secrets.
    pub(crate) hot: Table<HotSlot>,
    /// What writes need of secrets that were written lately.
    pub(crate) recent: RecentSecrets,
    /// What the hot table may hold, and who may write to it.
    budget: Budget,
    /// What the values of the hot table are sealed with.
    pub(crate) cipher: MemoryCipher,
    /// Live tokens.
    pub(crate) tokens: TokenTable,
    /// Batch tokens that were used lately.
    pub(crate) batch_tokens: BatchTokens,
    /// How far time has come; one of the cluster, in every view of it.
    pub(crate) marks: Arc<TimeMarks>,
    /// Leases of dynamic secrets; one of the cluster, in every view of it.
    pub(crate) leases: Arc<LeaseView>,
    /// Policies.
    pub(crate) policies: Policies,
    /// Rate limits.
    pub(crate) quotas: Quotas,
    /// What browsers are told.
    pub(crate) web: Web,
    /// Names of token roles.
    pub(crate) token_roles: SortedNames,
    /// What changed last.
    pub(crate) feed: Arc<Feed>,
    cluster: OnceLock<Arc<ClusterIdentity>>,
    keys: KeysInUse,
    /// The namespaces below; all of them in the view of the root namespace, none in others.
    pub(crate) namespaces: Namespaces,
    /// The namespace it is of; `None` for the root one.
    pub(crate) inside: Option<NamespaceFacts>,
}

impl View {
    /// An empty view whose hot table may hold about `hot_bytes_max` bytes of entries; `keys` open batch
    /// tokens, and no rate limit holds for `exempt` unless somebody says otherwise.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the operating system gives no randomness for the tables' keys.
    pub(crate) fn new(
        hot_bytes_max: usize,
        keys: KeysInUse,
        exempt: Vec<String>,
    ) -> Result<Self, Error> {
        let leases = Arc::new(LeaseView::new()?);
        Self::with(
            MemoryPool::new(hot_bytes_max),
            keys,
            (Arc::default(), leases),
            exempt.into(),
            None,
        )
    }

    /// An empty view of a namespace, which shares this one's memory budget and cluster.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn inside(&self, inside: NamespaceFacts) -> Result<Self, Error> {
        let shared = (Arc::clone(&self.marks), Arc::clone(&self.leases));
        let exempt = Arc::clone(self.quotas.exempt());
        let view =
            Self::with(self.budget.pool(), Arc::clone(&self.keys), shared, exempt, Some(inside))?;
        if let Some(cluster) = self.cluster.get() {
            // Empty until here.
            let _ = view.cluster.set(Arc::clone(cluster));
        }
        Ok(view)
    }

    fn with(
        pool: Arc<MemoryPool>,
        keys: KeysInUse,
        (marks, leases): (Arc<TimeMarks>, Arc<LeaseView>),
        exempt: Arc<[String]>,
        inside: Option<NamespaceFacts>,
    ) -> Result<Self, Error> {
        let unavailable = |error: kallisto_cuckoo::Error| Error::Unavailable(error.to_string());
        let secrets = if inside.is_some() { SECRETS_INSIDE_AT_START } else { SECRETS_AT_START };
        Ok(Self {
            mounts: Mounts::new().map_err(unavailable)?,
            hot: Table::with_capacity(secrets).map_err(unavailable)?,
            recent: RecentSecrets::new()?,
            budget: Budget::new(pool),
            cipher: MemoryCipher::generate().map_err(|e| Error::Unavailable(e.to_string()))?,
            tokens: TokenTable::new().map_err(unavailable)?,
            batch_tokens: BatchTokens::new(Arc::clone(&keys), Arc::clone(&marks))
                .map_err(unavailable)?,
            marks,
            leases,
            policies: Policies::default(),
            quotas: Quotas::new(exempt),
            web: Web::default(),
            token_roles: SortedNames::default(),
            feed: Arc::default(),
            cluster: OnceLock::new(),
            keys,
            namespaces: Namespaces::default(),
            inside,
        })
    }

    /// The cluster's identity, once initialised.
    pub fn cluster(&self) -> Option<&ClusterIdentity> {
        self.cluster.get().map(|cluster| &**cluster)
    }

    /// The mount of entities and groups.
    ///
    /// # Errors
    /// When it is missing, which is damage.
    pub(crate) fn identity_mount(&self) -> Result<Arc<Mount>, Error> {
        let mount = self.mounts.with_id(MountId::IDENTITY);
        mount.ok_or_else(|| Error::internal(&"a built-in mount is missing"))
    }

    /// Asks the entities and groups; `None` when there are none to ask.
    pub(crate) fn ask_directory<T>(&self, ask: impl FnOnce(&IdentityDirectory) -> T) -> Option<T> {
        self.mounts.with_id(MountId::IDENTITY)?.memory.directory().map(ask)
    }

    /// The path of its namespace; empty for the root one.
    pub(crate) fn namespace_path(&self) -> &str {
        self.inside.as_ref().map_or("", |inside| &inside.path)
    }

    /// The number of its namespace.
    pub(crate) fn namespace_number(&self) -> NamespaceNumber {
        self.inside.as_ref().map_or(NamespaceNumber::ROOT, |inside| inside.number)
    }

    /// The id of its namespace, as records of audit devices and listings have it.
    pub(crate) fn namespace_id(&self) -> &str {
        self.inside.as_ref().map_or("root", |inside| &inside.id)
    }

    /// A token's text or accessor as it is in its namespace.
    pub(crate) fn marked(&self, text: String) -> String {
        match &self.inside {
            Some(inside) => format!("{text}.{}", inside.id),
            None => text,
        }
    }

    /// What stands before the mark of this namespace; `None` for what is not marked so.
    pub(crate) fn unmarked<'t>(&self, text: &'t str) -> Option<&'t str> {
        match &self.inside {
            Some(inside) => text.strip_suffix(inside.id.as_str())?.strip_suffix('.'),
            None => Some(text),
        }
    }

    /// Current versions held in the hot table and its load factor.
    pub fn hot_stats(&self) -> (usize, f64) {
        (self.hot.len(), self.hot.load_factor())
    }
}
