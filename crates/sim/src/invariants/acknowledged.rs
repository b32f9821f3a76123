//! Acknowledged is durable: a write that a client was told of is in the log at the position it was told, whatever crashed since, and
//! every server that is that far holds it until it is written over.

use std::collections::BTreeMap;

use super::{InvariantViolation, violated};
use crate::mirror::{MirrorChanges, StoredState};

const NAME: &str = "acknowledged is durable";

/// What clients were told.
#[derive(Debug, Default)]
pub(crate) struct AcknowledgedWrites(BTreeMap<u64, MirrorChanges>);

impl AcknowledgedWrites {
    /// A client was told that its batch is at `position`.
    pub(crate) fn learn(
        &mut self,
        position: u64,
        changes: MirrorChanges,
    ) -> Result<(), InvariantViolation> {
        match self.0.insert(position, changes) {
            None => Ok(()),
            Some(_) => {
                Err(violated(NAME)(format!("two batches were acknowledged at position {position}")))
            }
        }
    }

    /// A server that has caught up is at `position` and holds `state`.
    pub(crate) fn held(
        &self,
        server: u64,
        position: u64,
        state: &StoredState,
    ) -> Result<(), InvariantViolation> {
        let lost = |what: String| violated(NAME)(format!("server {server}, at {position}: {what}"));
        if let Some((&last, _)) = self.0.last_key_value().filter(|(last, _)| **last > position) {
            return Err(lost(format!("the cluster has forgotten position {last}")));
        }
        let mut newest = BTreeMap::new();
        for (told, changes) in &self.0 {
            newest.extend(changes.iter().map(|(key, value)| (key, (*told, value))));
        }
        for (key, (told, value)) in newest {
            let name = String::from_utf8_lossy(key);
            match (state.get(key), value) {
                // Written over by somebody who was not told.
                (Some((_, seqno)), _) if *seqno > told => {}
                (Some((held, seqno)), Some(value)) if *seqno == told && held == value => {}
                (Some((_, seqno)), _) => {
                    return Err(lost(format!("{name} is of {seqno}, {told} was acknowledged")));
                }
                // Absent: deleted by this one, or by somebody who was not told. The replicas' invariant knows which.
                (None, _) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_there_or_written_over() {
        let mut acknowledged = AcknowledgedWrites::default();
        let changes = MirrorChanges::from([(b"a".to_vec(), Some(b"1".to_vec()))]);
        acknowledged.learn(5, changes.clone()).unwrap();
        let state = |value: &str, at: u64| StoredState::from([(b"a".to_vec(), (value.into(), at))]);
        assert_eq!(acknowledged.held(1, 5, &state("1", 5)), Ok(()));
        assert_eq!(acknowledged.held(1, 9, &state("2", 8)), Ok(()));
        assert!(acknowledged.held(1, 4, &state("0", 3)).is_err());
        assert!(acknowledged.held(1, 9, &state("0", 3)).is_err());
        assert!(acknowledged.held(1, 9, &state("2", 5)).is_err());
        assert!(acknowledged.learn(5, changes).is_err());
    }
}
