//! One run, three stores, turns within each round: microseconds per insert, and what encryption adds.
//!
//! `bench-securedb [--dir DIR] [--rounds N] [--only TEXT] [--counts A,B] [--secs N]`. A row is a number of inserts, a length of
//! values, and a manner: *durable* commits each insert to the disk before the next, *batch* puts 1,000 into a commit and
//! makes all of them durable at the end, which is part of the time. A durable row stops after `--secs`, because a hundred thousand
//! syncs take some stores minutes; what counts is the time of one insert. Each round starts from empty directories. The
//! median of the rounds is shown, and for encryption the median of the rounds' ratios: two stores that took turns within
//! one round saw the same machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kallisto_lsm::disk::RealDisk;
use kallisto_lsm::{Engine, EntryBatch, LogKeeping, Options, Sync, SyncMode};
use kallisto_securedb::{DbOptions, SecureDb, WriteBatch, WriteDurability};
use redb::{Database, Durability as RedbDurability, TableDefinition};

const SIZES: [usize; 3] = [5, 1_024, 10_240];
const BATCH: usize = 1_000;
const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("bench");

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Durable,
    Batch,
}

struct Settings {
    dir: PathBuf,
    rounds: usize,
    only: String,
    counts: Vec<usize>,
    limit: Duration,
}

impl Settings {
    fn parse() -> Self {
        let mut this = Self {
            dir: std::env::temp_dir().join(format!("bench-securedb-{}", std::process::id())),
            rounds: 3,
            only: String::new(),
            counts: vec![1_000, 100_000],
            limit: Duration::from_secs(3),
        };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let text = args.next().unwrap_or_else(|| panic!("{name} wants a value"));
            match name.as_str() {
                "--dir" => this.dir = text.into(),
                "--rounds" => this.rounds = text.parse().expect("a number"),
                "--only" => this.only = text,
                "--counts" => {
                    let numbers = text.split(',').map(|count| count.parse().expect("a number"));
                    this.counts = numbers.collect();
                }
                "--secs" => this.limit = Duration::from_secs(text.parse().expect("a number")),
                other => panic!("no option {other}"),
            }
        }
        this
    }
}

/// What is measured of each store.
trait Store {
    fn insert(&self, name: &str, value: &[u8]);
    fn insert_many(&self, entries: &[(String, Vec<u8>)]);
    fn finish(&self);
}

struct Plain {
    engine: Engine,
    sync: Sync,
}

impl Plain {
    fn open(dir: &Path, manner: Manner) -> Self {
        let mode = SyncMode::Every { ops: 10_000, interval: Duration::from_millis(200) };
        let options = Options { durability: LogKeeping::Wal(mode), ..Options::default() };
        let sync = if manner == Manner::Durable { Sync::Now } else { Sync::Mode };
        let engine = Engine::open(RealDisk::shared(), dir, options).expect("opened");
        Self { engine, sync }
    }
}

impl Store for Plain {
    fn insert(&self, name: &str, value: &[u8]) {
        let mut batch = EntryBatch::new();
        batch.put(name.as_bytes(), value).expect("fits");
        self.engine.write(&batch, self.sync).expect("written");
    }

    fn insert_many(&self, entries: &[(String, Vec<u8>)]) {
        let mut batch = EntryBatch::new();
        for (name, value) in entries {
            batch.put(name.as_bytes(), value).expect("fits");
        }
        self.engine.write(&batch, self.sync).expect("written");
    }

    fn finish(&self) {
        self.engine.sync().expect("synced");
    }
}

struct Secure(SecureDb);

impl Secure {
    fn open(dir: &Path, manner: Manner) -> Self {
        let key: [u8; 32] = std::array::from_fn(|n| n as u8);
        let durability = if manner == Manner::Durable {
            WriteDurability::Strict
        } else {
            WriteDurability::Batch
        };
        let options = DbOptions { durability, ..DbOptions::default() };
        Self(SecureDb::open_with(dir, &key, &options).expect("opened"))
    }
}

impl Store for Secure {
    fn insert(&self, name: &str, value: &[u8]) {
        self.0.insert(name, value).expect("written");
    }

    fn insert_many(&self, entries: &[(String, Vec<u8>)]) {
        let mut batch = WriteBatch::new();
        for (name, value) in entries {
            batch.insert(name, value).expect("fits");
        }
        self.0.write(&batch).expect("written");
    }

