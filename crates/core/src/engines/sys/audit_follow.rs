//! `sys/kallisto/audit/:device/records?follow=true`: the records of a file device as they are written, one JSON text a line.
//!
//! With `from_seq` or `since` the stream begins there, without at the end of the file. It is bound to the token that asked for it: when that
//! ends, loses the right, or the server is sealed, so does the stream. Nothing is buffered per stream but one block of the file and the
//! beginning of one line; the device rings after each group that it wrote.

use std::path::Path;

use jiff::Timestamp;
use kallisto_audit::LinesAhead;
use tokio::sync::watch;

use super::audit_records::{Fit, RecordFilter};
use crate::api::error::Error;
use crate::api::response::Response;
use crate::api::stream::{ChangeFuture, NextPiece, Source, Stream};
use crate::caller::policies::CallerPolicies;
use crate::dispatch::route_handler::RouteCall;
use crate::engines::kv_watch::{ContextSlot, WatchCaller, admit};
use crate::view::Permit;

/// Blocks of the file that are looked through for one piece of a stream, if no record of them fits.
const BLOCKS_MAX: usize = 8;

/// The records for one client.
struct FollowedRecords {
    slot: ContextSlot,
    lines: LinesAhead,
    notified: watch::Receiver<()>,
    /// What the token's rules are asked for.
    path: String,
    filter: RecordFilter,
    is_raw: bool,
    bearer: WatchCaller,
    _permit: Permit,
}

/// Opens a stream of records.
///
/// # Errors
/// [`Error::NotFound`] where there is no file yet; [`Error::Unavailable`] for a stream too many, and for a device that cannot be followed.
pub(super) fn open(
    run: &RouteCall<'_>,
    file: &Path,
    filter: RecordFilter,
    is_raw: bool,
) -> Result<Response, Error> {
    if run.call.wrap_ttl_secs > 0 {
        return Err(Error::invalid("records that are followed cannot be wrapped"));
    }
    let device = run.params.get("device");
    let notified = run.core.audit.devices.named(device).map(|device| device.listen());
    let notified = notified.ok_or_else(|| {
        Error::Unavailable("the audit device does not run on this server".to_owned())
    })?;
    let caller = CallerPolicies::of(&run.context, run.call)?;
    let permit = admit(&run.context.view.feed, &caller)?;
    let opened = match filter.has_start() {
        true => LinesAhead::from_start(file),
        false => LinesAhead::from_end(file),
    };
    let lines = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NotFound,
        _ => Error::internal(&error),
    })?;
    let source = FollowedRecords {
        slot: ContextSlot::of(run.core, &run.context),
        lines,
        notified,
        path: format!("sys/kallisto/audit/{device}/records"),
        filter,
        is_raw,
        bearer: WatchCaller::of(run.call),
        _permit: permit,
    };
    let source = Box::new(source);
    Ok(Response::Stream(Stream { content_type: "application/x-ndjson", source }))
}

impl Source for FollowedRecords {
    fn next(&mut self, now: Timestamp) -> NextPiece {
        // First the bell: what is written while this looks rings again.
        let is_over = self.notified.has_changed().is_err();
        self.notified.mark_unchanged();
        let context = self.slot.load();
        if !context.is_some_and(|context| self.bearer.may_read(&context, &self.path, now)) {
            return NextPiece::End(Vec::new());
        }
        for _ in 0..BLOCKS_MAX {
            match self.lines.next_lines() {
                Ok(Some(block)) => {
                    let fitting = self.fitting(&block);
                    if !fitting.is_empty() {
                        return NextPiece::Bytes(fitting);
                    }
                }
                Ok(None) if is_over => return NextPiece::End(Vec::new()),
                Ok(None) => return NextPiece::Wait,
                // Cut, or not readable any more: what came is not all there is.
                Err(_) => return NextPiece::Cut,
            }
        }
        // Much was looked at and nothing fits: others have their turn.
        NextPiece::Bytes(self.heartbeat().to_vec())
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        // A device that is gone rings for ever, and `next` ends the stream.
        Box::pin(async move { self.notified.changed().await.unwrap_or_default() })
    }

    fn heartbeat(&self) -> &'static [u8] {
        b"\n"
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        None
    }
}

impl FollowedRecords {
    /// The lines that are asked for, each with its newline.
    fn fitting(&self, block: &[u8]) -> Vec<u8> {
        let mut fitting = Vec::new();
        for line in block.split_inclusive(|&byte| byte == b'\n') {
            let body = line.strip_suffix(b"\n").unwrap_or(line);
            if self.filter.judge(body) != Fit::Yes {
                continue;
            }
            // In front of a record may be the prefix of its device.
            let from = if self.is_raw { 0 } else { memchr::memchr(b'{', line).unwrap_or(0) };
            fitting.extend_from_slice(&line[from..]);
        }
        fitting
    }
}
