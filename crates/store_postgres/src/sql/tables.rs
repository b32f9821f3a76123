//! The tables at the start: which are there, whether they are ours, and who makes those that are missing.
//!
//! Tables that are there are judged before anything is written: one of another program, or of another layout, is an error that
//! names the table and the column. What is there is not made, so a role that may make nothing can use it.

use kallisto_store::Error;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::cells::{cell, only};
use super::connection::PgSession;
use super::schema::{PgStatements, SCHEMA, TABLE_COLUMNS};
use crate::database::DatabaseFailure;
use crate::limits::{LONG_STATEMENT, STATEMENT};
use crate::{MissingTables, Sharing};

/// A table, and a column of it with its type, if it is there.
type FoundColumn = (String, Option<String>, Option<String>);

/// How many of the tables are used.
fn used(statements: &PgStatements, sharing: Sharing) -> usize {
    match sharing {
        Sharing::Many => statements.columns.len(),
        // That of the servers is the last.
        Sharing::Alone | Sharing::Stopped => statements.columns.len() - 1,
    }
}

/// The tables that are used, quoted.
pub(crate) fn names(statements: &PgStatements, sharing: Sharing) -> Vec<&str> {
    statements.columns[..used(statements, sharing)].iter().map(|(name, _)| name.as_str()).collect()
}

/// The tables that are missing.
///
/// # Errors
/// [`Error::Damaged`] where one that is there has other columns.
pub(crate) async fn missing(
    session: &PgSession,
    statements: &PgStatements,
    sharing: Sharing,
) -> Result<Vec<String>, DatabaseFailure> {
    let expected = &statements.columns[..used(statements, sharing)];
    let names = names(statements, sharing);
    let rows = session.run(TABLE_COLUMNS, &[(&names, Type::TEXT_ARRAY)], STATEMENT).await?;
    let found = rows.iter().map(|row| Ok((cell(row, 0)?, cell(row, 1)?, cell(row, 2)?)));
    let found = found.collect::<Result<Vec<FoundColumn>, DatabaseFailure>>()?;
    let mut missing = Vec::new();
    for (table, columns) in expected {
        let of_table: Vec<(&str, &str)> = found
            .iter()
            .filter(|(name, ..)| name == table)
            .filter_map(|(_, column, kind)| column.as_deref().zip(kind.as_deref()))
            .collect();
        if of_table.is_empty() {
            missing.push(table.clone());
            continue;
        }
        judge(table, columns, &of_table)
            .map_err(|why| DatabaseFailure::Refused(Error::Damaged(why)))?;
    }
    Ok(missing)
}

/// Whether a table has every column with its type.
fn judge(table: &str, columns: &[(&str, &str)], found: &[(&str, &str)]) -> Result<(), String> {
    for (name, kind) in columns {
        match found.iter().find(|(known, _)| known == name) {
            None => {
                return Err(format!(
                    "table {table} has no column {name}: it is not a table of this storage, so name another one"
                ));
            }
            Some((_, other)) if other != kind => {
                return Err(format!("column {name} of table {table} is {other}, not {kind}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Makes what is missing, if it may, and says which store the tables hold.
pub(crate) async fn prepare(
    session: &PgSession,
    statements: &PgStatements,
    sharing: Sharing,
    allowed: MissingTables,
) -> Result<[u8; 16], DatabaseFailure> {
    let missing = missing(session, statements, sharing).await?;
    match (missing.as_slice(), allowed) {
        ([], _) => {}
        (_, MissingTables::Make) => make(session, statements, sharing).await?,
        (missing, MissingTables::Refuse) => {
            let why = format!(
                "the database has no table {}, and skip_create_table says that somebody else makes it",
                missing.join(", ")
            );
            return Err(DatabaseFailure::Refused(Error::Unavailable(why)));
        }
    }
    let mut store_id = [0; 16];
    fastrand::Rng::new().fill(&mut store_id);
    session
        .run(
            &statements.first_row,
            &[(&SCHEMA, Type::INT8), (&&store_id[..], Type::BYTEA)],
            STATEMENT,
        )
        .await?;
    let rows = session.run(&statements.schema, &[], STATEMENT).await?;
    identity(only(&rows)?)
}

/// Which store it is, if its layout is known here.
pub(crate) fn identity(row: &Row) -> Result<[u8; 16], DatabaseFailure> {
    let damaged = |why: String| DatabaseFailure::Refused(Error::Damaged(why));
    let schema: i64 = cell(row, 0)?;
    if schema != SCHEMA {
        return Err(damaged(format!(
            "the tables have layout {schema}, this server knows {SCHEMA}: column schema of the table that ends in _meta"
        )));
    }
    let known: &[u8] = cell(row, 1)?;
    known.try_into().map_err(|_| damaged("the number of the store is none".to_owned()))
}

async fn make(
    session: &PgSession,
    statements: &PgStatements,
    sharing: Sharing,
) -> Result<(), DatabaseFailure> {
    // Two servers that start at once would make the same table twice.
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(7813471024)";
    let ha = match sharing {
        Sharing::Many => &statements.create_ha[..],
        Sharing::Alone | Sharing::Stopped => "",
    };
    let all = format!("{lock}; {}{ha} COMMIT", statements.create);
    session.batch(&all, LONG_STATEMENT).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_another_program_is_named_with_its_column() {
        let ours = [("key", "bytea"), ("value", "bytea")];
        assert_eq!(
            judge("t", &ours, &[("value", "bytea"), ("key", "bytea"), ("x", "text")]),
            Ok(())
        );
        // OpenBao's own.
        let theirs =
            [("parent_path", "text"), ("path", "text"), ("key", "text"), ("value", "bytea")];
        assert_eq!(
            judge("t", &ours, &theirs),
            Err("column key of table t is text, not bytea".into())
        );
        let why = judge("t", &ours, &theirs[..2]).unwrap_err();
        assert!(why.starts_with("table t has no column key"), "{why}");
    }
}
