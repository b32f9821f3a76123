//! No read goes back in time: a client that says how far it has seen (as `X-Vault-Index` does) reads, on whatever server, its own
//! writes and nothing older than what it read before. And what it reads at a position is what was there.

use std::collections::BTreeMap;

use super::{InvariantViolation, violated};
use crate::oracle::Oracle;

const NAME: &str = "no read goes back in time";

/// A read on one server.
#[derive(Clone, Debug)]
pub(crate) struct ServerRead<'a> {
    pub(crate) client: u64,
    pub(crate) server: u64,
    pub(crate) key: &'a [u8],
    /// How far the server was.
    pub(crate) position: u64,
    /// What was found, and the position that wrote it.
    pub(crate) found: Option<(Vec<u8>, u64)>,
}

/// How far each client has seen.
#[derive(Debug, Default)]
pub(crate) struct ClientReads(BTreeMap<u64, u64>);

impl ClientReads {
    /// How far a client has seen.
    pub(crate) fn index(&self, client: u64) -> u64 {
        self.0.get(&client).copied().unwrap_or_default()
    }

    /// A client was told of a position.
    pub(crate) fn learn(&mut self, client: u64, position: u64) {
        let index = self.0.entry(client).or_default();
        *index = position.max(*index);
    }

    /// A client read.
    pub(crate) fn read(
        &mut self,
        read: &ServerRead<'_>,
        log: &Oracle,
    ) -> Result<(), InvariantViolation> {
        let ServerRead { client, server, key, position, found } = read;
        let index = self.index(*client);
        let wrong = |what: String| {
            let key = String::from_utf8_lossy(key);
            violated(NAME)(format!("client {client} reads {key} on server {server}: {what}"))
        };
        if *position < index {
            return Err(wrong(format!("it has seen {index}, and this is as of {position}")));
        }
        let seqno = |found: &Option<(Vec<u8>, u64)>| found.as_ref().map_or(0, |found| found.1);
        if let Some(expected) = log.value_at(key, *position).filter(|expected| expected != found) {
            let (found, expected) = (seqno(found), seqno(&expected));
            return Err(wrong(format!("at {position} it is of {expected}, not of {found}")));
        }
        self.learn(*client, *position);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::MirrorChanges;

    #[test]
    fn a_read_of_the_past_is_seen() {
        let mut log = Oracle::default();
        for at in [2, 3] {
            log.learn(at, &MirrorChanges::from([(b"k".to_vec(), Some(vec![at as u8]))])).unwrap();
        }
        let mut reads = ClientReads::default();
        let read = |position: u64, of: u64| ServerRead {
            client: 1,
            server: 2,
            key: b"k",
            position,
            found: Some((vec![of as u8], of)),
        };
        reads.read(&read(2, 2), &log).unwrap();
        assert!(reads.read(&read(3, 2), &log).is_err(), "not what was there");
        reads.learn(1, 3);
        assert!(reads.read(&read(2, 2), &log).is_err(), "its own write is missing");
        reads.read(&read(3, 3), &log).unwrap();
    }
}
