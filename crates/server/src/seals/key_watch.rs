//! Has the unseal key wrapped anew when the key of `seal "transit"` was rotated while the server runs.
//!
//! A server asks at each start too ([`kallisto_core::AutoSeal::is_outdated`]), where only one that is alone can write the answer down.
//! Of a cluster the leader does, from this thread.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kallisto_command::error::Error;
use kallisto_core::Core;

/// How often the other server is asked which version of the key is in use.
const LOOK: Duration = Duration::from_secs(10 * 60);

/// The thread that asks. It ends when this is dropped, behind a request that is under way.
pub(crate) struct KeyWatch {
    _stop: SyncSender<()>,
}

impl KeyWatch {
    /// Starts to ask.
    ///
    /// # Errors
    /// That there is no thread for it.
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self, Error> {
        let core = Arc::downgrade(core);
        let (stop, stopped) = sync_channel::<()>(1);
        let run = move || {
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let Some(core) = Weak::upgrade(&core) else { return };
                if let Err(error) = pollster::block_on(core.renew_seal_wrapping()) {
                    tracing::warn!(%error, "the unseal key stays under the seal's old key for now");
                }
            }
        };
        // Nobody waits for its end: it may be asking a server that does not answer, and holds nothing that has to be closed.
        match std::thread::Builder::new().name("seal-key".into()).spawn(run) {
            Ok(_) => Ok(Self { _stop: stop }),
            Err(error) => Err(Error::usage(format!("no thread to watch the seal's key: {error}"))),
        }
    }
}
