//! Changing records by what they say: decide, commit on the condition that nothing decided by has changed, and decide again when
//! something has.
//!
//! Called by whoever changes a record that others change too. The batch expects what was read to be as it was read, so of two changes
//! that race one is decided anew, and none is lost. A latch is the caller's to hold, where many are likely to race. What waits while it
//! decides has a loop of its own: the future of a closure that borrows cannot be told to be `Send`.

use kallisto_store::{Batch, Commit, Error as StoreError};

use crate::api::error::Error;
use crate::limits::CONFLICT_RETRIES_MAX;
use crate::storage::barrier_store::{BarrierStore, RecordCondition};

/// Commits what `decide` adds to a batch, with what it read as expectations. It runs again while others are faster, and when it finds a
/// conflict itself. An empty batch is not committed.
///
/// # Errors
/// What `decide` says, the store's refusal, or [`Error::Conflict`] when others kept changing what was read.
pub(crate) async fn transact<T>(
    store: &BarrierStore,
    mut decide: impl FnMut(&mut Batch) -> Result<T, Error>,
) -> Result<T, Error> {
    transact_if(store, |batch, _| decide(batch)).await
}

/// The same, where `decide` may add a condition on a record of another namespace.
///
/// # Errors
/// As [`transact`].
pub(crate) async fn transact_if<T>(
    store: &BarrierStore,
    mut decide: impl FnMut(&mut Batch, &mut Option<RecordCondition>) -> Result<T, Error>,
) -> Result<T, Error> {
    let decide = || {
        let (mut batch, mut condition) = (Batch::new(), None);
        let told = decide(&mut batch, &mut condition)?;
        Ok((told, has_writes(&batch).then_some((batch, condition))))
    };
    retry(decide, |(batch, condition)| store.commit_if(batch, condition)).await
}

/// The same, where `decide` may add to a second batch, which is of the root namespace. If the first is empty, none is committed.
///
/// # Errors
/// As [`transact`].
pub(crate) async fn transact_beside<T>(
    store: &BarrierStore,
    mut decide: impl FnMut(&mut Batch, &mut Batch) -> Result<T, Error>,
) -> Result<T, Error> {
    let decide = || {
        let (mut batch, mut of_root) = (Batch::new(), Batch::new());
        let told = decide(&mut batch, &mut of_root)?;
        Ok((told, has_writes(&batch).then_some((batch, of_root))))
    };
    retry(decide, |(batch, of_root)| store.commit_beside(batch, &of_root)).await
}

fn has_writes(batch: &Batch) -> bool {
    !batch.ops().is_empty()
}

/// Decides and commits until nobody was faster. `decide` says what to tell, and what to commit if there is anything.
///
/// # Errors
/// As [`transact`].
async fn retry<T, W>(
    mut decide: impl FnMut() -> Result<(T, Option<W>), Error>,
    commit: impl Fn(W) -> Commit,
) -> Result<T, Error> {
    for _ in 0..CONFLICT_RETRIES_MAX {
        let (told, writes) = match decide() {
            Ok(decided) => decided,
            Err(Error::Conflict) => continue,
            Err(refusal) => return Err(refusal),
        };
        let Some(writes) = writes else { return Ok(told) };
        match commit(writes).await {
            Ok(_) => return Ok(told),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Conflict)
}

#[cfg(test)]
mod tests {
    use kallisto_store::Seqno;

    use super::*;
    use crate::platform::server_info::RouteAccess;
    use crate::routes::tests::open_core;
    use crate::storage::keys::{self, MountId};
    use crate::view::NamespaceContext;

    fn key() -> Vec<u8> {
        keys::storage(MountId::CUBBYHOLE, "counted")
    }

    fn count(context: &NamespaceContext) -> (u8, Seqno) {
        let record = context.store.get(&key()).unwrap();
        record.map_or((0, Seqno::ABSENT), |record| (record.value[0], record.seqno))
    }

    fn put(context: &NamespaceContext, count: u8) {
        let mut batch = Batch::new();
        batch.put(key(), vec![count]);
        pollster::block_on(context.store.commit(batch)).unwrap();
    }

    /// Adds 1, while somebody else is faster so many times, and adds 10.
    fn add_one(context: &NamespaceContext, rivals: usize) -> Result<usize, Error> {
        let mut tried = 0;
        pollster::block_on(transact(&context.store, |batch| {
            let (found, seqno) = count(context);
            if tried < rivals {
                put(context, found.wrapping_add(10));
            }
            tried += 1;
            batch.expect(key(), seqno);
            batch.put(key(), vec![found.wrapping_add(1)]);
            Ok(tried)
        }))
    }

    #[test]
    fn who_was_slower_decides_again_on_what_is_there_then() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load();
        let context = context.as_ref().unwrap();
        assert_eq!(add_one(context, 0).unwrap(), 1);
        assert_eq!(add_one(context, 2).unwrap(), 3);
        assert_eq!(count(context).0, 22);
        assert!(matches!(add_one(context, usize::MAX), Err(Error::Conflict)));
    }

    #[test]
    fn nothing_to_write_is_no_commit_and_a_conflict_that_is_found_is_one() {
        let core = open_core(RouteAccess::Token);
        let context = core.context.load();
        let context = context.as_ref().unwrap();
        put(context, 1);
        let looked = transact(&context.store, |batch| {
            // Not asked, as nothing is written.
            batch.expect(key(), Seqno::ABSENT);
            Ok(count(context).0)
        });
        assert_eq!(pollster::block_on(looked).unwrap(), 1);
        let mut tried = 0;
        let found = transact(&context.store, |_| {
            tried += 1;
            if tried < 3 { Err(Error::Conflict) } else { Ok(tried) }
        });
        assert_eq!(pollster::block_on(found).unwrap(), 3);
    }
}
