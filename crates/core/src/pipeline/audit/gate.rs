//! The gate: a request passes once its record is written, and so does its answer.
//!
//! What a request asks of the devices is one wait before the handler and one after it; where no handler runs, as for a
//! secret in memory or a refusal, it waits once, for both records. The records are made on the request's own thread, so that what is
//! not masked never leaves it.
//!
//! Invariants:
//! - What goes through the gate has two records at every device that works, or was refused.
//! - What does not says so in its row ([`Route::is_audited`](kallisto_engine::Route::is_audited)). Whether it shows a token is
//!   no reason.

use std::sync::Arc;
use std::time::Duration;

use kallisto_audit::{AuditResponse, AuditSubject, CommonFields, Device, FinishedRecords, Ticket};
use kallisto_auth::Operation;

use super::answer::{self, AuditedAnswer};
use super::describe;
use crate::api::error::Error;
use crate::api::request::Request;
use crate::api::response::Response;
use crate::authz::judge::{JudgePurpose, Judgement, judge};
use crate::caller::spelling::SYSTEM;
use crate::pipeline::open_routes;
use crate::pipeline::stages::NextStep;
use crate::state::Core;
use crate::timers::Timer;
use crate::view::{Mount, NamespaceContext};
use crate::wrapping::unheard;

/// The records of a request, at every device.
#[derive(Default)]
pub(crate) struct RequestRecords {
    devices: Vec<DeviceContext>,
    /// The error that was known before anything ran; empty for none.
    error: &'static str,
}

/// The records of a request that is under way. If it ends before its answer, as when its client hangs up, that is written down.
pub(crate) struct OpenRecords<'a, 'r> {
    records: RequestRecords,
    context: Arc<NamespaceContext>,
    request: &'a Request<'r>,
}

/// A device, and what both records of the request say as it writes them. `None` in place of the text
/// when the request could not be written: it has refused.
struct DeviceContext {
    device: Arc<Device>,
    common: Option<CommonFields>,
}

impl Core {
    /// Whether a request goes through the gate.
    pub(crate) fn is_audited(&self, request: &Request<'_>) -> bool {
        // Enabling the first device is itself audited, by the new device.
        if !self.audit.is_on() && !enables_device(request) {
            return false;
        }
        !request.path.as_str().starts_with(SYSTEM) || !open_routes::is_never_audited(self, request)
    }

    /// The records of a request that goes through the gate, as yet empty. A request that `seals` goes through whatever the devices do.
    ///
    /// # Errors
    /// [`Error::Unaudited`] when nothing can be written any more.
    pub(crate) fn audit_records(&self, seals: bool) -> Result<RequestRecords, Error> {
        if self.audit.is_broken() && !seals {
            return Err(Error::Unaudited);
        }
        Ok(RequestRecords::default())
    }

    /// Writes down who asks for what, and waits until a device has it.
    ///
    /// # Errors
    /// [`Error::Unaudited`] when none took it.
    pub(crate) async fn audit_request(&self, records: &RequestRecords) -> Result<(), Error> {
        if records.devices.is_empty() {
            return Ok(());
        }
        let begin = self.services.timers.now();
        let is_written = any_written(records.submit_requests()).await;
        self.count_audited(Timer::AuditRequest, 1, begin, is_written);
        if is_written { Ok(()) } else { Err(Error::Unaudited) }
    }

    /// Writes down what was answered, and gives the answer on when a device has it. If none took it, what the answer hands out ends.
    ///
    /// # Errors
    /// Those of the answer; [`Error::Unaudited`] when no device took the record.
    pub(crate) async fn audit_reply(
        &self,
        context: &Arc<NamespaceContext>,
        request: &Request<'_>,
        mut records: RequestRecords,
        answer: AuditedAnswer,
    ) -> AuditedAnswer {
        self.add_new_devices(context, request, &mut records);
        if records.devices.is_empty() {
            return answer;
        }
        let mount = answer::mount_at(context, request);
        let begin = self.services.timers.now();
        let tickets = records.submit_responses(mount.as_deref(), request, &answer);
        let is_written = any_written(tickets).await;
        self.count_audited(Timer::AuditResponse, 1, begin, is_written);
        if is_written {
            return answer;
        }
        if let Ok(answer) = &answer {
            unheard::end(self, context, request, answer).await;
        }
        Err(Error::Unaudited)
    }

