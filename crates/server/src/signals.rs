//! What ends a server, and what makes it reload.
//!
//! SIGTERM, SIGINT and SIGQUIT stop it gracefully, SIGHUP has it reload what `ServerArgs::run` lists. SIGUSR1 and SIGUSR2 have no meaning
//! here and are logged: scripts send them to other servers of this kind, and a signal that is not caught kills. SIGPIPE is
//! ignored by the runtime of the language. SIGXFSZ is caught and means nothing either: the write that went over a limit of the size of files
//! (`ulimit -f`) fails and says so.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Events that may wait to be heard.
const EVENTS_MAX: usize = 16;

/// Why a server ends.
pub(super) enum ServerEnd {
    /// A signal asked for it.
    Signal(&'static str),
    /// It can not serve any more, and `-exit-on-core-shutdown` asks for an end then.
    CoreDown(&'static str),
    /// Its storage can not be trusted any more.
    Failure(String),
}

enum SignalEvent {
    Reload,
    End(ServerEnd),
    /// A signal of this name, which has no meaning here.
    Nothing(&'static str),
}

/// The signals that are heard.
struct Kinds {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user_1: Signal,
    user_2: Signal,
}

impl Kinds {
    /// What the next one means.
    async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.terminate.recv() => SignalEvent::End(ServerEnd::Signal("SIGTERM")),
            _ = self.interrupt.recv() => SignalEvent::End(ServerEnd::Signal("SIGINT")),
            _ = self.quit.recv() => SignalEvent::End(ServerEnd::Signal("SIGQUIT")),
            _ = self.hangup.recv() => SignalEvent::Reload,
            _ = self.user_1.recv() => SignalEvent::Nothing("SIGUSR1"),
            _ = self.user_2.recv() => SignalEvent::Nothing("SIGUSR2"),
        }
    }
}

/// Listens for signals from its making on, so that none is lost while the server starts.
pub(super) struct Signals {
    events: Receiver<SignalEvent>,
    sender: SyncSender<SignalEvent>,
}

impl Signals {
    /// Registers for every signal that somebody may send on purpose.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn register() -> io::Result<Self> {
        let (sender, events) = sync_channel(EVENTS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut kinds = runtime.block_on(async {
            // Caught from here on, whether somebody listens or not.
            drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
            Ok::<_, io::Error>(Kinds {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                quit: signal(SignalKind::quit())?,
                hangup: signal(SignalKind::hangup())?,
                user_1: signal(SignalKind::user_defined1())?,
                user_2: signal(SignalKind::user_defined2())?,
            })
        })?;
        let tell = sender.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async {
                loop {
                    let event = kinds.next().await;
                    if let SignalEvent::Nothing(name) = event {
                        tracing::info!(signal = name, "a signal without a meaning here");
                        continue;
                    }
                    // A full queue holds an end or enough reloads already.
                    if tell.try_send(event).is_err() {
                        tracing::debug!("a signal was dropped");
                    }
                }
            });
        })?;
        Ok(Self { events, sender })
    }

    /// A way to end the server because its storage failed.
    pub(super) fn failure_hook(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let sender = self.sender.clone();
        move |why| {
            tracing::error!(why, "the storage failed");
            let _ = sender.try_send(SignalEvent::End(ServerEnd::Failure(why.to_owned())));
        }
    }

    /// A way to end the server because it can not serve any more.
    pub(super) fn core_hook(&self) -> impl Fn(&'static str) + Send + 'static {
        let sender = self.sender.clone();
        // A full queue holds an end already.
        move |why| drop(sender.try_send(SignalEvent::End(ServerEnd::CoreDown(why))))
    }

    /// Waits for the end, calling `reload` meanwhile whenever it is asked for.
    pub(super) fn wait(&self, reload: impl Fn()) -> ServerEnd {
        loop {
            match self.events.recv() {
                Ok(SignalEvent::Reload) => reload(),
                Ok(SignalEvent::Nothing(_)) => {}
                Ok(SignalEvent::End(end)) => {
                    if let ServerEnd::Signal(name) = end {
                        tracing::info!(signal = name, "asked to stop");
                    }
                    return end;
                }
                Err(_) => {
                    return ServerEnd::Failure("nobody is left to say when to stop".to_owned());
                }
            }
        }
    }
}
