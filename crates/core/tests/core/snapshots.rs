//! Snapshots by the clock, into a shelf in memory: what counts as one, what goes and what stays.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kallisto_core::{
    BackgroundTask, Core, Error, InitSpec, Json, KvVersion, Map, Operation, Response, ServerInfo,
    SnapshotPlace, SnapshotSink, SnapshotStorage, SnapshotTarget, StoredSnapshot, Threads,
};

use crate::aged::AgedStore;
use crate::support::{TOKEN, ask_as, whole_core};

const CONFIG: &str = "sys/storage/raft/snapshot-auto/config/here";
const STATUS: &str = "sys/storage/raft/snapshot-auto/status/here";
/// When the first snapshot is made, and how long the schedule waits for the next.
const START: i64 = 1_000_000;
const INTERVAL: i64 = 3600;

/// Runs what is to be run at once, in place of the caller.
pub(crate) struct Inline;

impl Threads for Inline {
    fn start(&self, _name: &'static str, task: BackgroundTask) -> io::Result<()> {
        task();
        Ok(())
    }

    fn pause(&self, _duration: Duration) {}

    fn wait(&self, future: Pin<&mut dyn Future<Output = ()>>) {
        pollster::block_on(future);
    }
}

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A place for snapshots in memory.
#[derive(Clone, Default)]
pub(crate) struct Shelf {
    files: Files,
    /// Whether what is read back has a byte that nobody wrote.
    spoils: Arc<AtomicBool>,
}

/// A snapshot on its way there.
struct Arriving {
    files: Files,
    name: String,
    bytes: Vec<u8>,
}

impl SnapshotSink for Arriving {
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        self.files.lock().unwrap().insert(self.name, self.bytes);
        Ok(())
    }
}

impl SnapshotStorage for Shelf {
    fn create(&self, target: &SnapshotTarget, name: &str) -> Result<Box<dyn SnapshotSink>, String> {
        if matches!(target, SnapshotTarget::Local { directory } if directory == "/broken") {
            return Err("nobody answers".to_owned());
        }
        let files = Arc::clone(&self.files);
        Ok(Box::new(Arriving { files, name: name.to_owned(), bytes: Vec::new() }))
    }

    fn open(
        &self,
        _: &SnapshotTarget,
        name: &str,
        bytes: u64,
    ) -> Result<Box<dyn Read + Send>, String> {
        let mut file = self.files.lock().unwrap()[name].clone();
        assert_eq!(file.len() as u64, bytes);
        if self.spoils.load(Ordering::SeqCst) {
            let middle = file.len() / 2;
            file[middle] ^= 1;
        }
        Ok(Box::new(Cursor::new(file)))
    }

    fn list(&self, _: &SnapshotTarget, prefix: &str) -> Result<Vec<StoredSnapshot>, String> {
        let files = self.files.lock().unwrap();
        let named = files.iter().filter(|(name, _)| name.starts_with(prefix));
        let show = |(name, bytes): (&String, &Vec<u8>)| StoredSnapshot {
            name: name.clone(),
            bytes: bytes.len() as u64,
        };
        Ok(named.map(show).collect())
    }

    fn delete(&self, _: &SnapshotTarget, name: &str) -> Result<(), String> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }

    /// `/link` is another name of the directory that the tests write to.
    fn place(&self, target: &SnapshotTarget) -> SnapshotPlace {
        match target {
            SnapshotTarget::Local { directory } if directory == "/link" => {
                SnapshotPlace::Directory("/snapshots".into())
            }
            _ => target.place(),
        }
    }
}

/// A server with a shelf, a secret and one schedule.
struct Site {
    core: Core,
    store: Arc<AgedStore>,
    shelf: Shelf,
}

impl Site {
    fn open(retain: u64, space_max: u64) -> Self {
        Self::of_cluster(0, retain, space_max)
    }

