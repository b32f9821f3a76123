//! Which traces are recorded: the samplers of OpenTelemetry, under their names.

/// Which traces are recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Whether a request that is part of a trace is recorded as that trace is.
    pub follows_parent: bool,
    /// What is decided for every other.
    pub root: RootSampling,
}

/// Which traces are recorded that begin here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RootSampling {
    /// All.
    All,
    /// None.
    None,
    /// This part of them, 0 to 1, by their ids: servers with the same part agree on a trace.
    Ratio(f64),
}

impl Sampling {
    /// Whether a trace is recorded; `parent` is what was decided before, if it did not begin here.
    pub(crate) fn samples(self, trace_id: [u8; 16], parent: Option<bool>) -> bool {
        match parent {
            Some(parent) if self.follows_parent => parent,
            Some(_) | None => self.root.samples(trace_id),
        }
    }
}

impl RootSampling {
    fn samples(self, trace_id: [u8; 16]) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            // As the SDKs of OpenTelemetry for Go and Rust do it, so that they agree with us.
            Self::Ratio(ratio) => {
                let [.., a, b, c, d, e, f, g, h] = trace_id;
                let bound = (ratio.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
                (u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1) < bound
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(right: u64) -> [u8; 16] {
        (u128::from(right) | (1 << 100)).to_be_bytes()
    }

    #[test]
    fn a_part_is_taken_by_the_right_half_of_the_id() {
        let half = Sampling { follows_parent: true, root: RootSampling::Ratio(0.5) };
        assert!(half.samples(id(0), None));
        assert!(half.samples(id(u64::MAX >> 1), None));
        assert!(!half.samples(id(1 << 63), None));
        let all = Sampling { follows_parent: true, root: RootSampling::Ratio(1.0) };
        let none = Sampling { follows_parent: true, root: RootSampling::Ratio(0.0) };
        assert!(all.samples(id(u64::MAX), None));
        assert!(!none.samples(id(0), None));
        let tenth = Sampling { follows_parent: true, root: RootSampling::Ratio(0.1) };
        let mut random = fastrand::Rng::with_seed(7);
        let taken = (0..10_000).filter(|_| tenth.samples(id(random.u64(..)), None)).count();
        assert!((800..1200).contains(&taken), "{taken}");
    }

    #[test]
    fn a_parent_decides_where_it_is_followed() {
        for (follows_parent, root, parent, expected) in [
            (true, RootSampling::None, Some(true), true),
            (true, RootSampling::All, Some(false), false),
            (true, RootSampling::All, None, true),
            (false, RootSampling::None, Some(true), false),
            (false, RootSampling::All, Some(false), true),
        ] {
            assert_eq!(Sampling { follows_parent, root }.samples(id(1), parent), expected);
        }
    }
}
