//! The search for an order that explains a history.
//!
//! Wing and Gong ("Testing and verifying concurrent objects", 1993): take an operation that may come first, see whether the register
//! would have answered so, go on with the rest, and turn back where nothing fits. Lowe ("Testing for linearizability", 2017): a set of operations
//! that leads to the same state is not tried twice. A history is linearizable if it is so key by key (Herlihy and Wing), so
//! each key is searched alone, as Horn and Kroening do ("Faster linearizability checking via P-compositionality", 2015).
//!
//! Three things make the search short. What only looks (a read, a refused swap) and fits now is given its place at once and for good: in an
//! order that has it later, it can be moved to here and the rest does not notice. What may have happened or not need not be
//! given a place: the search ends when everything certain has one. And it is given one only where it is seen ([`Search::guessed`]).
//!
//! Invariants:
//! - an operation is given its place only while nothing that has to come after its call's end is: the list of calls and returns is searched
//!   up to the first return of what has no place yet;
//! - a search that is too hard says so ([`Verdict::Undecided`]): silence is no proof.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use super::model::{Deed, State, Texts};
use super::{End, Operation};

/// Most states of one key that are looked at.
pub const STATES_MAX: usize = 8 << 20;
/// Most operations that a report of a breach shows.
const SHOWN_MAX: usize = 8;

/// What is to be said of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order that explains it.
    Linearizable(Figures),
    /// There is none.
    Broken(Breach),
    /// There may be one: the search was given up.
    Undecided {
        /// The key whose history was too hard.
        key: String,
    },
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Keys.
    pub keys: usize,
    /// Operations, those of which nothing came included.
    pub operations: usize,
    /// Those whose end nobody knows.
    pub unknown: usize,
    /// States that the search came by.
    pub states: usize,
}

/// A history that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The key.
    pub key: String,
    /// How many operations were given a place in the longest order that was found.
    pub placed: usize,
    /// How many have to be.
    pub certain: usize,
    /// What the key was then.
    pub state: String,
    /// The last of those operations, as lines.
    pub last: Vec<String>,
    /// Those that would have had to come next, none of which can, as lines.
    pub stuck: Vec<String>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linearizable(Figures { keys, operations, unknown, states }) => write!(
                f,
                "linearizable: {operations} operations on {keys} keys, {unknown} of unknown outcome, {states} states"
            ),
            Self::Undecided { key } => {
                write!(f, "undecided: key {key:?} has more than {STATES_MAX} states")
            }
            Self::Broken(breach) => {
                let Breach { key, placed, certain, state, .. } = breach;
                writeln!(f, "NOT linearizable: key {key:?}: {placed} of {certain} explained")?;
                breach.last.iter().try_for_each(|line| writeln!(f, "  after  {line}"))?;
                write!(f, "  it is  {state}")?;
                breach.stuck.iter().try_for_each(|line| write!(f, "\n  stuck  {line}"))
            }
        }
    }
}

/// Judges a history.
#[must_use]
pub fn check(operations: &[Operation]) -> Verdict {
    check_within(operations, STATES_MAX)
}

fn check_within(operations: &[Operation], states_max: usize) -> Verdict {
    let mut keys = BTreeMap::<&str, Vec<&Operation>>::new();
    for operation in operations {
        keys.entry(&operation.key).or_default().push(operation);
    }
    let unknown = operations.iter().filter(|operation| operation.end == End::Unknown).count();
    let mut figures =
        Figures { keys: keys.len(), operations: operations.len(), unknown, ..Figures::default() };
    for (key, operations) in keys {
        let mut texts = Texts::default();
        let deeds: Vec<(&Operation, Deed)> = operations
            .into_iter()
            .filter_map(|operation| Some((operation, Deed::of(operation, &mut texts)?)))
            .collect();
        match Search::new(&deeds, states_max).run() {
            Searched::Explained { states } => figures.states += states,
            Searched::TooHard => return Verdict::Undecided { key: key.to_owned() },
            Searched::Stuck(stuck) => return Verdict::Broken(tell(key, &deeds, &texts, &stuck)),
        }
    }
    Verdict::Linearizable(figures)
}

