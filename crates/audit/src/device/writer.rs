//! The thread that writes what waits, and the one that watches it.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::keeper::Anchor;
use super::queue::{DeviceShared, QueueMode};
use super::{FinishedRecords, Origin};
use crate::anchor::{AnchorVerdict, judge};
use crate::chain::{ChainHead, LINKS_BYTES_MAX};
use crate::checkpoint::CheckpointSigner;
use crate::clock;
use crate::limits::{
    CHECKPOINT_INTERVAL, CHECKPOINT_RECORDS_MAX, GROUP_BYTES, RETRY_MAX, RETRY_MIN,
};
use crate::sink::{LineGroup, Sink};

/// How long a device that goes on failing of the same is not logged again.
const LOG_PAUSE: Duration = Duration::from_secs(60);
/// The watchdog looks this many times within a deadline.
const LOOKS_PER_DEADLINE: u32 = 8;

/// The thread that calls the sink.
pub(super) struct WriterThread {
    pub(super) name: String,
    pub(super) shared: Arc<DeviceShared>,
    pub(super) sink: Box<dyn Sink>,
    /// The last record written; `None` until the destination was first opened.
    pub(super) chain: Option<ChainHead>,
    pub(super) signer: CheckpointSigner,
    pub(super) prefix: String,
    pub(super) unsigned: Unsigned,
    pub(super) origin: Origin,
    pub(super) anchor: Option<Arc<Anchor>>,
    pub(super) buffer: Vec<u8>,
    /// Whether rooms of records are used again.
    pub(super) keeps_rooms: bool,
    /// How much was handed in together lately: what the last group had, or the ones before it, less a sixteenth for each since.
    pub(super) together: usize,
    pub(super) retry: Duration,
    /// What was logged of it, if nothing was written since it failed: opening alone proves little on a full disk.
    pub(super) failure: Option<LoggedFailure>,
    /// Whether it was told that a record is too long for the destination.
    pub(super) has_told_of_long: bool,
}

/// What was logged last of a device that fails.
#[derive(Debug)]
pub(super) struct LoggedFailure {
    why: String,
    at: Instant,
}

/// What was written since the last checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unsigned {
    records: u64,
    /// When the first of it was.
    since: Option<Instant>,
}

impl Unsigned {
    /// When it has to be signed.
    fn due(self) -> Option<Instant> {
        self.since.map(|since| since + CHECKPOINT_INTERVAL)
    }

    fn is_due(self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
    }
}

/// What the writer does next.
enum WriterStep {
    Open,
    Sign,
    Write(Vec<FinishedRecords>),
    End,
}

impl WriterThread {
    pub(super) fn run(mut self) {
        loop {
            let outcome = match self.next() {
                WriterStep::End => return self.end(),
                WriterStep::Open => self.open(),
                WriterStep::Sign => self.sign(),
                WriterStep::Write(group) => {
                    let outcome = self.write(&group);
                    if self.keeps_rooms {
                        self.shared.keep_rooms(group.into_iter().map(|records| records.bytes));
                    }
                    outcome
                }
            };
            self.settle(outcome);
        }
    }

