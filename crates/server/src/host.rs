//! The machine and the process, as Linux tells of them in `/proc`, and the log.
//!
//! `core` asks through its `Host`. What cannot be read is left out: nothing depends on it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kallisto_core::{
    Cpu, DiskSpace, Host, HostMachine, HostMemory, HostProcess, LogForm, LogLevel, Source,
};
use rustix::process::Resource;

use super::log_levels::LogLevels;
use super::log_subscribers::LogSubscribers;

/// Parts of a second in which Linux counts the time of processes; the same on all its machines.
const TICKS_PER_SECOND: u64 = 100;

/// What `core` is told of the machine, the process and the log.
pub(super) struct LinuxHost {
    levels: Arc<LogLevels>,
    subscribers: LogSubscribers,
    /// The directory of the storage, if it has one.
    storage: Option<PathBuf>,
}

impl LinuxHost {
    /// A host whose log has these levels, and is followed through `subscribers`.
    pub(super) fn new(levels: Arc<LogLevels>, subscribers: LogSubscribers) -> Self {
        Self { levels, subscribers, storage: None }
    }

    /// The same, with a directory whose disk is looked at.
    pub(super) fn with_storage(self, directory: Option<PathBuf>) -> Self {
        Self { storage: directory, ..self }
    }

    /// The levels of its log.
    pub(super) fn levels(&self) -> Arc<LogLevels> {
        Arc::clone(&self.levels)
    }
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
        self.levels.all()
    }

    fn set_log_level(&self, logger: Option<&str>, level: Option<LogLevel>) -> bool {
        self.levels.set(logger, level)
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
        let host = LinuxHost::new(Arc::default(), LogSubscribers::default());
        let machine = host.machine().unwrap();
        assert!(machine.memory.total > machine.memory.free && !machine.cpus.is_empty());
        let process = host.process().unwrap();
        assert!(process.resident_bytes > 0 && process.threads > 0 && process.open_files > 0);
        assert!(process.started > machine.booted);
    }
}
