//! The Redis protocol, for clients that speak it: secrets as hashes of fields.
//!
//! A connection says who it is with a token (`AUTH token`) or a user's password, and every command is
//! a request to the core like any other: the same decision, limits and durability. A key is a
//! path inside a configured mount; `GET` and `SET` are the field `value` of a secret, the `H` commands all
//! its fields. Commands that Redis has and this has not get Redis's own refusal.
//!
//! Invariants:
//! - Nothing but saying who one is runs before it was said.
//! - What a connection holds is bounded: a command by [`parse::COMMAND_BYTES_MAX`] and the budget all
//!   connections share, replies by what is sent at once.
//! - Replies that are ready leave in the same turn of the worker, behind those who are served in it too: clients that sleep are
//!   woken by the first, and get the others while they are awake.
//! - Who was known is not once the server is sealed, and nothing of what was asked stays in memory.
//! - A command that cannot be parsed ends the connection after an error, since where the next one
//!   starts is lost; whatever else fails is a reply.

mod commands;
mod connection;
mod cursors;
#[cfg(test)]
mod error_reference;
pub(crate) mod glob;
mod hashes;
mod keys;
pub mod parse;
mod reply;
mod secret;
mod session;
mod set_run;
mod strings;
mod traced;
mod transaction;
mod turn_writes;
pub(crate) mod unescape;
mod wire;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use kallisto_core::Core;
use kallisto_core::admission::{Admission, Flow, SharedAmount};
use kallisto_traces::Tracer;
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};

use crate::buffer_pool;
use crate::clock::WallClock;
use crate::gate::{Gate, GateClient};
use crate::http::admit::{admit_commands, settle};
use crate::stop;
use crate::warning_rate::WarningRate;
use crate::write_backpressure::WriteBackpressure;
use cursors::Cursors;
use parse::{CommandSender, ParsedInput, Ranges, SeenPart};
use session::{CommandArguments, RespSession};
use set_run::PlainSet;
pub(crate) use turn_writes::TurnWrites;
use wire::{Filled, Gone, RespWire};

/// Time a client has to say who it is, and to send the rest of a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two warnings of HTTP.
const WARNING_PAUSE: Duration = Duration::from_secs(60);
/// Commands that are answered before others get their turn, if others wait: as long as a few requests
/// over HTTP take.
const COMMANDS_PER_PASS: usize = 16;

/// What every connection of a listener shares.
#[derive(Clone)]
pub struct RespService(Arc<RespShared>);

struct RespShared {
    core: Arc<Core>,
    clock: Arc<dyn WallClock>,
    /// Paths of the mounts behind the databases, each with its ending slash.
    mounts: Vec<String>,
    /// The path of the login method behind `AUTH user password`.
    userpass: String,
    cursors: Cursors,
    /// What records spans of commands.
    tracer: OnceLock<Arc<Tracer>>,
    clients: AtomicU64,
    /// Warnings of HTTP.
    http_warnings: WarningRate,
}

impl RespService {
    /// The core that answers.
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    /// What clients make the server hold.
    fn admission(&self) -> &Arc<Admission> {
        self.0.core.admission()
    }

    /// A service over `core` that reads the time from `clock`. Database `n` is the mount `mounts[n]`;
    /// `AUTH user password` logs in at `auth/<userpass>/`.
    pub fn new(
        core: Arc<Core>,
        clock: Arc<dyn WallClock>,
        mounts: &[String],
        userpass: &str,
    ) -> Self {
        let with_slash = |mount: &String| format!("{}/", mount.trim_matches('/'));
        Self(Arc::new(RespShared {
            core,
            clock,
            mounts: mounts.iter().map(with_slash).collect(),
            userpass: userpass.trim_matches('/').to_owned(),
            cursors: Cursors::default(),
            tracer: OnceLock::new(),
            clients: AtomicU64::new(0),
            http_warnings: WarningRate::new(WARNING_PAUSE),
        }))
    }

