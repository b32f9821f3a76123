//! Ending tokens whose time has come, and those whose parent is gone.
//!
//! A token that has expired is refused wherever it is shown; the job only clears it away, and ends
//! what hangs on it. What is due the view keeps by time, so a run looks at nothing else.

use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::revoke::{SweepGuard, revoke_all};
use crate::api::error::Error;
use crate::records::token::TokenHash;
use crate::tokens::cubbyhole;
use crate::view::NamespaceContext;

/// Most tokens of a namespace that are ended in one run; the rest waits for the next.
const DUE_TOKENS_MAX: usize = 1 << 16;

/// Ends the tokens of a namespace whose time has come; a bounded number, the rest waits for the next call.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses; the next call tries again.
pub(crate) async fn end_due(context: &NamespaceContext, now: Timestamp) -> Result<(), Error> {
    revoke_all(context, context.view.tokens.due(now, DUE_TOKENS_MAX)).await
}

/// Takes up revocations that were cut short, once a term: whoever led before may have been at one. In the same term one asks
/// for it that ends early ([`super::revoke`]).
///
/// # Errors
/// As [`take_up_revocations`]; the next call tries again.
pub(crate) async fn take_up_if_cut_short(context: &NamespaceContext) -> Result<(), Error> {
    let term = context.store.term();
    // Before the work: what is cut short during it asks for more.
    if context.swept.swap(term, Ordering::AcqRel) == term {
        return Ok(());
    }
    let sweep = SweepGuard::mark(context);
    take_up_revocations(context).await?;
    sweep.done();
    Ok(())
}

/// Takes up revocations that were cut short: children whose parent is gone, and what gone tokens
/// kept in their cubbyholes.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses.
pub(crate) async fn take_up_revocations(context: &NamespaceContext) -> Result<(), Error> {
    let lives_above = |number, parent: &TokenHash| {
        context.context_with(number).is_some_and(|context| context.view.tokens.contains(parent))
    };
    revoke_all(context, context.view.tokens.without_parent(lives_above)).await?;
    cubbyhole::forget_gone(context).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kallisto_auth::{Operation, Path};
    use kallisto_store::{Batch, MemoryStore};
    use secrecy::ExposeSecret;

    use super::*;
    use crate::api::request::{Request, TokenText};
    use crate::api::response::Response;
    use crate::platform::server_info::ServerInfo;
    use crate::state::Core;
    use crate::storage::keys;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn ask(core: &Core, token: &str, path: &str, body: &str) -> Result<Response, Error> {
        let request = Request {
            token: Some(TokenText::new(token)),
            body: body.as_bytes(),
            ..Request::new(Operation::Update, Path::decode(path).unwrap(), NOW)
        };
        pollster::block_on(core.handle(&request))
    }

    fn make_token(core: &Core, parent: &str) -> String {
        let Ok(Response::Logical(made)) = ask(core, parent, "auth/token/create", "{}") else {
            panic!("a token is made")
        };
        let auth = crate::api::json::parse_object(&made.auth).unwrap();
        auth["client_token"].as_str().unwrap().to_owned()
    }

    /// A core with a token whose revocation was cut short behind its first batch, and the token below the one below it.
    fn cut_short() -> (Core, String, String) {
        let core = Core::new(Arc::new(MemoryStore::new()), ServerInfo::default());
        let root = pollster::block_on(core.initialize_dev(None, NOW)).unwrap().root_token;
        let parent = make_token(&core, root.expose_secret());
        let child = make_token(&core, &make_token(&core, &parent));
        pollster::block_on(core.run_due_jobs(NOW)).unwrap();
        let context = core.context.load_full().unwrap();
        let tag = context.view.cluster().unwrap().token_key.hash(&parent);
        let mut batch = Batch::new();
        batch.delete(keys::token(tag.as_ref()));
        pollster::block_on(context.store.commit(batch)).unwrap();
        (core, parent, child)
    }

    fn lives(core: &Core, token: &str) -> bool {
        core.knows(TokenText::new(token))
    }

    #[test]
    fn who_leads_next_ends_what_was_left_even_if_it_led_before() {
        let (core, _, child) = cut_short();
        pollster::block_on(core.run_due_jobs(NOW)).unwrap();
        assert!(lives(&core, &child), "the same term: nobody looks");
        // It has led, and leads again: what another leader left is looked for once more.
        let context = core.context.load_full().unwrap();
        context.swept.store(context.store.term() + 6, Ordering::Release);
        pollster::block_on(core.run_due_jobs(NOW)).unwrap();
        assert!(!lives(&core, &child));
    }

    #[test]
    fn a_sweep_that_ends_early_is_taken_up_by_the_next_run() {
        let (core, _, child) = cut_short();
        drop(SweepGuard::mark(&core.context.load_full().unwrap()));
        pollster::block_on(core.run_due_jobs(NOW)).unwrap();
        assert!(!lives(&core, &child));
    }

    #[test]
    fn revoking_a_token_that_is_gone_ends_what_hung_on_it() {
        let (core, parent, child) = cut_short();
        let root = core.context.load_full().unwrap();
        root.swept.store(0, Ordering::Release);
        drop(root);
        let caller = make_token(&core, &child);
        let body = format!(r#"{{"token":"{parent}"}}"#);
        // Its bearer goes with the rest; the answer was asked for before.
        ask(&core, &caller, "auth/token/revoke", &body).unwrap();
        assert!(!lives(&core, &child) && !lives(&core, &caller));
    }
}