fn tell(key: &str, deeds: &[(&Operation, Deed)], texts: &Texts<'_>, stuck: &Stuck) -> Breach {
    let line = |at: &usize| deeds[*at].0.to_line();
    let certain = deeds.iter().filter(|(_, deed)| deed.is_certain()).count();
    let last = stuck.order.len().saturating_sub(SHOWN_MAX);
    Breach {
        key: key.to_owned(),
        placed: certain - stuck.left,
        certain,
        state: texts.describe(stuck.state),
        last: stuck.order[last..].iter().map(line).collect(),
        stuck: stuck.open.iter().take(SHOWN_MAX).map(line).collect(),
    }
}

/// How a search ended.
enum Searched {
    Explained { states: usize },
    Stuck(Stuck),
    TooHard,
}

/// The furthest that a search came.
#[derive(Default)]
struct Stuck {
    order: Vec<usize>,
    /// Certain operations without a place.
    left: usize,
    state: State,
    open: Vec<usize>,
}

/// A call or a return, in a list that is linked so that a pair can be taken out and put back.
#[derive(Clone, Copy)]
struct Event {
    deed: usize,
    /// Where the return of this call is; of a return, and of a call that never returned, nowhere.
    returns: Option<usize>,
    is_call: bool,
    before: usize,
    after: usize,
}

/// The end of the list. Its beginning is the event at 0, which is none.
const NOWHERE: usize = usize::MAX;

struct Search<'a> {
    deeds: &'a [(&'a Operation, Deed)],
    events: Vec<Event>,
    placed: Bits,
    /// Certain operations without a place.
    left: usize,
    state: State,
    /// What was given a place: where its call is, and the state before.
    order: Vec<(usize, State)>,
    seen: HashSet<(Places, State, bool)>,
    /// Whether any operation speaks of a version.
    counts: bool,
    states_max: usize,
    furthest: Option<Stuck>,
}

impl<'a> Search<'a> {
    fn new(deeds: &'a [(&'a Operation, Deed)], states_max: usize) -> Self {
        Self {
            events: link(deeds),
            placed: Bits(vec![0; deeds.len().div_ceil(64)].into()),
            left: deeds.iter().filter(|(_, deed)| deed.is_certain()).count(),
            deeds,
            state: State::default(),
            order: Vec::new(),
            seen: HashSet::new(),
            counts: deeds.iter().any(|(_, deed)| deed.counts()),
            states_max,
            furthest: None,
        }
    }

    fn run(mut self) -> Searched {
        self.absorb();
        let mut at = self.events[0].after;
        while self.left > 0 {
            if self.seen.len() > self.states_max {
                return Searched::TooHard;
            }
            let next = match self.events.get(at) {
                Some(event) if event.is_call => self.place(at),
                // Whatever comes next has to come before this return, and nothing can.
                _ => match self.turn_back() {
                    Some(next) => next,
                    None => return Searched::Stuck(self.furthest.unwrap_or_default()),
                },
            };
            at = next;
        }
        Searched::Explained { states: self.seen.len() }
    }

    /// Gives the operation called at `at` the next place if it can have it. Returns where to go on.
    fn place(&mut self, at: usize) -> usize {
        let Event { deed, after, .. } = self.events[at];
        let Some(next) = self.deeds[deed].1.follow(self.state) else { return after };
        let (this, guess) = (&self.deeds[deed].1, self.guessed());
        if guess && this.is_blind() {
            return after;
        }
        self.placed.flip(deed);
        let is_new = self.seen.insert((self.placed.places(), next, !this.is_certain()));
        self.placed.flip(deed);
        if !is_new {
            return after;
        }
        self.give_place(at, next);
        self.absorb();
        self.events[0].after
    }

    /// Whether the last place went to what nobody knows to have happened. Where no version is ever told, it is worth that only if
    /// the next one looks at it: what is replaced unseen can as well come later, or never.
    fn guessed(&self) -> bool {
        let last = self.order.last().map(|&(at, _)| self.events[at].deed);
        !self.counts && last.is_some_and(|last| !self.deeds[last].1.is_certain())
    }

    /// Gives everything its place that only looks and fits now.
    fn absorb(&mut self) {
        let mut at = self.events[0].after;
        while let Some(&Event { deed, returns, is_call: true, .. }) = self.events.get(at) {
            let deed = &self.deeds[deed].1;
            let fits = deed.only_looks() && deed.follow(self.state).is_some();
            if fits {
                self.give_place(at, self.state);
            }
            at = self.events[at].after;
            if fits && returns == Some(at) {
                // Taken out as well; what comes after it may have come into reach.
                at = self.events[at].after;
            }
        }
    }

    fn give_place(&mut self, at: usize, next: State) {
        let deed = self.events[at].deed;
        self.placed.flip(deed);
        self.order.push((at, self.state));
        self.state = next;
        self.left -= usize::from(self.deeds[deed].1.is_certain());
        self.take_out(at);
    }

    /// Takes the last place back for which there is an alternative, and what came after it. Returns where to go on; `None` if there is none.
    fn turn_back(&mut self) -> Option<usize> {
        self.note_furthest();
        loop {
            let (at, before) = self.order.pop()?;
            let deed = self.events[at].deed;
            self.state = before;
            self.placed.flip(deed);
            self.left += usize::from(self.deeds[deed].1.is_certain());
            self.put_back(at);
            if !self.deeds[deed].1.only_looks() {
                return Some(self.events[at].after);
            }
        }
    }

    fn note_furthest(&mut self) {
        if self.furthest.as_ref().is_some_and(|furthest| furthest.left <= self.left) {
            return;
        }
        let mut open = Vec::new();
        let mut at = self.events[0].after;
        while let Some(event) = self.events.get(at).filter(|event| event.is_call) {
            if self.deeds[event.deed].1.is_certain() {
                open.push(event.deed);
            }
            at = event.after;
        }
        let order = self.order.iter().map(|&(at, _)| self.events[at].deed).collect();
        self.furthest = Some(Stuck { order, left: self.left, state: self.state, open });
    }

    fn take_out(&mut self, call: usize) {
        for at in [Some(call), self.events[call].returns].into_iter().flatten() {
            let Event { before, after, .. } = self.events[at];
            self.events[before].after = after;
            if after != NOWHERE {
                self.events[after].before = before;
            }
        }
    }

    /// The exact reverse of [`Self::take_out`], in the reverse order: neighbours may be each other.
    fn put_back(&mut self, call: usize) {
        for at in [self.events[call].returns, Some(call)].into_iter().flatten() {
            let Event { before, after, .. } = self.events[at];
            self.events[before].after = at;
            if after != NOWHERE {
                self.events[after].before = at;
            }
        }
    }
}

