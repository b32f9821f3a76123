//! Plain `SET`s that came together, and `MSET`: their writes are under way together, so that they are committed together.
//!
//! Each is a request to the core like any other, with its own decision, audit records, quotas and error. They are begun in their
//! order, [`SLICE_MAX`] of them as one where the core can do that ([`WriteRun`](kallisto_core::WriteRun)), and proposed to the store in it; replies are in it too.
//!
//! Invariants:
//! - a run ends before a key that it has already, and before any command that is not a plain `SET`: nothing reads
//!   or writes what is still under way;
//! - what is under way is bounded by [`RUN_MAX`], and holds places among the requests, all runs of a flow at most half of what
//!   it may have; where fewer places can be had, fewer writes are under way, in the end one after another;
//! - a worker begins one slice of a run, or ends one, before others have their turn. Of those that go alone it may end some of each slice in one turn.

use std::collections::HashSet;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;

use kallisto_core::{
    BodyKind, BusyWrite, Error, ExpectedVersion, Json, Map, Operation, Path, ReadyWrite, Request,
    TokenText, fields_body,
};
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use super::parse::{self, ParsedInput, Ranges};
use super::session::{CommandArguments, CommandFailure, NO_AUTH, RespSession, text};
use super::strings::VALUE;
use super::traced;
use super::turn_writes::{RunOutcome, TurnOutcome};
use super::wire::RespWire;

/// Writes of one connection that are under way together: a sync of the disk is paid for once or twice in a run. `MSET` reaches
/// it; what a connection reads at once (128 KiB) has room for some 700 `SET`s of 128 bytes.
pub(super) const RUN_MAX: usize = 1024;
/// Writes of a run that are begun, or that end, in one turn of the worker: most of a millisecond, for which others wait.
const SLICE_MAX: usize = 64;

/// A `SET` without options.
#[derive(Clone, Copy)]
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
    let (mut run, mut keys, mut used) = (vec![first], HashSet::with_capacity(SLICE_MAX), 0);
    keys.insert(first.key);
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

/// What became of a slice's writes, each by its place in it.
#[derive(Default)]
struct JoinedSlice {
    /// What is part of a run, and which of `runs` that is.
    joined: Vec<(usize, usize)>,
    runs: Vec<oneshot::Receiver<RunOutcome>>,
    /// Whose secret somebody else writes now.
    busy: Vec<usize>,
    /// What the first of those waits for.
    first_busy: Option<BusyWrite>,
    /// What goes its own way.
    alone: Vec<usize>,
}

impl RespSession {
    /// Whether a run of writes can begin: who asks is known, and may be answered.
    pub(super) fn may_write_together(&mut self) -> bool {
        self.forget_if_sealed();
        self.token.is_some() && !self.is_in_transaction && !self.shared.core.is_sealed()
    }

