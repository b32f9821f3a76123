//! A connection to the database, and how its failures are told apart.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use kallisto_engine::far_end::{FarEndTls, TlsUse};
use kallisto_outbound::tls;
use kallisto_store::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::database::DatabaseFailure;
use crate::limits::CONNECT;

/// How the database is reached.
#[derive(Clone)]
pub(crate) struct PgConnector {
    pub(crate) config: Config,
    pub(crate) tls: FarEndTls,
}

/// An open connection. Dropping it ends it.
pub(crate) struct PgSession {
    pub(crate) client: Client,
    driving: JoinHandle<()>,
}

impl Drop for PgSession {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

impl PgConnector {
    /// Opens a connection; `wake` is told of every notification, and of the end. The driver bounds the time of each host's
    /// socket alone; here all of it is, so that a far end which takes the connection and says nothing keeps nobody waiting.
    pub(crate) async fn open(&self, wake: &Arc<Notify>) -> Result<PgSession, DatabaseFailure> {
        let hosts = u32::try_from(self.config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
        let longest = self.config.get_connect_timeout().copied().unwrap_or(CONNECT);
        let all = longest.saturating_mul(hosts).saturating_add(CONNECT);
        match timeout(all, self.connect(wake)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(DatabaseFailure::Lost("the database took no connection in time".to_owned()))
            }
        }
    }

    async fn connect(&self, wake: &Arc<Notify>) -> Result<PgSession, DatabaseFailure> {
        let (client, driving) = match self.tls.usage {
            TlsUse::Never => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(failed)?;
                (client, drive(connection, Arc::clone(wake)))
            }
            _ => {
                let settings = tls::config(&self.tls);
                let settings = settings
                    .map_err(|failure| DatabaseFailure::Lost(failure.words().to_owned()))?;
                let connector = MakeRustlsConnect::new(settings);
                let (client, connection) = self.config.connect(connector).await.map_err(failed)?;
                (client, drive(connection, Arc::clone(wake)))
            }
        };
        Ok(PgSession { client, driving })
    }
}

fn drive<S, T>(mut connection: Connection<S, T>, wake: Arc<Notify>) -> JoinHandle<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsStream + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        // What ends it, whoever waits for an answer hears.
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message {
                wake.notify_one();
            }
        }
        wake.notify_one();
    })
}

/// A parameter and its type.
pub(crate) type PgParameter<'p> = (&'p (dyn ToSql + Sync), Type);

impl PgSession {
    /// Runs a statement in one round trip, for at most so long.
    pub(crate) async fn run(
        &self,
        statement: &str,
        parameters: &[PgParameter<'_>],
        longest: Duration,
    ) -> Result<Vec<Row>, DatabaseFailure> {
        match timeout(longest, self.client.query_typed(statement, parameters)).await {
            Ok(outcome) => outcome.map_err(failed),
            Err(_) => Err(no_answer()),
        }
    }

    /// Runs statements of which nothing comes back.
    pub(crate) async fn batch(
        &self,
        statements: &str,
        longest: Duration,
    ) -> Result<(), DatabaseFailure> {
        match timeout(longest, self.client.batch_execute(statements)).await {
            Ok(outcome) => outcome.map_err(failed),
            Err(_) => Err(no_answer()),
        }
    }
}

/// A statement that took too long.
pub(crate) fn no_answer() -> DatabaseFailure {
    DatabaseFailure::Lost("the database did not answer in time".to_owned())
}

/// What an error of the driver means. The database's own words name tables and limits, and no value: parameters stay out of them.
pub(crate) fn failed(error: tokio_postgres::Error) -> DatabaseFailure {
    let Some(db) = error.as_db_error() else {
        let mut text = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            text = format!("{text}: {cause}");
        }
        return DatabaseFailure::Lost(text);
    };
    let code = db.code().code();
    let text = format!("the database says: {} (SQLSTATE {code})", db.message());
    let is_end = db
        .parsed_severity()
        .is_none_or(|severity| matches!(severity, Severity::Fatal | Severity::Panic));
    match code {
        // `40003`: whether the statement came to its end is not known.
        _ if is_end || code.starts_with("08") || code.starts_with("57P") || code == "40003" => {
            DatabaseFailure::Lost(text)
        }
        // Isolation above what is asked for, and deadlocks.
        "40001" | "40P01" => DatabaseFailure::Again(text),
        "53100" => DatabaseFailure::Refused(Error::Full(text)),
        _ => DatabaseFailure::Refused(Error::Unavailable(text)),
    }
}
