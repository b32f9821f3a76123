//! Which key comes next: uniform, or a few keys most of the time.
//!
//! The zipf draw is Gray's (Gray et al., "Quickly generating billion-record synthetic databases",
//! SIGMOD 1994), as YCSB has it: the share of the key of rank i is as 1 over i to the power 0.99.

/// How steep the zipf draw is: YCSB's constant.
const THETA: f64 = 0.99;

/// How keys are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Draw {
    /// Each key as often as any other
    Uniform,
    /// Few keys most of the time: zipf with theta 0.99
    Zipf,
}

/// Draws numbers below a count.
pub(super) struct KeyDraw {
    random: fastrand::Rng,
    count: u64,
    zipf: Option<Zipf>,
}

struct Zipf {
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl KeyDraw {
    /// Draws below `count`, which is at least 1.
    pub(super) fn new(draw: Draw, count: u64, seed: u64) -> Self {
        let zipf = (draw == Draw::Zipf && count > 1).then(|| Zipf::new(count));
        Self { random: fastrand::Rng::with_seed(seed), count, zipf }
    }

    pub(super) fn next(&mut self) -> u64 {
        let Some(zipf) = &self.zipf else { return self.random.u64(..self.count) };
        let rank = zipf.rank(self.random.f64(), self.count);
        // Ranks are spread over the keys, so that hot ones are no neighbours.
        rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.count
    }

    /// True in `percent` of a hundred cases.
    pub(super) fn chance(&mut self, percent: u8) -> bool {
        percent > 0 && self.random.u8(..100) < percent
    }
}

impl Zipf {
    fn new(count: u64) -> Self {
        let zeta_of = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let zeta = zeta_of(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta_of(2) / zeta);
        Self { zeta, alpha: 1.0 / (1.0 - THETA), eta }
    }

    fn rank(&self, uniform: f64, count: u64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let rank = count as f64 * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(count - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_below_the_count_and_zipf_prefers_few() {
        for (draw, least, most) in [(Draw::Uniform, 80, 120), (Draw::Zipf, 10_000, 16_000)] {
            let mut keys = KeyDraw::new(draw, 1_000, 7);
            let mut counts = vec![0_u32; 1_000];
            (0..100_000).for_each(|_| counts[keys.next() as usize] += 1);
            let top = counts.iter().max().copied().unwrap();
            // The top key of 1,000 has 1/7.7 of a zipf draw; of a uniform one a thousandth.
            assert!((least..=most).contains(&top) || (draw == Draw::Uniform && top < 150), "{top}");
        }
        assert_eq!(KeyDraw::new(Draw::Zipf, 1, 7).next(), 0);
    }
}
