//! `sys/kallisto/audit/:device/records?follow=true`: the records of a file device as they are written, one JSON text a line.
//!
//! With `from_seq` or `since` the stream begins there, without at the end of the file. It is bound to the token that asked for it: when that
//! ends, loses the right, or the server is sealed or was not told for too long what the cluster committed, so does the stream.
//!
//! The file is read beside the workers, a block at a time: when the block before was sent and the device has written since, or there is more
//! to catch up on. [`RECORD_READS_MAX`](crate::limits::RECORD_READS_MAX) blocks are read at once for all streams, which take turns, and a listener pauses between two.
//!
//! Invariants:
//! - No worker reads a file or judges a record for a stream.
//! - A stream holds a block or what its answer made of it, and the beginning of a line; of the latter what is above [`KEPT_BYTES_FREE`] is counted as a reply that
//!   waits, and a stream without a share ends as one that was cut.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kallisto_audit::{FOLLOWED_BLOCK_BYTES, LinesAhead};
use tokio::sync::{Semaphore, watch};

use super::audit_records::{Fit, RecordFilter};
use crate::admission::{Cost, Flow, Held};
use crate::api::error::Error;
use crate::api::response::Response;
use crate::api::stream::{ChangeFuture, NextPiece, Source, Stream};
use crate::caller::policies::CallerPolicies;
use crate::dispatch::route_handler::RouteCall;
use crate::engines::kv_watch::{StreamBinding, admit};
use crate::platform::pool::ThreadPool;
use crate::view::Permit;

/// Blocks without a record that fits, after which the stream shows that it lives: a second or so.
const SILENT_BLOCKS_MAX: usize = 32;
/// What judging a block costs: a turn for 64 KiB of it.
const BLOCK_COST: Cost = (FOLLOWED_BLOCK_BYTES >> 16) as Cost;
/// Bytes of a line whose end is not there yet that a stream may hold without a share of what replies may hold.
const KEPT_BYTES_FREE: usize = 64 << 10;

/// The records for one client.
struct FollowedRecords {
    binding: StreamBinding,
    notified: watch::Receiver<()>,
    reader: BlockReader,
    reading: Reading,
    silent_blocks: usize,
    _permit: Permit,
}

/// Reads beside the workers.
struct BlockReader {
    records: Arc<Mutex<RecordLines>>,
    pool: Arc<ThreadPool>,
    turns: Arc<Semaphore>,
    flow: Flow,
}

/// The lines of the file that are asked for.
struct RecordLines {
    lines: LinesAhead,
    filter: RecordFilter,
    is_raw: bool,
    /// The share of what is kept of a long line.
    kept: Held,
}

/// How far a stream is with its next block.
enum Reading {
    /// Everything was read that was there.
    AtEnd,
    /// There may be more.
    Due,
    UnderWay {
        block: BlockFuture,
        /// Whether the device had ended before it was begun.
        is_last: bool,
    },
    Done {
        block: io::Result<Option<Vec<u8>>>,
        is_last: bool,
    },
}

/// The fitting lines of a block; `None` at the end of the file.
type BlockFuture = Pin<Box<dyn Future<Output = io::Result<Option<Vec<u8>>>> + Send + Sync>>;

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
        io::ErrorKind::NotFound => Error::NotFound,
        _ => Error::internal(&error),
    })?;
    let path = format!("sys/kallisto/audit/{device}/records");
    let mut binding = StreamBinding::of(run.core, &run.context, run.call, path);
    binding.check(run.call.now)?;
    let flow = run.call.flow();
    let kept = run.core.admission.reply_bytes.nothing(flow);
    let source = FollowedRecords {
        binding,
        notified,
        reader: BlockReader {
            records: Arc::new(Mutex::new(RecordLines { lines, filter, is_raw, kept })),
            pool: Arc::clone(&run.core.compute.requests),
            turns: Arc::clone(&run.core.record_reads),
            flow,
        },
        reading: Reading::Due,
        silent_blocks: 0,
        _permit: permit,
    };
    let source = Box::new(source);
    Ok(Response::Stream(Stream { content_type: "application/x-ndjson", source }))
}

