//! Smoke fuzzing: every decoder, fed damaged and random bytes from a seed. The targets are the plain functions of
//! `kallisto_lsm::internals`, which a fuzzer calls too.

use kallisto_lsm::internals;

fn all_targets(bytes: &[u8]) {
    internals::read_hostile_block(bytes, b"key");
    internals::read_hostile_filter(bytes, 0x1234_5678_9abc_def0);
    internals::read_hostile_index(bytes, b"key");
    internals::read_hostile_operations(bytes);
    internals::read_hostile_frame(bytes);
    internals::read_hostile_manifest(bytes);
}

#[test]
fn random_bytes_never_panic() {
    let mut dice = fastrand::Rng::with_seed(1);
    for _ in 0..30_000 {
        // Small numbers are what lengths and counts look like.
        let small = dice.bool();
        let len = dice.usize(..200);
        let bytes: Vec<u8> =
            (0..len).map(|_| if small { dice.u8(..6) } else { dice.u8(..) }).collect();
        all_targets(&bytes);
    }
}

#[test]
fn damaged_golden_files_never_panic() {
    let mut dice = fastrand::Rng::with_seed(2);
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/format-1"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let good = read(&file.path());
        for _ in 0..300 {
            let mut bytes = good.clone();
            for _ in 0..dice.usize(1..5) {
                if !bytes.is_empty() {
                    let at = dice.usize(..bytes.len());
                    bytes[at] = dice.u8(..);
                }
            }
            bytes.truncate(dice.usize(..=bytes.len()));
            all_targets(&bytes);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "golden files are read from the source tree")]
fn read(path: &std::path::Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}
