//! Measures commits of the Raft store on a real directory: `commit_rates DIR [SECONDS]`.
//!
//! One writer at a time, 64 writers as tasks on two threads (as a server's requests are), 64 writers as threads; strict
//! and batch. Beside them a bare loop of write and fdatasync on a zero-filled file, which is what the disk can do. Kinds
//! take turns in five rounds; rows are medians, ratios the medians of the rounds' ratios.
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]
#![expect(clippy::print_stdout, reason = "this is a command-line tool")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use kallisto_lsm::disk::{Disk, RealDisk, write_all_at};
use kallisto_store::{Batch, Commit, Durability, RaftOptions, RaftStore, Store};

const VALUE_BYTES: usize = 128;
const ROUNDS: usize = 5;
const TASK_THREADS: usize = 2;

/// What a run did.
struct Figures {
    commits: u64,
    elapsed: Duration,
    /// Latencies in microseconds, sorted.
    latencies: Vec<u32>,
    syncs: u64,
}

fn batch(writer: usize, n: u64) -> Batch {
    let mixed = (n << 8 | writer as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut batch = Batch::new();
    batch.put(mixed.to_be_bytes().to_vec(), vec![7; VALUE_BYTES]);
    batch
}

/// Tasks of one thread that are ready to run.
#[derive(Default)]
struct Ready {
    queue: Mutex<VecDeque<usize>>,
    came: Condvar,
}

struct TaskWaker {
    task: usize,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.queue.lock().unwrap().push_back(self.task);
        self.ready.came.notify_one();
    }
}

/// Runs `tasks` writers on this thread until `end`; returns their latencies.
fn run_tasks(store: &RaftStore, first: usize, tasks: usize, end: Instant) -> Vec<u32> {
    let ready = Arc::<Ready>::default();
    let wakers: Vec<Waker> = (0..tasks)
        .map(|task| Waker::from(Arc::new(TaskWaker { task, ready: Arc::clone(&ready) })))
        .collect();
    let mut latencies = Vec::new();
    let mut running: Vec<Option<(Commit, Instant)>> = (0..tasks).map(|_| None).collect();
    let mut counts = vec![0_u64; tasks];
    let mut live = tasks;
    ready.queue.lock().unwrap().extend(0..tasks);
    while live > 0 {
        let mut queue = ready.queue.lock().unwrap();
        while queue.is_empty() {
            queue = ready.came.wait(queue).unwrap();
        }
        let woken = std::mem::take(&mut *queue);
        drop(queue);
        for task in woken {
            loop {
                if let Some((commit, began)) = &mut running[task] {
                    let mut context = Context::from_waker(&wakers[task]);
                    match Pin::new(commit).poll(&mut context) {
                        Poll::Pending => break,
                        Poll::Ready(outcome) => drop(outcome.unwrap()),
                    }
                    latencies.push(began.elapsed().as_micros() as u32);
                    running[task] = None;
                }
                let now = Instant::now();
                if now >= end {
                    live -= 1;
                    break;
                }
                let commit = store.commit(batch(first + task, counts[task]));
                counts[task] += 1;
                running[task] = Some((commit, now));
            }
        }
    }
    latencies
}

fn run_thread(store: &RaftStore, writer: usize, end: Instant) -> Vec<u32> {
    let mut latencies = Vec::new();
    for n in 0.. {
        let began = Instant::now();
        if began >= end {
            break;
        }
        store.commit(batch(writer, n)).wait().unwrap();
        latencies.push(began.elapsed().as_micros() as u32);
    }
    latencies
}

fn measure(
    dir: &Path,
    durability: Durability,
    seconds: f64,
    threads: usize,
    body: impl Fn(&RaftStore, usize, Instant) -> Vec<u32> + Sync,
) -> Figures {
    let _ = std::fs::remove_dir_all(dir);
    let options = RaftOptions { durability, ..RaftOptions::default() };
    let store = RaftStore::open(RealDisk::shared(), dir, options).unwrap();
    let before = store.stats().raft.unwrap();
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (store, all, body) = (&store, &all, &body);
            scope.spawn(move || {
                let latencies = body(store, thread, end);
                all.lock().unwrap().extend(latencies);
            });
        }
    });
    let elapsed = start.elapsed();
    let after = store.stats().raft.unwrap();
    drop(store);
    let _ = std::fs::remove_dir_all(dir);
    let mut latencies = all.into_inner().unwrap();
    latencies.sort_unstable();
    let syncs = after.log_syncs - before.log_syncs;
    Figures { commits: latencies.len() as u64, elapsed, latencies, syncs }
}