    /// The same, which records spans of its commands; the first word counts.
    pub fn with_tracer(self, tracer: Arc<Tracer>) -> Self {
        let _ = self.0.tracer.set(tracer);
        self
    }

    /// Serves one connection to its end, or until `stopped` says so between two commands.
    pub(crate) async fn serve<S>(
        self,
        stream: S,
        remote: SocketAddr,
        (gate, writes): (Arc<Gate>, Arc<TurnWrites>),
        stopped: watch::Receiver<bool>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let admission = self.admission();
        let flow = Flow::of_address(remote.ip());
        let shares = (&admission.body_bytes, flow);
        let mut connection = RespConnection {
            wire: RespWire::new(
                stream,
                Arc::clone(&self.0.core),
                shares.0.nothing(flow),
                WriteBackpressure::new(admission, flow),
            ),
            session: RespSession::new(Arc::clone(&self.0), writes, remote),
            shares,
            admission,
            gate: &gate,
            wanted: 1,
            seen: SeenPart::default(),
            silence: Box::pin(sleep(COMMAND_TIMEOUT)),
            is_quiet: true,
        };
        let mut stop = Box::pin(stop::said(stopped));
        let mut sealing = Box::pin(stop::changed(self.0.core.sealings()));
        // One that came to an end by itself, either side's; nothing is left to say.
        while let Ok(next) = connection.turn(stop.as_mut(), sealing.as_mut()).await {
            if let AfterTurn::Forget(sealings) = next {
                sealing.set(stop::changed(sealings));
            }
        }
        // Nobody gets out of paying by leaving.
        gate.spend(flow, connection.session.take_owed());
    }
}

