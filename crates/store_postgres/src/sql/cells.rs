//! What a row holds, read with its type: a table of another layout is an error that names the column, and no panic.

use kallisto_store::Error;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::database::DatabaseFailure;

/// The value at a place of a row.
pub(crate) fn cell<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, DatabaseFailure> {
    row.try_get(at).map_err(|error| {
        let name = row.columns().get(at).map_or("?", tokio_postgres::Column::name);
        DatabaseFailure::Refused(Error::Damaged(format!(
            "what the database answers as {name}: {error}"
        )))
    })
}

/// A number that is never negative: a position, an epoch, a server.
pub(crate) fn number(row: &Row, at: usize) -> Result<u64, DatabaseFailure> {
    cell::<i64>(row, at).map(i64::cast_unsigned)
}

/// The one row that an answer has.
pub(crate) fn only(rows: &[Row]) -> Result<&Row, DatabaseFailure> {
    rows.first().ok_or_else(no_row)
}

pub(crate) fn no_row() -> DatabaseFailure {
    DatabaseFailure::Refused(Error::Damaged(
        "the row of the table that says who leads is gone".to_owned(),
    ))
}
