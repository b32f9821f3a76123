//! Ending tokens whose time has come, and those whose parent is gone.
//!
//! A token that has expired is refused wherever it is shown; the tick only clears it away, and ends
//! what hangs on it. What is due the view keeps by time, so a tick looks at nothing else.

use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::entry::Hash;
use super::revoke::revoke_all;
use crate::cubbyhole;
use crate::error::Error;
use crate::kv::upgrade;
use crate::namespace;
use crate::state::{Core, Unsealed};
use crate::{transit, versions};

/// Most tokens ended in one tick; the rest waits for the next.
const TICK_TOKENS_MAX: usize = 1 << 16;

impl Core {
    /// Does what time brings: to be called about once a second with the time.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the store refuses; the next tick tries again.
    pub async fn tick(&self, now: Timestamp) -> Result<(), Error> {
        let Some(unsealed) = self.unsealed.load_full() else { return Ok(()) };
        if !self.store.leads() {
            return Ok(());
        }
        crate::peers::ensure_identity(self, &unsealed).await?;
        versions::note(&unsealed, now).await?;
        namespace::sweep(&unsealed).await?;
        let mut sites = unsealed.sites_below();
        sites.insert(0, unsealed);
        for site in &sites {
            if !site.swept.load(Ordering::Acquire) {
                take_up_revocations(site).await?;
                upgrade::take_up(site, now)?;
                site.swept.store(true, Ordering::Release);
            }
            transit::rotate_due(site, now).await;
            revoke_all(site, site.view.tokens.due(now, TICK_TOKENS_MAX)).await?;
        }
        if let Some(root) = sites.first() {
            crate::sys::rotate_due(self, root, now).await?;
            crate::sys::clean_up(self, root).await?;
        }
        self.logins.tick(&sites, now).await
    }
}

/// Takes up revocations that a restart cut short: children whose parent is gone, and what gone tokens
/// kept in their cubbyholes.
///
/// # Errors
/// [`Error::Unavailable`] when the store refuses.
pub(crate) async fn take_up_revocations(unsealed: &Unsealed) -> Result<(), Error> {
    let lives_above = |number, parent: &Hash| {
        unsealed.site_with(number).is_some_and(|site| site.view.tokens.lives(parent))
    };
    revoke_all(unsealed, unsealed.view.tokens.without_parent(lives_above)).await?;
    cubbyhole::forget_gone(unsealed).await
}
