//! Snapshots and backups chunk by chunk: what is read of them, and what becomes of one on its way in.
#![expect(clippy::indexing_slicing, reason = "tests index what they built")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kallisto_lsm::clock::Clock;
use kallisto_lsm::disk::{Disk, MemDisk};

use super::*;
use crate::cluster::{ChunkSink, Chunks};
use crate::raft::limits::{SNAPSHOT_CHUNK_BYTES, SNAPSHOT_HELD};
use crate::raft::lock;
use crate::raft::requests::{Backpressure, DriverRequest};
use crate::{Batch, RaftOptions, RaftStore, Record, Replicated, Seqno, Store};

#[derive(Debug, Default)]
struct ManualClock(Mutex<Duration>);

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *lock(&self.0)
    }

    fn sleep(&self, by: Duration) {
        *lock(&self.0) += by;
    }
}

struct Bench {
    store: Arc<RaftStore>,
    clock: Arc<ManualClock>,
    disk: Arc<MemDisk>,
}

impl Bench {
    fn new() -> Self {
        let (clock, disk) = (Arc::<ManualClock>::default(), MemDisk::shared());
        let engine = kallisto_lsm::Options {
            background: kallisto_lsm::Background::Inline,
            ..RaftOptions::default().engine
        };
        let options = RaftOptions {
            engine,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            has_threads: false,
            ..RaftOptions::default()
        };
        let store = RaftStore::open(Arc::clone(&disk) as Arc<dyn Disk>, "s", options).unwrap();
        Self { store, clock, disk }
    }

    fn put(&self, key: u8, bytes: usize) {
        let mut batch = Batch::new();
        batch.put(vec![key], vec![key; bytes]);
        self.store.commit(batch).wait().unwrap();
    }

    /// A snapshot of some records, the last of them in a chunk of its own.
    fn snapshot() -> (Vec<Bytes>, u64) {
        let bench = Self::new();
        (0..3).for_each(|key| bench.put(key, SNAPSHOT_CHUNK_BYTES / 2));
        let chunks = all(&mut *bench.store.snapshot().unwrap());
        assert_eq!(chunks.len(), 4, "head, two of records, end");
        (chunks, bench.store.position().0)
    }

    /// Takes a snapshot of its own store in from server 2.
    fn incoming(&self) -> Box<Incoming> {
        Box::new(Incoming::new(&self.store.shared, self.store.store_id(), 2).unwrap())
    }

    /// What the driver was told since it was asked last.
    fn fetched(&self) -> Option<Fetched> {
        let mut taken = Vec::new();
        self.store.shared.requests.take(&mut taken, Backpressure::On);
        assert!(taken.len() <= 1);
        taken.pop().map(|request| match request {
            DriverRequest::Fetched(fetched) => fetched,
            other => panic!("{other:?}"),
        })
    }

    /// How many files engines have besides the one in use.
    fn files(&self) -> usize {
        self.disk.files().keys().filter(|path| path.starts_with("s/engine-1")).count()
    }
}

fn all(chunks: &mut dyn Chunks) -> Vec<Bytes> {
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next_chunk().unwrap() {
        all.push(chunk.into());
    }
    all
}

fn why<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Damaged(what)) => what,
        Err(error) => panic!("{error}"),
        Ok(_) => "none".into(),
    }
}

#[test]
fn a_snapshot_that_came_whole_can_take_the_place_of_another() {
    let (chunks, index) = Bench::snapshot();
    let bench = Bench::new();
    let mut sink = bench.incoming();
    assert_eq!(sink.place(), None, "from the start");
    for chunk in chunks {
        sink.take(chunk).unwrap();
    }
    sink.finish().unwrap();
    let Some(Fetched::Whole(whole)) = bench.fetched() else { panic!("it is not whole") };
    assert_eq!((whole.index, whole.store_id), (index, bench.store.store_id()));
    assert_eq!((whole.engine, whole.membership.voters), (1, vec![1]));
    assert!(bench.files() > 0, "its files stay");
}

