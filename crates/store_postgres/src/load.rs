//! Reading all records as of one moment.

use bytes::Bytes;
use kallisto_store::{Error, Record, Seqno};
use tokio_postgres::types::Type;

use crate::connection::{PgFailure, PgSession};
use crate::limits::{LOAD_PAGE, LONG_STATEMENT, STATEMENT};
use crate::records::RecordMap;
use crate::schema::PgStatements;

/// All records, and what they are as of.
pub(crate) struct LoadedRecords {
    pub(crate) records: RecordMap,
    pub(crate) position: u64,
    pub(crate) generation: u64,
    pub(crate) epoch: u64,
}

pub(crate) fn number(value: i64) -> u64 {
    value.cast_unsigned()
}

pub(crate) fn no_row() -> PgFailure {
    PgFailure::Refused(Error::Damaged(
        "the row of the table that says who leads is gone".to_owned(),
    ))
}

/// Reads everything in one transaction of its own.
pub(crate) async fn load(
    session: &PgSession,
    statements: &PgStatements,
) -> Result<LoadedRecords, PgFailure> {
    session.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", STATEMENT).await?;
    let moment = session.run(&statements.moment, &[], STATEMENT).await?;
    let row = moment.first().ok_or_else(no_row)?;
    let (epoch, position, generation) =
        (number(row.get(0)), number(row.get(1)), number(row.get(2)));
    let mut all = Vec::new();
    loop {
        // A key is never empty: see `GENERATION_KEY`.
        let behind: &[u8] = all.last().map_or(&[], |(key, _): &(Box<[u8]>, Record)| key);
        let rows = session
            .run(
                &statements.records,
                &[(&behind, Type::BYTEA), (&LOAD_PAGE, Type::INT8)],
                LONG_STATEMENT,
            )
            .await?;
        all.extend(rows.iter().map(|row| {
            let (key, seqno): (&[u8], i64) = (row.get(0), row.get(1));
            let value = Bytes::copy_from_slice(row.get(2));
            (Box::<[u8]>::from(key), Record { value, seqno: Seqno(number(seqno)) })
        }));
        if (rows.len() as i64) < LOAD_PAGE {
            break;
        }
    }
    session.batch("COMMIT", STATEMENT).await?;
    Ok(LoadedRecords { records: all.into_iter().collect(), position, generation, epoch })
}
