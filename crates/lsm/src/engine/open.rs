//! Opening a store: lock, manifest, WAL, then the threads. And closing it.
//!
//! Order matters after a crash: what the manifest names is read first; WAL segments are replayed and then synced,
//! because a process that died (and not the machine) leaves frames that are readable and not durable; then a fresh
//! manifest becomes current; only then are files that no manifest names removed. On a full disk the manifest that was
//! read stays, synced for the same reason: reads need no more, and it is replaced when it has grown.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use arc_swap::ArcSwap;

use super::{
    BackgroundWork, Engine, EngineCounters, EngineShared, EngineWriter, Frozen, Manifested,
    ReadPoints, ReadView, background,
};
use crate::batch::BatchOperation;
use crate::cache::{BlockCache, FileCache};
use crate::commit::CommitQueue;
use crate::disk::{Disk, DiskLock, OpenFor, create_dir_durably, directory_of};
use crate::error::{Error, Result};
use crate::levels::{Levels, ObsoleteFiles, Probes, SstFile};
use crate::manifest::{self, Edit, LiveManifest, Manifest};
use crate::memtable::{Memtable, MemtableWriter, SharedPrefixes, room_for};
use crate::names::{self, FileName, LOCK};
use crate::numbers::FileNumbers;
use crate::options::{Background, Options};
use crate::sst::SstShared;
use crate::sync::lock;
use crate::wal::recovery::{self, Recovered};
use crate::wal::{SegmentPool, WalWriter};

impl Engine {
    /// Opens the store in `dir`, making it if the directory holds none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a network file system, unless [`Options::allows_network_disks`] says so; [`Error::Locked`] if
    /// someone has it open; [`Error::Corrupt`] if something on the disk is damaged, with nothing
    /// changed; [`Error::Unsupported`] if a newer release wrote it.
    pub fn open(disk: Arc<dyn Disk>, dir: impl Into<PathBuf>, options: Options) -> Result<Self> {
        options.check()?;
        let inner = Arc::new(EngineShared::recover(disk, dir.into(), options)?);
        let threads = match inner.options.background {
            Background::Inline => {
                // On a full disk it waits, as that of threads does.
                match inner.work_inline() {
                    Err(full @ Error::Full(_)) => inner.note(full),
                    done => done?,
                }
                Vec::new()
            }
            Background::Threads(compactors) => background::start(&inner, compactors)?,
        };
        Ok(Self { inner, threads: Mutex::new(threads) })
    }

    /// Flushes everything and stops the background threads. Calls after it fail with [`Error::Closed`]; the lock is freed
    /// when the engine is dropped.
    ///
    /// # Errors
    /// What the last flush or sync said. The store is closed either way.
    pub fn close(&self) -> Result<()> {
        let flushed = self.flush();
        self.stop();
        flushed
    }

    fn stop(&self) {
        // Release: pairs with the acquire of later calls; they must not start.
        self.inner.closed.store(true, Ordering::Release);
        lock(&self.inner.work).stop = true;
        self.inner.work_came.notify_all();
        self.inner.work_done.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A panic of a background thread has been reported through `failure`.
            let _ = thread.join();
        }
        // What cannot be removed now is removed by the next open.
        let _ = self.inner.bury();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Not `lock`: a drop must not panic. A failure was remembered by the log; there is nobody left to tell.
        if let Ok(mut writer) = self.inner.writer.lock() {
            let _ = writer.wal.sync();
        }
        self.stop();
    }
}

/// The files of a store by kind.
#[derive(Default)]
struct StoreFiles {
    segments: Vec<u64>,
    ssts: Vec<u64>,
    manifests: Vec<u64>,
    has_current_new: bool,
    number_max: u64,
}

impl StoreFiles {
    fn read(disk: &dyn Disk, dir: &Path) -> Result<Self> {
        let mut this = Self::default();
        for name in disk.list(dir).map_err(|e| Error::io("list", dir, &e))? {
            let name = FileName::parse(&name);
            match name {
                FileName::Wal(number) => this.segments.push(number),
                FileName::Sst(number) => this.ssts.push(number),
                FileName::Manifest(number) => this.manifests.push(number),
                FileName::CurrentNew => this.has_current_new = true,
                FileName::Other => {}
            }
            this.number_max = this.number_max.max(name.number().unwrap_or(0));
        }
        this.segments.sort_unstable();
        Ok(this)
    }
}

/// Memtables as they are rebuilt from the WAL.
struct MemtableReplay {
    options: Options,
    writer: MemtableWriter,
    active: Arc<Memtable>,
    frozen: VecDeque<Frozen>,
    seqno_flushed: u64,
    seqno_last: u64,
}