    /// Answers a run of `SET`s.
    pub(super) async fn set_run<S>(&mut self, wire: &mut RespWire<S>, run: &[PlainSet<'_>])
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut no_auth = None;
        for written in self.write_together(run).await {
            match written {
                Ok(()) => wire.replies.ok(),
                Err(error) => {
                    let mut failure = CommandFailure::from(error);
                    if failure.word == NO_AUTH {
                        failure.word = match no_auth {
                            Some(word) => word,
                            None => *no_auth.insert(self.settle_no_auth().await),
                        };
                    }
                    wire.replies.error(failure.word, &failure.text);
                }
            }
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
            let set = PlainSet { key: text(key)?, value: text(value)? };
            // What no path names is refused before anything is written.
            Path::literal(&self.data_path(set.key))
                .map_err(|error| Error::invalid(error.to_string()))?;
            sets.push(set);
        }
        // As many `SET`s would have cost.
        self.owe_reads(u32::try_from(sets.len()).unwrap_or(u32::MAX));
        let (mut at, mut keys) = (0, HashSet::with_capacity(sets.len().min(RUN_MAX)));
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
        let requests = &self.shared.core.admission().requests;
        let mut written = Vec::with_capacity(run.len());
        while let rest = &run[written.len()..]
            && let [first, ..] = rest
        {
            let places = requests.take_some(self.flow(), rest.len());
            if places.amount() < 1 {
                drop(places);
                let one = self.write(first.key, first.fields(), ExpectedVersion::Any);
                written.push(self.recorded(one).await);
                continue;
            }
            let slices = rest[..places.amount()].chunks(SLICE_MAX);
            let writing = slices.map(|slice| Box::pin(self.write_slice(slice)));
            written.extend(all(writing.collect(), 1).await.into_iter().flatten());
        }
        written
    }

    /// Writes a slice of a run: what can be committed with others, and the rest each by itself.
    async fn write_slice(&self, slice: &[PlainSet<'_>]) -> Vec<Result<(), Error>> {
        let mut written: Vec<Option<Result<(), Error>>> = vec![None; slice.len()];
        let mut left: Vec<usize> = (0..slice.len()).collect();
        let (mut alone, mut ready) = (Vec::new(), None);
        // Each round settles the first that is left, whose latch was waited for.
        while !left.is_empty() {
            let Some(joined) = self.join_turn(slice, &left, ready.take()) else {
                alone.append(&mut left);
                break;
            };
            let mut outcomes = Vec::with_capacity(joined.runs.len());
            for run in joined.runs {
                // One that nobody finished may be committed or not.
                outcomes.push(run.await.unwrap_or_else(|_| Err(Error::outcome_unknown())));
            }
            alone.extend(joined.alone);
            for (place, run) in joined.joined {
                match &outcomes[run] {
                    Ok(true) => written[place] = Some(Ok(())),
                    Ok(false) => alone.push(place),
                    Err(error) => written[place] = Some(Err(error.clone())),
                }
            }
            left = joined.busy;
            if let Some(busy) = joined.first_busy {
                ready = Some(busy.wait().await);
            }
        }
        let going = alone.iter().map(|&place| {
            let set = slice[place];
            Box::pin(async move {
                let one = self.write_in_turn(set.key, set.fields(), ExpectedVersion::Any);
                self.recorded(one).await
            })
        });
        for (&place, outcome) in alone.iter().zip(all(going.collect(), SLICE_MAX).await) {
            written[place] = Some(outcome);
        }
        written.into_iter().map(|outcome| outcome.unwrap_or(Err(Error::Conflict))).collect()
    }

    /// Has those of a slice's writes that are `left` join runs of this worker's turn, the first of them with the latch that was waited for;
    /// `None` where each has to go its own way.
    fn join_turn(
        &self,
        slice: &[PlainSet<'_>],
        left: &[usize],
        mut ready: Option<ReadyWrite>,
    ) -> Option<JoinedSlice> {
        // Each of them has a span of its own where that is recorded.
        if self.shared.tracer.get().is_some() {
            return None;
        }
        let now = self.shared.clock.now();
        let token = TokenText::new(self.token.as_ref()?.expose_secret());
        let reads = self.shared.core.fast_reads()?;
        let caller = reads.bearer(Some(token), Some(self.remote), now)?.ok()?;
        let mut joining = self.writes.joining(&self.shared.core, caller.run_writer()?);
        let mut joined = JoinedSlice::default();
        for &place in left {
            let set = slice[place];
            let ready = ready.take();
            let path = self.data_path(set.key);
            let Ok(path) = Path::literal(&path) else {
                joined.alone.push(place);
                continue;
            };
            let body = fields_body(self.engine, set.fields(), ExpectedVersion::Any);
            let request = self.request(Operation::Update, path);
            let request = Request { body_kind: BodyKind::Fields(&body), now, ..request };
            match joining.join(&request, ready) {
                TurnOutcome::Joined(run) => joined.joined.push((place, run)),
                TurnOutcome::Alone => joined.alone.push(place),
                TurnOutcome::Busy(busy) => {
                    joined.busy.push(place);
                    joined.first_busy.get_or_insert(busy);
                }
            }
        }
        joined.runs = joining.into_runs();
        Some(joined)
    }

    /// Does one of a run's writes within a span of its own.
    async fn recorded<T>(
        &self,
        write: impl Future<Output = Result<T, Error>>,
    ) -> Result<(), Error> {
        let Some(span) = self.begin_write() else { return write.await.map(drop) };
        let written = span.trace().scope(write).await.map(drop);
        traced::end_write(span, written.as_ref().err());
        written
    }
}

/// Begins the futures in their order and polls them until each is ready, `per_turn` of either in a turn. They are woken
/// about together, by the commit of their group, so all that are left are looked at each time.
async fn all<F: Future>(mut futures: Vec<Pin<Box<F>>>, per_turn: usize) -> Vec<F::Output> {
    let mut ready: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    let (mut begun, mut first_left) = (0, 0);
    poll_fn(|context| {
        let looked_at = if begun < futures.len() {
            begun..futures.len().min(begun + per_turn)
        } else {
            first_left..futures.len()
        };
        // Those may have been woken too.
        let are_others = looked_at.start > first_left || looked_at.end < futures.len();
        begun = looked_at.end;
        let mut ended = 0;
        for at in looked_at {
            if ready[at].is_none()
                && ended < per_turn
                && let Poll::Ready(value) = futures[at].as_mut().poll(context)
            {
                ready[at] = Some(value);
                ended += 1;
            }
        }
        first_left += ready[first_left..].iter().take_while(|ready| ready.is_some()).count();
        if first_left == futures.len() {
            return Poll::Ready(());
        }
        if are_others || ended == per_turn {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    ready.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake, Waker};

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
        assert_eq!(pollster::block_on(all((0..3).map(work).collect(), SLICE_MAX)), [0, 1, 2]);
    }

    #[test]
    fn a_turn_begins_and_ends_a_slice_and_nothing_that_was_woken_is_forgotten() {
        const COUNT: usize = 3 * SLICE_MAX + 5;
        let gate = tokio::sync::Semaphore::new(0);
        let (begun, ended) = (Cell::new(0), Cell::new(0));
        let (gate, begun, ended) = (&gate, &begun, &ended);
        let work = |at: usize| {
            Box::pin(async move {
                begun.set(begun.get() + 1);
                // One in the first slice is ready as soon as it is looked at again.
                if at != 3 {
                    gate.acquire().await.unwrap().forget();
                }
                ended.set(ended.get() + 1);
                at
            })
        };
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut all = pin!(all((0..COUNT).map(work).collect(), SLICE_MAX));
        let mut seen = Vec::new();
        let mut turns = 0;
        let results = loop {
            turns += 1;
            assert!(turns < 100);
            let before = (begun.get(), ended.get());
            if let Poll::Ready(results) = all.as_mut().poll(&mut context) {
                break results;
            }
            seen.push((begun.get() - before.0, ended.get() - before.1));
            if !woken.0.swap(false, Ordering::Relaxed) {
                // It sleeps until somebody wakes it: only when all are begun.
                assert_eq!(begun.get(), COUNT);
                gate.add_permits(COUNT);
            }
        };
        assert_eq!(results, (0..COUNT).collect::<Vec<_>>());
        assert!(seen.iter().all(|&(begun, ended)| begun <= SLICE_MAX && ended <= SLICE_MAX));
        assert_eq!(seen.iter().filter(|&&(begun, _)| begun > 0).count(), COUNT.div_ceil(SLICE_MAX));
        assert!(seen.iter().filter(|&&(_, ended)| ended == SLICE_MAX).count() >= 2, "{seen:?}");
    }

    /// Whether somebody woke the task.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