impl Source for FollowedRecords {
    fn next(&mut self, now: Timestamp) -> NextPiece {
        if !self.binding.holds(now) {
            return NextPiece::End(Vec::new());
        }
        match std::mem::replace(&mut self.reading, Reading::Due) {
            Reading::AtEnd if self.notified.has_changed().is_ok_and(|changed| !changed) => {
                self.reading = Reading::AtEnd;
                NextPiece::Wait
            }
            Reading::AtEnd | Reading::Due => {
                self.read_on();
                NextPiece::Wait
            }
            reading @ Reading::UnderWay { .. } => {
                self.reading = reading;
                NextPiece::Wait
            }
            Reading::Done { block: Ok(Some(lines)), .. } => self.tell(lines),
            Reading::Done { block: Ok(None), is_last: true } => NextPiece::End(Vec::new()),
            Reading::Done { block: Ok(None), is_last: false } => {
                self.reading = Reading::AtEnd;
                self.next(now)
            }
            // Cut, or not readable any more: what came is not all there is.
            Reading::Done { block: Err(_), .. } => NextPiece::Cut,
        }
    }

    fn changed(&mut self) -> ChangeFuture<'_> {
        let Self { binding, notified, reading, .. } = self;
        let ready = async move {
            match reading {
                Reading::UnderWay { block, is_last } => {
                    let (block, is_last) = (block.await, *is_last);
                    *reading = Reading::Done { block, is_last };
                }
                // A device that is gone rings for ever, and `next` ends the stream.
                Reading::AtEnd => notified.changed().await.unwrap_or_default(),
                Reading::Due | Reading::Done { .. } => {}
            }
        };
        Box::pin(binding.changed_or(ready))
    }

    fn heartbeat(&self) -> &'static [u8] {
        b"\n"
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        None
    }
}

impl FollowedRecords {
    /// Begins to read the next block.
    fn read_on(&mut self) {
        // First the bell: what is written while this reads rings again.
        let is_last = self.notified.has_changed().is_err();
        self.notified.mark_unchanged();
        self.reading = Reading::UnderWay { block: self.reader.read(), is_last };
    }

    fn tell(&mut self, lines: Vec<u8>) -> NextPiece {
        self.silent_blocks = if lines.is_empty() { self.silent_blocks + 1 } else { 0 };
        if !lines.is_empty() {
            return NextPiece::Bytes(lines);
        }
        if self.silent_blocks.is_multiple_of(SILENT_BLOCKS_MAX) {
            return NextPiece::Bytes(self.heartbeat().to_vec());
        }
        self.read_on();
        NextPiece::Wait
    }
}

impl BlockReader {
    /// Reads a block in its turn.
    fn read(&self) -> BlockFuture {
        let (records, pool) = (Arc::clone(&self.records), Arc::clone(&self.pool));
        let (turns, flow) = (Arc::clone(&self.turns), self.flow);
        Box::pin(async move {
            let turn = turns.acquire_owned().await.map_err(io::Error::other)?;
            let read = async move {
                let _turn = turn;
                records.lock().unwrap_or_else(PoisonError::into_inner).next_fitting()
            };
            match pool.submit(flow, BLOCK_COST, read) {
                Ok(reading) => reading.await.map_err(|_| io::ErrorKind::Other)?,
                // As much waits there as may: this comes again after its pause.
                Err(_) => Ok(Some(Vec::new())),
            }
        })
    }
}

