//! One connection's state, and the way from a command to its handler.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use jiff::Timestamp;
use kallisto_core::admission::Cost;
use kallisto_core::{Denial, EngineKind, Error};
use secrecy::SecretString;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use zeroize::Zeroize;

use super::commands::{self, RespVerb};
use super::hashes::HashPart;
use super::keys::TtlUnit;
use super::reply::Replies;
use super::transaction;
use super::turn_writes::TurnWrites;
use super::wire::{Gone, RespWire};
use super::{COMMANDS_PER_PASS, RespShared};
use crate::http::admit::READ;

/// The word for a client that is nobody.
pub(super) const NO_AUTH: &str = "NOAUTH";
/// The word for what a client may not do.
const NO_PERMISSION: &str = "NOPERM";
/// What a write is answered with that only the leader can do: writes of this protocol are not passed on to it.
const NO_LEADER: &str = "this server does not lead: write to the one that does";
/// Reads of this protocol that are paid for together, as one over HTTP.
const READS_PER_PASS: u32 = COMMANDS_PER_PASS as u32;
/// Most that is paid at once, in reads over HTTP. Others have had their turns between the requests of a command that took more.
const OWED_MAX: Cost = 64;
/// Words that begin lines of an HTTP request and no command. A page in somebody's browser, or a server that can be
/// made to fetch addresses, can have a request sent here, whose body would be commands: Redis hangs up on these too.
const OF_HTTP: [&[u8]; 2] = [b"POST", b"Host:"];

/// One connection.
pub(super) struct RespSession {
    pub(super) shared: Arc<RespShared>,
    /// What writes of this worker's connections join.
    pub(super) writes: Arc<TurnWrites>,
    pub(super) remote: SocketAddr,
    pub(super) token: Option<SecretString>,
    /// Which of the configured mounts.
    pub(super) selected: usize,
    /// The engine at that mount, as the last command found it.
    pub(super) engine: EngineKind,
    /// When the batch of commands arrived.
    pub(super) now: Timestamp,
    pub(super) id: u64,
    pub(super) name: Vec<u8>,
    pub(super) is_over: bool,
    /// Whether `MULTI` was said, and neither `EXEC` nor `DISCARD` since.
    pub(super) is_in_transaction: bool,
    /// How often the server was sealed.
    sealings: watch::Receiver<u64>,
    /// Room for the path of a read.
    pub(super) path: String,
    /// Requests that were sent to the core, one after another.
    pub(super) asked: AtomicUsize,
    /// What commands took and nothing was paid for, in reads of this protocol.
    owed: AtomicU32,
}

/// The arguments of a command, its name first.
#[derive(Clone, Copy)]
pub(super) struct CommandArguments<'a> {
    input: &'a [u8],
    ranges: &'a [std::ops::Range<usize>],
}

impl<'a> CommandArguments<'a> {
    pub(super) const fn new(input: &'a [u8], ranges: &'a [std::ops::Range<usize>]) -> Self {
        Self { input, ranges }
    }

    pub(super) const fn len(self) -> usize {
        self.ranges.len()
    }

    pub(super) fn get(self, at: usize) -> Option<&'a [u8]> {
        self.ranges.get(at).map(|range| &self.input[range.clone()])
    }

    /// Those from `at` on.
    pub(super) fn from(self, at: usize) -> impl Iterator<Item = &'a [u8]> {
        self.ranges.iter().skip(at).map(move |range| &self.input[range.clone()])
    }

    /// An argument that has to be text.
    pub(super) fn text(self, at: usize) -> Result<&'a str, CommandFailure> {
        text(self.get(at).unwrap_or_default())
    }

    /// An argument that has to be a whole number; `None` for none, or one that does not fit.
    pub(super) fn integer(self, at: usize) -> Option<i64> {
        integer(self.get(at)?)
    }

    /// An option's name in upper case.
    pub(super) fn word(self, at: usize) -> String {
        self.get(at).map(upper).unwrap_or_default()
    }
}

fn is_of_http(name: &[u8]) -> bool {
    OF_HTTP.iter().any(|word| word.eq_ignore_ascii_case(name))
}

/// A key, field or value as text: JSON holds nothing else.
pub(super) fn text(bytes: &[u8]) -> Result<&str, CommandFailure> {
    std::str::from_utf8(bytes).map_err(|_| CommandFailure::plain("value is not valid UTF-8"))
}

