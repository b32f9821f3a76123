//! The threads of a store: loops around the turns of driver, applier and keeper.
//!
//! A thread that ends with an error, or with a panic of ours or the library's, poisons the store on its way out: nobody
//! may wait for a thread that is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::applier::{Applier, ApplierTurn};
use super::driver::Driver;
use super::limits::{FULL_RETRY, LOOK_PAUSE};
use super::log::mark::MARK_PAUSE;
use super::requests::DrainState;
use super::shared::{RestWatch, SegmentWork, StoreShared};
use crate::Error;

/// Starts the threads.
pub(crate) fn start(
    shared: &Arc<StoreShared>,
    mut driver: Driver,
    mut applier: Applier,
) -> Result<Vec<JoinHandle<()>>, Error> {
    let drive = spawn("raft-driver", shared, move |shared| drive(shared, &mut driver))?;
    let apply = spawn("raft-apply", shared, move |shared| apply(shared, &mut applier))?;
    let keep = spawn("raft-keeper", shared, keep)?;
    Ok(vec![drive, apply, keep])
}

fn spawn(
    name: &str,
    shared: &Arc<StoreShared>,
    mut body: impl FnMut(&StoreShared) -> Result<(), Error> + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let guard = PoisonOnPanic(&shared);
        if let Err(error) = body(&shared) {
            shared.poison(&error);
        }
        std::mem::forget(guard);
    });
    thread.map_err(|error| Error::Unavailable(format!("start a thread: {error}")))
}

/// Poisons the store when its thread panics.
struct PoisonOnPanic<'a>(&'a StoreShared);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        // The library answers a log that cannot be read with a panic.
        let panicked = || Error::Poisoned("a thread of the store panicked".into());
        let error = self.0.fault.get().cloned().unwrap_or_else(panicked);
        self.0.poison(&error);
        self.0.tasks.abandon();
    }
}

fn drive(shared: &StoreShared, driver: &mut Driver) -> Result<(), Error> {
    let mut taken = Vec::new();
    while shared.fatal.get().is_none() {
        let backpressure = shared.backpressure();
        let came = shared.requests.wait(driver.patience(), backpressure);
        shared.requests.gather(driver.gather(), came);
        if shared.requests.take(&mut taken, backpressure) == DrainState::Ended {
            return driver.finish();
        }
        driver.turn(&mut taken)?;
    }
    Ok(())
}

fn apply(shared: &StoreShared, applier: &mut Applier) -> Result<(), Error> {
    while shared.tasks.take(applier.backlog(), None) {
        while applier.turn()? == ApplierTurn::Stalled {
            if shared.closing.load(Ordering::Acquire) || shared.fatal.get().is_some() {
                // What is left is in the log and is applied at the next start.
                shared.tasks.abandon();
                shared.requests.nudge();
                return Ok(());
            }
            std::thread::park_timeout(FULL_RETRY);
            // Who came meanwhile waits for the same space, and hears so.
            shared.tasks.take(applier.backlog(), Some(Duration::ZERO));
        }
    }
    Ok(())
}

fn keep(shared: &StoreShared) -> Result<(), Error> {
    let mut rest = RestWatch::default();
    // What a start leaves to do waits for the first look, since the start has the disk and a processor busy: the next
    // segment, say, is megabytes of zeros.
    let mut starting = true;
    let mut next_look = shared.clock.now() + LOOK_PAUSE;
    loop {
        shared.follow_mark()?;
        let now = shared.clock.now();
        if now >= next_look {
            next_look = now + LOOK_PAUSE;
            match std::mem::replace(&mut starting, false) {
                true => shared.do_chores()?,
                false => rest.look(shared)?,
            }
        }
        let patience = match shared.marking.load(Ordering::Acquire) {
            true => MARK_PAUSE,
            false => next_look - now,
        };
        match shared.chores.wait(patience) {
            SegmentWork::Chores => {
                starting = false;
                shared.do_chores()?;
            }
            SegmentWork::Mark | SegmentWork::Look => {}
            SegmentWork::End => return Ok(()),
        }
    }
}
