//! Reads that are answered together are written down together.
//!
//! A read of KV that memory answers waits for nothing but its records ([`super::gate`]). Where several come with one
//! look at a socket, their records are handed in as one, so they wait once. Their answers are made
//! meanwhile and must not leave before [`Core::write_gathered`] says so.
//!
//! Invariants:
//! - What is gathered is what [`Core::handle`] would have written, by the same functions. A request for which that is
//!   not sure here (a device that would not take it, headers to be looked at, an effect) is left alone.
//! - Devices are held while something waits for them and no longer: one that was disabled lets go of its file.

use std::sync::Arc;

use kallisto_audit::limits::DEVICES_MAX;
use kallisto_audit::{CommonFields, Device, FinishedRecords};
use kallisto_auth::Operation;

use super::answer::{self, AuditedAnswer};
use super::describe;
use super::gate::any_written;
use crate::api::error::Error;
use crate::api::request::Request;
use crate::authz::judge::Judgement;
use crate::limits::GATHERED_BYTES;
use crate::state::Core;
use crate::timers::Timer;
use crate::view::NamespaceContext;

/// Records of reads that were answered and wait to be written down.
#[derive(Default)]
pub struct AuditBatch {
    /// The devices of all these reads, and for each what it is to write.
    devices: Option<Arc<Vec<Arc<Device>>>>,
    records: Vec<FinishedRecords>,
    answered: Vec<AuditedRead>,
}

/// What became of a read, to be counted when it was written down.
struct AuditedRead {
    operation: Operation,
    outcome: usize,
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
        self.records.iter().any(|records| records.bytes() >= GATHERED_BYTES)
    }

    /// Whether a read that these devices have to write can join.
    fn takes(&self, devices: &Arc<Vec<Arc<Device>>>) -> bool {
        self.devices.as_ref().is_none_or(|known| Arc::ptr_eq(known, devices))
    }

    /// Adds a read and its answer at every device; nothing when one would not take them.
    fn add(
        &mut self,
        devices: &Arc<Vec<Arc<Device>>>,
        commons: &[CommonFields],
        error: &str,
        (response, class): (&kallisto_audit::AuditResponse<'_>, &str),
    ) -> bool {
        self.records.resize_with(devices.len(), FinishedRecords::default);
        let mut before = [0; DEVICES_MAX];
        before.iter_mut().zip(&self.records).for_each(|(len, records)| *len = records.len());
        let mut each = devices.iter().zip(commons).zip(&mut self.records);
        let is_sound = each.all(|((device, common), records)| {
            device.add_exchange(common, error, (response, class), records)
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
    /// Whether reads that are audited can be gathered now: asked before one is judged.
    pub(crate) fn can_gather(&self, gathered: &AuditBatch) -> bool {
        let devices = self.audit.devices.list();
        !self.audit.is_broken()
            && self.audit.headers().is_empty()
            && !devices.is_empty()
            && gathered.takes(&devices)
    }

    /// Gathers the records of a read that was judged and answered. `None` for one that has to go the long way.
    pub(crate) fn gather(
        &self,
        context: &NamespaceContext,
        request: &Request<'_>,
        gathered: &mut AuditBatch,
        judgement: Judgement<'_>,
        answer: AuditedAnswer,
    ) -> Option<AuditedAnswer> {
        if !self.can_gather(gathered) {
            return None;
        }
        let devices = self.audit.devices.list();
        let error = if judgement.is_refused { "permission denied" } else { "" };
        let mount = judgement.mount;
        let commons = describe::with_described(self, context, request, judgement, |subject| {
            let commons = devices.iter().map(|device| device.common(subject));
            commons.collect::<Option<Vec<CommonFields>>>()
        })?;
        let is_sound = answer::with_described(mount, request, &answer, |response, class| {
            gathered.add(&devices, &commons, error, (response, class))
        });
        if !is_sound {
            return None;
        }
        let (operation, outcome) = (request.operation, crate::metrics::outcome(&answer));
        gathered.answered.push(AuditedRead { operation, outcome });
        Some(answer)
    }

    /// Has the reads written down: true when their answers may leave. If not, each of them is answered with
    /// [`Error::Unaudited`]. Devices answer within their deadline.
    pub async fn write_gathered(&self, gathered: AuditBatch) -> bool {
        let AuditBatch { devices, records, answered } = gathered;
        let devices = devices.unwrap_or_default();
        let submitted = devices.iter().zip(records).map(|(device, records)| device.submit(records));
        let begin = self.services.timers.now();
        let is_written = any_written(submitted.collect()).await;
        for _ in &answered {
            self.count_audited(Timer::AuditRequest, begin, is_written);
            self.count_audited(Timer::AuditResponse, begin, is_written);
        }
        for AuditedRead { operation, outcome } in answered {
            let refused = || crate::metrics::outcome(&Err(Error::Unaudited));
            self.metrics.count(operation, if is_written { outcome } else { refused() });
        }
        is_written
    }
}
