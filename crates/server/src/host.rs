//! The machine and the process, as Linux tells of them in `/proc`, and the levels of the log.
//!
//! `core` asks through its `Host`. What cannot be read is left out: nothing depends on it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kallisto_core::{
    Cpu, DiskSpace, Host, HostMachine, HostMemory, HostProcess, LogForm, LogLevel, Source,
};
use rustix::process::Resource;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::reload;

use super::log_subscribers::LogSubscribers;

/// The loggers: names on the wire and the crates behind them.
const LOGGERS: [(&str, &str); 6] = [
    ("audit", "kallisto_audit"),
    ("core", "kallisto_core"),
    ("listener", "kallisto_listener"),
    ("lsm", "kallisto_lsm"),
    ("server", "kallisto"),
    ("store", "kallisto_store"),
];
/// Parts of a second in which Linux counts the time of processes; the same on all its machines.
const TICKS_PER_SECOND: u64 = 100;

/// What `core` is told of the machine, the process and the log.
pub(super) struct LinuxHost {
    configured: LevelFilter,
    levels: Mutex<BTreeMap<&'static str, LevelFilter>>,
    filter: Option<reload::Handle<Targets, Registry>>,
    subscribers: LogSubscribers,
    /// The directory of the storage, if it has one.
    storage: Option<PathBuf>,
}

impl LinuxHost {
    /// A host whose log began at `configured`, is changed through `filter` and followed through `subscribers`.
    pub(super) fn new(
        configured: LevelFilter,
        filter: Option<reload::Handle<Targets, Registry>>,
        subscribers: LogSubscribers,
    ) -> Self {
        let levels = LOGGERS.iter().map(|(name, _)| (*name, configured)).collect();
        Self { configured, levels: Mutex::new(levels), filter, subscribers, storage: None }
    }

    /// The same, with a directory whose disk is looked at.
    pub(super) fn with_storage(self, directory: Option<PathBuf>) -> Self {
        Self { storage: directory, ..self }
    }

    fn levels(&self) -> MutexGuard<'_, BTreeMap<&'static str, LevelFilter>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the log lets through at the start.
pub(super) fn targets(level: LevelFilter) -> Targets {
    capped(Targets::new().with_default(level), level)
}

/// Libraries whose events tell operators nothing at levels below WARN, and much of what is in a request.
const CAPPED: [&str; 4] = ["h2", "hyper", "hyper_util", "rustls"];

/// Lets these libraries say no more than warnings.
fn capped(targets: Targets, level: LevelFilter) -> Targets {
    targets.with_targets(CAPPED.map(|name| (name, level.min(LevelFilter::WARN))))
}

impl Host for LinuxHost {
    fn machine(&self) -> Option<HostMachine> {
        let name = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let uptime = uptime()?;
        Some(HostMachine {
            hostname: text(name.nodename()),
            os: text(name.sysname()).to_ascii_lowercase(),
            kernel_version: text(name.release()),
            architecture: text(name.machine()),
            booted: booted()?,
            uptime,
            processes: u64::from(rustix::system::sysinfo().procs),
            cpus: cpus(&proc("cpuinfo")?),
            memory: memory(&proc("meminfo")?),
        })
    }

    fn process(&self) -> Option<HostProcess> {
        let stat = Stat::parse(&proc("self/stat")?)?;
        let files = std::fs::read_dir("/proc/self/fd").ok()?.count();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let ticks = |ticks: u64| Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND);
        Some(HostProcess {
            cpu: ticks(stat.cpu_ticks),
            resident_bytes: kib(&proc("self/status")?, "VmRSS") * 1_024,
            // The folder that counts them is open itself.
            open_files: files.saturating_sub(1) as u64,
            files_max: limit.current.unwrap_or(u64::MAX),
            threads: stat.threads,
            started: booted()?.checked_add(ticks(stat.started_ticks)).ok()?,
        })
    }

    fn disk(&self) -> Option<DiskSpace> {
        let space = rustix::fs::statvfs(self.storage.as_deref()?).ok()?;
        Some(DiskSpace {
            free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
            total_bytes: space.f_blocks.saturating_mul(space.f_frsize),
        })
    }

    fn follow_log(&self, level: LogLevel, form: LogForm) -> Option<Box<dyn Source>> {
        self.subscribers.open(level, form)
    }

    fn log_levels(&self) -> Vec<(String, LogLevel)> {
        self.levels().iter().map(|(name, level)| ((*name).to_owned(), of_filter(*level))).collect()
    }

