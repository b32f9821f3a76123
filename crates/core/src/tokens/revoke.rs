//! Ending tokens: one, and everything that hangs on it.
//!
//! The token itself goes first, so that it stops at once (but where those below live on); those below follow in bounded batches. A
//! sweep that is cut short (the server lost the lead, the client hung up, the store refused) is taken up
//! by the next run of a job of whoever leads, or by the next to revoke the same token: a child whose parent is
//! gone is found among the ties, what a gone token kept in its cubbyhole by its name there.

use std::sync::atomic::Ordering;

use kallisto_engine::pace::cooperative_yield;
use kallisto_store::{Batch, Error as StoreError};

use super::expire::take_up_if_cut_short;
use crate::api::error::Error;
use crate::limits::REVOKE_TOKENS_MAX;
use crate::records::token::TokenEntry;
use crate::records::token::TokenHash;
use crate::storage::keys;
use crate::storage::transact::transact;
use crate::timers::Timer;
use crate::tokens::cubbyhole;
use crate::view::NamespaceContext;

/// Tokens between two breaths; what each kept is looked for, which takes tens of microseconds.
const TOKENS_PER_TURN: usize = 16;

/// Tokens that are made orphans in one batch.
const ORPHANS_AT_ONCE: usize = 64;

/// What becomes of the tokens below one that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Children {
    /// They end too.
    Revoke,
    /// They live on as orphans.
    Orphan,
}

/// Ends a token and all below it.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses.
pub(crate) async fn revoke_tree(context: &NamespaceContext, hash: TokenHash) -> Result<(), Error> {
    let begin = context.services.timers.now();
    revoke_all(context, vec![hash]).await?;
    context.services.timers.end(Timer::TokenRevokeTree, begin);
    Ok(())
}

/// A sweep under way. Dropped before it is done, it asks for what is left to be taken up.
pub(super) struct SweepGuard<'a>(Option<&'a NamespaceContext>);

impl<'a> SweepGuard<'a> {
    /// Marks the beginning of a sweep.
    pub(super) const fn mark(context: &'a NamespaceContext) -> Self {
        Self(Some(context))
    }

    /// Nothing is left.
    pub(super) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for SweepGuard<'_> {
    fn drop(&mut self) {
        if let Some(context) = self.0 {
            context.swept.store(0, Ordering::Release);
        }
    }
}

/// Ends what still hangs on a token that is gone: somebody else set out to end it, and was cut short or is still at it.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses.
pub(super) async fn finish(context: &NamespaceContext, gone: &TokenHash) -> Result<(), Error> {
    take_up_if_cut_short(context).await?;
    loop {
        let left = context.view.tokens.children_of(gone, REVOKE_TOKENS_MAX);
        if left.is_empty() {
            return revoke_below(context, gone).await;
        }
        revoke_all(context, left).await?;
    }
}

/// Ends tokens and all below them, a bounded batch at a time; others get their turn in between.
///
/// Whose children there are is asked after its own end was folded: from then on none can be made,
/// since making one expects its parent. What was ended is a child no more, so asking again gives the
/// next ones.
pub(super) async fn revoke_all(
    context: &NamespaceContext,
    mut ending: Vec<TokenHash>,
) -> Result<(), Error> {
    let sweep = SweepGuard::mark(context);
    let mut parents: Vec<TokenHash> = Vec::new();
    loop {
        // What it is not shown to be done would be done again and again; the sweep takes up the rest.
        context.check_follows()?;
        if ending.is_empty() {
            let Some(parent) = parents.last() else {
                sweep.done();
                return Ok(());
            };
            ending = context.view.tokens.children_of(parent, REVOKE_TOKENS_MAX);
            if ending.is_empty() {
                parents.pop();
            }
            continue;
        }
        let round = ending.split_off(ending.len().saturating_sub(REVOKE_TOKENS_MAX));
        let mut batch = Batch::new();
        batch.set_essential();
        for hash in &round {
            batch.delete(keys::token(hash));
        }
        context.store.commit(batch).await?;
        for (at, hash) in round.into_iter().enumerate() {
            if at % TOKENS_PER_TURN == 0 {
                cooperative_yield().await;
            }
            cubbyhole::forget(context, &hash).await?;
            revoke_below(context, &hash).await?;
            if !context.view.tokens.children_of(&hash, 1).is_empty() {
                parents.push(hash);
            }
        }
    }
}

