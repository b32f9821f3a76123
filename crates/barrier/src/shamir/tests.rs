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
