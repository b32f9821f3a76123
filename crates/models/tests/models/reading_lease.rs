//! The lease on reading: no view answers that lacks what was committed longer ago than its bound.
//!
//! One of three servers is watched: its clock goes at its own pace within a bound, it asks whoever it takes for the leader for a read
//! index (`ask_reads`), is answered (`ReadIndex`), waits until everything up to the answer is applied (`admit_reads`), and keeps the
//! time of the question (`Lease::confirm`). Meanwhile others are elected, members are removed and taken in, and entries are
//! committed. A server without other members needs no lease (`Lease::alone`), and does again with the turn that takes one in
//! (`Lease::not_alone`).

use stateright::{Model, Property};

use crate::check::{breaks, holds};

const SERVERS: u8 = 3;
/// The watched one.
const OWN: u8 = 0;
/// `max_staleness`, by the watched server's clock.
const MAX: i8 = 1;
/// By how much its clock may differ from time.
const DRIFT: i8 = 1;
/// After so long everything committed is in an answer: both ends are measured by a clock that may be off.
const BOUND: i8 = MAX + 2 * DRIFT;
const TIME_MAX: i8 = 5;
const ENTRIES_MAX: usize = 1;
const ELECTIONS_MAX: u8 = 1;
const CHANGES_MAX: u8 = 2;

/// The rules, each of which is needed.
#[derive(Clone, Copy, Debug)]
struct ReadingModel {
    /// What is kept is when the question was asked, and not when the answer came.
    as_of_the_question: bool,
    /// It is kept once everything up to the answer is applied.
    behind_the_barrier: bool,
    /// A leader answers once a majority says that it still leads.
    majority_answers: bool,
    /// A server that takes another in is not alone any more.
    company_ends_alone: bool,
    /// A server is alone once it applied everything that was committed before.
    alone_has_everything: bool,
}

