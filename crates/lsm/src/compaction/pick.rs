//! Decides what to compact next. A pure function of the live files; `run.rs` acts.
//!
//! L0 is due at four files. A deeper level is due above its target; targets are set from the bottom up (the deepest
//! level holds what it holds, each one above a tenth of it), and a level comes into
//! being when its target would be half of `level_base_bytes`. So the levels above the deepest hold about a ninth of the
//! data and stale versions cost little space. (RocksDB calls this dynamic level sizes.)
//!
//! Jobs run at the same time if they share no file; a job takes every file of its target level between its lowest and
//! highest key, so two such jobs never write overlapping files into one level.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::levels::{Levels, SstFile};
use crate::limits::LEVELS;

/// L0 files that make it due.
const L0_FILES: usize = 4;
/// How many times larger each level is than the one above.
const LEVEL_FACTOR: u64 = 10;
/// The deepest level.
const BOTTOM: usize = LEVELS - 1;

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct CompactionPlan {
    /// The level that is relieved.
    pub(crate) from: usize,
    /// The level that receives.
    pub(crate) to: usize,
    /// Files of `from`; for L0 newest first.
    pub(crate) upper: Vec<Arc<SstFile>>,
    /// The files of `to` that they meet, by key.
    pub(crate) lower: Vec<Arc<SstFile>>,
}

impl CompactionPlan {
    /// Whether the files can change their level as they are.
    pub(crate) fn is_move(&self) -> bool {
        if !self.lower.is_empty() {
            return false;
        }
        let mut upper: Vec<_> = self.upper.iter().map(|file| file.desc()).collect();
        upper.sort_by(|a, b| a.smallest.cmp(&b.smallest));
        upper.windows(2).all(|pair| pair[0].largest < pair[1].smallest)
    }

    /// The files it takes.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Arc<SstFile>> {
        self.upper.iter().chain(&self.lower)
    }
}

/// The most urgent job, if any is due. `busy` files belong to running jobs.
pub(crate) fn pick(
    levels: &Levels,
    busy: &BTreeSet<u64>,
    base_bytes: u64,
) -> Option<CompactionPlan> {
    let (base, targets) = targets(levels, base_bytes);
    let mut due: Vec<(f64, usize)> = vec![(levels.l0().len() as f64 / L0_FILES as f64, 0)];
    for (level, target) in targets.iter().enumerate().take(BOTTOM).skip(1) {
        let idle = levels.files(level).iter().filter(|file| !busy.contains(&file.desc().number));
        let bytes: u64 = idle.map(|file| file.desc().bytes).sum();
        due.push((bytes as f64 / (*target).max(1) as f64, level));
    }
    due.sort_by(|a, b| b.0.total_cmp(&a.0));
    due.into_iter().filter(|(score, _)| *score >= 1.0).find_map(|(_, level)| match level {
        0 => plan_l0(levels, busy, base),
        _ => plan_level(levels, busy, level),
    })
}

/// A job that brings everything one step closer to the bottom, whether due or not; `None` if one level holds it all.
pub(crate) fn pick_any(levels: &Levels, base_bytes: u64) -> Option<CompactionPlan> {
    let (base, _) = targets(levels, base_bytes);
    let idle = BTreeSet::new();
    if !levels.l0().is_empty() {
        return plan_l0(levels, &idle, base);
    }
    let deepest = (1..LEVELS).rev().find(|&level| !levels.files(level).is_empty())?;
    let level = (1..deepest).find(|&level| !levels.files(level).is_empty())?;
    let upper = levels.files(level).to_vec();
    let (smallest, largest) = hull(&upper);
    let lower = levels.run(level + 1).overlapping(&smallest, &largest).to_vec();
    Some(CompactionPlan { from: level, to: level + 1, upper, lower })
}

/// The level that L0 goes to, and how many bytes each level should hold.
fn targets(levels: &Levels, base_bytes: u64) -> (usize, [u64; LEVELS]) {
    let mut targets = [0; LEVELS];
    let largest = (1..LEVELS).map(|level| levels.run(level).bytes()).max().unwrap_or(0);
    let mut target = largest;
    let mut base = BOTTOM;
    targets[base] = target;
    while target / LEVEL_FACTOR >= base_bytes / 2 && base > 1 {
        target /= LEVEL_FACTOR;
        base -= 1;
        targets[base] = target;
    }
    // Newer entries must not pass below older ones: a level that is not empty yet receives first.
    let first = (1..LEVELS).find(|&level| !levels.files(level).is_empty());
    (first.unwrap_or(base).min(base), targets)
}

fn plan_l0(levels: &Levels, busy: &BTreeSet<u64>, base: usize) -> Option<CompactionPlan> {
    let upper = levels.l0().to_vec();
    let (smallest, largest) = hull(&upper);
    let lower = levels.run(base).overlapping(&smallest, &largest).to_vec();
    let plan = CompactionPlan { from: 0, to: base, upper, lower };
    let free = plan.inputs().all(|file| !busy.contains(&file.desc().number));
    free.then_some(plan)
}