/// A number as Redis reads it, in the one form that it is written in: no plus sign, blank or leading zero.
pub(super) fn integer(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn upper(bytes: &[u8]) -> String {
    // No command or option is longer.
    const WORD_BYTES_MAX: usize = 64;
    let bytes = &bytes[..bytes.len().min(WORD_BYTES_MAX)];
    String::from_utf8_lossy(bytes).to_ascii_uppercase()
}

/// Why a command failed: a word that programs read, and text for people.
#[derive(Debug)]
pub(super) struct CommandFailure {
    pub(super) word: &'static str,
    pub(super) text: String,
}

impl CommandFailure {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { word: "ERR", text: text.into() }
    }

    pub(super) fn syntax() -> Self {
        Self::plain("syntax error")
    }

    pub(super) fn no_integer() -> Self {
        Self::plain("value is not an integer or out of range")
    }

    fn write(&self, replies: &mut Replies) {
        replies.error(self.word, &self.text);
    }

    /// The word for an error of the core.
    pub(super) const fn word_of(error: &Error) -> &'static str {
        match error {
            Error::Denied(Denial::BadToken) => NO_AUTH,
            Error::Denied(_) => NO_PERMISSION,
            Error::Sealed => "LOADING",
            // What a replica of Redis says that is told to serve nothing stale.
            Error::Stale(_) => "MASTERDOWN",
            // And what it says of a write.
            Error::NotLeader => "READONLY",
            Error::Conflict | Error::Busy(_) => "TRYAGAIN",
            Error::Invalid(_)
            | Error::InvalidSilently
            | Error::Expected(_)
            | Error::CasMismatch
            | Error::TooLarge(_)
            | Error::UnsupportedMedia(_)
            | Error::NotFound
            | Error::NoNamespace
            | Error::NoRoute(_)
            | Error::UnsupportedPath
            | Error::UnsupportedOperation
            | Error::OverQuota(_)
            | Error::TooManyTries { .. }
            | Error::Unavailable(_)
            | Error::Unaudited
            | Error::Internal(_) => "ERR",
        }
    }

    /// A refused login in Redis's words; what else is wrong keeps its own.
    pub(super) fn of_login(error: Error) -> Self {
        match error {
            Error::Denied(_)
            | Error::Invalid(_)
            | Error::Expected(_)
            | Error::NotFound
            | Error::UnsupportedPath => Self {
                word: "WRONGPASS",
                text: "invalid username-password pair or user is disabled.".into(),
            },
            error @ (Error::InvalidSilently
            | Error::CasMismatch
            | Error::TooLarge(_)
            | Error::UnsupportedMedia(_)
            | Error::NoNamespace
            | Error::NoRoute(_)
            | Error::UnsupportedOperation
            | Error::Sealed
            | Error::Conflict
            | Error::Stale(_)
            | Error::NotLeader
            | Error::OverQuota(_)
            | Error::TooManyTries { .. }
            | Error::Busy(_)
            | Error::Unavailable(_)
            | Error::Unaudited
            | Error::Internal(_)) => error.into(),
        }
    }
}

impl From<Error> for CommandFailure {
    /// The one place where the core's errors become Redis's.
    fn from(error: Error) -> Self {
        let text = match &error {
            Error::NotLeader => NO_LEADER.to_owned(),
            other => other.to_string(),
        };
        Self { word: Self::word_of(&error), text }
    }
}

/// What a database is taken for, by what is mounted there. An engine that is not there is found missing by the core, after its decision; one that
/// keeps no secrets has no path that begins with `data/`, so that no command is a request to it.
pub(super) fn engine_of(mounted: Option<EngineKind>) -> EngineKind {
    mounted.filter(|engine| engine.keeps_secrets()).unwrap_or(EngineKind::KV_V2)
}

impl RespSession {
    pub(super) fn new(
        shared: Arc<RespShared>,
        writes: Arc<TurnWrites>,
        remote: SocketAddr,
    ) -> Self {
        let id = shared.next_client_id();
        let (token, name) = (None, Vec::new());
        let engine = EngineKind::KV_V2;
        let now = shared.clock.now();
        let (sealings, path) = (shared.core.sealings(), String::new());
        Self {
            shared,
            writes,
            remote,
            token,
            selected: 0,
            engine,
            now,
            id,
            name,
            is_over: false,
            is_in_transaction: false,
            sealings,
            path,
            asked: AtomicUsize::new(0),
            owed: AtomicU32::new(0),
        }
    }

