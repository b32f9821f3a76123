//! PostgreSQL, by `tokio-postgres` over a connection of ours.
//!
//! Work of several statements is one transaction. The statements are sent as simple queries, so it is the server that tells where one ends;
//! the commit is sent once all of them succeeded, so a connection that breaks before leaves nothing behind. Work with a word of its own takes a lock
//! of the database for that word first, which ends with the transaction: whoever takes back what an unheard commit may have made waits
//! until it is over.
//!
//! Invariants:
//! - What is told apart is told apart by the state of SQL that an error has (SQLSTATE), and not by its words, which anybody may have written.
//! - No answer is read past its limit: the session ends there, and its transaction with it.

use std::error::Error as _;
use std::time::Duration;

use kallisto_engine::far_end::{
    FAR_END_ANSWER_BYTES_MAX, FarEndLogin, PostgresStart, SqlWork, TlsUse,
};
use kallisto_engine::{BoxFuture, FarEnd, FarEndAnswer, FarEndFailure, FarEndWork};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Connection, Error, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::bounded::{AnswerAllowance, BoundedStream, TOO_LONG};
use crate::connect;
use crate::driver::{FarEndSession, lock_number, no_such_work};
use crate::tls;

/// What every session begins with: a backslash escapes in `E'…'` alone, as whoever fills statements takes for granted and as a role or a
/// database may be told not to do; a statement ends before a call may, and one that waits for a lock ends sooner.
const BEGINNING: &str = "SET standard_conforming_strings = on; \
    SET statement_timeout = '40s'; SET lock_timeout = '20s'; \
    SET idle_in_transaction_session_timeout = '45s'";

/// How often a transaction is tried that loses races for rows of the catalog, and the first pause between.
const RACES_MAX: u32 = 12;
const RACE_PAUSE: Duration = Duration::from_millis(2);
/// The word of the lock of those that lost a race.
const RACERS: &str = "kallisto";

/// The message of the internal error that grants on one table answer each other with. It has no state of its own, so that it is told by its
/// words beside the state of all internal errors.
const TUPLE_RACE: &str = "tuple concurrently updated";

/// Whether a transaction was refused only because another was faster: a serialization failure, a deadlock, or two grants on one table.
fn is_race(error: &Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        let state = db.code();
        *state == SqlState::T_R_SERIALIZATION_FAILURE
            || *state == SqlState::T_R_DEADLOCK_DETECTED
            || (*state == SqlState::INTERNAL_ERROR && db.message() == TUPLE_RACE)
    })
}

/// Whether the server is not in a state to do anything: it runs short of something, it stops, or it is a replica. That says nothing about what
/// it was asked.
fn is_passing(state: &SqlState) -> bool {
    let classes = ["53", "57P", "58"];
    *state == SqlState::READ_ONLY_SQL_TRANSACTION
        || classes.iter().any(|class| state.code().starts_with(class))
}

/// Why a transaction was not committed.
enum TransactionFailure {
    /// Only because another was faster, in the words of the database: nothing was done.
    Race(String),
    /// For another reason.
    Other(FarEndFailure),
}

impl TransactionFailure {
    /// Of a transaction that the database refused, and that has ended.
    fn refused(error: &Error) -> Self {
        match is_race(error) {
            true => Self::Race(words(error)),
            false => Self::Other(FarEndFailure::NothingDone(words(error))),
        }
    }
}

impl From<TransactionFailure> for FarEndFailure {
    fn from(failure: TransactionFailure) -> Self {
        match failure {
            TransactionFailure::Race(words) => Self::NothingDone(words),
            TransactionFailure::Other(failure) => failure,
        }
    }
}

