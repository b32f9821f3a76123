//! What password policies mean, that every password fits its policy, and that draws are even.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::tests::Dice;

fn policy(text: &str) -> PasswordPolicy {
    PasswordPolicy::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn make(policy: &PasswordPolicy, dice: &mut Dice) -> String {
    let mut fill = |bytes: &mut [u8]| {
        bytes.iter_mut().for_each(|byte| *byte = u8::try_from(dice.below(256)).unwrap());
        Ok::<_, Infallible>(())
    };
    let Ok(password) = policy.make(&mut fill);
    password.to_string()
}

/// True when `password` is one of those that `policy` describes.
fn fits(policy: &PasswordPolicy, password: &str) -> bool {
    let count = |set: &[char]| password.chars().filter(|next| set.contains(next)).count();
    password.chars().count() == policy.length
        && count(&policy.union) == policy.length
        && policy.rules.iter().all(|rule| count(&rule.chars) >= rule.least)
}

#[test]
fn every_password_fits_its_policy() {
    let mut dice = Dice(7);
    for text in [
        "length = 20 rule \"charset\" { charset = \"abc\" min-chars = 1 }",
        "length = 4 rule \"charset\" { charset = \"abc\" }",
        "length = 4 rule \"charset\" { charset = \"abc\" min_chars = 4 }",
        "length = 100 rule \"charset\" { charset = \"a\" }",
        "length = 8 rule \"charset\" { charset = \"éß😀\" min-chars = 2 } rule \"charset\" { charset = \"0\" min-chars = 6 }",
        "{\"length\":12,\"rule\":[{\"charset\":{\"charset\":\"abc\",\"min-chars\":1}},{\"charset\":{\"charset\":\"cde\",\"min-chars\":5}}]}",
    ] {
        let policy = policy(text);
        for _ in 0..500 {
            let password = make(&policy, &mut dice);
            assert!(fits(&policy, &password), "{text} {password}");
        }
    }
    let policy = policy("length = 4 rule \"charset\" { charset = \"ab\" min-chars = 3 }");
    for other in ["abab1", "aba", "abcd", "ab12"] {
        assert!(!fits(&policy, other), "{other}");
    }
}

#[test]
fn faults_are_named_with_their_place() {
    for (text, says) in [
        (
            "length = 3 rule \"charset\" { charset = \"abc\" }",
            "passwords must be between 4 and 100 characters",
        ),
        (
            "length = 101 rule \"charset\" { charset = \"abc\" }",
            "passwords must be between 4 and 100 characters",
        ),
        ("length = 20", "invalid password policy: no charset specified at 1:1"),
        (
            "rule \"charset\" { charset = \"abc\" }",
            "invalid password policy: length must be > 0 at 1:1",
        ),
        (
            "length = \"8\" rule \"charset\" { charset = \"abc\" }",
            "invalid password policy: length must be > 0 at 1:10",
        ),
        (
            "length = 20 rule \"charset\" { charset = \"\" }",
            "invalid password policy: no charset specified at 1:18",
        ),
        (
            "length = 20 rule \"charset\" { min-chars = 1 }",
            "invalid password policy: no charset specified at 1:18",
        ),
        (
            "length = 20 rule \"bogus\" { charset = \"a\" }",
            "invalid password policy: unrecognized rule type at 1:18",
        ),
        (
            "length = 8 rule \"charset\" { charset = \"\\t\" }",
            "invalid password policy: non-printable character in charset at 1:39",
        ),
        (
            "length = 8 rule \"charset\" { charset = \"a\" min-chars = -1 }",
            "invalid password policy: min-chars is not a whole number at 1:55",
        ),
        (
            "length = 8 rule \"charset\" { charset = \"a\" foo = 1 }",
            "invalid password policy: unknown key at 1:43",
        ),
        ("length = 8 foo = 1", "invalid password policy: unknown key at 1:12"),
        (
            "length = 4 rule \"charset\" { charset = \"abc\" min-chars = 3 } rule \"charset\" { charset = \"d\" min-chars = 2 }",
            "invalid password policy: the rules require more characters than the length has at 1:1",
        ),
        (
            "length = 4 rule \"charset\" { charset = \"a\" min-chars = 18446744073709551615 } rule \"charset\" { charset = \"a\" min-chars = 18446744073709551615 }",
            "invalid password policy: the rules require more characters than the length has at 1:1",
        ),
    ] {
        let error = PasswordPolicy::parse(text).expect_err(text);
        assert_eq!(error.to_string(), says, "{text}");
    }
}

/// Chi-squared over 7 characters at every place: 42 degrees of freedom stay below 90 for a fair
/// generator but once in tens of thousands of seeds; taking a word modulo 7 of a byte would not.
#[test]
fn characters_and_places_are_even() {
    const DRAWN: usize = 20_000;
    let policy = policy("length = 7 rule \"charset\" { charset = \"abcdefgaaaa\" }");
    let mut dice = Dice(11);
    let mut counts: BTreeMap<(usize, char), usize> = BTreeMap::new();
    for _ in 0..DRAWN {
        for (place, next) in make(&policy, &mut dice).chars().enumerate() {
            *counts.entry((place, next)).or_default() += 1;
        }
    }
    assert_eq!(counts.len(), 49);
    let expected = DRAWN as f64 / 7.0;
    let squares = counts.values().map(|&count| (count as f64 - expected).powi(2) / expected);
    let chi: f64 = squares.sum();
    assert!(chi < 90.0, "{chi}");
}

#[test]
fn a_failing_source_is_told() {
    let policy = policy("length = 8 rule \"charset\" { charset = \"abc\" }");
    assert_eq!(policy.make(&mut |_: &mut [u8]| Err("dry")).unwrap_err(), "dry");
}

/// Bytes from zero on, so that the word of four that was drawn says which it was.
fn counting(next: &mut u32) -> impl FnMut(&mut [u8]) -> Result<(), Infallible> {
    |bytes| {
        for word in bytes.chunks_exact_mut(4) {
            word.copy_from_slice(&next.to_le_bytes());
            *next += 1;
        }
        Ok(())
    }
}

#[test]
fn every_random_byte_is_used_once() {
    let mut next = 0;
    let mut fill = counting(&mut next);
    let bytes = Zeroizing::new([0; DRAW_BYTES]);
    let mut draws = Draws { fill: &mut fill, bytes, used: DRAW_BYTES };
    for wanted in 0..100 {
        assert_eq!(draws.word(), Ok(wanted));
    }
}

#[test]
fn a_word_past_the_last_whole_multiple_is_drawn_again() {
    for (first, wanted) in [(u32::MAX, 1), (u32::MAX - 1, 2)] {
        let mut words = [first, 7].into_iter();
        let mut fill = |bytes: &mut [u8]| {
            let words = bytes.chunks_exact_mut(4).zip(words.by_ref());
            words.for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
            Ok::<_, Infallible>(())
        };
        let bytes = Zeroizing::new([0; DRAW_BYTES]);
        // 2^32 - 1 is a multiple of three.
        let drawn = Draws { fill: &mut fill, bytes, used: DRAW_BYTES }.below(3);
        assert_eq!(drawn, Ok(wanted), "{first}");
    }
}

/// What a rule asks for is put first; where it ends up has to say nothing about it.
#[test]
fn a_character_of_a_rule_is_at_each_place_as_often_as_at_another() {
    let text = "length = 4 rule \"charset\" { charset = \"a\" min-chars = 1 }
                rule \"charset\" { charset = \"b\" min-chars = 3 }";
    let (policy, mut dice) = (policy(text), Dice(13));
    let mut counts = [0; 4];
    for _ in 0..4_000 {
        counts[make(&policy, &mut dice).find('a').unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
}

#[test]
fn a_space_is_the_only_white_space_of_a_charset() {
    let parse = |charset: &str| {
        let text = format!("length = 4 rule \"charset\" {{ charset = \"a{charset}\" }}");
        PasswordPolicy::parse(&text).map_err(|error| error.fault)
    };
    assert!(parse(" ").is_ok());
    for other in ["\\t", "\u{a0}", "\u{2003}", "\\u007f", "\\u0085"] {
        assert_eq!(parse(other), Err(PasswordPolicyFault::NotPrintable), "{other:?}");
    }
}

#[test]
fn limits_hold_at_their_edges() {
    let charset = |count: u32| -> Result<usize, PasswordPolicyFault> {
        let chars: String = (0x4e00..0x4e00 + count).filter_map(char::from_u32).collect();
        let text = format!("length = 4 rule \"charset\" {{ charset = \"{chars}\" }}");
        PasswordPolicy::parse(&text).map(|read| read.union.len()).map_err(|error| error.fault)
    };
    assert_eq!(charset(4_096), Ok(4_096));
    assert_eq!(charset(4_097), Err(PasswordPolicyFault::TooMany));
    let least = |count: u64| {
        let text =
            format!("length = 100 rule \"charset\" {{ charset = \"a\" min-chars = {count} }}");
        PasswordPolicy::parse(&text).map(|read| read.rules[0].least).map_err(|error| error.fault)
    };
    assert_eq!(least(99), Ok(99));
    assert_eq!(least(100), Ok(100));
    for past in [101, 102, u64::MAX] {
        assert_eq!(least(past), Err(PasswordPolicyFault::LeastsPastLength), "{past}");
    }
}
