//! Devices that the configuration declares, and trying a device before it is enabled.
//!
//! At every unseal the records are brought in line with the configuration: what is declared and not
//! there is made, with a salt that stays from then on; what was declared and is not any more goes. A
//! declared device does not have to work at that moment: it fails requests until it does.

use std::sync::Arc;

use kallisto_audit::{AuditRequest, AuditSubject, Auth, Device, DeviceSpec, Health, Origin};
use kallisto_store::{Batch, Error as StoreError, StoreOp};

use super::{Audit, DEVICE_FOLDER, DeviceRecord, Unusable};
use crate::api::error::Error;
use crate::api::request_id::RequestId;
use crate::storage::barrier_store::BarrierStore;
use crate::storage::engine_storage::EngineStorage;
use crate::storage::keys::{self, ParsedKey};

/// Brings the records, which are in the `storage` of `sys/` in `store`, in line with the configuration.
///
/// # Errors
/// [`Error::Invalid`] when a declared device is none or stands where another was enabled, and the
/// store's refusal.
pub(crate) async fn declare(
    audit: &Audit,
    storage: &EngineStorage<'_>,
    store: &BarrierStore,
) -> Result<(), Error> {
    let records = audit.records();
    let declared = &audit.settings.declared;
    let mut batch = Batch::new();
    for device in declared {
        let refuse = |why: &str| {
            Err(Error::invalid(format!("the audit device declared at {:?}: {why}", device.path)))
        };
        if let Err(why) = DeviceSpec::parse(&device.kind, &device.options) {
            return refuse(&why);
        }
        let mut record = match records.get(&device.path) {
            Some(known) if !known.declared => return refuse("one was enabled there already"),
            Some(known) if known.kind == device.kind && known.options == device.options => {
                continue;
            }
            _ => DeviceRecord::make(
                &device.kind,
                device.description.clone(),
                false,
                device.options.clone(),
            )?,
        };
        // Whatever else is declared of it now, its masks and its key stay.
        if let Some(known) = records.get(&device.path) {
            record.salt = known.salt.clone();
        }
        record.declared = true;
        storage.put_in(&mut batch, &format!("{DEVICE_FOLDER}{}", device.path), record.encode())?;
    }
    for (path, record) in &records {
        if record.declared && !declared.iter().any(|device| device.path == *path) {
            storage.delete_in(&mut batch, &format!("{DEVICE_FOLDER}{path}"));
        }
    }
    if batch.ops().is_empty() {
        return Ok(());
    }
    let made = batch.clone();
    match store.commit(batch).await {
        Ok(_) => Ok(()),
        // The leader makes the records; until they come, this server audits by its own.
        Err(StoreError::NotLeader | StoreError::Unavailable(_) | StoreError::Io(_)) => {
            put_made(audit, &made)
        }
        Err(error) => Err(error.into()),
    }
}

fn put_made(audit: &Audit, made: &Batch) -> Result<(), Error> {
    for op in made.ops() {
        let StoreOp::Put { key, value } = op else { continue };
        let ParsedKey::EngineStorage(_, name) = keys::parse(key) else { continue };
        let put = audit.put(name, value, Origin::New);
        put.map_err(|Unusable(what)| Error::internal(&what))?;
    }
    Ok(())
}

/// Starts a device and makes it write a test record.
///
/// # Errors
/// [`Error::Invalid`] with what the destination said.
pub(crate) async fn try_device(
    audit: &Audit,
    path: &str,
    record: &DeviceRecord,
) -> Result<Arc<Device>, Error> {
    let device = audit.start(path, record, Origin::New);
    let device = device.map_err(|why| Error::Unavailable(why.0.to_owned()))?;
    let id = RequestId::make().text();
    let subject = AuditSubject {
        auth: Auth { token_type: "default", ..Auth::default() },
        request: AuditRequest {
            id: &id,
            operation: "update",
            namespace_id: "root",
            path: "sys/audit/test",
            ..AuditRequest::default()
        },
    };
    if device.submit_test(&subject).written().await {
        return Ok(device);
    }
    let why = match device.health() {
        Health::Failed(why) => why,
        Health::Hanging | Health::Working => "it did not answer in time".to_owned(),
    };
    Err(Error::invalid(format!("audit backend failed test message: {why}")))
}
