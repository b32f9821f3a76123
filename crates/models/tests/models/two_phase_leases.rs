//! Credentials with leases: none without a record, and no live lease without its credential.
//!
//! One client asks a server for a credential (`create`: `put_pending`, `check_leads`, `make` at the far end, `put_live`, or
//! `roll_back`), which its token may lose meanwhile. Two servers can lead, and who was deposed may not know. Whoever leads works the
//! queue (`Worker::revoke`: read what is due, `claim`, `far_end::revoke`, `settle_attempt`). A server may die at every step, or stand
//! still at any. A call to the far end arrives at once, late, or never, but not after its deadline.
//!
//! Commits are the leader's, as Raft has it; who commits what is fenced by what a commit expects, which is enough for these properties.
//!
//! Left out: a far end that fails (the lease stays `Revoking` and is tried again), and revocation on request, which is the queue's
//! way with a majority asked first (`confirm_leads`).

use stateright::{Model, Property};

use crate::check::{breaks, holds};

/// When a lease is over, if it is not renewed.
const EXPIRES: u8 = 2;
/// How long a pending lease is left to whoever makes its credential (`PENDING_SECS_MAX`).
const PENDING_MAX: u8 = 3;
/// How long a call to the far end may take (`CALL_SECS_MAX`).
const CALL_MAX: u8 = 1;
/// How long after the lease a call may begin (`BEGIN_SECS_MAX`).
const BEGIN_MAX: u8 = 1;
const TIME_MAX: u8 = 5;
const SERVERS: u8 = 2;

/// The rules, each of which is needed.
#[derive(Clone, Copy, Debug)]
struct LeaseModel {
    /// `put_pending` comes before `make`.
    record_first: bool,
    /// A creation that did not begin its call in time gives up.
    begins_in_time: bool,
    /// The queue leaves a pending lease alone for longer than a call and its beginning may take.
    pending_outlasts_the_call: bool,
    /// `put_live` expects the record that `put_pending` wrote (`replace_in`).
    live_expects_pending: bool,
    /// `put_live` is conditional on the owner (`owner_lives`).
    live_needs_the_owner: bool,
    /// The queue commits its claim before it asks the far end.
    claims_first: bool,
}

const WHOLE: LeaseModel = LeaseModel {
    record_first: true,
    begins_in_time: true,
    pending_outlasts_the_call: true,
    live_expects_pending: true,
    live_needs_the_owner: true,
    claims_first: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Pending,
    Live,
    Revoking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    phase: Phase,
    seqno: u8,
    expires: u8,
}

/// What the creation is at. It runs on server 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Creation {
    Asked,
    /// The pending record is committed, at this number.
    Pending(u8),
    /// The call is under way, since then.
    Calling(u8, u8),
    /// The far end said that it made the credential.
    Made(u8),
    /// Something failed: what was made is taken back.
    Failed,
    /// It was taken back; the record is to go.
    TakenBack,
    Over,
}

/// What a server's worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    /// It read the record as due.
    Due(u8),
    /// It may ask the far end.
    Claimed,
    TakenBack,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    leader: u8,
    /// Those who think that they lead.
    believes: [bool; SERVERS as usize],
    owner: bool,
    record: Option<Record>,
    seqno_next: u8,
    /// When the lease was issued.
    issued: u8,
    creation: Creation,
    workers: [Work; SERVERS as usize],
    /// The call is on its way, until then.
    in_flight: Option<u8>,
    credential: bool,
    renewed: bool,
    /// A lease became live for an owner that was gone.
    ownerless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    Elect(u8),
    HearOfLeader(u8),
    RevokeOwner,
    MarkLeasesOfGone,
    PutPending,
    BeginCall,
    FarEndMakes,
    CallLost,
    CallAnswered,
    CallFailed,
    PutLive,
    RollBack,
    SettleRollBack,
    Renew,
    TakeDue(u8),
    Claim(u8),
    FarEndRevokes(u8),
    SettleAttempt(u8),
    Crash(u8),
}

