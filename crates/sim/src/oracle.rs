//! The log of batches, as the folds of all servers have shown it so far.
//!
//! Raft promises one log. Whatever any server folds at a position is therefore what every other one folds there, and what it holds at a
//! position follows from the log alone. A server that was alone in applying something (it did so while it opened, before a fold was attached)
//! shows the result and not the batches: such a stretch is *hazy*, and a state inside of it is not compared.

use std::collections::BTreeMap;

use crate::mirror::{MirrorChanges, StoredState};

/// What is known of the log.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    batches: BTreeMap<u64, MirrorChanges>,
    /// What each key became, by position.
    keys: BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>,
    /// The furthest that any fold came.
    horizon: u64,
    /// Stretches of which only the result is known: behind the first, up to the second.
    hazy: Vec<(u64, u64)>,
}

impl Oracle {
    /// A fold that had come to `previous` was given a batch at `position`.
    pub(crate) fn folded(
        &mut self,
        previous: u64,
        position: u64,
        changes: &MirrorChanges,
    ) -> Result<(), String> {
        if position <= previous {
            return Err(format!("batch {position} came after {previous}"));
        }
        if let Some((missed, _)) = self.batches.range(previous + 1..position).next() {
            return Err(format!("batch {position} came after {previous}, and {missed} never did"));
        }
        if !self.batches.contains_key(&position)
            && position <= self.horizon
            && !self.is_unseen(position)
        {
            return Err(format!("there is a batch {position} where others had none"));
        }
        self.learn(position, changes)
    }

    /// A batch is at `position`, whoever says so.
    pub(crate) fn learn(&mut self, position: u64, changes: &MirrorChanges) -> Result<(), String> {
        if let Some(known) = self.batches.get(&position) {
            return if known == changes {
                Ok(())
            } else {
                Err(format!("batch {position} is another one elsewhere"))
            };
        }
        for (key, value) in changes {
            self.learn_key(key, position, value.clone())?;
        }
        self.batches.insert(position, changes.clone());
        self.horizon = self.horizon.max(position);
        Ok(())
    }

    /// A server holds `state` at `position`.
    pub(crate) fn loaded(&mut self, position: u64, state: &StoredState) -> Result<(), String> {
        for (key, (value, seqno)) in state {
            let known = self.keys.get(key).is_some_and(|known| known.contains_key(seqno));
            if *seqno > position || (!known && *seqno <= self.horizon && !self.is_unseen(*seqno)) {
                return Err(format!(
                    "{} at {position} is of {seqno}, when nobody wrote it",
                    text(key)
                ));
            }
            self.learn_key(key, *seqno, Some(value.clone()))?;
        }
        if position > self.horizon {
            let gone = |key: &&Vec<u8>| !state.contains_key(*key);
            let gone: Vec<_> = self.state_at(position).keys().filter(gone).cloned().collect();
            for key in gone {
                self.learn_key(&key, position, None)?;
            }
            self.hazy.push((self.horizon, position));
            self.horizon = position;
        }
        self.compare(position, state)
    }

    /// Whether a server that is at `position` may hold `state`.
    pub(crate) fn compare(&self, position: u64, state: &StoredState) -> Result<(), String> {
        if !self.is_exact(position) {
            return Ok(());
        }
        let expected = self.state_at(position);
        let differs =
            expected.keys().chain(state.keys()).find(|key| expected.get(*key) != state.get(*key));
        let Some(key) = differs else { return Ok(()) };
        let place = |state: &StoredState| state.get(key).map_or(0, |(_, seqno)| *seqno);
        Err(format!(
            "at {position}, {} is of {} and should be of {} (0: absent)",
            text(key),
            place(state),
            place(&expected)
        ))
    }

    /// What a key is at a position: the value, and the position that wrote it. `None` where that is not known for sure.
    pub(crate) fn value_at(&self, key: &[u8], position: u64) -> Option<Option<(Vec<u8>, u64)>> {
        self.is_exact(position).then(|| self.last(key, position))
    }

    /// Up to where anything is known.
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon
    }

    fn last(&self, key: &[u8], position: u64) -> Option<(Vec<u8>, u64)> {
        let (&seqno, value) = self.keys.get(key)?.range(..=position).next_back()?;
        value.clone().map(|value| (value, seqno))
    }

    fn state_at(&self, position: u64) -> StoredState {
        let here = |key: &Vec<u8>| Some((key.clone(), self.last(key, position)?));
        self.keys.keys().filter_map(here).collect()
    }

    /// Whether batches may be at a position that no fold has shown.
    fn is_unseen(&self, position: u64) -> bool {
        self.hazy.iter().any(|(after, to)| (*after + 1..=*to).contains(&position))
    }

    fn is_exact(&self, position: u64) -> bool {
        position <= self.horizon
            && !self.hazy.iter().any(|(after, to)| (*after + 1..*to).contains(&position))
    }

    fn learn_key(
        &mut self,
        key: &[u8],
        position: u64,
        value: Option<Vec<u8>>,
    ) -> Result<(), String> {
        let known = self
            .keys
            .entry(key.to_vec())
            .or_default()
            .entry(position)
            .or_insert_with(|| value.clone());
        if *known == value {
            Ok(())
        } else {
            Err(format!("{} of {position} is another one elsewhere", text(key)))
        }
    }
}

/// A key for a person: keys here are short words.
fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> MirrorChanges {
        MirrorChanges::from([(key.into(), Some(value.into()))])
    }

    fn state(records: &[(&str, &str, u64)]) -> StoredState {
        records.iter().map(|(k, v, at)| ((*k).into(), ((*v).into(), *at))).collect()
    }

    fn of_three() -> Oracle {
        let mut oracle = Oracle::default();
        oracle.folded(0, 3, &put("a", "1")).unwrap();
        oracle.folded(3, 4, &put("b", "2")).unwrap();
        oracle.folded(4, 7, &MirrorChanges::from([("a".into(), None)])).unwrap();
        oracle
    }

    #[test]
    fn all_folds_are_of_one_log() {
        let mut oracle = of_three();
        oracle.folded(2, 3, &put("a", "1")).unwrap();
        for (previous, position, changes, why) in [
            (3, 4, put("b", "3"), "another"),
            (3, 7, put("a", "1"), "never did"),
            (4, 5, put("b", "2"), "others had none"),
            (4, 4, put("b", "2"), "came after"),
        ] {
            let what = oracle.folded(previous, position, &changes).unwrap_err();
            assert!(what.contains(why), "{what}");
        }
    }

    #[test]
    fn a_state_follows_from_the_log() {
        let mut oracle = of_three();
        oracle.loaded(4, &state(&[("a", "1", 3), ("b", "2", 4)])).unwrap();
        oracle.loaded(7, &state(&[("b", "2", 4)])).unwrap();
        for wrong in [
            state(&[("a", "1", 3), ("b", "2", 4)]),
            state(&[]),
            state(&[("b", "3", 4)]),
            state(&[("b", "2", 4), ("c", "2", 5)]),
        ] {
            assert!(oracle.loaded(7, &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_only_the_result_is_known_of_is_hazy_and_binds_from_there_on() {
        let mut oracle = of_three();
        oracle.loaded(12, &state(&[("c", "9", 10)])).unwrap();
        assert_eq!(oracle.value_at(b"c", 11), None);
        assert_eq!(oracle.value_at(b"b", 12), Some(None));
        oracle.folded(7, 10, &put("c", "9")).unwrap();
        assert!(oracle.folded(7, 10, &put("c", "8")).is_err());
        assert!(oracle.loaded(12, &state(&[])).is_err());
    }
}
