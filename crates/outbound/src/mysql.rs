//! MySQL and MariaDB, by `mysql_async`.
//!
//! The server tells where a statement of a text ends. There are no transactions for what makes users, so a failure may leave half of the work
//! done; who asked takes it back. Work with a word of its own takes a named lock of the server first, which ends with the session: a statement that still runs
//! although we no longer hear of it holds it.
//!
//! Invariant: no answer is read past its limit. A row is at most as long as a packet may be, and rows are counted as they come; the session
//! ends where there are too many.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use kallisto_engine::far_end::{FAR_END_ANSWER_BYTES_MAX, FarEndLogin, FarEndTls, SqlWork, TlsUse};
use kallisto_engine::{BoxFuture, FarEnd, FarEndAnswer, FarEndFailure, FarEndWork};
use mysql_async::prelude::Queryable;
use mysql_async::{ClientIdentity, Conn, DriverError, Error, OptsBuilder, Row, SslOpts, Value};
use secrecy::ExposeSecret;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::bounded::TOO_LONG;
use crate::connect;
use crate::driver::{FarEndSession, lock_number, no_such_work};
use crate::tls;

/// Longest that a named lock is waited for, in seconds.
const LOCK_SECS: u64 = 20;

/// What every session begins with: a backslash escapes in literals, as whoever fills statements takes for granted.
const BEGINNING: &str =
    "SET SESSION sql_mode = REPLACE(@@SESSION.sql_mode, 'NO_BACKSLASH_ESCAPES', '')";

/// How long a session takes to say goodbye, at the most.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

struct Mysql {
    conn: OwnConn,
    is_closed: bool,
}

impl Drop for Mysql {
    /// Closes the connection soon: the driver by itself would read what is left of an answer first, however long that takes.
    fn drop(&mut self) {
        // One that has ended is not read again.
        let patience = if self.is_closed { Duration::ZERO } else { GOODBYE_MAX };
        // Where no runtime is, the connection breaks off, which the server sees too.
        if let (Some(conn), Ok(runtime)) = (self.conn.0.take(), Handle::try_current()) {
            runtime.spawn(async move { drop(timeout(patience, conn.disconnect()).await) });
        }
    }
}

/// The connection of a session, until the session is dropped.
struct OwnConn(Option<Conn>);

impl Deref for OwnConn {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        self.0.as_ref().expect("it is taken when it is dropped")
    }
}

impl DerefMut for OwnConn {
    fn deref_mut(&mut self) -> &mut Conn {
        self.0.as_mut().expect("it is taken when it is dropped")
    }
}

pub(crate) async fn open(
    far_end: &FarEnd,
    login: &FarEndLogin,
    database: &str,
) -> Result<Box<dyn FarEndSession>, FarEndFailure> {
    let mut last = FarEndFailure::Unreachable("there is no host to connect to".into());
    for (host, port) in &far_end.hosts {
        let unreachable = |why: &str| FarEndFailure::Unreachable(format!("{host}:{port}: {why}"));
        // The driver resolves names by itself; it is told those addresses that were judged.
        let addresses = match connect::addresses(far_end, host, *port).await {
            Ok(addresses) => addresses,
            Err(failure) => {
                last = failure;
                continue;
            }
        };
        let database = Some(database).filter(|database| !database.is_empty());
        let opts = OptsBuilder::default()
            .ip_or_hostname(host.clone())
            .tcp_port(*port)
            .resolved_ips(Some(addresses))
            .user(Some(login.user.clone()))
            .pass(Some(login.password.expose_secret().to_owned()))
            .db_name(database.map(str::to_owned))
            .prefer_socket(false)
            .max_allowed_packet(Some(FAR_END_ANSWER_BYTES_MAX))
            .wait_timeout(Some(28_800))
            .stmt_cache_size(0)
            .init(vec![BEGINNING])
            .ssl_opts(ssl(&far_end.tls));
        let opening = async {
            match Conn::new(opts.clone()).await {
                Err(Error::Driver(DriverError::NoClientSslFlagFromServer))
                    if far_end.tls.usage == TlsUse::WhereOffered =>
                {
                    Conn::new(opts.ssl_opts(None)).await
                }
                opened => opened,
            }
        };
        match timeout(connect::patience(far_end), opening).await {
            Ok(Ok(conn)) => {
                let conn = OwnConn(Some(conn));
                return Ok(Box::new(Mysql { conn, is_closed: false }));
            }
            Ok(Err(error)) => last = refused(&error),
            Err(_) => last = unreachable("no connection in time"),
        }
    }
    Err(last)
}

fn ssl(settings: &FarEndTls) -> Option<SslOpts> {
    let (checks_authority, checks_name) = match settings.usage {
        TlsUse::Never => return None,
        TlsUse::WhereOffered | TlsUse::Unverified => (false, false),
        TlsUse::AuthorityVerified => (true, false),
        TlsUse::Verified => (true, true),
    };
    let mut ssl = SslOpts::default()
        .with_danger_accept_invalid_certs(!checks_authority)
        .with_danger_skip_domain_validation(!checks_name);
    if !settings.authorities.trim().is_empty() {
        let authorities = settings.authorities.clone().into_bytes();
        ssl = ssl.with_root_certs(vec![authorities.into()]).with_disable_built_in_roots(true);
    }
    let name = tls::server_name(settings, "");
    if !name.is_empty() {
        ssl = ssl.with_danger_tls_hostname_override(Some(name.to_owned()));
    }
    if let Some(key) = settings.private_key.as_ref().filter(|_| !settings.certificate.is_empty()) {
        let chain = settings.certificate.clone().into_bytes();
        let key = key.expose_secret().as_bytes().to_vec();
        ssl = ssl.with_client_identity(Some(ClientIdentity::new(chain.into(), key.into())));
    }
    Some(ssl)
}

