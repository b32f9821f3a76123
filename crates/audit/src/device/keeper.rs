//! The thread that keeps where a chain stands: every second that it moved, and when its writer has ended.
//!
//! Neither the writer nor the watchdog waits for it, so a disk that hangs under anchors stops no request.

use std::io;
use std::sync::{Arc, PoisonError};

use super::queue::{DeviceShared, QueueMode, QueueState};
use crate::anchor::{AnchorFile, Anchors};
use crate::chain::ChainHead;
use crate::limits::ANCHOR_INTERVAL;

/// The anchor of one device.
pub(super) struct Anchor {
    pub(super) name: String,
    pub(super) anchors: Arc<dyn Anchors>,
    pub(super) sealed: AnchorFile,
}

impl Anchor {
    /// The head that was kept; `None` when there is none of this device.
    pub(super) fn read(&self) -> io::Result<Option<ChainHead>> {
        let bytes = self.anchors.read(&self.name)?;
        Ok(bytes.and_then(|bytes| self.sealed.decode(&bytes)))
    }

    fn write(&self, head: ChainHead) -> io::Result<()> {
        self.anchors.write(&self.name, &self.sealed.encode(head))
    }
}

/// Keeps a device's head until it ends.
pub(super) fn keep(anchor: &Anchor, shared: &DeviceShared) {
    let mut kept = None;
    let mut is_failing = false;
    let mut state = shared.lock();
    loop {
        // Looked at before the head: what is written afterwards is kept in the next turn.
        let is_last = is_over(&state);
        let (head, is_known) = (state.head, state.verdict.is_some());
        if is_known && kept != Some(head) {
            drop(state);
            match anchor.write(head) {
                Ok(()) => {
                    kept = Some(head);
                    is_failing = false;
                }
                Err(error) if !std::mem::replace(&mut is_failing, true) => {
                    tracing::error!(device = anchor.name, %error, "an audit device's anchor is not kept");
                }
                Err(_) => {}
            }
            state = shared.lock();
        }
        if is_last {
            state.is_kept = true;
            shared.ended.notify_all();
            return;
        }
        let woken = shared.ended.wait_timeout(state, ANCHOR_INTERVAL);
        state = woken.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Whether the head moves no more. A writer that hangs may never end.
fn is_over(state: &QueueState) -> bool {
    state.closing && (state.has_ended || state.mode == QueueMode::Hanging)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::logged::errors_of;

    /// A keeper that ends before its writer would leave an anchor that is behind the chain.
    #[test]
    fn a_head_moves_no_more_when_the_device_closes_and_its_writer_has_ended_or_hangs() {
        use QueueMode::{Hanging, Working};
        let over = [(true, true, Working), (true, true, Hanging), (true, false, Hanging)];
        for closing in [false, true] {
            for has_ended in [false, true] {
                for mode in [Working, Hanging] {
                    let is_last = over.contains(&(closing, has_ended, mode.clone()));
                    let state = QueueState { mode, closing, has_ended, ..QueueState::new(false) };
                    assert_eq!(is_over(&state), is_last, "{closing} {has_ended} {:?}", state.mode);
                }
            }
        }
    }

    /// Anchors that count how often one is written.
    #[derive(Default)]
    struct Counted(std::sync::atomic::AtomicUsize);

    impl Anchors for Counted {
        fn read(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
            Ok(None)
        }

        fn write(&self, _: &str, _: &[u8]) -> io::Result<()> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        }
    }

    /// Anchors on a disk that fails, of a device that ends before so many writes are over.
    struct Failing {
        writes: std::sync::atomic::AtomicUsize,
        shared: Arc<DeviceShared>,
    }

    impl Anchors for Failing {
        fn read(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
            Ok(None)
        }

        fn write(&self, _: &str, _: &[u8]) -> io::Result<()> {
            if self.writes.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) <= 2 {
                let mut state = self.shared.lock();
                (state.closing, state.has_ended) = (true, true);
            }
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn that_anchors_are_not_kept_is_told_once() {
        for writes in [2, 4] {
            let verdict = Some(crate::AnchorVerdict::New);
            let shared =
                Arc::new(DeviceShared::new(QueueState { verdict, ..QueueState::new(false) }));
            let anchors = Arc::new(Failing { writes: writes.into(), shared: Arc::clone(&shared) });
            let sealed = AnchorFile::new(&[1; crate::mask::SALT_BYTES], "n", "d/");
            let anchor = Anchor { name: "d/".to_owned(), anchors, sealed };
            std::thread::scope(|threads| {
                // In place of the interval.
                threads.spawn(|| {
                    while !shared.lock().is_kept {
                        shared.ended.notify_all();
                        std::thread::yield_now();
                    }
                });
                assert_eq!(errors_of(|| keep(&anchor, &shared)), 1, "{writes}");
            });
        }
    }

    /// What was kept before is what the destination is compared with when it is opened.
    #[test]
    fn nothing_is_kept_of_a_destination_that_was_not_opened() {
        for (verdict, written) in [(None, 0), (Some(crate::AnchorVerdict::New), 1)] {
            let state =
                QueueState { closing: true, verdict, has_ended: true, ..QueueState::new(false) };
            let shared = DeviceShared::new(state);
            let counted = Arc::<Counted>::default();
            let sealed = AnchorFile::new(&[1; crate::mask::SALT_BYTES], "n", "d/");
            let anchors = Arc::clone(&counted) as Arc<dyn Anchors>;
            keep(&Anchor { name: "d/".to_owned(), anchors, sealed }, &shared);
            assert_eq!(counted.0.load(std::sync::atomic::Ordering::SeqCst), written);
            assert!(shared.lock().is_kept);
        }
    }
}
