//! One device: a queue, the thread that writes it, and the one that watches that thread.
//!
//! ```text
//! requests --bodies--> queue --all that wait--> writer: link each, one write --> tickets
//!                                    watchdog: past the deadline, every ticket fails
//!                                    keeper: where the chain stands, every second
//! ```
//! A request hands in finished, masked bodies and waits for its [`Ticket`]; the writer takes all that
//! came meanwhile, links them into the chain and writes them at once, so that auditing never makes
//! requests wait for each other. Text in the clear never enters the queue.
//!
//! Invariants:
//! - A ticket says yes only after the sink took the whole group.
//! - The chain goes forward by what the sink took, and by nothing else.
//! - A device that failed, or hangs past its deadline, refuses at once until it works again: it costs
//!   its deadline to those who were waiting and nothing to those who come later.
//! - The queue is bounded in what was handed in and in bytes.

mod keeper;
mod queue;
mod writer;

use std::io::ErrorKind;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::sync::watch as ring;

use self::keeper::Anchor;
use self::queue::{DeviceJob, DeviceShared, QueueMode, QueueState};
use self::writer::{Unsigned, WriterThread, watch};
use crate::anchor::{AnchorFile, AnchorVerdict, Anchors};
use crate::chain::ChainHead;
use crate::checkpoint::{CheckpointSigner, DevicePublicKey};
use crate::clock;
use crate::limits::{QUEUE_BYTES_MAX, QUEUE_JOBS_MAX, RETRY_MIN};
use crate::mask::{MalformedJson, Masker, SALT_BYTES, Secrecy};
use crate::options::{DeviceSpec, RecordLayout};
use crate::record::{CommonFields, RecordBody, RecordKind, RecordWriter, WholeFields};
use crate::sink::Destinations;
use crate::subject::{AuditResponse, AuditSubject};

/// A device at work. Dropping it lets the writer finish what waits, and ends it.
pub struct Device {
    name: String,
    spec: DeviceSpec,
    masker: Masker,
    public_key: DevicePublicKey,
    shared: Arc<DeviceShared>,
}

/// What a device finds around it.
pub struct Surroundings<'a> {
    /// Makes what it writes to.
    pub destinations: &'a dyn Destinations,
    /// Where its head is kept, if anywhere.
    pub anchors: Option<Arc<dyn Anchors>>,
    /// What its server is called.
    pub node: &'a str,
}

/// The end of a device, to be waited for by who let go of it.
pub(crate) struct DeviceEnding(Arc<DeviceShared>);

impl DeviceEnding {
    /// Waits until everything is written, signed and kept, or `until` has come.
    pub(crate) fn wait(&self, until: Instant) {
        let mut state = self.0.lock();
        while !(state.has_ended && state.is_kept) {
            let left = until.saturating_duration_since(clock::monotonic());
            if left.is_zero() {
                return;
            }
            let woken = self.0.ended.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Whether a device wrote before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is enabled now.
    New,
    /// It was enabled before the server started.
    Known,
}

/// Finished records, ready to be handed in: they are written together and in order, or not at all.
#[derive(Default)]
pub struct FinishedRecords {
    /// Their bodies, one after another.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl FinishedRecords {
    /// Bytes of the bodies.
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of the longest body.
    fn longest(&self) -> usize {
        self.bodies().map(<[u8]>::len).max().unwrap_or_default()
    }

    /// Takes back all but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or_default());
    }

    /// Adds one, as `write` appends it; nothing when it fails.
    fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), MalformedJson>) -> bool {
        let before = self.bytes.len();
        let is_sound = write(&mut self.bytes).is_ok();
        if is_sound {
            self.ends.push(self.bytes.len());
        } else {
            self.bytes.truncate(before);
        }
        is_sound
    }

    fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let body = &self.bytes[start..end];
            start = end;
            body
        })
    }
}

/// What a request waits on.
pub struct Ticket(Option<oneshot::Receiver<bool>>);

