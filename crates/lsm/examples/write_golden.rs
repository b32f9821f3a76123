//! Writes the store that `tests/golden.rs` expects into an empty directory: `write_golden DIR`.
#![expect(clippy::unwrap_used, reason = "a tool for developers stops at the first surprise")]

use kallisto_lsm::disk::RealDisk;
use kallisto_lsm::{Background, Engine, Options};

fn main() {
    let dir = std::env::args().nth(1).expect("a directory");
    let options = Options {
        background: Background::Inline,
        memtable_bytes: 4 << 10,
        wal_segment_bytes: 4 << 10,
        block_bytes: 256,
        sst_bytes: 4 << 10,
        level_base_bytes: 16 << 10,
        ..Options::default()
    };
    let engine = Engine::open(RealDisk::shared(), &dir, options).unwrap();
    for n in 0..100u32 {
        let value = vec![n as u8; n as usize % 40];
        engine.put(format!("golden-{n:03}").as_bytes(), &value).unwrap();
    }
    engine.compact().unwrap();
    for n in 0..120u32 {
        let key = format!("golden-{n:03}");
        if n % 7 == 0 {
            engine.delete(key.as_bytes()).unwrap();
        } else if n >= 100 {
            engine.put(key.as_bytes(), b"wal").unwrap();
        }
    }
}