const WHOLE: ReadingModel = ReadingModel {
    as_of_the_question: true,
    behind_the_barrier: true,
    majority_answers: true,
    company_ends_alone: true,
    alone_has_everything: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum AsOf {
    Never,
    At(i8),
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
    None,
    Asked { since: i8, of: u8 },
    Answered { since: i8, index: u8 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: i8,
    /// The watched clock, less the time.
    offset: i8,
    leader: u8,
    /// Who led before and was not told.
    deposed: Option<u8>,
    members: u8,
    /// When each entry was committed.
    entries: Vec<i8>,
    /// How many entries each server has.
    held: [u8; SERVERS as usize],
    /// How many the watched one has applied.
    applied: u8,
    as_of: AsOf,
    question: Question,
    elections: u8,
    changes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Time passes; the watched clock goes on by that much more.
    Tick(i8),
    /// The leader commits an entry, with the other member that has it.
    Commit(u8),
    Replicate(u8),
    Apply,
    Elect(u8),
    TellDeposed,
    Remove(u8),
    Put(u8),
    AskReads(u8),
    AnswerRead,
    LoseRead,
    AdmitReads,
    /// The driver's turn says whether it leads alone (`note_company`).
    NoteAlone,
}

impl State {
    fn is_member(&self, id: u8) -> bool {
        self.members & (1 << id) != 0
    }

    fn own_time(&self) -> i8 {
        self.now + self.offset
    }

    fn leads_alone(&self) -> bool {
        self.leader == OWN && self.members == 1 << OWN
    }

    fn committed(&self) -> u8 {
        self.entries.len() as u8
    }

    /// Everything that was committed longer ago than the bound.
    fn needed(&self) -> u8 {
        let is_old = |committed: &&i8| **committed + BOUND < self.now;
        self.entries.iter().filter(is_old).count() as u8
    }

    fn answers(&self) -> bool {
        match self.as_of {
            AsOf::Never => false,
            AsOf::At(time) => self.own_time() - time <= MAX,
            AsOf::Always => true,
        }
    }
}

impl Model for ReadingModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let state = |leader| State {
            now: 0,
            offset: 0,
            leader,
            deposed: None,
            members: 0b111,
            entries: Vec::new(),
            held: [0; SERVERS as usize],
            applied: 0,
            as_of: AsOf::Never,
            question: Question::None,
            elections: 0,
            changes: 0,
        };
        let alone = State { members: 1 << OWN, as_of: AsOf::Always, ..state(OWN) };
        vec![state(0), state(1), alone]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend([-1, 0, 1].map(Action::Tick));
        actions.extend([Action::Apply, Action::TellDeposed, Action::AnswerRead]);
        actions.extend([Action::LoseRead, Action::AdmitReads, Action::NoteAlone]);
        for id in 0..SERVERS {
            actions.extend([
                Action::Commit(id),
                Action::Replicate(id),
                Action::Elect(id),
                Action::Remove(id),
                Action::Put(id),
            ]);
        }
        actions.extend(
            [Some(state.leader), state.deposed].into_iter().flatten().map(Action::AskReads),
        );
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick(more) => {
                state.now = Some(last.now + 1).filter(|now| *now <= TIME_MAX)?;
                state.offset = Some(last.offset + more).filter(|offset| offset.abs() <= DRIFT)?;
            }
            Action::Commit(with) => {
                let alone = last.members == 1 << last.leader && with == last.leader;
                let quorum = alone || (with != last.leader && last.is_member(with));
                // Whoever proposed hears of it once its own server applied it.
                let told = last.leader != OWN || last.applied == last.committed();
                if last.entries.len() == ENTRIES_MAX || !quorum || !told {
                    return None;
                }
                state.entries.push(last.now);
                state.held[usize::from(last.leader)] = state.committed();
                state.held[usize::from(with)] = state.committed();
                if last.leader == OWN {
                    state.applied = state.committed();
                }
            }
            Action::Replicate(to) => {
                let held = &mut state.held[usize::from(to)];
                if !last.is_member(to) || *held == last.committed() {
                    return None;
                }
                *held += 1;
            }
            Action::Apply => {
                if last.applied == last.held[usize::from(OWN)] {
                    return None;
                }
                state.applied += 1;
            }
            Action::Elect(id) => {
                let has_all = last.held[usize::from(id)] == last.committed();
                if !last.is_member(id) || id == last.leader || !has_all {
                    return None;
                }
                state.elections = Some(last.elections + 1).filter(|n| *n <= ELECTIONS_MAX)?;
                (state.deposed, state.leader) = (Some(last.leader), id);
            }
            Action::TellDeposed => state.deposed = None,
            Action::Remove(id) | Action::Put(id) => {
                let bit = 1 << id;
                let is_put = matches!(action, Action::Put(_));
                if id == last.leader || last.is_member(id) == is_put {
                    return None;
                }
                state.changes = Some(last.changes + 1).filter(|n| *n <= CHANGES_MAX)?;
                state.members ^= bit;
                // The turn that takes one in ends with `note_company`.
                let ends = last.leads_alone() && last.as_of == AsOf::Always;
                if is_put && ends && self.company_ends_alone {
                    state.as_of = AsOf::At(last.own_time());
                }
            }
            Action::NoteAlone => {
                let has_everything = last.applied == last.committed() || !self.alone_has_everything;
                if !last.leads_alone() || !has_everything {
                    return None;
                }
                state.as_of = AsOf::Always;
            }
            Action::AskReads(of) => {
                if last.question != Question::None || last.as_of == AsOf::Always {
                    return None;
                }
                state.question = Question::Asked { since: last.own_time(), of };
            }
            Action::AnswerRead => {
                let Question::Asked { since, of } = last.question else { return None };
                let index = match of == last.leader {
                    true => last.committed(),
                    // It was deposed: no majority follows it.
                    false if self.majority_answers => return None,
                    false => last.held[usize::from(of)],
                };
                state.question = Question::Answered { since, index };
            }
            Action::LoseRead => {
                if last.question == Question::None {
                    return None;
                }
                state.question = Question::None;
            }
            Action::AdmitReads => {
                let Question::Answered { since, index } = last.question else { return None };
                if last.applied < index && self.behind_the_barrier {
                    return None;
                }
                let since = if self.as_of_the_question { since } else { last.own_time() };
                state.as_of = last.as_of.max(AsOf::At(since));
                state.question = Question::None;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no answer lacks what is older than the bound", |_, state: &State| {
                !state.answers() || state.applied >= state.needed()
            }),
            Property::sometimes("a view that lacks something answers", |_, state: &State| {
                state.answers() && state.applied < state.committed()
            }),
            Property::sometimes("a view is too old to answer", |_, state: &State| {
                state.needed() > state.applied
            }),
            Property::sometimes("a view that was alone holds to its lease", |_, state: &State| {
                matches!(state.as_of, AsOf::At(_)) && state.changes == CHANGES_MAX
            }),
        ]
    }
}

#[test]
fn no_view_answers_that_lacks_what_is_older_than_its_bound() {
    holds(WHOLE);
}

#[test]
fn each_rule_of_the_lease_on_reading_is_needed() {
    let bound = "no answer lacks what is older than the bound";
    breaks(ReadingModel { as_of_the_question: false, ..WHOLE }, bound);
    breaks(ReadingModel { behind_the_barrier: false, ..WHOLE }, bound);
    breaks(ReadingModel { majority_answers: false, ..WHOLE }, bound);
    breaks(ReadingModel { company_ends_alone: false, ..WHOLE }, bound);
    breaks(ReadingModel { alone_has_everything: false, ..WHOLE }, bound);
}
