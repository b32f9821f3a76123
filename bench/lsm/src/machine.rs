//! What the operating system knows about this process and its files. Linux only.

use std::path::Path;
use std::time::{Duration, Instant};

/// A process that used less processor time than this share is idle.
const IDLE_SHARE: f64 = 0.05;
/// How long it is watched at a time.
const WATCH: Duration = Duration::from_millis(400);
/// The longest wait for background work.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Waits until background work of this process has ended.
pub fn settle() {
    let start = Instant::now();
    while start.elapsed() < SETTLE_MAX {
        let before = cpu_secs();
        std::thread::sleep(WATCH);
        if cpu_secs() - before < WATCH.as_secs_f64() * IDLE_SHARE {
            return;
        }
    }
    eprintln!("background work went on for more than {} s", SETTLE_MAX.as_secs());
}

/// Processor time of all threads so far, in seconds.
fn cpu_secs() -> f64 {
    /// Clock ticks in a second, as Linux reports them.
    const TICKS: f64 = 100.0;
    let stat = read("/proc/self/stat");
    let fields = stat.rsplit_once(')').expect("a name in brackets").1;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / TICKS
}

/// Bytes this process caused to be written to disks so far, as the kernel counts dirtied pages.
pub fn written_bytes() -> u64 {
    field("/proc/self/io", "write_bytes:")
}

/// Resident memory in bytes: all of it, and the part that is no mapped file.
pub fn resident_bytes() -> (u64, u64) {
    let kib = |name| field("/proc/self/status", name) << 10;
    (kib("VmRSS:"), kib("RssAnon:"))
}

fn field(file: &str, name: &str) -> u64 {
    let text = read(file);
    let line = text.lines().find(|line| line.starts_with(name)).expect("a known field");
    line.split_whitespace().nth(1).expect("a value").parse().expect("a number")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(file).expect("a Linux with /proc")
}

/// Bytes on the disk below a folder; holes do not count.
pub fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    /// The unit of `blocks`, whatever the file system's own.
    const BLOCK_BYTES: u64 = 512;
    let entries =
        std::fs::read_dir(dir).expect("our own folder").map(|entry| entry.expect("a name"));
    entries
        .map(|entry| {
            let metadata = entry.metadata().expect("our own file");
            match metadata.is_dir() {
                true => disk_bytes(&entry.path()),
                false => metadata.blocks() * BLOCK_BYTES,
            }
        })
        .sum()
}
