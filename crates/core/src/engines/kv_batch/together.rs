//! Committing many writes as one: decide, commit on the condition that nothing decided from has
//! changed, and decide again when something has.

use crate::records::engine_kind::KvState;
use kallisto_store::Error as StoreError;

use crate::api::error::Error;
use crate::engines::kv::staged::Staged;
use crate::limits::CONFLICT_RETRIES_MAX;
use crate::storage::keys;
use crate::view::Mount;
use crate::view::NamespaceContext;
use kallisto_engine::pace::{ITEMS_PER_TURN, cooperative_yield};

/// The key that stands for a secret: that of its metadata, or of itself where there is none.
pub(in crate::engines) fn record_key(mount: &Mount, path: &str) -> Vec<u8> {
    match mount.entry.kind.kv() {
        Some(KvState::V2) => keys::kv_meta(mount.entry.id, path),
        _ => keys::kv_one(mount.entry.id, path),
    }
}

/// Has `stage` stage each of `count` changes and commits, again and again while others win the race.
/// Returns what is to be told of each. `secrets` are the keys of all that are written: those who write
/// one of them alone wait their turn.
pub(in crate::engines) async fn commit<T>(
    context: &NamespaceContext,
    secrets: &[Vec<u8>],
    count: usize,
    mut stage: impl FnMut(usize, &mut Staged) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let _latches = context.latches.hold_all(secrets).await;
    // A loop of its own: it lets others run while it decides.
    for _ in 0..CONFLICT_RETRIES_MAX {
        let mut staged = Staged::default();
        let mut told = Vec::with_capacity(count);
        for at in 0..count {
            told.push(stage(at, &mut staged)?);
            if at % ITEMS_PER_TURN == 0 {
                cooperative_yield().await;
            }
        }
        if staged.is_empty() {
            return Ok(told);
        }
        match context.store.commit(staged.into_batch()).await {
            Ok(_) => return Ok(told),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::open_core;

    #[test]
    fn a_secret_stands_under_its_metadata_or_where_there_is_none_under_itself() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load_full().unwrap();
        let (two, _) = context.view.mounts.route("secret/").unwrap();
        assert_eq!(record_key(&two, "a"), keys::kv_meta(two.entry.id, "a"));
        let (one, _) = context.view.mounts.route("one/").unwrap();
        assert_eq!(record_key(&one, "a"), keys::kv_one(one.entry.id, "a"));
    }
}
