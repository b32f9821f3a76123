//! An operation of the store is a statement: [`DatabaseSession`] on a connection.

use std::sync::Arc;

use bytes::Bytes;
use kallisto_store::{MemberRole, Peer};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::cells::{cell, number, only};
use super::connection::{PgParameter, PgSession};
use super::load::load;
use super::schema::PgStatements;
use super::{probe, tables};
use crate::change;
use crate::database::{
    ChangeRow, CommitOrder, DatabaseFailure, DatabaseResult, DatabaseSession, LeaseLook,
    ListedServer, LoadedRecords, PolledChanges, RestoreOrder, SwitchOutcome, TakenLease,
};
use crate::limits::{
    ALIVE, LEASE, LONG_STATEMENT, POLL_BYTES, POLL_ROWS, SERVERS_MAX, SILENT_MAX, STATEMENT,
};
use crate::{MissingTables, Sharing};

/// A connection with the statements that go over it.
pub(crate) struct SqlSession {
    pub(super) session: PgSession,
    pub(super) statements: Arc<PgStatements>,
    pub(super) sharing: Sharing,
    pub(super) missing: MissingTables,
}

/// A span in the database's milliseconds.
fn ms(span: std::time::Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

/// Reads the row that [`PgStatements::look`] asks for.
pub(super) fn read_look(row: &Row) -> DatabaseResult<LeaseLook> {
    Ok(LeaseLook {
        epoch: number(row, 0)?,
        holder: number(row, 1)?,
        wanted: number(row, 2)?,
        position: number(row, 3)?,
        mark: cell(row, 4)?,
    })
}

fn taken(rows: &[Row]) -> DatabaseResult<Option<TakenLease>> {
    let read = |row| Ok(TakenLease { epoch: number(row, 0)?, position: number(row, 1)? });
    rows.first().map(read).transpose()
}

fn listed(row: &Row) -> DatabaseResult<ListedServer> {
    let peer = Peer {
        id: number(row, 0)?,
        name: cell(row, 1)?,
        cluster_address: cell(row, 2)?,
        api_address: cell(row, 3)?,
        wants: MemberRole::Voter,
    };
    Ok(ListedServer { peer, is_willing: cell(row, 4)?, silent_ms: number(row, 5)? })
}

impl SqlSession {
    async fn ask(
        &self,
        statement: &str,
        parameters: &[PgParameter<'_>],
    ) -> DatabaseResult<Vec<Row>> {
        self.session.run(statement, parameters, STATEMENT).await
    }

    /// Runs the statements of a switch; the last of them has not committed it where this fails.
    async fn take_place(
        &self,
        order: &RestoreOrder,
        records: u64,
    ) -> DatabaseResult<SwitchOutcome> {
        let [fence, remove, take, rest] = &self.statements.switch;
        let (before, position) = (order.before.cast_signed(), (order.before + 1).cast_signed());
        let generation = order.generation.cast_signed();
        self.session.batch("BEGIN", STATEMENT).await?;
        let parameters: [PgParameter<'_>; 5] = [
            (&ms(LEASE), Type::FLOAT8),
            (&order.epoch.cast_signed(), Type::INT8),
            (&position, Type::INT8),
            (&before, Type::INT8),
            (&generation, Type::INT8),
        ];
        if self.ask(fence, &parameters).await?.is_empty() {
            return Ok(SwitchOutcome::Deposed);
        }
        self.session.run(remove, &[], LONG_STATEMENT).await?;
        let parameters: [PgParameter<'_>; 2] = [(&generation, Type::INT8), (&position, Type::INT8)];
        let taken = self.session.run(take, &parameters, LONG_STATEMENT).await?;
        if number(only(&taken)?, 0)? != records {
            return Ok(SwitchOutcome::Incomplete);
        }
        self.session.batch(rest, LONG_STATEMENT).await?;
        self.session.batch("COMMIT", STATEMENT).await?;
        Ok(SwitchOutcome::Switched)
    }
}

impl DatabaseSession for SqlSession {
    fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }

    /// Behind a pool that shares connections nothing is heard; the clock asks then.
    async fn listen(&self) -> DatabaseResult<()> {
        let listen = format!("LISTEN \"{}\"", self.statements.channel);
        self.session.batch(&listen, STATEMENT).await
    }

    async fn prepare(&self) -> DatabaseResult<[u8; 16]> {
        tables::prepare(&self.session, &self.statements, self.sharing, self.missing).await
    }

    async fn forgets(&self) -> DatabaseResult<Option<String>> {
        probe::forgets(&self.session).await
    }

    async fn load(&self) -> DatabaseResult<LoadedRecords> {
        load(&self.session, &self.statements).await
    }

    async fn commit(&self, order: &CommitOrder<'_>) -> DatabaseResult<bool> {
        let effects = order.effects;
        let parameters: [PgParameter<'_>; 11] = [
            (&ms(LEASE), Type::FLOAT8),
            (&order.epoch.cast_signed(), Type::INT8),
            (&order.last.cast_signed(), Type::INT8),
            (&order.before.cast_signed(), Type::INT8),
            (&effects.put_keys, Type::BYTEA_ARRAY),
            (&effects.put_seqnos, Type::INT8_ARRAY),
            (&effects.put_values, Type::BYTEA_ARRAY),
            (&effects.gone, Type::BYTEA_ARRAY),
            (&(order.before + 1).cast_signed(), Type::INT8),
            (&order.body, Type::BYTEA),
            (&self.statements.channel, Type::TEXT),
        ];
        self.ask(&self.statements.commit, &parameters).await.map(|rows| !rows.is_empty())
    }

    async fn poll(&self, behind: u64) -> DatabaseResult<PolledChanges> {
        let parameters: [PgParameter<'_>; 3] = [
            (&behind.cast_signed(), Type::INT8),
            (&(POLL_ROWS as i64), Type::INT8),
            (&POLL_BYTES, Type::INT8),
        ];
        let found = self.ask(&self.statements.poll, &parameters).await?;
        let head = only(&found)?;
        let mut rows = Vec::new();
        for row in &found {
            if cell::<Option<i64>>(row, 5)?.is_some() {
                let (first, last) = (number(row, 5)?, number(row, 6)?);
                let batches = change::decode(cell(row, 8)?, first, last);
                rows.push(ChangeRow { first, last, epoch: number(row, 7)?, batches });
            }
        }
        let tip = number(head, 1)?;
        Ok(PolledChanges {
            epoch: number(head, 0)?,
            tip,
            generation: number(head, 2)?,
            trimmed: number(head, 3)?,
            holder: number(head, 4)?,
            // Those that were fetched are as many as may be, or take as many bytes.
            has_more: rows.last().is_some_and(|row| row.last < tip),
            rows,
        })
    }

    async fn trim(&self, epoch: u64, to: u64) -> DatabaseResult<()> {
        let parameters: [PgParameter<'_>; 2] =
            [(&epoch.cast_signed(), Type::INT8), (&to.cast_signed(), Type::INT8)];
        self.ask(&self.statements.trim, &parameters).await.map(|_| ())
    }

    async fn look(&self) -> DatabaseResult<LeaseLook> {
        let rows = self.ask(&self.statements.look, &[]).await?;
        read_look(only(&rows)?)
    }

    async fn take(&self, own: u64, seen: &LeaseLook) -> DatabaseResult<Option<TakenLease>> {
        let parameters: [PgParameter<'_>; 6] = [
            (&ms(LEASE), Type::FLOAT8),
            (&own.cast_signed(), Type::INT8),
            (&seen.epoch.cast_signed(), Type::INT8),
            (&seen.holder.cast_signed(), Type::INT8),
            (&seen.mark, Type::INT8),
            (&self.statements.channel, Type::TEXT),
        ];
        taken(&self.ask(&self.statements.take, &parameters).await?)
    }

    async fn take_blank(&self, own: u64) -> DatabaseResult<Option<TakenLease>> {
        let parameters: [PgParameter<'_>; 2] =
            [(&ms(LEASE), Type::FLOAT8), (&own.cast_signed(), Type::INT8)];
        taken(&self.ask(&self.statements.take_blank, &parameters).await?)
    }

    async fn refence(&self, own: u64, epoch: u64) -> DatabaseResult<Option<TakenLease>> {
        let parameters: [PgParameter<'_>; 3] = [
            (&ms(LEASE), Type::FLOAT8),
            (&epoch.cast_signed(), Type::INT8),
            (&own.cast_signed(), Type::INT8),
        ];
        taken(&self.ask(&self.statements.refence, &parameters).await?)
    }

    async fn renew(&self, own: u64, epoch: u64) -> DatabaseResult<bool> {
        let parameters: [PgParameter<'_>; 3] = [
            (&ms(LEASE), Type::FLOAT8),
            (&epoch.cast_signed(), Type::INT8),
            (&own.cast_signed(), Type::INT8),
        ];
        self.ask(&self.statements.renew, &parameters).await.map(|rows| !rows.is_empty())
    }

    async fn release(&self, own: u64, epoch: u64, wanted: u64) -> DatabaseResult<()> {
        let parameters: [PgParameter<'_>; 4] = [
            (&epoch.cast_signed(), Type::INT8),
            (&own.cast_signed(), Type::INT8),
            (&wanted.cast_signed(), Type::INT8),
            (&self.statements.channel, Type::TEXT),
        ];
        self.ask(&self.statements.release, &parameters).await.map(|_| ())
    }

    async fn be_there(&self, own: &Peer, is_willing: bool) -> DatabaseResult<()> {
        let parameters: [PgParameter<'_>; 5] = [
            (&own.id.cast_signed(), Type::INT8),
            (&own.name, Type::TEXT),
            (&own.cluster_address, Type::TEXT),
            (&own.api_address, Type::TEXT),
            (&is_willing, Type::BOOL),
        ];
        self.ask(&self.statements.beat, &parameters).await.map(|_| ())
    }

    async fn supersede(&self, own: &Peer) -> DatabaseResult<()> {
        let parameters: [PgParameter<'_>; 4] = [
            (&own.id.cast_signed(), Type::INT8),
            (&own.name, Type::TEXT),
            (&own.cluster_address, Type::TEXT),
            (&ms(ALIVE), Type::FLOAT8),
        ];
        self.ask(&self.statements.supersede, &parameters).await.map(|_| ())
    }

    async fn servers(&self) -> DatabaseResult<Vec<ListedServer>> {
        let parameters: [PgParameter<'_>; 2] =
            [(&ms(SILENT_MAX), Type::FLOAT8), (&SERVERS_MAX, Type::INT8)];
        self.ask(&self.statements.servers, &parameters).await?.iter().map(listed).collect()
    }

    async fn forget_servers(&self) -> DatabaseResult<()> {
        let parameters: [PgParameter<'_>; 1] = [(&ms(SILENT_MAX), Type::FLOAT8)];
        self.ask(&self.statements.forget_servers, &parameters).await.map(|_| ())
    }

    async fn leave(&self, own: u64) -> DatabaseResult<()> {
        let parameters: [PgParameter<'_>; 1] = [(&own.cast_signed(), Type::INT8)];
        self.ask(&self.statements.leave, &parameters).await.map(|_| ())
    }

    async fn clear_staged(&self, epoch: u64, up_to: u64) -> DatabaseResult<()> {
        let parameters: [PgParameter<'_>; 2] =
            [(&epoch.cast_signed(), Type::INT8), (&up_to.cast_signed(), Type::INT8)];
        let clear = &self.statements.clear_staged;
        self.session.run(clear, &parameters, LONG_STATEMENT).await.map(|_| ())
    }

    async fn begin_restore(&self, order: &RestoreOrder, body: &[u8]) -> DatabaseResult<bool> {
        let parameters: [PgParameter<'_>; 5] = [
            (&ms(LEASE), Type::FLOAT8),
            (&order.epoch.cast_signed(), Type::INT8),
            (&order.generation.cast_signed(), Type::INT8),
            (&order.before.cast_signed(), Type::INT8),
            (&body, Type::BYTEA),
        ];
        self.ask(&self.statements.begin_restore, &parameters).await.map(|rows| !rows.is_empty())
    }

    async fn stage(
        &self,
        epoch: u64,
        generation: u64,
        records: &[(Bytes, Bytes)],
    ) -> DatabaseResult<bool> {
        let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
        let values: Vec<&[u8]> = records.iter().map(|(_, value)| &value[..]).collect();
        let parameters: [PgParameter<'_>; 4] = [
            (&epoch.cast_signed(), Type::INT8),
            (&generation.cast_signed(), Type::INT8),
            (&keys, Type::BYTEA_ARRAY),
            (&values, Type::BYTEA_ARRAY),
        ];
        let rows = self.ask(&self.statements.stage, &parameters).await?;
        Ok(!rows.is_empty() || records.is_empty())
    }

    async fn switch(&self, order: &RestoreOrder, records: u64) -> DatabaseResult<SwitchOutcome> {
        let switched = self.take_place(order, records).await;
        match &switched {
            Ok(SwitchOutcome::Switched) | Err(DatabaseFailure::Lost(_)) => {}
            // The connection goes on without the transaction.
            Ok(SwitchOutcome::Deposed | SwitchOutcome::Incomplete) | Err(_) => {
                self.session.batch("ROLLBACK", STATEMENT).await?;
            }
        }
        switched
    }
}