impl LeaseModel {
    fn due(&self, state: &State, record: Record) -> bool {
        let pending_max = if self.pending_outlasts_the_call { PENDING_MAX } else { 1 };
        match record.phase {
            Phase::Pending => state.now >= state.issued + pending_max,
            Phase::Live => state.now >= record.expires,
            Phase::Revoking => true,
        }
    }
}

fn put(state: &mut State, phase: Phase, expires: u8) -> u8 {
    let seqno = state.seqno_next;
    state.record = Some(Record { phase, seqno, expires });
    state.seqno_next += 1;
    seqno
}

impl Model for LeaseModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            leader: 0,
            believes: [true, false],
            owner: true,
            record: None,
            seqno_next: 1,
            issued: 0,
            creation: Creation::Asked,
            workers: [Work::Idle; SERVERS as usize],
            in_flight: None,
            credential: false,
            renewed: false,
            ownerless: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.extend([
            Action::Tick,
            Action::RevokeOwner,
            Action::MarkLeasesOfGone,
            Action::PutPending,
            Action::BeginCall,
            Action::FarEndMakes,
            Action::CallLost,
            Action::CallAnswered,
            Action::CallFailed,
            Action::PutLive,
            Action::RollBack,
            Action::SettleRollBack,
            Action::Renew,
        ]);
        for server in 0..SERVERS {
            actions.extend([
                Action::Elect(server),
                Action::HearOfLeader(server),
                Action::TakeDue(server),
                Action::Claim(server),
                Action::FarEndRevokes(server),
                Action::SettleAttempt(server),
                Action::Crash(server),
            ]);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => {
                // A call that is on its way ends with its deadline.
                state.now = Some(last.now + 1).filter(|now| *now <= TIME_MAX)?;
                state.in_flight = last.in_flight.filter(|until| *until >= state.now);
            }
            Action::Elect(server) => {
                state.leader = server;
                state.believes[usize::from(server)] = true;
            }
            Action::HearOfLeader(server) => {
                state.believes[usize::from(server)] = last.leader == server;
            }
            Action::RevokeOwner => state.owner = false,
            Action::MarkLeasesOfGone => {
                let live = last.record.filter(|record| record.phase == Phase::Live && !last.owner);
                put(&mut state, Phase::Revoking, live?.expires);
            }
            Action::PutPending => {
                if last.creation != Creation::Asked || !last.owner {
                    return None;
                }
                if last.leader != 0 {
                    state.creation = Creation::Over;
                    return Some(state);
                }
                state.issued = last.now;
                let seqno = match self.record_first {
                    true => put(&mut state, Phase::Pending, EXPIRES),
                    false => 0,
                };
                state.creation = Creation::Pending(seqno);
            }
            Action::BeginCall => {
                let Creation::Pending(seqno) = last.creation else { return None };
                let in_time = last.now <= last.issued + BEGIN_MAX || !self.begins_in_time;
                // `check_leads`, as far as it knows.
                if !last.believes[0] || !in_time {
                    state.creation = Creation::Over;
                    return Some(state);
                }
                state.creation = Creation::Calling(seqno, last.now);
                state.in_flight = Some(last.now + CALL_MAX);
            }
            Action::FarEndMakes => {
                last.in_flight?;
                (state.in_flight, state.credential) = (None, true);
            }
            Action::CallLost => {
                last.in_flight?;
                state.in_flight = None;
            }
            Action::CallAnswered | Action::CallFailed => {
                let Creation::Calling(seqno, _) = last.creation else { return None };
                // Once it is known that nothing of it is on its way any more.
                if last.in_flight.is_some() {
                    return None;
                }
                state.creation = match action {
                    Action::CallAnswered if last.credential => Creation::Made(seqno),
                    Action::CallAnswered => return None,
                    _ => Creation::Failed,
                };
            }
            Action::PutLive => {
                let Creation::Made(seqno) = last.creation else { return None };
                let as_it_was = last.record.is_some_and(|record| record.seqno == seqno);
                let owner = last.owner || !self.live_needs_the_owner;
                let expected = as_it_was || !self.live_expects_pending || !self.record_first;
                if last.leader != 0 || !owner || !expected {
                    state.creation = Creation::Failed;
                    return Some(state);
                }
                put(&mut state, Phase::Live, EXPIRES);
                state.ownerless = !last.owner;
                state.creation = Creation::Over;
            }
            Action::RollBack => {
                if last.creation != Creation::Failed {
                    return None;
                }
                (state.credential, state.creation) = (false, Creation::TakenBack);
            }
            Action::SettleRollBack => {
                if last.creation != Creation::TakenBack {
                    return None;
                }
                if last.leader == 0 {
                    state.record = None;
                }
                state.creation = Creation::Over;
            }
            Action::Renew => {
                let record = last.record.filter(|record| record.phase == Phase::Live)?;
                if last.renewed || last.now >= record.expires {
                    return None;
                }
                put(&mut state, Phase::Live, TIME_MAX);
                state.renewed = true;
            }
            Action::TakeDue(server) => {
                // A view that is behind shows the record as it was: what is due by it may have been renewed.
                let is_own_creation = server == 0 && last.creation != Creation::Over;
                let record = last.record.filter(|record| self.due(last, *record))?;
                let idle = last.workers[usize::from(server)] == Work::Idle;
                if !last.believes[usize::from(server)] || !idle || is_own_creation {
                    return None;
                }
                state.workers[usize::from(server)] = Work::Due(record.seqno);
            }
            Action::Claim(server) => {
                let Work::Due(seqno) = last.workers[usize::from(server)] else { return None };
                let work = &mut state.workers[usize::from(server)];
                if !self.claims_first {
                    *work = Work::Claimed;
                    return Some(state);
                }
                let as_it_was = last.record.filter(|record| record.seqno == seqno);
                match as_it_was {
                    Some(record) if record.phase == Phase::Revoking => *work = Work::Claimed,
                    Some(record) if last.leader == server => {
                        *work = Work::Claimed;
                        put(&mut state, Phase::Revoking, record.expires);
                    }
                    _ => *work = Work::Idle,
                }
            }
            Action::FarEndRevokes(server) => {
                if last.workers[usize::from(server)] != Work::Claimed {
                    return None;
                }
                state.credential = false;
                state.workers[usize::from(server)] = Work::TakenBack;
            }
            Action::SettleAttempt(server) => {
                if last.workers[usize::from(server)] != Work::TakenBack {
                    return None;
                }
                if last.leader == server {
                    state.record = None;
                }
                state.workers[usize::from(server)] = Work::Idle;
            }
            Action::Crash(server) => {
                state.workers[usize::from(server)] = Work::Idle;
                if server == 0 {
                    // What is on its way goes on.
                    state.creation = Creation::Over;
                }
                state.believes[usize::from(server)] = last.leader == server;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no credential without a record", |_, state: &State| {
                // While it is being rolled back, whoever does so knows of it.
                let known = matches!(state.creation, Creation::Failed | Creation::Made(_));
                !state.credential || state.record.is_some() || known
            }),
            Property::always("no live lease without its credential", |_, state: &State| {
                state.record.is_none_or(|record| record.phase != Phase::Live) || state.credential
            }),
            Property::always("no lease begins without its owner", |_, state: &State| {
                !state.ownerless
            }),
            Property::sometimes("a lease lives", |_, state: &State| {
                state.record.is_some_and(|record| record.phase == Phase::Live)
            }),
            Property::sometimes("a lease is renewed", |_, state: &State| state.renewed),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.seqno_next < 7
    }
}

#[test]
fn no_credential_is_without_a_record_and_no_live_lease_without_a_credential() {
    holds(WHOLE);
}

#[test]
fn each_rule_of_two_phase_leases_is_needed() {
    let (orphan, empty) =
        ("no credential without a record", "no live lease without its credential");
    breaks(LeaseModel { record_first: false, ..WHOLE }, orphan);
    breaks(LeaseModel { begins_in_time: false, ..WHOLE }, orphan);
    breaks(LeaseModel { pending_outlasts_the_call: false, ..WHOLE }, orphan);
    breaks(LeaseModel { live_expects_pending: false, ..WHOLE }, empty);
    breaks(LeaseModel { claims_first: false, ..WHOLE }, empty);
    let ownerless = "no lease begins without its owner";
    breaks(LeaseModel { live_needs_the_owner: false, ..WHOLE }, ownerless);
}
