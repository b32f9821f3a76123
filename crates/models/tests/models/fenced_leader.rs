//! One writer on a database: leadership is a row with an epoch, and each commit checks it in its own transaction.
//!
//! Three servers share a database. Whoever finds the row over by the database's clock takes it (`acquire`), with an epoch that is one
//! higher, and then loads what is there (`load`). A writer decides on what it holds (`decide`) and commits in a transaction
//! that compares the epoch (`commit`). A server may stand still between any two steps, for as long as it likes, and a
//! transaction may reach the database long after it was sent.

use stateright::{Model, Property};

use crate::check::{breaks, holds};

const SERVERS: usize = 3;
const LEASE: u8 = 1;
const TIME_MAX: u8 = 4;
const ENTRIES_MAX: usize = 3;

/// The rules, each of which is needed.
#[derive(Clone, Copy, Debug)]
struct FencedModel {
    /// A commit compares the epoch at all.
    commit_checks: bool,
    /// It does so in the transaction that writes.
    in_one_transaction: bool,
    /// Each acquisition has an epoch of its own, also of who led before.
    epoch_rises: bool,
    /// What is there is loaded after the row was taken, and not before.
    loads_after_acquiring: bool,
}

const WHOLE: FencedModel = FencedModel {
    commit_checks: true,
    in_one_transaction: true,
    epoch_rises: true,
    loads_after_acquiring: true,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Writer {
    /// The epoch it believes to lead in.
    epoch: Option<u8>,
    /// How many entries its view holds; `None` before it loaded.
    view: Option<u8>,
    sent: Option<Sent>,
    /// What it sent before it was started anew.
    late: Option<Sent>,
}

/// A transaction on its way: what it was decided on, and in which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sent {
    epoch: u8,
    decided_on: u8,
    /// The epoch was compared, in a transaction of its own.
    is_checked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    holder: usize,
    epoch: u8,
    until: u8,
    servers: [Writer; SERVERS],
    /// Of each entry: on how many it was decided, and in which epoch.
    entries: Vec<(u8, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    Acquire(usize),
    Load(usize),
    Renew(usize),
    Decide(usize),
    Check(usize),
    Commit(usize),
    CommitLate(usize),
    Restart(usize),
}

impl FencedModel {
    fn passes(&self, state: &State, sent: Sent) -> bool {
        match (self.commit_checks, self.in_one_transaction) {
            (false, _) => true,
            (true, true) => sent.epoch == state.epoch,
            (true, false) => sent.is_checked,
        }
    }
}

impl Model for FencedModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let servers = [Writer::default(); SERVERS];
        vec![State { now: 1, holder: 0, epoch: 0, until: 0, servers, entries: Vec::new() }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        for server in 0..SERVERS {
            actions.extend([
                Action::Acquire(server),
                Action::Load(server),
                Action::Renew(server),
                Action::Decide(server),
                Action::Check(server),
                Action::Commit(server),
                Action::CommitLate(server),
                Action::Restart(server),
            ]);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let count = u8::try_from(last.entries.len()).ok()?;
        match action {
            Action::Tick => state.now = Some(last.now + 1).filter(|now| *now <= TIME_MAX)?,
            Action::Acquire(server) => {
                if last.until >= last.now || last.servers[server].epoch.is_some() {
                    return None;
                }
                let rises = self.epoch_rises || last.holder != server || last.epoch == 0;
                state.epoch = last.epoch + u8::from(rises);
                (state.holder, state.until) = (server, last.now + LEASE);
                let own = &mut state.servers[server];
                own.epoch = Some(state.epoch);
                if self.loads_after_acquiring {
                    own.view = None;
                }
            }
            Action::Load(server) => state.servers[server].view = Some(count),
            Action::Renew(server) => {
                let own = last.servers[server].epoch?;
                if own == last.epoch {
                    state.until = last.now + LEASE;
                } else {
                    // It hears that another leads.
                    state.servers[server].epoch = None;
                }
            }
            Action::Decide(server) => {
                let own = &last.servers[server];
                let (epoch, decided_on) = (own.epoch?, own.view?);
                if own.sent.is_some() {
                    return None;
                }
                state.servers[server].sent = Some(Sent { epoch, decided_on, is_checked: false });
            }
            Action::Check(server) => {
                let sent = last.servers[server].sent.filter(|_| !self.in_one_transaction)?;
                let is_checked = sent.epoch == last.epoch;
                state.servers[server].sent = is_checked.then_some(Sent { is_checked, ..sent });
            }
            Action::Commit(server) => {
                let sent = last.servers[server].sent?;
                let own = &mut state.servers[server];
                own.sent = None;
                if self.passes(last, sent) {
                    state.entries.push((sent.decided_on, sent.epoch));
                    // It folds its own entry; what others wrote it does not expect.
                    own.view = own.view.map(|view| view + 1);
                } else {
                    own.epoch = None;
                }
            }
            Action::CommitLate(server) => {
                let sent = last.servers[server].late?;
                state.servers[server].late = None;
                if self.passes(last, sent) {
                    state.entries.push((sent.decided_on, sent.epoch));
                }
            }
            Action::Restart(server) => {
                // What was sent is still on its way.
                let late = last.servers[server].late.or(last.servers[server].sent);
                state.servers[server] = Writer { late, ..Writer::default() };
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("each entry was decided on all before it", |_, state: &State| {
                (0..).zip(&state.entries).all(|(index, entry)| entry.0 == index)
            }),
            Property::always("epochs never go back", |_, state: &State| {
                state.entries.is_sorted_by_key(|(_, epoch)| *epoch)
            }),
            Property::sometimes("two lead one after the other", |_, state: &State| {
                state.entries.iter().any(|(_, epoch)| *epoch > 1)
            }),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.entries.len() <= ENTRIES_MAX && state.epoch <= 3
    }
}

#[test]
fn no_paused_leader_writes_and_each_entry_is_decided_on_all_before_it() {
    holds(WHOLE);
}

#[test]
fn each_rule_of_the_fence_is_needed() {
    let decided = "each entry was decided on all before it";
    breaks(FencedModel { commit_checks: false, ..WHOLE }, decided);
    breaks(FencedModel { in_one_transaction: false, ..WHOLE }, decided);
    breaks(FencedModel { epoch_rises: false, ..WHOLE }, decided);
    breaks(FencedModel { loads_after_acquiring: false, ..WHOLE }, decided);
}
