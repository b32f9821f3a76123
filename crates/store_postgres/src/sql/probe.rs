//! What `operator diagnose` finds out about a database: it connects as a server would, looks, and changes nothing.

use std::sync::Arc;

use kallisto_engine::far_end::{FarEndTls, TlsUse};
use kallisto_store::Error;
use tokio::sync::Notify;
use tokio_postgres::types::Type;

use super::cells::{cell, number, only};
use super::connection::{PgConnector, PgParameter, PgSession};
use super::schema::PgStatements;
use super::session::read_look;
use super::{PostgresUrl, tables};
use crate::database::DatabaseFailure;
use crate::limits::{SERVERS_MAX, STATEMENT};
use crate::{MissingTables, Sharing};

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// As it should be.
    Well,
    /// A server starts, and somebody should look.
    Doubtful,
    /// No server starts.
    Failing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseFinding {
    /// What it is.
    pub name: &'static str,
    /// How grave.
    pub kind: FindingKind,
    /// What was found; never a password.
    pub said: String,
}

const CONNECTION: &str = "Check Database Connection";
const TRUST: &str = "Check Database TLS";
const DURABILITY: &str = "Check Database Durability";
const TABLES: &str = "Check Database Tables";
const RIGHTS: &str = "Check Database Privileges";
const LEASE_HOLDER: &str = "Check Database Lease";

/// What a server needs of a table.
const PRIVILEGES: &str = "SELECT, INSERT, UPDATE, DELETE";

/// Looks at a database as a server with these settings would use it.
#[must_use]
pub fn probe(
    url: &PostgresUrl,
    tls: &FarEndTls,
    (table, ha_table): (&str, &str),
    sharing: Sharing,
    allowed: MissingTables,
) -> Vec<DatabaseFinding> {
    let failing = |said: String| finding(CONNECTION, FindingKind::Failing, said);
    let Some(statements) = PgStatements::new(table, ha_table) else {
        return vec![failing("a name of a table is none".to_owned())];
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return vec![failing("no threads".to_owned())] };
    runtime.block_on(async {
        let connector = PgConnector { config: url.config.clone(), tls: tls.clone() };
        let session = match connector.open(&Arc::new(Notify::new())).await {
            Ok(session) => session,
            Err(failure) => {
                let said = format!("{}: {}", url.shown(), cause(failure));
                return vec![failing(said), trust(url)];
            }
        };
        let mut found = vec![connection(&session, url).await, trust(url)];
        found.push(durability(&session).await);
        found.extend(storage(&session, &statements, sharing, allowed).await);
        found
    })
}

fn finding(name: &'static str, kind: FindingKind, said: impl Into<String>) -> DatabaseFinding {
    DatabaseFinding { name, kind, said: said.into() }
}

/// What failed, in words for a person.
fn cause(failure: DatabaseFailure) -> String {
    match failure {
        DatabaseFailure::Lost(why) | DatabaseFailure::Again(why) => why,
        DatabaseFailure::Refused(
            Error::Unavailable(why) | Error::Damaged(why) | Error::Full(why),
        ) => why,
        DatabaseFailure::Refused(error) => error.to_string(),
    }
}

fn trust(url: &PostgresUrl) -> DatabaseFinding {
    let (kind, said) = match url.usage {
        _ if url.is_local() => (FindingKind::Well, "the database is on this machine"),
        TlsUse::Verified => (FindingKind::Well, "the certificate has to be the database's"),
        TlsUse::AuthorityVerified => (
            FindingKind::Doubtful,
            "whoever has a certificate of the authority may answer: verify-full looks at the name too",
        ),
        TlsUse::Never => (FindingKind::Doubtful, "the connection is in the clear"),
        TlsUse::WhereOffered | TlsUse::Unverified => {
            (FindingKind::Doubtful, "nobody checks who answers: use sslmode=verify-full")
        }
    };
    finding(TRUST, kind, said)
}

async fn connection(session: &PgSession, url: &PostgresUrl) -> DatabaseFinding {
    let asked = "SELECT current_setting('server_version'), current_user::text";
    let version = session.run(asked, &[], STATEMENT).await;
    match version.and_then(|rows| Ok((cell(only(&rows)?, 0)?, cell(only(&rows)?, 1)?))) {
        Ok::<(String, String), _>((version, user)) => finding(
            CONNECTION,
            FindingKind::Well,
            format!("{}: PostgreSQL {version}, as {user}", url.shown()),
        ),
        Err(failure) => finding(CONNECTION, FindingKind::Failing, cause(failure)),
    }
}

