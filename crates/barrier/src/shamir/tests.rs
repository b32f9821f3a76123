//! What sharing promises, tried exhaustively where that is possible.

use super::*;

fn secret() -> SecretKey {
    SecretKey::generate().unwrap()
}

fn copy(share: &Share) -> Share {
    Share::from_bytes(share.expose()).unwrap()
}

/// The shares whose places are the set bits of `chosen`.
fn subset(shares: &[Share], chosen: u32) -> Vec<Share> {
    let taken = shares.iter().enumerate().filter(|(n, _)| chosen >> n & 1 == 1);
    taken.map(|(_, share)| copy(share)).collect()
}

#[test]
fn every_subset_of_up_to_eight_shares_gives_the_key_exactly_if_it_is_large_enough() {
    for shares in 2..=8u8 {
        for threshold in 2..=shares {
            let secret = secret();
            let split = split(&secret, shares, threshold).unwrap();
            for chosen in 1..1u32 << shares {
                let combined = combine(&subset(&split, chosen)).unwrap();
                let same = combined.expose() == secret.expose();
                assert_eq!(
                    same,
                    chosen.count_ones() >= u32::from(threshold),
                    "{shares} {threshold} {chosen:b}"
                );
            }
        }
    }
}

#[test]
fn the_largest_sharing_works_in_any_order() {
    let secret = secret();
    let mut split = split(&secret, 255, 255).unwrap();
    split.reverse();
    assert_eq!(combine(&split).unwrap().expose(), secret.expose());
}

#[test]
fn a_single_share_is_the_key_and_its_point() {
    let secret = secret();
    let split = split(&secret, 1, 1).unwrap();
    assert_eq!(split.len(), 1);
    assert_eq!(split[0].expose()[..32], *secret.expose());
    assert_eq!(combine(&split).unwrap().expose(), secret.expose());
}

#[test]
fn impossible_sharings_are_refused() {
    for (shares, threshold) in [(0, 0), (0, 1), (1, 0), (3, 4), (3, 1), (255, 1)] {
        assert!(matches!(split(&secret(), shares, threshold), Err(Error::Invalid(_))));
    }
}

#[test]
fn impossible_shares_are_refused() {
    for length in [0, 16, 32, 34] {
        assert!(matches!(Share::from_bytes(&vec![1; length]), Err(Error::Invalid(_))));
    }
    assert!(matches!(Share::from_bytes(&[0; 33]), Err(Error::Invalid(_))));
    assert!(matches!(combine(&[]), Err(Error::Invalid(_))));
    let split = split(&secret(), 3, 2).unwrap();
    assert!(matches!(combine(&[copy(&split[0]), copy(&split[0])]), Err(Error::Invalid(_))));
}

#[test]
fn points_differ_and_are_not_in_order_of_number() {
    let mut points: Vec<u8> = split(&secret(), 255, 2).unwrap().iter().map(Share::point).collect();
    assert_ne!(points, (1..=255).collect::<Vec<u8>>());
    points.sort_unstable();
    assert_eq!(points, (1..=255).collect::<Vec<u8>>());
}

#[test]
fn debug_shows_nothing() {
    let split = split(&secret(), 2, 2).unwrap();
    assert_eq!(format!("{split:?}"), "[Share, Share]");
}

/// A throw-away cluster of OpenBao 2.7.2, initialised with five shares and a threshold of three on 2026-11-22. The same
/// server was then unsealed with three shares that `split` here made of the combined key.
#[test]
fn shares_of_openbao_give_its_key() {
    let shares: Vec<Share> = OPENBAO.map(|share| Share::from_bytes(&unhex(share)).unwrap()).into();
    for chosen in 0..1u32 << shares.len() {
        if chosen.count_ones() >= 3 {
            let combined = combine(&subset(&shares, chosen)).unwrap();
            assert_eq!(combined.expose().as_slice(), unhex(OPENBAO_KEY));
        }
    }
}

const OPENBAO: [&str; 5] = [
    "c65437b83cd5f322a10135aa3eef86d0a07b867f9fd2172e9b5904f74fd8416d4b",
    "8baa4e68c03ef5d30ff54a37bac4368f820345f7975bbfed6333dfa37d68866515",
    "5f32b672d15a875527106cc778a4373ba12b21e92f85d6515526da1dd18f79e365",
    "602a72921b49b4ab7b70f9785b764946b8f56f8f6be33bb05a2a6ec1473e8ac793",
    "fe1e093fc5129e31cd828d5cf5516d480e4c6e53fa8ca10f2dbc17ce87b37641f9",
];
const OPENBAO_KEY: &str = "6600af7f6ff92bf30d3f62262af7937d86a5201ba470e012ad5408397ebc15bd";

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The same field by tables of logarithms to the base 3, and Lagrange's formula written out: another way to the same
/// numbers, as Vault computed them before it dropped the tables.
mod tables {
    pub(super) struct Field {
        log: [u8; 256],
        exp: [u8; 255],
    }

