//! The token of an answer that takes time.
//!
//! Kept as it came, in memory that is wiped, and shown again like that of a new request: so that
//! whatever ends a token of whatever kind ends what its bearer gets.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use kallisto_auth::Literal;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::watch;

use crate::api::error::{Denial, Error, Stale};
use crate::api::request::TokenText;
use crate::caller::call::{AuthorizedCall, literal};
use crate::caller::policies::CallerPolicies;
use crate::engines::kv_batch::judge::BatchJudge;
use crate::state::Core;
use crate::storage::keys::NamespaceNumber;
use crate::view::{Feed, NamespaceContext};

/// Who an answer goes to, and with what parameters it was asked for.
pub(crate) struct WatchCaller {
    token: Option<SecretString>,
    parameters: Vec<(String, Literal)>,
}

impl WatchCaller {
    /// The bearer of a request's token.
    pub(crate) fn of(call: &AuthorizedCall<'_, '_>) -> Self {
        let query = call.query_fields();
        let parameters = query.iter().map(|(name, value)| (name.clone(), literal(value)));
        Self {
            token: call.token.map(|text| SecretString::from(text.expose())),
            parameters: parameters.collect(),
        }
    }

    /// The caller that the token makes its bearer at `now`; `None` when it has ended.
    pub(in crate::engines) fn caller(
        &self,
        context: &NamespaceContext,
        now: Timestamp,
    ) -> Option<CallerPolicies> {
        let text = TokenText::new(self.token.as_ref()?.expose_secret());
        CallerPolicies::with_text(context, text, now).ok()
    }

    /// The judge of this moment of who reads at `path`, as the request did; `None` when the token ended or may not any more.
    pub(in crate::engines) fn judge<'u>(
        &self,
        context: &'u NamespaceContext,
        path: &str,
        now: Timestamp,
    ) -> Option<BatchJudge<'u>> {
        let judge = BatchJudge::for_caller(context, self.caller(context, now)?, now);
        judge.may_still_read(path, &self.parameters).then_some(judge)
    }
}

/// The view that a stream or a waiting request began with, found as long as it is that of its namespace: a seal, another unsealing or the
/// end of the namespace ends it.
pub(in crate::engines) struct ContextSlot {
    root: Arc<ArcSwapOption<NamespaceContext>>,
    number: NamespaceNumber,
    feed: Arc<Feed>,
}

impl ContextSlot {
    pub(in crate::engines) fn of(core: &Core, context: &NamespaceContext) -> Self {
        let feed = Arc::clone(&context.view.feed);
        Self { root: Arc::clone(&core.context), number: context.view.namespace_number(), feed }
    }

    pub(in crate::engines) fn load(&self) -> Option<Arc<NamespaceContext>> {
        let context = self.root.load_full()?.context_with(self.number)?;
        Arc::ptr_eq(&context.view.feed, &self.feed).then_some(context)
    }
}

/// What a stream of something besides secrets hangs on: its view, which is recent enough to judge by, and its token's right to the route.
pub(in crate::engines) struct StreamBinding {
    slot: ContextSlot,
    bearer: WatchCaller,
    /// What the token's rules are asked for.
    path: String,
    notified: watch::Receiver<()>,
}

impl StreamBinding {
    pub(in crate::engines) fn of(
        core: &Core,
        context: &NamespaceContext,
        call: &AuthorizedCall<'_, '_>,
        path: String,
    ) -> Self {
        let notified = context.view.feed.listen();
        Self { slot: ContextSlot::of(core, context), bearer: WatchCaller::of(call), path, notified }
    }

    /// Refuses a stream that would end at once. Who takes answers of any age is given single ones.
    ///
    /// # Errors
    /// [`Error::Stale`] and [`Denial::Policy`].
    pub(in crate::engines) fn check(&mut self, now: Timestamp) -> Result<(), Error> {
        if let Some(context) = self.slot.load().filter(|context| !context.is_fresh()) {
            return Err(Error::Stale(Stale {
                age_secs: context.age().map(|age| age.as_secs()),
                max_secs: context.info.max_staleness.as_secs(),
                reached: None,
            }));
        }
        if self.holds(now) { Ok(()) } else { Err(Error::Denied(Denial::Policy)) }
    }

    /// Whether the stream may go on. What comes while this looks notifies again.
    pub(in crate::engines) fn holds(&mut self, now: Timestamp) -> bool {
        self.notified.mark_unchanged();
        let context = self.slot.load().filter(|context| context.is_fresh());
        context.is_some_and(|context| self.bearer.judge(&context, &self.path, now).is_some())
    }

    /// Resolves when that is worth asking again, or with `other`.
    pub(in crate::engines) async fn changed_or(&mut self, other: impl Future<Output = ()>) {
        // The sender lives as long as the feed, which the slot holds.
        let (mut changed, mut other) = (pin!(self.notified.changed()), pin!(other));
        poll_fn(|cx| match (other.as_mut().poll(cx), changed.as_mut().poll(cx)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
    }
}