/// Which setting has the database acknowledge what a power cut takes; `None` for none.
pub(crate) async fn forgets(session: &PgSession) -> Result<Option<String>, DatabaseFailure> {
    let asked = "SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')";
    let rows = session.run(asked, &[], STATEMENT).await?;
    for (at, name) in ["synchronous_commit", "fsync", "full_page_writes"].into_iter().enumerate() {
        if cell::<String>(only(&rows)?, at)? == "off" {
            return Ok(Some(format!("{name} is off")));
        }
    }
    Ok(None)
}

async fn durability(session: &PgSession) -> DatabaseFinding {
    match forgets(session).await {
        Ok(None) => finding(DURABILITY, FindingKind::Well, "commits wait for the disk"),
        Ok(Some(why)) => {
            let said = format!("{why}: what was acknowledged may be lost with the power");
            finding(DURABILITY, FindingKind::Doubtful, said)
        }
        Err(failure) => finding(DURABILITY, FindingKind::Failing, cause(failure)),
    }
}

async fn storage(
    session: &PgSession,
    statements: &PgStatements,
    sharing: Sharing,
    allowed: MissingTables,
) -> Vec<DatabaseFinding> {
    let failing = |name, failure| vec![finding(name, FindingKind::Failing, cause(failure))];
    let missing = match tables::missing(session, statements, sharing).await {
        Ok(missing) => missing,
        Err(failure) => return failing(TABLES, failure),
    };
    if !missing.is_empty() {
        let names = missing.join(", ");
        return vec![match allowed {
            MissingTables::Make => {
                finding(TABLES, FindingKind::Well, format!("{names}: will be made"))
            }
            MissingTables::Refuse => {
                let said = format!("{names}: missing, and skip_create_table is set");
                finding(TABLES, FindingKind::Failing, said)
            }
        }];
    }
    let known = session.run(&statements.schema, &[], STATEMENT).await;
    // The row comes with the first start.
    let known = known.and_then(|rows| rows.first().map(tables::identity).transpose());
    let mut found = match known {
        Ok(_) => vec![finding(TABLES, FindingKind::Well, "all are there, of the known layout")],
        Err(failure) => return failing(TABLES, failure),
    };
    found.push(rights(session, statements, sharing).await);
    found.extend(holder(session, statements, sharing).await);
    found
}

async fn rights(
    session: &PgSession,
    statements: &PgStatements,
    sharing: Sharing,
) -> DatabaseFinding {
    let names: Vec<&str> = tables::names(statements, sharing);
    let asked = "SELECT t.name, p.privilege FROM unnest($1) AS t(name), unnest(string_to_array($2, ', ')) AS p(privilege)
         WHERE NOT has_table_privilege(t.name, p.privilege)";
    let parameters: [PgParameter<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&PRIVILEGES, Type::TEXT)];
    let rows = session.run(asked, &parameters, STATEMENT).await;
    let lacking = rows.and_then(|rows| {
        let lacks = |row| Ok(format!("{} on {}", cell::<String>(row, 1)?, cell::<String>(row, 0)?));
        rows.iter().map(lacks).collect::<Result<Vec<_>, _>>()
    });
    match lacking {
        Ok(lacking) if lacking.is_empty() => finding(RIGHTS, FindingKind::Well, PRIVILEGES),
        Ok(lacking) => {
            finding(RIGHTS, FindingKind::Failing, format!("the role lacks {}", lacking.join(", ")))
        }
        Err(failure) => finding(RIGHTS, FindingKind::Failing, cause(failure)),
    }
}

/// Who writes, as the tables have it: whether that server lives, one look does not tell.
async fn holder(
    session: &PgSession,
    statements: &PgStatements,
    sharing: Sharing,
) -> Option<DatabaseFinding> {
    let rows = match session.run(&statements.look, &[], STATEMENT).await {
        Ok(rows) => rows,
        Err(failure) => return Some(finding(LEASE_HOLDER, FindingKind::Failing, cause(failure))),
    };
    let look = read_look(rows.first()?).ok()?;
    if look.holder == 0 {
        return Some(finding(LEASE_HOLDER, FindingKind::Well, "nobody writes"));
    }
    let name = match sharing {
        Sharing::Many => name_of(session, statements, look.holder).await,
        Sharing::Alone | Sharing::Stopped => None,
    };
    let name = name.unwrap_or_else(|| "a server that is not listed".to_owned());
    Some(finding(LEASE_HOLDER, FindingKind::Well, format!("{name} had it last")))
}

async fn name_of(session: &PgSession, statements: &PgStatements, id: u64) -> Option<String> {
    let parameters: [PgParameter<'_>; 2] =
        [(&f64::from(u32::MAX), Type::FLOAT8), (&SERVERS_MAX, Type::INT8)];
    let rows = session.run(&statements.servers, &parameters, STATEMENT).await.ok()?;
    let row = rows.iter().find(|row| number(row, 0).is_ok_and(|known| known == id))?;
    cell(row, 1).ok()
}