/// Ends the tokens that one made in namespaces below, after its own end was folded.
async fn revoke_below(context: &NamespaceContext, parent: &TokenHash) -> Result<(), Error> {
    for context in context.contexts_below() {
        while context.view.tokens.has_any_from_above() {
            let made = context.view.tokens.children_of(parent, REVOKE_TOKENS_MAX);
            if made.is_empty() {
                break;
            }
            Box::pin(revoke_all(&context, made)).await?;
        }
    }
    Ok(())
}

/// Ends the tokens that were made at paths starting with `prefix`, and all below them.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses.
pub(crate) async fn revoke_made_below(
    context: &NamespaceContext,
    prefix: &str,
) -> Result<(), Error> {
    loop {
        let made = context.view.tokens.made_below(prefix, REVOKE_TOKENS_MAX);
        if made.is_empty() {
            return Ok(());
        }
        revoke_all(context, made).await?;
    }
}

/// Ends the tokens that were made at exactly `path`, and all below them.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses.
pub(super) async fn revoke_made_at(context: &NamespaceContext, path: &str) -> Result<(), Error> {
    loop {
        let made = context.view.tokens.made_at(path, REVOKE_TOKENS_MAX);
        if made.is_empty() {
            return Ok(());
        }
        revoke_all(context, made).await?;
    }
}

/// Ends a token; `children` says what becomes of those below.
pub(super) async fn revoke(
    context: &NamespaceContext,
    hash: TokenHash,
    children: Children,
) -> Result<(), Error> {
    match children {
        Children::Revoke => revoke_tree(context, hash).await,
        Children::Orphan => {
            // First, while their parent is there: one whose parent is gone is taken for what a revocation left, if this is cut short.
            orphan_everywhere(context, &hash, Orphaned::Present).await?;
            let mut batch = Batch::new();
            batch.delete(keys::token(&hash)).set_essential();
            context.store.commit(batch).await?;
            cubbyhole::forget(context, &hash).await?;
            // Those that it made meanwhile.
            orphan_everywhere(context, &hash, Orphaned::All).await
        }
    }
}

/// Which children are made orphans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orphaned {
    /// Those there are: their parent may make others.
    Present,
    /// All: their parent is gone.
    All,
}

/// Takes the parent off the tokens that hang on it, here and in namespaces below.
async fn orphan_everywhere(
    context: &NamespaceContext,
    parent: &TokenHash,
    which: Orphaned,
) -> Result<(), Error> {
    orphan_children(context, parent, which).await?;
    for context in context.contexts_below() {
        if context.view.tokens.has_any_from_above() {
            orphan_children(&context, parent, which).await?;
        }
    }
    Ok(())
}

/// Takes the parent off the tokens of a namespace that hang on it.
async fn orphan_children(
    context: &NamespaceContext,
    parent: &TokenHash,
    which: Orphaned,
) -> Result<(), Error> {
    if which == Orphaned::Present {
        for children in context.view.tokens.children_of(parent, usize::MAX).chunks(ORPHANS_AT_ONCE)
        {
            orphan(context, children).await?;
            cooperative_yield().await;
        }
        return Ok(());
    }
    loop {
        context.check_follows()?;
        let children = context.view.tokens.children_of(parent, ORPHANS_AT_ONCE);
        if children.is_empty() {
            return Ok(());
        }
        orphan(context, &children).await?;
        cooperative_yield().await;
    }
}

/// Takes the parent off tokens, together where nobody changes one of them meanwhile.
async fn orphan(context: &NamespaceContext, hashes: &[TokenHash]) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.set_essential();
    for hash in hashes {
        orphan_in(&mut batch, context, hash)?;
    }
    if batch.ops().is_empty() {
        return Ok(());
    }
    match context.store.commit(batch).await {
        Ok(_) => return Ok(()),
        Err(StoreError::Conflict | StoreError::TooLarge(_)) => {}
        Err(error) => return Err(error.into()),
    }
    for hash in hashes {
        transact(&context.store, |batch| {
            batch.set_essential();
            orphan_in(batch, context, hash)
        })
        .await?;
    }
    Ok(())
}

