//! What a machine does to its server: syncs that fail, a disk without space, a clock that is set.
//!
//! `faults.c` is compiled with the machine's `cc` and put between a server and libc; the two share a small file of
//! numbers, in which a test gives orders and reads how often each was felt. The server has no part in it: `std` asks libc
//! for every write, sync and time that matters here. Without a `cc` there is nothing to test with, and the tests say so.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of a number.
const NUMBER_BYTES: u64 = 8;
/// How many numbers there are: see `struct control` of `faults.c`.
const NUMBERS: u64 = 8;

/// What a test may order, by the place of its number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// With 1, every sync fails with EIO.
    SyncsFail = 0,
    /// With 1, no file gets longer, and none is made.
    DiskFull = 1,
    /// So many seconds are added to the time of day.
    ClockSecs = 2,
}

/// What a server felt, by the place of its count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Felt {
    SyncsFailed = 3,
    /// Syncs of a file whose sync had failed before.
    SyncsRetried = 4,
    WritesRefused = 5,
    /// How often the wrong time was told.
    ClockTold = 6,
}

/// The faults of one server.
pub(crate) struct Faults {
    library: PathBuf,
    control: PathBuf,
    numbers: File,
}

/// Compiles the library into a directory; `None` where there is no `cc`.
pub(crate) fn compile(directory: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/faults.c");
    let library = directory.join("faults.so");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    let Ok(status) = cc.arg("-ldl").status() else {
        println!("SKIPPED: there is no `cc` to compile faults.c with");
        return None;
    };
    assert!(status.success(), "faults.c does not compile");
    Some(library)
}

impl Faults {
    /// A machine without faults.
    pub(crate) fn new(library: &Path, control: PathBuf) -> Self {
        let mut options = OpenOptions::new();
        let numbers = options.read(true).write(true).create(true).truncate(true).open(&control);
        let numbers = numbers.unwrap();
        numbers.set_len(NUMBERS * NUMBER_BYTES).unwrap();
        Self { library: library.to_owned(), control, numbers }
    }

    /// Puts the library between libc and a server whose files are under `data`.
    pub(crate) fn put_on(&self, server: &mut Command, data: &Path) {
        server.env("LD_PRELOAD", &self.library).env("KALLISTO_FAULTS", &self.control);
        server.env("KALLISTO_FAULTS_UNDER", data);
    }

    /// Gives an order; 0 takes it back.
    pub(crate) fn order(&self, order: Order, value: i64) {
        self.numbers.write_all_at(&value.to_le_bytes(), order as u64 * NUMBER_BYTES).unwrap();
    }

    /// How often something was felt so far.
    pub(crate) fn felt(&self, felt: Felt) -> i64 {
        let mut number = [0; NUMBER_BYTES as usize];
        self.numbers.read_exact_at(&mut number, felt as u64 * NUMBER_BYTES).unwrap();
        i64::from_le_bytes(number)
    }
}