    fn finish(&self) {
        self.0.flush().expect("synced");
    }
}

struct Redb {
    database: Database,
    durability: RedbDurability,
}

impl Redb {
    fn open(dir: &Path, manner: Manner) -> Self {
        std::fs::create_dir_all(dir).expect("a directory");
        let database = Database::create(dir.join("redb")).expect("opened");
        let durability = match manner {
            Manner::Durable => RedbDurability::Immediate,
            Manner::Batch => RedbDurability::None,
        };
        Self { database, durability }
    }

    fn write(&self, entries: &[(&str, &[u8])], durability: RedbDurability) {
        let mut transaction = self.database.begin_write().expect("begun");
        transaction.set_durability(durability).expect("set");
        {
            let mut table = transaction.open_table(TABLE).expect("opened");
            for (name, value) in entries {
                table.insert(name.as_bytes(), *value).expect("inserted");
            }
        }
        transaction.commit().expect("committed");
    }
}

impl Store for Redb {
    fn insert(&self, name: &str, value: &[u8]) {
        self.write(&[(name, value)], self.durability);
    }

    fn insert_many(&self, entries: &[(String, Vec<u8>)]) {
        let entries: Vec<_> = entries.iter().map(|(n, v)| (n.as_str(), v.as_slice())).collect();
        self.write(&entries, self.durability);
    }

    fn finish(&self) {
        self.write(&[], RedbDurability::Immediate);
    }
}

fn name(number: usize) -> String {
    // No order: names that count up would be an easy case for a sorted file.
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    format!("team-{:04}/service-{:02}/key-{number:07}", mixed % 1_000, mixed % 97)
}

/// Microseconds per insert.
fn measure(store: &dyn Store, manner: Manner, count: usize, size: usize, limit: Duration) -> f64 {
    let value = |number: usize| vec![(number % 251) as u8; size];
    match manner {
        Manner::Durable => {
            let start = Instant::now();
            let mut done = 0;
            while done < count && start.elapsed() < limit {
                store.insert(&name(done), &value(done));
                done += 1;
            }
            store.finish();
            start.elapsed().as_secs_f64() * 1e6 / done as f64
        }
        Manner::Batch => {
            let mut spent = Duration::ZERO;
            for from in (0..count).step_by(BATCH) {
                let entries: Vec<_> =
                    (from..(from + BATCH).min(count)).map(|n| (name(n), value(n))).collect();
                let start = Instant::now();
                store.insert_many(&entries);
                spent += start.elapsed();
            }
            let start = Instant::now();
            store.finish();
            (spent + start.elapsed()).as_secs_f64() * 1e6 / count as f64
        }
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn row(settings: &Settings, manner: Manner, count: usize, size: usize) {
    let manner_name = if manner == Manner::Durable { "durable" } else { "batch" };
    let title = format!("{manner_name} {count} x {size} B");
    if !title.contains(&settings.only) {
        return;
    }
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..settings.rounds {
        for turn in 0..3 {
            // Another store begins each round.
            let which = (turn + round) % 3;
            let dir = settings.dir.join(format!("{which}"));
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).expect("a directory");
            let store: Box<dyn Store> = match which {
                0 => Box::new(Plain::open(&dir, manner)),
                1 => Box::new(Secure::open(&dir, manner)),
                _ => Box::new(Redb::open(&dir, manner)),
            };
            times[which].push(measure(&*store, manner, count, size, settings.limit));
        }
    }
    let ratios = times[1].iter().zip(&times[0]).map(|(secure, plain)| secure / plain).collect();
    let [plain, secure, redb] = times.map(median);
    println!(
        "{title:<28} plain {plain:>9.2}  secure {secure:>9.2}  redb {redb:>9.2}  secure/plain {:>6.3}",
        median(ratios)
    );
}

fn main() {
    let settings = Settings::parse();
    println!("microseconds per insert, median of {} rounds", settings.rounds);
    for &count in &settings.counts {
        for size in SIZES {
            row(&settings, Manner::Durable, count, size);
            row(&settings, Manner::Batch, count, size);
        }
    }
    let _ = std::fs::remove_dir_all(&settings.dir);
}
