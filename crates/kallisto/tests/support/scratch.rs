//! A directory of a test's own, and the program run in it with something on standard input.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of a test's own, empty at first, removed when the test passed.
pub(crate) struct Scratch {
    /// The subcommand of the program that is tested.
    subcommand: &'static str,
    path: PathBuf,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Scratch {
    pub(crate) fn new(subcommand: &'static str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{subcommand}-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self { subcommand, path }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kallisto"));
        command.arg(self.subcommand).args(args).env_clear().current_dir(&self.path);
        command
    }

    /// Runs the subcommand with this on standard input.
    pub(crate) fn feed(&self, stdin: &[u8], args: &[&str]) -> Ran {
        let file = self.path("stdin");
        fs::write(&file, stdin).unwrap();
        let stdin = fs::File::open(&file).unwrap();
        let output = self.command(args).stdin(stdin).output().unwrap();
        Ran {
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap(),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.path).unwrap();
        }
    }
}

impl Ran {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}
