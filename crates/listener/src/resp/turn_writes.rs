//! Writes of all connections of a worker that came in one turn of it: committed together.
//!
//! The first of them opens a run, the others of that turn join it, and when the worker has looked at everybody who was ready, it is
//! committed. A run that is full is committed at once. Each write is one of its own client's, decided for it alone
//! ([`RunWriter`]); only the batch is shared.
//!
//! Invariants:
//! - a run that was opened is committed, whoever of those who joined it is still there;
//! - who waits for a run hears how it ended, and if the worker ends first, that nobody knows.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kallisto_core::{
    BusyWrite, Core, Error, JoinOutcome, ReadyWrite, Request, RunWriter, WriteRun,
};
use tokio::sync::oneshot;

use crate::wake_queue::{TaskRing, WakeQueue};

/// What those are told who joined a run; see [`Core::finish_run`].
pub(crate) type RunOutcome = Result<bool, Error>;

/// The run that writes of a worker join.
pub(crate) struct TurnWrites {
    open: Mutex<Option<OpenTurn>>,
    wake_queue: Arc<WakeQueue>,
}

/// A run that may be joined.
struct OpenTurn {
    run: WriteRun,
    waiting: Vec<oneshot::Sender<RunOutcome>>,
}

/// Writes that came together, as they join runs.
pub(super) struct JoiningWrites<'a, 'w> {
    core: &'a Arc<Core>,
    writes: &'a Arc<TurnWrites>,
    writer: RunWriter<'w>,
    open: MutexGuard<'a, Option<OpenTurn>>,
    /// How those of them end that joined, run by run.
    runs: Vec<oneshot::Receiver<RunOutcome>>,
    /// Whether the open run is the last of `runs`.
    is_in: bool,
}

/// What became of a write that was to join.
pub(super) enum TurnOutcome {
    /// It is part of this run, by its place among [`JoiningWrites::into_runs`].
    Joined(usize),
    /// See [`JoinOutcome::Busy`].
    Busy(BusyWrite),
    /// See [`JoinOutcome::Alone`].
    Alone,
}

impl TurnWrites {
    /// Those of the worker whose queue of wakes this is.
    pub(crate) fn new(wake_queue: Arc<WakeQueue>) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), wake_queue })
    }

    /// Begins with a few writes. Not to be held while waiting.
    pub(super) fn joining<'a, 'w>(
        self: &'a Arc<Self>,
        core: &'a Arc<Core>,
        writer: RunWriter<'w>,
    ) -> JoiningWrites<'a, 'w> {
        let open = self.lock();
        JoiningWrites { core, writes: self, writer, open, runs: Vec::new(), is_in: false }
    }

    /// A panic under this lock leaves a run that may be committed or not, which is what its writes are told.
    fn lock(&self) -> MutexGuard<'_, Option<OpenTurn>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits the open run when all that is ready now had its turn.
    fn close_soon(self: &Arc<Self>, core: &Arc<Core>) {
        let (writes, core) = (Arc::clone(self), Arc::clone(core));
        let mut ring = TaskRing::new(Arc::clone(&self.wake_queue));
        // A task of its own, behind all that are ready now.
        tokio::spawn(async move {
            let Some(open) = writes.lock().take() else { return };
            open.finish(&core, &mut ring).await;
        });
    }

    /// Commits a run now.
    fn close(&self, open: OpenTurn, core: &Arc<Core>) {
        let core = Arc::clone(core);
        let mut ring = TaskRing::new(Arc::clone(&self.wake_queue));
        tokio::spawn(async move { open.finish(&core, &mut ring).await });
    }
}

impl OpenTurn {
    async fn finish(self, core: &Core, ring: &mut TaskRing) {
        let Self { run, waiting } = self;
        let Some(under_way) = run.commit() else { return };
        let mut finishing = pin!(core.finish_run(under_way));
        let outcome = std::future::poll_fn(|context| ring.poll(finishing.as_mut(), context)).await;
        for waits in waiting {
            // One that is gone needs no word.
            let _ = waits.send(outcome.clone());
        }
    }
}

