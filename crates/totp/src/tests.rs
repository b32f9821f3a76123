//! Published vectors, bounds at their edges, and a second reader for what is written: URLs and QR codes.

use data_encoding::{BASE32, BASE64};
use kallisto_api::json::{self, Map};
use kallisto_api::{Error, Fields};
use qrcode::{Color, QrCode};

use super::*;

const SECRET: &str = "HXDMVJECJJWSRB3HWIZR4IFUGFTMXBOZ";
/// The first second of a period of 30 s.
const START: u64 = 1_800_000_000;

fn map(body: &str) -> Map {
    json::parse_object(body.as_bytes()).unwrap()
}

fn input(body: &str) -> Result<KeyInput, Error> {
    KeyInput::read(Fields::new(&map(body)))
}

fn none(_: &mut [u8]) -> Result<(), Error> {
    Err(Error::NotFound)
}

fn key(body: &str) -> TotpKey {
    input(body).unwrap().make(none).unwrap()
}

fn plain_key() -> TotpKey {
    key(&format!(r#"{{"key":"{SECRET}","issuer":"Vault Inc","account_name":"a:b@c"}}"#))
}

/// The text of a refusal.
fn refusal<T>(answer: Result<T, Error>) -> String {
    answer.err().expect("it is refused").to_string()
}

/// RFC 6238, appendix B: times, and the codes of eight digits of each hash.
#[test]
fn codes_of_every_hash_are_those_of_the_standard() {
    const CODES: [(u64, [&str; 3]); 6] = [
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
        let text = BASE32.encode(&secret);
        let key = key(&format!(r#"{{"key":"{text}","algorithm":"{algorithm}","digits":8}}"#));
        assert_eq!(*key.secret, secret);
        for (time, codes) in CODES {
            assert_eq!(key.code(time / 30), codes[at], "{algorithm} at {time}");
            assert!(key.is_code_of(time / 30, codes[at]));
            for other in [codes[(at + 1) % 3], &codes[at][1..], ""] {
                assert!(!key.is_code_of(time / 30, other));
            }
        }
    }
}

#[test]
fn what_is_asked_of_a_key_is_taken_up_to_its_bounds_and_no_further() {
    let made = |fields: &str| {
        input(&format!(r#"{{"generate":true,"issuer":"i","account_name":"a"{fields}}}"#))
    };
    for taken in [
        r#","digits":6"#,
        r#","digits":8"#,
        r#","skew":0"#,
        r#","skew":1"#,
        r#","period":1"#,
        r#","period":31622400"#,
        r#","qr_size":0"#,
        r#","qr_size":2048"#,
        r#","key_size":1"#,
        r#","key_size":1024"#,
    ] {
        assert!(made(taken).is_ok(), "{taken}");
    }
    for (refused, why) in [
        (r#","digits":7"#, "the digits value can only be 6 or 8"),
        (r#","skew":2"#, "the skew value must be 0 or 1"),
        (r#","skew":-1"#, "the skew value must be 0 or 1"),
        (r#","period":0"#, "the period value must be greater than zero"),
        (r#","period":-1"#, "the period value must be greater than zero"),
        (r#","period":31622401"#, "the period value must be a year at most"),
        (r#","qr_size":-1"#, "the qr_size value must be greater than or equal to zero"),
        (r#","qr_size":2049"#, "the qr_size value must be 2048 at most"),
        (r#","key_size":0"#, "the key_size value must be greater than zero"),
        (r#","key_size":1025"#, "the key_size value must be 1024 at most"),
        (r#","algorithm":"MD5""#, "the algorithm value is not valid"),
        (r#","algorithm":"""#, "the algorithm value is not valid"),
        (r#","key":"MFRGG""#, "a key should not be passed if generate is true"),
        (r#","url":"x""#, "a url should not be passed if generate is true"),
    ] {
        assert_eq!(refusal(made(refused)), why, "{refused}");
    }
    let label = |issuer: usize, account: usize| {
        let (issuer, account) = ("i".repeat(issuer), "a".repeat(account));
        input(&format!(r#"{{"key":"MFRGG","issuer":"{issuer}","account_name":"{account}"}}"#))
    };
    assert!(label(512, 512).is_ok() && label(0, 0).is_ok());
    assert!(label(513, 1).is_err() && label(1, 513).is_err());
    for (unnamed, why) in [
        (r#"{"generate":true,"issuer":"i"}"#, "account_name"),
        (r#"{"generate":true,"account_name":"a"}"#, "issuer"),
    ] {
        let why = format!("the {why} value is required for generated keys");
        assert_eq!(refusal(input(unnamed)), why);
    }
}

#[test]
fn a_key_is_read_in_any_case_with_or_without_padding_and_within_its_length() {
    for text in ["MFRGG", "mfrgg", "MFRGG===", "mFrGg="] {
        assert_eq!(*key(&format!(r#"{{"key":"{text}"}}"#)).secret, b"abc", "{text}");
    }
    for (text, why) in [
        ("", "the key value is required"),
        ("===", "the key value is required"),
        ("MFRG1", "invalid key value: illegal base32 data at input byte 4"),
        ("M", "invalid key value: illegal base32 data at input byte 0"),
    ] {
        assert_eq!(refusal(input(&format!(r#"{{"key":"{text}"}}"#))), why, "{text}");
    }
    let of = |bytes: usize| input(&format!(r#"{{"key":"{}"}}"#, BASE32.encode(&vec![7; bytes])));
    assert!(of(1024).is_ok());
    assert_eq!(refusal(of(1025)), "a key of more than 1024 bytes");
}

/// Letters that were drawn one by one: of 26, the last has two bits more than 16 bytes take.
#[test]
fn a_key_is_its_whole_bytes_whatever_bits_its_last_letter_has_besides() {
    for (texts, bytes) in [
        (&["MFRGG", "MFRGH"][..], &b"abc"[..]),
        (&["ME", "MF", "MG", "MH"], b"a"),
        (&["MFRGGZDFMY", "MFRGGZDFMZ"], b"abcdef"),
    ] {
        for text in texts {
            let read = key(&format!(r#"{{"key":"{text}"}}"#));
            assert_eq!(*read.secret, bytes, "{text}");
            // It is kept in its one spelling.
            assert_eq!(*TotpKey::decode(&read.encode()).unwrap().secret, bytes, "{text}");
        }
    }
    let drawn = "ABCDEFGHIJKLMNOPQRSTUVWXY".to_owned();
    for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".chars() {
        assert_eq!(key(&format!(r#"{{"key":"{drawn}{last}"}}"#)).secret.len(), 16, "{last}");
    }
}

#[test]
fn a_key_that_is_made_is_drawn_whole_and_shown_unless_that_is_not_wanted() {
    let fill = |bytes: &mut [u8]| {
        bytes.fill(9);
        Ok(())
    };
    let made = |fields: &str| {
        input(&format!(r#"{{"generate":true,"issuer":"i","account_name":"a"{fields}}}"#)).unwrap()
    };
    assert_eq!(*made("").make(fill).unwrap().secret, [9; 20]);
    assert_eq!(*made(r#","key_size":33"#).make(fill).unwrap().secret, [9; 33]);
    assert_eq!(made("").make(none).err(), Some(Error::NotFound));
    assert_eq!(made("").shown(), Some(200));
    assert_eq!(made(r#","qr_size":7"#).shown(), Some(7));
    assert_eq!(made(r#","exported":false"#).shown(), None);
    assert_eq!(input(&format!(r#"{{"key":"{SECRET}"}}"#)).unwrap().shown(), None);
}

#[test]
fn a_record_reads_back_and_a_damaged_one_is_an_error() {
    let key = plain_key();
    assert_eq!(key.secret_text().as_str(), SECRET);
    assert!(TotpKey::decode(&key.encode()).unwrap() == key);
    let shown = r#"{"account_name":"a:b@c","algorithm":"SHA1","digits":6,"issuer":"Vault Inc","period":30}"#;
    assert_eq!(String::from_utf8(json::Json::Object(key.shown()).to_text()).unwrap(), shown);
    let tries = key_tries(&key);
    assert_eq!(Tries::decode(&tries.encode()).unwrap(), tries);
    for damaged in [
        "",
        "{}",
        "[]",
        r#"{"period":1,"used":[],"wrong":"1"}"#,
        r#"{"period":1,"used":["1"],"wrong":1}"#,
    ] {
        assert_eq!(Tries::decode(damaged.as_bytes()), None, "{damaged}");
        assert!(TotpKey::decode(damaged.as_bytes()).is_none());
    }
}

/// After a good and a wrong code in one period.
fn key_tries(key: &TotpKey) -> Tries {
    let (judged, tries) = Tries::default().judge(key, &key.code(START / 30), START, 5);
    assert_eq!(judged, JudgedCode::Valid);
    let (judged, tries) = tries.unwrap().judge(key, "wrong", START + 1, 5);
    assert_eq!(judged, JudgedCode::Wrong);
    tries.unwrap()
}

#[test]
fn codes_of_the_periods_beside_are_good_once_and_no_others() {
    for skew in [0, 1_u64] {
        let key = key(&format!(r#"{{"key":"{SECRET}","skew":{skew}}}"#));
        let now = START / 30;
        for number in now - 3..=now + 3 {
            let (judged, tries) = Tries::default().judge(&key, &key.code(number), START, 5);
            let is_near = number.abs_diff(now) <= skew;
            assert_eq!(judged == JudgedCode::Valid, is_near, "{number}");
            if is_near {
                let again = tries.unwrap().judge(&key, &key.code(number), START, 5);
                assert_eq!(again, (JudgedCode::Used, None));
            }
        }
    }
}

#[test]
fn codes_that_were_taken_are_known_for_any_skew_until_they_could_not_come_again() {
    let (key, now) = (plain_key(), START / 30);
    assert_eq!(Tries::default().used_until(&key), None);
    let (judged, tries) = Tries::default().judge(&key, &key.code(now), START, 5);
    assert_eq!(judged, JudgedCode::Valid);
    let tries = tries.unwrap();
    assert_eq!(tries.used_until(&key), Some((now + 2) * 30));
    let narrow = TotpKey { skew: 0, ..key.clone() };
    let (judged, tries) = tries.judge(&narrow, &key.code(now + 1), START + 30, 5);
    assert_eq!(judged, JudgedCode::Valid);
    let tries = tries.unwrap();
    assert_eq!(tries.judge(&key, &key.code(now), START + 30, 5), (JudgedCode::Used, None));
    assert_eq!(tries.used_until(&key), Some((now + 3) * 30));
}

#[test]
fn a_fingerprint_is_of_the_secret_and_of_nothing_else() {
    let plain = plain_key();
    let settings = r#""digits":8,"period":60,"algorithm":"SHA512","skew":0,"issuer":"x""#;
    let same = key(&format!(r#"{{"key":"{SECRET}",{settings}}}"#));
    assert_eq!(same.fingerprint(), plain.fingerprint());
    assert_ne!(key(r#"{"key":"MFRGG"}"#).fingerprint(), plain.fingerprint());
    assert_eq!(plain.fingerprint().len(), 32);
}

#[test]
fn wrong_codes_are_counted_by_period_and_good_ones_are_not_looked_at_past_the_last() {
    let key = plain_key();
    let mut tries = Tries::default();
    for at in 0..5 {
        let (judged, after) = tries.judge(&key, "x", START + at, 5);
        assert_eq!(judged, JudgedCode::Wrong);
        tries = after.unwrap();
    }
    for at in [0, 1, 29] {
        let left = std::time::Duration::from_secs(30 - at);
        let judged = tries.judge(&key, &key.code(START / 30), START + at, 5);
        assert_eq!(judged, (JudgedCode::TooMany { left }, None));
    }
    // The next period begins with none, and so does the one before, of a clock that was set back.
    for secs in [START + 30, START - 1] {
        let (judged, _) = tries.judge(&key, &key.code(secs / 30), secs, 5);
        assert_eq!(judged, JudgedCode::Valid);
        let (_, after) = tries.judge(&key, "x", secs, 5);
        assert_eq!(
            after.unwrap().judge(&key, "x", secs, 1).0,
            JudgedCode::TooMany { left: std::time::Duration::from_secs(30 - secs % 30) }
        );
    }
}

#[test]
fn a_second_factor_is_made_by_its_method_and_judged_by_its_records() {
    let method = complete_method(&map(r#"{"issuer":"K"}"#)).unwrap();
    let filled = r#"{"algorithm":"SHA1","digits":6,"issuer":"K","key_size":20,"period":30,"qr_size":200,"skew":1}"#;
    assert_eq!(method, map(filled));
    for refused in [r#"{}"#, r#"{"issuer":"K","digits":7}"#, r#"{"issuer":"K","period":0}"#] {
        assert!(complete_method(&map(refused)).is_err(), "{refused}");
    }
    let fill = |bytes: &mut [u8]| {
        bytes.fill(1);
        Ok(())
    };
    // A method has no key of its own, whatever its fields say.
    let mut lying = method;
    lying.insert("key".to_owned(), SECRET.into());
    let NewFactor { record, url } = make_factor(&lying, "ann", fill).unwrap();
    let key = TotpKey::decode(&record).unwrap();
    assert_eq!((key.account_name.as_str(), &**key.secret), ("ann", &[1; 20][..]));
    assert_eq!(url, write_url(&key));
    let judge = |tries: Option<&[u8]>, code: &str| {
        let before = tries.map(|tries| Tries::decode(tries).unwrap()).unwrap_or_default();
        judge_factor(&key, &before, code, 1, START)
    };
    let good = key.code(START / 30);
    let valid = judge(None, &good);
    assert_eq!(valid.outcome, FactorOutcome::Valid);
    let used = judge(valid.tries.as_deref(), &good);
    assert_eq!((used.outcome, used.tries), (FactorOutcome::Used, None));
    for malformed in ["", "12345", "1234567", "12345a", "+12345", "\u{661}\u{661}\u{661}"] {
        let verdict = judge(None, malformed);
        assert_eq!((verdict.outcome, verdict.tries), (FactorOutcome::Malformed, None));
    }
    let near: Vec<String> = (0..3).map(|n| key.code(START / 30 + n - 1)).collect();
    let wrong = ["000000", "111111", "222222", "333333"];
    let wrong = wrong.iter().find(|code| !near.iter().any(|near| near == *code)).unwrap();
    let wrong = judge(None, wrong);
    assert_eq!(wrong.outcome, FactorOutcome::Wrong);
    let late = judge(wrong.tries.as_deref(), &good);
    assert_eq!(late.outcome, FactorOutcome::TooMany { retry_after_secs: 30 });
}

#[test]
fn a_url_says_what_its_key_is_and_is_read_as_apps_write_it() {
    let written = "otpauth://totp/Vault%20Inc:a%3Ab@c?algorithm=SHA1&digits=6&issuer=Vault%20Inc&period=30\
        &secret=HXDMVJECJJWSRB3HWIZR4IFUGFTMXBOZ";
    assert_eq!(write_url(&plain_key()), written);
    assert!(key(&format!(r#"{{"url":"{written}"}}"#)) == plain_key());
    let read = |url: &str| input(&format!(r#"{{"url":"{url}"}}"#)).and_then(|read| read.make(none));
    let found = read(
        "OTPAUTH://TOTP/From%C3%A9:+ann%7e?secret=MFRGG&issuer=&algorithm=SHA512&digits=8&period=60#x",
    );
    let found = found.unwrap();
    assert_eq!((found.issuer.as_str(), found.account_name.as_str()), ("From\u{e9}", "+ann~"));
    assert_eq!((found.algorithm, found.digits, found.period_secs), (CodeHash::Sha512, 8, 60));
    let named = read("otpauth://totp/label:%20ann?secret=MFRGG&issuer=param").unwrap();
    assert_eq!((named.issuer.as_str(), named.account_name.as_str()), ("param", "ann"));
    for (url, why) in [
        ("otpauth://hotp/a?secret=MFRGG", "the url is of no time-based key"),
        ("otpauth", "the url is of no time-based key"),
        ("otpauth://totp/%4?secret=MFRGG", "parsing url string"),
        ("otpauth://totp/%4g?secret=MFRGG", "parsing url string"),
        ("otpauth://totp/%ff?secret=MFRGG", "parsing url string"),
        ("otpauth://totp/a?secret=MFRGG&digits=six", "parsing digits value"),
        ("otpauth://totp/a?secret=MFRGG&period=x", "parsing period value"),
        ("otpauth://totp/a", "the key value is required"),
    ] {
        assert!(refusal(read(url)).contains(why), "{url}");
    }
}

/// Every pixel of the picture is the module that it lies in, with white around them all.
#[test]
fn a_picture_shows_the_modules_of_its_text_and_white_around_them() {
    let url = write_url(&plain_key());
    let code = QrCode::new(url.as_bytes()).unwrap();
    let width = code.width();
    let least = u32::try_from(width + 8).unwrap();
    for pixels in [least, least + 1, 2 * least - 1, 2 * least, 333] {
        let file = BASE64.decode(draw_qr(&url, pixels).unwrap().as_bytes()).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut image = vec![0; (pixels * pixels) as usize];
        reader.next_frame(&mut image).unwrap();
        let (scale, side) = ((pixels / least) as usize, pixels as usize);
        let edge = (side - scale * width) / 2;
        assert!(edge >= 4 * scale, "a quiet zone of four modules");
        let mut expected = vec![255_u8; side * side];
        for y in 0..width * scale {
            for x in 0..width * scale {
                if code[(x / scale, y / scale)] == Color::Dark {
                    expected[(y + edge) * side + x + edge] = 0;
                }
            }
        }
        assert!(image == expected, "{pixels}");
    }
    assert!(refusal(draw_qr(&url, least - 1)).contains(&format!("a qr_size of {least} at least")));
    assert!(draw_qr(&"x".repeat(5000), 2048).is_err());
}

#[test]
fn a_key_is_taken_as_services_and_files_show_it() {
    let plain = plain_key();
    let groups: Vec<&str> = (0..SECRET.len()).step_by(4).map(|at| &SECRET[at..at + 4]).collect();
    let spaced = groups.join(" ").to_lowercase();
    for text in [spaced.as_str(), &format!("{SECRET}\\n"), &format!(" {SECRET}=\\r\\n")] {
        let body = format!(r#"{{"key":"{text}","issuer":"Vault Inc","account_name":"a:b@c"}}"#);
        assert!(key(&body) == plain, "{text}");
    }
    for end in ["", "\\n", "\\r\\n"] {
        let body = format!(r#"{{"url":"otpauth://totp/A:b?secret={SECRET}&period=60{end}"}}"#);
        assert_eq!(key(&body).period_secs, 60);
    }
    let refused = refusal(input(r#"{"key":" \n "}"#));
    assert!(refused.contains("the key value is required"), "{refused}");
}
