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