/// Calls and returns in the order of time. At the same moment calls come first, so that the two overlap: clocks are coarse.
fn link(deeds: &[(&Operation, Deed)]) -> Vec<Event> {
    let mut moments = Vec::with_capacity(2 * deeds.len());
    for (deed, (operation, _)) in deeds.iter().enumerate() {
        moments.push((operation.call, false, deed));
        match operation.end {
            End::Done { at, .. } | End::Refused { at } => moments.push((at, true, deed)),
            End::Failed | End::Unknown => {}
        }
    }
    moments.sort_unstable();
    let count = moments.len();
    let after = |at: usize| if at < count { at + 1 } else { NOWHERE };
    let mut events =
        vec![Event { deed: NOWHERE, returns: None, is_call: false, before: 0, after: after(0) }];
    let mut calls = vec![0; deeds.len()];
    for (at, (_, is_return, deed)) in (1..).zip(moments) {
        let is_call = !is_return;
        events.push(Event { deed, returns: None, is_call, before: at - 1, after: after(at) });
        if is_call {
            calls[deed] = at;
        } else {
            events[calls[deed]].returns = Some(at);
        }
    }
    events
}

/// Which operations have a place.
struct Bits(Box<[u64]>);

/// The same for keeping: without the words at both ends that say nothing, since nearly everything before a moment has a
/// place and nearly nothing after it.
#[derive(PartialEq, Eq, Hash)]
struct Places {
    full: usize,
    words: Box<[u64]>,
}

impl Bits {
    fn flip(&mut self, bit: usize) {
        self.0[bit / 64] ^= 1 << (bit % 64);
    }