    /// Counts a request to the core that a command makes, whose cost is paid with the next turn. A read costs as much as a command of
    /// those that a turn is paid for together; what costs more over HTTP costs the same here.
    pub(super) fn owe(&self, cost: Cost) {
        self.owe_reads(if cost > READ { cost.saturating_mul(READS_PER_PASS) } else { cost });
    }

    /// Counts so many reads, or what costs about as much.
    pub(super) fn owe_reads(&self, reads: u32) {
        // Relaxed: one task counts.
        let owed = self.owed.load(Ordering::Relaxed);
        self.owed.store(owed.saturating_add(reads), Ordering::Relaxed);
    }

    /// What has to be paid, in reads over HTTP; what is less than one is left for the next time.
    pub(super) fn take_owed(&mut self) -> Cost {
        let owed = self.owed.get_mut();
        let whole = *owed / READS_PER_PASS;
        *owed %= READS_PER_PASS;
        whole.min(OWED_MAX)
    }

    /// The path of the selected mount, with its ending slash.
    pub(super) fn mount(&self) -> &str {
        self.shared.mounts.get(self.selected).map_or("", String::as_str)
    }

    /// Looks up what is mounted now.
    pub(super) fn find_engine(&mut self) {
        self.engine = engine_of(self.shared.core.engine_at(self.mount()));
    }

