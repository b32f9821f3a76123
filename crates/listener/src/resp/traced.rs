//! Spans of commands of the Redis protocol: each is a trace of its own, since the protocol has no place for a client's.
//!
//! Invariant: a span holds the name of a command of the table, the mount and the word of its failure, one of a fixed set. Nothing of it is an
//! argument, and nothing is read back from replies, which hold values.

use std::sync::Arc;

use kallisto_core::Error;
use kallisto_traces::{RequestSpan, RequestTrace, SpanStatus, Tracer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::commands;
use super::session::{CommandArguments, CommandFailure, RespSession, Stopped};
use super::wire::RespWire;

/// What a command is called that is in no table.
const UNKNOWN: &str = "unknown";
/// The attribute that says how a command failed.
const FAILURE_WORD: &str = "db.response.status_code";

impl RespSession {
    /// Runs a command and records that.
    pub(super) async fn run_traced<S>(
        &mut self,
        tracer: &Arc<Tracer>,
        wire: &mut RespWire<S>,
        arguments: CommandArguments<'_>,
    ) -> Result<(), Stopped>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let span = tracer.begin(None);
        let trace = Arc::clone(span.trace());
        let name = arguments.get(0).and_then(commands::find).map_or(UNKNOWN, |row| row.name);
        let outcome = trace.scope(self.run_command(wire, arguments)).await;
        if trace.is_recorded() {
            self.note_command(&trace, name);
            if let Err(Stopped::Failed(failure)) = &outcome {
                trace.note(FAILURE_WORD, failure.word);
            }
        }
        // Dropped without an end, its client went away.
        if !matches!(outcome, Err(Stopped::Gone(_))) {
            span.end(SpanStatus::Unset);
        }
        outcome
    }

    /// Begins the span of one of many writes that are under way together; `None` where one for all of them is recorded, or none.
    pub(super) fn begin_write(&self) -> Option<RequestSpan> {
        let tracer = self.shared.tracer.get()?;
        if kallisto_traces::current().is_some() {
            return None;
        }
        let span = tracer.begin(None);
        if span.trace().is_recorded() {
            self.note_command(span.trace(), "set");
        }
        Some(span)
    }

    /// The span of a `GET` that memory answered, begun at `begin` of the tracer's clock; `None` for one that is not recorded.
    pub(super) fn span_of_get(
        &self,
        begin: std::time::Duration,
        failed: Option<&Error>,
    ) -> Option<RequestSpan> {
        let tracer = self.shared.tracer.get()?;
        let ago = tracer.monotonic().saturating_sub(begin);
        let span = tracer.begin_answered(None, ago)?;
        self.note_command(span.trace(), "get");
        note_failure(span.trace(), failed);
        Some(span)
    }

    fn note_command(&self, trace: &RequestTrace, name: &'static str) {
        trace.set_name(format!("RESP {name}"));
        trace.note("db.system.name", "redis");
        trace.note("db.operation.name", name);
        trace.note("kallisto.mount.path", self.mount().to_owned());
        trace.note("kallisto.mount.type", self.engine.name());
    }
}

/// Ends the span of one of many writes.
pub(super) fn end_write(span: RequestSpan, failed: Option<&Error>) {
    note_failure(span.trace(), failed);
    span.end(SpanStatus::Unset);
}

fn note_failure(trace: &RequestTrace, failed: Option<&Error>) {
    if let Some(error) = failed.filter(|_| trace.is_recorded()) {
        trace.note(FAILURE_WORD, CommandFailure::word_of(error));
    }
}
