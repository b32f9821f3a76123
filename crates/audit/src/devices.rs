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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::chain::ChainHead;
    use crate::device::{Origin, Surroundings};
    use crate::mask::SALT_BYTES;
    use crate::options::{DeviceOptions, DeviceSpec};
    use crate::sink::{Destinations, LineGroup, Sink};
    use crate::subject::AuditSubject;

    /// A destination that counts how often it was opened, and the groups that it took.
    #[derive(Clone, Default)]
    struct Counting {
        opened: Arc<AtomicUsize>,
        taken: Arc<AtomicUsize>,
    }

    impl Destinations for Counting {
        fn sink(&self, _: &DeviceSpec) -> Box<dyn Sink> {
            Box::new(self.clone())
        }
    }

    impl Sink for Counting {
        fn open(&mut self) -> io::Result<Option<ChainHead>> {
            self.opened.fetch_add(1, Ordering::SeqCst);
            Ok(None)
        }

        fn write(&mut self, _: &LineGroup<'_>) -> io::Result<()> {
            self.taken.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }

    fn device(name: &str, destinations: &Counting) -> Arc<Device> {
        let options: DeviceOptions = [("file_path".to_owned(), "discard".to_owned())].into();
        let spec = DeviceSpec::parse("file", &options).unwrap();
        let around = Surroundings { destinations, anchors: None, node: "n" };
        Arc::new(Device::start(name, spec, &[1; SALT_BYTES], Origin::New, &around).unwrap())
    }

    fn write(device: &Device) {
        let ticket = device.submit_test(&AuditSubject::default());
        assert!(pollster::block_on(ticket.written()));
    }

    #[test]
    fn devices_stand_by_name_and_one_takes_the_place_of_another() {
        let (devices, counting) = (Devices::default(), Counting::default());
        let names = || {
            let list = devices.list();
            list.iter().map(|device| device.name().to_owned()).collect::<Vec<_>>()
        };
        for name in ["b/", "a/", "c/"] {
            devices.put(device(name, &counting));
        }
        assert_eq!(names(), ["a/", "b/", "c/"]);
        let other = device("a/", &counting);
        devices.put(Arc::clone(&other));
        assert_eq!(names(), ["a/", "b/", "c/"]);
        assert!(Arc::ptr_eq(&devices.named("a/").unwrap(), &other));
        devices.remove("b/");
        assert_eq!(names(), ["a/", "c/"]);
        assert!(devices.named("b/").is_none());
        devices.clear();
        assert!(names().is_empty());
    }

    #[test]
    fn every_destination_is_opened_anew_when_that_is_asked_for() {
        let (devices, counting) = (Devices::default(), Counting::default());
        let one = device("a/", &counting);
        devices.put(Arc::clone(&one));
        write(&one);
        let opened = counting.opened.load(Ordering::SeqCst);
        devices.reopen();
        write(&one);
        assert_eq!(counting.opened.load(Ordering::SeqCst), opened + 1);
    }

    #[test]
    fn the_end_of_all_devices_waits_for_what_they_sign_last() {
        let (devices, counting) = (Devices::default(), Counting::default());
        for name in ["a/", "unused/"] {
            devices.put(device(name, &counting));
        }
        write(&devices.named("a/").unwrap());
        devices.end();
        assert!(devices.list().is_empty());
        assert_eq!(counting.taken.load(Ordering::SeqCst), 2, "a record and a checkpoint");
    }
}
