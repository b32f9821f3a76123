//! What ends a server, and what makes it reload.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::signal::unix::{SignalKind, signal};

/// Events that may wait to be heard.
const EVENTS_MAX: usize = 16;

/// Why a server ends.
pub(super) enum End {
    /// A signal asked for it.
    Signal(&'static str),
    /// Its storage can not be trusted any more.
    Failure(String),
}

enum Event {
    Reload,
    End(End),
}

/// Listens for signals from its making on, so that none is lost while the server starts.
pub(super) struct Signals {
    events: Receiver<Event>,
    sender: SyncSender<Event>,
}

impl Signals {
    /// Registers for SIGINT, SIGTERM and SIGHUP.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn register() -> io::Result<Self> {
        let (sender, events) = sync_channel(EVENTS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut terminate, mut interrupt, mut hangup) = runtime.block_on(async {
            Ok::<_, io::Error>((
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::hangup())?,
            ))
        })?;
        let tell = sender.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async {
                loop {
                    let event = tokio::select! {
                        _ = terminate.recv() => Event::End(End::Signal("SIGTERM")),
                        _ = interrupt.recv() => Event::End(End::Signal("SIGINT")),
                        _ = hangup.recv() => Event::Reload,
                    };
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
            let _ = sender.try_send(Event::End(End::Failure(why.to_owned())));
        }
    }

    /// Waits for the end, calling `reload` meanwhile whenever it is asked for.
    pub(super) fn wait(&self, reload: impl Fn()) -> End {
        loop {
            match self.events.recv() {
                Ok(Event::Reload) => reload(),
                Ok(Event::End(end)) => {
                    if let End::Signal(name) = end {
                        tracing::info!(signal = name, "asked to stop");
                    }
                    return end;
                }
                Err(_) => return End::Failure("nobody is left to say when to stop".to_owned()),
            }
        }
    }
}