    /// Writes down a request and its answer at once, where nothing was done for it, and gives the answer on when a device has both.
    ///
    /// # Errors
    /// Those of the answer; [`Error::Unaudited`] when no device took the records.
    pub(crate) async fn audit_both(
        &self,
        context: &NamespaceContext,
        request: &Request<'_>,
        records: RequestRecords,
        answer: AuditedAnswer,
    ) -> AuditedAnswer {
        if records.devices.is_empty() {
            return answer;
        }
        let mount = answer::mount_at(context, request);
        let begin = self.services.timers.now();
        let is_written = any_written(records.submit_both(mount.as_deref(), request, &answer)).await;
        self.count_audited(Timer::AuditRequest, 1, begin, is_written);
        self.count_audited(Timer::AuditResponse, 1, begin, is_written);
        if is_written { answer } else { Err(Error::Unaudited) }
    }

    /// Counts the records of so many requests that were handed to the devices at `begin`.
    pub(super) fn count_audited(
        &self,
        timer: Timer,
        count: u64,
        begin: Duration,
        is_written: bool,
    ) {
        let timers = &self.services.timers;
        match is_written {
            true => timers.end_alike(timer, count, begin),
            false => timers.unaudited.add(usize::from(timer == Timer::AuditResponse), count),
        }
    }

    /// Dispatches a request to seal. That works whatever the devices do, and ends them: both records are written if
    /// they can be, and the server does not wait for the first of them.
    pub(crate) async fn seal_audited(
        &self,
        context: Arc<NamespaceContext>,
        request: &Request<'_>,
        records: RequestRecords,
        step: NextStep<'_, '_>,
    ) -> AuditedAnswer {
        let mount = answer::mount_at(&context, request);
        let mut tickets = records.submit_requests();
        // Handed on, not shared: sealing waits until nobody holds the keys.
        let answer = self.dispatch(Some(context), request, step).await;
        tickets.extend(records.submit_responses(mount.as_deref(), request, &answer));
        // One by one, without the devices: they end when what was handed in is written.
        drop(records);
        any_written(tickets).await;
        answer
    }

    /// Refuses a request for which no server was found that may answer it; it is written down here.
    ///
    /// # Errors
    /// None: what is returned is the refusal, or [`Error::Unaudited`] when no device took the records.
    pub async fn refuse_unserved(&self, request: &Request<'_>, refusal: Error) -> Error {
        if !self.is_audited(request) {
            return refusal;
        }
        match self.audit_refusal(request, refusal).await {
            Ok(_) => Error::Unaudited,
            Err(refusal) => refusal,
        }
    }

    /// Writes down a request that was refused before anything looked at it.
    ///
    /// # Errors
    /// The refusal; [`Error::Unaudited`] when no device took the records.
    pub(crate) async fn audit_refusal(
        &self,
        request: &Request<'_>,
        refusal: Error,
    ) -> AuditedAnswer {
        let Ok(context) = self.namespace_context(request.namespace) else { return Err(refusal) };
        // What is refused enables no device.
        if !self.audit.is_on() {
            return Err(refusal);
        }
        let mut records = RequestRecords::default();
        let mut open = |judgement: Judgement<'_>| records.open(self, &context, request, judgement);
        // What anyone may ask is judged by no token.
        let _ = judge(&context, request, JudgePurpose::Record, Some(&mut open));
        self.audit_both(&context, request, records, Err(refusal)).await
    }

    /// Adds the devices that were enabled since the request began, perhaps by it.
    fn add_new_devices(
        &self,
        context: &Arc<NamespaceContext>,
        request: &Request<'_>,
        records: &mut RequestRecords,
    ) {
        let devices = self.audit.devices.list();
        let is_known = |device: &Arc<Device>| {
            records.devices.iter().any(|known| Arc::ptr_eq(&known.device, device))
        };
        let new: Vec<Arc<Device>> =
            devices.iter().filter(|device| !is_known(device)).cloned().collect();
        if new.is_empty() {
            return;
        }
        let mut add = |judgement: Judgement<'_>| {
            describe::with_described(self, context, request, judgement, |subject| {
                records.devices.extend(DeviceContext::each(&new, subject));
            });
        };
        let _ = judge(context, request, JudgePurpose::Record, Some(&mut add));
    }
}

