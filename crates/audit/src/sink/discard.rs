//! Destinations that need no opening: the server's own output, and none at all.

use std::io::{self, Write};

use super::{LineGroup, Sink};
use crate::chain::ChainHead;

/// The standard output of the server.
pub(super) struct Stdout;

impl Sink for Stdout {
    fn open(&mut self) -> io::Result<Option<ChainHead>> {
        Ok(None)
    }

    fn write(&mut self, group: &LineGroup<'_>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(group.bytes)?;
        out.flush()
    }
}

/// Nowhere: for measuring, and for proving that records are made.
pub(super) struct Discard;

impl Sink for Discard {
    fn open(&mut self) -> io::Result<Option<ChainHead>> {
        Ok(None)
    }

    fn write(&mut self, _: &LineGroup<'_>) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_nothing_takes_everything_and_knows_no_record() {
        assert_eq!(Discard.open().unwrap(), None);
        assert_eq!(Stdout.open().unwrap(), None);
        Discard.write(&LineGroup { bytes: b"one\n", ends: &[4] }).unwrap();
    }
}