impl MemtableReplay {
    fn new(options: &Options, seqno_flushed: u64, prefixes: SharedPrefixes) -> Self {
        let (active, writer) = Memtable::new(options.memtable_bytes, 0, prefixes);
        let frozen = VecDeque::new();
        let options = options.clone();
        Self { options, writer, active, frozen, seqno_flushed, seqno_last: seqno_flushed }
    }

    /// Reads these segments, the first of which may have what is flushed already.
    fn run(&mut self, disk: &dyn Disk, dir: &Path, segments: &[u64]) -> Result<Recovered> {
        recovery::recover(disk, dir, segments, self.seqno_flushed + 1, |at, seqno, op| {
            self.apply(at, seqno, op);
            Ok(())
        })
    }

    fn apply(&mut self, segment: u64, seqno: u64, operation: BatchOperation<'_>) {
        if seqno <= self.seqno_flushed {
            return;
        }
        let room = room_for(operation.key.len() + operation.value.len(), 1);
        if !self.writer.has_room(room) {
            let (active, writer) =
                Memtable::new(self.options.memtable_bytes, room, self.active.prefixes());
            let full = std::mem::replace(&mut self.active, active);
            let old = std::mem::replace(&mut self.writer, writer);
            if !old.is_empty() {
                let seqno_last = self.seqno_last;
                self.frozen.push_back(Frozen {
                    table: full,
                    floor_after: segment,
                    seqno_last,
                    position: 0,
                });
            }
        }
        self.writer.insert(seqno, operation);
        self.seqno_last = seqno;
    }
}

impl EngineShared {
    fn recover(disk: Arc<dyn Disk>, dir: PathBuf, options: Options) -> Result<Self> {
        let held = claim_dir(&*disk, &dir, &options)?;
        let listing = StoreFiles::read(&*disk, &dir)?;
        let live = read_manifest(&*disk, &dir, &listing)?;
        if live.is_none() {
            // Whoever made the directory may have died before its name was durable.
            let above = directory_of(&dir);
            disk.sync_dir(above).map_err(|e| Error::io("sync", above, &e))?;
        }
        let known = live.as_ref().map(|live| live.known.clone()).unwrap_or_default();
        let next = known.number_next.unwrap_or(1).max(listing.number_max + 1);
        let numbers = Arc::new(FileNumbers::new(next));
        let files = FileCache::new(disk.clone(), dir.clone(), options.open_files_max);
        let blocks = BlockCache::new(options.cache_bytes);
        let shared = Arc::new(SstShared { blocks, files });
        let obsolete_files = Arc::<ObsoleteFiles>::default();
        let levels = live_levels(&known, &listing, &shared, &obsolete_files)?;

        let seqno_flushed = known.seqno_flushed.unwrap_or(0);
        let wal_floor = known.wal_floor.unwrap_or(0);
        let mut replay = MemtableReplay::new(&options, seqno_flushed, levels.prefixes());
        let segments = listing.segments.iter().copied();
        let needed: Vec<u64> = segments.filter(|&number| number >= wal_floor).collect();
        let recovered = replay.run(&*disk, &dir, &needed)?;
        sync_segments(&*disk, &dir, &recovered)?;

        let bytes = options.wal_segment_bytes;
        let pool = Arc::new(SegmentPool::new(disk.clone(), dir.clone(), bytes, numbers.clone()));
        pool.adopt(&recovered.used);
        let manifest = next_manifest(&disk, &dir, &numbers, &known, live.as_ref())?;
        remove_orphans(&*disk, &dir, &listing, &known, manifest.number())?;
        for &number in listing.segments.iter().filter(|number| !recovered.used.contains(number)) {
            pool.release(number)?;
        }

        let points =
            ReadPoints { visible: AtomicU64::new(replay.seqno_last), ..Default::default() };
        let work = BackgroundWork {
            active: replay.active.clone(),
            frozen: replay.frozen,
            levels: Arc::new(levels),
            busy: BTreeSet::new(),
            flushing: false,
            compacting: 0,
            full: None,
            stop: false,
        };
        let writer = EngineWriter {
            wal: WalWriter::new(pool.clone(), dir.clone()),
            memtable: replay.writer,
            seqno_last: replay.seqno_last,
            position: 0,
            ops_unsynced: 0,
            synced_at: options.clock.now(),
            debt: 0,
        };
        let position = known.position.unwrap_or(0);
        let inner = Self {
            view: ArcSwap::from_pointee(ReadView::of(&work)),
            manifest: Mutex::new(Manifested { manifest, wal_floor, seqno_flushed, position }),
            writer: Mutex::new(writer),
            work: Mutex::new(work),
            points: Arc::new(points),
            disk,
            dir,
            options,
            numbers,
            shared,
            obsolete_files,
            pool,
            queue: CommitQueue::new(),
            work_came: Condvar::new(),
            work_done: Condvar::new(),
            failure: OnceLock::new(),
            closed: AtomicBool::new(false),
            pressure: AtomicU64::new(0),
            probes: Probes::default(),
            counters: EngineCounters::default(),
            inline: Mutex::new(()),
            _lock: held,
        };
        Ok(inner)
    }
}

