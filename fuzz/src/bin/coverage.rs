//! The targets behind libFuzzer: inputs that reach something new are kept and changed again.
//!
//! `cargo x fuzz --coverage` builds it with LLVM's coverage counters in every crate, which the stable toolchain does when it is asked by
//! flags of the compiler; without them libFuzzer learns nothing and says so. One process has one target, named by the variable
//! [`TARGET`]. A third of the changes is a word of the target's language put somewhere; the rest are libFuzzer's.
//!
//! Invariant: what a target does is the same here, in the seeded runner and under `cargo test`.
#![no_main]

#[path = "../targets/mod.rs"]
mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

use targets::Target;

/// The variable that names the target.
const TARGET: &str = "KALLISTO_FUZZ_TARGET";

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var(TARGET).unwrap_or_default();
    let found = targets::TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("{TARGET} names none of:\n{}", targets::list()))
});

fuzz_target!(|bytes: &[u8]| (CHOSEN.run)(bytes));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let words = CHOSEN.words;
    let draw = seed as usize;
    if words.is_empty() || !draw.is_multiple_of(3) {
        return fuzzer_mutate(data, size, max_size);
    }
    let word = words[draw / 3 % words.len()];
    let at = (draw >> 8) % (size + 1);
    // Over what stands there, or in between.
    let is_between = draw & 1 == 0;
    let end = if is_between { size + word.len() } else { size.max(at + word.len()) };
    if end > max_size.min(data.len()) {
        return fuzzer_mutate(data, size, max_size);
    }
    if is_between {
        data.copy_within(at..size, at + word.len());
    }
    data[at..at + word.len()].copy_from_slice(word);
    end
});