/// A connection while it is served.
struct RespConnection<'c, S> {
    wire: RespWire<S>,
    session: RespSession,
    /// Where its commands are held, and for whom.
    shares: (&'c Arc<SharedAmount>, Flow),
    admission: &'c Admission,
    gate: &'c Gate,
    /// How much the next command takes at least, from the front of the input.
    wanted: usize,
    /// How far it was looked at already.
    seen: SeenPart,
    /// When it is looked at whether anything was said; who goes on talking moves no timer.
    silence: Pin<Box<Sleep>>,
    /// Whether no whole command came since then.
    is_quiet: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> RespConnection<'_, S> {
    /// Waits for input and answers every whole command in it.
    async fn turn(
        &mut self,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        mut sealing: Pin<&mut impl Future<Output = Sealings>>,
    ) -> Result<AfterTurn, Gone> {
        let filled = poll_fn(|context| {
            // What else may happen is looked at only when there is nothing to read.
            let is_known = self.session.token.is_some();
            if let Poll::Ready(filled) = self.wire.poll_fill(self.wanted, is_known, context) {
                return Poll::Ready(filled.map(WakeReason::Filled));
            }
            if stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Gone));
            }
            if let Poll::Ready(sealings) = sealing.as_mut().poll(context) {
                return Poll::Ready(Ok(WakeReason::Sealed(sealings)));
            }
            self.poll_silence(context)
        });
        let filled = match filled.await? {
            WakeReason::Filled(filled) => filled,
            // A part of a command may be a secret, and nobody is left whose command it would be.
            WakeReason::Sealed(_) if self.wire.has_input() => return Err(Gone),
            WakeReason::Sealed(sealings) => {
                self.session.forget_if_sealed();
                self.wire.forget();
                return Ok(AfterTurn::Forget(sealings));
            }
        };
        if filled == Filled::Refused {
            self.wire.replies.error("ERR", "too many bytes of commands are held; try again later");
            self.wire.flush().await?;
            return Err(Gone);
        }
        let mut input = self.wire.take_input();
        let next = self.serve_commands(&mut input).await;
        self.wire.return_input(input, self.shares.0.nothing(self.shares.1));
        self.wire.let_others_answer().await;
        let sent = self.wire.flush().await;
        if self.session.is_over {
            return Err(Gone);
        }
        sent?;
        self.wanted = next?;
        Ok(AfterTurn::Turn)
    }

    /// Looks whether the client was silent for too long; ready with [`Gone`] when it was.
    fn poll_silence<T>(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Gone>> {
        while self.silence.as_mut().poll(context).is_ready() {
            // A client that is known may be silent between two commands, while there is room.
            let is_known = self.session.token.is_some();
            let may_be = self.wanted == 1 && !self.admission.connections.is_crowded();
            if !is_known || (self.is_quiet && !may_be) {
                self.session.shared.core.metrics().listener.timeouts.count();
                return Poll::Ready(Err(Gone));
            }
            self.is_quiet = true;
            self.silence.as_mut().reset(Instant::now() + COMMAND_TIMEOUT);
        }
        Poll::Pending
    }

    /// Answers the whole commands that `input` starts with and takes them off it. Returns how much the
    /// next one takes at least.
    async fn serve_commands(&mut self, input: &mut bytes::BytesMut) -> Result<usize, Gone> {
        self.session.now = self.session.shared.clock.now();
        self.session.forget_if_sealed();
        if let Ok(Some(wanted)) = parse::look_on(self.sender(), input, &mut self.seen) {
            return Ok(wanted);
        }
        self.seen = SeenPart::default();
        let mut ranges = Ranges::new();
        let (mut used, mut count, mut has_secrets) = (0, 0, false);
        let next = loop {
            if self.session.is_over || used == input.len() {
                break Ok(1);
            }
            if count % COMMANDS_PER_PASS == 0 {
                self.pass().await?;
            }
            let left = COMMANDS_PER_PASS - count % COMMANDS_PER_PASS;
            let (length, gets) = self.answer_gets(&input[used..], &mut ranges, left);
            used += length;
            count += gets;
            if gets > 0 {
                self.relieve().await?;
                continue;
            }
            let parsed = match parse::parse_of(self.sender(), &input[used..], &mut ranges) {
                Ok(ParsedInput::Quoted(length)) => {
                    parse::unquote(&mut input[used..used + length], &mut ranges)
                        .map(|()| ParsedInput::Command(length))
                }
                other => other,
            };
            match parsed {
                Ok(ParsedInput::Command(length) | ParsedInput::Quoted(length)) => {
                    has_secrets = true;
                    if let Some((together, bytes)) =
                        self.answer_sets(&input[used..], length, &mut ranges).await?
                    {
                        // They wait for the next pass, as many as there are, and those after them for one more.
                        for _ in 1..together.div_ceil(COMMANDS_PER_PASS) {
                            self.pass().await?;
                        }
                        count += together.min(left);
                        used += bytes;
                        continue;
                    }
                    count += 1;
                    let arguments = CommandArguments::new(&input[used..], &ranges);
                    // What was read before it is written down before it.
                    self.wire.settle().await;
                    self.session.find_engine();
                    self.session.run(&mut self.wire, arguments).await?;
                    self.session.now = self.session.shared.clock.now();
                    self.relieve().await?;
                    used += length;
                }
                Ok(ParsedInput::More(wanted)) => {
                    self.seen = SeenPart::of(&ranges);
                    break Ok(wanted);
                }
                Err(malformed) => {
                    let text = format!("Protocol error: {}", malformed.text());
                    self.wire.replies.error("ERR", &text);
                    break Err(Gone);
                }
            }
        };
        self.is_quiet &= used == 0;
        // It may have held a token, or a secret; names that were asked for are neither.
        if has_secrets {
            buffer_pool::wipe(&mut input[..used]);
        }
        bytes::Buf::advance(input, used);
        next
    }

    /// Who sends commands: a part of one is held and looked at before anybody is asked, so a stranger's is small.
    const fn sender(&self) -> CommandSender {
        match self.session.token {
            Some(_) => CommandSender::Known,
            None => CommandSender::Stranger,
        }
    }

    /// Answers the `GET`s that `input` starts with, at most so many, as far as memory has the answers; how many bytes
    /// and how many commands that were.
    fn answer_gets(&mut self, input: &[u8], ranges: &mut Ranges, most: usize) -> (usize, usize) {
        let shared = Arc::clone(&self.session.shared);
        let (mut used, mut count) = (0, 0);
        if self.session.token.is_none() || self.session.is_in_transaction {
            return (used, count);
        }
        let Some(reads) = shared.core.fast_reads() else { return (used, count) };
        let mut bearer = None;
        while count < most && !self.wire.has_many() {
            let Ok(ParsedInput::Command(length)) = parse::parse(&input[used..], ranges) else {
                break;
            };
            let Some(key) = strings::key_of_get(CommandArguments::new(&input[used..], ranges))
            else {
                break;
            };
            if bearer.is_none() {
                bearer = self.session.find_bearer(&reads);
            }
            let Some(bearer) = &bearer else { break };
            if !self.session.get_at_once(bearer, &mut self.wire, key) {
                break;
            }
            used += length;
            count += 1;
        }
        (used, count)
    }

    /// Answers the plain `SET`s that `input` starts with, the first of them of this length, if they may be written together
    /// and with those of others; how many commands and how many bytes that were. If not, `ranges` are the first
    /// command's as before.
    async fn answer_sets(
        &mut self,
        input: &[u8],
        length: usize,
        ranges: &mut Ranges,
    ) -> Result<Option<(usize, usize)>, Gone> {
        let Some(first) = PlainSet::of(input, ranges) else { return Ok(None) };
        if !self.session.may_write_together() {
            return Ok(None);
        }
        let mut following = Ranges::new();
        let (run, bytes) = set_run::follow(first, &input[length..], &mut following);
        // What was read before it is written down before it.
        self.wire.settle().await;
        self.session.find_engine();
        // Boxed, so that the future of a connection that writes one after another stays small.
        Box::pin(self.session.set_run(&mut self.wire, &run)).await;
        self.session.now = self.session.shared.clock.now();
        self.relieve().await?;
        Ok(Some((run.len(), length + bytes)))
    }

    /// Sends the replies if there are many, and waits for the turn that was paid with them.
    async fn relieve(&mut self) -> Result<(), Gone> {
        let has_waited = self.wire.relieve().await?;
        let bytes = std::mem::take(&mut self.wire.unpaid);
        if bytes > 0 {
            settle(self.admission, self.gate, self.shares.1, bytes).await;
        }
        if has_waited {
            self.session.now = self.session.shared.clock.now();
        }
        Ok(())
    }

    /// Waits for the turn of the next commands.
    async fn pass(&mut self) -> Result<(), Gone> {
        let owed = self.session.take_owed();
        let (flow, token) = (self.shares.1, &self.session.token);
        let known = || match token {
            Some(token) => flow.with_token(token.expose_secret()),
            None => flow,
        };
        let asker = match token {
            Some(token) => GateClient::new(flow, token.expose_secret()),
            None => GateClient::of_address(flow),
        };
        match admit_commands(self.admission, self.gate, (asker, owed), known).await {
            Ok(()) => Ok(()),
            Err(_) => {
                self.wire.replies.error("TRYAGAIN", "too much is under way; try again");
                self.wire.flush().await?;
                Err(Gone)
            }
        }
    }
}