/// How a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It takes records.
    Working,
    /// It failed; why. It is tried again.
    Failed(String),
    /// A write has not come back within its deadline.
    Hanging,
}

impl Ticket {
    /// Waits until the records are written. False when they are not, or not in time.
    pub async fn written(self) -> bool {
        match self.0 {
            Some(told) => told.await.unwrap_or(false),
            None => false,
        }
    }
}

impl Device {
    /// Starts a device.
    ///
    /// # Errors
    /// What the operating system says when it gives no threads.
    pub fn start(
        name: &str,
        spec: DeviceSpec,
        salt: &[u8; SALT_BYTES],
        origin: Origin,
        around: &Surroundings<'_>,
    ) -> std::io::Result<Self> {
        let signer =
            CheckpointSigner::new(salt, around.node, name).ok_or(ErrorKind::Unsupported)?;
        let shared = Arc::new(DeviceShared::new(QueueState::new(around.anchors.is_none())));
        let masker = Masker::new(salt, spec.secrecy);
        let public_key = signer.public_key();
        let device = Self { name: name.to_owned(), masker, public_key, shared, spec };
        let anchor = around.anchors.clone().map(|anchors| {
            let sealed = AnchorFile::new(salt, around.node, name);
            Arc::new(Anchor { name: name.to_owned(), anchors, sealed })
        });
        let writer = WriterThread {
            name: device.name.clone(),
            shared: Arc::clone(&device.shared),
            sink: around.destinations.sink(&device.spec),
            chain: None,
            signer,
            prefix: device.spec.form.prefix.clone(),
            unsigned: Unsigned::default(),
            origin,
            anchor: anchor.clone(),
            buffer: Vec::new(),
            together: 0,
            keeps_rooms: device.spec.secrecy == Secrecy::Masked,
            retry: RETRY_MIN,
            failure: None,
            has_told_of_long: false,
        };
        thread::Builder::new().name("audit".into()).spawn(move || writer.run())?;
        let (watched, deadline) = (Arc::clone(&device.shared), device.spec.deadline);
        let name = device.name.clone();
        thread::Builder::new()
            .name("audit-watch".into())
            .spawn(move || watch(&name, &watched, deadline))?;
        if let Some(anchor) = anchor {
            let kept = Arc::clone(&device.shared);
            let keep = move || keeper::keep(&anchor, &kept);
            thread::Builder::new().name("audit-keep".into()).spawn(keep)?;
        }
        Ok(device)
    }

    /// The path it was enabled at.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was asked to be.
    pub const fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    /// The mask that a value has in its records.
    pub fn hash(&self, value: &str) -> String {
        self.masker.hash(value)
    }

    /// The last record that it wrote.
    pub fn head(&self) -> ChainHead {
        self.shared.lock().head
    }

    /// Rings after each group that was written; its sender is gone when the device is.
    pub fn listen(&self) -> ring::Receiver<()> {
        self.shared.written.subscribe()
    }

    /// What its end can be waited by.
    pub(crate) fn ending(&self) -> DeviceEnding {
        DeviceEnding(Arc::clone(&self.shared))
    }

    /// How its destination was found when it was first opened; `None` before.
    pub fn verdict(&self) -> Option<AnchorVerdict> {
        self.shared.lock().verdict
    }

    /// What its checkpoints are verified by.
    pub const fn public_key(&self) -> DevicePublicKey {
        self.public_key
    }

    /// How it is.
    pub fn health(&self) -> Health {
        match &self.shared.lock().mode {
            QueueMode::Working => Health::Working,
            QueueMode::Failed { why, .. } => Health::Failed(why.clone()),
            QueueMode::Hanging => Health::Hanging,
        }
    }

    /// What both records of a request say. `None` when its data is no JSON, which fails the request
    /// at this device.
    pub fn common(&self, subject: &AuditSubject<'_>) -> Option<CommonFields> {
        self.records().common(subject).ok()
    }

    /// The same where request and answer are written at once ([`Device::add_exchange`]).
    pub fn whole(&self, subject: &AuditSubject<'_>) -> Option<WholeFields> {
        self.records().whole(subject).ok()
    }

