//! The Redis protocol, for clients that speak it: secrets as hashes of fields.
//!
//! A connection says who it is with a token (`AUTH token`) or a user's password, and every command is
//! a request at the core's door like any other: the same decision, limits and durability. A key is a
//! path inside a configured mount; `GET` and `SET` are the field `value` of a secret, the `H` commands all
//! its fields. Commands that Redis has and this has not get Redis's own refusal.
//!
//! Invariants:
//! - Nothing but saying who one is runs before it was said.
//! - What a connection holds is bounded: a command by [`parse::COMMAND_BYTES_MAX`] and the budget all
//!   connections share, replies by what is sent at once.
//! - A command that cannot be parsed ends the connection after an error, since where the next one
//!   starts is lost; whatever else fails is a reply.

mod commands;
mod connection;
mod cursors;
mod glob;
mod hashes;
mod keys;
pub mod parse;
mod reply;
mod secret;
mod session;
mod strings;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kallisto_core::Core;
use kallisto_core::metrics::Metrics;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::budget::Budget;
use crate::clock::Clock;
use crate::limits::BODIES_BYTES_MAX;
use cursors::Cursors;
use parse::{Parsed, Ranges};
use session::{Arguments, Session};
use wire::{Filled, Gone, Wire};

/// Time a client has to say who it is, and to send the rest of a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// What every connection of a listener shares.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

struct Shared {
    core: Arc<Core>,
    clock: Arc<dyn Clock>,
    /// Paths of the mounts behind the databases, each with its ending slash.
    mounts: Vec<String>,
    /// The path of the login method behind `AUTH user password`.
    userpass: String,
    inputs: Arc<Budget>,
    cursors: Cursors,
    clients: AtomicU64,
}

impl Service {
    /// What listeners count.
    pub(crate) fn counters(&self) -> &Arc<Metrics> {
        self.0.core.metrics()
    }

    /// A service over `core` that reads the time from `clock`. Database `n` is the mount `mounts[n]`;
    /// `AUTH user password` logs in at `auth/<userpass>/`.
    pub fn new(core: Arc<Core>, clock: Arc<dyn Clock>, mounts: &[String], userpass: &str) -> Self {
        let with_slash = |mount: &String| format!("{}/", mount.trim_matches('/'));
        Self(Arc::new(Shared {
            core,
            clock,
            mounts: mounts.iter().map(with_slash).collect(),
            userpass: userpass.trim_matches('/').to_owned(),
            inputs: Budget::new(BODIES_BYTES_MAX),
            cursors: Cursors::default(),
            clients: AtomicU64::new(0),
        }))
    }

    /// Serves one connection to its end, or until `stopped` says so between two commands.
    pub(crate) async fn serve<S>(
        self,
        stream: S,
        remote: SocketAddr,
        mut stopped: watch::Receiver<bool>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut wire = Wire::new(stream, self.0.inputs.share());
        let mut session = Session::new(Arc::clone(&self.0), remote);
        let mut wanted = 1;
        // One that came to an end by itself, either side's; nothing is left to say.
        while let Ok(next) = self.turn(&mut wire, &mut session, &mut stopped, wanted).await {
            wanted = next;
        }
    }

    /// Waits for input and answers every whole command in it. Returns how much the next one takes at
    /// least, from the front of the input.
    async fn turn<S>(
        &self,
        wire: &mut Wire<S>,
        session: &mut Session,
        stopped: &mut watch::Receiver<bool>,
        wanted: usize,
    ) -> Result<usize, Gone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let waits = session.token.is_some() && wanted == 1;
        let filled = tokio::select! {
            _ = stopped.wait_for(|&stop| stop) => return Err(Gone),
            filled = wire.fill(wanted) => filled?,
            // A client that is known may be silent between two commands.
            () = tokio::time::sleep(COMMAND_TIMEOUT), if !waits => return Err(Gone),
        };
        if filled == Filled::Refused {
            wire.replies.error("ERR", "too many bytes of commands are held; try again later");
            wire.flush().await?;
            return Err(Gone);
        }
        let mut input = wire.take_input();
        let next = answer(wire, session, &mut input).await;
        wire.return_input(input, self.0.inputs.share());
        let sent = wire.flush().await;
        if session.is_over { Err(Gone) } else { sent.and(next) }
    }
}

/// Answers the whole commands that `input` starts with and takes them off it.
async fn answer<S>(
    wire: &mut Wire<S>,
    session: &mut Session,
    input: &mut bytes::BytesMut,
) -> Result<usize, Gone>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    session.refresh();
    let mut ranges = Ranges::new();
    let mut used = 0;
    let next = loop {
        if session.is_over {
            break Ok(1);
        }
        match parse::parse(&input[used..], &mut ranges) {
            Ok(Parsed::Command(length)) => {
                let arguments = Arguments::new(&input[used..], &ranges);
                session.run(wire, arguments).await?;
                wire.relieve().await?;
                used += length;
            }
            Ok(Parsed::More(wanted)) => break Ok(wanted),
            Err(malformed) => {
                wire.replies.error("ERR", &format!("Protocol error: {}", malformed.text()));
                break Err(Gone);
            }
        }
    };
    bytes::Buf::advance(input, used);
    next
}

impl Shared {
    fn next_client_id(&self) -> u64 {
        // Counts; orders nothing.
        self.clients.fetch_add(1, Ordering::Relaxed) + 1
    }
}