impl JoiningWrites<'_, '_> {
    /// Has a write join, with the latch that was waited for, if any.
    pub(super) fn join(&mut self, request: &Request<'_>, ready: Option<ReadyWrite>) -> TurnOutcome {
        if let Some(full) = self.open.take_if(|open| !self.writer.fits(&open.run)) {
            self.is_in = false;
            self.writes.close(full, self.core);
        }
        let (writes, core, writer) = (self.writes, self.core, &mut self.writer);
        let open = self.open.get_or_insert_with(|| {
            writes.close_soon(core);
            OpenTurn { run: writer.begin_run(), waiting: Vec::new() }
        });
        match writer.join(&mut open.run, request, ready) {
            JoinOutcome::Joined => {
                if !std::mem::replace(&mut self.is_in, true) {
                    let (waits, hears) = oneshot::channel();
                    open.waiting.push(waits);
                    self.runs.push(hears);
                }
                TurnOutcome::Joined(self.runs.len() - 1)
            }
            JoinOutcome::Busy(busy) => TurnOutcome::Busy(busy),
            JoinOutcome::Alone => TurnOutcome::Alone,
        }
    }

    /// The runs that writes joined.
    pub(super) fn into_runs(self) -> Vec<oneshot::Receiver<RunOutcome>> {
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kallisto_core::{
        BodyKind, EngineKind, EngineSet, ExpectedVersion, Map, Operation, Path, Response,
        ServerInfo, TokenText, fields_body, json, set_engines,
    };
    use kallisto_store::{MemoryStore, Store};

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const ROOT: &str = "root";

    /// A server of which this thread is a worker.
    struct Worker {
        store: Arc<MemoryStore>,
        core: Arc<Core>,
        writes: Arc<TurnWrites>,
    }

    impl Worker {
        fn new() -> Self {
            set_engines(EngineSet {
                engines: &[kallisto_engines::ENGINES, kallisto_auth_methods::METHODS],
                identity_oidc: &kallisto_engines::IDENTITY_OIDC,
            });
            let store = Arc::new(MemoryStore::new());
            let core = Arc::new(Core::new(Arc::clone(&store) as _, ServerInfo::default()));
            pollster::block_on(core.initialize_dev(Some(ROOT.to_owned().into()), NOW)).unwrap();
            Self { store, core, writes: TurnWrites::new(WakeQueue::here()) }
        }

        /// How many batches were committed.
        fn commits(&self) -> u64 {
            self.store.position().0
        }

        /// Has writes of one client join.
        fn join(
            &self,
            keys: &[&str],
            mut ready: Option<ReadyWrite>,
        ) -> (Vec<TurnOutcome>, Vec<oneshot::Receiver<RunOutcome>>) {
            let reads = self.core.fast_reads().unwrap();
            let caller = reads.bearer(Some(TokenText::new(ROOT)), None, NOW).unwrap().unwrap();
            let mut joining = self.writes.joining(&self.core, caller.run_writer().unwrap());
            let fields = Map::from([("value".to_owned(), "v".into())]);
            let body = fields_body(EngineKind::KV_V2, fields, ExpectedVersion::Any);
            let outcomes = keys.iter().map(|key| {
                let path = format!("secret/data/{key}");
                let request = Request {
                    token: Some(TokenText::new(ROOT)),
                    body_kind: BodyKind::Fields(&body),
                    ..Request::new(Operation::Update, Path::literal(&path).unwrap(), NOW)
                };
                joining.join(&request, ready.take())
            });
            let outcomes = outcomes.collect();
            (outcomes, joining.into_runs())
        }

        /// The newest version of a secret, as text.
        async fn version(&self, key: &str) -> String {
            let path = format!("secret/metadata/{key}");
            let request = Request {
                token: Some(TokenText::new(ROOT)),
                ..Request::new(Operation::Read, Path::literal(&path).unwrap(), NOW)
            };
            let answer = self.core.handle(&request).await;
            let Ok(Response::Logical(found)) = answer else { panic!("{answer:?}") };
            let version = json::member(&found.data, "current_version").unwrap();
            String::from_utf8(version.to_vec()).unwrap()
        }
    }

    fn joined(outcomes: &[TurnOutcome]) -> Vec<Option<usize>> {
        let place = |outcome: &TurnOutcome| match outcome {
            TurnOutcome::Joined(run) => Some(*run),
            TurnOutcome::Busy(_) | TurnOutcome::Alone => None,
        };
        outcomes.iter().map(place).collect()
    }

    async fn told(runs: Vec<oneshot::Receiver<RunOutcome>>) {
        for run in runs {
            assert_eq!(run.await.unwrap(), Ok(true));
        }
    }

    #[tokio::test]
    async fn writes_of_one_turn_are_one_commit_and_each_client_is_told() {
        let worker = Worker::new();
        let before = worker.commits();
        let (first, one) = worker.join(&["a", "b"], None);
        let (second, two) = worker.join(&["c"], None);
        assert_eq!(joined(&first), [Some(0), Some(0)]);
        assert_eq!(joined(&second), [Some(0)]);
        assert_eq!(worker.commits(), before, "others may join");
        told(two).await;
        told(one).await;
        assert_eq!(worker.commits(), before + 1);
        for key in ["a", "b", "c"] {
            assert_eq!(worker.version(key).await, "1", "{key}");
        }
        let (_, next) = worker.join(&["a"], None);
        told(next).await;
        assert_eq!(worker.commits(), before + 2);
    }

    #[tokio::test]
    async fn a_secret_is_written_once_in_a_run_and_who_waits_is_next() {
        let worker = Worker::new();
        let (_, one) = worker.join(&["a"], None);
        let (mut outcomes, two) = worker.join(&["a", "b"], None);
        assert_eq!(joined(&outcomes), [None, Some(0)]);
        let TurnOutcome::Busy(busy) = outcomes.swap_remove(0) else { panic!("not busy") };
        told(one).await;
        told(two).await;
        let ready = busy.wait().await;
        let (outcomes, next) = worker.join(&["a"], Some(ready));
        assert_eq!(joined(&outcomes), [Some(0)]);
        told(next).await;
        assert_eq!(worker.version("a").await, "2");
    }

    #[tokio::test]
    async fn a_full_run_is_committed_and_another_begins() {
        let worker = Worker::new();
        let before = worker.commits();
        let keys: Vec<String> = (0..190).map(|at| format!("k{at}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let (outcomes, runs) = worker.join(&keys, None);
        let joined = joined(&outcomes);
        // A few of the second run may share a latch with the first, by chance, and would wait.
        let (first, second) = joined.split_at(128);
        assert!(first.iter().all(|run| *run == Some(0)));
        assert!(second.iter().all(|run| *run != Some(0)));
        let in_second = second.iter().filter(|run| **run == Some(1)).count();
        assert!(in_second > 31, "{in_second}");
        told(runs).await;
        assert_eq!(worker.commits(), before + 2);
        let last = joined.iter().rposition(|run| *run == Some(1)).unwrap();
        assert_eq!(worker.version(keys[last]).await, "1");
    }

    #[tokio::test]
    async fn what_joined_is_committed_when_nobody_waits_any_more() {
        let worker = Worker::new();
        drop(worker.join(&["a"], None));
        let (_, two) = worker.join(&["b"], None);
        told(two).await;
        assert_eq!(worker.version("a").await, "1");
        // And no latch is left behind.
        let (outcomes, next) = worker.join(&["a", "b"], None);
        assert_eq!(joined(&outcomes), [Some(0), Some(0)]);
        told(next).await;
    }
}