fn refused(error: &Error) -> FarEndFailure {
    match error {
        // Access denied, with the password that was given.
        Error::Server(server) if matches!(server.code, 1045 | 1698) => {
            FarEndFailure::LoginRefused(words(error))
        }
        // No access to the database, no such database, host not allowed.
        Error::Server(server) if matches!(server.code, 1044 | 1049 | 1130) => {
            FarEndFailure::LoginBarred(words(error))
        }
        _ => FarEndFailure::Unreachable(words(error)),
    }
}

/// Whether the server is not in a state to do anything: too many connections, it stops, or it is a replica or read-only.
const fn is_passing(code: u16) -> bool {
    matches!(code, 1040 | 1053 | 1203 | 1290 | 1836)
}

fn words(error: &Error) -> String {
    match error {
        Error::Server(server) => {
            format!("Error {} ({}): {}", server.code, server.state, server.message)
        }
        other => other.to_string(),
    }
}

impl Mysql {
    /// What came of a statement that failed: the server's words, or no word.
    fn failed(&mut self, error: &Error) -> FarEndFailure {
        match error {
            // Too many connections, or it stops: whether a text of several statements has begun is not known.
            Error::Server(server) if is_passing(server.code) => {
                self.is_closed = true;
                FarEndFailure::Unknown(words(error))
            }
            Error::Server(_) => FarEndFailure::Refused(words(error)),
            _ => {
                self.is_closed = true;
                FarEndFailure::Unknown(words(error))
            }
        }
    }

    async fn sql(&mut self, work: &SqlWork) -> Result<FarEndAnswer, FarEndFailure> {
        let lock = lock_name(&work.exclusive);
        if !work.exclusive.is_empty() {
            let query = format!("SELECT GET_LOCK('{lock}', {LOCK_SECS})");
            let taken: Result<Option<Option<u8>>, Error> = self.conn.query_first(query).await;
            match taken {
                Ok(Some(Some(1))) => {}
                Ok(_) => {
                    let words = "somebody else still works on the same user";
                    return Err(FarEndFailure::NothingDone(words.into()));
                }
                Err(error) => {
                    self.is_closed = true;
                    return Err(FarEndFailure::Unreachable(words(&error)));
                }
            }
        }
        let outcome = self.statements(work).await;
        if !work.exclusive.is_empty() && !self.is_closed {
            let released = self.conn.query_drop(format!("DO RELEASE_LOCK('{lock}')")).await;
            self.is_closed |= released.is_err();
        }
        outcome
    }

    async fn statements(&mut self, work: &SqlWork) -> Result<FarEndAnswer, FarEndFailure> {
        let mut rows = Vec::new();
        for statement in &work.statements {
            match read(&mut self.conn, statement.expose_secret()).await {
                Ok(Some(found)) if found.is_empty() => {}
                Ok(Some(found)) => rows = found,
                Ok(None) => {
                    self.is_closed = true;
                    return Err(FarEndFailure::Unknown(TOO_LONG.into()));
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(if rows.is_empty() { FarEndAnswer::Done } else { FarEndAnswer::Rows(rows) })
    }
}

/// Runs a text, which may be several statements; the rows of the first. `None` when the rows of all are over the limit: those that are left
/// are not read.
async fn read(conn: &mut Conn, text: &str) -> Result<Option<Vec<Vec<Option<String>>>>, Error> {
    let mut result = conn.query_iter(text).await?;
    let (mut rows, mut bytes, mut is_first) = (Vec::new(), 0, true);
    loop {
        // The one way to read a row at a time that needs no trait of streams.
        while let Some(row) = result.next().await? {
            let cells = cells(row);
            bytes += cells.iter().flatten().map(String::len).sum::<usize>() + 8 * cells.len();
            if bytes > FAR_END_ANSWER_BYTES_MAX {
                return Ok(None);
            }
            if is_first {
                rows.push(cells);
            }
        }
        is_first = false;
        if result.is_empty() {
            break;
        }
    }
    result.drop_result().await?;
    Ok(Some(rows))
}

fn cells(row: Row) -> Vec<Option<String>> {
    let text = |value: Value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    };
    row.unwrap().into_iter().map(text).collect()
}

/// The name of a lock: at most 64 characters that need no quoting.
fn lock_name(word: &str) -> String {
    format!("kallisto-{:016x}", lock_number(word))
}

impl FarEndSession for Mysql {
    fn run<'a>(
        &'a mut self,
        work: &'a FarEndWork,
    ) -> BoxFuture<'a, Result<FarEndAnswer, FarEndFailure>> {
        Box::pin(async move {
            match work {
                FarEndWork::Check => {
                    let answer = self.conn.query_drop("SELECT 1").await;
                    let unreachable = |error| FarEndFailure::Unreachable(words(&error));
                    answer.map(|()| FarEndAnswer::Done).map_err(unreachable)
                }
                _ => self.sql(work.sql().ok_or_else(no_such_work)?).await,
            }
        })
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.conn.ping().await.is_ok() })
    }
}

#[cfg(test)]
mod tests;
