//! Reading all records as of one moment.
//!
//! One statement, so one snapshot of the database, behind a pool too. Rows are taken as they come: of what was read but the
//! records themselves nothing piles up.

use std::future::poll_fn;
use std::pin::pin;

use bytes::Bytes;
use futures_core::Stream;
use kallisto_store::{Record, Seqno};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::cells::{cell, no_row, number};
use super::connection::{PgSession, failed, no_answer};
use super::schema::PgStatements;
use crate::database::{DatabaseFailure, LoadedRecords};
use crate::limits::{LONG_STATEMENT, STATEMENT};
use crate::records::KeyedRecord;

/// Reads everything. The first row may take long to come; between two of them the database may not be silent.
pub(crate) async fn load(
    session: &PgSession,
    statements: &PgStatements,
) -> Result<LoadedRecords, DatabaseFailure> {
    let none = std::iter::empty::<(i64, Type)>();
    let asked = session.client.query_typed_raw(&statements.records, none);
    let rows = timeout(LONG_STATEMENT, asked).await.map_err(|_| no_answer())?.map_err(failed)?;
    let mut rows = pin!(rows);
    let mut all = Vec::new();
    let mut moment = None;
    let mut patience = LONG_STATEMENT;
    loop {
        let next = timeout(patience, poll_fn(|context| rows.as_mut().poll_next(context))).await;
        let Some(row) = next.map_err(|_| no_answer())? else { break };
        let row = row.map_err(failed)?;
        patience = STATEMENT;
        if moment.is_none() {
            moment = Some((number(&row, 0)?, number(&row, 1)?, number(&row, 2)?));
        }
        all.extend(record(&row)?);
    }
    let (epoch, position, generation) = moment.ok_or_else(no_row)?;
    Ok(LoadedRecords { records: all.into_iter().collect(), position, generation, epoch })
}

/// The record of a row; `None` where there are none.
fn record(row: &Row) -> Result<Option<KeyedRecord>, DatabaseFailure> {
    let Some(key) = cell::<Option<&[u8]>>(row, 3)? else { return Ok(None) };
    let record =
        Record { value: Bytes::copy_from_slice(cell(row, 5)?), seqno: Seqno(number(row, 4)?) };
    Ok(Some((key.into(), record)))
}
