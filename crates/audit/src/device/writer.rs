//! The thread that writes what waits, and the one that watches it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Records;
use super::queue::{Mode, Shared};
use crate::chain::{Head, LINKS_BYTES_MAX};
use crate::clock;
use crate::limits::{RETRY_MAX, RETRY_MIN};
use crate::sink::{Group, Sink};

/// The watchdog looks this many times within a deadline.
const LOOKS_PER_DEADLINE: u32 = 8;

/// The thread that calls the sink.
pub(super) struct WriterThread {
    pub(super) name: String,
    pub(super) shared: Arc<Shared>,
    pub(super) sink: Box<dyn Sink>,
    /// The last record written; `None` until the destination was first opened.
    pub(super) chain: Option<Head>,
    pub(super) buffer: Vec<u8>,
    pub(super) retry: Duration,
    /// Whether nothing was written since it failed: opening alone proves little on a full disk.
    pub(super) is_failing: bool,
}

/// What the writer does next.
enum Step {
    Open,
    Write(Vec<Records>),
    End,
}

impl WriterThread {
    pub(super) fn run(mut self) {
        loop {
            let outcome = match self.next() {
                Step::End => return,
                Step::Open => self.open(),
                Step::Write(group) => self.write(&group),
            };
            self.settle(outcome);
        }
    }

    /// Waits for something to do, and marks the sink as busy with it.
    fn next(&self) -> Step {
        let mut state = self.shared.lock();
        let mut has_waited = false;
        loop {
            // Who woke it goes first where they share a processor: the rest of what comes together joins the group.
            if std::mem::take(&mut has_waited) && !state.queue.is_empty() {
                drop(state);
                std::thread::yield_now();
                state = self.shared.lock();
            }
            let now = clock::monotonic();
            let due = match &state.mode {
                Mode::Failed { retry_at, .. } => *retry_at <= now,
                Mode::Working | Mode::Hanging => false,
            };
            if state.closing && state.queue.is_empty() {
                return Step::End;
            }
            if due || state.reopen || self.chain.is_none() && state.mode == Mode::Working {
                state.reopen = false;
                state.busy_since = Some(now);
                return Step::Open;
            }
            if !state.queue.is_empty() {
                state.busy_since = Some(now);
                state.queued_bytes = 0;
                let mut group = Vec::with_capacity(state.queue.len());
                while let Some(job) = state.queue.pop_front() {
                    group.push(job.records);
                    state.in_flight.push(job.done);
                }
                return Step::Write(group);
            }
            let wait = match &state.mode {
                Mode::Failed { retry_at, .. } => retry_at.saturating_duration_since(now),
                Mode::Working | Mode::Hanging => RETRY_MAX,
            };
            let woken = self.shared.work.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            has_waited = true;
        }
    }

    fn open(&mut self) -> std::io::Result<()> {
        let found = self.sink.open()?;
        match (self.chain, found) {
            (None, found) => {
                let head = found.unwrap_or_default();
                self.chain = Some(head);
                self.shared.lock().head = head;
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

    fn write(&mut self, group: &[Records]) -> std::io::Result<()> {
        let mut head = self.chain.unwrap_or_default();
        let mut ends = Vec::with_capacity(group.iter().map(Records::len).sum());
        self.buffer.clear();
        let bytes: usize = group.iter().map(Records::bytes).sum();
        self.buffer.reserve(bytes + ends.capacity() * LINKS_BYTES_MAX);
        for body in group.iter().flat_map(Records::bodies) {
            let start = self.buffer.len();
            self.buffer.extend_from_slice(body);
            head = head.link(start, &mut self.buffer);
            ends.push(self.buffer.len());
        }
        self.sink.write(&Group { bytes: &self.buffer, ends: &ends })?;
        self.chain = Some(head);
        self.shared.lock().head = head;
        self.recovered();
        // One huge group must not hold its memory for ever.
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }

    /// Takes note of a group that was written.
    fn recovered(&mut self) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(device = self.name, "the audit device works again");
        }
        self.retry = RETRY_MIN;
    }

    /// Tells those who waited, and what the device is now.
    fn settle(&mut self, outcome: std::io::Result<()>) {
        let mut state = self.shared.lock();
        state.busy_since = None;
        match outcome {
            Ok(()) => {
                state.mode = Mode::Working;
                let told = std::mem::take(&mut state.in_flight);
                drop(state);
                let _together = kallisto_wake::together();
                for done in told {
                    let _ = done.send(true);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(device = self.name, %error, "an audit device failed");
                }
                let retry_at = clock::monotonic() + self.retry;
                self.retry = (self.retry * 2).min(RETRY_MAX);
                state.mode = Mode::Failed { why: error.to_string(), retry_at };
                state.refuse_all();
            }
        }
    }
}

/// Fails everybody who waits for a sink that does not come back.
pub(super) fn watch(name: &str, shared: &Shared, deadline: Duration) {
    let mut state = shared.lock();
    while !state.closing {
        let late = state.busy_since.is_some_and(|since| clock::monotonic() - since >= deadline);
        if late && state.mode != Mode::Hanging {
            tracing::error!(device = name, "an audit device hangs");
            state.mode = Mode::Hanging;
            state.refuse_all();
        }
        let woken = shared.ended.wait_timeout(state, deadline / LOOKS_PER_DEADLINE);
        state = woken.unwrap_or_else(PoisonError::into_inner).0;
    }
    // The writer may hang for ever; nobody waits for it.
    if state.busy_since.is_some() && state.mode == Mode::Hanging {
        state.refuse_all();
    }
}
