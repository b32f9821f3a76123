//! A group of batches on its way into one transaction: which of them may go, at which positions, and what they leave behind.

use std::collections::BTreeMap;

use kallisto_store::{Batch, GENERATION_KEY, Position, Seqno, StoreOp, Value};

use crate::records::MemoryRecords;
use crate::shared::WaitingBatch;

/// Batches whose preconditions hold, one behind the other.
#[derive(Default)]
pub(crate) struct PgGroup {
    pub(crate) epoch: u64,
    /// The position before the first.
    pub(crate) before: u64,
    /// Each with its position.
    pub(crate) going: Vec<(Position, WaitingBatch)>,
    /// Those whose preconditions do not hold, if those that go do.
    pub(crate) conflicting: Vec<WaitingBatch>,
    /// When each record that those which go change was written last.
    changed: BTreeMap<Vec<u8>, Seqno>,
}

/// What a group leaves of the records that it changes.
#[derive(Clone, Debug, Default)]
pub struct GroupEffects<'g> {
    /// The keys of those that it leaves.
    pub put_keys: Vec<&'g [u8]>,
    /// When each was written.
    pub put_seqnos: Vec<i64>,
    /// What each is.
    pub put_values: Vec<&'g [u8]>,
    /// The keys of those that it takes away.
    pub gone: Vec<&'g [u8]>,
}

impl PgGroup {
    /// Judges batches in order on the records, on what those before them change, and on a group that is committed and not among the
    /// records yet.
    pub(crate) fn judge(
        epoch: u64,
        before: u64,
        waiting: Vec<WaitingBatch>,
        (records, ahead): (&MemoryRecords, Option<&Self>),
        generation: Seqno,
    ) -> Self {
        let mut group = Self { epoch, before, ..Self::default() };
        for waiting in waiting {
            let holds = waiting.batch.expectations().iter().all(|expected| {
                let ahead = || ahead.and_then(|ahead| ahead.changed.get(&expected.key));
                let found = match group.changed.get(&expected.key).or_else(ahead) {
                    _ if expected.key == GENERATION_KEY => generation,
                    Some(seqno) => *seqno,
                    None => records.seqno(&expected.key),
                };
                found == expected.seqno
            });
            if !holds {
                group.conflicting.push(waiting);
                continue;
            }
            let position = Position(group.last() + 1);
            for op in waiting.batch.ops() {
                let (key, seqno) = match op {
                    StoreOp::Put { key, .. } => (key, Seqno(position.0)),
                    StoreOp::Delete { key, .. } => (key, Seqno::ABSENT),
                };
                group.changed.insert(key.clone(), seqno);
            }
            group.going.push((position, waiting));
        }
        group
    }

    /// The position of the last.
    pub(crate) fn last(&self) -> u64 {
        self.before + self.going.len() as u64
    }

    /// The batches.
    pub(crate) fn batches(&self) -> Vec<Batch> {
        let bare = |(_, waiting): &(Position, WaitingBatch)| {
            let mut batch = waiting.batch.clone();
            batch.clear_expectations();
            batch
        };
        self.going.iter().map(bare).collect()
    }

    /// What they leave.
    pub(crate) fn effects(&self) -> GroupEffects<'_> {
        let mut last: BTreeMap<&[u8], Option<(i64, &Value)>> = BTreeMap::new();
        for (position, waiting) in &self.going {
            for op in waiting.batch.ops() {
                match op {
                    StoreOp::Put { key, value } => {
                        last.insert(key, Some((position.0.cast_signed(), value)));
                    }
                    StoreOp::Delete { key, .. } => {
                        last.insert(key, None);
                    }
                }
            }
        }
        let mut effects = GroupEffects::default();
        for (key, left) in last {
            match left {
                Some((seqno, value)) => {
                    effects.put_keys.push(key);
                    effects.put_seqnos.push(seqno);
                    effects.put_values.push(value);
                }
                None => effects.gone.push(key),
            }
        }
        effects
    }

    /// All batches, in about the order in which they came.
    pub(crate) fn into_waiting(self) -> Vec<WaitingBatch> {
        let going = self.going.into_iter().map(|(_, waiting)| waiting);
        going.chain(self.conflicting).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_store::Commit;
    use std::time::Duration;

    fn waiting(batch: Batch) -> WaitingBatch {
        let (promise, commit) = Commit::promised();
        drop(commit);
        WaitingBatch { batch, promise, since: Duration::ZERO, bytes: 1 }
    }

    #[test]
    fn of_two_in_a_group_that_expect_the_same_one_goes_and_the_next_sees_it() {
        let records = MemoryRecords::default();
        let mut first = Batch::new();
        first.expect(b"a".to_vec(), Seqno::ABSENT).put(b"a".to_vec(), b"1".to_vec());
        let second = first.clone();
        let mut third = Batch::new();
        third.expect(b"a".to_vec(), Seqno(6)).delete(b"a".to_vec());
        third.put(b"b".to_vec(), b"2".to_vec());
        let all = [first, second, third].map(waiting).into();
        let group = PgGroup::judge(3, 5, all, (&records, None), Seqno::ABSENT);
        assert_eq!(group.going.iter().map(|(at, _)| at.0).collect::<Vec<_>>(), [6, 7]);
        assert_eq!((group.conflicting.len(), group.last()), (1, 7));
        let effects = group.effects();
        assert_eq!(effects.put_keys, [b"b"]);
        assert_eq!((effects.put_seqnos, effects.gone), (vec![7], vec![&b"a"[..]]));
        // Of the next one, while the records know nothing of this.
        let mut absent = Batch::new();
        absent.expect(b"a".to_vec(), Seqno::ABSENT).put(b"a".to_vec(), b"3".to_vec());
        let mut of_before = Batch::new();
        of_before.expect(b"b".to_vec(), Seqno::ABSENT).put(b"b".to_vec(), b"4".to_vec());
        let mut of_now = Batch::new();
        of_now.expect(b"b".to_vec(), Seqno(7)).put(b"b".to_vec(), b"5".to_vec());
        let all = [absent, of_before, of_now].map(waiting).into();
        let next = PgGroup::judge(3, 7, all, (&records, Some(&group)), Seqno::ABSENT);
        assert_eq!((next.going.len(), next.conflicting.len(), next.last()), (2, 1, 9));
    }

    #[test]
    fn a_batch_of_another_restore_does_not_go() {
        let mut batch = Batch::new();
        batch.expect(GENERATION_KEY.to_vec(), Seqno(4)).put(b"a".to_vec(), b"1".to_vec());
        let all = vec![waiting(batch)];
        let group = PgGroup::judge(1, 0, all, (&MemoryRecords::default(), None), Seqno(9));
        assert!(group.going.is_empty() && group.conflicting.len() == 1);
    }
}
