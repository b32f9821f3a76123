//! Seals that open by themselves: a key in a file or the environment, and another server's transit
//! engine.

mod key_watch;
mod static_key;
mod token_renewal;
mod transit;

use std::sync::Arc;

use kallisto_command::error::Error;
use kallisto_core::Core;

use key_watch::KeyWatch;
pub(super) use static_key::{SealKey, StaticKeySeal};
use token_renewal::TokenRenewal;
pub(super) use transit::{TransitSettings, TransitUnsealer};

/// What `seal "transit"` has done while the server runs.
#[derive(Clone)]
pub(super) struct TransitUpkeep {
    pub(super) settings: Arc<TransitSettings>,
    /// Whether its token is renewed.
    pub(super) renews_token: bool,
}

/// The threads that do it. They end when this is dropped.
pub(super) struct RunningUpkeep {
    _renewal: Option<TokenRenewal>,
    _watch: KeyWatch,
}

impl TransitUpkeep {
    /// Starts it for the server of this core.
    ///
    /// # Errors
    /// That there is no thread for it.
    pub(super) fn start(self, core: &Arc<Core>) -> Result<RunningUpkeep, Error> {
        let renewal = self.renews_token.then(|| TokenRenewal::start(self.settings));
        Ok(RunningUpkeep { _renewal: renewal.transpose()?, _watch: KeyWatch::start(core)? })
    }
}