/// The file of `level` that drags the fewest bytes with it.
fn plan_level(levels: &Levels, busy: &BTreeSet<u64>, level: usize) -> Option<CompactionPlan> {
    let free = |file: &Arc<SstFile>| !busy.contains(&file.desc().number);
    let mut best: Option<(f64, CompactionPlan)> = None;
    for file in levels.files(level).iter().filter(|file| free(file)) {
        let desc = file.desc();
        let lower = levels.run(level + 1).overlapping(&desc.smallest, &desc.largest);
        if !lower.iter().all(free) {
            continue;
        }
        let dragged: u64 = lower.iter().map(|file| file.desc().bytes).sum();
        let cost = dragged as f64 / desc.bytes.max(1) as f64;
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            let upper = vec![file.clone()];
            best = Some((
                cost,
                CompactionPlan { from: level, to: level + 1, upper, lower: lower.to_vec() },
            ));
        }
    }
    best.map(|(_, plan)| plan)
}

/// The lowest and the highest key of files.
fn hull(files: &[Arc<SstFile>]) -> (Vec<u8>, Vec<u8>) {
    let smallest = files.iter().map(|file| &file.desc().smallest).min();
    let largest = files.iter().map(|file| &file.desc().largest).max();
    (smallest.cloned().unwrap_or_default(), largest.cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64, bytes: u64, smallest: &str, largest: &str) -> Arc<SstFile> {
        SstFile::unread(number, bytes, smallest, largest)
    }

    fn levels(files: &[(usize, u64, u64, &str, &str)]) -> Levels {
        Levels::new(files.iter().map(|&(level, number, bytes, smallest, largest)| {
            (level, file(number, bytes, smallest, largest))
        }))
    }

    fn numbers(files: &[Arc<SstFile>]) -> Vec<u64> {
        files.iter().map(|file| file.desc().number).collect()
    }

    /// From where to where a plan goes, and with which files of both.
    type Brief = (usize, usize, Vec<u64>, Vec<u64>);

    fn brief(plan: Option<CompactionPlan>) -> Option<Brief> {
        plan.map(|plan| (plan.from, plan.to, numbers(&plan.upper), numbers(&plan.lower)))
    }

    fn picked(levels: &Levels, busy: &[u64], base_bytes: u64) -> Option<Brief> {
        brief(pick(levels, &busy.iter().copied().collect(), base_bytes))
    }

    #[test]
    fn level_0_is_due_at_four_files_and_takes_what_it_meets() {
        let mut files = vec![
            (0, 1, 10, "c", "d"),
            (0, 2, 10, "d", "f"),
            (0, 3, 10, "e", "g"),
            (6, 11, 10, "a", "b"),
            (6, 12, 10, "bb", "c"),
            (6, 13, 10, "e", "e"),
            (6, 14, 10, "g", "h"),
            (6, 15, 10, "h1", "i"),
        ];
        assert_eq!(picked(&levels(&files), &[], 1000), None);
        files.push((0, 4, 10, "d", "d"));
        let due = levels(&files);
        let plan = (0, 6, vec![4, 3, 2, 1], vec![12, 13, 14]);
        assert_eq!(picked(&due, &[11, 15], 1000), Some(plan));
        for busy in [1, 4, 12, 14] {
            assert_eq!(picked(&due, &[busy], 1000), None, "{busy} belongs to another job");
        }
    }

    #[test]
    fn each_level_holds_a_tenth_of_the_one_below_as_long_as_that_is_half_of_the_base() {
        let deepest = levels(&[(6, 1, 10_000, "a", "b")]);
        assert_eq!(targets(&deepest, 20_001), (6, [0, 0, 0, 0, 0, 0, 10_000]));
        assert_eq!(targets(&deepest, 202), (5, [0, 0, 0, 0, 0, 1000, 10_000]));
        assert_eq!(targets(&deepest, 200), (4, [0, 0, 0, 0, 100, 1000, 10_000]));
        let full = levels(&[(6, 1, 2_000_000, "a", "b")]);
        assert_eq!(targets(&full, 2), (1, [0, 20, 200, 2000, 20_000, 200_000, 2_000_000]));
        let above = levels(&[(5, 2, 30_000, "a", "b"), (6, 1, 10_000, "a", "b")]);
        assert_eq!(targets(&above, 20_001), (5, [0, 0, 0, 0, 0, 0, 30_000]), "one is not empty");
        let shallow = levels(&[(3, 2, 10, "a", "b"), (6, 1, 10_000, "a", "b")]);
        assert_eq!(targets(&shallow, 200).0, 3, "newer entries do not pass below older ones");
        assert_eq!(targets(&Levels::default(), 200), (6, [0; LEVELS]));
    }

    #[test]
    fn a_level_is_due_when_what_is_idle_in_it_reaches_its_target() {
        let of = |bytes| {
            levels(&[
                (5, 1, 500, "a", "b"),
                (5, 2, bytes, "c", "d"),
                (6, 11, 4000, "a", "b"),
                (6, 12, 6000, "c", "d"),
            ])
        };
        assert_eq!(picked(&of(499), &[], 2000), None);
        assert_eq!(picked(&of(500), &[], 2000), Some((5, 6, vec![1], vec![11])));
        assert_eq!(picked(&of(500), &[2], 2000), None, "that one is on its way");
        assert_eq!(picked(&of(1000), &[1, 11], 2000), Some((5, 6, vec![2], vec![12])));
        let no_target = levels(&[(3, 1, 1, "a", "b"), (6, 11, 100, "a", "b")]);
        assert_eq!(picked(&no_target, &[], 2000), Some((3, 4, vec![1], vec![])));
    }

    #[test]
    fn the_most_urgent_job_that_can_run_is_picked() {
        let mut files = vec![
            (0, 1, 10, "x", "z"),
            (0, 2, 10, "x", "z"),
            (0, 3, 10, "x", "z"),
            (0, 4, 10, "x", "z"),
            (0, 5, 10, "x", "z"),
            (5, 11, 1200, "a", "b"),
            (6, 21, 10_000, "a", "b"),
        ];
        let level_0 = Some((0, 5, vec![5, 4, 3, 2, 1], vec![]));
        let level_5 = Some((5, 6, vec![11], vec![21]));
        assert_eq!(picked(&levels(&files), &[], 2000), level_0);
        assert_eq!(picked(&levels(&files), &[3], 2000), level_5, "level 0 is busy");
        files[5].2 = 1300;
        assert_eq!(picked(&levels(&files), &[], 2000), level_5);
        assert_eq!(picked(&levels(&files), &[21], 2000), level_0, "the bottom is busy");
    }

    #[test]
    fn the_file_that_drags_the_fewest_bytes_goes_down() {
        let all = levels(&[
            (5, 1, 100, "a", "c"),
            (5, 2, 100, "d", "e"),
            (5, 3, 200, "f", "g"),
            (5, 4, 100, "h", "i"),
            (6, 11, 300, "a", "b"),
            (6, 12, 300, "c", "c"),
            (6, 13, 200, "e", "e"),
            (6, 14, 300, "f", "f"),
            (6, 15, 150, "i", "k"),
        ]);
        let planned = |busy: &[u64]| {
            let plan = plan_level(&all, &busy.iter().copied().collect(), 5);
            brief(plan).map(|(_, _, upper, lower)| (upper, lower))
        };
        assert_eq!(planned(&[]), Some((vec![3], vec![14])), "3 bytes for 2, as 4 does, but first");
        assert_eq!(planned(&[3]), Some((vec![4], vec![15])));
        assert_eq!(planned(&[14, 15]), Some((vec![2], vec![13])));
        assert_eq!(planned(&[2, 3, 4]), Some((vec![1], vec![11, 12])));
        assert_eq!(planned(&[2, 3, 4, 12]), None);
    }

    #[test]
    fn everything_goes_down_step_by_step_whether_due_or_not() {
        let any = |files: &[(usize, u64, u64, &str, &str)]| brief(pick_any(&levels(files), 1000));
        assert_eq!(any(&[]), None);
        assert_eq!(any(&[(0, 1, 10, "a", "b")]), Some((0, 6, vec![1], vec![])));
        let (two, three) = ((2, 2, 10, "b", "c"), (2, 3, 10, "e", "f"));
        let (four, six) = ((3, 4, 10, "f", "g"), (6, 5, 10, "a", "z"));
        assert_eq!(any(&[(0, 1, 10, "a", "c"), two]), Some((0, 2, vec![1], vec![2])));
        assert_eq!(any(&[two, three, four, six]), Some((2, 3, vec![2, 3], vec![4])));
        assert_eq!(any(&[four, six]), Some((3, 4, vec![4], vec![])));
        assert_eq!(any(&[two, three]), None, "one level holds it all");
        assert_eq!(any(&[six]), None);
    }

    #[test]
    fn files_that_meet_nothing_are_moved() {
        let plan =
            |upper: Vec<Arc<SstFile>>, lower| CompactionPlan { from: 0, to: 6, upper, lower };
        let (a, c) = (file(1, 10, "a", "b"), file(2, 10, "c", "d"));
        assert!(plan(vec![c.clone(), a.clone()], vec![]).is_move());
        assert!(!plan(vec![a.clone()], vec![c.clone()]).is_move(), "there is a file to merge with");
        assert!(!plan(vec![a, file(3, 10, "b", "c")], vec![]).is_move(), "both hold a key");
    }
}
