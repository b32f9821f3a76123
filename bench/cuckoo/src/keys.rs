//! Keys and the order they are asked for in.

/// Bytes of a key.
pub const KEY_BYTES: usize = 39;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 128;

/// The key of a number, made in a few nanoseconds so that the stream of keys costs no cache.
#[inline]
pub fn key(number: u32) -> [u8; KEY_BYTES] {
    let mut key = *b"secret/data/team/0000000000000000/token";
    // A bijection, so that neighbours do not share digits.
    let mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Spreads the sixteen nibbles over sixteen bytes, eight at a time.
    for (half, place) in [(mixed >> 32, 17), (mixed & 0xffff_ffff, 25)] {
        let mut wide = half;
        wide = (wide | wide << 16) & 0x0000_ffff_0000_ffff;
        wide = (wide | wide << 8) & 0x00ff_00ff_00ff_00ff;
        wide = (wide | wide << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        // Letters a to p: as good as hex digits, without a branch.
        wide += 0x6161_6161_6161_6161;
        key[place..place + 8].copy_from_slice(&wide.to_le_bytes());
    }
    key
}

/// A value, different for each version.
pub fn value(version: u32) -> [u8; VALUE_BYTES] {
    [version as u8; VALUE_BYTES]
}

/// How requests spread over keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Every key alike.
    Uniform,
    /// Zipf with exponent 0.99, popular keys scattered over the numbers.
    Zipf,
}

impl Spread {
    /// The word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }

    /// `count` numbers below `keys`.
    pub fn stream(self, keys: u32, count: usize, seed: u64) -> Vec<u32> {
        let mut random = fastrand::Rng::with_seed(seed);
        match self {
            Self::Uniform => (0..count).map(|_| random.u32(..keys)).collect(),
            Self::Zipf => {
                let zipf = Zipf::new(keys, 0.99);
                // A prime that does not divide the number of keys scatters the ranks.
                let scatter = |rank: u64| (rank * 2_654_435_761 % u64::from(keys)) as u32;
                (0..count).map(|_| scatter(zipf.rank(random.f64()))).collect()
            }
        }
    }
}

/// Gray and others, "Quickly generating billion-record synthetic databases" (1994).
struct Zipf {
    keys: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(keys: u32, theta: f64) -> Self {
        let zeta = |n: u32| (1..=n).map(|rank| f64::from(rank).powf(-theta)).sum::<f64>();
        let n = f64::from(keys);
        let zeta_n = zeta(keys);
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta(2) / zeta_n);
        Self { keys: n, theta, alpha: 1.0 / (1.0 - theta), zeta: zeta_n, eta }
    }

    fn rank(&self, uniform: f64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        let rank = self.keys * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.keys as u64 - 1)
    }
}
