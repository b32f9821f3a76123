//! PostgreSQL, by `tokio-postgres` over a connection of ours.
//!
//! Work of several statements is one transaction. The statements are sent as simple queries, so it is the server that tells where one ends;
//! the commit is sent once all of them succeeded, so a connection that breaks before leaves nothing behind. Work with a word of its own takes a lock
//! of the database for that word first, which ends with the transaction: whoever takes back what an unheard commit may have made waits
//! until it is over.

use std::error::Error as _;
use std::time::Duration;

use kallisto_engine::far_end::{
    FAR_END_ANSWER_BYTES_MAX, FarEndLogin, PostgresStart, SqlWork, TlsUse,
};
use kallisto_engine::{BoxFuture, FarEnd, FarEndAnswer, FarEndFailure, FarEndWork};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Connection, Error, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

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

/// Whether a transaction was refused only because another was faster: a serialization failure, a deadlock, or the internal error that
/// grants on one table answer each other with, which has no state of its own.
fn is_race(words: &str) -> bool {
    words.contains("(SQLSTATE 40001)")
        || words.contains("(SQLSTATE 40P01)")
        || words.contains("tuple concurrently updated")
}

/// Whether the server is not in a state to do anything: it runs short of something, it stops, or it is a replica. That says nothing about what
/// it was asked.
fn is_passing(words: &str) -> bool {
    ["(SQLSTATE 53", "(SQLSTATE 57P", "(SQLSTATE 58", "(SQLSTATE 25006)"]
        .iter()
        .any(|state| words.contains(state))
}

struct Postgres {
    client: Client,
    driving: JoinHandle<()>,
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
    let config = config(far_end, login, database, start);
    let (client, driving) = match far_end.tls.usage {
        TlsUse::Never => drive(config.connect_raw(stream, NoTls).await.map_err(refused)?),
        _ => {
            let name = tls::server_name(&far_end.tls, host);
            let mut connector = MakeRustlsConnect::new(tls::config(&far_end.tls)?);
            let connect =
                MakeTlsConnect::<tokio::net::TcpStream>::make_tls_connect(&mut connector, name);
            let connect = connect.map_err(|error| {
                FarEndFailure::Unreachable(format!("{host} is no name for TLS: {error}"))
            })?;
            drive(config.connect_raw(stream, connect).await.map_err(refused)?)
        }
    };
    let session = Postgres { client, driving };
    let mut beginning = BEGINNING.to_owned();
    for (name, value) in start.settings.iter().filter(|(name, _)| !is_sent_first(name)) {
        let (name, value) = (name.replace('\'', "''"), value.replace('\'', "''"));
        beginning.push_str(&format!("; SELECT set_config('{name}', '{value}', false)"));
    }
    session.client.batch_execute(&beginning).await.map_err(refused)?;
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
    /// Whether the server takes no changes: it is a standby, or read-only.
    async fn only_reads(&self) -> Result<bool, FarEndFailure> {
        let shown = self.client.simple_query("SHOW transaction_read_only").await;
        let shown = shown.map_err(|error| FarEndFailure::Unreachable(words(&error)))?;
        let is_on = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
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
                Err(FarEndFailure::NothingDone(words)) if is_race(&words) => {
                    tokio::time::sleep(RACE_PAUSE * attempt).await;
                }
                outcome => return outcome,
            }
        }
        self.sql(work, &all).await
    }

    /// Runs a transaction that first waits for these locks.
    async fn sql(&self, work: &SqlWork, locks: &[i64]) -> Result<FarEndAnswer, FarEndFailure> {
        let mut begin = "BEGIN".to_owned();
        for lock in locks {
            begin.push_str(&format!("; SELECT pg_advisory_xact_lock({lock})"));
        }
        // Nothing has happened yet, whatever comes of it.
        if let Err(error) = self.client.batch_execute(&begin).await {
            // A lock that was waited for in vain leaves a transaction that can only be ended.
            let is_ended = error.as_db_error().is_some()
                && self.client.batch_execute("ROLLBACK").await.is_ok();
            return Err(match is_ended {
                true => FarEndFailure::NothingDone(words(&error)),
                false => FarEndFailure::Unreachable(words(&error)),
            });
        }
        let mut rows = Vec::new();
        for statement in &work.statements {
            match self.statement(statement).await {
                Ok(found) if found.is_empty() => {}
                Ok(found) => rows = found,
                Err(failure) => {
                    let rolled_back = self.client.batch_execute("ROLLBACK").await;
                    return Err(match rolled_back {
                        Ok(()) => match failure {
                            FarEndFailure::Refused(words) if is_passing(&words) => {
                                FarEndFailure::Unreachable(words)
                            }
                            FarEndFailure::Refused(words) => FarEndFailure::NothingDone(words),
                            other => other,
                        },
                        // It is rolled back with its connection, which is closed now.
                        Err(_) => FarEndFailure::Unknown(failure.words().to_owned()),
                    });
                }
            }
        }
        let committed = self.client.simple_query("COMMIT").await;
        committed.map_err(|error| match error.as_db_error() {
            Some(_) => FarEndFailure::NothingDone(words(&error)),
            None => FarEndFailure::Unknown(words(&error)),
        })?;
        Ok(if rows.is_empty() { FarEndAnswer::Done } else { FarEndAnswer::Rows(rows) })
    }

    async fn statement(
        &self,
        statement: &SecretString,
    ) -> Result<Vec<Vec<Option<String>>>, FarEndFailure> {
        let messages = self.client.simple_query(statement.expose_secret()).await;
        let messages = messages.map_err(|error| match error.as_db_error() {
            Some(_) => FarEndFailure::Refused(words(&error)),
            None => FarEndFailure::Unknown(words(&error)),
        })?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for message in messages {
            let SimpleQueryMessage::Row(row) = message else { continue };
            let cells: Vec<Option<String>> =
                (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect();
            bytes += cells.iter().flatten().map(String::len).sum::<usize>() + 8 * cells.len();
            if bytes > FAR_END_ANSWER_BYTES_MAX {
                return Err(FarEndFailure::Refused("the answer is over its limit".into()));
            }
            rows.push(cells);
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
                    let answer = self.client.batch_execute("SELECT 1").await;
                    let unreachable = |error| FarEndFailure::Unreachable(words(&error));
                    answer.map(|()| FarEndAnswer::Done).map_err(unreachable)
                }
                FarEndWork::Sql(work) => self.transaction(work).await,
                FarEndWork::Redis(_) | FarEndWork::Ldap(_) | FarEndWork::Http(_) => {
                    Err(no_such_work())
                }
            }
        })
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.client.batch_execute("").await.is_ok() })
    }
}
