//! The segment log: what was synced is read back after a power cut, and no power cut looks like damage.
//!
//! A writer appends frames (`append_at`), syncs, and goes on in the next segment (`make_room`, `end_segment`). A power cut keeps
//! what was synced and any part of the rest. `recovery::read` takes the frames of each segment up to the first bad place, and
//! then asks whether a frame behind it was written after that place was synced (`durable`), and whether the next segment goes on
//! where this one ends; both would be damage. `Log::open` syncs what it has read. A recycled segment still holds frames of its
//! earlier life.

use stateright::{Model, Property};

use crate::check::{breaks, holds};

const SEGMENTS: usize = 3;
const FRAMES_PER_SEGMENT: usize = 2;
const FRAMES_MAX: u8 = 5;
const CRASHES_MAX: u8 = 2;

/// The rules, each of which is needed.
#[derive(Clone, Copy, Debug)]
struct SegmentLogModel {
    /// `make_room` and `end_segment` sync the segment that is over.
    syncs_before_the_next: bool,
    /// `append_at` writes what was synced as `durable`, and not what was written.
    durable_is_synced: bool,
    /// `frame::decode` refuses a frame that names another segment.
    names_its_segment: bool,
    /// `Log::open` syncs what it has read: a process that died leaves frames that are readable and not durable.
    open_syncs: bool,
}

const WHOLE: SegmentLogModel = SegmentLogModel {
    syncs_before_the_next: true,
    durable_is_synced: true,
    names_its_segment: true,
    open_syncs: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    /// The number of the segment it was written to.
    segment: u8,
    /// Its number in the log.
    seqno: u8,
    /// Frames of the segment that were synced when it was written.
    durable: u8,
    is_synced: bool,
}

/// A file: its places, each with the frame that a reader finds there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct File {
    number: u8,
    frames: [Option<Frame>; FRAMES_PER_SEGMENT],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    files: Vec<File>,
    /// Frames written to the segment in use, which is the last file; `None` where the next frame begins one.
    written: Option<u8>,
    seqno_next: u8,
    /// Up to which number everything was said to be durable.
    acknowledged: u8,
    /// Below this everything was given back.
    purged: u8,
    crashes: u8,
    /// What a reader says of it, after a crash.
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// A power cut was taken for damage.
    Corrupt,
    /// An acknowledged frame is missing.
    Lost,
    /// A frame that nobody wrote there was read.
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Append,
    Sync,
    EndSegment,
    /// The first segment is given back and becomes the next one.
    Recycle,
    /// The process dies: everything written is there, what was not synced may still be lost later.
    Kill,
    /// The power goes: of the frames that were not synced those are there whose bits are set.
    PowerCut(u8),
}

impl SegmentLogModel {
    /// As `recovery::read` reads: the numbers of the frames, or what it says is wrong.
    fn read(&self, files: &[File], purged: u8) -> Result<Vec<u8>, Fault> {
        let mut all: Vec<u8> = Vec::new();
        let mut files: Vec<&File> = files.iter().collect();
        files.sort_by_key(|file| file.number);
        for file in files {
            let is_own = |frame: &&Frame| frame.segment == file.number || !self.names_its_segment;
            let frame_at = |at: usize| file.frames[at].as_ref().filter(is_own);
            let Some(first) = frame_at(0) else {
                if (1..FRAMES_PER_SEGMENT).any(|at| frame_at(at).is_some_and(|f| f.durable > 0)) {
                    return Err(Fault::Corrupt);
                }
                continue;
            };
            match all.last() {
                // Frames may be missing that nobody needs any more.
                Some(last) if last + 1 < first.seqno && first.seqno <= purged + 1 => {}
                Some(last) if last + 1 != first.seqno => return Err(Fault::Corrupt),
                None if first.seqno > purged + 1 => return Err(Fault::Corrupt),
                _ => {}
            }
            let mut end = 0;
            while let Some(frame) = (end < FRAMES_PER_SEGMENT).then(|| frame_at(end)).flatten() {
                if end > 0 && all.last().is_some_and(|last| last + 1 != frame.seqno) {
                    return Err(Fault::Corrupt);
                }
                all.push(frame.seqno);
                end += 1;
            }
            // `refuse_if_frames_follow`
            let follows = |at| frame_at(at).is_some_and(|f| usize::from(f.durable) > end);
            if (end..FRAMES_PER_SEGMENT).any(follows) {
                return Err(Fault::Corrupt);
            }
        }
        Ok(all)
    }