    /// Runs one command and writes its reply.
    ///
    /// # Errors
    /// [`Gone`] when the client takes no replies; what else fails is a reply.
    pub(super) async fn run<S>(
        &mut self,
        wire: &mut RespWire<S>,
        arguments: CommandArguments<'_>,
    ) -> Result<(), Gone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let outcome = match self.shared.tracer.get().cloned() {
            None => self.run_command(wire, arguments).await,
            // Boxed, so that the future of a command that nobody records stays small.
            Some(tracer) => Box::pin(self.run_traced(&tracer, wire, arguments)).await,
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(Stopped::Failed(failure)) => {
                failure.write(&mut wire.replies);
                Ok(())
            }
            Err(Stopped::Gone(gone)) => Err(gone),
        }
    }

    /// Runs one command and writes its reply, unless it fails: the failure is the caller's to write, who may have it recorded too.
    pub(super) async fn run_command<S>(
        &mut self,
        wire: &mut RespWire<S>,
        arguments: CommandArguments<'_>,
    ) -> Result<(), Stopped>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Some(name) = arguments.get(0) else { return Ok(()) };
        if is_of_http(name) {
            self.shared.warn_of_http(self.remote);
            return Err(Gone.into());
        }
        let Some(command) = commands::find(name) else {
            let shown = upper(name).to_ascii_lowercase();
            return Err(CommandFailure::plain(format!("unknown command '{shown}'")).into());
        };
        if !command.takes(arguments.len()) {
            let name = command.name;
            let text = format!("wrong number of arguments for '{name}' command");
            return Err(CommandFailure::plain(text).into());
        }
        // Also where it is refused: what comes after it is none of the transaction.
        let is_in_transaction = self.is_in_transaction;
        self.is_in_transaction &= !command.verb.ends_transaction();
        let is_sealed = self.shared.core.is_sealed();
        if is_sealed {
            self.forget();
        }
        self.forget_if_sealed();
        if self.token.is_none() && !command.is_open() {
            return Err(match is_sealed {
                true => CommandFailure::from(Error::Sealed),
                false => CommandFailure { word: NO_AUTH, text: "Authentication required.".into() },
            }
            .into());
        }
        transaction::admit(command.verb, is_in_transaction)?;
        let mut outcome = self.dispatch(wire, command.verb, arguments).await;
        if let Err(Stopped::Failed(failure)) = &mut outcome
            && failure.word == NO_AUTH
            && !command.is_open()
        {
            // Boxed, so that the future of a command of somebody known stays small.
            failure.word = Box::pin(self.settle_no_auth()).await;
        }
        outcome
    }

    /// The word for a token that was taken for none: it was ended and is forgotten, or it is nothing at this mount, which is what a policy
    /// could say as well.
    pub(super) async fn settle_no_auth(&mut self) -> &'static str {
        if self.has_live_token().await {
            return NO_PERMISSION;
        }
        self.forget();
        NO_AUTH
    }

    /// Forgets who asks if the server was sealed since, though it may be unsealed again.
    pub(super) fn forget_if_sealed(&mut self) {
        if self.sealings.has_changed().unwrap_or_default() {
            self.sealings.mark_unchanged();
            self.forget();
            // Where others' scans stood are names of secrets too.
            self.shared.cursors.forget();
        }
    }

    /// Forgets who asks, and what was asked last.
    pub(super) fn forget(&mut self) {
        self.token = None;
        self.path.zeroize();
    }

    async fn dispatch<S>(
        &mut self,
        wire: &mut RespWire<S>,
        verb: RespVerb,
        arguments: CommandArguments<'_>,
    ) -> Result<(), Stopped>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let replies = &mut wire.replies;
        match verb {
            RespVerb::Get => self.get(replies, arguments).await?,
            RespVerb::Set => self.set(replies, arguments).await?,
            RespVerb::MGet => return self.get_many(wire, arguments).await,
            RespVerb::MSet => Box::pin(self.set_many(replies, arguments)).await?,
            RespVerb::Del => self.delete_many(replies, arguments).await?,
            RespVerb::Exists => self.count_existing(replies, arguments).await?,
            RespVerb::Ttl => self.ttl(replies, arguments, TtlUnit::Seconds).await?,
            RespVerb::PTtl => self.ttl(replies, arguments, TtlUnit::Milliseconds).await?,
            RespVerb::Type => self.kind(replies, arguments).await?,
            RespVerb::StrLen => self.length(replies, arguments).await?,
            RespVerb::HGet => self.hash_get(replies, arguments).await?,
            RespVerb::HMGet => self.hash_get_many(replies, arguments).await?,
            RespVerb::HExists => self.hash_exists(replies, arguments).await?,
            RespVerb::HLen => self.hash_length(replies, arguments).await?,
            RespVerb::HSet => {
                let added = self.hash_set(arguments).await?;
                replies.integer(added as i64);
            }
            RespVerb::HMSet => {
                self.hash_set(arguments).await?;
                replies.ok();
            }
            RespVerb::HGetAll => self.hash_all(replies, arguments).await?,
            RespVerb::HKeys => self.hash_parts(replies, arguments, HashPart::Names).await?,
            RespVerb::HVals => self.hash_parts(replies, arguments, HashPart::Values).await?,
            RespVerb::HDel => self.hash_delete(replies, arguments).await?,
            RespVerb::Keys => self.keys(replies, arguments).await?,
            RespVerb::Scan => self.scan(replies, arguments).await?,
            RespVerb::Auth => self.authenticate(replies, arguments).await?,
            RespVerb::Hello => self.hello(replies, arguments).await?,
            RespVerb::Ping => self.ping(replies, arguments),
            RespVerb::Echo => replies.bulk(arguments.get(1).unwrap_or_default()),
            RespVerb::Select => self.select(replies, arguments)?,
            RespVerb::Client => self.client(replies, arguments)?,
            RespVerb::Command => commands::describe(replies, arguments)?,
            RespVerb::Info => self.info(replies),
            RespVerb::Multi => {
                self.is_in_transaction = true;
                replies.ok();
            }
            RespVerb::Discard => replies.ok(),
            RespVerb::Exec => return Err(transaction::aborted().into()),
            RespVerb::Reset => self.reset(replies),
            RespVerb::Quit => {
                self.is_over = true;
                replies.ok();
            }
        }
        Ok(())
    }
}

/// Why a command ended early.
pub(super) enum Stopped {
    /// It failed, which is a reply.
    Failed(CommandFailure),
    /// Nobody reads replies any more.
    Gone(Gone),
}

impl From<CommandFailure> for Stopped {
    fn from(failure: CommandFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Gone> for Stopped {
    fn from(gone: Gone) -> Self {
        Self::Gone(gone)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Hands a command to `take`, whose words are apart by one blank.
    pub(in crate::resp) fn with_arguments<T>(
        words: &str,
        take: impl FnOnce(CommandArguments<'_>) -> T,
    ) -> T {
        let mut ranges = Vec::new();
        let mut start = 0;
        for word in words.split(' ') {
            ranges.push(start..start + word.len());
            start += word.len() + 1;
        }
        take(CommandArguments::new(words.as_bytes(), &ranges))
    }

    #[test]
    fn a_number_has_one_form() {
        for (text, number) in [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text.as_bytes()), Some(number));
        }
        for text in ["", "+1", " 1", "01", "-0", "1.0", "abc", "9223372036854775808", "\u{661}"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }
}
