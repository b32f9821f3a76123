//! The audit devices: which are enabled, and starting and ending them.
//!
//! The pipeline asks [`Audit::is_on`], one load, and goes its own way while no device is enabled. With
//! one, [`crate::pipeline::audit`] writes down each request and its answer by the devices (`crates/audit`). What is enabled stands in
//! records in the engine storage of `sys/`, which the fold brings here; `sys::audit` are the routes.
//!
//! ```text
//! records --fold--> Audit --devices--> pipeline::audit --(request record)--> handler --(response record)--> client
//! ```
//! Invariants:
//! - A record of a device that cannot be read fails the unseal, and a device that cannot be made
//!   fails every request: auditing never ends unnoticed.

mod declared;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use kallisto_audit::{
    Anchors, Destinations, Device, DeviceSpec, Devices, Origin, Real, Surroundings,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use declared::{declare, try_device};
pub(crate) use record::{DeviceRecord, HeaderRecord};

use crate::limits::LARGE_BATCHES_MAX;

/// The engine storage's folder of devices.
pub(crate) const DEVICE_FOLDER: &str = "audit/device/";
/// The engine storage's folder of audited request headers.
pub(crate) const HEADER_FOLDER: &str = "audit/header/";

/// What a server was told about auditing at its start.
pub struct AuditSettings {
    /// Where files may lie that are enabled through the API.
    pub directories: Vec<PathBuf>,
    /// Devices that the configuration declares.
    pub declared: Vec<DeclaredDevice>,
    /// Makes what devices write to.
    pub destinations: Box<dyn Destinations>,
    /// Where it is kept how far the chains of devices go, if anywhere.
    pub anchors: Option<Arc<dyn Anchors>>,
    /// What this server is called in checkpoints.
    pub node: String,
}

/// A device that the configuration declares.
#[derive(Clone, Debug)]
pub struct DeclaredDevice {
    /// Its path, without a slash at its end.
    pub path: String,
    /// `file`, `socket` or `syslog`.
    pub kind: String,
    /// For people.
    pub description: String,
    /// What it is told.
    pub options: kallisto_audit::DeviceOptions,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            directories: Vec::new(),
            declared: Vec::new(),
            destinations: Box::new(Real),
            anchors: None,
            node: String::new(),
        }
    }
}

/// The auditing of a server.
#[derive(Default)]
pub(crate) struct Audit {
    pub(crate) settings: AuditSettings,
    pub(crate) devices: Devices,
    /// The records behind the devices, by path.
    records: Mutex<BTreeMap<String, DeviceRecord>>,
    /// A device that was tried and whose record is being committed.
    opened: Mutex<Option<Arc<Device>>>,
    headers: ArcSwap<BTreeMap<String, HeaderRecord>>,
    /// Set when a device could not be made: nothing may pass then.
    is_broken: AtomicBool,
    /// Set while there is a device, or should be.
    is_on: AtomicBool,
    large_batches: LargeBatches,
}

/// Places of connections that gather many records.
struct LargeBatches(Arc<Semaphore>);

impl Default for LargeBatches {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE_BATCHES_MAX)))
    }
}