impl RecordLines {
    /// The lines of the next block that are asked for, each with its newline; `None` at the end of the file.
    fn next_fitting(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(block) = self.lines.next_lines()? else { return Ok(None) };
        let kept = self.lines.kept_bytes().saturating_sub(KEPT_BYTES_FREE);
        self.kept.give_back();
        self.kept.grow(kept).map_err(|_| io::ErrorKind::QuotaExceeded)?;
        let mut fitting = Vec::new();
        for line in block.split_inclusive(|&byte| byte == b'\n') {
            let body = line.strip_suffix(b"\n").unwrap_or(line);
            if self.filter.judge(body) != Fit::Yes {
                continue;
            }
            self.filter.pass_start();
            // In front of a record may be the prefix of its device.
            let from = if self.is_raw { Some(0) } else { memchr::memchr(b'{', line) };
            // What is no object is a line of the file, and no record.
            if let Some(from) = from.filter(|_| self.is_raw || body.ends_with(b"}")) {
                fitting.extend_from_slice(&line[from..]);
            }
        }
        Ok(Some(fitting))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::admission::Admission;
    use crate::api::fields::Fields;
    use crate::api::json::Map;
    use crate::platform::pool::Claim;

    const FLOW: Flow = Flow { address: 1, token: 0 };

    /// A reader of a file that holds this.
    fn reader(name: &str, text: &str, query: &[(&str, &str)], is_raw: bool) -> BlockReader {
        let path = std::env::temp_dir()
            .join(format!("kallisto-block-reader-{}-{name}", std::process::id()));
        #[expect(clippy::disallowed_methods, reason = "the test writes the file that is read")]
        std::fs::write(&path, text).unwrap();
        let lines = LinesAhead::from_start(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let query: Map =
            query.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
        let filter = RecordFilter::from_fields(Fields::new(&query)).unwrap();
        let admission = Admission::default();
        let kept = admission.reply_bytes.nothing(FLOW);
        BlockReader {
            records: Arc::new(Mutex::new(RecordLines { lines, filter, is_raw, kept })),
            pool: Arc::new(ThreadPool::new("test", 1, Claim::Equal, admission.computations)),
            turns: Arc::new(Semaphore::new(1)),
            flow: FLOW,
        }
    }

    #[test]
    fn a_block_is_read_in_its_turn_beside_the_worker_and_is_one_block() {
        let record = format!("{{\"v\":\"{}\"}}\n", "x".repeat(1000));
        let reader = reader("turns", &record.repeat(1000), &[], false);
        let other = Arc::clone(&reader.turns).try_acquire_owned().unwrap();
        let mut waiting = reader.read();
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        assert_eq!(reader.records.lock().unwrap().lines.kept_bytes(), 0, "nothing was read");
        drop(other);
        let mut bytes = pollster::block_on(waiting).unwrap().unwrap().len();
        assert!(bytes <= FOLLOWED_BLOCK_BYTES, "{bytes}");
        let locked = Arc::clone(&reader.records);
        let guard = locked.lock().unwrap();
        let mut reading = reader.read();
        // What reads waits for the lock on a thread of its own, and not here.
        assert!(matches!(reading.as_mut().poll(&mut context), Poll::Pending));
        drop(guard);
        bytes += pollster::block_on(reading).unwrap().unwrap().len();
        while let Some(more) = pollster::block_on(reader.read()).unwrap() {
            bytes += more.len();
        }
        assert_eq!(bytes, record.len() * 1000);
    }

    #[test]
    fn without_a_filter_lines_are_not_parsed_and_behind_the_start_not_for_it() {
        let text = "prefix {\"chain\":{\"seq\":1}}\n{no json}\n{\"chain\":{\"seq\":2}}\nhalf {\n{still none}\n";
        let found = |name, query: &[(&str, &str)], is_raw| {
            let reader = reader(name, text, query, is_raw);
            let lines = pollster::block_on(reader.read()).unwrap().unwrap();
            String::from_utf8(lines).unwrap()
        };
        assert_eq!(found("raw", &[], true), text);
        let objects = text.replace("prefix ", "").replace("half {\n", "");
        assert_eq!(found("all", &[], false), objects);
        let from_two = "{\"chain\":{\"seq\":2}}\n{still none}\n";
        assert_eq!(found("start", &[("from_seq", "2")], false), from_two);
        let parsed = "{\"chain\":{\"seq\":1}}\n{\"chain\":{\"seq\":2}}\n";
        assert_eq!(found("filtered", &[("until", "2099-01-01T00:00:00Z")], false), parsed);
    }

    #[test]
    fn a_long_line_holds_a_share_of_what_replies_may_hold() {
        let reader = reader("long", &"x".repeat(3 * FOLLOWED_BLOCK_BYTES), &[], true);
        let admission = Admission::new(&crate::admission::AdmissionLimits {
            reply_bytes_max: 2 * FOLLOWED_BLOCK_BYTES,
            ..Default::default()
        });
        reader.records.lock().unwrap().kept = admission.reply_bytes.nothing(FLOW);
        assert_eq!(pollster::block_on(reader.read()).unwrap(), Some(Vec::new()));
        assert_eq!(admission.reply_bytes.held(), FOLLOWED_BLOCK_BYTES - KEPT_BYTES_FREE);
        let refused = pollster::block_on(reader.read()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
        drop(reader);
        assert_eq!(admission.reply_bytes.held(), 0);
    }
}