impl<'a, 'r> OpenRecords<'a, 'r> {
    pub(crate) fn new(
        records: RequestRecords,
        context: &Arc<NamespaceContext>,
        request: &'a Request<'r>,
    ) -> Self {
        Self { records, context: Arc::clone(context), request }
    }

    pub(crate) const fn get(&self) -> &RequestRecords {
        &self.records
    }

    /// The records, for what is written down of the answer.
    pub(crate) fn take(mut self) -> RequestRecords {
        std::mem::take(&mut self.records)
    }
}

impl Drop for OpenRecords<'_, '_> {
    fn drop(&mut self) {
        if self.records.devices.is_empty() {
            return;
        }
        let mount = answer::mount_at(&self.context, self.request);
        // Nobody waits for the devices, which write what was handed in.
        drop(self.records.submit_unanswered(mount.as_deref(), self.request));
    }
}

impl DeviceContext {
    fn each<'d>(
        devices: &'d [Arc<Device>],
        subject: &'d AuditSubject<'_>,
    ) -> impl Iterator<Item = Self> + use<'d> {
        devices.iter().map(|device| {
            let common = device.common(subject);
            Self { device: Arc::clone(device), common }
        })
    }
}

impl RequestRecords {
    /// Describes a request that was judged to every device.
    pub(crate) fn open(
        &mut self,
        core: &Core,
        context: &NamespaceContext,
        request: &Request<'_>,
        judgement: Judgement<'_>,
    ) {
        // What anyone may ask is not judged by the token that is shown.
        let is_refused = judgement.is_refused && !core.is_open(context, request);
        self.error = if is_refused { "permission denied" } else { "" };
        let devices = core.audit.devices.list();
        describe::with_described(core, context, request, judgement, |subject| {
            self.devices.extend(DeviceContext::each(&devices, subject));
        });
    }

    fn submit_requests(&self) -> Vec<Ticket> {
        let submit = |context: &DeviceContext| {
            let mut records = FinishedRecords::default();
            let common = context.common.as_ref()?;
            context.device.add_request(common.whole(), self.error, &mut records);
            Some(context.device.submit(records))
        };
        self.devices.iter().filter_map(submit).collect()
    }

    fn submit_responses(
        &self,
        mount: Option<&Mount>,
        request: &Request<'_>,
        answer: &AuditedAnswer,
    ) -> Vec<Ticket> {
        answer::with_described(mount, request, answer, |response, error| {
            self.submit_response(response, error)
        })
    }

    fn submit_unanswered(&self, mount: Option<&Mount>, request: &Request<'_>) -> Vec<Ticket> {
        answer::with_described(mount, request, &Ok(Response::Empty), |response, _| {
            self.submit_response(response, answer::ENDED_EARLY)
        })
    }

    fn submit_response(&self, response: &AuditResponse<'_>, error: &str) -> Vec<Ticket> {
        let submit = |context: &DeviceContext| {
            let mut records = FinishedRecords::default();
            let common = context.common.as_ref()?;
            let is_sound = context.device.add_response(common, response, error, &mut records);
            is_sound.then(|| context.device.submit(records))
        };
        self.devices.iter().filter_map(submit).collect()
    }

    fn submit_both(
        &self,
        mount: Option<&Mount>,
        request: &Request<'_>,
        answer: &AuditedAnswer,
    ) -> Vec<Ticket> {
        answer::with_described(mount, request, answer, |response, class| {
            let submit = |context: &DeviceContext| {
                let mut records = FinishedRecords::default();
                let common = context.common.as_ref()?;
                let answer = (response, class);
                let is_sound =
                    context.device.add_exchange(common.whole(), self.error, answer, &mut records);
                is_sound.then(|| context.device.submit(records))
            };
            self.devices.iter().filter_map(submit).collect()
        })
    }
}

/// True for a request that may enable a device.
fn enables_device(request: &Request<'_>) -> bool {
    request.operation == Operation::Update && request.path.as_str().starts_with("sys/audit/")
}

/// Waits for every device, each of which answers within its deadline.
pub(super) async fn any_written(tickets: Vec<Ticket>) -> bool {
    let mut any = false;
    for ticket in tickets {
        any |= ticket.written().await;
    }
    any
}