    fn of_cluster(number: u8, retain: u64, space_max: u64) -> Self {
        let (store, shelf) = (Arc::<AgedStore>::default(), Shelf::default());
        store.become_readable();
        store.be_of(number);
        let core = whole_core(Arc::clone(&store) as _, ServerInfo::default())
            .with_snapshots(Arc::new(shelf.clone()))
            .with_threads(Arc::new(Inline));
        let root_token = Some(TOKEN.to_owned().into());
        let spec = InitSpec { shares: 1, threshold: 1, root_token, mount_kv: Some(KvVersion::V2) };
        let made = pollster::block_on(core.initialize(&spec, Timestamp::UNIX_EPOCH)).unwrap();
        let keys = kallisto_core::Initialized::hex(&made.keys);
        let site = Self { core, store, shelf };
        site.update("sys/unseal", &format!(r#"{{"key":"{}"}}"#, keys[0]));
        site.update("secret/data/a", r#"{"data":{"v":"one"}}"#);
        site.schedule(retain, space_max);
        site
    }

    fn update(&self, path: &str, body: &str) {
        ask_as(&self.core, TOKEN, 0, Operation::Update, path, body).unwrap();
    }

    fn schedule(&self, retain: u64, space_max: u64) {
        let body = format!(
            r#"{{"interval":{INTERVAL},"retain":{retain},"storage_type":"local",
                "path_prefix":"/snapshots","local_max_space":{space_max}}}"#
        );
        self.update(CONFIG, &body);
    }

    /// Runs what is due then; what the status says, and the names of the files.
    fn pass(&self, secs: i64) -> (Map, Vec<String>) {
        let now = Timestamp::from_second(secs).unwrap();
        let ran = pollster::block_on(self.core.run_due_jobs(now));
        let failed = ran.err().map(|failed| {
            failed.iter().map(|job| format!("{}: {}", job.name, job.why())).collect::<Vec<_>>()
        });
        assert_eq!(failed, None);
        (self.status(secs), self.names())
    }

    fn status(&self, secs: i64) -> Map {
        let said = ask_as(&self.core, TOKEN, secs, Operation::Read, STATUS, "").unwrap();
        let Response::Logical(said) = said else { panic!("{said:?}") };
        kallisto_core::json::parse_object(&said.data).unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.shelf.files.lock().unwrap().keys().cloned().collect()
    }
}

fn number(status: &Map, name: &str) -> u64 {
    match &status[name] {
        Json::Number(text) => text.parse().unwrap(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_schedule_keeps_the_newest_of_its_own_snapshots() {
    let site = Site::open(2, 1 << 30);
    let others = ["kallisto-snapshot-of-mine.txt", "other-19700101T000000Z-1.snap"];
    for name in others {
        site.shelf.files.lock().unwrap().insert(name.to_owned(), b"kept".to_vec());
    }
    let mut made: Vec<String> = Vec::new();
    for count in 0..4_u32 {
        let at = START + i64::from(count) * INTERVAL;
        let (status, names) = site.pass(at);
        assert_eq!(status["last_snapshot_error"], "".into());
        assert_eq!(status["last_snapshot_verified"], true.into());
        assert!(number(&status, "last_snapshot_records") > 10, "{status:?}");
        assert_eq!(number(&status, "snapshots_kept"), u64::from(count + 1).min(2));
        let (foreign, own): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| others.contains(&name.as_str()));
        assert_eq!(foreign, others);
        made.extend(own.last().cloned());
        assert_eq!(own, made[made.len().saturating_sub(2)..], "the oldest go");
        // It is not due again a moment earlier than it may be.
        assert_eq!(
            site.pass(at + INTERVAL - 1).0["last_attempt_start"],
            status["last_attempt_start"]
        );
    }
    made.dedup();
    assert_eq!(made.len(), 4);
}

/// After a snapshot was restored, what came later is not remembered: it is what somebody may want back.
#[test]
fn snapshots_that_are_not_remembered_and_are_whole_go_in_their_turn() {
    let site = Site::open(3, 1 << 30);
    let first = site.pass(START).1;
    site.pass(START + INTERVAL);
    let later = "kallisto-snapshot-19700112T155500Z-9.snap";
    let broken = "kallisto-snapshot-19700112T155501Z-9.snap";
    {
        let mut files = site.shelf.files.lock().unwrap();
        let whole = files[&first[0]].clone();
        files.insert(broken.to_owned(), whole[..whole.len() / 2].to_vec());
        files.insert(later.to_owned(), whole);
    }
    let (status, names) = site.pass(START + 2 * INTERVAL);
    assert_eq!((status["last_snapshot_error"].as_str(), names.len()), (Some(""), 3));
    assert!(!names.contains(&first[0]) && !names.contains(&broken.to_owned()), "{names:?}");
    assert!(names.contains(&later.to_owned()), "{names:?}");
    // It is remembered from then on.
    let remembered = site.pass(START + 3 * INTERVAL).1;
    assert!(remembered.contains(&later.to_owned()), "{remembered:?}");
    site.pass(START + 4 * INTERVAL);
    let (status, names) = site.pass(START + 5 * INTERVAL);
    assert_eq!(number(&status, "snapshots_kept"), 3);
    assert!(!names.contains(&later.to_owned()), "{names:?}");
}

/// A snapshot that is restored elsewhere brings the schedules with it, and so the place where the first cluster has its own.
#[test]
fn snapshots_of_another_cluster_stay_and_take_no_room() {
    let other = Site::of_cluster(7, 2, 1 << 30);
    let file = other.pass(START).1.remove(0);
    let bytes = other.shelf.files.lock().unwrap()[&file].clone();
    let others = ["19700101T000000Z-1", "19700112T165959Z-8"]
        .map(|name| format!("kallisto-snapshot-{name}.snap"));
    let site = Site::open(1, 1 << 30);
    // One is damaged, or of a later version: it says whose it is all the same.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2..].fill(0xff);
    for (name, bytes) in others.iter().zip([&bytes, &damaged]) {
        site.shelf.files.lock().unwrap().insert(name.clone(), bytes.clone());
    }
    for count in 0..4 {
        let (status, names) = site.pass(START + count * INTERVAL);
        assert_eq!(status["last_snapshot_error"].as_str(), Some(""));
        assert_eq!((number(&status, "snapshots_kept"), names.len()), (1, 3), "{names:?}");
        assert!(others.iter().all(|name| names.contains(name)), "{names:?}");
    }
    let bytes = number(&site.status(START), "last_snapshot_bytes");
    site.schedule(1, bytes * 5 / 2);
    let (status, _) = site.pass(START + 5 * INTERVAL);
    assert_eq!(status["last_snapshot_error"].as_str(), Some(""), "its own have room");
}

#[test]
fn a_snapshot_that_is_not_read_back_as_it_was_written_is_none_and_costs_no_other() {
    let site = Site::open(1, 1 << 30);
    let (good, before) = site.pass(START);
    assert_eq!(before.len(), 1);
    site.shelf.spoils.store(true, Ordering::SeqCst);
    let (status, names) = site.pass(START + INTERVAL);
    assert_eq!(names, before, "the one before stays, and the spoilt one goes");
    let error = status["last_snapshot_error"].as_str().unwrap();
    assert!(error.contains("is not as it was"), "{error}");
    assert_eq!(number(&status, "consecutive_errors"), 1);
    assert_eq!(status["last_snapshot_end"], good["last_snapshot_end"]);
    assert_eq!(status["last_snapshot_url"], good["last_snapshot_url"]);
    // A failure is not waited for as long as the schedule is.
    site.shelf.spoils.store(false, Ordering::SeqCst);
    assert_eq!(site.pass(START + INTERVAL + 59).1, before);
    let (status, names) = site.pass(START + INTERVAL + 60);
    assert_eq!((number(&status, "consecutive_errors"), names.len()), (0, 1));
    assert_ne!(names, before);
}

#[test]
fn the_files_of_a_schedule_share_its_room() {
    let site = Site::open(10, 1 << 30);
    let bytes = number(&site.pass(START).0, "last_snapshot_bytes");
    site.schedule(10, bytes * 5 / 2);
    let (status, before) = site.pass(START + INTERVAL);
    assert_eq!((status["last_snapshot_error"].as_str(), before.len()), (Some(""), 2));
    let (status, names) = site.pass(START + 2 * INTERVAL);
    assert!(status["last_snapshot_error"].as_str().unwrap().contains("local_max_space"));
    assert_eq!(names, before);
    // Every one of them has room for itself.
    site.schedule(10, bytes / 2);
    assert_eq!(site.pass(START + 4 * INTERVAL).1, before);
}

#[test]
fn a_schedule_that_is_written_anew_goes_on_and_one_that_was_deleted_knows_nothing() {
    let site = Site::open(1, 1 << 30);
    let (status, _) = site.pass(START);
    site.schedule(2, 1 << 30);
    assert_eq!(site.status(START)["last_attempt_start"], status["last_attempt_start"]);
    ask_as(&site.core, TOKEN, 0, Operation::Delete, CONFIG, "").unwrap();
    let gone = ask_as(&site.core, TOKEN, 0, Operation::Read, STATUS, "");
    assert!(matches!(gone, Err(Error::NotFound)), "{gone:?}");
    site.schedule(1, 1 << 30);
    let status = site.status(START);
    assert_eq!(status["last_attempt_start"], Json::Null);
    assert_eq!(status["last_snapshot_verified"], false.into());
    assert_eq!(site.names().len(), 1, "the files stay");
}

/// One whose place does not answer takes longer for a try than it waits for the next.
#[test]
fn a_schedule_that_fails_again_and_again_keeps_no_other_waiting() {
    let site = Site::open(1, 1 << 30);
    let broken = r#"{"interval":"10s","storage_type":"local","path_prefix":"/broken",
        "local_max_space":1000000,"file_prefix":"other"}"#;
    site.update("sys/storage/raft/snapshot-auto/config/a", broken);
    for pass in 0..4 {
        site.pass(START + pass * 100);
    }
    assert_eq!(site.names().len(), 1);
}

#[test]
fn a_schedule_whose_status_cannot_be_kept_waits_all_the_same() {
    let site = Site::open(5, 1 << 30);
    site.store.fill(true);
    for secs in [0, 1, 59, INTERVAL - 1] {
        assert_eq!(site.pass(START + secs).1.len(), 1, "{secs}");
    }
    assert_eq!(site.pass(START + INTERVAL).1.len(), 2);
    // What is written anew is looked at at once.
    site.store.fill(false);
    site.schedule(4, 1 << 30);
    assert_eq!(site.pass(START + INTERVAL + 1).1.len(), 3);
    site.shelf.spoils.store(true, Ordering::SeqCst);
    site.store.fill(true);
    let tries = |secs| number(&site.pass(START + 2 * INTERVAL + secs).0, "consecutive_errors");
    assert_eq!([1, 2, 60].map(tries), [0; 3]);
    site.store.fill(false);
    assert_eq!([61, 62].map(tries), [1; 2], "a minute after the one that is not kept");
}

#[test]
fn a_snapshot_is_loaded_from_where_its_schedule_puts_it() {
    const LOAD: &str = "sys/storage/raft/snapshot-auto/snapshot-load/here";
    let site = Site::open(2, 1 << 30);
    let load = |body: &str| ask_as(&site.core, TOKEN, START, Operation::Update, LOAD, body);
    let refused = |body: &str| match load(body) {
        Err(Error::Invalid(why)) => why.to_string(),
        other => panic!("{body}: {other:?}"),
    };
    assert!(refused("{}").contains("no verified snapshot yet"));
    let (status, names) = site.pass(START);
    let url = status["last_snapshot_url"].as_str().unwrap();
    for other in ["file:///etc/passwd", "x", &url.replace(".snap", ".txt")] {
        let why = refused(&format!(r#"{{"url":"{other}"}}"#));
        assert!(why.contains("no file of the schedule here"), "{why}");
    }
    let missing = url.replace("19700", "19710");
    assert!(refused(&format!(r#"{{"url":"{missing}"}}"#)).contains("is not there"));
    for body in ["{}".to_owned(), format!(r#"{{"url":"{url}"}}"#)] {
        let Response::Logical(answer) = load(&body).unwrap() else { panic!("{names:?}") };
        let answer = kallisto_core::json::parse_object(&answer.data).unwrap();
        assert_eq!(answer["status"], "ready".into());
        assert!(refused("{}").contains("there is room for one"));
        let id = answer["snapshot_id"].as_str().unwrap();
        let loaded = format!("sys/storage/raft/snapshot-load/{id}");
        ask_as(&site.core, TOKEN, START, Operation::Delete, &loaded, "").unwrap();
    }
    let gone = LOAD.replace("here", "elsewhere");
    let none = ask_as(&site.core, TOKEN, START, Operation::Update, &gone, "{}");
    assert!(matches!(none, Err(Error::NotFound)), "{none:?}");
    // One that is not whole leaves the place free.
    site.shelf.spoils.store(true, Ordering::SeqCst);
    assert!(refused("{}").contains("not loaded"));
    site.shelf.spoils.store(false, Ordering::SeqCst);
    load("{}").unwrap();
}

/// A server whose clock was years ahead for a while has noted a try of then.
#[test]
fn a_clock_that_was_set_back_stops_no_schedule() {
    const YEAR: i64 = 365 * 86_400;
    let site = Site::open(2, 1 << 30);
    let ahead = START + 3 * YEAR;
    let (first, _) = site.pass(ahead);
    let (status, names) = site.pass(START);
    assert_ne!(status["last_attempt_start"], first["last_attempt_start"]);
    assert_eq!((status["last_snapshot_error"].as_str(), names.len()), (Some(""), 2));
    // A little ahead is what a change of leader brings: the interval is waited for.
    let (at, (later, _)) = (status["last_attempt_start"].clone(), site.pass(START - 1));
    assert_eq!(later["last_attempt_start"], at);
}

#[test]
fn of_schedules_that_race_for_one_place_one_gets_it() {
    let site = Site::open(1, 1 << 30);
    let body = format!(
        r#"{{"interval":{INTERVAL},"storage_type":"local","local_max_space":1000000000,
            "path_prefix":"/raced","file_prefix":"raced"}}"#
    );
    let path = |name: &str| format!("sys/storage/raft/snapshot-auto/config/{name}");
    for _ in 0..50 {
        let write = |name: &str| {
            ask_as(&site.core, TOKEN, 0, Operation::Update, &path(name), &body).is_ok()
        };
        let won = std::thread::scope(|scope| {
            let racing: Vec<_> = ["one", "two", "three"]
                .map(|name| scope.spawn(move || (write(name), name)))
                .into_iter()
                .collect();
            let ended = racing.into_iter().map(|racer| racer.join().unwrap());
            ended.filter(|(is_won, _)| *is_won).map(|(_, name)| name).collect::<Vec<_>>()
        });
        assert_eq!(won.len(), 1, "{won:?}");
        ask_as(&site.core, TOKEN, 0, Operation::Delete, &path(won[0]), "").unwrap();
    }
}

#[test]
fn no_schedule_takes_the_files_of_another_one_for_its_own() {
    let site = Site::open(1, 1 << 30);
    let write = |name: &str, place: &str, file_prefix: &str| {
        let path = format!("sys/storage/raft/snapshot-auto/config/{name}");
        let body = format!(
            r#"{{"interval":{INTERVAL},"retain":2,"storage_type":"local","local_max_space":1000000000,
                "path_prefix":"{place}","file_prefix":"{file_prefix}"}}"#
        );
        ask_as(&site.core, TOKEN, 0, Operation::Update, &path, &body)
    };
    for place in ["/snapshots", "/snapshots/", "/./snapshots", "/link"] {
        let refused = write("daily", place, "");
        assert!(
            matches!(&refused, Err(Error::Invalid(why)) if why.contains("\"here\" writes files of the same names")),
            "{place}: {refused:?}"
        );
    }
    write("elsewhere", "/elsewhere", "").unwrap();
    ask_as(
        &site.core,
        TOKEN,
        0,
        Operation::Delete,
        "sys/storage/raft/snapshot-auto/config/elsewhere",
        "",
    )
    .unwrap();
    // One name begins as the other does.
    write("daily", "/snapshots", "kallisto-snapshot-daily").unwrap();
    for round in 0..4 {
        for _ in 0..2 {
            site.pass(START + round * INTERVAL);
        }
        let names = site.names();
        let daily = names.iter().filter(|name| name.contains("-daily-")).count();
        let expected = if round == 0 { (1, 1) } else { (2, 1) };
        assert_eq!((daily, names.len() - daily), expected, "{names:?}");
    }
}
