//! Random bytes of keys, tokens and nonces, drawn from the seed: storage keys are a function of them, and so is where a record lies.

use kallisto_barrier::random::seeded;

/// Has this thread draw from a seed from now on.
pub(crate) fn draw_from(seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    seeded::draw_from(Some(Box::new(move |out| dice.fill(out))));
}

/// Has this thread draw from the operating system again.
pub(crate) fn end() {
    seeded::draw_from(None);
}
