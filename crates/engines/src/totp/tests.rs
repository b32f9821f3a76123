//! Recorded answers, published vectors, and what is refused.

use kallisto_api::json::Map;
use kallisto_auth::Operation::{Delete, List, Read, Update};

use super::left::SWEPT_MAX;
use super::*;
use crate::testing::TestMount;

const SECRET: &str = "HXDMVJECJJWSRB3HWIZR4IFUGFTMXBOZ";
const NOW: i64 = 1_795_413_611;

fn mount() -> TestMount {
    TestMount::new(&ENGINE)
}

fn refusal(answer: Result<Map, Error>) -> String {
    answer.unwrap_err().to_string()
}

/// A mount with the key `k`, and how to ask for its code and check one.
fn with_key(body: &str) -> TestMount {
    let mount = mount();
    assert_eq!(mount.ask(NOW, Update, "keys/k", body), Ok(Map::new()));
    mount
}

fn code_at(mount: &TestMount, at: i64) -> String {
    TestMount::text(&mount.ask(at, Read, "code/k", "").unwrap(), "code")
}

fn check(mount: &TestMount, at: i64, code: &str) -> Result<String, Error> {
    let answer = mount.ask(at, Update, "code/k", &format!(r#"{{"code":"{code}"}}"#))?;
    Ok(TestMount::text(&answer, "valid"))
}

/// RFC 6238, appendix B: times, and the codes of eight digits of each hash.
#[test]
fn codes_are_those_of_the_standard() {
    const CODES: [(i64, [&str; 3]); 6] = [
        (59, ["94287082", "46119246", "90693936"]),
        (1_111_111_109, ["07081804", "68084774", "25091201"]),
        (1_111_111_111, ["14050471", "67062674", "99943326"]),
        (1_234_567_890, ["89005924", "91819424", "93441116"]),
        (2_000_000_000, ["69279037", "90698825", "38618901"]),
        (20_000_000_000, ["65353130", "77737706", "47863826"]),
    ];
    for (at, (algorithm, bytes)) in
        [("SHA1", 20), ("SHA256", 32), ("SHA512", 64)].iter().enumerate()
    {
        let secret: Vec<u8> = b"1234567890".iter().copied().cycle().take(*bytes).collect();
        let key = data_encoding::BASE32.encode(&secret);
        let mount = with_key(&format!(r#"{{"key":"{key}","algorithm":"{algorithm}","digits":8}}"#));
        for (time, codes) in CODES {
            assert_eq!(code_at(&mount, time), codes[at], "{algorithm} at {time}");
        }
    }
}

/// An answer of a real server, which was recorded.
#[test]
fn a_code_is_told_with_its_period_and_end() {
    let url = format!("otpauth://totp/Google:test@gmail.com?secret={SECRET}&issuer=Google");
    let mount = with_key(&format!(r#"{{"url":"{url}","key":"","generate":false}}"#));
    let answer = mount.ask(NOW, Read, "code/k", "").unwrap();
    for (name, value) in [
        ("code", "434213"),
        ("expire_time", "1795413630"),
        ("generated", "1795413611"),
        ("period", "30s"),
    ] {
        assert_eq!(TestMount::text(&answer, name), value, "{name}");
    }
    let mount =
        with_key(&format!(r#"{{"key":"{SECRET}","digits":8,"algorithm":"SHA512","period":60}}"#));
    let answer = mount.ask(NOW, Read, "code/k", "").unwrap();
    assert_eq!(
        (TestMount::text(&answer, "code"), TestMount::text(&answer, "period")),
        ("14278837".into(), "1m0s".into())
    );
}

#[test]
fn a_key_is_shown_without_its_secret_and_listed_and_deleted() {
    let mount = with_key(&format!(
        r#"{{"url":"otpauth://totp/I:a?secret={SECRET}&digits=8&period=60&algorithm=SHA256&issuer=J"}}"#
    ));
    let shown = mount.ask(NOW, Read, "keys/k", "").unwrap();
    let names: Vec<&str> = shown.keys().map(String::as_str).collect();
    assert_eq!(names, ["account_name", "algorithm", "digits", "issuer", "period"]);
    for (name, value) in [
        ("account_name", "a"),
        ("algorithm", "SHA256"),
        ("digits", "8"),
        ("issuer", "J"),
        ("period", "60"),
    ] {
        assert_eq!(TestMount::text(&shown, name), value, "{name}");
    }
    assert_eq!(TestMount::text(&mount.ask(NOW, List, "keys", "").unwrap(), "keys"), r#"["k"]"#);
    check(&mount, NOW, "00000000").unwrap();
    assert_eq!(mount.ask(NOW, Delete, "keys/k", ""), Ok(Map::new()));
    assert_eq!(mount.names(), Vec::<String>::new(), "what was tried goes with the key");
    assert_eq!(mount.ask(NOW, Delete, "keys/none", ""), Ok(Map::new()));
    assert_eq!(mount.ask(NOW, Read, "keys/k", ""), Err(Error::NotFound));
    assert_eq!(mount.ask(NOW, List, "keys", ""), Err(Error::NotFound));
    assert_eq!(mount.ask(NOW, Read, "keys/a b", ""), Err(Error::UnsupportedPath));
}

#[test]
fn a_key_that_is_made_is_shown_once_unless_it_is_not_to_be() {
    let mount = mount();
    let made = mount
        .ask(NOW, Update, "keys/k", r#"{"generate":true,"issuer":"V W","account_name":"a:b","key_size":32,"digits":8,"period":"1m","algorithm":"SHA256","skew":0}"#)
        .unwrap();
    let url = TestMount::text(&made, "url");
    assert!(
        url.starts_with(
            "otpauth://totp/V%20W:a%3Ab?algorithm=SHA256&digits=8&issuer=V%20W&period=60&secret="
        ),
        "{url}"
    );
    let barcode =
        data_encoding::BASE64.decode(TestMount::text(&made, "barcode").as_bytes()).unwrap();
    assert!(barcode.starts_with(b"\x89PNG\r\n"));
    // What is written reads back as the same key.
    let taken = format!(r#"{{"url":"{url}","skew":0}}"#);
    assert_eq!(mount.ask(NOW, Update, "keys/other", &taken), Ok(Map::new()));
    let code = |name: &str| {
        TestMount::text(&mount.ask(NOW, Read, &format!("code/{name}"), "").unwrap(), "code")
    };
    assert_eq!(code("k"), code("other"));
    assert_eq!(mount.ask(NOW, Read, "keys/k", ""), mount.ask(NOW, Read, "keys/other", ""));
    let make = |more: &str| {
        let body = format!(r#"{{"generate":true,"issuer":"V","account_name":"a"{more}}}"#);
        mount.ask(NOW, Update, "keys/p", &body).unwrap()
    };
    assert_eq!(make(r#","exported":false"#), Map::new());
    let names: Vec<String> = make(r#","qr_size":0"#).into_keys().collect();
    assert_eq!(names, ["url"]);
}

#[test]
fn what_no_key_has_is_refused_in_the_words_clients_know() {
    let mount = mount();
    for (body, words) in [
        ("{}", "the key value is required"),
        (r#"{"key":"===="}"#, "the key value is required"),
        (r#"{"key":"1"}"#, "invalid key value: illegal base32 data"),
        (r#"{"key":"ABC!"}"#, "invalid key value: illegal base32 data at input byte 3"),
        (r#"{"key":"AB","digits":7}"#, "the digits value can only be 6 or 8"),
        (r#"{"key":"AB","algorithm":"MD5"}"#, "the algorithm value is not valid"),
        (r#"{"key":"AB","period":0}"#, "the period value must be greater than zero"),
        (r#"{"key":"AB","period":-1}"#, "the period value must be greater than zero"),
        (r#"{"key":"AB","period":"9000h"}"#, "the period value must be a year at most"),
        (r#"{"key":"AB","skew":2}"#, "the skew value must be 0 or 1"),
        (r#"{"key":"AB","qr_size":-1}"#, "the qr_size value must be greater than or equal to zero"),
        (r#"{"key":"AB","qr_size":2049}"#, "the qr_size value must be 2048 at most"),
        (r#"{"key":"AB","key_size":0}"#, "the key_size value must be greater than zero"),
        (r#"{"key":"AB","key_size":1025}"#, "the key_size value must be 1024 at most"),
        (r#"{"generate":true,"key":"AB"}"#, "a key should not be passed if generate is true"),
        (r#"{"generate":true,"url":"x"}"#, "a url should not be passed if generate is true"),
        (
            r#"{"generate":true,"issuer":"I"}"#,
            "the account_name value is required for generated keys",
        ),
        (
            r#"{"generate":true,"account_name":"a"}"#,
            "the issuer value is required for generated keys",
        ),
        (r#"{"generate":true,"issuer":"I","account_name":"a","qr_size":10}"#, "needs a qr_size of"),
        (r#"{"url":"otpauth://hotp/x?secret=AB"}"#, "the url is of no time-based key"),
        (r#"{"url":"https://totp/x?secret=AB"}"#, "the url is of no time-based key"),
        (r#"{"url":"otpauth://totp/x"}"#, "the key value is required"),
        (
            r#"{"url":"otpauth://totp/x?secret=AB&digits=six"}"#,
            "an error occurred while parsing digits value in url",
        ),
        (r#"{"url":"otpauth://totp/%zz?secret=AB"}"#, "an error occurred while parsing url string"),
    ] {
        let refused = refusal(mount.ask(NOW, Update, "keys/k", body));
        assert!(refused.starts_with(words) || refused.contains(words), "{body}: {refused}");
    }
    assert_eq!(mount.names(), Vec::<String>::new(), "nothing is kept of what is refused");
    assert_eq!(refusal(mount.ask(NOW, Read, "code/none", "")), "unknown key: none");
    assert_eq!(
        refusal(mount.ask(NOW, Update, "code/none", r#"{"code":"1"}"#)),
        "unknown key: none"
    );
}

#[test]
fn a_code_is_good_once_and_in_its_period_and_those_beside_it() {
    let mount = with_key(&format!(r#"{{"key":"{SECRET}","account_name":"a","issuer":"I"}}"#));
    let (here, before, long_ago) =
        (code_at(&mount, NOW), code_at(&mount, NOW - 30), code_at(&mount, NOW - 120));
    assert_eq!(refusal(mount.ask(NOW, Update, "code/k", "{}")), "the code value is required");
    assert_eq!(check(&mount, NOW, &here), Ok("true".into()));
    let used = "code already used; wait until the next time period";
    assert_eq!(refusal(mount.ask(NOW, Update, "code/k", &format!(r#"{{"code":"{here}"}}"#))), used);
    assert_eq!(check(&mount, NOW, &before), Ok("true".into()));
    assert_eq!(check(&mount, NOW, &long_ago), Ok("false".into()));
    for spelled in [
        format!(" {here}"),
        format!("{here} "),
        "12345".into(),
        "1234567".into(),
        "12345x".into(),
        "１23456".into(),
    ] {
        assert_eq!(
            check(&mount, NOW, &spelled).unwrap_err().to_string(),
            "invalid number of digits for the code"
        );
    }
    // It stays used as long as it would be good, and no wrong code drives it out.
    assert_eq!(check(&mount, NOW + 30, "000000"), Ok("false".into()));
    assert_eq!(check(&mount, NOW + 30, &here).unwrap_err().to_string(), used);
    assert_eq!(check(&mount, NOW + 60, &here), Ok("false".into()));
    // Without skew the period's own code alone is good.
    let mount = with_key(&format!(r#"{{"key":"{SECRET}","skew":0}}"#));
    assert_eq!(check(&mount, NOW, &before), Ok("false".into()));
    assert_eq!(check(&mount, NOW, &here), Ok("true".into()));
}

#[test]
fn wrong_codes_are_looked_at_five_times_a_period() {
    let mount = with_key(&format!(r#"{{"key":"{SECRET}"}}"#));
    let here = code_at(&mount, NOW);
    let wrong = if here == "000000" { "000001" } else { "000000" };
    for _ in 0..WRONG_TRIES_MAX {
        assert_eq!(check(&mount, NOW, wrong), Ok("false".into()));
    }
    let left = 30 - u64::try_from(NOW).unwrap() % 30;
    for code in [wrong, &here] {
        assert_eq!(check(&mount, NOW, code), Err(Error::TooManyTries { retry_after_secs: left }));
    }
    assert_eq!(check(&mount, NOW + 30, &here), Ok("true".into()), "the next period begins anew");
}

/// RFC 6238, section 5.2: a code is taken once, whatever becomes of the record of its key.
#[test]
fn a_code_that_was_taken_is_not_taken_by_the_same_key_made_again() {
    const USED: &str = "code already used; wait until the next time period";
    let body = format!(r#"{{"key":"{SECRET}"}}"#);
    let mount = with_key(&body);
    let here = code_at(&mount, NOW);
    let next = code_at(&mount, NOW + 30);
    assert_eq!(check(&mount, NOW, &here), Ok("true".into()));
    let is_used = |why: &str| {
        assert_eq!(refusal_of(check(&mount, NOW, &here)), USED, "{why}");
    };
    let write = |body: &str| mount.ask(NOW, Update, "keys/k", body).unwrap();
    write(&body);
    is_used("written again");
    let ends = |mount: &TestMount| mount.names_in("left/") + mount.names_in("ends/");
    for _ in 0..2 {
        mount.ask(NOW, Delete, "keys/k", "").unwrap();
        assert_eq!(ends(&mount), 2);
        // A deletion of what is not there leaves what is left.
        mount.ask(NOW, Delete, "keys/k", "").unwrap();
        write(&body);
        is_used("made again");
        assert_eq!(ends(&mount), 0);
    }
    // Settings of the same key do not matter, nor what was tried while they were others.
    write(&format!(r#"{{"key":"{SECRET}","skew":0}}"#));
    assert_eq!(check(&mount, NOW + 30, &next), Ok("true".into()));
    write(&body);
    assert_eq!(refusal_of(check(&mount, NOW + 30, &here)), USED, "skew");
    // Another key has codes of its own, and those are good.
    let other = r#"{"key":"MFRGGZDFMZTWQ2LK"}"#;
    for deletes in [false, true] {
        if deletes {
            mount.ask(NOW, Delete, "keys/k", "").unwrap();
        }
        write(other);
        assert_eq!(check(&mount, NOW, &code_at(&mount, NOW)), Ok("true".into()));
        write(&body);
        assert_eq!(check(&mount, NOW, &here), Ok("true".into()));
    }
}

fn refusal_of(answer: Result<String, Error>) -> String {
    answer.unwrap_err().to_string()
}

/// What stays of a key that was deleted goes once its last code could not be taken anyway.
#[test]
fn what_is_left_of_deleted_keys_goes_when_their_codes_are_past() {
    let mount = mount();
    let body = format!(r#"{{"key":"{SECRET}"}}"#);
    let write = |at: i64, name: &str| mount.ask(at, Update, &format!("keys/{name}"), &body);
    let count = 3 * SWEPT_MAX;
    for number in 0..count {
        let name = format!("k{number}");
        write(NOW, &name).unwrap();
        let code =
            TestMount::text(&mount.ask(NOW, Read, &format!("code/{name}"), "").unwrap(), "code");
        let body = format!(r#"{{"code":"{code}"}}"#);
        mount.ask(NOW, Update, &format!("code/{name}"), &body).unwrap();
        mount.ask(NOW, Delete, &format!("keys/{name}"), "").unwrap();
    }
    let left = |folder: &str| mount.names_in(folder);
    assert_eq!((left("left/"), left("ends/")), (count, count));
    // The codes are those of a period that began 11 seconds before; the one after it has to go by.
    let past = NOW - 11 + 60;
    write(past - 1, "other").unwrap();
    assert_eq!((left("left/"), left("ends/")), (count, count));
    for swept in 1..=3 {
        write(past, "other").unwrap();
        let rest = count - swept * SWEPT_MAX;
        assert_eq!((left("left/"), left("ends/")), (rest, rest));
    }
    // Of what nobody took a code of, nothing stays.
    mount.ask(past, Delete, "keys/other", "").unwrap();
    assert_eq!(mount.names(), Vec::<String>::new());
}