/// Makes the directory and keeps everybody else out of it.
fn claim_dir(disk: &dyn Disk, dir: &Path, options: &Options) -> Result<Box<dyn DiskLock>> {
    create_dir_durably(disk, dir).map_err(|e| Error::io("create", dir, &e))?;
    if !options.allows_network_disks
        && disk.is_remote(dir).map_err(|e| Error::io("look at", dir, &e))?
    {
        return Err(Error::Invalid("the directory is on a network file system"));
    }
    disk.lock(&dir.join(LOCK)).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Error::Locked(dir.to_owned()),
        _ => Error::io("lock", dir, &error),
    })
}

/// A manifest that says what is known; on a full disk the one that was read.
fn next_manifest(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    numbers: &FileNumbers,
    known: &Edit,
    live: Option<&LiveManifest>,
) -> Result<Manifest> {
    let snapshot = Edit { number_next: Some(numbers.peek() + 1), ..known.clone() };
    match Manifest::create(disk.clone(), dir, numbers.next(), &snapshot) {
        Err(full @ Error::Full(_)) => match live {
            Some(live) => Manifest::resume(disk.clone(), dir, live),
            None => Err(full),
        },
        made => made,
    }
}

/// The live manifest; none of a new store.
fn read_manifest(
    disk: &dyn Disk,
    dir: &Path,
    listing: &StoreFiles,
) -> Result<Option<LiveManifest>> {
    match manifest::current(disk, dir)? {
        Some(number) => manifest::read(disk, dir, number).map(Some),
        // A first open that died leaves at most manifests; anything else without CURRENT lost its CURRENT.
        None if listing.segments.is_empty() && listing.ssts.is_empty() => Ok(None),
        None => {
            Err(Error::corrupt(&dir.join(names::CURRENT), 0, "it is missing beside data files"))
        }
    }
}

fn live_levels(
    known: &Edit,
    listing: &StoreFiles,
    shared: &Arc<SstShared>,
    obsolete_files: &Arc<ObsoleteFiles>,
) -> Result<Levels> {
    let mut files = Vec::new();
    for (level, desc) in &known.added {
        let path = shared.files.path(desc.number);
        if !listing.ssts.contains(&desc.number) {
            return Err(Error::corrupt(&path, 0, "a live file is missing"));
        }
        let file = SstFile::new(desc.clone(), shared.clone(), obsolete_files.clone());
        files.push((*level, Arc::new(file)));
    }
    let levels = Levels::new(files);
    match levels.check() {
        None => Ok(levels),
        Some((number, what)) => Err(Error::corrupt(&shared.files.path(number), 0, what)),
    }
}

/// Makes durable what was read from segments: later frames will build on it.
fn sync_segments(disk: &dyn Disk, dir: &Path, recovered: &Recovered) -> Result<()> {
    for &number in &recovered.used {
        let path = names::wal(dir, number);
        let file =
            disk.open(&path, OpenFor::ReadWrite).map_err(|e| Error::io("open", &path, &e))?;
        file.sync_data().map_err(|e| Error::poison("sync", &path, &e))?;
    }
    Ok(())
}

/// Removes what no manifest names.
fn remove_orphans(
    disk: &dyn Disk,
    dir: &Path,
    listing: &StoreFiles,
    known: &Edit,
    manifest: u64,
) -> Result<()> {
    let live: BTreeSet<u64> = known.added.iter().map(|(_, file)| file.number).collect();
    let ssts = listing.ssts.iter().filter(|number| !live.contains(number));
    let manifests = listing.manifests.iter().filter(|&&number| number != manifest);
    let mut paths: Vec<PathBuf> = ssts.map(|&number| names::sst(dir, number)).collect();
    paths.extend(manifests.map(|&number| names::manifest(dir, number)));
    for path in paths {
        disk.remove(&path).map_err(|e| Error::io("remove", &path, &e))?;
    }
    Ok(())
}

impl ReadView {
    pub(super) fn of(work: &BackgroundWork) -> Self {
        Self {
            active: work.active.clone(),
            frozen: work.frozen.iter().rev().map(|frozen| frozen.table.clone()).collect(),
            levels: work.levels.clone(),
        }
    }
}