    /// Adds the record that a request begins.
    pub fn add_request(&self, whole: &WholeFields, error: &str, records: &mut FinishedRecords) {
        // A request has been through `whole`; without a response nothing is left to fail.
        records.add(|out| {
            let (kind, now) = (RecordKind::Request, clock::now());
            let common = whole.bytes.as_slice();
            self.records().body(&RecordBody { kind, now, common, response: None, error }, out)
        });
    }

    /// Adds the record that a request ends. False when the response's data is no JSON.
    pub fn add_response(
        &self,
        common: &CommonFields,
        response: &AuditResponse<'_>,
        error: &str,
        records: &mut FinishedRecords,
    ) -> bool {
        self.add_answer(common.text_in(RecordKind::Response), response, error, records)
    }

    fn add_answer(
        &self,
        common: &[u8],
        response: &AuditResponse<'_>,
        error: &str,
        records: &mut FinishedRecords,
    ) -> bool {
        records.add(|out| {
            let (kind, now, response) = (RecordKind::Response, clock::now(), Some(response));
            self.records().body(&RecordBody { kind, now, common, response, error }, out)
        })
    }

    /// Adds a request and its answer: two records, or the one that says everything once. False when the response's data is no JSON,
    /// and then nothing is added.
    pub fn add_exchange(
        &self,
        whole: &WholeFields,
        error: &str,
        (response, class): (&AuditResponse<'_>, &str),
        records: &mut FinishedRecords,
    ) -> bool {
        match self.spec.form.layout {
            RecordLayout::Full => {
                let before = records.len();
                self.add_request(whole, error, records);
                let is_sound = self.add_answer(&whole.bytes, response, class, records);
                if !is_sound {
                    records.truncate(before);
                }
                is_sound
            }
            RecordLayout::Compact => records.add(|out| {
                let (kind, now, response) = (RecordKind::Exchange, clock::now(), Some(response));
                let common = whole.bytes.as_slice();
                let error = if class.is_empty() { error } else { class };
                self.records().body(&RecordBody { kind, now, common, response, error }, out)
            }),
        }
    }

    /// Nothing as yet, in room that this device has to spare.
    pub fn new_records(&self) -> FinishedRecords {
        FinishedRecords { bytes: self.shared.take_room(), ends: Vec::new() }
    }

    /// Hands records in, which are written together and in order.
    pub fn submit(&self, records: FinishedRecords) -> Ticket {
        let bytes = records.bytes();
        let (done, told) = oneshot::channel();
        let mut state = self.shared.lock();
        let full = state.queue.len() >= QUEUE_JOBS_MAX
            || state.queued_bytes.saturating_add(bytes) > QUEUE_BYTES_MAX;
        if full || state.closing || state.mode != QueueMode::Working {
            return Ticket(None);
        }
        let idle = state.queue.is_empty() && state.busy_since.is_none();
        state.queued_bytes += bytes;
        state.queue.push_back(DeviceJob { records, done });
        drop(state);
        if idle {
            self.shared.work.notify_one();
        }
        Ticket(Some(told))
    }

    /// Opens the destination anew before the next group, and at once if the device had failed.
    pub fn reopen(&self) {
        self.shared.lock().reopen = true;
        self.shared.work.notify_one();
    }

    fn records(&self) -> RecordWriter<'_> {
        RecordWriter { masker: &self.masker, form: &self.spec.form }
    }

    /// A record that is no request's, for finding out whether the device works.
    pub fn submit_test(&self, subject: &AuditSubject<'_>) -> Ticket {
        let mut records = FinishedRecords::default();
        match self.common(subject) {
            Some(common) => self.add_request(common.whole(), "", &mut records),
            None => return Ticket(None),
        }
        self.submit(records)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        self.shared.ended.notify_all();
    }
}

#[cfg(test)]
mod chained;
#[cfg(test)]
mod logged;
#[cfg(test)]
mod tests;
