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
