//! The machine and the process under the server, asked through a trait: the core does no input or
//! output of its own. The binary implements it; a core without one has nothing to say of either.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::stream::Source;

/// What the binary knows and the core is asked.
pub trait Host: Send + Sync {
    /// The machine; `None` where it cannot be told.
    fn machine(&self) -> Option<HostMachine>;

    /// The process; `None` where it cannot be told.
    fn process(&self) -> Option<HostProcess>;

    /// The disk under the storage; `None` where there is none, or it cannot be told.
    fn disk(&self) -> Option<DiskSpace> {
        None
    }

    /// Follows the log from now on: lines of this level and above, in this form. `None` when as many
    /// follow it as may.
    fn follow_log(&self, level: LogLevel, form: LogForm) -> Option<Box<dyn Source>>;

    /// The loggers and their levels, by name.
    fn log_levels(&self) -> Vec<(String, LogLevel)>;

    /// Sets the level of one logger, or of all; `None` sets it back to what the server began with.
    /// False when there is no such logger.
    fn set_log_level(&self, logger: Option<&str>, level: Option<LogLevel>) -> bool;
}

/// A machine. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct HostMachine {
    /// Its name.
    pub hostname: String,
    /// The operating system, such as `linux`.
    pub os: String,
    /// The kernel's release.
    pub kernel_version: String,
    /// The architecture, such as `x86_64`.
    pub architecture: String,
    /// When it started.
    pub booted: Timestamp,
    /// For how long it runs.
    pub uptime: Duration,
    /// Processes on it.
    pub processes: u64,
    /// Its processors.
    pub cpus: Vec<Cpu>,
    /// Its memory.
    pub memory: HostMemory,
}

/// A processor.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// What its maker calls it.
    pub model: String,
    /// Its clock.
    pub mhz: f64,
}

/// The memory of a machine, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostMemory {
    /// All of it.
    pub total: u64,
    /// What can be had without swapping.
    pub available: u64,
    /// What nobody uses.
    pub free: u64,
    /// What holds files.
    pub cached: u64,
    /// What can be swapped to.
    pub swap_total: u64,
    /// What of that is unused.
    pub swap_free: u64,
}

/// A disk, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DiskSpace {
    /// What this process may still write.
    pub free_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub struct HostProcess {
    /// Time of processors it used.
    pub cpu: Duration,
    /// Its memory in RAM.
    pub resident_bytes: u64,
    /// Its open files and sockets.
    pub open_files: u64,
    /// Most it may open.
    pub files_max: u64,
    /// Its threads.
    pub threads: u64,
    /// When it began.
    pub started: Timestamp,
}

/// What the lines of a log look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// For people.
    Standard,
    /// An object a line.
    Json,
}

/// How urgent an event must be to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// What developers want to know.
    Debug,
    /// What operators act on.
    Info,
    /// What heals itself.
    Warn,
    /// What needs a person.
    Error,
}

impl LogLevel {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// The level of this name, as Vault takes names.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "trace" => Self::Trace,
            "debug" => Self::Debug,
            "" | "info" | "notice" => Self::Info,
            "warn" | "warning" => Self::Warn,
            "err" | "error" => Self::Error,
            _ => return None,
        })
    }
}