    impl Field {
        pub(super) fn new() -> Self {
            let (mut log, mut exp) = ([0; 256], [0; 255]);
            let mut power = 1u8;
            for (slot, n) in exp.iter_mut().zip(0u8..) {
                *slot = power;
                log[usize::from(power)] = n;
                // Times 3 is times x, plus itself.
                let doubled = (power << 1) ^ if power & 0x80 == 0 { 0 } else { 0x1b };
                power ^= doubled;
            }
            Self { log, exp }
        }

        fn log(&self, a: u8) -> usize {
            usize::from(self.log[usize::from(a)])
        }

        pub(super) fn mul(&self, a: u8, b: u8) -> u8 {
            if a == 0 || b == 0 { 0 } else { self.exp[(self.log(a) + self.log(b)) % 255] }
        }

        fn div(&self, a: u8, b: u8) -> u8 {
            if a == 0 { 0 } else { self.exp[(255 + self.log(a) - self.log(b)) % 255] }
        }

        /// The value at zero of the polynomial through `points`.
        pub(super) fn interpolate(&self, points: &[(u8, u8)]) -> u8 {
            let terms = points.iter().map(|&(x, y)| {
                let others = points.iter().filter(|&&(other, _)| other != x);
                others.fold(y, |term, &(other, _)| self.mul(term, self.div(other, other ^ x)))
            });
            terms.fold(0, |sum, term| sum ^ term)
        }
    }
}

#[test]
fn the_field_and_the_interpolation_agree_with_those_by_tables() {
    let tables = tables::Field::new();
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(field::mul(a, b), tables.mul(a, b));
        }
    }
    for (shares, threshold) in [(2, 2), (5, 3), (9, 7), (40, 21)] {
        let secret = secret();
        let split = split(&secret, shares, threshold).unwrap();
        let used = &split[..usize::from(threshold)];
        for byte in 0..KEY_BYTES {
            let points: Vec<_> = used.iter().map(|s| (s.point(), s.values()[byte])).collect();
            assert_eq!(tables.interpolate(&points), secret.expose()[byte]);
        }
    }
}

/// RUSTSEC-2024-0398 was a leading coefficient that is never zero. The statistic has 255 degrees of freedom: mean 255,
/// deviation 22.6; a sound generator passes 430 once in more than 10^10 runs.
#[test]
fn coefficients_are_uniform_the_leading_ones_included() {
    const CHI_SQUARE_MAX: f64 = 430.0;
    let (mut all, mut leading) = ([0u32; 256], [0u32; 256]);
    for _ in 0..1_250 {
        let coefficients = draw_coefficients(255).unwrap();
        for &coefficient in coefficients.iter() {
            all[usize::from(coefficient)] += 1;
        }
    }
    for _ in 0..20_000 {
        for &coefficient in &draw_coefficients(3).unwrap()[..KEY_BYTES] {
            leading[usize::from(coefficient)] += 1;
        }
    }
    for counts in [all, leading] {
        let total: u32 = counts.iter().sum();
        let expected = f64::from(total) / 256.0;
        let terms = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected);
        let statistic: f64 = terms.sum();
        assert!(statistic < CHI_SQUARE_MAX, "{statistic} over {total}");
    }
}

/// With a threshold of two, one share: for every secret byte and every point, each value of the share belongs to exactly
/// one coefficient. So a share alone is as likely under one secret as under another.
#[test]
fn a_share_too_few_says_nothing() {
    for point in [1, 2, 0x53, 0xff] {
        for byte in 0..=255u8 {
            let mut seen = [false; 256];
            let mut bytes = [byte; KEY_BYTES];
            // A key is not one repeated byte; only the first byte is looked at.
            bytes[KEY_BYTES - 1] ^= 1;
            let secret = SecretKey::from_bytes(&bytes).unwrap();
            for coefficient in 0..=255 {
                let share = share_at(&secret, &[coefficient; KEY_BYTES], point);
                assert!(!std::mem::replace(&mut seen[usize::from(share.values()[0])], true));
            }
        }
    }
}

/// A byte taken modulo 200 is one of the first 56 twice as often. Of 100,000 draws each number is within six deviations of its
/// share, which a fair draw misses once in a million runs.
#[test]
fn a_number_below_any_end_is_as_likely_as_another() {
    const DRAWS: usize = 100_000;
    for end in [3, 129, 200, 255] {
        let mut counts = vec![0_usize; end];
        for _ in 0..DRAWS {
            counts[super::draw_below(end).unwrap()] += 1;
        }
        let expected = DRAWS as f64 / end as f64;
        for (number, count) in counts.into_iter().enumerate() {
            let off = (count as f64 - expected).abs();
            assert!(off < 6.0 * expected.sqrt(), "{number} of {end}: {count}");
        }
    }
}