    /// Waits for something to do, and marks the sink as busy with it.
    fn next(&mut self) -> WriterStep {
        let mut state = self.shared.lock();
        let mut has_waited = false;
        loop {
            // Who woke it goes first where they share a processor: the rest of what comes together joins the group. Where nothing has come
            // together lately, it would only wait for whoever else is busy there.
            if std::mem::take(&mut has_waited) && !state.queue.is_empty() && self.together > 1 {
                drop(state);
                std::thread::yield_now();
                state = self.shared.lock();
            }
            let now = clock::monotonic();
            let due = match &state.mode {
                QueueMode::Failed { retry_at, .. } => *retry_at <= now,
                QueueMode::Working | QueueMode::Hanging => false,
            };
            if state.closing && state.queue.is_empty() {
                return WriterStep::End;
            }
            if due || state.reopen || self.chain.is_none() && state.mode == QueueMode::Working {
                state.reopen = false;
                state.busy_since = Some(now);
                return WriterStep::Open;
            }
            if !state.queue.is_empty() {
                let (mut group, mut bytes) = (Vec::with_capacity(state.queue.len()), 0);
                let body_bytes_max = self.sink.line_bytes_max().saturating_sub(LINKS_BYTES_MAX);
                while bytes < GROUP_BYTES
                    && let Some(job) = state.queue.pop_front()
                {
                    bytes += job.records.bytes();
                    if job.records.longest() > body_bytes_max {
                        // It alone fails: it would take with it all that is written together with it.
                        let _ = job.done.send(false);
                        if !std::mem::replace(&mut self.has_told_of_long, true) {
                            tracing::error!(
                                device = self.name,
                                "a record is longer than the audit device takes"
                            );
                        }
                        continue;
                    }
                    group.push(job.records);
                    state.in_flight.push(job.done);
                }
                state.queued_bytes = state.queued_bytes.saturating_sub(bytes);
                if group.is_empty() {
                    continue;
                }
                self.together = group.len().max(self.together - self.together.div_ceil(16));
                state.busy_since = Some(now);
                return WriterStep::Write(group);
            }
            if state.mode == QueueMode::Working && self.unsigned.is_due(now) {
                state.busy_since = Some(now);
                return WriterStep::Sign;
            }
            let wait = match &state.mode {
                QueueMode::Failed { retry_at, .. } => retry_at.saturating_duration_since(now),
                QueueMode::Working | QueueMode::Hanging => {
                    let due = self.unsigned.due().map(|due| due.saturating_duration_since(now));
                    due.map_or(RETRY_MAX, |due| due.min(RETRY_MAX))
                }
            };
            let woken = self.shared.work.wait_timeout(state, wait);
            let (woken, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            has_waited = true;
            if timeout.timed_out() {
                self.shared.drop_rooms();
            }
        }
    }

    fn open(&mut self) -> std::io::Result<()> {
        // What was written so far may have been moved away: it is signed where it is.
        if self.unsigned.records > 0 && self.failure.is_none() {
            let _ = self.sign();
        }
        let found = self.sink.open()?;
        match (self.chain, found) {
            (None, found) => {
                let (head, verdict) = self.begin(found)?;
                self.chain = Some(head);
                let mut state = self.shared.lock();
                (state.head, state.verdict) = (head, Some(verdict));
            }
            (Some(head), Some(found)) if found != head => {
                tracing::error!(
                    device = self.name,
                    "the audit file ends with a record that is not the last one written"
                );
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the chain goes on in a destination that was opened for the first time.
    fn begin(&mut self, found: Option<ChainHead>) -> std::io::Result<(ChainHead, AnchorVerdict)> {
        let Some(anchor) = self.anchor.as_ref().filter(|_| self.origin == Origin::Known) else {
            return Ok((found.unwrap_or_default(), AnchorVerdict::New));
        };
        let Some(anchor) = anchor.read()? else {
            tracing::error!(
                device = self.name,
                "there is no anchor of the audit device: what it wrote before is not compared"
            );
            return Ok((found.unwrap_or_default(), AnchorVerdict::Unanchored));
        };
        let (head, verdict) = judge(anchor, found, self.sink.seek(anchor.seq)?);
        let (remembered, last) = (anchor.seq, found.map_or(0, |found| found.seq));
        if verdict == AnchorVerdict::Ahead {
            tracing::error!(
                device = self.name,
                remembered,
                last,
                "the audit destination goes on long after what this server remembers: its data directory was put back from an older copy, \
                 and what was written since then, revocations too, is missing here"
            );
        } else if verdict.is_fault() {
            tracing::error!(
                device = self.name,
                found = verdict.name(),
                remembered,
                last,
                "the audit destination is not as it was left: records were removed or replaced while the server did not run"
            );
        }
        Ok((head, verdict))
    }

    /// Writes a checkpoint.
    fn sign(&mut self) -> std::io::Result<()> {
        let head = self.chain.unwrap_or_default();
        self.buffer.clear();
        let head = self.signer.add(head, &self.prefix, clock::now(), &mut self.buffer);
        self.sink.write(&LineGroup { bytes: &self.buffer, ends: &[self.buffer.len()] })?;
        self.took(head, Unsigned::default());
        Ok(())
    }

    /// Signs what is not signed yet, as far as the destination still works.
    fn end(mut self) {
        if self.unsigned.records > 0 && self.failure.is_none() {
            let _ = self.sign();
        }
        self.shared.lock().has_ended = true;
        self.shared.ended.notify_all();
    }

    fn took(&mut self, head: ChainHead, unsigned: Unsigned) {
        self.chain = Some(head);
        self.unsigned = unsigned;
        self.shared.lock().head = head;
        if self.shared.written.receiver_count() > 0 {
            self.shared.written.send_replace(());
        }
    }

    fn write(&mut self, group: &[FinishedRecords]) -> std::io::Result<()> {
        let now = clock::monotonic();
        let mut unsigned = self.unsigned;
        let mut head = self.chain.unwrap_or_default();
        let mut ends = Vec::with_capacity(group.iter().map(FinishedRecords::len).sum());
        self.buffer.clear();
        let bytes: usize = group.iter().map(FinishedRecords::bytes).sum();
        self.buffer.reserve(bytes + ends.capacity() * LINKS_BYTES_MAX);
        for body in group.iter().flat_map(FinishedRecords::bodies) {
            let start = self.buffer.len();
            self.buffer.extend_from_slice(body);
            head = head.link(start, &mut self.buffer);
            ends.push(self.buffer.len());
            unsigned.records += 1;
            unsigned.since.get_or_insert(now);
            if unsigned.records >= CHECKPOINT_RECORDS_MAX || unsigned.is_due(now) {
                head = self.signer.add(head, &self.prefix, clock::now(), &mut self.buffer);
                ends.push(self.buffer.len());
                unsigned = Unsigned::default();
            }
        }
        self.sink.write(&LineGroup { bytes: &self.buffer, ends: &ends })?;
        self.took(head, unsigned);
        self.recovered();
        // One huge group must not hold its memory for ever.
        self.buffer.clear();
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }

    /// Takes note of a group that was written.
    fn recovered(&mut self) {
        if self.failure.take().is_some() {
            tracing::info!(device = self.name, "the audit device works again");
        }
        self.retry = RETRY_MIN;
    }

    /// Logs that it failed, unless that was logged of the same reason lately: it is tried again every few seconds.
    fn log_failure(&mut self, why: &str, now: Instant) {
        let is_logged = |logged: &LoggedFailure| {
            logged.why == why && now.saturating_duration_since(logged.at) < LOG_PAUSE
        };
        if !self.failure.as_ref().is_some_and(is_logged) {
            tracing::error!(device = self.name, error = %why, "an audit device failed");
            self.failure = Some(LoggedFailure { why: why.to_owned(), at: now });
        }
    }

    /// Tells those who waited, and what the device is now.
    fn settle(&mut self, outcome: std::io::Result<()>) {
        if let Err(error) = &outcome {
            self.log_failure(&error.to_string(), clock::monotonic());
        }
        let mut state = self.shared.lock();
        state.busy_since = None;
        match outcome {
            Ok(()) => {
                state.mode = QueueMode::Working;
                let told = std::mem::take(&mut state.in_flight);
                drop(state);
                let _together = kallisto_wake::together();
                for done in told {
                    let _ = done.send(true);
                }
            }
            Err(error) => {
                let retry_at = clock::monotonic() + self.retry;
                self.retry = (self.retry * 2).min(RETRY_MAX);
                state.mode = QueueMode::Failed { why: error.to_string(), retry_at };
                state.refuse_all();
            }
        }
    }
}

/// Fails everybody who waits for a sink that does not come back.
pub(super) fn watch(name: &str, shared: &DeviceShared, deadline: Duration) {
    let mut state = shared.lock();
    while !state.closing {
        let late = state.busy_since.is_some_and(|since| clock::monotonic() - since >= deadline);
        if late && state.mode != QueueMode::Hanging {
            tracing::error!(device = name, "an audit device hangs");
            state.mode = QueueMode::Hanging;
            state.refuse_all();
        }
        let woken = shared.ended.wait_timeout(state, deadline / LOOKS_PER_DEADLINE);
        state = woken.unwrap_or_else(PoisonError::into_inner).0;
    }
    // The writer may hang for ever; nobody waits for it.
    if state.busy_since.is_some() && state.mode == QueueMode::Hanging {
        state.refuse_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::logged::errors_of;
    use crate::device::queue::{DeviceJob, QueueState};
    use crate::mask::SALT_BYTES;

    #[test]
    fn what_was_written_has_to_be_signed_a_while_after_the_first_of_it() {
        let since = clock::monotonic();
        let due = since + CHECKPOINT_INTERVAL;
        let unsigned = Unsigned { records: 2, since: Some(since) };
        assert_eq!(unsigned.due(), Some(due));
        assert!(unsigned.is_due(due) && !unsigned.is_due(due - Duration::from_nanos(1)));
        assert_eq!(Unsigned::default().due(), None);
        assert!(!Unsigned::default().is_due(due));
    }

    /// A destination that ends with this record.
    struct EndsWith(Option<ChainHead>);

    impl Sink for EndsWith {
        fn open(&mut self) -> std::io::Result<Option<ChainHead>> {
            Ok(self.0)
        }

        fn write(&mut self, _: &LineGroup<'_>) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn writer() -> WriterThread {
        WriterThread {
            name: "d/".to_owned(),
            shared: Arc::new(DeviceShared::new(QueueState::new(true))),
            sink: Box::new(EndsWith(None)),
            chain: None,
            signer: CheckpointSigner::new(&[1; SALT_BYTES], "n", "d/").unwrap(),
            prefix: String::new(),
            unsigned: Unsigned::default(),
            origin: Origin::New,
            anchor: None,
            buffer: Vec::new(),
            together: 0,
            keeps_rooms: true,
            retry: RETRY_MIN,
            failure: None,
            has_told_of_long: false,
        }
    }

    #[test]
    fn the_pause_before_a_failed_device_is_tried_again_doubles_up_to_its_limit() {
        let mut writer = writer();
        let mut expected = RETRY_MIN;
        for _ in 0..12 {
            assert_eq!(writer.retry, expected);
            let before = clock::monotonic();
            writer.settle(Err(std::io::ErrorKind::StorageFull.into()));
            let after = clock::monotonic();
            let QueueMode::Failed { retry_at, .. } = writer.shared.lock().mode else {
                panic!("it failed");
            };
            assert!((before + expected..=after + expected).contains(&retry_at));
            expected = (expected + expected).min(RETRY_MAX);
        }
        assert_eq!(expected, RETRY_MAX);
        writer.recovered();
        assert_eq!(writer.retry, RETRY_MIN);
        assert!(writer.failure.is_none());
    }

    #[test]
    fn a_failure_is_logged_once_a_minute_and_of_another_reason_at_once() {
        let (mut writer, start) = (writer(), clock::monotonic());
        let mut logged = |why: &str, secs| {
            errors_of(|| writer.log_failure(why, start + Duration::from_secs(secs)))
        };
        assert_eq!(
            [logged("a", 0), logged("a", 59), logged("b", 59), logged("b", 118)],
            [1, 0, 1, 0]
        );
        assert_eq!([logged("b", 119), logged("a", 120)], [1, 1]);
    }

    /// Whether it gives its turn away for more depends on that.
    #[test]
    fn what_was_handed_in_together_is_remembered_for_a_while() {
        let mut writer = WriterThread { chain: Some(ChainHead::default()), ..writer() };
        let mut together = |jobs: usize| {
            let mut state = writer.shared.lock();
            for _ in 0..jobs {
                let records = FinishedRecords { bytes: b"a".to_vec(), ends: vec![1] };
                let (done, _) = tokio::sync::oneshot::channel();
                state.queue.push_back(DeviceJob { records, done });
            }
            drop(state);
            assert!(matches!(writer.next(), WriterStep::Write(group) if group.len() == jobs));
            writer.together
        };
        assert_eq!([1, 1, 17, 1, 1].map(&mut together), [1, 1, 17, 15, 14]);
        assert_eq!((0..14).map(|_| together(1)).last(), Some(1));
    }

    #[test]
    fn a_file_that_is_opened_again_and_ends_with_another_record_is_told_of() {
        let (last, other) =
            (ChainHead { seq: 2, hash: [1; 32] }, ChainHead { seq: 2, hash: [2; 32] });
        for (chain, found, errors) in [
            (None, None, 0),
            (None, Some(other), 0),
            (Some(last), None, 0),
            (Some(last), Some(last), 0),
            (Some(last), Some(other), 1),
        ] {
            let sink = Box::new(EndsWith(found));
            let mut writer = WriterThread { chain, sink, ..writer() };
            assert_eq!(errors_of(|| writer.open().unwrap()), errors, "{chain:?} {found:?}");
        }
    }
}
