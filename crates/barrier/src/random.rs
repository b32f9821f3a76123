//! Random bytes from the operating system.
//!
//! Not from a generator in this process: the system's is reseeded when a virtual machine is cloned or restored, one of
//! ours would hand both copies the same bytes. It is asked for keys and nonce prefixes only, never per record.
//!
//! The simulated cluster repeats a run from its seed, to the last byte. For that alone the feature `seeded` lets a thread
//! name another source ([`seeded`]); the server is built without it, and `cargo x tidy` looks that nobody else asks for it.

use crate::error::{Error, Result};

/// Fills `out` with random bytes.
///
/// # Errors
/// [`Error::Machine`] if the system has none.
pub fn fill(out: &mut [u8]) -> Result<()> {
    #[cfg(feature = "seeded")]
    if seeded::fill(out) {
        return Ok(());
    }
    getrandom::fill(out).map_err(|_| Error::Machine("no random bytes from the system"))
}

/// Bytes that can be drawn again, for simulations.
#[cfg(feature = "seeded")]
pub mod seeded {
    use std::cell::RefCell;

    /// Fills what it is given.
    pub type Source = Box<dyn FnMut(&mut [u8])>;

    thread_local! {
        static SOURCE: RefCell<Option<Source>> = const { RefCell::new(None) };
    }

    /// Has this thread draw from `source` from now on, or from the operating system again.
    pub fn draw_from(source: Option<Source>) {
        SOURCE.set(source);
    }

    pub(super) fn fill(out: &mut [u8]) -> bool {
        SOURCE.with_borrow_mut(|source| source.as_mut().map(|source| source(out)).is_some())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_thread_draws_from_its_source_and_others_do_not() {
            draw_from(Some(Box::new(|out| out.fill(7))));
            let draw = || {
                let mut bytes = [0; 16];
                crate::random::fill(&mut bytes).unwrap();
                bytes
            };
            assert_eq!(draw(), [7; 16]);
            assert_ne!(std::thread::spawn(draw).join().unwrap(), [7; 16]);
            draw_from(None);
            assert_ne!(draw(), [7; 16]);
        }
    }
}