struct Postgres {
    client: Client,
    driving: JoinHandle<()>,
    allowance: AnswerAllowance,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

/// Opens a session with the first host that answers, and that writes where that is asked for.
pub(crate) async fn open(
    far_end: &FarEnd,
    login: &FarEndLogin,
    (database, start): (&str, &PostgresStart),
    until: Instant,
) -> Result<Box<dyn FarEndSession>, FarEndFailure> {
    let open = |host, port| open_at(far_end, login, (host, port), (database, start));
    let session = connect::open_first(far_end, until, open).await?;
    Ok(Box::new(session))
}

async fn open_at(
    far_end: &FarEnd,
    login: &FarEndLogin,
    (host, port): (&str, u16),
    (database, start): (&str, &PostgresStart),
) -> Result<Postgres, FarEndFailure> {
    let stream = connect::connect_to(far_end, host, port).await?;
    let (stream, allowance) = BoundedStream::new(stream, FAR_END_ANSWER_BYTES_MAX);
    let config = config(far_end, login, database, start);
    let (client, driving) = match far_end.tls.usage {
        TlsUse::Never => drive(config.connect_raw(stream, NoTls).await.map_err(refused)?),
        _ => {
            let name = tls::server_name(&far_end.tls, host);
            let mut connector = MakeRustlsConnect::new(tls::config(&far_end.tls)?);
            let connect =
                MakeTlsConnect::<BoundedStream<TcpStream>>::make_tls_connect(&mut connector, name);
            let connect = connect.map_err(|error| {
                FarEndFailure::Unreachable(format!("{host} is no name for TLS: {error}"))
            })?;
            drive(config.connect_raw(stream, connect).await.map_err(refused)?)
        }
    };
    let session = Postgres { client, driving, allowance };
    let mut beginning = BEGINNING.to_owned();
    for (name, value) in start.settings.iter().filter(|(name, _)| !is_sent_first(name)) {
        let (name, value) = (name.replace('\'', "''"), value.replace('\'', "''"));
        beginning.push_str(&format!("; SELECT set_config('{name}', '{value}', false)"));
    }
    session.asking().batch_execute(&beginning).await.map_err(refused)?;
    if start.needs_writable && session.only_reads().await? {
        return Err(FarEndFailure::Unreachable(format!("{host}:{port} only reads")));
    }
    Ok(session)
}

/// Whether a setting is a part of the login itself.
fn is_sent_first(name: &str) -> bool {
    matches!(name, "application_name" | "options")
}

fn config(far_end: &FarEnd, login: &FarEndLogin, database: &str, start: &PostgresStart) -> Config {
    let mut config = Config::new();
    config.user(&login.user).password(login.password.expose_secret());
    config.application_name("kallisto");
    for (name, value) in &start.settings {
        match name.as_str() {
            "application_name" => config.application_name(value),
            "options" => config.options(value),
            _ => &mut config,
        };
    }
    if !database.is_empty() {
        config.dbname(database);
    }
    config.ssl_mode(match far_end.tls.usage {
        TlsUse::Never => SslMode::Disable,
        TlsUse::WhereOffered => SslMode::Prefer,
        TlsUse::Unverified | TlsUse::AuthorityVerified | TlsUse::Verified => SslMode::Require,
    });
    config
}

fn drive<S, T>(opened: (Client, Connection<S, T>)) -> (Client, JoinHandle<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsStream + Unpin + Send + 'static,
{
    let (client, connection) = opened;
    // What ends it, its client hears.
    (client, tokio::spawn(async move { drop(connection.await) }))
}

/// A session that was not opened.
fn refused(error: Error) -> FarEndFailure {
    match error.as_db_error() {
        // A password that is wrong.
        Some(db) if db.code().code() == "28P01" => FarEndFailure::LoginRefused(words(&error)),
        // The rest of class 28 is invalid authorization, 3D an invalid database name, 53 and 57 are what passes.
        Some(db) if db.code().code().starts_with("28") || db.code().code().starts_with("3D") => {
            FarEndFailure::LoginBarred(words(&error))
        }
        _ => FarEndFailure::Unreachable(words(&error)),
    }
}

/// The words of the database, or of the driver and what caused it.
fn words(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("{}: {} (SQLSTATE {})", db.severity(), db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    // A chain of causes has an end; a text has a limit.
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) && text.len() < 512 {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    text
}

impl Postgres {
    /// The client, which may read one more answer.
    fn asking(&self) -> &Client {
        self.allowance.renew();
        &self.client
    }

    /// What went wrong over this session, in words.
    fn words(&self, error: &Error) -> String {
        match self.allowance.is_spent() {
            true => TOO_LONG.to_owned(),
            false => words(error),
        }
    }

    /// Whether the server takes no changes: it is a standby, or read-only.
    async fn only_reads(&self) -> Result<bool, FarEndFailure> {
        let shown = self.asking().simple_query("SHOW transaction_read_only").await;
        let shown = shown.map_err(|error| FarEndFailure::Unreachable(self.words(&error)))?;
        let is_on = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.try_get(0).is_ok_and(|shown| shown == Some("on")));
        Ok(shown.iter().any(is_on))
    }

    /// Runs a transaction; once more when it lost a race for a row of the catalog, which two grants on one table do.
    async fn transaction(&self, work: &SqlWork) -> Result<FarEndAnswer, FarEndFailure> {
        let own: Vec<i64> = Some(&work.exclusive)
            .filter(|word| !word.is_empty())
            .map(|word| lock_number(word).cast_signed())
            .into_iter()
            .collect();
        // Those that lost a race go one after another from then on.
        let all: Vec<i64> =
            own.iter().copied().chain([lock_number(RACERS).cast_signed()]).collect();
        for attempt in 1..RACES_MAX {
            match self.sql(work, if attempt == 1 { &own } else { &all }).await {
                Err(TransactionFailure::Race(_)) => {
                    tokio::time::sleep(RACE_PAUSE * attempt).await;
                }
                outcome => return outcome.map_err(FarEndFailure::from),
            }
        }
        self.sql(work, &all).await.map_err(FarEndFailure::from)
    }

    /// Runs a transaction that first waits for these locks.
    async fn sql(&self, work: &SqlWork, locks: &[i64]) -> Result<FarEndAnswer, TransactionFailure> {
        let mut begin = "BEGIN".to_owned();
        for lock in locks {
            begin.push_str(&format!("; SELECT pg_advisory_xact_lock({lock})"));
        }
        // Nothing has happened yet, whatever comes of it.
        if let Err(error) = self.asking().batch_execute(&begin).await {
            let words = self.words(&error);
            // A lock that was waited for in vain leaves a transaction that can only be ended.
            let is_ended = error.as_db_error().is_some()
                && self.asking().batch_execute("ROLLBACK").await.is_ok();
            return Err(match is_ended {
                true => TransactionFailure::refused(&error),
                false => TransactionFailure::Other(FarEndFailure::Unreachable(words)),
            });
        }
        let mut rows = Vec::new();
        for statement in &work.statements {
            match self.statement(statement).await {
                Ok(found) if found.is_empty() => {}
                Ok(found) => rows = found,
                Err(error) => return Err(self.roll_back(&error).await),
            }
        }
        let committed = self.asking().simple_query("COMMIT").await;
        committed.map_err(|error| match error.as_db_error() {
            Some(_) => TransactionFailure::refused(&error),
            None => TransactionFailure::Other(FarEndFailure::Unknown(self.words(&error))),
        })?;
        Ok(if rows.is_empty() { FarEndAnswer::Done } else { FarEndAnswer::Rows(rows) })
    }

    /// Ends a transaction of which a statement failed, and says what came of it.
    async fn roll_back(&self, error: &Error) -> TransactionFailure {
        let words = self.words(error);
        let rolled_back = self.asking().batch_execute("ROLLBACK").await;
        let failure = match error.code() {
            Some(state) if rolled_back.is_ok() => match is_passing(state) {
                true => FarEndFailure::Unreachable(words),
                false => return TransactionFailure::refused(error),
            },
            // It is rolled back with its connection, which is closed now.
            _ => FarEndFailure::Unknown(words),
        };
        TransactionFailure::Other(failure)
    }

    /// Runs statements; the rows of all of them.
    async fn statement(&self, text: &SecretString) -> Result<Vec<Vec<Option<String>>>, Error> {
        let messages = self.asking().simple_query(text.expose_secret()).await?;
        let mut rows = Vec::new();
        for message in messages {
            let SimpleQueryMessage::Row(row) = message else { continue };
            let cells = (0..row.len()).map(|at| Ok(row.try_get(at)?.map(str::to_owned)));
            rows.push(cells.collect::<Result<_, Error>>()?);
        }
        Ok(rows)
    }
}

impl FarEndSession for Postgres {
    fn run<'a>(
        &'a mut self,
        work: &'a FarEndWork,
    ) -> BoxFuture<'a, Result<FarEndAnswer, FarEndFailure>> {
        Box::pin(async move {
            match work {
                FarEndWork::Check => {
                    let answer = self.asking().batch_execute("SELECT 1").await;
                    let unreachable = |error| FarEndFailure::Unreachable(self.words(&error));
                    answer.map(|()| FarEndAnswer::Done).map_err(unreachable)
                }
                _ => self.transaction(work.sql().ok_or_else(no_such_work)?).await,
            }
        })
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.asking().batch_execute("").await.is_ok() })
    }
}

#[cfg(test)]
mod tests;
