//! How far time has come, written down: for batch tokens ([`time_marks`](crate::records::time_marks)).

use jiff::Timestamp;

use crate::api::error::Error;
use crate::records::time_marks::RECORD;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::MountId;
use crate::view::NamespaceContext;

/// Writes down how far the clock has come, where that is due. For the leader, and the root namespace.
///
/// # Errors
/// The store's refusal; the next call tries again.
pub(crate) async fn keep(root: &NamespaceContext, now: Timestamp) -> Result<(), Error> {
    let Some(record) = root.view.marks.due(now) else { return Ok(()) };
    EngineStorage::builtin(root, MountId::SYSTEM)?.put(RECORD, record).await
}
