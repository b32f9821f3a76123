//! Get (hit and miss), insert and mixed 95/5, at 50 and 90 % load, one thread and two, beside the
//! peers. One million slots; `BENCH_SLOTS=10485760` makes it ten, which takes minutes more.
//! `src/main.rs` measures the same in paired rounds, with
//! percentiles and memory; this is for following one change with criterion's statistics.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bench_cuckoo::keys::{Spread, key, value};
use bench_cuckoo::maps::{Many, Map, NAMES, Ours, make};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kallisto_cuckoo::Table;

/// Lookups under one guard.
const BATCH: usize = 16;
/// Operations a thread does in one sample.
const OPERATIONS: usize = 20_000;

fn slots() -> u32 {
    std::env::var("BENCH_SLOTS").map_or(1 << 20, |text| text.parse().expect("a number of slots"))
}

/// Runs `work` on each of `threads` threads, `iterations` times; the slowest thread's time.
fn timed(threads: usize, iterations: u64, work: &(impl Fn(usize) + Sync)) -> Duration {
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let started = Instant::now();
                    for _ in 0..iterations {
                        work(thread);
                    }
                    started.elapsed()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).max()
    });
    times.expect("a thread")
}

fn bench_map(criterion: &mut Criterion, map: &dyn Map, keys: u32, load: u32) {
    let streams = [1, 2].map(|seed| Spread::Uniform.stream(keys, OPERATIONS, seed));
    let missing = streams.clone().map(|stream| stream.iter().map(|n| n + keys).collect::<Vec<_>>());
    for threads in [1, 2] {
        let mut group = criterion.benchmark_group(format!("{load}% load, {threads} threads"));
        group.throughput(Throughput::Elements((threads * OPERATIONS) as u64));
        for (name, streams) in [("get hit", &streams), ("get miss", &missing)] {
            group.bench_function(BenchmarkId::new(name, map.name()), |bencher| {
                bencher.iter_custom(|iterations| {
                    timed(threads, iterations, &|thread| {
                        for batch in streams[thread].chunks(BATCH) {
                            black_box(map.read(batch));
                        }
                    })
                });
            });
        }
        group.bench_function(BenchmarkId::new("mixed 95/5", map.name()), |bencher| {
            bencher.iter_custom(|iterations| {
                timed(threads, iterations, &|thread| {
                    for batch in streams[thread].chunks(BATCH + 4) {
                        map.put(&key(batch[0]), &value(1));
                        black_box(map.read(&batch[1..]));
                    }
                })
            });
        });
        group.finish();
    }
}

fn bench_insert(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("insert into an empty map with room");
    group.throughput(Throughput::Elements(OPERATIONS as u64));
    for name in NAMES.iter().filter(|name| **name != "kallisto get_many") {
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|iterations| {
                (0..iterations)
                    .map(|_| {
                        let map = make(name, OPERATIONS);
                        let started = Instant::now();
                        for number in 0..OPERATIONS as u32 {
                            map.put(&key(number), &value(0));
                        }
                        started.elapsed()
                    })
                    .sum()
            });
        });
    }
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    bench_insert(criterion);
    for load in [50, 90] {
        let keys = slots() / 100 * load;
        for name in NAMES.iter().filter(|name| !name.starts_with("kallisto")) {
            let map = make(name, keys as usize);
            (0..keys).for_each(|number| map.put(&key(number), &value(0)));
            bench_map(criterion, &*map, keys, load);
        }
        let ours = Ours(Table::with_capacity(keys as usize).expect("a table"));
        (0..keys).for_each(|number| ours.put(&key(number), &value(0)));
        bench_map(criterion, &ours, keys, load);
        bench_map(criterion, &Many(&ours), keys, load);
    }
}

criterion_group! {
    name = table;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = benches
}
criterion_main!(table);