#[test]
fn what_came_of_a_snapshot_is_kept_while_its_sender_has_the_rest() {
    let (chunks, index) = Bench::snapshot();
    let bench = Bench::new();
    let mut sink = bench.incoming();
    sink.take(chunks[0].clone()).unwrap();
    bench.clock.sleep(SNAPSHOT_HELD - Duration::from_secs(1));
    sink.take(chunks[1].clone()).unwrap();
    let place = sink.place().unwrap();
    drop(sink);
    let Some(Fetched::Part(part)) = bench.fetched() else { panic!("nothing is kept") };
    let now = bench.clock.now();
    assert!(part.is_wanted(2, index - 1, now));
    assert!(!part.is_wanted(3, index - 1, now), "of another sender");
    assert!(!part.is_wanted(2, index, now), "it brings nothing new");
    let end = now + SNAPSHOT_HELD;
    let just_before = end - Duration::from_nanos(1);
    assert!(!part.is_past(just_before) && part.is_wanted(2, 0, just_before));
    assert!(part.is_past(end) && !part.is_wanted(2, 0, end));
    let mut sink = Box::new(Incoming::resume(part));
    assert_eq!(sink.place(), Some(place.clone()));
    let place = ResumePoint::decode(&place).unwrap();
    assert_eq!((place.index, place.records), (index, 2));
    chunks[2..].iter().for_each(|chunk| sink.take(chunk.clone()).unwrap());
    sink.finish().unwrap();
    assert!(matches!(bench.fetched(), Some(Fetched::Whole(_))));
}

#[test]
fn nothing_is_kept_of_a_snapshot_that_is_none_and_its_files_go() {
    let (chunks, _) = Bench::snapshot();
    let bench = Bench::new();
    let (head, first, second, end) = (&chunks[0], &chunks[1], &chunks[2], &chunks[3]);
    let mut other = head.to_vec();
    // The first byte of the store's id.
    other[5] ^= 1;
    let other = &Bytes::from(other);
    let too_large = &Bytes::from(vec![0; CHUNK_BYTES_MAX + 1]);
    let cases: [(&[&Bytes], &str); 9] = [
        (&[other], "of another store"),
        (&[first], "out of order"),
        (&[end], "out of order"),
        (&[head, head], "out of order"),
        (&[head, second], "cannot be read"),
        (&[head, first, end], "out of order"),
        (&[head, first, second, end, end], "too many"),
        (&[head, too_large], "too large"),
        (&[head, &too_large.slice(1..)], "cannot be read"),
    ];
    for (taken, expected) in cases {
        let mut sink = bench.incoming();
        let (last, before) = taken.split_last().unwrap();
        before.iter().for_each(|&chunk| sink.take(chunk.clone()).unwrap());
        assert!(bench.files() > 0);
        let what = why(sink.take((*last).clone()));
        assert!(what.contains(expected), "{what} instead of {expected}");
        assert_eq!(bench.files(), 0, "{expected}");
        assert!(why(sink.take(head.clone())).contains("over"));
        assert_eq!(sink.place(), None);
        drop(sink);
        assert!(matches!(bench.fetched(), Some(Fetched::Nothing)));
    }
    // Nothing came, its sender forgot it, or it has no end.
    drop(bench.incoming());
    assert!(matches!(bench.fetched(), Some(Fetched::Nothing)));
    let mut sink = bench.incoming();
    sink.take(head.clone()).unwrap();
    sink.gone();
    assert!(matches!(bench.fetched(), Some(Fetched::Nothing)));
    let mut sink = bench.incoming();
    chunks[..3].iter().for_each(|chunk| sink.take(chunk.clone()).unwrap());
    assert!(why(sink.finish()).contains("no end"));
    assert!(matches!(bench.fetched(), Some(Fetched::Nothing)));
    assert_eq!(bench.files(), 0);
}

#[test]
fn the_rest_of_a_snapshot_is_what_lies_behind_its_place() {
    let bench = Bench::new();
    (0..3).for_each(|key| bench.put(key, SNAPSHOT_CHUNK_BYTES / 2));
    let chunks = all(&mut *bench.store.snapshot().unwrap());
    let other = Bench::new();
    let mut sink = other.incoming();
    for (at, chunk) in chunks.iter().enumerate() {
        sink.take(chunk.clone()).unwrap();
        let place = sink.place().unwrap();
        let rest = bench.store.snapshot_behind(&place).unwrap().unwrap();
        // Behind the end there is the end again.
        let expected = &chunks[(at + 1).min(chunks.len() - 1)..];
        assert_eq!(all(&mut *{ rest }), expected, "behind {at}");
    }
}

/// A chunk of a snapshot that begins with these records.
fn records_chunk(records: &[(usize, usize)]) -> Bytes {
    let mut body = Vec::new();
    for &(key, value) in records {
        for bytes in [key, value] {
            body.extend_from_slice(&u32::try_from(bytes).unwrap().to_le_bytes());
            body.resize(body.len() + bytes, 1);
        }
    }
    let mut out = vec![RECORDS];
    out.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    out.extend_from_slice(&body);
    out.into()
}

