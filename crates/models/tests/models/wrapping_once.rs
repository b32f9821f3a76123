//! Response wrapping: what is in a token is handed out once.
//!
//! Three clients have one wrapping token and ask three servers, each of which looks at a view that may be behind. A request first
//! finds the token in the view (`find`), then goes for the record (`take`, `rewrap`), or takes the token's one use as any other
//! request does (`spend`, which may read the content by the old way, and then `revoke_tree`). A commit says which token record it
//! expects. Time passes and a job sweeps what is over.

use stateright::{Model, Property};

use crate::check::{breaks, holds};

const CLIENTS: usize = 3;
/// When the token is over.
const EXPIRES: u8 = 1;
const TIME_MAX: u8 = 2;

/// The rules, each of which is needed.
#[derive(Clone, Copy, Debug)]
struct WrappingModel {
    /// `batch.expect(token, seqno)` in `wrapping::take` and `tokens::spend`.
    expects_the_token: bool,
    /// `is_whole` looks at the time.
    looks_at_the_time: bool,
    /// `is_whole` refuses a token whose use was taken.
    looks_at_the_use: bool,
}

const WHOLE: WrappingModel =
    WrappingModel { expects_the_token: true, looks_at_the_time: true, looks_at_the_use: true };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    Whole,
    /// `spend` took its one use; `revoke_tree` follows.
    Last,
    Gone,
}

/// What a client's request is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    /// It found the token in the view of its server.
    Found,
    /// It read the record as it was at this number, and is about to commit.
    Read {
        seqno: u8,
        token: Token,
        way: Way,
    },
    /// Its commit took the use; it reads the content and then revokes.
    Spent,
    Answered,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    Unwrap,
    Rewrap,
    Spend,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    token: Token,
    content: bool,
    /// Of the token's record.
    seqno: u8,
    clients: [Step; CLIENTS],
    /// How often the content was handed out, to a client or to a fresh token.
    handed_out: u8,
    late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    Sweep,
    Find(usize),
    ReadRecord(usize, Way),
    Commit(usize),
    ReadContent(usize),
    RevokeTree(usize),
}

impl WrappingModel {
    fn is_whole(&self, token: Token, now: u8) -> bool {
        let in_use = token == Token::Whole || (!self.looks_at_the_use && token == Token::Last);
        in_use && (!self.looks_at_the_time || now < EXPIRES)
    }
}

impl Model for WrappingModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            token: Token::Whole,
            content: true,
            seqno: 1,
            clients: [Step::Idle; CLIENTS],
            handed_out: 0,
            late: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        actions.push(Action::Sweep);
        for client in 0..CLIENTS {
            actions.push(Action::Find(client));
            let ways = [Way::Unwrap, Way::Rewrap, Way::Spend];
            actions.extend(ways.map(|way| Action::ReadRecord(client, way)));
            actions.push(Action::Commit(client));
            actions.push(Action::ReadContent(client));
            actions.push(Action::RevokeTree(client));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.now = Some(last.now + 1).filter(|now| *now <= TIME_MAX)?,
            Action::Sweep => {
                if last.now < EXPIRES || last.token == Token::Gone {
                    return None;
                }
                (state.token, state.content) = (Token::Gone, false);
            }
            // The view of a follower may still show what the leader has deleted.
            Action::Find(client) => match last.clients[client] {
                Step::Idle => state.clients[client] = Step::Found,
                _ => return None,
            },
            Action::ReadRecord(client, way) => {
                if last.clients[client] != Step::Found {
                    return None;
                }
                let may = match way {
                    Way::Unwrap | Way::Rewrap => {
                        self.is_whole(last.token, last.now) && last.content
                    }
                    // The token is authenticated as any other: by its time, always.
                    Way::Spend => last.token == Token::Whole && last.now < EXPIRES,
                };
                let (seqno, token) = (last.seqno, last.token);
                state.clients[client] =
                    if may { Step::Read { seqno, token, way } } else { Step::Over };
                // What was judged while the token lived is no late answer.
                state.late |= may && last.now >= EXPIRES;
            }
            Action::Commit(client) => {
                let Step::Read { seqno, way, .. } = last.clients[client] else { return None };
                let holds = last.token != Token::Gone && last.seqno == seqno;
                if self.expects_the_token && !holds {
                    // A conflict: it looks again, and finds what others left.
                    state.clients[client] = Step::Found;
                    return Some(state);
                }
                state.seqno += 1;
                match way {
                    Way::Unwrap | Way::Rewrap => {
                        (state.token, state.content) = (Token::Gone, false);
                        state.handed_out += 1;
                        state.clients[client] = Step::Over;
                    }
                    Way::Spend => {
                        state.token = Token::Last;
                        state.clients[client] = Step::Spent;
                    }
                }
            }
            Action::ReadContent(client) => {
                if last.clients[client] != Step::Spent {
                    return None;
                }
                // The request was for the content, by the old way.
                state.handed_out += u8::from(last.content);
                state.clients[client] = Step::Answered;
            }
            Action::RevokeTree(client) => {
                if last.clients[client] != Step::Answered {
                    return None;
                }
                (state.token, state.content) = (Token::Gone, false);
                state.clients[client] = Step::Over;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("handed out at most once", |_, state: &State| state.handed_out <= 1),
            Property::always("nothing is begun with a token that is over", |_, state: &State| {
                !state.late
            }),
            Property::sometimes("handed out", |_, state: &State| state.handed_out == 1),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.seqno < 8
    }
}

#[test]
fn what_is_in_a_wrapping_token_is_handed_out_once() {
    holds(WHOLE);
}

#[test]
fn each_rule_of_wrapping_is_needed() {
    breaks(WrappingModel { expects_the_token: false, ..WHOLE }, "handed out at most once");
    breaks(WrappingModel { looks_at_the_use: false, ..WHOLE }, "handed out at most once");
    let untimely = WrappingModel { looks_at_the_time: false, ..WHOLE };
    breaks(untimely, "nothing is begun with a token that is over");
}
