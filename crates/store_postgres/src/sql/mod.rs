//! PostgreSQL below the seam ([`crate::database`]): every statement, socket and timer that the store has.
//!
//! `schema` has the tables and all statements, `session` an operation a statement, `connection` the wire and what its failures mean,
//! `tables` judges what is there at the start, `load` reads all records, `probe` looks without changing anything.

mod cells;
mod connection;
mod load;
mod probe;
mod schema;
mod session;
mod tables;
mod url;

use std::sync::Arc;
use std::time::Duration;

use kallisto_engine::far_end::FarEndTls;
use tokio::sync::Notify;
use tokio::time::timeout;

use self::connection::PgConnector;
use self::schema::PgStatements;
use self::session::SqlSession;
use crate::database::{DatabaseResult, StoreDatabase};
use crate::{MissingTables, Sharing};

pub use self::probe::{DatabaseFinding, FindingKind, probe};
pub use self::schema::is_table_name;
pub use self::url::PostgresUrl;

/// A PostgreSQL, on the runtime of whoever polls.
#[derive(Clone)]
pub(crate) struct SqlDatabase {
    connector: PgConnector,
    statements: Arc<PgStatements>,
    sharing: Sharing,
    missing: MissingTables,
}

impl SqlDatabase {
    /// A database with tables of these names; `None` if one is no name.
    pub(crate) fn new(
        url: &PostgresUrl,
        tls: &FarEndTls,
        (table, ha_table): (&str, &str),
        sharing: Sharing,
        missing: MissingTables,
    ) -> Option<Self> {
        let statements = Arc::new(PgStatements::new(table, ha_table)?);
        let connector = PgConnector { config: url.config.clone(), tls: tls.clone() };
        Some(Self { connector, statements, sharing, missing })
    }
}

impl StoreDatabase for SqlDatabase {
    type Session = SqlSession;

    async fn open(&self, wake: &Arc<Notify>) -> DatabaseResult<SqlSession> {
        let session = self.connector.open(wake).await?;
        let statements = Arc::clone(&self.statements);
        Ok(SqlSession { session, statements, sharing: self.sharing, missing: self.missing })
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn rest(&self, longest: Duration, wake: &Notify) {
        let _ = timeout(longest, wake.notified()).await;
    }

    fn occupy<T>(&self, work: impl FnOnce() -> T) -> T {
        tokio::task::block_in_place(work)
    }
}
