//! Which SSTs are live, and where: L0 with overlapping files by age, L1 and deeper as sorted runs.
//!
//! A [`Levels`] never changes; an edit makes a new one that shares the files. Readers hold the one they started with.
//!
//! Invariants, checked by [`Levels::check`]:
//! - L0 is ordered newest first and its files' sequence numbers do not overlap;
//! - in a deeper level, files are ordered by key and no two hold the same key;
//! - for one key, a shallower level holds newer versions than a deeper one.

mod file;

use std::sync::Arc;

pub(crate) use self::file::{FileDesc, ObsoleteFiles, SstFile};
use crate::error::Result;
use crate::limits::LEVELS;
use crate::memtable::SharedPrefixes;
use crate::value::LookupOutcome;

/// Ends of files that shared prefixes may be learned from.
const SAMPLE_MIN: usize = 16;

/// A sorted run: files with disjoint, rising keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedRun {
    files: Vec<Arc<SstFile>>,
    /// The first eight bytes of each file's largest key, so that a search compares integers.
    heads: Vec<u64>,
}

impl SortedRun {
    fn new(mut files: Vec<Arc<SstFile>>) -> Self {
        files.sort_by(|a, b| a.desc().smallest.cmp(&b.desc().smallest));
        let heads = files.iter().map(|file| head(&file.desc().largest)).collect();
        Self { files, heads }
    }

    /// Its files by key.
    pub(crate) fn files(&self) -> &[Arc<SstFile>] {
        &self.files
    }

    /// The place of the first file whose largest key is not below `key`.
    pub(crate) fn find(&self, key: &[u8]) -> usize {
        let wanted = head(key);
        let mut at = self.heads.partition_point(|&head| head < wanted);
        while self.files.get(at).is_some_and(|file| file.desc().largest.as_slice() < key) {
            at += 1;
        }
        at
    }

    /// The files that meet `smallest..=largest`.
    pub(crate) fn overlapping(&self, smallest: &[u8], largest: &[u8]) -> &[Arc<SstFile>] {
        let start = self.find(smallest);
        let rest = &self.files[start..];
        let count = rest.partition_point(|file| file.desc().smallest.as_slice() <= largest);
        &rest[..count]
    }

    /// The bytes of its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.desc().bytes).sum()
    }
}

/// The live SSTs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    l0: Vec<Arc<SstFile>>,
    /// L1 at 0.
    runs: [SortedRun; LEVELS - 1],
}

impl Levels {
    /// These files at these levels.
    pub(crate) fn new(files: impl IntoIterator<Item = (usize, Arc<SstFile>)>) -> Self {
        let mut levels: [Vec<Arc<SstFile>>; LEVELS] = Default::default();
        for (level, file) in files {
            levels[level].push(file);
        }
        let mut levels = levels.into_iter();
        let mut l0 = levels.next().expect("there is an L0");
        l0.sort_by_key(|file| std::cmp::Reverse(file.desc().seqno_max));
        let mut runs: [SortedRun; LEVELS - 1] = Default::default();
        for (run, files) in runs.iter_mut().zip(levels) {
            *run = SortedRun::new(files);
        }
        Self { l0, runs }
    }

    /// L0, newest first.
    pub(crate) fn l0(&self) -> &[Arc<SstFile>] {
        &self.l0
    }

    /// Level `level`, which is not L0.
    pub(crate) fn run(&self, level: usize) -> &SortedRun {
        &self.runs[level - 1]
    }

    /// The files of any level.
    pub(crate) fn files(&self, level: usize) -> &[Arc<SstFile>] {
        if level == 0 { &self.l0 } else { self.run(level).files() }
    }