    fn places(&self) -> Places {
        let full = self.0.iter().take_while(|&&word| word == u64::MAX).count();
        let rest = &self.0[full..];
        let used = rest.len() - rest.iter().rev().take_while(|&&word| word == 0).count();
        Places { full, words: rest[..used].into() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    /// Histories in short: `client op value [version] call-return`, a `?` for an outcome nobody knows, a `!` for a refused swap.
    fn judge(lines: &[&str]) -> Verdict {
        let text: String = lines.iter().map(|line| expand(line) + "\n").collect();
        check(&read(text.as_bytes()).unwrap())
    }

    /// `w1 x 0-5`, `r2 x 6-7`, `r2 - 6-7`, `c1 3 x 0-5` (by version), `s1 x>y 0-5` (by value), `d1 0-5`; then `v=N`, `?`, `!`, `failed`.
    fn expand(short: &str) -> String {
        let mut words = short.split(' ');
        let (op, client) = words.next().unwrap().split_at(1);
        let mut word = || words.next().unwrap();
        let text = |text: &str| if text == "-" { "null".into() } else { format!("\"{text}\"") };
        let action = match op {
            "w" => format!(r#""op":"write","value":{}"#, text(word())),
            "r" => format!(r#""op":"read","value":{}"#, text(word())),
            "c" => format!(r#""op":"cas","expect_version":{},"value":{}"#, word(), text(word())),
            "s" => {
                let (old, new) = word().split_once('>').unwrap();
                format!(r#""op":"cas","expect":{},"value":{}"#, text(old), text(new))
            }
            _ => r#""op":"delete""#.to_owned(),
        };
        let (call, end) = word().split_once('-').unwrap();
        let (mut outcome, mut version) = ("ok", "null");
        for rest in words {
            match rest {
                "?" => outcome = "unknown",
                "!" => outcome = "refused",
                "failed" => outcome = "failed",
                told => version = told.strip_prefix("v=").unwrap(),
            }
        }
        format!(
            r#"{{"client":{client},"key":"k",{action},"call":{call},"return":{end},"outcome":"{outcome}","version":{version}}}"#
        )
    }

    fn assert_good(lines: &[&str]) {
        let verdict = judge(lines);
        assert!(matches!(verdict, Verdict::Linearizable(_)), "{lines:?}: {verdict}");
    }

    fn assert_bad(lines: &[&str], placed: usize) {
        match judge(lines) {
            Verdict::Broken(breach) => assert_eq!(breach.placed, placed, "{lines:?}: {breach:?}"),
            other => panic!("{lines:?}: {other}"),
        }
    }

    #[test]
    fn what_one_register_could_have_answered_is_good() {
        assert_good(&[]);
        assert_good(&["r1 - 0-1", "w1 x 2-3", "r2 x 4-5", "d1 6-7", "r2 - 8-9"]);
        // Readers see a write that is under way, or not yet, and never unsee it.
        assert_good(&["w1 x 0-9", "r2 - 1-2", "r3 x 3-4", "r2 x 5-6"]);
        // Two writes at once may come in either order, whichever was answered first.
        assert_good(&["w1 x 0-5", "w2 y 1-4", "r3 x 6-7"]);
        assert_good(&["w1 x 0-5", "w2 y 1-4", "r3 y 6-7"]);
        // Versions count what was written; a delete counts nothing.
        assert_good(&["w1 x 0-1 v=1", "d1 2-3", "w1 y 4-5 v=2", "c2 2 z 6-7 v=3", "r1 z 8-9 v=3"]);
        assert_good(&["c1 0 x 0-5 v=1", "c2 0 y 1-4 !", "r2 x 6-7 v=1"]);
        assert_good(&["s1 ->x 0-1", "s2 x>y 2-3", "s3 x>z 4-5 !", "r1 y 6-7"]);
        // At the same moment is at the same time.
        assert_good(&["w1 x 0-5", "r2 - 5-6"]);
    }

    #[test]
    fn what_nobody_knows_may_have_happened_at_any_time_or_never() {
        assert_good(&["w1 x 0-0 ?", "r2 - 5-6", "r2 x 7-8"]);
        assert_good(&["w1 x 0-0 ?", "r2 - 5-6", "r2 - 7-8"]);
        assert_good(&["w1 x 0-0 ?", "w2 y 5-6", "r2 y 7-8", "r2 x 9-10"]);
        assert_good(&["w1 x 0-0 ?", "w2 y 5-6 v=2", "r2 y 7-8"]);
        assert_good(&["c1 0 x 0-0 ?", "c2 0 y 5-6 !", "r2 x 7-8 v=1"]);
        assert_good(&["w1 x 0-1", "d1 2-2 ?", "r2 x 3-4", "r2 - 5-6"]);
        // It happened once, and not before it was asked.
        assert_bad(&["w1 x 0-0 ?", "r2 x 5-6", "w2 y 7-8", "r2 y 9-10", "r2 x 11-12"], 3);
        assert_bad(&["r2 x 1-2", "w1 x 5-5 ?"], 0);
        assert_bad(&["c1 0 x 0-0 ?", "w2 y 5-6 v=1", "r2 x 7-8"], 1);
    }

    #[test]
    fn a_stale_read_is_bad() {
        assert_bad(&["w1 x 0-1", "w1 y 2-3", "r2 x 4-5"], 2);
        assert_bad(&["w1 x 0-1", "r2 - 2-3"], 1);
        // Once one reader saw it, everybody does.
        assert_bad(&["w1 x 0-9", "r2 x 1-2", "r3 - 3-4"], 2);
        assert_bad(&["w1 x 0-1 v=1", "w1 x 2-3 v=2", "r2 x 4-5 v=1"], 2);
    }

    #[test]
    fn a_lost_update_is_bad() {
        assert_bad(&["w1 x 0-1", "c1 1 a 2-7 v=2", "c2 1 b 3-6 v=2"], 2);
        assert_bad(&["w1 x 0-1", "s1 x>a 2-7", "s2 x>b 3-6"], 2);
        assert_bad(&["w1 x 0-5 v=1", "w2 y 0-5 v=1"], 1);
        assert_bad(&["w1 x 0-1", "w2 y 2-3", "r1 y 4-5 v=1"], 2);
    }

    #[test]
    fn a_split_brain_is_bad() {
        // Two sides that each see only their own writes.
        assert_bad(&["w1 a 0-1", "w2 b 2-3", "r1 a 4-5", "r2 b 4-5"], 3);
        assert_bad(&["w1 a 0-9", "w2 b 0-9", "r1 a 10-11", "r2 b 10-11", "r1 a 12-13"], 3);
    }

    #[test]
    fn a_dirty_read_is_bad() {
        assert_bad(&["w1 x 0-1", "c2 7 y 2-3 !", "r1 y 4-5"], 2);
        assert_bad(&["w1 x 0-1 failed", "r1 x 4-5"], 0);
        assert_bad(&["r1 x 4-5"], 0);
    }

    #[test]
    fn a_swap_that_was_refused_although_it_fitted_is_bad() {
        assert_bad(&["w1 x 0-1 v=1", "c2 1 y 2-3 !"], 1);
        assert_bad(&["s1 ->x 0-1 !"], 0);
    }

    #[test]
    fn a_breach_says_where() {
        let Verdict::Broken(breach) = judge(&["w1 x 0-1", "w1 y 2-3", "r2 x 4-5"]) else {
            panic!("it is broken")
        };
        assert_eq!((breach.certain, breach.state.as_str()), (3, "\"y\" at version 2"));
        assert_eq!((breach.last.len(), breach.stuck.len()), (2, 1));
        assert!(breach.stuck[0].contains("\"client\":2"));
    }

    #[test]
    fn keys_are_searched_each_for_itself() {
        let on = |key: &str, short: &str| expand(short).replace("\"k\"", &format!("\"{key}\""));
        let text = [on("a", "w1 x 0-1"), on("b", "r1 - 2-3"), on("a", "r1 x 4-5")].join("\n");
        let operations = read(text.as_bytes()).unwrap();
        let expected = Figures { keys: 2, operations: 3, unknown: 0, states: 1 };
        assert_eq!(check(&operations), Verdict::Linearizable(expected));
    }

    #[test]
    fn what_is_too_hard_is_not_called_good() {
        let unknown: Vec<String> = (0..40).map(|n| format!("w{n} v{n} 0-0 ?")).collect();
        let mut lines: Vec<&str> = unknown.iter().map(String::as_str).collect();
        lines.extend(["w90 x 1-2 v=20", "r91 never 3-4"]);
        let text: String = lines.iter().map(|line| expand(line) + "\n").collect();
        let operations = read(text.as_bytes()).unwrap();
        let verdict = check_within(&operations, 10_000);
        assert_eq!(verdict, Verdict::Undecided { key: "k".into() });
    }

    #[test]
    fn ten_thousand_operations_of_sixteen_clients_are_judged() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut lines = Vec::new();
        let mut version = 0;
        // A register that answers in the middle of each operation; sixteen overlap.
        for n in 0..10_000_u64 {
            let (call, end) = (16 * n - random.u64(0..=16 * n.min(8)), 16 * n + random.u64(0..128));
            let client = n % 16;
            lines.push(match random.u8(0..3) {
                0 if version > 0 => format!("r{client} x{version} {call}-{end} v={version}"),
                1 if version > 0 => format!("c{client} {} no {call}-{end} !", version + 1_000_000),
                _ => {
                    version += 1;
                    format!("w{client} x{version} {call}-{end}")
                }
            });
        }
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_good(&lines);
        lines.push("r99 x1 200000-200001");
        assert!(matches!(judge(&lines), Verdict::Broken(_)));
    }

    #[test]
    fn many_timeouts_do_not_make_it_hard() {
        let mut lines: Vec<String> = (0..40).map(|n| format!("w{n} v{n} 0-0 ?")).collect();
        for n in 0..100 {
            let at = 10 * n;
            lines.push(format!("w50 x{n} {at}-{}", at + 4));
            let seen = if n % 3 == 0 { format!("v{}", n / 3) } else { format!("x{n}") };
            lines.push(format!("r51 {seen} {}-{}", at + 5, at + 6));
        }
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_good(&lines);
        lines.push("r51 v0 5000-5001");
        assert!(matches!(judge(&lines), Verdict::Broken(_)));
    }

    /// Every order there is, without any cleverness.
    fn brute(deeds: &[(&Operation, Deed)], placed: &mut Vec<usize>, state: State) -> bool {
        let open = |at: &usize| !placed.contains(at);
        let rest: Vec<usize> = (0..deeds.len()).filter(open).collect();
        if !rest.iter().any(|&at| deeds[at].1.is_certain()) {
            return true;
        }
        let end_of = |at: usize| match deeds[at].0.end {
            End::Done { at, .. } | End::Refused { at } => at,
            End::Failed | End::Unknown => u64::MAX,
        };
        let first_end = rest.iter().map(|&at| end_of(at)).min().unwrap();
        for at in rest {
            let next = deeds[at].1.follow(state).filter(|_| deeds[at].0.call <= first_end);
            if let Some(next) = next {
                placed.push(at);
                if brute(deeds, placed, next) {
                    return true;
                }
                placed.pop();
            }
        }
        false
    }

    #[test]
    fn it_agrees_with_every_order_tried_out() {
        let mut random = fastrand::Rng::with_seed(20_261_122);
        let (mut good, mut bad) = (0, 0);
        for _ in 0..20_000 {
            let lines: Vec<String> =
                (0..random.usize(1..7)).map(|n| draw(&mut random, n)).collect();
            let text: String = lines.iter().map(|line| expand(line) + "\n").collect();
            let operations = read(text.as_bytes()).unwrap();
            let mut texts = Texts::default();
            let deeds: Vec<_> = operations
                .iter()
                .filter_map(|operation| Some((operation, Deed::of(operation, &mut texts)?)))
                .collect();
            let expected = brute(&deeds, &mut Vec::new(), State::default());
            let verdict = check(&operations);
            assert_eq!(matches!(verdict, Verdict::Linearizable(_)), expected, "{lines:?}");
            *(if expected { &mut good } else { &mut bad }) += 1;
        }
        assert!(good > 2000 && bad > 2000, "{good} good and {bad} bad ones");
    }

    fn draw(random: &mut fastrand::Rng, client: usize) -> String {
        let value = ["x", "y", "-"][random.usize(0..3)];
        let new = ["x", "y"][random.usize(0..2)];
        let call = random.u64(0..12);
        let times = format!("{call}-{}", call + random.u64(0..8));
        let unknown = ["", " ?"][usize::from(random.u8(0..4) == 0)];
        let refused = ["", " ?", " !"][random.usize(0..3)];
        match random.u8(0..6) {
            0 | 1 => format!("r{client} {value} {times}"),
            2 => format!("w{client} {new} {times}{unknown}"),
            3 => format!("d{client} {times}{unknown}"),
            4 => format!("s{client} {value}>{new} {times}{refused}"),
            _ => format!("c{client} {} {new} {times}{refused}", random.u8(0..3)),
        }
    }
}
