//! Plain `SET`s that came together, and `MSET`: their writes are under way together, so that they are committed together.
//!
//! Each is a request to the core like any other, with its own decision, audit records, quotas and error. They are begun in their
//! order and proposed to the store in it; replies are in it too.
//!
//! Invariants:
//! - a run ends before a key that it has already, and before any command that is not a plain `SET`: nothing reads
//!   or writes what is still under way;
//! - what is under way is bounded by [`RUN_MAX`], and holds places among the requests; without places there is one write
//!   after another.

use std::collections::HashSet;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;

use kallisto_core::{Error, ExpectedVersion, Json, Map};
use tokio::io::{AsyncRead, AsyncWrite};

use super::parse::{self, ParsedInput, Ranges};
use super::session::{CommandArguments, CommandFailure, NO_AUTH, RespSession, text};
use super::strings::VALUE;
use super::wire::RespWire;

/// Writes of one connection that are under way together.
pub(super) const RUN_MAX: usize = 64;

/// A `SET` without options.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainSet<'i> {
    key: &'i str,
    value: &'i str,
}

impl<'i> PlainSet<'i> {
    /// The command whose words are at these places of `input`, if it is one.
    pub(super) fn of(input: &'i [u8], ranges: &[Range<usize>]) -> Option<Self> {
        let [name, key, value] = ranges else { return None };
        if !input[name.clone()].eq_ignore_ascii_case(b"SET") {
            return None;
        }
        let word = |range: &Range<usize>| text(&input[range.clone()]).ok();
        Some(Self { key: word(key)?, value: word(value)? })
    }

    fn fields(self) -> Map {
        Map::from([(VALUE.to_owned(), Json::from(self.value))])
    }
}

/// The `SET`s that `input` goes on with after `first`, whose keys are all different; how many bytes they take.
pub(super) fn follow<'i>(
    first: PlainSet<'i>,
    input: &'i [u8],
    ranges: &mut Ranges,
) -> (Vec<PlainSet<'i>>, usize) {
    let (mut run, mut keys, mut used) = (vec![first], HashSet::from([first.key]), 0);
    while run.len() < RUN_MAX
        && let Ok(ParsedInput::Command(length)) = parse::parse(&input[used..], ranges)
        && let Some(set) = PlainSet::of(&input[used..], ranges)
        && keys.insert(set.key)
    {
        run.push(set);
        used += length;
    }
    (run, used)
}

impl RespSession {
    /// Whether a run of writes can begin: who asks is known, and may be answered.
    pub(super) fn may_write_together(&mut self) -> bool {
        self.forget_if_sealed();
        self.token.is_some() && !self.shared.core.is_sealed()
    }

    /// Answers a run of `SET`s.
    pub(super) async fn set_run<S>(&mut self, wire: &mut RespWire<S>, run: &[PlainSet<'_>])
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut is_over = false;
        for written in self.write_together(run).await {
            match written {
                Ok(()) => wire.replies.ok(),
                Err(error) => {
                    let failure = CommandFailure::from(error);
                    wire.replies.error(failure.word, &failure.text);
                    is_over |= failure.word == NO_AUTH;
                }
            }
        }
        if is_over {
            self.forget();
        }
    }

    /// Writes what `MSET` names, run after run: the first failure is the answer, and what was written with it or
    /// before it stays.
    pub(super) async fn set_all(
        &self,
        arguments: CommandArguments<'_>,
    ) -> Result<(), CommandFailure> {
        let mut sets = Vec::with_capacity(arguments.len() / 2);
        let mut words = arguments.from(1);
        while let (Some(key), Some(value)) = (words.next(), words.next()) {
            sets.push(PlainSet { key: text(key)?, value: text(value)? });
        }
        let (mut at, mut keys) = (0, HashSet::with_capacity(RUN_MAX));
        while at < sets.len() {
            keys.clear();
            let rest = sets[at..].iter().take(RUN_MAX);
            let count = rest.take_while(|set| keys.insert(set.key)).count();
            for written in self.write_together(&sets[at..at + count]).await {
                written?;
            }
            at += count;
        }
        Ok(())
    }

    /// Has the writes of a run under way together; what came of each.
    async fn write_together(&self, run: &[PlainSet<'_>]) -> Vec<Result<(), Error>> {
        let admission = self.shared.core.admission();
        let place = admission.requests.take(self.flow(), run.len());
        if place.is_err() {
            let mut written = Vec::with_capacity(run.len());
            for &set in run {
                written.push(self.write(set.key, set.fields(), ExpectedVersion::Any).await);
            }
            return written.into_iter().map(|written| written.map(drop)).collect();
        }
        let writing = run.iter().map(|&set| {
            Box::pin(async move {
                self.write_at_once(set.key, set.fields(), ExpectedVersion::Any).await.map(drop)
            })
        });
        all(writing.collect()).await
    }
}

/// Polls all futures in their order until each is ready. They are woken about together, by the commit of their group, so all
/// that are left are looked at each time.
async fn all<F: Future>(mut futures: Vec<Pin<Box<F>>>) -> Vec<F::Output> {
    let mut ready: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let mut left = futures.len();
    poll_fn(|context| {
        for (future, ready) in futures.iter_mut().zip(&mut ready) {
            if ready.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *ready = Some(value);
                left -= 1;
            }
        }
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ready.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(commands: &[&str]) -> (Vec<String>, usize) {
        let input: String = commands.iter().map(|command| format!("{command}\r\n")).collect();
        let input = input.as_bytes();
        let mut ranges = Ranges::new();
        let Ok(ParsedInput::Command(length)) = parse::parse(input, &mut ranges) else { panic!() };
        let first = PlainSet::of(input, &ranges).unwrap();
        let (run, used) = follow(first, &input[length..], &mut ranges);
        (run.iter().map(|set| set.key.to_owned()).collect(), used)
    }

    #[test]
    fn a_run_ends_before_its_own_keys_and_before_other_commands() {
        let (keys, used) = run_of(&["SET a 1", "set b 2", "SET c 3", "SET a 4", "SET d 5"]);
        assert_eq!((keys.concat(), used), ("abc".to_owned(), 18));
        for other in ["GET a", "SET c 3 NX", "SET c", "DEL a", "MSET a 1", "SET c"] {
            assert_eq!(run_of(&["SET a 1", "SET b 2", other, "SET e 5"]).0.concat(), "ab");
        }
        let many: Vec<_> = (0..2 * RUN_MAX).map(|at| format!("SET {at} v")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(run_of(&many).0.len(), RUN_MAX);
    }

    #[test]
    fn all_are_begun_before_one_is_waited_for_and_told_in_order() {
        let (one, two) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let work = |at: usize| {
            let (one, two) = (&one, &two);
            Box::pin(async move {
                // Each waits for the other.
                match at {
                    0 => (two.notified().await, one.notify_one()),
                    1 => (two.notify_one(), one.notified().await),
                    _ => ((), ()),
                };
                at
            })
        };
        assert_eq!(pollster::block_on(all((0..3).map(work).collect())), [0, 1, 2]);
    }
}
