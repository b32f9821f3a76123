//! Which versions of a key a flush or a compaction keeps.
//!
//! A version is needed if some reader may ask for it: a reader at point `p` sees the newest version that is not newer
//! than `p`. The newest version is always needed. A delete is not needed where nothing lies below it, if no read point
//! is older than it: then every older version is gone too.

use crate::batch::EntryKind;

/// Judges versions as they come: by rising key and falling sequence number.
#[derive(Debug)]
pub(crate) struct VersionFilter {
    /// The read points, rising; the last is the newest visible sequence number when the job began.
    points: Vec<u64>,
    key: Vec<u8>,
    /// The version of `key` that came before.
    newer: Option<u64>,
}

impl VersionFilter {
    /// A filter for these read points, sorted.
    pub(crate) fn new(points: Vec<u64>) -> Self {
        assert!(points.is_sorted(), "read points are sorted");
        Self { points, key: Vec::new(), newer: None }
    }

    /// Whether the version is needed. `bottom` says whether nothing older of the key lies below this job's output.
    pub(crate) fn keeps(
        &mut self,
        key: &[u8],
        seqno: u64,
        kind: EntryKind,
        bottom: impl FnOnce() -> bool,
    ) -> bool {
        let newer = if self.newer.is_some() && self.key == key { self.newer } else { None };
        if newer.is_none() {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.newer = Some(seqno);
        let needed = match newer {
            None => true,
            Some(newer) => {
                let first = self.points.partition_point(|&point| point < seqno);
                self.points.get(first).is_some_and(|&point| point < newer)
            }
        };
        let oldest_point = self.points.first().copied().unwrap_or(u64::MAX);
        needed && !(kind == EntryKind::Delete && seqno <= oldest_point && bottom())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What readers at `points` and at the newest version see in these versions (newest first).
    fn seen(versions: &[(u64, EntryKind)], points: &[u64]) -> Vec<Option<u64>> {
        let at = |point: u64| {
            let newest = versions.iter().find(|(seqno, _)| *seqno <= point);
            newest.filter(|(_, kind)| *kind == EntryKind::Put).map(|(seqno, _)| *seqno)
        };
        points.iter().copied().chain([u64::MAX]).map(at).collect()
    }

    #[test]
    fn no_reader_sees_a_difference_and_nothing_else_stays() {
        let mut dice = fastrand::Rng::with_seed(10);
        for _ in 0..5000 {
            let mut seqnos: Vec<u64> = (0..dice.usize(1..8)).map(|_| dice.u64(1..30)).collect();
            seqnos.sort_unstable_by(|a, b| b.cmp(a));
            seqnos.dedup();
            let kind = |put| if put { EntryKind::Put } else { EntryKind::Delete };
            let versions: Vec<_> = seqnos.iter().map(|&s| (s, kind(dice.bool()))).collect();
            let mut points: Vec<u64> = (0..dice.usize(..4)).map(|_| dice.u64(..30)).collect();
            points.push(30);
            points.sort_unstable();
            for bottom in [false, true] {
                let mut filter = VersionFilter::new(points.clone());
                let kept: Vec<_> = versions
                    .iter()
                    .copied()
                    .filter(|&(seqno, kind)| filter.keeps(b"k", seqno, kind, || bottom))
                    .collect();
                assert_eq!(seen(&kept, &points), seen(&versions, &points));
                assert!(kept.len() <= points.len() + 1);
                if !bottom {
                    assert_eq!(kept.first(), versions.first());
                }
                if bottom && points.len() == 1 && versions[0].1 == EntryKind::Delete {
                    assert!(kept.is_empty());
                }
            }
        }
    }
}