    /// Every file with its level.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &Arc<SstFile>)> {
        (0..LEVELS).flat_map(|level| self.files(level).iter().map(move |file| (level, file)))
    }

    /// The levels without the files numbered `removed` and with `added`.
    pub(crate) fn edited(&self, removed: &[u64], added: &[(usize, Arc<SstFile>)]) -> Self {
        let kept = self.all().filter(|(_, file)| !removed.contains(&file.desc().number));
        Self::new(kept.map(|(level, file)| (level, file.clone())).chain(added.iter().cloned()))
    }

    /// The newest version of `key` that is not newer than `seqno`. `hash` is the key's.
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        seqno: u64,
        probes: &Probes,
    ) -> Result<LookupOutcome> {
        for file in &self.l0 {
            if file.overlaps(key, key)
                && let Some(found) = look(file, key, hash, seqno, probes)?
            {
                return Ok(found);
            }
        }
        for run in &self.runs {
            let Some(file) = run.files.get(run.find(key)) else { continue };
            if file.desc().smallest.as_slice() <= key
                && let Some(found) = look(file, key, hash, seqno, probes)?
            {
                return Ok(found);
            }
        }
        Ok(LookupOutcome::Nothing)
    }

    /// The shared prefixes of the keys, if the ends of the files are enough to tell.
    pub(crate) fn prefixes(&self) -> SharedPrefixes {
        let descs = self.all().map(|(_, file)| file.desc());
        let mut ends: Vec<_> =
            descs.flat_map(|desc| [desc.smallest.clone(), desc.largest.clone()]).collect();
        if ends.len() < SAMPLE_MIN {
            return SharedPrefixes::default();
        }
        ends.sort();
        SharedPrefixes::learn(ends)
    }

    /// The first broken invariant, in words, with the number of a file that breaks it.
    pub(crate) fn check(&self) -> Option<(u64, &'static str)> {
        for pair in self.l0.windows(2) {
            if pair[1].desc().seqno_max >= pair[0].desc().seqno_min {
                return Some((pair[0].desc().number, "level 0 files overlap in sequence numbers"));
            }
        }
        for run in &self.runs {
            for pair in run.files.windows(2) {
                if pair[0].desc().largest >= pair[1].desc().smallest {
                    return Some((pair[1].desc().number, "files of a level overlap"));
                }
            }
        }
        None
    }
}

/// Counts what filters did.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// Files that the filter ruled out.
    pub(crate) ruled_out: std::sync::atomic::AtomicU64,
    /// Files that the filter let through and that had nothing.
    pub(crate) in_vain: std::sync::atomic::AtomicU64,
}

fn look(
    file: &SstFile,
    key: &[u8],
    hash: u64,
    seqno: u64,
    probes: &Probes,
) -> Result<Option<LookupOutcome>> {
    use std::sync::atomic::Ordering::Relaxed;
    let sst = file.sst()?;
    // Relaxed: counters for people, ordered with nothing.
    if !sst.may_contain(hash) {
        probes.ruled_out.fetch_add(1, Relaxed);
        return Ok(None);
    }
    match sst.get(key, seqno)? {
        LookupOutcome::Nothing => {
            probes.in_vain.fetch_add(1, Relaxed);
            Ok(None)
        }
        found => Ok(Some(found)),
    }
}

