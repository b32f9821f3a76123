//! The devices of a server: found by every request, changed by few.
//!
//! A request works with the list as it was when it began
//! ([`Devices::list`]); the list is replaced, never changed.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::clock;
use crate::device::{Device, DeviceEnding};
use crate::limits::END_MAX;

/// Devices by name.
#[derive(Default)]
pub struct Devices {
    list: ArcSwap<Vec<Arc<Device>>>,
    changing: Mutex<()>,
}

impl Devices {
    /// The devices now.
    pub fn list(&self) -> Arc<Vec<Arc<Device>>> {
        self.list.load_full()
    }

    /// The device called `name`.
    pub fn named(&self, name: &str) -> Option<Arc<Device>> {
        self.list.load().iter().find(|device| device.name() == name).cloned()
    }

    /// Puts a device in place of one of the same name.
    pub fn put(&self, device: Arc<Device>) {
        self.change(|list| {
            list.retain(|other| other.name() != device.name());
            list.push(device);
        });
    }

    /// Takes a device out. It writes what waits and ends with its last user.
    pub fn remove(&self, name: &str) {
        self.change(|list| list.retain(|device| device.name() != name));
    }

    /// Takes all devices out.
    pub fn clear(&self) {
        self.change(Vec::clear);
    }

    /// Takes all devices out and waits until they have written, signed and kept what there is, for
    /// [`END_MAX`] at the longest.
    pub fn end(&self) {
        let endings: Vec<DeviceEnding> =
            self.list.load().iter().map(|device| device.ending()).collect();
        self.clear();
        let until = clock::monotonic() + END_MAX;
        for ending in endings {
            ending.wait(until);
        }
    }

    /// Opens every destination anew.
    pub fn reopen(&self) {
        for device in self.list.load().iter() {
            device.reopen();
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Device>>)) {
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = Vec::clone(&self.list.load());
        change(&mut list);
        list.sort_by(|one, other| one.name().cmp(other.name()));
        self.list.store(Arc::new(list));
    }
}