/// Why a record of auditing could not be taken.
pub(crate) struct Unusable(pub(crate) &'static str);

impl Audit {
    pub(crate) fn new(settings: AuditSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// A place of a connection that gathers many records, if there is one.
    pub(crate) fn large_batch(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.large_batches.0).try_acquire_owned().ok()
    }

    /// Whether requests are audited.
    pub(crate) fn is_on(&self) -> bool {
        // Relaxed: whoever enabled a device has waited for its commit, and so for the fold.
        self.is_on.load(Ordering::Relaxed)
    }

    fn settle(&self) {
        let is_on = self.is_broken() || !self.devices.list().is_empty();
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    pub(crate) fn is_broken(&self) -> bool {
        // Relaxed: it is set before the unseal ends, or never taken back.
        self.is_broken.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, DeviceRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records of all devices, by path.
    pub(crate) fn records(&self) -> BTreeMap<String, DeviceRecord> {
        self.lock().clone()
    }

    /// The audited headers, by name.
    pub(crate) fn headers(&self) -> Arc<BTreeMap<String, HeaderRecord>> {
        self.headers.load_full()
    }

    /// Keeps a device that works until its record comes through the fold.
    pub(crate) fn keep_opened(&self, device: Option<Arc<Device>>) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = device;
    }

    /// Takes a record of the engine storage of `sys/` that was put; others are none of its business. One that was there when
    /// the server was unsealed is of a device that wrote before.
    ///
    /// # Errors
    /// What cannot be used.
    pub(crate) fn put(&self, name: &str, value: &[u8], origin: Origin) -> Result<(), Unusable> {
        if let Some(header) = name.strip_prefix(HEADER_FOLDER) {
            let record = HeaderRecord::decode(value).ok_or(Unusable("audited header"))?;
            self.change_headers(|headers| {
                headers.insert(header.to_owned(), record);
            });
            return Ok(());
        }
        let Some(path) = name.strip_prefix(DEVICE_FOLDER) else { return Ok(()) };
        let record = DeviceRecord::decode(value).ok_or(Unusable("audit device"))?;
        let mut records = self.lock();
        if records.get(path) == Some(&record) && self.devices.named(path).is_some() {
            return Ok(());
        }
        let device = match self.take_opened(path) {
            Some(device) => Ok(device),
            None => self.start(path, &record, origin),
        };
        match device {
            Ok(device) => self.devices.put(device),
            Err(why) => {
                self.is_broken.store(true, Ordering::Relaxed);
                self.settle();
                return Err(why);
            }
        }
        records.insert(path.to_owned(), record);
        self.settle();
        Ok(())
    }

    /// Takes a record of the engine storage of `sys/` that was deleted.
    pub(crate) fn remove(&self, name: &str) {
        if let Some(header) = name.strip_prefix(HEADER_FOLDER) {
            self.change_headers(|headers| {
                headers.remove(header);
            });
        } else if let Some(path) = name.strip_prefix(DEVICE_FOLDER) {
            self.lock().remove(path);
            self.devices.remove(path);
            self.settle();
        }
    }

    /// Ends the devices and forgets the headers that have no record in a state which came in place of another, by the names of those that have
    /// one. What the configuration declares stays: the leader may have yet to make its record.
    pub(crate) fn keep_only(&self, names: &BTreeSet<String>) {
        let is_declared =
            |path: &str| self.settings.declared.iter().any(|device| device.path == path);
        for path in self.records().into_keys().filter(|path| !is_declared(path)) {
            let name = format!("{DEVICE_FOLDER}{path}");
            if !names.contains(&name) {
                tracing::info!(path, "audit device disabled");
                self.remove(&name);
            }
        }
        for header in self.headers().keys() {
            let name = format!("{HEADER_FOLDER}{header}");
            if !names.contains(&name) {
                self.remove(&name);
            }
        }
    }

    /// How many devices found that records were taken from them, or replaced, while the server did not run.
    pub(crate) fn broken_chains(&self) -> usize {
        let devices = self.devices.list();
        let is_broken =
            |device: &&Arc<Device>| device.verdict().is_some_and(|verdict| verdict.is_fault());
        devices.iter().filter(is_broken).count()
    }

    /// Ends all devices, at seal.
    pub(crate) fn clear(&self) {
        self.devices.clear();
        self.lock().clear();
        self.headers.store(Arc::default());
        self.is_broken.store(false, Ordering::Relaxed);
        self.settle();
    }

    /// Starts the device of a record.
    pub(crate) fn start(
        &self,
        path: &str,
        record: &DeviceRecord,
        origin: Origin,
    ) -> Result<Arc<Device>, Unusable> {
        let spec = DeviceSpec::parse(&record.kind, &record.options);
        let spec = spec.map_err(|_| Unusable("options of an audit device"))?;
        let around = Surroundings {
            destinations: &*self.settings.destinations,
            anchors: self.settings.anchors.clone(),
            node: &self.settings.node,
        };
        let started = Device::start(path, spec, &record.salt, origin, &around);
        started.map(Arc::new).map_err(|_| Unusable("audit device without threads"))
    }

    fn take_opened(&self, path: &str) -> Option<Arc<Device>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.take_if(|device| device.name() == path)
    }

    fn change_headers(&self, change: impl FnOnce(&mut BTreeMap<String, HeaderRecord>)) {
        // The fold is the only writer.
        let mut headers = BTreeMap::clone(&self.headers.load());
        change(&mut headers);
        self.headers.store(Arc::new(headers));
    }
}
