//! Golden files: stores written by every past format still open and hold what they held. A format that changes gets a new
//! directory here, written by `cargo run --example write_golden DIR`; the old ones stay.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kallisto_lsm::disk::MemDisk;
use kallisto_lsm::{Background, Engine};

mod common;

#[expect(clippy::disallowed_methods, reason = "golden files are read from the source tree")]
fn load(format: &str) -> MemDisk {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format);
    let files = std::fs::read_dir(dir).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = PathBuf::from("store").join(path.file_name().unwrap());
        (name, Arc::new(std::fs::read(path).unwrap()))
    });
    MemDisk::from_files(files.collect::<Vec<_>>())
}

#[test]
fn format_1_opens_and_holds_what_it_held() {
    let disk = load("format-1");
    let kinds: Vec<_> =
        disk.files().into_keys().filter_map(|path| Some(path.extension()?.to_owned())).collect();
    for kind in ["sst", "wal", "manifest"] {
        assert!(kinds.iter().any(|found| found == kind), "the golden store has a {kind} file");
    }
    let engine = Engine::open(Arc::new(disk), "store", common::small(Background::Inline)).unwrap();
    engine.check().unwrap();
    let all: Vec<_> = engine.scan(..).unwrap().map(Result::unwrap).collect();
    let want = (0..120u32).filter(|n| n % 7 != 0).map(|n| {
        let value = vec![n as u8; n as usize % 40];
        (format!("golden-{n:03}").into_bytes(), if n >= 100 { b"wal".to_vec() } else { value })
    });
    assert!(all.into_iter().eq(want));
}
