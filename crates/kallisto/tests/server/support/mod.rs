//! A server of the test's own, and a client that speaks to it.

mod client;
mod server;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use client::{Client, Reply, read_reply, share_of};
pub(crate) use server::{Keys, Server, refuse, run, stop_once_told};

/// Longest that anything may take before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A directory of a test's own, empty at first, gone with the value.
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// Makes one.
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("server-{name}-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A path in it.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The configuration of a server whose storage is in it, on a port of the system's choice.
    pub(crate) fn config(&self, more: &str) -> String {
        let data = self.join("data");
        std::fs::create_dir_all(&data).unwrap();
        format!(
            "storage \"raft\" {{\n  path = \"{}\"\n  node_id = \"one\"\n}}\n\
             listener \"tcp\" {{\n  address = \"127.0.0.1:0\"\n  tls_disable = true\n}}\n{more}\n",
            data.display()
        )
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What a failed test wrote is worth a look; what is left otherwise is in the target folder.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Waits until `holds`, at most [`PATIENCE`].
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