/// The first eight bytes, big-endian and padded with zeros: never out of order with the whole keys.
fn head(key: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = key.len().min(8);
    word[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(files: &[Arc<SstFile>]) -> Vec<u64> {
        files.iter().map(|file| file.desc().number).collect()
    }

    #[test]
    fn a_run_finds_the_files_that_meet_a_range_as_a_look_at_all_would() {
        // Most keys agree in their first eight bytes, so that their heads do not tell them apart.
        let mut dice = fastrand::Rng::with_seed(1);
        let key = |dice: &mut fastrand::Rng| {
            let tail: String =
                (0..dice.usize(..4)).map(|_| dice.choice(['a', 'b', 'c']).unwrap()).collect();
            if dice.u8(..) < 220 { format!("12345678{tail}") } else { tail }
        };
        for _ in 0..300 {
            let mut keys: Vec<String> =
                (0..2 * dice.usize(1..12)).map(|_| key(&mut dice)).collect();
            keys.sort();
            keys.dedup();
            let ends = keys.chunks(2).filter(|pair| pair.len() == 2);
            let mut files: Vec<_> = (1..)
                .zip(ends)
                .map(|(n, pair)| SstFile::unread(n, 10 * n, &pair[0], &pair[1]))
                .collect();
            dice.shuffle(&mut files);
            let run = SortedRun::new(files.clone());
            assert!(run.files().is_sorted_by(|a, b| a.desc().largest < b.desc().smallest));
            assert_eq!(run.bytes(), files.iter().map(|file| file.desc().bytes).sum::<u64>());
            for _ in 0..40 {
                let (a, b) = (key(&mut dice), key(&mut dice));
                let (low, high) = if a < b { (a, b) } else { (b, a) };
                let (low, high) = (low.as_bytes(), high.as_bytes());
                let first = run.files().iter().position(|file| *file.desc().largest >= *low);
                assert_eq!(run.find(low), first.unwrap_or(files.len()));
                let meets = |file: &&Arc<SstFile>| {
                    *file.desc().smallest <= *high && *file.desc().largest >= *low
                };
                let wanted: Vec<_> = run.files().iter().filter(meets).cloned().collect();
                assert_eq!(numbers(run.overlapping(low, high)), numbers(&wanted));
                assert!(wanted.iter().all(|file| file.overlaps(low, high)));
                let others = files.iter().filter(|file| file.overlaps(low, high)).count();
                assert_eq!(others, wanted.len());
            }
        }
    }

    #[test]
    fn levels_are_ordered_by_age_and_by_key_and_edited_by_number() {
        let files = [(0, 1, "a"), (3, 4, "z"), (0, 5, "c"), (3, 6, "x"), (6, 2, "k")];
        let files = files.map(|(level, n, key)| (level, SstFile::unread(n, 1, key, key)));
        let levels = Levels::new(files);
        let listed = |levels: &Levels| -> Vec<(usize, u64)> {
            levels.all().map(|(level, file)| (level, file.desc().number)).collect()
        };
        assert_eq!(listed(&levels), [(0, 5), (0, 1), (3, 6), (3, 4), (6, 2)]);
        assert_eq!((numbers(levels.l0()), numbers(levels.files(3))), (vec![5, 1], vec![6, 4]));
        let added = [(3, SstFile::unread(7, 1, "y", "y")), (1, SstFile::unread(8, 1, "b", "b"))];
        let edited = levels.edited(&[4, 5], &added);
        assert_eq!(listed(&edited), [(0, 1), (1, 8), (3, 6), (3, 7), (6, 2)]);
        assert_eq!(edited.check(), None);
    }

    #[test]
    fn files_that_overlap_are_named() {
        let aged = |number, seqno_min, seqno_max| {
            let file = SstFile::unread(number, 1, "a", "b");
            let desc = FileDesc { seqno_min, seqno_max, ..file.desc().clone() };
            (0, SstFile::described(desc))
        };
        assert_eq!(Levels::new([aged(1, 1, 4), aged(2, 5, 9)]).check(), None);
        let what = Some((2, "level 0 files overlap in sequence numbers"));
        assert_eq!(Levels::new([aged(1, 1, 5), aged(2, 5, 9)]).check(), what);
        let at = |number, smallest, largest| (4, SstFile::unread(number, 1, smallest, largest));
        assert_eq!(Levels::new([at(1, "a", "c"), at(2, "d", "d"), at(3, "e", "f")]).check(), None);
        let what = Some((3, "files of a level overlap"));
        assert_eq!(Levels::new([at(1, "a", "c"), at(3, "c", "f")]).check(), what);
    }

    #[test]
    fn prefixes_are_learned_from_the_ends_of_eight_files() {
        let levels = |count: u64| {
            let named = |n: u64, end: &str| format!("prefix/{n}{end}");
            Levels::new(
                (0..count).map(|n| (6, SstFile::unread(n, 1, &named(n, "a"), &named(n, "b")))),
            )
        };
        assert!(levels(7).prefixes().is_empty());
        assert!(!levels(8).prefixes().is_empty());
    }

    #[test]
    fn a_head_orders_as_its_key_does() {
        assert_eq!(
            (head(b""), head(b"\x01"), head(b"12345678")),
            (0, 1 << 56, 0x3132_3334_3536_3738)
        );
        assert_eq!(head(b"12345678"), head(b"123456789"));
    }
}
