//! Wakes that come together from another thread cross to a worker together.
//!
//! A group of writes that was committed wakes all its connections at once, from the thread that applied it. Left to the
//! runtime each of these wakes is a system call, since the worker may be asleep. Here the first one wakes a task of
//! the worker, and the others only join the queue that this task empties. A thread whose wakes belong
//! together rings when all of them are in the queue (`kallisto_wake`).
//!
//! A wake that comes from the worker's own thread, as all of its sockets' do, goes straight to its task.
//!
//! Invariants:
//! - who is in the queue is woken: whoever makes it no longer empty rings, at the end of what belongs together there, and
//!   the queue takes all of it;
//! - a connection is in the queue at most once, and so is a run of their writes, so the queue is no longer than there are of both.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;

use tokio::sync::Notify;

/// The queue of one worker.
pub(crate) struct WakeQueue {
    home: ThreadId,
    queue: Mutex<Vec<Arc<WaitingTask>>>,
    rings: Notify,
}

impl WakeQueue {
    /// The queue of the worker that runs on this thread.
    pub(crate) fn here() -> Arc<Self> {
        let home = std::thread::current().id();
        Arc::new(Self { home, queue: Mutex::default(), rings: Notify::new() })
    }

    /// Wakes who is in the queue, for as long as the worker lives.
    pub(crate) async fn answer(&self) {
        let mut woken = Vec::new();
        loop {
            self.rings.notified().await;
            std::mem::swap(&mut *self.lock(), &mut woken);
            for line in woken.drain(..) {
                // Before the wake: what happens from here on has to queue again.
                line.queued.store(false, Ordering::SeqCst);
                line.task.wake_by_ref();
            }
        }
    }

    /// Puts a line into the queue; true when nobody has rung for it yet.
    fn enqueue(&self, line: Arc<WaitingTask>) -> bool {
        let mut queue = self.lock();
        queue.push(line);
        queue.len() == 1
    }

    /// A panic under this lock cannot leave the queue half-written, so its poison says nothing.
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<WaitingTask>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl kallisto_wake::WakeUp for WakeQueue {
    fn ring(&self) {
        self.rings.notify_one();
    }
}

/// A task of the worker, as others wake it.
struct WaitingTask {
    queue: Arc<WakeQueue>,
    task: Waker,
    queued: AtomicBool,
}

impl Wake for WaitingTask {
    fn wake(self: Arc<Self>) {
        if std::thread::current().id() == self.queue.home {
            self.task.wake_by_ref();
        } else if !self.queued.swap(true, Ordering::SeqCst) {
            let queue = Arc::clone(&self.queue);
            if queue.enqueue(self) {
                kallisto_wake::ring(queue);
            }
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Arc::clone(self).wake();
    }
}

/// What a task of the worker polls its work through.
pub(crate) struct TaskRing {
    queue: Arc<WakeQueue>,
    line: Option<(Waker, Arc<WaitingTask>)>,
}

impl TaskRing {
    /// A way to wake a task of this queue's worker.
    pub(crate) const fn new(queue: Arc<WakeQueue>) -> Self {
        Self { queue, line: None }
    }

    /// Polls `work` so that what wakes it goes by the queue.
    pub(crate) fn poll<F: Future>(
        &mut self,
        work: Pin<&mut F>,
        context: &Context<'_>,
    ) -> Poll<F::Output> {
        let task = context.waker();
        let known = self.line.take().filter(|(_, line)| line.task.will_wake(task));
        let (waker, _) = self.line.insert(known.unwrap_or_else(|| {
            let (queue, queued) = (Arc::clone(&self.queue), AtomicBool::new(false));
            let line = Arc::new(WaitingTask { queue, task: task.clone(), queued });
            (Waker::from(Arc::clone(&line)), line)
        }));
        work.poll(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;

    /// A task's waker that counts.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn line(queue: &Arc<WakeQueue>, count: &Arc<Count>) -> Arc<WaitingTask> {
        let (queue, task) = (Arc::clone(queue), Waker::from(Arc::clone(count)));
        Arc::new(WaitingTask { queue, task, queued: AtomicBool::new(false) })
    }

    #[test]
    fn wakes_from_here_go_straight_and_those_from_elsewhere_queue_once() {
        let (queue, count) = (WakeQueue::here(), Arc::<Count>::default());
        let waker = Waker::from(line(&queue, &count));
        waker.wake_by_ref();
        assert_eq!((count.0.load(Ordering::SeqCst), queue.lock().len()), (1, 0));
        let woken_thrice = std::thread::spawn(move || (0..3).for_each(|_| waker.wake_by_ref()));
        woken_thrice.join().unwrap();
        assert_eq!((count.0.load(Ordering::SeqCst), queue.lock().len()), (1, 1));
        let mut answering = pin!(queue.answer());
        assert!(answering.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!((count.0.load(Ordering::SeqCst), queue.lock().len()), (2, 0));
    }

    #[test]
    fn wakes_that_belong_together_are_rung_for_when_all_are_queued() {
        let (queue, count) = (WakeQueue::here(), Arc::<Count>::default());
        let lines = [line(&queue, &count), line(&queue, &count)].map(Waker::from);
        let mut answering = pin!(queue.answer());
        let mut answer = || {
            let woken = answering.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(woken.is_pending());
            count.0.load(Ordering::SeqCst)
        };
        let (go_on, may_go_on) = std::sync::mpsc::channel();
        let (say, said) = std::sync::mpsc::channel();
        let elsewhere = std::thread::spawn(move || {
            let _together = kallisto_wake::together();
            for line in lines {
                line.wake();
                say.send(()).unwrap();
                may_go_on.recv().unwrap();
            }
        });
        for _ in 0..2 {
            said.recv().unwrap();
            assert_eq!(answer(), 0);
            go_on.send(()).unwrap();
        }
        elsewhere.join().unwrap();
        assert_eq!(answer(), 2);
    }

    #[test]
    fn everybody_who_waits_for_another_thread_is_woken() {
        const TASKS: usize = 64;
        const ROUNDS: usize = 200;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let queue = WakeQueue::here();
            let answering = Arc::clone(&queue);
            tokio::spawn(async move { answering.answer().await });
            let (ask, asked) = std::sync::mpsc::channel::<oneshot::Sender<usize>>();
            let elsewhere = std::thread::spawn(move || {
                asked.into_iter().enumerate().for_each(|(n, answer)| answer.send(n).unwrap());
            });
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| {
                    let (ask, queue) = (ask.clone(), Arc::clone(&queue));
                    tokio::spawn(async move {
                        let mut ring = TaskRing::new(queue);
                        for _ in 0..ROUNDS {
                            let (answer, mut answered) = oneshot::channel();
                            ask.send(answer).unwrap();
                            poll_fn(|cx| ring.poll(Pin::new(&mut answered), cx)).await.unwrap();
                        }
                    })
                })
                .collect();
            drop(ask);
            for task in tasks {
                task.await.unwrap();
            }
            elsewhere.join().unwrap();
        });
    }
}
