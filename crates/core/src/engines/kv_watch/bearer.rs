//! The token of an answer that takes time.
//!
//! Kept as it came, in memory that is wiped, and shown again like that of a new request: so that
//! whatever ends a token of whatever kind ends what its bearer gets.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use kallisto_auth::Operation;
use secrecy::{ExposeSecret, SecretString};

use crate::api::request::TokenText;
use crate::caller::call::AuthorizedCall;
use crate::caller::policies::CallerPolicies;
use crate::engines::kv_batch::judge::BatchJudge;
use crate::state::Core;
use crate::storage::keys::NamespaceNumber;
use crate::view::NamespaceContext;

/// Who an answer goes to.
pub(crate) struct WatchCaller(Option<SecretString>);

impl WatchCaller {
    /// The bearer of a request's token.
    pub(crate) fn of(call: &AuthorizedCall<'_, '_>) -> Self {
        Self(call.token.map(|text| SecretString::from(text.expose())))
    }

    /// The caller that the token makes its bearer at `now`; `None` when it has ended.
    pub(in crate::engines) fn caller(
        &self,
        context: &NamespaceContext,
        now: Timestamp,
    ) -> Option<CallerPolicies> {
        let text = TokenText::new(self.0.as_ref()?.expose_secret());
        CallerPolicies::with_text(context, text, now).ok()
    }

    /// Whether its bearer may read at `path`, at `now`.
    pub(crate) fn may_read(&self, context: &NamespaceContext, path: &str, now: Timestamp) -> bool {
        let caller = self.caller(context, now);
        caller.is_some_and(|caller| {
            BatchJudge::for_caller(context, caller, now).may(Operation::Read, path)
        })
    }
}

/// Where what answers a namespace is found as long as it is unsealed and there.
pub(in crate::engines) struct ContextSlot {
    root: Arc<ArcSwapOption<NamespaceContext>>,
    number: NamespaceNumber,
}

impl ContextSlot {
    pub(in crate::engines) fn of(core: &Core, context: &NamespaceContext) -> Self {
        Self { root: Arc::clone(&core.context), number: context.view.namespace_number() }
    }

    pub(in crate::engines) fn load(&self) -> Option<Arc<NamespaceContext>> {
        self.root.load_full()?.context_with(self.number)
    }
}
