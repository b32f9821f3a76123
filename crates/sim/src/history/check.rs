//! Judges a history, each of its keys for itself: `search` looks for an order, `verdict` is what is told of it.

use std::collections::BTreeMap;

use super::model::{KeyOperation, Texts};
use super::search::{HistorySearch, STATES_MAX, Searched, Stuck};
use super::verdict::{Breach, HistoryFigures, HistoryVerdict};
use super::{ClientOperation, OperationEnd};

/// Most operations that a report of a breach shows.
const SHOWN_MAX: usize = 8;

/// Judges a history.
#[must_use]
pub fn check(operations: &[ClientOperation]) -> HistoryVerdict {
    check_within(operations, STATES_MAX)
}

fn check_within(operations: &[ClientOperation], states_max: usize) -> HistoryVerdict {
    let mut keys = BTreeMap::<&str, Vec<&ClientOperation>>::new();
    for operation in operations {
        keys.entry(&operation.key).or_default().push(operation);
    }
    let unknown =
        operations.iter().filter(|operation| operation.end == OperationEnd::Unknown).count();
    let mut figures = HistoryFigures {
        keys: keys.len(),
        operations: operations.len(),
        unknown,
        ..HistoryFigures::default()
    };
    for (key, operations) in keys {
        let mut texts = Texts::default();
        let deeds: Vec<(&ClientOperation, KeyOperation)> = operations
            .into_iter()
            .filter_map(|operation| Some((operation, KeyOperation::of(operation, &mut texts)?)))
            .collect();
        match HistorySearch::new(&deeds, states_max).run() {
            Searched::Explained { states } => figures.states += states,
            Searched::TooHard => return HistoryVerdict::Undecided { key: key.to_owned() },
            Searched::Stuck(stuck) => {
                return HistoryVerdict::Broken(tell(key, &deeds, &texts, &stuck));
            }
        }
    }
    HistoryVerdict::Linearizable(figures)
}

fn tell(
    key: &str,
    deeds: &[(&ClientOperation, KeyOperation)],
    texts: &Texts<'_>,
    stuck: &Stuck,
) -> Breach {
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

#[cfg(test)]
mod tests {
    use super::super::model::KeyState;
    use super::super::read;
    use super::*;

    /// Histories in short: `client op value [version] call-return`, a `?` for an outcome nobody knows, a `!` for a refused swap.
    fn judge(lines: &[&str]) -> HistoryVerdict {
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
        assert!(matches!(verdict, HistoryVerdict::Linearizable(_)), "{lines:?}: {verdict}");
    }

    fn assert_bad(lines: &[&str], placed: usize) {
        match judge(lines) {
            HistoryVerdict::Broken(breach) => {
                assert_eq!(breach.placed, placed, "{lines:?}: {breach:?}")
            }
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
        let HistoryVerdict::Broken(breach) = judge(&["w1 x 0-1", "w1 y 2-3", "r2 x 4-5"]) else {
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
        let expected = HistoryFigures { keys: 2, operations: 3, unknown: 0, states: 1 };
        assert_eq!(check(&operations), HistoryVerdict::Linearizable(expected));
    }

    #[test]
    fn what_is_too_hard_is_not_called_good() {
        let unknown: Vec<String> = (0..40).map(|n| format!("w{n} v{n} 0-0 ?")).collect();
        let mut lines: Vec<&str> = unknown.iter().map(String::as_str).collect();
        lines.extend(["w90 x 1-2 v=20", "r91 never 3-4"]);
        let text: String = lines.iter().map(|line| expand(line) + "\n").collect();
        let operations = read(text.as_bytes()).unwrap();
        let verdict = check_within(&operations, 10_000);
        assert_eq!(verdict, HistoryVerdict::Undecided { key: "k".into() });
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
        assert!(matches!(judge(&lines), HistoryVerdict::Broken(_)));
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
        assert!(matches!(judge(&lines), HistoryVerdict::Broken(_)));
    }

    /// Every order there is, without any cleverness.
    fn brute(
        deeds: &[(&ClientOperation, KeyOperation)],
        placed: &mut Vec<usize>,
        state: KeyState,
    ) -> bool {
        let open = |at: &usize| !placed.contains(at);
        let rest: Vec<usize> = (0..deeds.len()).filter(open).collect();
        if !rest.iter().any(|&at| deeds[at].1.is_certain()) {
            return true;
        }
        let end_of = |at: usize| match deeds[at].0.end {
            OperationEnd::Done { at, .. } | OperationEnd::Refused { at } => at,
            OperationEnd::Failed | OperationEnd::Unknown => u64::MAX,
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
                .filter_map(|operation| Some((operation, KeyOperation::of(operation, &mut texts)?)))
                .collect();
            let expected = brute(&deeds, &mut Vec::new(), KeyState::default());
            let verdict = check(&operations);
            assert_eq!(matches!(verdict, HistoryVerdict::Linearizable(_)), expected, "{lines:?}");
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
