//! The long work of a core, one task at a time and in the simulation's time.
//!
//! A task is a thread that runs only while the world waits for it, and hands back where it pauses: so the code that
//! unseals and rebuilds is the server's own, and a run is still its seed. Tasks of one server overlap where they pause, as threads do.

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Waker};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use kallisto_core::{BackgroundTask, Threads};

use super::chance;

/// Most pauses of a task whose machine is gone.
const LAST_PAUSES_MAX: usize = 100_000;
/// How often a task looks whether what it waits for has come.
const WAIT_PAUSE: Duration = Duration::from_millis(5);
/// Most looks: what has not come after so long is of a machine that is gone, or of a cluster that does nothing.
const WAIT_PAUSES_MAX: usize = 4_000;
const _: () = assert!(2 * WAIT_PAUSES_MAX < LAST_PAUSES_MAX);

/// The tasks that a core has started and nobody has taken yet.
#[derive(Default)]
pub(crate) struct BackgroundTasks(Mutex<Vec<BackgroundTask>>);

impl BackgroundTasks {
    /// Takes what was started.
    pub(crate) fn take(&self) -> Vec<BackgroundTask> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Threads for BackgroundTasks {
    fn start(&self, _name: &'static str, task: BackgroundTask) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        Ok(())
    }

    fn pause(&self, duration: Duration) {
        pause(duration);
    }

    fn wait(&self, mut future: Pin<&mut dyn Future<Output = ()>>) {
        for _ in 0..WAIT_PAUSES_MAX {
            if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return;
            }
            pause(WAIT_PAUSE);
        }
    }
}

/// Lets the simulation's time pass, in a task. Elsewhere nothing passes.
pub(crate) fn pause(duration: Duration) {
    LINE.with_borrow(|line| {
        if let Some(line) = line {
            // Nobody waits for a task that was given up: it goes on alone.
            let _ = line.said.send(TaskStep::Pauses(duration));
            if line.go.recv() != Ok(Go::On) {
                IS_GONE.set(true);
            }
        }
    });
}

/// Whether this is a task whose machine is gone: what it does reaches nobody.
pub(crate) fn is_gone() -> bool {
    IS_GONE.get()
}

/// What a task did until the world went on.
pub(crate) enum TaskStep {
    /// It wants to go on after this.
    Pauses(Duration),
    /// It is done.
    Ended,
}

/// What the world tells a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Go {
    /// Time has passed.
    On,
    /// Its machine is gone.
    Gone,
}

/// A task's end of the line to the world.
struct TaskLine {
    said: SyncSender<TaskStep>,
    go: Receiver<Go>,
}

thread_local! {
    static LINE: RefCell<Option<TaskLine>> = const { RefCell::new(None) };
    static IS_GONE: Cell<bool> = const { Cell::new(false) };
}

/// A task that was begun.
pub(crate) struct RunningTask {
    thread: Option<JoinHandle<()>>,
    said: Receiver<TaskStep>,
    go: SyncSender<Go>,
}

impl RunningTask {
    /// Begins a task, which draws its random bytes from `seed` and does nothing until it is told to go on.
    pub(crate) fn begin(task: BackgroundTask, seed: u64) -> io::Result<Self> {
        let (to_world, said) = sync_channel(1);
        let (go, may_go) = sync_channel(1);
        let run = move || {
            chance::draw_from(seed);
            if let Ok(go) = may_go.recv() {
                IS_GONE.set(go == Go::Gone);
                LINE.set(Some(TaskLine { said: to_world, go: may_go }));
                task();
                LINE.set(None);
            }
        };
        let thread = Some(Builder::new().name("task".into()).spawn(run)?);
        Ok(Self { thread, said, go })
    }

    /// Lets it run to its next pause, or its end. A panic of the task is one of the world.
    pub(crate) fn go_on(&mut self) -> TaskStep {
        self.tell(Go::On)
    }

    fn tell(&mut self, go: Go) -> TaskStep {
        if self.go.send(go).is_ok()
            && let Ok(step) = self.said.recv()
        {
            return step;
        }
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        TaskStep::Ended
    }

    /// Lets it run to its end without any time passing.
    pub(crate) fn run_through(self) {
        self.run_all(Go::On);
    }

    /// Lets it run to its end without any time passing: its machine is gone, and it concerns nobody.
    pub(crate) fn run_out(self) {
        self.run_all(Go::Gone);
    }

    fn run_all(mut self, go: Go) {
        for _ in 0..LAST_PAUSES_MAX {
            if let TaskStep::Ended = self.tell(go) {
                return;
            }
        }
        panic!("a task does not end");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_runs_while_the_world_waits_and_stops_where_it_pauses() {
        let tasks = BackgroundTasks::default();
        let (told, heard) = std::sync::mpsc::channel();
        let task = move || {
            for turn in 0..3 {
                told.send(turn).unwrap();
                pause(Duration::from_millis(turn));
            }
        };
        tasks.start("test", Box::new(task)).unwrap();
        let mut running = RunningTask::begin(tasks.take().pop().unwrap(), 1).unwrap();
        assert!(heard.try_recv().is_err());
        for turn in 0..3 {
            assert!(
                matches!(running.go_on(), TaskStep::Pauses(d) if d == Duration::from_millis(turn))
            );
            assert_eq!(heard.try_recv(), Ok(turn));
            assert!(heard.try_recv().is_err());
        }
        assert!(matches!(running.go_on(), TaskStep::Ended));
        assert!(matches!(running.go_on(), TaskStep::Ended));
    }
}
