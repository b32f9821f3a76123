//! A PostgreSQL of this machine, started for a test and ended with it.
//!
//! Another crate's tests use this file too. Where PostgreSQL is not installed [`Postgres::start`] says so, loudly, and the test is
//! no test. The server listens on loopback alone, in a directory below the system's temporary one, as the user `postgres` where
//! the test is root's, since the server refuses to be. The first start makes a directory, which stays, and the others copy it.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::ports::free_address;

/// The password of the role `kallisto`.
pub(crate) const PASSWORD: &str = "canary-of-a-password";
/// Longest that a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a database and a role `kallisto`.
pub(crate) struct Postgres {
    pub(crate) bin: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) port: u16,
    pub(crate) process: Option<Child>,
}

/// How a server is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StopMode {
    /// As the power is.
    Killed,
    /// At once, and recovers at the next start.
    Immediate,
    /// Ends its connections, and writes everything.
    Fast,
}

/// Where the programs are.
fn programs() -> Option<PathBuf> {
    let all = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = all.map(|version| version.path().join("bin")).collect();
    found.retain(|bin| bin.join("postgres").exists());
    found.sort();
    found.pop()
}

/// User and group that a server runs as, where that is not the test's.
pub(crate) fn user() -> Option<(u32, u32)> {
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let uid = own.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    if uid.split_whitespace().nth(1) != Some("0") {
        return None;
    }
    let all = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix("postgres:"))?;
    let mut words = line.split(':').skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// A program of the server's, as its user.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/").env("LC_ALL", "C").env("PGPASSWORD", PASSWORD);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A directory that is made once, for all tests of this version and user, and copied.
fn template(bin: &Path) -> PathBuf {
    static MADE: Mutex<()> = Mutex::new(());
    let _one = MADE.lock().unwrap();
    let version = bin.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let uid = user().map_or_else(|| "own".to_owned(), |(uid, _)| uid.to_string());
    let kept = std::env::temp_dir().join(format!("kallisto-postgres-{version}-{uid}"));
    if kept.exists() {
        return kept;
    }
    let directory = own_directory("template");
    let words = directory.with_extension("password");
    std::fs::write(&words, PASSWORD).unwrap();
    let made = command(&bin.join("initdb"))
        .args(["--no-sync", "--wal-segsize=1", "-A", "scram-sha-256", "-U", "postgres"])
        .arg(format!("--pwfile={}", words.display()))
        .arg("-D")
        .arg(&directory)
        .status();
    assert!(made.unwrap().success(), "initdb");
    std::fs::remove_file(words).unwrap();
    // Another process may have been faster: then this one's goes.
    if std::fs::rename(&directory, &kept).is_err() {
        std::fs::remove_dir_all(&directory).unwrap();
    }
    kept
}

/// An empty directory that the server may write to.
pub(crate) fn own_directory(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("kallisto-postgres-{}-{number}-{name}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    give(&directory);
    directory
}

/// Makes something the server's own.
pub(crate) fn give(path: &Path) {
    if let Some((uid, gid)) = user() {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
    }
}

impl Postgres {
    /// Starts a server; `None`, with a word, where there is none.
    pub(crate) fn start(name: &str) -> Option<Self> {
        Self::start_with(name, &[], |_| {})
    }

    /// The same with settings (`name=value`), once its directory was prepared.
    pub(crate) fn start_with(
        name: &str,
        settings: &[&str],
        prepare: impl FnOnce(&Path),
    ) -> Option<Self> {
        let Some(bin) = programs() else {
            println!("*** SKIPPED: {name}: PostgreSQL is not installed");
            return None;
        };
        let directory = own_directory(name);
        let copied =
            Command::new("cp").arg("-a").arg(template(&bin).join(".")).arg(&directory).status();
        assert!(copied.unwrap().success(), "a copy of the directory");
        let port = free_address().port();
        let mut text = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nshared_buffers = 32MB\n\
             max_connections = 60\nlog_line_prefix = '%m [%p] '\n"
        );
        for setting in settings {
            text.push_str(setting);
            text.push('\n');
        }
        std::fs::write(directory.join("postgresql.auto.conf"), text).unwrap();
        give(&directory.join("postgresql.auto.conf"));
        prepare(&directory);
        let mut this = Self { bin, directory, port, process: None };
        this.run();
        this.sql(&format!("CREATE ROLE kallisto LOGIN PASSWORD '{PASSWORD}'"));
        this.sql("CREATE DATABASE kallisto OWNER kallisto");
        Some(this)
    }

    /// Starts it again.
    pub(crate) fn run(&mut self) {
        let start = Instant::now();
        loop {
            let log = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.directory.with_extension("log"));
            let process = command(&self.bin.join("postgres"))
                .arg("-D")
                .arg(&self.directory)
                .stderr(log.unwrap())
                .spawn();
            let mut process = process.unwrap();
            // What was killed may hold its memory for another moment: then it ends at once.
            while process.try_wait().unwrap().is_none() {
                assert!(start.elapsed() < PATIENCE, "PostgreSQL does not answer: {}", self.log());
                if self.is_ready() {
                    self.process = Some(process);
                    return;
                }
                std::thread::sleep(Duration::from_millis(30));
            }
            assert!(start.elapsed() < PATIENCE, "PostgreSQL does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn is_ready(&self) -> bool {
        let port = self.port.to_string();
        let asked = command(&self.bin.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p"])
            .arg(port)
            .status();
        asked.unwrap().success()
    }

    /// What the server logged.
    pub(crate) fn log(&self) -> String {
        let log = std::fs::read(self.directory.with_extension("log"));
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }

    /// Stops it.
    pub(crate) fn stop(&mut self, mode: StopMode) {
        let Some(mut process) = self.process.take() else { return };
        let word = match mode {
            StopMode::Killed => {
                process.kill().unwrap();
                process.wait().unwrap();
                return;
            }
            StopMode::Immediate => "immediate",
            StopMode::Fast => "fast",
        };
        let stopped = command(&self.bin.join("pg_ctl"))
            .args(["stop", "-w", "-m", word, "-D"])
            .arg(&self.directory)
            .status();
        assert!(stopped.unwrap().success(), "pg_ctl stop -m {word}");
        process.wait().unwrap();
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The URL of the database as it is found at an address.
    pub(crate) fn url_at(address: SocketAddr) -> String {
        format!("postgres://kallisto:{PASSWORD}@{address}/kallisto?sslmode=disable")
    }

    /// The URL of the database.
    pub(crate) fn url(&self) -> String {
        Self::url_at(self.address())
    }

    /// Runs statements as the owner of everything, in the database `kallisto` if it is there.
    pub(crate) fn sql(&self, text: &str) -> String {
        let database = if text.starts_with("CREATE DATABASE") || text.starts_with("CREATE ROLE") {
            "postgres"
        } else {
            "kallisto"
        };
        let asked = command(&self.bin.join("psql"))
            .args(["-h", "127.0.0.1", "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qAtc", text])
            .args(["-d", database, "-p", &self.port.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert!(asked.status.success(), "{text}: {}", String::from_utf8_lossy(&asked.stderr));
        String::from_utf8_lossy(&asked.stdout).trim().to_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let from = log.lines().count().saturating_sub(20);
            log.lines().skip(from).for_each(|line| println!("  postgres: {line}"));
        }
        if self.process.is_some() {
            self.stop(StopMode::Immediate);
        }
        // What is left of a directory is in nobody's way.
        let _ = std::fs::remove_dir_all(&self.directory);
        let _ = std::fs::remove_file(self.directory.with_extension("log"));
    }
}