    fn reopen(&self, mut state: State) -> State {
        match self.read(&state.files, state.purged) {
            Err(fault) => state.fault = Some(fault),
            Ok(seqnos) => {
                let last = seqnos.last().copied().unwrap_or(state.purged);
                let first = seqnos.first().copied().unwrap_or(1);
                let in_order = (first..).zip(&seqnos).all(|(wanted, found)| wanted == *found);
                if last < state.acknowledged {
                    state.fault = Some(Fault::Lost);
                } else if !in_order || last >= state.seqno_next {
                    state.fault = Some(Fault::Foreign);
                }
                // A start sees no difference between what was acknowledged and what was only written, and counts on both.
                (state.seqno_next, state.acknowledged) = (last + 1, last);
                for file in &mut state.files {
                    for frame in file.frames.iter_mut().flatten() {
                        frame.is_synced |= self.open_syncs && seqnos.contains(&frame.seqno);
                    }
                }
            }
        }
        state.written = None;
        state.crashes += 1;
        state
    }
}

fn sync(state: &mut State) {
    if let Some(file) = state.files.last_mut() {
        file.frames.iter_mut().flatten().for_each(|frame| frame.is_synced = true);
    }
}

impl Model for SegmentLogModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            files: Vec::new(),
            written: None,
            seqno_next: 1,
            acknowledged: 0,
            purged: 0,
            crashes: 0,
            fault: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.fault.is_some() {
            return;
        }
        actions.extend([Action::Append, Action::Sync, Action::EndSegment, Action::Recycle]);
        if state.crashes < CRASHES_MAX {
            actions.push(Action::Kill);
            let frames = state.files.iter().flat_map(|file| file.frames.iter().flatten());
            let loose = frames.filter(|frame| !frame.is_synced).count();
            actions.extend((0..1_u8 << loose.min(6)).map(Action::PowerCut));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Append => {
                if last.seqno_next > FRAMES_MAX {
                    return None;
                }
                let has_room =
                    last.written.is_some_and(|written| usize::from(written) < FRAMES_PER_SEGMENT);
                if !has_room {
                    if last.written.is_some() && self.syncs_before_the_next {
                        sync(&mut state);
                    }
                    if last.files.len() == SEGMENTS {
                        return None;
                    }
                    let number = last.files.iter().map(|file| file.number).max().unwrap_or(0) + 1;
                    state.files.push(File { number, ..File::default() });
                    state.written = Some(0);
                }
                let (file, at) = (state.files.last_mut()?, state.written?);
                let synced = file.frames[..usize::from(at)].iter().flatten();
                let synced = synced.filter(|frame| frame.is_synced).count() as u8;
                let durable = if self.durable_is_synced { synced } else { at };
                let (segment, seqno) = (file.number, last.seqno_next);
                file.frames[usize::from(at)] =
                    Some(Frame { segment, seqno, durable, is_synced: false });
                state.written = Some(at + 1);
                state.seqno_next += 1;
            }
            Action::Sync => {
                last.written?;
                sync(&mut state);
                state.acknowledged = last.seqno_next - 1;
            }
            Action::EndSegment => {
                last.written.filter(|written| *written > 0)?;
                if self.syncs_before_the_next {
                    sync(&mut state);
                }
                state.written = None;
            }
            Action::Recycle => {
                // What it holds is in files of the engine, all of it acknowledged; it is not the one in use.
                if last.files.len() < 2 || last.written.is_some() {
                    return None;
                }
                let mut file = state.files.remove(0);
                let held = file.frames.iter().flatten();
                let newest = held.filter(|f| f.segment == file.number).map(|f| f.seqno).max()?;
                if newest > last.acknowledged {
                    return None;
                }
                state.purged = state.purged.max(newest);
                file.number = last.files.iter().map(|file| file.number).max()? + 1;
                state.files.push(file);
                state.written = Some(0);
            }
            Action::Kill => return Some(self.reopen(state)),
            Action::PowerCut(kept) => {
                let mut number = 0;
                for place in state.files.iter_mut().flat_map(|file| &mut file.frames) {
                    if place.is_some_and(|frame| !frame.is_synced) {
                        if kept & (1 << number) == 0 {
                            *place = None;
                        }
                        number += 1;
                    }
                }
                return Some(self.reopen(state));
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a power cut is no damage", |_, state: &State| {
                state.fault != Some(Fault::Corrupt)
            }),
            Property::always("what was acknowledged is read back", |_, state: &State| {
                state.fault != Some(Fault::Lost)
            }),
            Property::always("nothing else is read back", |_, state: &State| {
                state.fault != Some(Fault::Foreign)
            }),
            Property::sometimes("a segment lives twice", |_, state: &State| state.purged > 0),
        ]
    }
}

#[test]
fn what_was_synced_is_read_back_after_every_power_cut() {
    holds(WHOLE);
}

#[test]
fn each_rule_of_the_segment_log_is_needed() {
    let damage = "a power cut is no damage";
    breaks(SegmentLogModel { durable_is_synced: false, ..WHOLE }, damage);
    breaks(SegmentLogModel { syncs_before_the_next: false, ..WHOLE }, damage);
    breaks(SegmentLogModel { names_its_segment: false, ..WHOLE }, damage);
    breaks(SegmentLogModel { open_syncs: false, ..WHOLE }, damage);
}