    fn set_log_level(&self, logger: Option<&str>, level: Option<LogLevel>) -> bool {
        let mut levels = self.levels();
        if logger.is_some_and(|name| !levels.contains_key(name)) {
            return false;
        }
        let wanted = level.map_or(self.configured, to_filter);
        for (name, level) in levels.iter_mut() {
            if logger.is_none_or(|logger| logger == *name) {
                *level = wanted;
            }
        }
        let default = if logger.is_none() { wanted } else { self.configured };
        let of = |name: &str| levels.get(name).copied().unwrap_or(default);
        let rooms = LOGGERS.iter().map(|(name, room)| (*room, of(name)));
        let filter = capped(Targets::new().with_default(default), default).with_targets(rooms);
        if let Some(handle) = &self.filter
            && let Err(error) = handle.reload(filter)
        {
            tracing::error!(%error, "the level of the log stays as it is");
        }
        true
    }
}

/// The logger of an event: that of its crate, or the crate itself.
pub(super) fn logger_of(target: &str) -> &str {
    let room = target.split("::").next().unwrap_or(target);
    LOGGERS.iter().find(|(_, of)| *of == room).map_or(room, |(name, _)| name)
}

pub(super) const fn to_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    }
}

fn of_filter(level: LevelFilter) -> LogLevel {
    match level {
        LevelFilter::TRACE => LogLevel::Trace,
        LevelFilter::DEBUG => LogLevel::Debug,
        LevelFilter::INFO => LogLevel::Info,
        LevelFilter::WARN => LogLevel::Warn,
        // A log that is off lets through less than any level has a name for.
        _ => LogLevel::Error,
    }
}

fn proc(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{name}")).ok()
}

fn uptime() -> Option<Duration> {
    let text = proc("uptime")?;
    Duration::try_from_secs_f64(text.split_whitespace().next()?.parse().ok()?).ok()
}

/// When the machine started: Linux writes the second down.
fn booted() -> Option<Timestamp> {
    let stat = proc("stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Timestamp::from_second(line.trim().parse().ok()?).ok()
}

fn cpus(cpuinfo: &str) -> Vec<Cpu> {
    let of = |block: &str, wanted: &str| {
        let mut lines = block.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| name.trim() == wanted);
        found.map_or("", |(_, value)| value.trim()).to_owned()
    };
    let blocks = cpuinfo.split("\n\n").filter(|block| block.trim_start().starts_with("processor"));
    blocks
        .map(|block| Cpu {
            model: of(block, "model name"),
            mhz: of(block, "cpu MHz").parse().unwrap_or_default(),
        })
        .collect()
}

fn memory(meminfo: &str) -> HostMemory {
    let bytes = |wanted: &str| kib(meminfo, wanted) * 1_024;
    HostMemory {
        total: bytes("MemTotal"),
        available: bytes("MemAvailable"),
        free: bytes("MemFree"),
        cached: bytes("Cached"),
        swap_total: bytes("SwapTotal"),
        swap_free: bytes("SwapFree"),
    }
}

/// The number on the line `NAME: NUMBER kB`; 0 without such a line.
fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// What is read of `/proc/self/stat` (proc(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    started_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name of the program stands in parentheses and may hold anything.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The first of them is the third of the manual's list.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            started_ticks: field(22)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_linux_are_understood() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 90 0 0 0 12 3 0 0 20 0 5 0 4711 90000 321 18";
        let expected = Stat { cpu_ticks: 15, threads: 5, started_ticks: 4_711 };
        assert_eq!(Stat::parse(stat), Some(expected));
        let found =
            cpus("processor\t: 0\nmodel name\t: A B\ncpu MHz\t\t: 99.5\n\nprocessor\t: 1\n");
        assert_eq!((found.len(), found[0].model.as_str(), found[0].mhz), (2, "A B", 99.5));
        let found =
            memory("MemTotal:       2 kB\nMemFree:  1 kB\nCached: 3 kB\nSwapCached: 9 kB\n");
        assert_eq!((found.total, found.free, found.cached), (2_048, 1_024, 3_072));
    }

    #[test]
    fn this_machine_and_process_are_told() {
        let host = LinuxHost::new(LevelFilter::INFO, None, LogSubscribers::default());
        let machine = host.machine().unwrap();
        assert!(machine.memory.total > machine.memory.free && !machine.cpus.is_empty());
        let process = host.process().unwrap();
        assert!(process.resident_bytes > 0 && process.threads > 0 && process.open_files > 0);
        assert!(process.started > machine.booted);
    }

    #[test]
    fn loggers_are_set_by_name_or_together() {
        let host = LinuxHost::new(LevelFilter::WARN, None, LogSubscribers::default());
        let level =
            |name: &str| host.log_levels().into_iter().find(|(own, _)| own == name).unwrap().1;
        assert!(host.set_log_level(Some("core"), Some(LogLevel::Debug)));
        assert_eq!((level("core"), level("store")), (LogLevel::Debug, LogLevel::Warn));
        assert!(host.set_log_level(None, Some(LogLevel::Error)));
        assert_eq!((level("core"), level("store")), (LogLevel::Error, LogLevel::Error));
        assert!(host.set_log_level(Some("core"), None));
        assert_eq!(level("core"), LogLevel::Warn);
        assert!(!host.set_log_level(Some("bogus"), None));
    }
}