/// Adds to a batch that a token has no parent. What is gone needs nothing.
fn orphan_in(batch: &mut Batch, context: &NamespaceContext, hash: &TokenHash) -> Result<(), Error> {
    let key = keys::token(hash);
    let Some(record) = context.store.get(&key)? else { return Ok(()) };
    let Some(mut entry) = TokenEntry::decode(&record.value) else { return Ok(()) };
    entry.parent = None;
    entry.parent_above = None;
    entry.auth.orphan = true;
    batch.expect(key.clone(), record.seqno);
    batch.put(key, entry.encode());
    Ok(())
}
#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Waker};

    use jiff::Timestamp;
    use kallisto_auth::Operation::Update;
    use kallisto_store::{Commit, MemoryStore, Store, StoreLayer};

    use crate::api::json;
    use crate::api::request::TokenText;
    use crate::api::response::Response;
    use crate::platform::server_info::ServerInfo;
    use crate::routes::tests::{ROOT, ask};
    use crate::state::Core;

    use super::*;

    /// A store in memory that takes so many commits.
    struct ShortStore {
        inner: MemoryStore,
        commits_left: AtomicUsize,
    }

    impl StoreLayer for ShortStore {
        fn inner(&self) -> &dyn Store {
            &self.inner
        }

        fn commit(&self, batch: Batch) -> Commit {
            let less = |left: usize| left.checked_sub(1);
            match self.commits_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
                Ok(_) => self.inner.commit(batch),
                Err(_) => Commit::decided(Err(StoreError::Unavailable("no power".into()))),
            }
        }
    }

    fn core_over(store: Arc<dyn Store>) -> Core {
        let core = Core::new(store, ServerInfo::default());
        let root = Some(ROOT.to_owned().into());
        pollster::block_on(core.initialize_dev(root, Timestamp::UNIX_EPOCH)).unwrap();
        core
    }

    /// A token, made by this one.
    fn child_of(core: &Core, maker: &str) -> String {
        let made = ask(core, Some(maker), Update, "auth/token/create", "{}");
        let Ok(Response::Logical(made)) = made else { panic!("{made:?}") };
        json::parse_object(&made.auth).unwrap()["client_token"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_revocation_that_a_seal_overtook_ends() {
        let core = core_over(Arc::new(MemoryStore::new()));
        let parent = child_of(&core, ROOT);
        child_of(&core, &parent);
        let context = core.context.load_full().unwrap();
        let tag = context.view.cluster().unwrap().token_key.hash(&parent);
        let mut sealing = Box::pin(core.seal());
        // It waits for this test, which has the context.
        let mut waiting = Context::from_waker(Waker::noop());
        assert!(sealing.as_mut().poll(&mut waiting).is_pending());
        // The child is deleted, and this view shows it for ever.
        let revoked =
            pollster::block_on(revoke_all(&context, vec![tag.as_ref().try_into().unwrap()]));
        assert!(matches!(revoked, Err(Error::Unavailable(_))), "{revoked:?}");
        drop(context);
        pollster::block_on(sealing).unwrap();
    }

    #[test]
    fn children_that_are_to_live_on_do_wherever_their_parent_s_end_is_cut_short() {
        for commits in 0..4 {
            let commits_left = AtomicUsize::new(usize::MAX);
            let store = Arc::new(ShortStore { inner: MemoryStore::new(), commits_left });
            let core = core_over(Arc::clone(&store) as _);
            let parent = child_of(&core, ROOT);
            let children = [(); 2].map(|()| child_of(&core, &parent));
            let grandchild = child_of(&core, &children[0]);
            store.commits_left.store(commits, Ordering::SeqCst);
            let body = format!(r#"{{"token":"{parent}"}}"#);
            let path = "auth/token/revoke-orphan";
            let cut_short = ask(&core, Some(ROOT), Update, path, &body).is_err();
            store.commits_left.store(usize::MAX, Ordering::SeqCst);
            // Whoever leads next looks for what revocations left.
            core.context.load_full().unwrap().swept.store(0, Ordering::Release);
            pollster::block_on(core.run_due_jobs(Timestamp::UNIX_EPOCH)).unwrap();
            let lives = |token: &String| core.knows(TokenText::new(token));
            assert!(children.iter().chain([&grandchild]).all(lives), "{commits} commits");
            assert_eq!(lives(&parent), cut_short, "{commits} commits: it may be asked for again");
        }
    }
}