/// Write and fdatasync in a loop on a zero-filled file, as a lone writer's frames are.
fn bare(dir: &Path, seconds: f64) -> Figures {
    let disk = RealDisk;
    disk.create_dir(dir).unwrap();
    let path = dir.join("bare");
    let file = disk.create(&path).unwrap();
    write_all_at(&*file, &vec![0; 16 << 20], 0).unwrap();
    file.sync_data().unwrap();
    let mut latencies = Vec::new();
    let start = Instant::now();
    let mut at = 0;
    while start.elapsed().as_secs_f64() < seconds {
        let began = Instant::now();
        write_all_at(&*file, &[7; 232], at).unwrap();
        file.sync_data().unwrap();
        latencies.push(began.elapsed().as_micros() as u32);
        at = (at + 232) % (15 << 20);
    }
    let elapsed = start.elapsed();
    disk.remove(&path).unwrap();
    latencies.sort_unstable();
    let commits = latencies.len() as u64;
    Figures { commits, elapsed, latencies, syncs: commits }
}

/// Several runs of one kind.
struct Row {
    name: String,
    runs: Vec<Figures>,
}

impl Figures {
    fn rate(&self) -> f64 {
        self.commits as f64 / self.elapsed.as_secs_f64()
    }
}

impl Row {
    fn print(&mut self) {
        self.runs.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        let median = &self.runs[self.runs.len() / 2];
        let at =
            |part: f64| median.latencies[((median.latencies.len() - 1) as f64 * part) as usize];
        println!(
            "{:28} {:>9.0} /s  p50 {:>6} us  p99 {:>6} us  {:>7.1} commits a sync  (runs {:.0} to {:.0})",
            self.name,
            median.rate(),
            at(0.5),
            at(0.99),
            median.commits as f64 / median.syncs.max(1) as f64,
            self.runs[0].rate(),
            self.runs[self.runs.len() - 1].rate(),
        );
    }
}

/// The median of the rounds' ratios: what disturbs the machine disturbs neighbours alike.
fn ratio(over: &Row, under: &Row) -> f64 {
    let mut ratios: Vec<f64> =
        over.runs.iter().zip(&under.runs).map(|(a, b)| a.rate() / b.rate()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = std::path::PathBuf::from(args.next().expect("a directory"));
    let seconds: f64 = args.next().map_or(0.5, |seconds| seconds.parse().unwrap());
    std::fs::create_dir_all(&dir).unwrap();
    let store = dir.join("store");
    let each = 64 / TASK_THREADS;
    for (mode, durability) in [("strict", Durability::Strict), ("batch", Durability::BATCH)] {
        let names = ["write and fdatasync alone", "1 writer", "64 tasks", "64 threads"];
        let mut rows = names.map(|name| Row { name: format!("{mode}: {name}"), runs: vec![] });
        for _ in 0..ROUNDS {
            rows[0].runs.push(bare(&dir, seconds));
            rows[1].runs.push(measure(&store, durability, seconds, 1, run_thread));
            let tasks = measure(&store, durability, seconds, TASK_THREADS, |store, n, end| {
                run_tasks(store, n * each, each, end)
            });
            rows[2].runs.push(tasks);
            rows[3].runs.push(measure(&store, durability, seconds, 64, run_thread));
        }
        let ratios = [ratio(&rows[2], &rows[1]), ratio(&rows[3], &rows[1])];
        rows.iter_mut().for_each(Row::print);
        println!("{mode}: 64 tasks {:.1}x, 64 threads {:.1}x one writer", ratios[0], ratios[1]);
    }
}
