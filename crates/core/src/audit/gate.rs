//! The gate: a request passes once its record is written, and so does its answer.
//!
//! What a request asks of the devices is one wait before the handler and one after it; a read of KV
//! waits once, for both records. The records are made on the request's own thread, so that what is
//! not masked never leaves it.
//!
//! Invariants:
//! - What goes through the gate has two records at every device that works, or was refused.
//! - What does not says so in its row ([`Route::is_audited`](kallisto_engine::Route::is_audited)). Whether it shows a token is
//!   no reason.

use std::sync::Arc;

use kallisto_audit::{Common, Device, Records, Ticket};
use kallisto_auth::Operation;

use super::answer::{self, Answer};
use super::describe::{self, Effect};
use crate::api::error::Error;
use crate::api::request::Request;
use crate::engines::sys;
use crate::pipeline::state::{Core, NamespaceContext};
use crate::pipeline::unheard;
use crate::view::Mount;

/// A device, and what both records of the request say as it writes them. `None` in place of the text
/// when the request could not be written: it has refused.
struct DeviceContext {
    device: Arc<Device>,
    common: Option<Common>,
}

impl Core {
    /// Whether a request goes through the gate.
    pub(crate) fn is_audited(&self, request: &Request<'_>) -> bool {
        // Enabling the first device is itself audited, by the new device.
        if !self.audit.is_on() && !enables_device(request) {
            return false;
        }
        !request.path.as_str().starts_with("sys/") || !sys::is_never_audited(self, request)
    }

    /// Answers a request between its two records.
    ///
    /// # Errors
    /// What the client may hear; [`Error::Unaudited`] when no device took a record.
    pub(crate) async fn handle_audited(&self, request: &Request<'_>) -> Answer {
        // Where there is nothing to audit by, nothing is answered either.
        let unsealed = self.namespace_context(request.namespace)?;
        if is_seal(request) {
            return self.seal_audited(unsealed, request).await;
        }
        if self.audit.is_broken() {
            return Err(Error::Unaudited);
        }
        let (mut desks, error, effect) = self.open_desks(&unsealed, request);
        if effect == Effect::None {
            let answer = self.answer_as_asked(request).await;
            let mount = answer::mount_at(&unsealed, request);
            let tickets = submit_both(mount.as_deref(), request, &answer, &desks, error);
            return if any_written(tickets).await { answer } else { Err(Error::Unaudited) };
        }
        if !desks.is_empty() && !any_written(submit_requests(&desks, error)).await {
            return Err(Error::Unaudited);
        }
        let answer = self.answer_as_asked(request).await;
        self.add_new_desks(&unsealed, request, &mut desks);
        if desks.is_empty() {
            return answer;
        }
        let mount = answer::mount_at(&unsealed, request);
        if any_written(submit_responses(mount.as_deref(), request, &answer, &desks)).await {
            return answer;
        }
        if let Ok(answer) = &answer {
            unheard::end(self, &unsealed, request, answer).await;
        }
        Err(Error::Unaudited)
    }

    /// Answers a request to seal. That works whatever the devices do, and ends them: both records are written if
    /// they can be, and the server does not wait for the first of them.
    async fn seal_audited(&self, unsealed: Arc<NamespaceContext>, request: &Request<'_>) -> Answer {
        let (desks, error, _) = self.open_desks(&unsealed, request);
        let mount = answer::mount_at(&unsealed, request);
        // Sealing waits until nobody holds the keys.
        drop(unsealed);
        let mut tickets = submit_requests(&desks, error);
        let answer = self.answer_as_asked(request).await;
        tickets.extend(submit_responses(mount.as_deref(), request, &answer, &desks));
        // One by one, without the devices: they end when what was handed in is written.
        drop(desks);
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
    pub(crate) async fn audit_refusal(&self, request: &Request<'_>, refusal: Error) -> Answer {
        let Ok(unsealed) = self.namespace_context(request.namespace) else { return Err(refusal) };
        // What is refused enables no device.
        if !self.audit.is_on() {
            return Err(refusal);
        }
        let (desks, error, _) = self.open_desks(&unsealed, request);
        let answer = Err(refusal);
        let mount = answer::mount_at(&unsealed, request);
        let tickets = submit_both(mount.as_deref(), request, &answer, &desks, error);
        if any_written(tickets).await { answer } else { Err(Error::Unaudited) }
    }

    fn open_desks(
        &self,
        unsealed: &NamespaceContext,
        request: &Request<'_>,
    ) -> (Vec<DeviceContext>, &'static str, Effect) {
        let devices = self.audit.devices.list();
        describe::with_described(self, unsealed, request, |described| {
            let desk = |device: &Arc<Device>| DeviceContext {
                device: Arc::clone(device),
                common: device.common(described.subject),
            };
            (devices.iter().map(desk).collect(), described.error, described.effect)
        })
    }

    /// Adds the devices that were enabled since the request began, perhaps by it.
    fn add_new_desks(
        &self,
        unsealed: &NamespaceContext,
        request: &Request<'_>,
        desks: &mut Vec<DeviceContext>,
    ) {
        let devices = self.audit.devices.list();
        let is_new =
            |device: &&Arc<Device>| !desks.iter().any(|desk| Arc::ptr_eq(&desk.device, device));
        let new: Vec<Arc<Device>> = devices.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return;
        }
        describe::with_described(self, unsealed, request, |described| {
            desks.extend(new.into_iter().map(|device| {
                let common = device.common(described.subject);
                DeviceContext { device, common }
            }));
        });
    }
}

/// True for a request that may enable a device.
fn enables_device(request: &Request<'_>) -> bool {
    request.operation == Operation::Update && request.path.as_str().starts_with("sys/audit/")
}

fn is_seal(request: &Request<'_>) -> bool {
    request.operation == Operation::Update && request.path.as_str() == "sys/seal"
}

fn submit_requests(desks: &[DeviceContext], error: &str) -> Vec<Ticket> {
    let submit = |desk: &DeviceContext| {
        let mut records = Records::default();
        desk.device.add_request(desk.common.as_ref()?, error, &mut records);
        Some(desk.device.submit(records))
    };
    desks.iter().filter_map(submit).collect()
}

fn submit_responses(
    mount: Option<&Mount>,
    request: &Request<'_>,
    answer: &Answer,
    desks: &[DeviceContext],
) -> Vec<Ticket> {
    answer::with_described(mount, request, answer, |response, error| {
        let submit = |desk: &DeviceContext| {
            let mut records = Records::default();
            let common = desk.common.as_ref()?;
            let is_sound = desk.device.add_response(common, response, error, &mut records);
            is_sound.then(|| desk.device.submit(records))
        };
        desks.iter().filter_map(submit).collect()
    })
}

fn submit_both(
    mount: Option<&Mount>,
    request: &Request<'_>,
    answer: &Answer,
    desks: &[DeviceContext],
    error: &str,
) -> Vec<Ticket> {
    answer::with_described(mount, request, answer, |response, class| {
        let submit = |desk: &DeviceContext| {
            let mut records = Records::default();
            let common = desk.common.as_ref()?;
            desk.device.add_request(common, error, &mut records);
            let is_sound = desk.device.add_response(common, response, class, &mut records);
            is_sound.then(|| desk.device.submit(records))
        };
        desks.iter().filter_map(submit).collect()
    })
}

/// Waits for every device, each of which answers within its deadline.
pub(super) async fn any_written(tickets: Vec<Ticket>) -> bool {
    let mut any = false;
    for ticket in tickets {
        any |= ticket.written().await;
    }
    any
}
