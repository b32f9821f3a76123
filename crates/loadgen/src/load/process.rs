//! What a server's process uses, as the kernel counts it (proc(5)).

use std::path::PathBuf;
use std::time::Duration;

use kallisto_command::files;

/// Memory and processor time over a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessUsage {
    /// Resident memory before, at its most as seen, and at the end, in bytes.
    pub(super) before_bytes: u64,
    pub(super) peak_bytes: u64,
    pub(super) after_bytes: u64,
    /// Processor time of all threads.
    pub(super) processor: Duration,
}

/// Looks at a process.
pub(super) struct Observer {
    pid: u32,
    before_bytes: u64,
    peak_bytes: u64,
    processor_before: Duration,
}

impl Observer {
    /// `None` when there is no such process, or it may not be looked at.
    pub(super) fn new(pid: u32) -> Option<Self> {
        let before_bytes = resident_bytes(pid)?;
        Some(Self {
            pid,
            before_bytes,
            peak_bytes: before_bytes,
            processor_before: processor_time(pid)?,
        })
    }

    /// Takes the memory of now into account.
    pub(super) fn look(&mut self) {
        self.peak_bytes = self.peak_bytes.max(resident_bytes(self.pid).unwrap_or_default());
    }

    /// The sum of it, at the end.
    pub(super) fn usage(mut self) -> Option<ProcessUsage> {
        let after_bytes = resident_bytes(self.pid)?;
        self.peak_bytes = self.peak_bytes.max(after_bytes);
        Some(ProcessUsage {
            before_bytes: self.before_bytes,
            peak_bytes: self.peak_bytes,
            after_bytes,
            processor: processor_time(self.pid)?.saturating_sub(self.processor_before),
        })
    }
}

fn read(pid: u32, name: &str) -> Option<String> {
    let path = PathBuf::from(format!("/proc/{pid}/{name}"));
    String::from_utf8(files::read(&path).ok()?).ok()
}

fn resident_bytes(pid: u32) -> Option<u64> {
    let status = read(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn processor_time(pid: u32) -> Option<Duration> {
    let stat = read(pid, "stat")?;
    // The second field is the program's name, which may hold spaces; it ends with the last bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_nanos((user + system) * 1_000_000_000 / per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_itself() {
        let mut observer = Observer::new(std::process::id()).unwrap();
        observer.look();
        let usage = observer.usage().unwrap();
        assert!(usage.before_bytes > 0 && usage.peak_bytes >= usage.before_bytes);
        assert!(usage.after_bytes <= usage.peak_bytes);
    }
}
