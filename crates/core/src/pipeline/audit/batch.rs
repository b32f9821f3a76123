//! Reads that are answered together are written down together.
//!
//! A read of KV that memory answers waits for nothing but its records ([`super::gate`]). Where several come with one
//! look at a socket, their records are handed in as one, so they wait once. Their answers are made
//! meanwhile and must not leave before [`Core::write_gathered`] says so.
//!
//! What the records of several reads of one caller say alike ([`AlikeFields`]) is described and masked once: who asks, and where the mount is.
//!
//! Invariants:
//! - What is gathered is what [`Core::handle`] would have written, by the same functions. A request for which that is
//!   not sure here (a device that would not take it, headers to be looked at, an effect) is left alone.
//! - Devices are held while something waits for them and no longer: one that was disabled lets go of its file.

use std::sync::Arc;

use kallisto_audit::limits::DEVICES_MAX;
use kallisto_audit::{Device, FinishedRecords, WholeFields};
use kallisto_auth::Operation;
use tokio::sync::OwnedSemaphorePermit;

use super::answer::{self, AuditedAnswer};
use super::describe;
use super::gate::any_written;
use crate::api::error::Error;
use crate::api::request::Request;
use crate::authz::judge::Judgement;
use crate::limits::{GATHERED_BYTES, LARGE_BATCH_BYTES};
use crate::state::Core;
use crate::timers::Timer;
use crate::view::{Mount, NamespaceContext};

/// Records of reads that were answered and wait to be written down.
#[derive(Default)]
pub struct AuditBatch {
    /// The devices of all these reads, and for each what it is to write.
    devices: Option<GatheringDevices>,
    records: Vec<FinishedRecords>,
    answered: Vec<AuditedRead>,
    /// Held by one that may become large.
    large: Option<OwnedSemaphorePermit>,
}

/// The devices at which reads are written down together.
pub(crate) type GatheringDevices = Arc<Vec<Arc<Device>>>;

/// What became of a read, to be counted when it was written down.
struct AuditedRead {
    operation: Operation,
    outcome: usize,
}

/// What the records of a read say of it but for its id and path, as its devices write it: of one caller, at one mount and by one grant.
pub(crate) struct AlikeFields {
    devices: GatheringDevices,
    /// Of each device.
    wholes: Vec<WholeFields>,
}

impl AuditBatch {
    /// How many reads were gathered.
    pub const fn len(&self) -> usize {
        self.answered.len()
    }

    /// Whether none were.
    pub const fn is_empty(&self) -> bool {
        self.answered.is_empty()
    }

    /// Whether they should be written before more join.
    pub fn is_full(&self) -> bool {
        let bytes_max = if self.large.is_some() { LARGE_BATCH_BYTES } else { GATHERED_BYTES };
        self.holds(bytes_max)
    }

    /// Whether there are so many bytes for a device.
    fn holds(&self, bytes: usize) -> bool {
        self.records.iter().any(|records| records.bytes() >= bytes)
    }

    /// Whether a read that these devices have to write can join.
    fn takes(&self, devices: &GatheringDevices) -> bool {
        self.devices.as_ref().is_none_or(|known| Arc::ptr_eq(known, devices))
    }

    /// Adds a read and its answer at every device; nothing when one would not take them.
    fn add(
        &mut self,
        devices: &GatheringDevices,
        wholes: &[WholeFields],
        error: &str,
        (response, class): (&kallisto_audit::AuditResponse<'_>, &str),
    ) -> bool {
        if self.records.is_empty() {
            self.records.extend(devices.iter().map(|device| device.new_records()));
        }
        let mut before = [0; DEVICES_MAX];
        before.iter_mut().zip(&self.records).for_each(|(len, records)| *len = records.len());
        let mut each = devices.iter().zip(wholes).zip(&mut self.records);
        let is_sound = each.all(|((device, whole), records)| {
            device.add_exchange(whole, error, (response, class), records)
        });
        if is_sound {
            self.devices.get_or_insert_with(|| Arc::clone(devices));
        } else {
            self.records.iter_mut().zip(before).for_each(|(records, len)| records.truncate(len));
        }
        is_sound
    }
}

impl Core {
    /// The devices that a read is written down at which joins those in `gathered`; `None` when none can. Asked before it is judged: a device that
    /// comes or goes meanwhile might as well have come or gone after it.
    pub(crate) fn gathering_devices(&self, gathered: &AuditBatch) -> Option<GatheringDevices> {
        let devices = self.audit.devices.list();
        let can_gather = !self.audit.is_broken()
            && self.audit.headers().is_empty()
            && !devices.is_empty()
            && gathered.takes(&devices);
        can_gather.then_some(devices)
    }