/// How often the server was sealed, for those who wait for the next time.
type Sealings = watch::Receiver<u64>;

/// Why a connection that waited goes on.
enum WakeReason {
    Filled(Filled),
    /// The server was sealed.
    Sealed(Sealings),
}

/// What comes after a turn.
enum AfterTurn {
    /// The next one.
    Turn,
    /// The same, and somebody waits for the next sealing.
    Forget(Sealings),
}

impl RespShared {
    /// Says that somebody speaks HTTP here; not more often than once in a while.
    fn warn_of_http(&self, remote: SocketAddr) {
        if let Some(held_back) = self.http_warnings.pass(self.clock.instant()) {
            tracing::warn!(
                %remote,
                held_back,
                "an HTTP request came to a listener of the Redis protocol, perhaps made by a page or server that \
                 was made to: its connection was closed"
            );
        }
    }

    fn next_client_id(&self) -> u64 {
        // Counts; orders nothing.
        self.clients.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use jiff::Timestamp;
    use kallisto_core::{EngineSet, Operation, Path, Request, ServerInfo, TokenText, set_engines};
    use kallisto_store::MemoryStore;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;
    use crate::clock::SystemClock;
    use crate::wake_queue::WakeQueue;

    async fn ask(client: &mut DuplexStream, command: &str, reply: &str) {
        client.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let mut got = vec![0; reply.len() + 2];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), format!("{reply}\r\n"), "{command}");
    }

    /// What `gate` let pass of an address in this turn.
    fn passed(gate: &Gate, flow: Flow) -> usize {
        const TURN: usize = 64;
        TURN - (0..TURN).take_while(|_| gate.try_pass(GateClient::of_address(flow), 1)).count()
    }

    #[tokio::test]
    async fn a_command_pays_for_what_it_asks_by_its_kind() {
        set_engines(EngineSet {
            engines: &[kallisto_engines::ENGINES, kallisto_auth_methods::METHODS],
            identity_oidc: &kallisto_engines::IDENTITY_OIDC,
        });
        let core = Arc::new(Core::new(Arc::new(MemoryStore::new()), ServerInfo::default()));
        let root = Some("root".to_owned().into());
        core.initialize_dev(root, Timestamp::UNIX_EPOCH).await.unwrap();
        let enabling = Path::literal("sys/auth/userpass").unwrap();
        let enabling = Request {
            token: Some(TokenText::new("root")),
            body: br#"{"type":"userpass"}"#,
            ..Request::new(Operation::Update, enabling, Timestamp::UNIX_EPOCH)
        };
        core.handle(&enabling).await.unwrap();
        let mounts = ["secret".to_owned()];
        let service = RespService::new(core, Arc::new(SystemClock), &mounts, "userpass");
        let gate = Gate::new(Arc::default());
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let flow = Flow::of_address(remote.ip());
        let shared = (Arc::clone(&gate), TurnWrites::new(WakeQueue::here()));
        let (_stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(service.serve(server, remote, shared, stopped));
        ask(&mut client, "AUTH root", "+OK").await;
        let sixteen: String = (0..16).map(|at| format!(" k{at} v")).collect();
        let (sixteen, gone) = (format!("MSET{sixteen}"), format!("EXISTS{}", " none".repeat(32)));
        let refused = "-WRONGPASS invalid username-password pair or user is disabled.";
        let cases: [(&str, &str, usize); 9] = [
            ("PING", "+PONG", 0),
            ("SET a 1", "+OK", 0),
            ("GET a", "$1\r\n1", 0),
            ("HSET h f v", ":1", 4),
            ("KEYS *", "*2\r\n$1\r\na\r\n$1\r\nh", 4),
            ("DEL a h none", ":2", 8),
            (&sixteen, "+OK", 1),
            (&gone, ":0", 2),
            ("AUTH nobody guess", refused, 8),
        ];
        for (command, reply, beyond_a_read) in cases {
            gate.rest();
            ask(&mut client, command, reply).await;
            // What comes next pays for it.
            ask(&mut client, "PING", "+PONG").await;
            assert_eq!(passed(&gate, flow), 2 + beyond_a_read, "{command}");
        }
        gate.rest();
        ask(&mut client, "HSET h f v", ":1").await;
        gate.rest();
        drop(client);
        serving.await.unwrap();
        assert_eq!(passed(&gate, flow), 4, "who leaves pays too");
    }
}