fn records_in(chunk: &Bytes) -> Option<usize> {
    match read_chunk(chunk, 0)? {
        SnapshotChunk::Records(records, _) => Some(records.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_of_a_chunk_are_as_many_and_as_long_as_their_limits_let_them() {
    let key_max = KEY_BYTES_MAX + ENGINE_KEY_OVERHEAD;
    assert_eq!(records_in(&records_chunk(&[])), Some(0));
    assert_eq!(records_in(&records_chunk(&[(key_max, 0)])), Some(1));
    assert_eq!(records_in(&records_chunk(&[(key_max + 1, 0)])), None);
    let part = Bytes::from_static(b"\x05\0\0\0value");
    let read = |bytes_max| read_part(&mut SharedReader::new(&part), bytes_max);
    assert_eq!(read(5), Some(Bytes::from_static(b"value")));
    assert_eq!(read(4), None);
    let many = |count| records_in(&records_chunk(&vec![(0, 0); count]));
    assert_eq!(many(SNAPSHOT_RECORDS_MAX), Some(SNAPSHOT_RECORDS_MAX));
    assert_eq!(many(SNAPSHOT_RECORDS_MAX + 1), None);
}

fn head(index: u64, term: u64) -> Vec<u8> {
    let head = BackupHead { store_id: [7; 16], index, term };
    let no_records = std::iter::empty::<(Box<[u8]>, Record)>();
    BackupWriter::new(head, no_records).next_chunk().unwrap().unwrap()
}

#[test]
fn a_head_says_where_it_is_and_in_which_format() {
    let read = |bytes: Vec<u8>| match read_chunk(&bytes.into(), 0)? {
        SnapshotChunk::Head(head) => Some((head.store_id, head.index, head.term)),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(head(9, 2)), Some(([7; 16], 9, 2)));
    assert_eq!(read(head(0, 0)), Some(([7; 16], 1, 1)), "neither is 0");
    // Offsets: the kind, the format, the store, the index, the term.
    for (at, bytes) in [(1, 4), (5 + 16, 8), (5 + 16 + 8, 8)] {
        let mut wrong = head(9, 2);
        wrong[at..at + bytes].fill(0);
        assert_eq!(read(wrong), None, "from {at}");
    }
    assert_eq!(read([&head(9, 2)[..], &[0]].concat()), None);
}

fn end(records: u64, checksum: u32) -> Bytes {
    let mut out = vec![END];
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&records.to_le_bytes());
    out.into()
}

#[test]
fn a_backup_is_read_in_order_and_to_its_end() {
    let head = Bytes::from(head(9, 2));
    let chunk = records_chunk(&[(3, SEQNO_BYTES + 5)]);
    let checksum = u32::from_le_bytes(chunk[1..5].try_into().unwrap());
    let read = |chunks: &[&Bytes]| {
        let mut reader = BackupReader::default();
        let mut records = Vec::new();
        for &chunk in chunks {
            assert_eq!(reader.records(), None);
            records.extend(reader.take(chunk)?);
        }
        Ok((reader.records(), records))
    };
    let record = (Bytes::from_static(&[1; 3]), Bytes::from_static(&[1; 5]));
    let whole = read(&[&head, &chunk, &end(1, checksum)]).unwrap();
    assert_eq!(whole, (Some(1), vec![record]));
    assert_eq!(read(&[&head, &end(0, 0)]).unwrap(), (Some(0), vec![]));
    let order = "out of order";
    let over = Bytes::from(vec![0; CHUNK_BYTES_MAX + 1]);
    let cases: [(&[&Bytes], &str); 10] = [
        (&[&chunk], order),
        (&[&end(0, 0)], order),
        (&[&head, &head], order),
        (&[&head, &end(1, 0)], order),
        (&[&head, &chunk, &end(1, 0)], order),
        (&[&head, &chunk, &end(2, checksum)], order),
        (&[&head, &over], "too large"),
        (&[&head, &over.slice(1..)], "cannot be read"),
        (&[&head, &records_chunk(&[(KEY_BYTES_MAX + 1, SEQNO_BYTES)])], "none"),
        (&[&head, &records_chunk(&[(1, SEQNO_BYTES - 1)])], "none"),
    ];
    for (chunks, expected) in cases {
        let what = why(read(chunks));
        assert!(what.contains(expected), "{what} instead of {expected}");
    }
    let longest = records_chunk(&[(KEY_BYTES_MAX, SEQNO_BYTES)]);
    assert_eq!(read(&[&head, &longest]).unwrap().1.len(), 1);
    let mut reader = BackupReader::default();
    [&head, &end(0, 0)].into_iter().for_each(|chunk| _ = reader.take(chunk).unwrap());
    assert!(reader.take(&end(0, 0)).is_err(), "it is over");
}

/// Bytes of a record in a chunk besides its key and value.
const RECORD_OVERHEAD: usize = 4 + 4 + SEQNO_BYTES;

#[test]
fn a_chunk_ends_with_the_record_that_fills_it() {
    let sizes = |values: &[usize]| {
        let records = values.iter().zip(1_u64..).map(|(&bytes, at)| {
            let value = Bytes::from(vec![7; bytes]);
            (at.to_be_bytes().into(), Record { value, seqno: Seqno(at) })
        });
        let head = BackupHead { store_id: [7; 16], index: 9, term: 2 };
        let of_backup = all(&mut BackupWriter::new(head, records));
        let bench = Bench::new();
        for (bytes, at) in values.iter().zip(1_u64..) {
            let mut batch = Batch::new();
            batch.put(at.to_be_bytes().to_vec(), vec![7; *bytes]);
            bench.store.commit(batch).wait().unwrap();
        }
        let of_store = all(&mut *bench.store.backup().unwrap().1);
        let lengths = |chunks: Vec<Bytes>| {
            let count = chunks.len() - 1;
            chunks[1..count].iter().map(Bytes::len).collect::<Vec<_>>()
        };
        (lengths(of_backup), lengths(of_store))
    };
    let overhead = RECORD_OVERHEAD + 8;
    // A backup of another store counts its records alone, a snapshot what stands before them as well.
    let (backup, _) = sizes(&[SNAPSHOT_CHUNK_BYTES - overhead, 1, 1]);
    assert_eq!(backup, [5 + SNAPSHOT_CHUNK_BYTES, 5 + 2 * (overhead + 1)]);
    let (backup, _) = sizes(&[SNAPSHOT_CHUNK_BYTES - overhead - 1, 1, 1]);
    assert_eq!(backup.len(), 2);
    assert_eq!(backup[1], 5 + overhead + 1);
    let (_, store) = sizes(&[SNAPSHOT_CHUNK_BYTES - overhead - 5, 1, 1]);
    assert_eq!(store, [SNAPSHOT_CHUNK_BYTES, 5 + 2 * (overhead + 1)]);
    let (_, store) = sizes(&[SNAPSHOT_CHUNK_BYTES - overhead - 6, 1, 1]);
    assert_eq!(store[1], 5 + overhead + 1);
}

#[test]
fn moments_are_held_in_turn_and_the_log_behind_the_first_of_them() {
    let bench = Bench::new();
    let held = HeldMoments::default();
    assert_eq!(held.floor(), u64::MAX);
    let second = Duration::from_secs(1);
    let moments: Vec<_> = (0..=crate::raft::limits::SNAPSHOTS_HELD_MAX)
        .map(|at| {
            bench.put(1, 1);
            let moment = bench.store.shared.machine.moment().unwrap();
            let place = ResumePoint {
                index: moment.index,
                term: moment.term,
                checksum: 0,
                records: 0,
                last_key: Vec::new(),
            };
            held.keep(Arc::new(moment), second * u32::try_from(at).unwrap());
            place
        })
        .collect();
    let now = 4 * second;
    assert!(held.find(&moments[0], now).is_none(), "another took its place");
    assert_eq!(held.floor(), moments[1].index);
    let other_term = ResumePoint { term: moments[2].term + 1, ..moments[2].clone() };
    assert!(held.find(&other_term, now).is_none());
    let found = held.find(&moments[1], now).unwrap();
    assert_eq!(found.index, moments[1].index);
    // The first is in use and stays; the others go at their time.
    held.sweep(SNAPSHOT_HELD + 3 * second);
    assert!(held.find(&moments[3], now).is_none(), "its time is up to the nanosecond");
    assert!(held.find(&moments[4], now).is_some() && held.find(&moments[1], now).is_some());
    assert_eq!(held.floor(), moments[1].index);
    drop(found);
    held.clear();
    assert_eq!(held.floor(), u64::MAX);
    assert!(held.find(&moments[4], now).is_none());
}

#[test]
fn whatever_the_fuzzers_bring_is_read_or_not() {
    use crate::raft::{read_hostile_chunk, read_hostile_payload};
    let behind = |chunk: &[u8]| read_hostile_chunk(&[&[0; 4], chunk].concat());
    assert_eq!(behind(&records_chunk(&[(1, 1), (2, 2), (3, 3)])), 3);
    assert_eq!(behind(&end(0, 0)), 1);
    assert_eq!(behind(b"nonsense"), 0);
    assert_eq!(read_hostile_chunk(b"abc"), 0);
    let mut payload = Vec::new();
    let hard_state = raft::eraftpb::HardState::default();
    (0..3).for_each(|_| crate::raft::log::record::put_hard_state(&mut payload, &hard_state));
    assert_eq!(read_hostile_payload(&payload), 3);
    assert_eq!(read_hostile_payload(&[]), 0);
}