    /// Gathers the records of a read that was judged and answered, and returns what those of others may say alike. `None` for one that has to go the
    /// long way.
    pub(crate) fn gather(
        &self,
        context: &NamespaceContext,
        request: &Request<'_>,
        (gathered, devices): (&mut AuditBatch, GatheringDevices),
        judgement: Judgement<'_>,
        answer: AuditedAnswer,
    ) -> Option<(AuditedAnswer, AlikeFields)> {
        let error = if judgement.is_refused { "permission denied" } else { "" };
        let mount = judgement.mount;
        let wholes = describe::with_described(self, context, request, judgement, |subject| {
            let wholes = devices.iter().map(|device| device.whole(subject));
            wholes.collect::<Option<Vec<WholeFields>>>()
        })?;
        let alike = AlikeFields { devices, wholes };
        let answer = self.gather_described(mount, request, gathered, (&alike, error), answer)?;
        Some((answer, alike))
    }

    /// The same for a granted read of which all but its id and path was described before.
    pub(crate) fn gather_alike(
        &self,
        mount: &Mount,
        request: &Request<'_>,
        (gathered, devices): (&mut AuditBatch, &GatheringDevices),
        alike: &mut AlikeFields,
        answer: AuditedAnswer,
    ) -> Option<AuditedAnswer> {
        // Devices may have come and gone since.
        if !Arc::ptr_eq(devices, &alike.devices) {
            return None;
        }
        let mut id = Vec::with_capacity(36);
        request.id.write(&mut id);
        let (id, path) = (std::str::from_utf8(&id).unwrap_or_default(), request.path.as_str());
        if !alike.wholes.iter_mut().all(|whole| whole.rename(id, path)) {
            return None;
        }
        self.gather_described(Some(mount), request, gathered, (alike, ""), answer)
    }

    fn gather_described(
        &self,
        mount: Option<&Mount>,
        request: &Request<'_>,
        gathered: &mut AuditBatch,
        (alike, error): (&AlikeFields, &str),
        answer: AuditedAnswer,
    ) -> Option<AuditedAnswer> {
        let is_sound = answer::with_described(mount, request, &answer, |response, class| {
            gathered.add(&alike.devices, &alike.wholes, error, (response, class))
        });
        if !is_sound {
            return None;
        }
        if gathered.large.is_none() && gathered.holds(GATHERED_BYTES) {
            gathered.large = self.audit.large_batch();
        }
        let (operation, outcome) = (request.operation, crate::metrics::outcome(&answer));
        gathered.answered.push(AuditedRead { operation, outcome });
        Some(answer)
    }

    /// Has the reads written down: true when their answers may leave. If not, each of them is answered with
    /// [`Error::Unaudited`]. Devices answer within their deadline.
    pub async fn write_gathered(&self, gathered: AuditBatch) -> bool {
        let AuditBatch { devices, records, answered, large: _held } = gathered;
        let devices = devices.unwrap_or_default();
        let submitted = devices.iter().zip(records).map(|(device, records)| device.submit(records));
        let begin = self.services.timers.now();
        let is_written = any_written(submitted.collect()).await;
        let count = answered.len() as u64;
        self.count_audited(Timer::AuditRequest, count, begin, is_written);
        self.count_audited(Timer::AuditResponse, count, begin, is_written);
        for AuditedRead { operation, outcome } in answered {
            let refused = || crate::metrics::outcome(&Err(Error::Unaudited));
            self.metrics.count(operation, if is_written { outcome } else { refused() });
        }
        is_written
    }
}
